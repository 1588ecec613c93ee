"""Whatever a server calls its things, nothing of it steers the terminal: listings, errors, `repr`, help and files."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListPromptsResult, ListToolsResult, Prompt, PromptArgument, TextContent, Tool

from mcp_magic._unicode import HIDDEN
from mcp_magic.errors import MCPMagicError
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from collections.abc import Iterable


NASTY = "t\x1b]0;owned\x07\x1b[2J\u202egnp.exe"
SCHEMA = {
    "type": "object",
    "properties": {
        NASTY: {"type": "string", "description": NASTY, "enum": [NASTY, "other"]},
        "plain": {"type": "integer", "title": NASTY},
    },
    "required": ["plain"],
}


@pytest.fixture
async def nasty(magic):
    async def tools(context: Any, params: Any) -> ListToolsResult:
        look = {"title": NASTY, "description": NASTY, "input_schema": SCHEMA}
        return ListToolsResult(tools=[Tool(name=name, **look) for name in (NASTY, "plain", "line\nend")])

    async def prompts(context: Any, params: Any) -> ListPromptsResult:
        arguments = [PromptArgument(name=NASTY)]
        return ListPromptsResult(prompts=[Prompt(name=NASTY, description=NASTY, arguments=arguments)])

    async def call(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=NASTY)], is_error=params.arguments["plain"] == 0)

    handlers: Any = {"on_list_tools": tools, "on_list_prompts": prompts, "on_call_tool": call}
    await host.connect(Server("nasty", instructions=NASTY, **handlers), name="nasty")
    return magic


def hidden(texts: Iterable[str | None]) -> list[str]:
    return [text for text in texts if HIDDEN.search(text or "")]


async def test_shown_texts_are_clean(nasty):
    for line in (
        *("", "tools nasty", "prompts nasty", "tool nasty:plain", "docs nasty", "stubs nasty", "logs nasty", "trace"),
        *("call nasty:plain plain:=1", "doctor nasty", "metrics", "form nasty:plain", "ui nasty", "approvals"),
    ):
        shown = await nasty(line)
        texts = [text for text in shown._repr_mimebundle_().values() if isinstance(text, str)]
        assert hidden([str(shown), repr(shown), *texts]) == [], line


async def test_raised_errors_are_clean(nasty):
    for line in (
        *("call nasty:nothing", "call nasty:plain plain=x", "call nasty:plain plain:=1 no=1"),
        *("call nasty:plain plain:=0", "prompt nasty:nothing", "raw nasty tools/nothing"),
        *("tool nasty:nothing", "read nasty://nothing"),
    ):
        with pytest.raises(MCPMagicError) as raised:
            await nasty(line)
        shown = "".join(raised.value._render_traceback_()).replace("\x1b[31m", "").replace("\x1b[0m", "")
        assert hidden([str(raised.value), shown]) == [], line
        assert "line\nend" not in str(raised.value) + shown


async def test_functions_and_files_are_clean(nasty):
    tools = host["nasty"].tools
    texts = [repr(tools), *(repr(tools[name]) for name in tools), *(inspect.getdoc(tools[name]) for name in tools)]
    for command in ("docs", "stubs", "snapshot"):
        await nasty(f"{command} nasty -o {command}")
        texts.append((nasty.folder / command).read_text())
    assert hidden(texts) == []
    assert len(await nasty("diff nasty snapshot")) == 0, "what is written out is read back"
