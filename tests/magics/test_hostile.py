"""Whatever a server calls its things, nothing of it steers the terminal: listings, errors, `repr`, help and files."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolResult,
    ListPromptsResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    TextContent,
    Tool,
)

from mcp_magic._text import HIDDEN
from mcp_magic.errors import MCPMagicError
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from pathlib import Path

NASTY = "t\x1b]0;owned\x07\x1b[2J\u202egnp.exe"
SCHEMA = {
    "type": "object",
    "properties": {
        NASTY: {"type": "string", "description": NASTY, "enum": [NASTY, "other"]},
        "plain": {"type": "integer", "title": NASTY},
    },
    "required": ["plain"],
}


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    names = (NASTY, "plain", "line\nend")
    return ListToolsResult(
        tools=[Tool(name=name, title=NASTY, description=NASTY, input_schema=SCHEMA) for name in names]
    )


async def list_prompts(context: Any, params: Any) -> ListPromptsResult:
    return ListPromptsResult(prompts=[Prompt(name=NASTY, description=NASTY, arguments=[PromptArgument(name=NASTY)])])


async def call_tool(context: Any, params: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=NASTY)], is_error=params.arguments["plain"] == 0)


@pytest.fixture
async def nasty(magic: Any) -> Any:
    server: Any = Server(
        "nasty", on_list_tools=list_tools, on_list_prompts=list_prompts, on_call_tool=call_tool, instructions=NASTY
    )
    await host.connect(server, name="nasty")
    return magic


@pytest.mark.parametrize(
    "line",
    [
        *("", "tools nasty", "prompts nasty", "tool nasty:plain", "docs nasty", "stubs nasty", "logs nasty", "trace"),
        *("call nasty:plain plain:=1", "doctor nasty", "metrics", "form nasty:plain", "ui nasty", "approvals"),
    ],
)
async def test_what_is_shown_is_clean(nasty: Any, line: str) -> None:
    shown = await nasty(line)
    bundle = shown._repr_mimebundle_()
    texts = [str(shown), repr(shown), *(text for text in bundle.values() if isinstance(text, str))]
    assert [found for text in texts if (found := HIDDEN.search(text))] == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "call nasty:nothing",
            "call nasty:plain plain=x",
            "call nasty:plain plain:=1 no=1",
            "call nasty:plain plain:=0",
        ),
        *("prompt nasty:nothing", "raw nasty tools/nothing", "tool nasty:nothing", "read nasty://nothing"),
    ],
)
async def test_what_is_raised_is_clean(nasty: Any, line: str) -> None:
    with pytest.raises(MCPMagicError) as raised:
        await nasty(line)
    shown = "".join(raised.value._render_traceback_()).replace("\x1b[31m", "").replace("\x1b[0m", "")
    for text in (str(raised.value), shown):
        assert HIDDEN.search(text) is None
        assert "line\nend" not in text


async def test_functions_and_files_are_clean(nasty: Any, tmp_path: Path) -> None:
    tools = host["nasty"].tools
    texts = [repr(tools), *(repr(tools[name]) for name in tools), *(inspect.getdoc(tools[name]) for name in tools)]
    for command in ("docs", "stubs", "snapshot"):
        await nasty(f"{command} nasty -o {tmp_path / command}")
        texts.append((tmp_path / command).read_text())
    assert [found for text in texts if (found := HIDDEN.search(text or ""))] == []
    assert len(await nasty(f"diff nasty {tmp_path / 'snapshot'}")) == 0, "what is written out is read back"
