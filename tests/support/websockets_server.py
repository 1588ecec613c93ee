"""A WebSocket server for any MCPServer: mcp 2 has none of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.mcpserver import MCPServer


@asynccontextmanager
async def serve_websocket(server: MCPServer) -> AsyncIterator[str]:
    """Serve on a free port of 127.0.0.1 and yield the URL."""
    lowlevel = server._lowlevel_server

    async def handle(socket: ServerConnection) -> None:
        to_server, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, from_server = anyio.create_memory_object_stream[Any](0)

        async def receive() -> None:
            async with to_server:
                async for frame in socket:
                    await to_server.send(SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False)))

        async def send() -> None:
            async with from_server:
                async for item in from_server:
                    await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                tasks.start_soon(send)
                await lowlevel.run(incoming, outgoing, lowlevel.create_initialization_options())
                tasks.cancel_scope.cancel()
        except* ConnectionClosed:
            pass

    async with serve(handle, "127.0.0.1", 0, subprotocols=["mcp"]) as listener:  # type: ignore[list-item]
        port = next(iter(listener.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/"
