"""The WebSocket client transport, on the `websockets` library.

mcp 2 has none and the specification does not define one; servers that offer it send one JSON-RPC
message a text frame under the subprotocol "mcp", as the SDK did in version 1.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.config.specs import tls_context
from mcp_magic.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.config.specs import WebSocketSpec

__all__ = ["websocket_client"]

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The library's 1 MiB would refuse images that the other transports carry."""

GOODBYE_SECONDS = 2.0
"""Seconds for the closing handshake: a server that is gone does not answer it."""


def _connect(spec: WebSocketSpec) -> Any:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import SecurityError
        from websockets.typing import Subprotocol
    except ImportError:
        message = "WebSocket servers need the package websockets: pip install 'mcp_magic[ws]'"
        raise MissingDependencyError(message) from None

    class WithinOrigin(connect):
        """Follows a redirect only to the same server: another one would get the headers, keys among them."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            begun = _origin(self.uri)
            found = super().process_redirect(exc)
            if isinstance(found, str) and _origin(found) != begun:
                return SecurityError(f"it redirects to {found}; if that is the server you mean, connect to that URL")
            return found

    return WithinOrigin(
        spec.url,
        subprotocols=[Subprotocol("mcp")],
        additional_headers=dict(spec.headers),
        ssl=tls_context(spec) if spec.url.startswith("wss:") else None,
        open_timeout=spec.timeout,
        close_timeout=GOODBYE_SECONDS,
        max_size=MAX_MESSAGE_BYTES,
    )


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "wss" else 80)


@asynccontextmanager
async def websocket_client(spec: WebSocketSpec) -> AsyncIterator[Any]:
    """Open a WebSocket and yield the pair of streams that the SDK's client reads and writes."""
    import anyio
    from websockets.exceptions import ConnectionClosed

    async with _connect(spec) as socket:
        received, to_client = anyio.create_memory_object_stream[Any](0)
        outgoing, from_client = anyio.create_memory_object_stream[Any](0)

        async def reader() -> None:
            async with received:
                try:
                    async for frame in socket:
                        await received.send(_message(frame))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionClosed):
                    return  # the session sees the end of its stream

        async def writer() -> None:
            async with from_client:
                async for item in from_client:
                    try:
                        await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))
                    except ConnectionClosed:
                        await received.aclose()
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            tasks.start_soon(writer)
            try:
                yield to_client, outgoing
            finally:
                for stream in (received, to_client, outgoing, from_client):
                    await stream.aclose()
                tasks.cancel_scope.cancel()


def _message(frame: str | bytes) -> Any:
    """Return the message of a frame, or the error that says why it is none: the session surfaces it."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(frame, by_name=False))
    except ValueError as error:
        return error
