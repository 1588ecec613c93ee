"""Translates errors of transports and of the SDK into errors of this package that say what to do."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shlex
import shutil
import time
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcp_magic import errors
from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import clause, did_you_mean, duration, join_names, sentence
from mcp_magic.config.programs import source_of
from mcp_magic.config.specs import InProcessSpec, StdioSpec, UrlSpec
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.text import one_line
from mcp_magic.errors import SessionClosedError
from mcp_magic.flight.attempt import Attempt, retry_after
from mcp_magic.protocol import (
    BUSY,
    CALLER,
    INTERNAL_ERROR,
    NETWORK,
    SERVER,
    Fault,
    Said,
    asked_in_vain,
    chain_text,
    has_ended,
    has_type,
    instead,
    is_closed,
    is_mcp_error,
    is_said,
    is_transport_error,
    is_unreachable,
    leaf,
    of_code,
    of_status,
    party_of,
    waited_in_vain,
)
from mcp_magic.records import without_bars
from mcp_magic.results.reasons import MAX_LINE, MAX_WHOLE, full_text, of_body
from mcp_magic.session.negotiation import ListensError, named_url, spoken_versions, versions_in
from mcp_magic.session.reader import members_of_input, text_of_input
from mcp_magic.session.stdio import BEGINNING, identify
from mcp_magic.session.wire import ErrorContext, not_recorded, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp_magic.flight.backoff import Backoff
    from mcp_magic.stderr import Position

E = TypeVar("E", bound=errors.MCPMagicError)


# Why a server cannot be used, and what to do about it. Errors and the doctor take it from here.


class Reason(NamedTuple):
    """Why a server cannot be used, and what to do about it, or ""; both are clauses without a final period."""

    problem: str
    todo: str = ""

    @property
    def text(self) -> str:
        """Both in one clause."""
        return "; ".join(filter(None, self))


def not_started(spec: StdioSpec, error: OSError | NotImplementedError) -> Reason:
    """Say why a server's process could not be started."""
    if isinstance(error, NotImplementedError):
        return _no_processes(spec.where)
    if spec.cwd is not None and not os.path.isdir(spec.cwd):  # noqa: PTH112
        return Reason(f"the working directory {str(spec.cwd)!r} does not exist", "--cwd names another")
    command = spec.masked(spec.command)
    if isinstance(error, FileNotFoundError) and os.path.dirname(spec.command):  # noqa: PTH120
        return _no_such_program(spec, command)
    if isinstance(error, FileNotFoundError):
        near = did_you_mean(spec.command, (c for c in ("python", "python3", "node", "npx", "uvx", "uv", "deno")))
        near = near if near and shutil.which(near.split("'")[1]) else ""
        todo = source_of(spec.command) or f"is it installed and on PATH?{near}"
        return Reason(f"the command {command!r} is not found", todo)
    todo = ""
    if error.errno == errno.ENOEXEC:
        todo = "is it made for this machine, and does a script begin with `#!`?"
    elif isinstance(error, PermissionError) and os.path.isfile(spec.command):  # noqa: PTH113
        todo = f"`chmod +x {shlex.quote(command)}` makes it executable"
    why = clause(error.strerror or str(error))
    return Reason(f"the command {command!r} cannot be started" + (f": {why}" if why else ""), todo)


def _no_processes(where: str) -> Reason:
    """Say that the event loop cannot start processes: that of Windows' selector, or one beside a foreign policy."""
    policy = type(asyncio.get_event_loop_policy())
    problem = f"{where} cannot be started, because the event loop of this kernel starts no processes"
    if policy.__module__.partition(".")[0] != "asyncio":
        foreign = f"{policy.__module__.partition('.')[0]} has replaced asyncio's policy"
        return Reason(f"{problem}: {foreign}", "`asyncio.set_event_loop_policy(None)` takes that back")
    return Reason(problem, "run the server elsewhere, and connect to its URL")


def _no_such_program(spec: StdioSpec, command: str) -> Reason:
    """Say why a command that is a path could not be started: PATH does not count for it."""
    path = os.path.join(spec.cwd or "", os.path.expanduser(spec.command))  # noqa: PTH118, PTH111
    if os.path.lexists(path) and spec.command == os.path.expanduser(spec.command):  # noqa: PTH111
        todo = "does the program exist that its first line (`#!`) or its link names?"
        return Reason(f"the command {command!r} is there, but cannot be started", todo)
    if spec.command.startswith("~"):
        return Reason(f"the command {command!r} does not exist", "`~` is for a shell: write the whole path")
    if os.path.isabs(spec.command):  # noqa: PTH117
        return Reason(f"the command {command!r} does not exist", "is the path right?")
    return Reason(
        f"the command {command!r} does not exist in {spec.cwd or 'the folder of the kernel'}", "--cwd names another"
    )


def unreachable(error: BaseException, where: str) -> Reason:
    """Say why there is no connection to `where`, from an error of a socket, httpx2 or websockets."""
    text = chain_text(error)
    if f"[Errno {errno.EMFILE}]" in text:
        problem = f"no connection to {where}: this process has as many files open as it can (`ulimit -n`)"
        return Reason(problem, "close some, or make fewer calls at once")
    if "imeout" in type(error).__name__:
        return Reason(f"no connection to {where} in time", "is a firewall between?")
    if "SSL" in text:
        problem, todo = tls_failure(error)
        return Reason(f"TLS to {where} failed: {problem}", todo)
    if any(sign in text for sign in ("gaierror", "getaddrinfo", "Name or service not known", "No address")):
        return no_host(where)
    if "unreachable" in text or "No route to host" in text:
        return Reason(f"{where} is unreachable (no route)", "is this machine on the network?")
    if IN_BROWSER:  # the browser reports only that the request failed
        todo = "is the server running, and does it allow pages of other sites (CORS) to call it?"
        return Reason(f"the browser got nothing from {where}", todo)
    return Reason(f"nothing listens at {where}", "is the server running?")


def no_host(where: str) -> Reason:
    """Say that a host name could not be looked up."""
    return Reason(f"no such host: {where}", "is the name right, and this machine on the network?")


_TLS = re.compile(r"\[SSL[^\]]*\] (?:certificate verify failed: )?(.+?) \(_ssl")


def tls_failure(error: BaseException, names: Sequence[str] = ()) -> Reason:
    """Say why a TLS handshake failed."""
    text = chain_text(error)
    match = _TLS.search(text)
    problem = match[1] if match else str(error) or type(error).__name__
    if "imeout" in type(error).__name__:
        return Reason("no answer in time", "does this port speak TLS?")
    if "expired" in problem:
        return Reason(problem, "renew the certificate")
    if "Hostname mismatch" in problem or "IP address mismatch" in problem:
        return Reason(
            problem, f"connect by a name that it is for ({join_names(names, 4) or 'another'}), or get one for this name"
        )
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Reason(problem, "--ca FILE names the authority to trust")
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER" in text or isinstance(error, ConnectionError):
        return Reason(problem, "this port speaks no TLS: is it http:// (ws://)?")
    return Reason(problem, "see the server's TLS settings")


def refused_with(status: int) -> Reason:
    """Say what an HTTP status means and whose fault it is."""
    fault = of_status(status)
    return Reason(f"HTTP {status} ({fault.meaning}; fault: {party_of(fault)})", fault.help)


# Errors while a session is opened.

NO_SERVER = "Is it a server? A program with an MCPServer must call run()."
"""Hint for a program that ends at once with exit code 0."""


def connect_error(error: BaseException, place: ErrorContext) -> Exception:
    """Say why no session could be opened; an error of this package is returned as it is."""
    cause = leaf(error)
    if isinstance(cause, errors.MCPMagicError):
        return cause
    if not_recorded(cause, place):
        return errors.CassetteError(str(cause))
    if waited_in_vain(cause):
        return _handshake_timeout(place)
    opening = place.wire.opening if place.wire is not None else None
    explained = _explain(cause, place)
    explained = with_whole(explained, cause, place, opening.body if opening is not None and unreadable(cause) else "")
    if takes := versions_in(cause):
        both = f"it takes {_names(takes)}; mcp_magic speaks {_names(spoken_versions())}"
        first, newline, rest = str(explained).partition("\n")
        explained.args = (f"{first}\n  {place.masked(both)}{newline}{rest}",)
    if place.spec.protocol != "auto" and isinstance(explained, errors.ServerExitedError | errors.NotAnMCPServerError):
        method = "initialize" if place.spec.protocol == "handshake" else "server/discover"
        hint = f"--protocol {place.spec.protocol} asks for {method} only; --protocol auto tries both."
        chosen_error = type(explained)(f"{explained}\n  {hint}", stderr=explained.stderr)
        chosen_error.details = explained.details
        return chosen_error
    return explained


def with_whole(error: E, cause: BaseException, place: ErrorContext, body: str = "") -> E:
    """Give an error all that a server said, in a JSON-RPC error or an HTTP body, if its message has only a part."""
    own = is_mcp_error(cause) and not (_is_made_up(cause) or unreadable(cause) or asked_in_vain(str(cause)))
    details = full_text(str(cause), getattr(cause, "data", None)) if own else body
    details = place.masked(details.strip()[: 2 * MAX_WHOLE])[:MAX_WHOLE]
    if clause(details) not in str(error):
        error.details = details
    return error


def _explain(error: BaseException, place: ErrorContext) -> errors.MCPMagicError:
    """Say why no session could be opened; the first case that matches counts."""
    name, spec, where = place.name, place.spec, place.spec.where
    opening = place.wire.opening if place.wire is not None else None
    status = opening.status or 0 if opening is not None else 0
    if isinstance(error, ListensError):
        text = f"{name}: {where} serves HTTP, does not use stdin and stdout, and was ended."
        text = f"{text} Start it in a terminal, then type:\n  %mcp connect {spec.masked(error.url)}"
        return errors.ConnectError(text, stderr=place.stderr())
    if isinstance(error, OSError | NotImplementedError) and isinstance(spec, StdioSpec):
        return errors.CommandNotFoundError(sentence(f"{name}: {not_started(spec, error).text}"))
    if isinstance(spec, InProcessSpec):
        return errors.ConnectError(f"{name}: {where} failed to start: {text_of(error, place)}")
    if has_type(error, "httpx2", "HTTPStatusError") or (status >= 400 and is_mcp_error(error)):
        return _http_status(error, place, opening)
    if is_unreachable(error) or isinstance(error, OSError):
        return errors.UnreachableError(sentence(f"{name}: {unreachable(error, where).text}"))
    if has_type(error, "httpx2", "UnsupportedProtocol", "InvalidURL") or has_type(error, "websockets", "InvalidURI"):
        return errors.TargetError(f"{name}: {where!r} is not a usable URL: {text_of(error, place)}")
    if has_type(error, "websockets", "InvalidStatus"):
        return _http_status(error, place, opening)
    foreign = has_type(error, "websockets", "WebSocketException")
    if has_ended(error) or (is_transport_error(error) and not foreign):
        return _exited(place, error)
    if foreign or is_mcp_error(error) or isinstance(error, RuntimeError | ValueError):
        kind = opening.content_type.partition(";")[0] if opening is not None else ""
        media_type = f" with {kind}" if kind and "json" not in kind and "event-stream" not in kind else ""
        why = place.masked(unreadable(error)) or text_of(error, place)
        text = f"{name}: {where} answered{media_type}, but not as an MCP server: {why}"
        body_line = _unread_line(opening, place)
        return errors.NotAnMCPServerError(f"{text}{body_line}{place.cause_lines()}", stderr=place.stderr())
    return errors.ConnectError(f"{name}: cannot connect to {where}: {text_of(error, place)}")


def _handshake_timeout(place: ErrorContext) -> errors.ConnectError:
    where, seconds = place.spec.where, place.spec.timeout
    if garbage := place.garbage():
        text = f"{place.name}: {where} printed {garbage!r} to stdout, which is not an MCP message, and did not answer"
        return errors.NotAnMCPServerError(f"{text} in {seconds:g} s.{place.cause_lines()}", stderr=place.stderr())
    text = f"{place.name}: {where} did not answer the handshake within {seconds:g} s (--timeout S waits longer)."
    stray = f"\n  {place.wire.stray} (fault: the server)." if place.wire and place.wire.stray else ""
    stderr = place.cause_lines()
    url = named_url(place.output()) if isinstance(place.spec, StdioSpec) else ""
    text += f" If it listens at a URL instead: `%mcp connect {url}`." if url else ""
    return errors.ConnectTimeoutError(text + stray + stderr, stderr=place.stderr())


_ILLEGAL_HEADER = re.compile(r"illegal header line: \w+\(b(['\"])(.*)\1\)")  # of h11


def _exited(place: ErrorContext, error: BaseException) -> errors.ConnectError:
    if has_type(error, "httpx2", "SSEError"):  # of the stream of a session
        return errors.NotAnMCPServerError(sentence(f"{place.name}: {place.spec.where}: {text_of(error, place)}"))
    if isinstance(place.spec, StdioSpec):
        stderr = place.cause_lines()
        wrote = (
            f" It printed {garbage!r} to stdout, which is not an MCP message." if (garbage := place.garbage()) else ""
        )
        if place.exit_text() == " (exit code 0)" and not stderr and not wrote:
            wrote = f" {NO_SERVER}"
        text = f"{place.name}: {place.spec.where} ended before it answered{place.exit_text()}.{wrote}{stderr}"
        return errors.ServerExitedError(text, stderr=place.stderr())
    happened = place.wire.opening.error if place.wire is not None and place.wire.opening is not None else None
    if (header := _ILLEGAL_HEADER.search(str(happened))) is not None:
        header_text = one_line(place.masked(header[2]), 200)
        text = f"{place.name}: {place.spec.where} answered with a header that HTTP does not allow: {header_text}"
        return errors.NotAnMCPServerError(f"{text} (fault: the server).")
    return errors.NotAnMCPServerError(f"{place.name}: {place.spec.where} closed the connection before it answered.")


def _http_status(error: BaseException, place: ErrorContext, opening: Attempt | None) -> errors.ConnectError:
    if opening is not None and isinstance(opening.error, errors.AuthorizationError):
        return opening.error
    status, wait = 0, None
    if (response := getattr(error, "response", None)) is not None:
        status, wait = response.status_code, retry_after(response.headers.get("retry-after"))
    elif opening is not None:
        status, wait = opening.status or 0, opening.retry_after
    text = sentence(
        f"{place.name}: {place.spec.where} answered {refused_with(status).problem}", refused_with(status).todo
    )
    asks = f" It asks to wait {wait:.0f} s." if status in BUSY and wait is not None else ""
    body = _body(error, opening)
    refused = errors.HTTPStatusError(f"{text}{asks}{_body_line(body, status, place)}", status, wait)
    return with_whole(refused, error, place, body)


def _body(error: BaseException, attempt: Attempt | None) -> str:
    """Return the body of an HTTP error; "" if there is none or it is unknown."""
    if attempt is not None and attempt.body:
        return attempt.body
    body = getattr(getattr(error, "response", None), "body", b"")  # of websockets
    return bytes(body)[: 2 * MAX_WHOLE].decode("utf-8", "replace") if isinstance(body, bytes | bytearray) else ""


def _body_line(body: str, status: int, place: ErrorContext) -> str:
    """Return a line with the reason in an HTTP error's body; "" if it only repeats the status."""
    line = one_line(place.masked(of_body(body)[: 2 * MAX_LINE]), MAX_LINE)
    plain = re.sub(rf"{status}|\W|error|http", "", line.lower())
    repeats = plain in re.sub(r"\W", "", f"{of_status(status).meaning} not found bad request".lower())
    return "" if repeats else f"\n  the server says: {line}"


def _unread_line(attempt: Attempt | None, place: ErrorContext) -> str:
    """Return a line with what a body that is no answer says: of JSON, HTML or text; "" for JSON that was cut."""
    body = attempt.body.strip() if attempt is not None else ""
    if not body or (body[0] in "{[" and loads(body) is NOT_JSON):
        return ""
    return _body_line(body, attempt.status or 0 if attempt is not None else 0, place)


# Unreadable answers: the errors that their requests get instead.
#
# The SDK drops a message that it cannot read, so the pending request would wait until its deadline. Over HTTP the SDK
# itself answers with an error; over stdio, SSE and WebSocket this module does.

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600

_SDK_SAYS = re.compile(
    r"Failed to parse |Unexpected content type|server answered a request with 202 |Redirects? (?:to|in a circle)"
)
"""Beginnings of the errors with which the SDK, or `http.py`, replaces an unreadable answer; their codes would blame the
request."""

_INVALID_JSON = re.compile(r"^ *(Invalid JSON: .*?) \[type=json_invalid", re.MULTILINE)
_COUNT = re.compile(r": \d+ validation errors? for .*")


class Unreadable(Exception):
    """Recorded text that was no valid message, and the `SessionMessage` that the request got instead, or None."""

    def __init__(self, text: str, instead: Any = None) -> None:
        super().__init__(text)
        self.instead = instead


def unreadable(error: BaseException | str) -> str:
    """Return why an answer could not be read, from an error of the SDK; "" if the error is about something else."""
    message = str(error)
    text = message.partition("\n")[0]
    if not _SDK_SAYS.match(text) or isinstance(error, Said) or (isinstance(error, Exception) and is_said(error)):
        return ""
    why = _INVALID_JSON.search(message[:BEGINNING])
    return _COUNT.sub("", text).rstrip(": ") + (f": {one_line(why[1], 200)}" if why else "")


def unread_text(problem: Exception) -> str:
    """Return the unreadable text that the server wrote."""
    details = _invalid_parts(problem)
    return text_of_input(details[0].get("input", "")) if details else str(problem)


def stand_in_line(message: Any, server: str) -> str:
    """Return a log line if a message is the SDK's replacement for an unreadable answer; else ""."""
    error = message.__dict__.get("error")
    reason = unreadable(error.message) if error is not None else ""
    return f"The server {server} sent an answer that cannot be read ({reason})" if reason else ""


def log_line(problem: Exception, server: str, masked: Callable[[str], str]) -> str:
    """Return a log line about an unreadable message; "" for text that does not look like a message."""
    text = masked(unread_text(problem)[:BEGINNING]).strip()
    if not text.startswith("{") and '"jsonrpc"' not in text:
        return ""
    details = _invalid_parts(problem)
    why = f" ({details[0]['msg']})" if details and details[0]["type"] == "json_invalid" else ""
    return f"The server {server} sent a message that cannot be read{why}: {one_line(text, 100)}"


def instead_of(problem: Exception) -> Any:
    """Return the JSON-RPC error that ends a request with an unreadable answer; None if the text is no answer."""
    if isinstance(problem, Unreadable):
        return problem.instead
    answer = whole_answer(problem)
    number = _id_of(answer)
    return _error(number, _reason(problem, answer)) if answer is not None and number is not None else None


def refusal_of(problem: Exception) -> Any:
    """Return the JSON-RPC error that answers an unreadable request of the server; None if the text is none."""
    request = _members_of(problem) or {}
    number = _id_of(request)
    if number is None or "method" not in request:
        return None
    details = _invalid_parts(problem)
    if details[0]["type"] == "json_invalid":
        return _error(number, details[0]["msg"], "the request")
    return _error(number, "it is not JSON-RPC 2.0", "the request", _INVALID_REQUEST)


def instead_of_strange(number: int | str, difference: str) -> Any:
    """Return the error that ends the request `number`; `difference` describes the wrong id of its answer."""
    return _error(number, f"it came {difference}; the request has id {json.dumps(number)}")


def whole_answer(problem: Exception) -> dict[str, Any] | None:
    """Return the members of an unreadable message if it appears to be an answer, else None."""
    answer = _members_of(problem)
    return answer if answer is not None and "method" not in answer else None


def is_part_of_answer(problem: Exception) -> bool:
    """Whether an unreadable message is an answer, or was begun as one."""
    return bool((whole_answer(problem) or {}).keys() & {"id", "result", "error"})


def _members_of(problem: Exception) -> dict[str, Any] | None:
    """Return the members of an unreadable message; of invalid JSON, only id and kind."""
    details = _invalid_parts(problem)
    if details and details[0]["type"] == "json_invalid":
        text = unread_text(problem)
        return identify(text, text)
    return members_of_input(details)


def _id_of(members: dict[str, Any] | None) -> int | str | None:
    number = (members or {}).get("id")
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def _invalid_parts(problem: Exception) -> list[Any]:
    return problem.errors() if hasattr(problem, "errors") else []


def _error(number: int | str, reason: str, subject: str = "the answer", code: int = _PARSE_ERROR) -> Any:
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    parse_error = ErrorData(code=code, message=f"Failed to parse {subject}: {reason}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=parse_error))


def _reason(problem: Exception, answer: dict[str, Any]) -> str:
    """Return why an answer cannot be read: invalid JSON, or a problem in its result or error."""
    details = _invalid_parts(problem)
    if details[0]["type"] == "json_invalid":
        return str(details[0]["msg"])
    for member in ("error", "result"):
        for detail in details if member in answer else ():
            if member in detail["loc"]:
                return f"{'.'.join(map(str, detail['loc'][1:]))}: {detail['msg']}"
    kinds = {"result", "error"} & answer.keys()
    return "it is not JSON-RPC 2.0" if kinds else "it has neither a result nor an error"


# Errors of requests.
#
# Errors of the SDK, httpx2, sockets and processes arrive in nested ExceptionGroups; `protocol.leaf` finds the telling
# one. `connect_error` explains it while a session is opened, `request_error` afterwards. Nothing else in the package
# looks at foreign error types.

_TIMED_OUT = -32001
"""The SDK's code for a request that was not answered in time. Some servers use it for "session not found"."""

_SDK_TIMED_OUT = re.compile(r"Request .* timed out")


def request_error(
    error: BaseException, place: ErrorContext, title: str, seconds: float | None = None, attempt: Attempt | None = None
) -> Exception:
    """Say why a request on an open session, such as `"weather:forecast"`, failed."""
    cause = leaf(error)
    if isinstance(cause, errors.MCPMagicError):
        return cause
    if not_recorded(cause, place):
        return errors.CassetteError(str(cause))
    if attempt is not None and attempt.status in BUSY:
        return _protocol_error(cause, place, title, attempt)
    if timed_out(cause) or waited_in_vain(cause):
        after = f" within {seconds:g} s" if seconds is not None else " in time"
        return errors.RequestTimeoutError(f"{title}: timed out: no answer{after}. The call was cancelled.")
    if is_closed(cause):
        return closed_error(place, cause)
    broken = unreadable(cause) if is_mcp_error(cause) else ""
    if is_mcp_error(cause) and not broken:
        return _protocol_error(cause, place, title, attempt)
    # pydantic's ValidationError, a result that breaks its schema, or an answer that is no JSON-RPC
    if isinstance(cause, ValueError | RuntimeError) or broken:
        reason = place.masked(broken)[:300] or text_of(cause, place)
        body_line = _unread_line(attempt, place) if broken else ""
        invalid = errors.InvalidResponseError(f"{title}: the server's answer breaks the protocol: {reason}{body_line}")
        return with_whole(invalid, cause, place, attempt.body if body_line and attempt is not None else "")
    return errors.SessionError(f"{title}: {type(cause).__name__}: {text_of(cause, place)}")


def why_unanswered(error: BaseException, *, is_closing: bool) -> Fault:
    """Return why nobody waits for an answer any more; the meaning has `{}` for how long that took."""
    cause = leaf(error)
    if isinstance(cause, asyncio.CancelledError):
        return Fault("cancelled after {}", CALLER)
    if is_closing:
        return Fault("the session was closed after {}", CALLER)
    if timed_out(cause) or waited_in_vain(cause):
        return Fault("no answer in {}", SERVER)
    if is_transport_error(cause):
        return Fault("the connection was lost after {}", NETWORK)
    return Fault("the session ended after {}" if is_closed(cause) else "no usable answer in {}", SERVER)


def timed_out(error: BaseException) -> bool:
    """Whether an error is the SDK's for a request that was not answered in time."""
    is_late = getattr(error, "code", None) == _TIMED_OUT and _SDK_TIMED_OUT.match(str(error)) is not None
    return is_late and not is_said(error)


def closed_error(
    place: ErrorContext, reason: BaseException | None = None, title: str = "", offset: Position | None = None
) -> errors.SessionClosedError:
    """Say that a session has ended, why if known, and how to open it again.

    `title` is a request that it leaves without an answer, and `offset` the end of the stderr when that was sent.
    """
    name, why = place.name, why_closed(place, reason)
    text = f"{title or name}: the session has ended{why}"
    text += " before the answer came, so it may have run" if title else ""
    stderr = place.cause_lines(since=offset if title else place.stderr_offset)
    return errors.SessionClosedError(f"{text}; `%mcp reconnect {name}` opens it again.{stderr}", stderr=place.stderr())


def why_closed(place: ErrorContext, reason: BaseException | None = None) -> str:
    """Return why a session has ended, as words after `has ended`; "" if unknown."""
    status = getattr(getattr(reason, "response", None), "status_code", None)
    if status is not None:
        return f" after HTTP {status}"
    if how := place.exit_text():
        return how
    return f" ({text_of(reason, place)})" if reason is not None and is_transport_error(reason) else ""


def _protocol_error(cause: Any, place: ErrorContext, title: str, attempt: Attempt | None) -> errors.ProtocolError:
    status = attempt.status if attempt is not None else None
    wait = attempt.retry_after if attempt is not None and attempt.status in BUSY else None
    code, data = getattr(cause, "code", INTERNAL_ERROR), getattr(cause, "data", None)
    text = _status_words(cause, place, status, wait) if status in BUSY or _is_made_up(cause) else ""
    body = attempt.body if attempt is not None and _is_made_up(cause) else ""
    text = text + _body_line(body, status or 0, place) if text else _code_words(cause, place, title)
    refused = errors.ProtocolError(f"{title}: {text}", code, data, status=status, retry_after=wait)
    with_whole(refused, cause, place, body)
    if "\n" in refused.details.partition("\ndata: ")[0] or refused.details.count("\n") > 1:
        before = "; " if "\n" in text else "\n  "
        refused.args = (f"{refused}{before}`%mcp last` shows the whole text",)
    return refused


def _is_made_up(cause: Any) -> bool:
    """Whether the SDK made the error up because HTTP answered with a status only."""
    made_up = str(cause).startswith(("Server returned", "Session term"))
    return is_closed(cause) or (made_up and not is_said(cause) and cause.code in (INTERNAL_ERROR, _INVALID_REQUEST))


def _status_words(cause: Any, place: ErrorContext, status: int | None, wait: float | None) -> str:
    """Name the HTTP status, its meaning and whose fault it is; "" for a success."""
    if status is None or status < 400:
        return ""
    own = "" if _is_made_up(cause) else clause(text_of(cause, place))
    if wait is not None:
        meaning = own or ("it got too many requests" if status == 429 else "the server is not ready")
        return f"HTTP {status}: {meaning}; it asks to wait {wait:.0f} s. It did not run."
    reason = refused_with(status)
    return sentence(reason.problem, own or reason.todo)


def _code_words(cause: Any, place: ErrorContext, title: str) -> str:
    """Name the code, its meaning and whose fault it is; on a second line what to do, if known."""
    if method := asked_in_vain(str(cause)):
        return instead(method)
    fault = of_code(cause.code, title.rpartition(" ")[2], cause)
    text = f"{clause(text_of(cause, place))} ({cause.code}, {fault.meaning}; fault: {party_of(fault)})"
    todo = fault.help.replace("{server}", place.name)
    more = "; ".join(part for part in (_details(cause.data), todo) if part)
    return f"{text}\n  {place.masked(more)}" if more else text


def _details(data: Any) -> str:
    """Return the versions or capabilities that the `data` of an error names."""
    members = data if isinstance(data, dict) else {}
    supported, required = members.get("supported"), members.get("requiredCapabilities")
    if isinstance(supported, list):
        return f"it takes {_names(supported)}"
    return f"it wants {_names(required)}" if isinstance(required, dict) else ""


def _names(values: Iterable[object]) -> str:
    return join_names(str(name)[:40] for name in values)


# Why a tool failed, from the server's stderr: since SDK 2.3 MCPServer tells it only its own log.

_BEGINS = "Traceback (most recent call last):"
_CAUSE_FOLLOWS = "The above exception was the direct"
"""How Python introduces the cause of an exception: the part that stays on one line when rich formats it."""

_TOOL_ERROR = "Error executing tool "

_MODULE = re.compile(r"^(?:\w+\.)+")
_FRAME = "╰"  # begins the last line of a traceback by rich, which MCPServer logs with if it is installed


def clue(place: ErrorContext, tool: str, offset: Position | None) -> str:
    """Return words after `half:add failed` that lead to the cause, or "".

    `offset` is the end of the server's stderr when the tool was called; None if this host does not have the stderr.
    """
    if offset is None:
        return " and did not say why; the server's own log may" if isinstance(place.spec, UrlSpec) else ""
    where = f"`%mcp logs {place.name}`"
    causes = causes_in(place.stderr(offset), tool)
    if len(causes) > 1:  # nothing tells which of them belongs to this call
        return f" without saying why; calls overlapped, so {where} has all reasons"
    cause = one_line(_MODULE.sub("", "".join(causes)), 300)
    return f": {cause} ({where} has more)" if cause else f" and did not say why; {where} may"


def causes_in(stderr: str, tool: str) -> set[str]:
    r"""Return the exceptions that MCPServer logged as causes of a tool's failures: several if calls overlapped.

    >>> own, after = "UnexpectedToolError: Error executing tool add", _CAUSE_FOLLOWS
    >>> log = f"Traceback (most recent call last):\n  File 'a.py'\nValueError: no\n\n{after} cause of ...\n{own}\n"
    >>> causes_in(log, "add"), causes_in(log, "print"), causes_in(log + log, "add")
    ({'ValueError: no'}, set(), {'ValueError: no'})
    >>> sorted(causes_in(log + log.replace("no", "yes"), "add")), causes_in(log + log.replace("add", "print"), "add")
    (['ValueError: no', 'ValueError: yes'], {'ValueError: no'})
    >>> group = f"  | Traceback (most recent call last):\n  |   File 'a.py'\n  | ValueError: no\n  +----\n"
    >>> causes_in(f"{group}{after}\n{own}", "add")
    {'ValueError: no'}
    >>> causes_in(f"  ╭─ Traceback ─╮\n  ╰─────╯\n  ValueError: no\n  ink\n  {after}\n  cause of\n{own}", "add")
    {'ValueError: no ink'}
    """
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if line.lstrip().startswith(_CAUSE_FOLLOWS)]
    causes = set()
    for begin, end, after in zip([0, *ends], ends, [*ends[1:], len(lines)], strict=False):
        if re.search(rf"{_TOOL_ERROR}{re.escape(tool)}(?![\w./-])", " ".join(map(str.strip, lines[end:after]))):
            causes.add(_cause(lines[begin:end]))
    return causes


def _cause(log: list[str]) -> str:
    """Return the exception at the end of a log's last traceback, or ""; of a group, its last exception."""
    log = [line for line in map(without_bars, log) if line]
    for number in reversed(range(len(log))):
        if log[number].lstrip()[0] == _FRAME:
            return " ".join(line.strip() for line in log[number + 1 :])
        if log[number].endswith(_BEGINS):
            cause = dropwhile(lambda line: line.startswith(" "), log[number + 1 :])
            return " ".join(line.strip() for line in cause)
    return ""


# Errors of sessions that were lost and may come back.


def away(backoff: Backoff | None) -> str:
    """Say for a listing how long a session has been lost, and when the next attempt is."""
    if backoff is None:
        return "being opened again"
    text = f"lost {duration(round(backoff.away))} ago, tried {_times(backoff.attempts)}"
    if backoff.next is None:
        return f"{text}, being tried now"
    return f"{text}, next in {duration(round(backoff.next - time.monotonic()))}"


def waited_error(server: str, title: str, seconds: float, backoff: Backoff | None, last: str) -> SessionClosedError:
    """Say that a request was not sent because its session did not come back in time."""
    error = SessionClosedError(
        f"{title}: not sent: the session did not come back within {seconds:g} s ({away(backoff)}); "
        f"`%mcp reconnect {server}` tries it at once.{_last_line(last)}"
    )
    error.sent, error.waited = False, True
    return error


def lost_error(server: str, title: str, why: BaseException, place: ErrorContext) -> SessionClosedError:
    """Say that the connection was lost before a request was answered, and that it was not sent again."""
    because = clause(text_of(why, place))
    return SessionClosedError(
        f"{title}: the connection was lost before the answer came ({because}), so it may have run; it was not sent "
        f"again. The session of {server} comes back by itself."
    )


def gave_up(closed: SessionClosedError, backoff: Backoff, last: str) -> SessionClosedError:
    """Add to the error of a lost session how often and how long reconnecting was tried."""
    tried = f"\n  given up after {duration(round(backoff.away))}, tried {_times(backoff.attempts)}"
    return SessionClosedError(f"{closed}{tried}{_last_line(last, '; ')}", stderr=closed.stderr)


def _last_line(reason: str, before: str = "\n  ") -> str:
    first = reason.partition("\n")[0]
    return f"{before}last: {first[:300]}" if first else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
