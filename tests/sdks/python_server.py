"""One tiny server under each generation of the Python SDKs.

`python -S python_server.py FOLDER TRANSPORT`: FOLDER has the SDK's packages, TRANSPORT is `stdio`, `sse` or `http`,
and the last two print where they listen. It offers `add`, and `greet` (which asks for a name) where the SDK can ask.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import sys
from contextlib import asynccontextmanager
from typing import Any

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def low_level(transport: str) -> None:
    """Serve with the SDK's first generation, `mcp` 1.x."""
    from mcp import types
    from mcp.server import Server
    from mcp.server.session import ServerSession

    server: Any = Server("tiny")
    numbers = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}

    @server.list_tools()
    async def listed() -> list[Any]:
        tools = [
            types.Tool(name="add", description="Add two numbers.", inputSchema={**numbers, "required": ["a", "b"]})
        ]
        if hasattr(ServerSession, "elicit"):
            tools.append(types.Tool(name="greet", description="Greet somebody.", inputSchema={"type": "object"}))
        return tools

    @server.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> list[Any]:
        if name == "add":
            return [types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))]
        context = server.request_context
        answer = await context.session.elicit("Who are you?", PERSON, related_request_id=context.request_id)
        return [types.TextContent(type="text", text=f"Hello {answer.content['name']}")]

    {"stdio": _stdio, "sse": _sse, "http": _http}[transport](server)


def _stdio(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(serve())


def _sse(server: Any) -> None:
    """Serve as the SDK's documentation said then."""
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    sse = SseServerTransport("/messages/")

    async def connect(request: Any) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    _listen(Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=sse.handle_post_message)]))


def _http(server: Any) -> None:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(app=server)

    @asynccontextmanager
    async def lifespan(app: Any) -> Any:
        async with manager.run():
            yield

    _listen(Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan))


def _listen(app: Any) -> None:
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), timeout_graceful_shutdown=1)


def high_level(transport: str) -> None:
    """Serve with FastMCP (`fastmcp` 2, 3 and 4) or with the SDK's `MCPServer` (`mcp` 2)."""
    options: dict[str, Any] = {"transport": {"http": "streamable-http"}.get(transport, transport)}
    if transport != "stdio":
        options |= {"host": "127.0.0.1", "port": int(sys.argv[3])}
    server = _mcpserver() if _version("mcp") >= 2 and not _version("fastmcp") else _fastmcp()
    server.run(**options)


def _fastmcp() -> Any:
    os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"  # it would ask the package index at each start
    from fastmcp import Context, FastMCP

    globals()["Context"] = Context  # annotations are texts here
    server = FastMCP("tiny")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def greet(context: Context) -> str:
        """Greet somebody."""
        answer = await context.elicit("Who are you?", response_type=str)
        return f"Hello {answer.data}"

    return server


def _mcpserver() -> Any:
    from typing import Annotated

    from mcp.server.mcpserver import Elicit, MCPServer, Resolve
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str

    def ask() -> Elicit[Person]:
        return Elicit("Who are you?", Person)

    globals().update(Annotated=Annotated, Person=Person, Elicit=Elicit, Resolve=Resolve, ask=ask)
    server = MCPServer("tiny")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def greet(person: Annotated[Person, Resolve(ask)]) -> str:
        """Greet somebody."""
        return f"Hello {person.name}"

    return server


def _version(package: str) -> int:
    """Return the generation of a package, 0 where there is none."""
    try:
        return int(importlib.metadata.version(package).partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


if __name__ == "__main__":
    folder, transport = sys.argv[1:3]
    sys.path.insert(0, folder)
    if _version("fastmcp") or _version("mcp") >= 2:
        high_level(transport)
    else:
        low_level(transport)
