"""A server whose tools report progress and log; stdio, or HTTP with `--transport http`.

With `--era handshake` it knows nothing of 2026-07-28: it is initialized, told its level of logging by
`logging/setLevel`, and logs nothing below it.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import MCPDeprecationWarning, MCPError
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Reporting:
    """The handlers; `level` is what the handshake era has set, and one that is refusing refuses each."""

    def __init__(self, *, refusing: bool = False) -> None:
        self.level: str | None = None
        self.refusing = refusing

    async def tools(self, context: Any, params: Any) -> types.ListToolsResult:
        names = ("work", "hold", "burst", "log", "level", "fail", "stderr")
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])

    async def call(self, context: Any, params: Any) -> types.CallToolResult:
        text = await getattr(self, f"tool_{params.name}")(context, **(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=params.name == "fail")

    async def tool_work(
        self, context: Any, values: list[float], total: Any = None, message: str | None = None, every: float = 0
    ) -> str:
        for value in values:
            await context.session.report_progress(value, total, message)
            await asyncio.sleep(every)
        return f"{len(values)} reports"

    async def tool_burst(self, context: Any, count: int) -> str:
        for step in range(1, count + 1):
            await context.session.report_progress(step, count, f"step {step}")
        return f"{count} reports"

    async def tool_hold(
        self, context: Any, folder: str, done: Any = None, total: Any = None, text: str | None = None
    ) -> str:
        """Report (and log) once, make the file `started`, wait for the file `go`; make `cancelled` if nobody waits."""
        if done is not None:
            await context.session.report_progress(done, total, text)
        elif text is not None:
            await self._log(context, "warning", text)
        Path(folder, "started").touch()
        try:
            while not Path(folder, "go").exists():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            Path(folder, "cancelled").touch()
            raise
        return "gone on"

    async def tool_log(self, context: Any, level: str, data: Any, count: int = 1) -> str:
        for _ in range(count):
            await self._log(context, level, data)
        return "logged"

    async def tool_level(self, context: Any) -> str:
        return str(self.level)

    async def tool_stderr(self, context: Any, text: str) -> str:
        print(text, file=sys.stderr, flush=True)
        return "written"

    async def tool_fail(self, context: Any) -> str:
        await context.session.report_progress(1, 2)
        return "it broke"

    async def _log(self, context: Any, level: Any, data: Any) -> None:
        if self.level is None or LEVELS.index(level) >= LEVELS.index(self.level):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                sending = context.session.send_log_message(
                    level, data, "reports", related_request_id=context.request_id
                )
            await sending

    async def resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri="reports://long", name="long")])

    async def read(self, context: Any, params: Any) -> types.ReadResourceResult:
        await context.session.report_progress(4, 8, "reading")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="long")])

    async def prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="slow")])

    async def prompt(self, context: Any, params: Any) -> types.GetPromptResult:
        await context.session.report_progress(1, 2, "thinking")
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=types.TextContent(type="text", text="hi"))]
        )

    async def set_level(self, context: Any, params: Any) -> types.EmptyResult:
        if self.refusing:
            raise MCPError(types.INVALID_PARAMS, "no levels here")
        self.level = params.level
        return types.EmptyResult()


async def _refuse_discovery(context: Any, call_next: Any) -> Any:
    if context.method == "server/discover":
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found")
    return await call_next(context)


class HandshakeServer(Server[Any]):
    """A server from before 2026-07-28."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.middleware.append(_refuse_discovery)

    async def run(
        self, read_stream: Any, write_stream: Any, initialization_options: Any, raise_exceptions: bool = False
    ) -> None:
        async with self.lifespan(self) as state:
            await serve_loop(self, read_stream, write_stream, lifespan_state=state, init_options=initialization_options)


def reporting_server(*, handshake: bool = False, refusing: bool = False) -> Server[Any]:
    handlers = Reporting(refusing=refusing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return (HandshakeServer if handshake else Server)(
            "reports",
            on_list_tools=handlers.tools,
            on_call_tool=handlers.call,
            on_list_resources=handlers.resources,
            on_read_resource=handlers.read,
            on_list_prompts=handlers.prompts,
            on_get_prompt=handlers.prompt,
            on_set_logging_level=handlers.set_level,
        )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks" / "servers"))
    from serving import parser, serve

    options = parser(__doc__ or "")
    options.add_argument("--era", choices=("modern", "handshake"), default="modern")
    parsed = options.parse_args()
    serve(reporting_server(handshake=parsed.era == "handshake"), parsed)
