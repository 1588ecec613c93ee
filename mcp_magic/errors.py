"""Everything mcp_magic raises on purpose.

    MCPMagicError
    ├── CommandError, ConfigError, TargetError, MissingDependencyError (also ImportError)
    ├── ConnectError
    │   ├── CommandNotFoundError, ServerExitedError, UnreachableError, HTTPStatusError, NotAnMCPServerError
    │   └── AuthorizationError (also during a call), ConnectTimeoutError (also TimeoutError), SecretError
    ├── SessionError
    │   ├── SessionClosedError, RequestTimeoutError (also TimeoutError), ProtocolError, NotOfferedError
    │   └── InvalidResponseError
    │       └── VerificationError
    ├── NotFoundError (also LookupError)
    │   └── UnknownServerError, UnknownToolError, UnknownResourceError, UnknownPromptError, AmbiguousNameError
    ├── ArgumentsError, NoTableError (also ValueError)
    └── DeniedError, CallCancelledError, ToolError, ModelError, ThreadError, CassetteError, RegistryError

Messages are one or two lines: what failed, where, what would be valid, what to do next. `session/failures.py` alone
translates errors of the SDK, of sockets and of processes. An `ExceptionGroup` never leaves the package: ipykernel 7
shows one from an awaited cell as a stream instead of an error, and nbclient then waits until it times out.
"""

from __future__ import annotations

import copyreg
import traceback
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mcp_magic._text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=BaseException)


class MCPMagicError(Exception):
    """Base of all errors of this package; a notebook shows it without a traceback.

    Attributes:
        details: All that the server said, secrets masked, where the message has only a part of it; else "".
    """

    coloured: ClassVar[bool] = True  # whether the error's name is shown in red; follows `%colors`
    shows_cause: ClassVar[bool] = False  # whether a cell shows the traceback of `__cause__` above the error
    details: str = ""

    @property
    def whole(self) -> str:
        """The message, and below it the `details`: what a model reads."""
        return f"{self}\n{clean(self.details)}" if self.details else str(self)

    def __str__(self) -> str:
        return clean(super().__str__())  # a server's text must not control the terminal

    def __reduce__(self) -> tuple[Any, ...]:
        # not by a call of the class, which may need more than the message: a pool of processes that cannot read the
        # error of a child waits for ever
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    def traceback_lines(self) -> list[str]:
        """Return the lines that a cell shows instead of a traceback."""
        lines = error_lines(self, str(self))
        return [*ToolError.show(self.__cause__), *lines] if self.shows_cause and self.__cause__ else lines

    def _render_traceback_(self) -> list[str]:  # IPython calls this
        return self.traceback_lines()


def error_lines(error: BaseException, text: str) -> list[str]:
    """Return what a cell shows of an error instead of a traceback."""
    red, plain = ("\x1b[31m", "\x1b[0m") if MCPMagicError.coloured else ("", "")
    return [f"{red}{type(error).__name__}{plain}: {clean(text)}"]


def on_one_line(error: E, text: str) -> E:
    """Let a cell show an error as one line, without the frames that it cut off; return it."""
    error.args = (text,)
    vars(error)["_render_traceback_"] = lambda: error_lines(error, text)
    return error


class CommandError(MCPMagicError):
    """A `%mcp` line that cannot be read."""


class ConfigError(MCPMagicError):
    """A config file or declaration is wrong."""


class TargetError(MCPMagicError):
    """A target that names no server, or a server described incompletely."""


class MissingDependencyError(MCPMagicError, ImportError):
    """An optional package is not installed; the message says which `pip install` to run."""


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
    """The connection was refused, the host is unknown, or TLS failed."""


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


class SecretError(ConnectError):
    """A secret that the configuration of a server refers to cannot be had; nothing was started or sent."""


class AuthorizationError(ConnectError):
    """A log-in is needed but not possible here, or it failed; the message says why and never contains a token."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """The handshake was not answered in time."""


class SessionError(MCPMagicError):
    """An open session failed."""


class SessionClosedError(SessionError):
    """The session is closed; the message says how to open it again.

    Attributes:
        sent: Whether the request may have reached the server; False if it certainly did not.
        waited: Whether the request waited in vain for the session to reconnect.
        stderr: The end of what the server's process wrote to its standard error, secrets masked; "" if there is none.
    """

    sent: bool = True
    waited: bool = False

    def __init__(self, message: str = "", *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class RequestTimeoutError(SessionError, TimeoutError):
    """A request was not answered before its deadline; the server has been sent a cancellation."""


class ProtocolError(SessionError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The JSON-RPC error code, for example -32602.
        data: The error's `data` member, or None.
        status: The HTTP status of the answer, for example 429; None over other transports.
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
    """The server's capabilities do not include the request."""


class InvalidResponseError(SessionError):
    """The server broke the protocol, or a result does not fit its own output schema.

    Attributes:
        result: The `ToolResult` that does not fit, if the tool has run; else None.
    """

    def __init__(self, message: str = "", result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class VerificationError(InvalidResponseError):
    """A server's data differs from its announcement in digest, size or content; the data is not returned."""


class NotFoundError(MCPMagicError, LookupError):
    """No open session knows this name."""


class UnknownServerError(NotFoundError):
    """No session has this name."""


class UnknownToolError(NotFoundError):
    """No open session offers this tool."""


class UnknownResourceError(NotFoundError):
    """No open session offers this resource."""


class UnknownPromptError(NotFoundError):
    """No open session offers this prompt."""


class AmbiguousNameError(NotFoundError):
    """Several sessions offer this name; write `server:name`."""


class ArgumentsError(MCPMagicError, ValueError):
    """Arguments that do not fit a schema; raised before anything is sent."""


class ToolError(MCPMagicError):
    """A tool ran and reported an error.

    Attributes:
        result: The `ToolResult`, with `is_error` set, or None.
        show: Formats the exception of a tool in this notebook as the lines of a traceback; the extension sets IPython's
            formatter.
    """

    show: ClassVar[Callable[[BaseException], list[str]]] = traceback.format_exception

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class DeniedError(MCPMagicError):
    """Consent refused a call; nothing was sent.

    Attributes:
        reason: The reason given for the refusal, or "".
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class CallCancelledError(MCPMagicError):
    """The user cancelled a call with a button; the server has been told. Interrupt raises KeyboardInterrupt instead."""


class ModelError(MCPMagicError):
    """A chat model cannot be created, or its provider refused or failed; the message never contains a key."""


class ThreadError(MCPMagicError):
    """A stored thread cannot be read or written."""


class CassetteError(MCPMagicError):
    """A cassette cannot be read or written, or lacks the requested answer; then the message names the nearest one."""


class RegistryError(MCPMagicError):
    """A registry of servers cannot be reached or read, or has no such server.

    Attributes:
        status: The HTTP status of its answer, or None.
        retry_after: Seconds that it asks to wait (`Retry-After`), or None.
    """

    def __init__(self, message: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class NoTableError(MCPMagicError, ValueError):
    """A result holds no table for a DataFrame, or several; the message says what was found."""


if not TYPE_CHECKING:  # type checkers take every public class here
    __all__ = [
        name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, MCPMagicError)
    ]
