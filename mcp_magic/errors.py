"""Everything mcp_magic raises on purpose.

    MCPMagicError
    ├── CommandError            a %mcp line that cannot be read
    ├── ConfigError             a config file or declaration is wrong
    ├── TargetError             a target that names no server, or a server described incompletely
    ├── MissingDependencyError  an optional package is not installed (also ImportError)
    ├── ConnectError            no session could be opened
    │   ├── CommandNotFoundError
    │   ├── ServerExitedError       the server's process ended before it answered
    │   ├── UnreachableError        nobody listens, no such host, TLS refused
    │   ├── HTTPStatusError         the server answered, with an HTTP error
    │   ├── NotAnMCPServerError     something answered, but not MCP
    │   ├── AuthorizationError      a log-in is needed, or failed; also in the course of a call
    │   └── ConnectTimeoutError     (also TimeoutError)
    ├── SessionError            an open session failed
    │   ├── SessionClosedError      it is gone: `%mcp reconnect NAME`
    │   ├── RequestTimeoutError     (also TimeoutError)
    │   ├── ProtocolError           the server answered with a JSON-RPC error
    │   ├── NotOfferedError         the server does not have what was asked of it
    │   └── InvalidResponseError    the server broke the protocol
    │       └── VerificationError       what it sent is not what it had announced
    ├── NotFoundError           (also LookupError)
    │   ├── UnknownServerError, UnknownToolError, UnknownResourceError, UnknownPromptError
    │   └── AmbiguousNameError
    ├── ArgumentsError          arguments that do not fit a schema (also ValueError)
    ├── DeniedError             a call that consent refused; nothing was sent
    ├── CallCancelledError      a call that the person cancelled by a button
    ├── ToolError               a tool ran and reported an error
    ├── ModelError              a chat model cannot be made, or its provider refused or failed
    ├── ThreadError             a kept conversation cannot be read or written
    ├── CassetteError           a cassette cannot be used, or has not what was asked for
    └── NoTableError            a result holds no table, or several (also ValueError)

Messages are one or two lines: what, where, what would be valid, what to do next. Errors of the SDK, of sockets and of
processes are translated at one border (`session/failures.py`); an `ExceptionGroup` never leaves the package, because on
ipykernel 7 one from an awaited cell is shown as a stream instead of an error, and nbclient then waits for its time-out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from mcp_magic._text import clean, did_you_mean, listed

__all__ = [
    "AmbiguousNameError",
    "ArgumentsError",
    "AuthorizationError",
    "CallCancelledError",
    "CassetteError",
    "CommandError",
    "CommandNotFoundError",
    "ConfigError",
    "ConnectError",
    "ConnectTimeoutError",
    "DeniedError",
    "HTTPStatusError",
    "InvalidResponseError",
    "MCPMagicError",
    "MissingDependencyError",
    "ModelError",
    "NoTableError",
    "NotAnMCPServerError",
    "NotFoundError",
    "NotOfferedError",
    "ProtocolError",
    "RequestTimeoutError",
    "ServerExitedError",
    "SessionClosedError",
    "SessionError",
    "TargetError",
    "ThreadError",
    "ToolError",
    "UnknownPromptError",
    "UnknownResourceError",
    "UnknownServerError",
    "UnknownToolError",
    "UnreachableError",
    "VerificationError",
    "did_you_mean",
    "listed",
]


class MCPMagicError(Exception):
    """Base of all errors of this package; a notebook shows it without a traceback."""

    coloured: ClassVar[bool] = True  # whether the name is red where it is shown; follows `%colors`

    def __str__(self) -> str:
        return clean(super().__str__())  # what a server says steers no terminal, also in an error

    def traceback_lines(self) -> list[str]:
        """Return what a cell shows in place of a traceback."""
        red, plain = ("\x1b[31m", "\x1b[0m") if self.coloured else ("", "")
        return [f"{red}{type(self).__name__}{plain}: {self}"]

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return self.traceback_lines()


class CommandError(MCPMagicError):
    """A `%mcp` line that cannot be read."""


class ConfigError(MCPMagicError):
    """A config file or declaration is wrong."""


class TargetError(MCPMagicError):
    """A target that names no server, or a server described incompletely."""


class MissingDependencyError(MCPMagicError, ImportError):
    """An optional package is not installed; the message has the pip line."""


class ConnectError(MCPMagicError):
    """No session could be opened.

    Attributes:
        stderr: The end of what the server's process wrote to its standard error, secrets masked; "" if there is none.
    """

    def __init__(self, message: str = "", *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class CommandNotFoundError(ConnectError):
    """The command of a stdio server cannot be started."""


class ServerExitedError(ConnectError):
    """The process of a stdio server ended before it answered."""


class UnreachableError(ConnectError):
    """Nobody listens there, the host is unknown, or TLS was refused."""


class HTTPStatusError(ConnectError):
    """The server answered the first request with an HTTP error.

    Attributes:
        status: The HTTP status code.
        retry_after: Seconds that the server asks to wait (`Retry-After`), or None.
    """

    def __init__(self, message: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class NotAnMCPServerError(ConnectError):
    """Something answered, but it does not speak MCP."""


class AuthorizationError(ConnectError):
    """A server wants a log-in that nobody can do here, or one failed; says whose fault it is. Never with a token."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The handshake was not answered in time."""


class SessionError(MCPMagicError):
    """An open session failed."""


class SessionClosedError(SessionError):
    """The session is gone; the message says how to open it again.

    Attributes:
        sent: Whether the request may have reached the server; False where it certainly did not.
        waited: Whether it waited in vain for a session that is being opened again.
        stderr: The end of what the server's process wrote to its standard error, secrets masked; "" if there is none.
    """

    sent: bool = True
    waited: bool = False

    def __init__(self, message: str = "", *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class RequestTimeoutError(SessionError, TimeoutError):
    """A request was not answered in time; the server has been told that nobody waits."""


class ProtocolError(SessionError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The JSON-RPC error code, for example -32602.
        data: The error's `data` member, or None.
        status: The HTTP status that answered this request, for example 429; None over other transports.
        retry_after: Seconds that the server asks to wait (`Retry-After` of a 429 or 503), or None.
    """

    def __init__(
        self,
        message: str,
        code: int,
        data: Any = None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status
        self.retry_after = retry_after


class NotOfferedError(SessionError):
    """The server does not have what was asked of it, by its own capabilities."""


class InvalidResponseError(SessionError):
    """The server broke the protocol, or a result does not fit its own output schema."""


class VerificationError(InvalidResponseError):
    """What a server sent is not what it had announced, by digest, size or content; it is not given out."""


class NotFoundError(MCPMagicError, LookupError):
    """A name that no open session knows."""


class UnknownServerError(NotFoundError):
    """No session has this name."""


class UnknownToolError(NotFoundError):
    """No open session offers this tool."""


class UnknownResourceError(NotFoundError):
    """No open session offers this resource."""


class UnknownPromptError(NotFoundError):
    """No open session offers this prompt."""


class AmbiguousNameError(NotFoundError):
    """Several sessions offer this name; say `server:name`."""


class ArgumentsError(MCPMagicError, ValueError):
    """Arguments that do not fit a schema; raised before anything is sent."""


class ToolError(MCPMagicError):
    """A tool ran and reported an error.

    Attributes:
        result: The `ToolResult`, with `is_error` set, or None.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class DeniedError(MCPMagicError):
    """A call that consent refused; nothing was sent.

    Attributes:
        reason: Why, in the words of whoever refused, or "".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class CallCancelledError(MCPMagicError):
    """A call that the person cancelled by a button; the server has been told. Interrupt: KeyboardInterrupt."""


class ModelError(MCPMagicError):
    """A chat model cannot be made, or its provider refused or failed; never with a key in it."""


class ThreadError(MCPMagicError):
    """A kept conversation cannot be read or written."""


class CassetteError(MCPMagicError):
    """A cassette cannot be read or written, or has not what was asked for; then with the nearest that it has."""


class NoTableError(MCPMagicError, ValueError):
    """A result holds no table to make a DataFrame of, or several; the message says what was found."""
