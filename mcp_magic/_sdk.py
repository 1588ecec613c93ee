"""What the MCP SDK keeps private, or fixes without an option: the one place that touches it.

Each function says why it is needed. When a new version of the SDK breaks something, look here first:
`tests/project/test_sdk.py` checks that the names exist, and that no other module uses a private name of the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _replace(module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Replace what a module of the SDK uses by `wrap` of it, once."""
    usual = getattr(module, name)
    if not hasattr(usual, "__wrapped__"):
        replacement = wrap(usual)
        replacement.__wrapped__ = usual
        setattr(module, name, replacement)


def patch_process_start(wrap: Callable[[Any], Any]) -> None:
    """Wrap the function that starts the process of a stdio server: the client hides the process."""
    from mcp.client import stdio

    _replace(stdio, "_create_platform_compatible_process", wrap)


def patch_line_reader(wrap: Callable[[Any], Any]) -> None:
    """Wrap the class that reads a stdio server's output: it takes minutes for a line of 100 MB."""
    from mcp.client import stdio

    _replace(stdio, "TextReceiveStream", wrap)


def patch_message_adapter(wrap: Callable[[Any], Any]) -> None:
    """Wrap what reads a message of streamable HTTP: this client drops what it cannot read, others pass the error on."""
    from mcp.client import streamable_http

    _replace(streamable_http, "jsonrpc_message_adapter", wrap)


def patch_connect(client: Any, wrap: Callable[[Any], Any]) -> None:
    """Wrap the function by which a client gets its dispatcher: one in this process has no streams to watch."""
    client._connect = wrap(client._connect)


def patch_send_request(session: Any, send: Callable[..., Any]) -> Callable[..., Any]:
    """Replace `ClientSession.send_request`, and return what it was.

    The SDK's client takes no progress callback for reads and prompts, and fixes the log level when it is made.
    """
    usual: Callable[..., Any] = session.send_request
    session.send_request = send
    return usual


def skip_output_check(session: Any) -> None:
    """Turn off the SDK's check of structured answers, which has no option and no limit; `check_output` replaces it.

    It matches the server's patterns with Python's `re`, where a pattern of fifty characters can take all memory.
    """

    async def skip(name: str, result: Any) -> None:
        pass

    session.validate_tool_result = skip


def redirect_within_origin(response: Any) -> Any:
    """Return the request that follows a redirect to the same origin, or None: the rule of the SDK's log-in."""
    from mcp.shared._httpx_utils import next_request_within_origin

    return next_request_within_origin(response)


def context_stream(stream: Any) -> Any:
    """Return a stream that keeps the context of each message, as the HTTP transports of the SDK have."""
    from mcp.shared._context_streams import ContextReceiveStream

    return ContextReceiveStream(stream)


def memory_transport(server: Any) -> Any:
    """Return a transport to a server in this process; `Client` makes one by itself, but hands it to nobody."""
    from mcp.client._memory import InMemoryTransport

    return InMemoryTransport(server)


def pipe_of(stream: Any) -> Any:
    """Return the asyncio stream of an anyio stream of a process, which has the pipe; None if there is none."""
    return getattr(stream, "_stream", None)


def connection_of(session: Any) -> Any:
    """Return the connection of a client to a low-level server, of which a `ServerSession` is one request."""
    return session._connection
