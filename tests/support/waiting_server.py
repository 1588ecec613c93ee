"""A stdio server that takes its time, in tools, resources and prompts alike; `--era handshake` for the old protocol.

`steady` reports progress while it works, `never` reports nothing and ends never, `asks` asks the person.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolResult,
    CompleteResult,
    ElicitRequest,
    ElicitRequestFormParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
)

from tests.support.reporting_server import HandshakeServer

NAMES = ("steady", "never", "asks")
REPORTS = 7
EVERY_SECONDS = 0.15
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}


class Waiting:
    """The handlers.

    Attributes:
        stuck: Whether listings never end.
    """

    def __init__(self) -> None:
        self.stuck = False

    async def tools(self, context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=name, input_schema={"type": "object"}) for name in NAMES])

    async def resources(self, context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(uri=f"waiting://{name}", name=name) for name in NAMES])

    async def templates(self, context: Any, params: Any) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(
            resource_templates=[ResourceTemplate(uri_template="waiting://{name}", name="any")]
        )

    async def prompts(self, context: Any, params: Any) -> ListPromptsResult:
        if self.stuck:
            await asyncio.Event().wait()
        return ListPromptsResult(prompts=[Prompt(name=name) for name in NAMES])

    async def call(self, context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        done = await self._do(params.name, context, params)
        return done or CallToolResult(content=[TextContent(type="text", text="done")])

    async def read(self, context: Any, params: Any) -> ReadResourceResult | InputRequiredResult:
        done = await self._do(str(params.uri).partition("://")[2], context, params)
        return done or ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="done")])

    async def prompt(self, context: Any, params: Any) -> GetPromptResult | InputRequiredResult:
        done = await self._do(params.name, context, params)
        said = PromptMessage(role="user", content=TextContent(type="text", text="done"))
        return done or GetPromptResult(messages=[said])

    async def complete(self, context: Any, params: Any) -> CompleteResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def _do(self, name: str, context: Any, params: Any) -> InputRequiredResult | None:
        if name == "never":
            await asyncio.Event().wait()
        elif name == "steady":
            for step in range(REPORTS):
                await context.session.report_progress(step)
                await asyncio.sleep(EVERY_SECONDS)
        elif context.protocol_version < "2026":
            await context.session.elicit_form("Where to?", SCHEMA, context.request_id)
        elif not params.input_responses:
            asked = ElicitRequest(params=ElicitRequestFormParams(message="Where to?", requested_schema=SCHEMA))
            return InputRequiredResult(input_requests={"where": asked}, request_state="s")
        return None


def waiting_server(handlers: Waiting, *, handshake: bool = False) -> Server[Any]:
    """Return the server."""
    return (HandshakeServer if handshake else Server)(
        "waiting",
        on_list_tools=handlers.tools,
        on_call_tool=handlers.call,
        on_list_resources=handlers.resources,
        on_list_resource_templates=handlers.templates,
        on_read_resource=handlers.read,
        on_list_prompts=handlers.prompts,
        on_get_prompt=handlers.prompt,
        on_completion=handlers.complete,
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks" / "servers"))
    from serving import parser, serve

    options = parser(__doc__ or "", ("stdio",))
    options.add_argument("--era", choices=("modern", "handshake"), default="modern")
    chosen = options.parse_args()
    serve(waiting_server(Waiting(), handshake=chosen.era == "handshake"), chosen)
