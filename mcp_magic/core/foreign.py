"""Recognises errors that others raise: of the SDK, of httpx2, of anyio, of sockets, in groups.

Foreign types are told by name, because naming a type must not import its package.

A group must not even stay in the `__context__` of what is raised instead: ipykernel then shows the
error as a stream, and nbclient waits for its time-out. So errors are noted in the `except` block
and raised after it.
"""

from __future__ import annotations

import errno

__all__ = [
    "chain_text",
    "has_ended",
    "is_closed",
    "is_mcp_error",
    "is_transport_error",
    "is_unreachable",
    "leaf",
    "named",
    "waited_in_vain",
]

CLOSED = -32000
"""The SDK's code for a request whose connection ended."""

_ENDED = ("Connection closed", "Connection lost", "SSE stream ")
"""How what the SDK, and `core/persistent.py` in its place, say then begins."""


def leaf(error: BaseException) -> BaseException:
    """Return the error inside nested groups that says most about what happened.

    >>> leaf(ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("x")])]))
    ValueError('x')
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf(inner) for inner in error.exceptions]
    # "Connection closed" is what the other side of the pipe says about somebody else's failure.
    return next((e for e in leaves if getattr(e, "code", None) != CLOSED and isinstance(e, Exception)), leaves[0])


def named(error: BaseException, package: str, *names: str) -> bool:
    """Whether an error is of one of a package's types, or of a subclass."""
    mro = type(error).__mro__
    return any(c.__module__.split(".")[0] == package and c.__name__ in names for c in mro)


def waited_in_vain(error: BaseException) -> bool:
    """Whether it is asyncio's time-out; a socket's is a TimeoutError too, but has an errno."""
    return isinstance(error, TimeoutError) and error.errno is None


def is_mcp_error(error: BaseException) -> bool:
    """Whether it is a JSON-RPC error, the server's or one that the SDK made up."""
    return named(error, "mcp", "MCPError")


def is_transport_error(error: BaseException) -> bool:
    """Whether it comes from the way to the server and not from the server.

    >>> is_transport_error(ConnectionResetError()), is_transport_error(TimeoutError())
    (True, False)
    """
    return (
        (isinstance(error, OSError | EOFError) and not waited_in_vain(error))
        or named(error, "httpx2", "TransportError")
        or named(error, "anyio", "ClosedResourceError", "BrokenResourceError", "EndOfStream")
        or named(error, "websockets", "ConnectionClosed")
    )


def is_unreachable(error: BaseException) -> bool:
    """Whether an HTTP request never got a connection to its server."""
    return named(error, "httpx2", "ConnectError", "ConnectTimeout", "ProxyError", "PoolTimeout")


def is_closed(error: BaseException) -> bool:
    """Whether a request failed because there is no connection any more."""
    return has_ended(error) or is_transport_error(error)


def has_ended(error: BaseException) -> bool:
    """Whether it is what the SDK says of a request whose connection ended: servers use the same code for anything.

    >>> has_ended(RuntimeError("Client must be used within an async context manager"))  # it was left a moment ago
    True
    """
    if isinstance(error, RuntimeError) and str(error).startswith("Client must be used within"):
        return True
    return getattr(error, "code", None) == CLOSED and str(error).startswith(_ENDED)


def chain_text(error: BaseException) -> str:
    """Return the texts of an error and of what caused it; libraries wrap the telling one."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(texts) < 8:
        texts.append(f"{type(seen).__name__}: {seen}")
        seen = seen.__cause__ or seen.__context__
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        texts.append("refused")
    return "; ".join(texts)
