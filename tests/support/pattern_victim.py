"""A host that meets a server whose regular expressions kill, with little memory; it says what each gave and took."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from mcp_magic.ask.elicitation import answer_of, elicitation_question
from mcp_magic.errors import ArgumentsError, InvalidResponseError
from mcp_magic.ipython.ask import InputAsker
from mcp_magic.ipython.extension import MCPMagics
from mcp_magic.notebook import host
from mcp_magic.schema.convert import UnfitText
from mcp_magic.ui.request_form import RequestForm
from tests.support.schemas import DRAFT7, TEXT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.ask.elicitation import Answer, Elicitation

MEMORY = 4 << 30
EXPLODES = "^(?:(?:(?:(?:(?:a?){999}){999}){999}){999}){999}z$"
BACKTRACKS = "^(a+)+$"
LOOKS_AHEAD = r"^(?=a)(a|a)*\1c"
PATTERNS = {"explodes": EXPLODES, "backtracks": BACKTRACKS, "looks_ahead": LOOKS_AHEAD}
TRIED = "a" * 40 + "b"


def schemas(pattern: str) -> dict[str, dict[str, Any]]:
    """Return, by the way that they take, schemas that have a pattern tried against `TRIED`."""
    text, names = {**TEXT, "pattern": pattern}, {"type": "object", "patternProperties": {pattern: {}}}
    return {
        "pattern": {"type": "object", "properties": {"text": text}},
        "draft": {"type": "object", "properties": {"text": {"$schema": DRAFT7, **text}}},
        "names": {**names, "additionalProperties": False},
        "unevaluated": {**names, "unevaluatedProperties": False},
    }


def answer(way: str) -> dict[str, Any]:
    return {"text": TRIED} if way in ("pattern", "draft") else {TRIED: 1}


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    tools = [Tool(name=f"asks_{name}", input_schema={"type": "object"}) for name in PATTERNS]
    for name, pattern in PATTERNS.items():
        for way, schema in schemas(pattern).items():
            tools.append(Tool(name=f"answers_{name}_{way}", input_schema={"type": "object"}, output_schema=schema))
            tools.append(Tool(name=f"takes_{name}_{way}", input_schema=schema))
    return ListToolsResult(tools=tools)


async def call_tool(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
    kind, _, rest = params.name.partition("_")
    if kind == "answers":
        return CallToolResult(content=[], structured_content=answer(rest.rpartition("_")[2]))
    if kind == "asks" and not params.input_responses:
        wanted = {"type": "object", "properties": {"text": {**TEXT, "pattern": PATTERNS[rest]}}}
        asked = ElicitRequest(params=ElicitRequestFormParams(message="Text?", requested_schema=wanted))
        return InputRequiredResult(input_requests={"text": asked}, request_state="s")
    return CallToolResult(content=[TextContent(text="done")])


async def attacks(connection: Any, magics: Any) -> AsyncIterator[tuple[str, Any]]:
    """Yield each attack: its name, and what runs it."""
    for name in PATTERNS:
        for way in schemas(""):
            yield f"call answers {name} {way}", connection.call_tool(f"answers_{name}_{way}", {})
            yield f"call takes {name} {way}", connection.call_tool(f"takes_{name}_{way}", answer(way))
            yield f"look {name} {way}", magics.run(None, f"tool patterns:takes_{name}_{way}", None, {})
        yield f"form {name}", filled_form(connection, f"takes_{name}_pattern")
        yield f"line {name}", magics.run(None, f"call patterns:takes_{name}_pattern text={TRIED}", None, {})
        yield f"elicitation {name}", asked(connection, f"asks_{name}")
    yield "doctor", magics.run(None, "doctor patterns", None, {})


async def filled_form(connection: Any, tool: str) -> str:
    form = RequestForm(connection, await connection.find_tool(tool))
    form.set_arguments({"text": TRIED})
    said = form.form.problems
    form.close()
    return str(said)


class Typed:
    """A person who fills in `TRIED` line by line, leaves it out where it is refused, and sends."""

    def __init__(self) -> None:
        self.choices = iter("fs")
        self.texts = iter((TRIED, ""))

    def __call__(self, prompt: str) -> str:
        return next(self.texts if prompt.startswith("text ") else self.choices)


async def asked(connection: Any, tool: str) -> Any:
    asker = InputAsker(read=Typed(), write=lambda text: None)

    async def elicitor(asked: Elicitation) -> Answer:
        return answer_of(asked, await asker.ask(elicitation_question(asked)))

    host.elicitation.elicitor = elicitor
    return await connection.call_tool(tool, {})


async def main() -> None:
    magics: Any = MCPMagics(InteractiveShell())
    server = Server("patterns", on_list_tools=list_tools, on_call_tool=call_tool)
    host.elicitation.elicitor = asked  # announces the capability
    connection = await host.connect(server, name="patterns")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    async for name, attack in attacks(connection, magics):
        began = time.process_time()
        try:
            result = await attack
            gave = f"{type(result).__name__} {getattr(result, 'unfit', '')}".rstrip()
            gave = result if isinstance(result, str) else gave
        except (ArgumentsError, InvalidResponseError, UnfitText) as error:
            gave = f"{type(error).__name__}: {error}"
        print("\nATTACK", json.dumps([name, time.process_time() - began, gave]), flush=True)
    await host.close()


if __name__ == "__main__":
    asyncio.run(main())
