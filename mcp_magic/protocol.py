"""The protocol's error codes, log levels and versions: what an error means and whose fault it is.

A server in this kernel speaks the newest version, too. With the handshake, `ctx.elicit`, sampling and roots would work
in the notebook; but the same tool, exported or served, would fail with every host of 2026-07-28, and calls would be
slower. So the error names the parameter (`Resolve`) that asks on all versions.
"""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcp_magic._text import did_you_mean
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.schema.validate import check_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client
    from mcp_types import CallToolResult, Tool


VIEWS = "io.modelcontextprotocol/ui"  # the extension MCP Apps

VIEW_TYPE = "text/html;profile=mcp-app"  # the MIME type of a view


# Error codes and HTTP statuses: their meaning, and whose fault each is.
#
# Sources: JSON-RPC 2.0, section 5.1; the specification's "Error Handling", whose code space of 2026-07-28 is
# -32020 to -32099; RFC 9110, section 15. Includes the SDK's own codes (-32000, -32001).

CALLER, HOST, SERVER = "the caller", "mcp_magic", "the server"
NETWORK, YOU = "the network", "you"


class Fault(NamedTuple):
    """The meaning of an error code or a status, and whose fault it is if the server sends it to this host.

    `help` says what to do, without a final period, `{server}` for its name; "" if the server's message says it.
    """

    meaning: str
    party: str
    help: str = ""


CODES = {
    -32700: Fault("parse error", HOST, "it could not parse the message as JSON; `%mcp trace` shows the message"),
    -32600: Fault("invalid request", HOST, "it does not accept the form of the request; `%mcp trace` shows it"),
    -32601: Fault("method not found", CALLER, "this server does not support the request"),
    -32602: Fault("invalid params", CALLER),
    -32603: Fault("internal error", SERVER, "its log may say more: `%mcp logs {server}`"),
    -32000: Fault("server error", SERVER),
    -32001: Fault("no answer in time", SERVER),
    -32002: Fault("resource not found", CALLER, "`%mcp resources` lists what there is"),
    -32020: Fault("header mismatch", HOST, "the HTTP headers do not match the message; a proxy may have removed some"),
    -32021: Fault("missing client capability", HOST, "it needs a capability that this host did not announce"),
    -32022: Fault("unsupported protocol version", HOST, "`%mcp doctor` says which versions it takes"),
    -32042: Fault("URL elicitation required", YOU, "you must open a page first"),
    -1: Fault("refused by you or your rules", YOU),
}
"""JSON-RPC and MCP error codes."""

STATUSES = {
    400: Fault("", CALLER, "the server did not understand the request; is this its MCP endpoint?"),
    401: Fault("", YOU, "it wants credentials, for example --header 'Authorization: Bearer TOKEN'"),
    403: Fault("", YOU, "it refuses these credentials, or this host name"),
    404: Fault("", CALLER, "nothing is served under this path; it often ends in /mcp or /sse"),
    405: Fault("", CALLER, "this path does not accept POST; is it the MCP endpoint?"),
    406: Fault("", HOST, "it answers neither JSON nor event streams"),
    407: Fault("", YOU, "a proxy on the way wants credentials"),
    408: Fault("", NETWORK, "the request took too long to arrive; try again"),
    413: Fault("", CALLER, "the request is too large for it"),
    415: Fault("", CALLER, "it does not accept JSON; is this its MCP endpoint?"),
    429: Fault("", CALLER, "it got too many requests; wait and try again"),
    502: Fault("", NETWORK, "a proxy could not reach the server behind it"),
    503: Fault("", SERVER, "the server is not ready; try again"),
    504: Fault("", NETWORK, "a proxy got no answer from the server behind it"),
}
"""HTTP statuses; their meanings are the phrases of RFC 9110. Other statuses below 500 are the caller's fault."""

BUSY = frozenset((429, 503))
"""HTTP statuses of a server that did not start on a request (RFC 6585, section 4; RFC 9110, section 15.6.4)."""

AWAY = BUSY | {502, 504}  # HTTP statuses after which a server may soon answer

REFUSED = frozenset((401, 403, 407))
"""HTTP statuses that every further attempt would get too: the user must give other credentials first."""

OPENINGS = ("initialize", "server/discover")  # methods whose answer begins a session

UNCACHED = {"ttlMs": 0, "cacheScope": "private"}  # members of a result of 2026-07-28 that nobody shall keep

METHOD_NOT_FOUND, INTERNAL_ERROR = -32601, -32603  # JSON-RPC error codes
_REQUIRED = ("ping", "server/discover", "initialize")  # methods that each server of their version must have
_RESERVED = Fault("reserved by the specification", SERVER)
_OWN = Fault("the server's own code", SERVER)


_WORDS = {
    -32001: r"tim(?:e|ed)[ -]?out|timeout|deadline|in time|no answer",
    -32002: r"not found|no such|no resource|unknown|not exist|missing",
    -1: r"refus|reject|declin|den(?:y|ied)|cancel|abort|approv|permi|user",
}
"""Code that servers also use for other things -> words of messages that have its meaning."""


def of_code(code: object, method: str = "", message: object = "") -> Fault:
    """Return the meaning of an error code, as the answer to a method; the words of the message count more.

    >>> of_code(-32602).meaning, of_code(-31999).meaning, of_code(-32050).meaning
    ('invalid params', "the server's own code", 'reserved by the specification')
    >>> of_code(-32601, "prompts/list").party, of_code(-32601, "ping").party
    ('the caller', 'the server')
    >>> of_code(-32001, message="Request timed out").meaning, of_code(-32001, message="Session not found").meaning
    ('no answer in time', "the server's own code")
    """
    if code == METHOD_NOT_FOUND and method in _REQUIRED:
        return Fault("method not found", SERVER, f"{method} must be answered at any time")
    if not isinstance(code, int):
        return Fault("no code", SERVER)
    if message and code in _WORDS and not re.search(_WORDS[code], str(message)[:1000], re.IGNORECASE):
        return _OWN
    reserved = -32099 <= code <= -32020 or -32768 <= code < -32099
    return CODES.get(code) or (_RESERVED if reserved else _OWN)


def of_status(status: int) -> Fault:
    """Return the meaning of an HTTP status.

    >>> of_status(404)[:2], of_status(418)[:2], of_status(599)[:2]
    (('not found', 'the caller'), ("i'm a teapot", 'the caller'), ('an error', 'the server'))
    """
    fault = STATUSES.get(status)
    if fault is None:
        is_refused = status < 500
        fault = Fault("", CALLER if is_refused else SERVER, "the server refused" if is_refused else "the server failed")
    try:
        return fault._replace(meaning=HTTPStatus(status).phrase.lower())
    except ValueError:
        return fault._replace(meaning="an error")


def party_of(fault: Fault, *, asked_by_us: bool = True) -> str:
    """Return whose fault it is, from this host's view; `asked_by_us` is False for this host's answer to the server.

    >>> party_of(of_code(-32602)), party_of(of_code(-32602), asked_by_us=False)
    ('the caller', 'the server')
    """
    if asked_by_us or fault.party in (NETWORK, YOU):
        return fault.party
    return HOST if fault.party == SERVER else SERVER


# Servers that send requests during a call, which 2026-07-28 does not have.
#
# `ctx.elicit`, `ctx.session.create_message` and `ctx.session.list_roots` of the Python SDK work in handshake versions
# only. In later versions the SDK answers the call with an error that would blame the request.

_SDK_SAYS = re.compile(r"Cannot send '([\w/]{1,60})': this transport context has no back-channel")

_INSTEAD = {
    "elicitation/create": (
        "asks the user by `ctx.elicit`",
        'answer: Annotated[ElicitationResult[Model], Resolve(ask)]`, where `ask()` returns `Elicit("Where to?", Model)',
    ),
    "sampling/createMessage": (
        "asks a model by `create_message`",
        "reply: Annotated[CreateMessageResult, Resolve(ask)]`, where `ask()` returns `Sample(messages, max_tokens=100)",
    ),
    "roots/list": (
        "asks for roots by `list_roots`",
        "roots: Annotated[ListRootsResult, Resolve(ask)]`, where `ask()` returns `ListRoots()",
    ),
}
"""Method -> what the server does, and what works in all versions."""


def asked_in_vain(message: object) -> str:
    """Return the method of the request that a server tried to send, according to its error; else "".

    >>> asked_in_vain("Cannot send 'roots/list': this transport context has no back-channel for ...")
    'roots/list'
    """
    match = _SDK_SAYS.match(message) if isinstance(message, str) else None
    return match[1] if match else ""


def instead(method: str) -> str:
    """Say, on two lines, what a server does wrong by sending a request, and what to write instead."""
    does, parameter = _INSTEAD.get(method, (f"sends `{method}`", ""))
    wrong = f"the server {does} in the middle of the call, which 2026-07-28 does not have (fault: the server)"
    advice = f"\n  A parameter of the tool can ask: `{parameter}`; that works on all versions." if parameter else "."
    return wrong + advice


# Log messages and their levels (specification, "Logging"; RFC 5424, 6.2.1).

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")  # from least to most severe


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A log notification: when it came (`time.time()`), its level, its logger and its data."""

    time: float
    level: str
    logger: str
    data: Any


def at_least(level: str, least: str) -> bool:
    """Whether a level is at least as severe as another. Unknown levels count as severe; nothing reaches "off".

    >>> at_least("error", "warning"), at_least("info", "warning"), at_least("loud", "error"), at_least("error", "off")
    (True, False, True, False)
    """
    if least not in LEVELS:
        return False
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


_NEAREST = {
    "trace": "debug",
    "verbose": "debug",
    "silly": "debug",
    "fine": "debug",
    "finer": "debug",
    "finest": "debug",
    "information": "info",
    "informational": "info",
    "log": "info",
    "success": "info",
    "warn": "warning",
    "err": "error",
    "severe": "error",
    "exception": "error",
    "fatal": "critical",
    "crit": "critical",
    "panic": "emergency",
    "emerg": "emergency",
}
"""Name of a level in use elsewhere -> the nearest level."""

_STEPS = ((50, "critical"), (40, "error"), (30, "warning"), (20, "info"))  # numbers of Python's levels


def nearest_level(level: Any) -> str:
    """Return the level that is nearest to one of another system; an unknown one counts as a warning.

    Numbers up to 7 are severities of RFC 5424, larger ones levels of Python.

    >>> [nearest_level(level) for level in ("info", "WARN", "fatal", 3, 40, "loud", None)]
    ['info', 'warning', 'critical', 'error', 'error', 'warning', 'info']
    """
    if level in LEVELS:
        return str(level)
    if level is None:
        return "info"
    if isinstance(level, str) and level.strip().isdecimal() and len(level) < 6:
        level = int(level)
    if isinstance(level, int | float) and not isinstance(level, bool):
        if 0 <= level < len(LEVELS):
            return LEVELS[-1 - int(level)]
        return next((name for least, name in _STEPS if level >= least), "debug")
    name = str(level)[:40].strip().lower()
    return name if name in LEVELS else _NEAREST.get(name, "warning")


def checked(level: str) -> Any:
    """Return a level if it is valid. Raises ArgumentsError if there is no such level."""
    if level not in LEVELS:
        near = did_you_mean(level, LEVELS)
        problem = f"{level!r} is not a log level.{near} There are: {', '.join(LEVELS)}"
        raise ArgumentsError(problem)
    return level


def log_text(data: Any, masked: Callable[[str], str] = str, limit: int | None = None) -> str:
    """Return the data of a log message as text, secrets masked, of at most `limit` characters.

    >>> log_text("ready"), log_text({"rows": 3}), log_text("a long story", limit=6)
    ('ready', '{"rows": 3}', 'a long')
    """
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    # Mask twice the length: a secret that the first cut splits lies behind the second.
    return masked(text) if limit is None else masked(text[: 2 * limit])[:limit]


# Differences between protocol versions that the SDK does not handle.

T = TypeVar("T")


def assume_complete(message: Any) -> None:
    """Mark a result without `resultType`, in a 2026-07-28 session, as complete; the SDK would refuse it.

    Source: specification 2026-07-28, "Responses": "clients MUST treat an absent `resultType` as `complete`".
    """
    result = getattr(message, "result", None)
    if isinstance(result, dict) and "resultType" not in result:
        result["resultType"] = "complete"


async def ping(client: Client) -> None:
    """Raise MCPError unless a server answers `ping`, or since 2026-07-28, which has none, `server/discover`."""
    from mcp_types import EmptyResult, PingRequest

    session = client.session
    if session.discover_result is None:
        await session.send_request(PingRequest(), EmptyResult)
    else:
        await session.send_discover(client.protocol_version)


async def until_answered(client: Client) -> None:
    """Ping a server; an error of its own counts as an answer. Raises what ended the session."""
    try:
        await ping(client)
    except Exception as error:
        if is_closed(error) or not isinstance(getattr(error, "code", None), int):
            raise


# Recognises foreign errors: of the SDK, httpx2, anyio and sockets, also in exception groups.
#
# Types are compared by name, so that no package is imported for it.
#
# An exception group must not even remain in the `__context__` of the error raised instead: ipykernel would show the
# error as a stream, and nbclient would wait for its time-out. `without_context` takes it out where errors of a session
# are raised.

CLOSED = -32000  # the SDK's code for a request whose connection ended

_CLOSED_MESSAGES = ("Connection closed", "Connection lost", "SSE stream ")
"""Beginnings of the messages with this code, from the SDK and from `session/http.py`."""


class Said(str):
    """The message of an error that a server sent. The SDK makes errors up whose code and words a server may use too."""

    __slots__ = ()


def note_said(message: Any) -> None:
    """Mark the error in a JSON-RPC message as one that the server sent."""
    error = message.__dict__.get("error")
    if error is not None:
        error.message = Said(error.message)


def say(error: Any) -> None:
    """Mark an MCPError that a server in this process raises."""
    error.error.message = message = Said(error.error.message)
    error.args = (error.code, message, error.data)


def is_said(error: BaseException) -> bool:
    """Whether a server sent this error.

    The SDK hands the message on as it is, as an argument of the exception.
    """
    return any(isinstance(argument, Said) for argument in error.args)


def is_mistakable(error: Any, status: int | None) -> bool:
    """Whether the error in a server's answer, without its mark, could be taken for one that the SDK made up."""
    if not isinstance(error, dict) or not isinstance(text := error.get("message"), Said):
        return False
    return status not in (None, 200) or text.startswith(_CLOSED_MESSAGES)


def leaf(error: BaseException) -> BaseException:
    """Return the error inside nested groups that tells most about the cause.

    >>> leaf(ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("x")])]))
    ValueError('x')
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf(inner) for inner in error.exceptions]
    # "Connection closed" is only the consequence of a failure elsewhere.
    return next((e for e in leaves if getattr(e, "code", None) != CLOSED and isinstance(e, Exception)), leaves[0])


class _WithoutContext:
    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, MCPMagicError):
            error.__cause__ = error.__context__ = None


without_context = _WithoutContext()
"""Context manager: an error of this package that leaves the block has no foreign error in its context."""


def has_type(error: BaseException, package: str, *names: str) -> bool:
    """Whether an error is an instance of one of a package's types, given by name."""
    mro = type(error).__mro__
    return any(c.__module__.split(".")[0] == package and c.__name__ in names for c in mro)


def waited_in_vain(error: BaseException) -> bool:
    """Whether an error is asyncio's time-out; a socket's is a TimeoutError too, but has an errno."""
    return isinstance(error, TimeoutError) and error.errno is None


def is_mcp_error(error: BaseException) -> bool:
    """Whether an error is a JSON-RPC error, from the server or made up by the SDK."""
    return has_type(error, "mcp", "MCPError")


def is_transport_error(error: BaseException) -> bool:
    """Whether an error comes from the transport and not from the server.

    >>> is_transport_error(ConnectionResetError()), is_transport_error(TimeoutError())
    (True, False)
    """
    return (
        (isinstance(error, OSError | EOFError) and not waited_in_vain(error))
        or has_type(error, "httpx2", "TransportError")
        or has_type(error, "anyio", "ClosedResourceError", "BrokenResourceError", "EndOfStream")
        or has_type(error, "websockets", "ConnectionClosed")
    )


def is_unreachable(error: BaseException) -> bool:
    """Whether an HTTP request could not connect to its server."""
    return has_type(error, "httpx2", "ConnectError", "ConnectTimeout", "ProxyError", "PoolTimeout")


def is_closed(error: BaseException) -> bool:
    """Whether a request failed because its connection has ended."""
    return has_ended(error) or is_transport_error(error)


def has_ended(error: BaseException) -> bool:
    """Whether an error is the SDK's for an ended connection, by its text: servers use its code for anything.

    What a server itself says in these words is its own error.

    >>> has_ended(RuntimeError("Client must be used within an async context manager"))  # it was left a moment ago
    True
    """
    if isinstance(error, RuntimeError) and str(error).startswith("Client must be used within"):
        return True
    return getattr(error, "code", None) == CLOSED and str(error).startswith(_CLOSED_MESSAGES) and not is_said(error)


def chain_text(error: BaseException) -> str:
    """Return the texts of an error and of its causes; libraries wrap the telling one."""
    texts: list[str] = []
    link: BaseException | None = error
    while link is not None and len(texts) < 8:
        texts.append(f"{type(link).__name__}: {link}")
        link = link.__cause__ or link.__context__
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        texts.append("refused")
    return "; ".join(texts)


# Checks structured answers against the output schema of their tool, instead of the SDK.


class OutputCheck(NamedTuple):
    """What a check of an answer by its tool's output schema showed, in words.

    Attributes:
        unfit: Why the answer does not fit; "" if it does.
        unchecked: What was not checked and why; "" if all was.
    """

    unfit: str = ""
    unchecked: str = ""


def check_output(result: CallToolResult, tool: Tool) -> OutputCheck:
    """Check a result by its tool's output schema. The tool has run, so the answer is kept also if it does not fit."""
    if tool.output_schema is None or result.is_error:
        return OutputCheck()
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        return OutputCheck("the tool has an output schema, but its answer has no structured content")
    try:
        return OutputCheck(unchecked=check_answer(result.structured_content, tool.output_schema))
    except ValueError as error:
        return OutputCheck(f"the answer does not fit the tool's output schema: {error}")
