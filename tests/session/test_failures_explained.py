"""Every foreign error becomes one of ours, which says whose fault it is and shows no secret."""

from __future__ import annotations

import inspect

import anyio
import httpx2
import mcp_types
import pytest
from mcp import MCPError
from websockets.exceptions import InvalidHandshake, InvalidURI

from mcp_magic import errors
from mcp_magic.config.specs import HttpSpec, StdioSpec, WebSocketSpec
from mcp_magic.flight.attempt import Attempt
from mcp_magic.protocol import CODES
from mcp_magic.session.failures import connect_error, request_error
from mcp_magic.session.wire import ErrorContext

HTTP = ErrorContext("web", HttpSpec(url="http://127.0.0.1:1/mcp", headers={"Authorization": "Bearer sesame-123"}))
TRANSPORT_ERRORS = [
    kind
    for _, kind in inspect.getmembers(httpx2, inspect.isclass)
    if issubclass(kind, httpx2.TransportError | httpx2.InvalidURL) and kind is not httpx2.TransportError
]


@pytest.mark.parametrize("kind", TRANSPORT_ERRORS, ids=lambda kind: kind.__name__)
def test_transport_errors_of_httpx2_are_explained(kind):
    explained = connect_error(ExceptionGroup("unhandled", [ExceptionGroup("inner", [kind("sesame-123 lost")])]), HTTP)
    assert isinstance(explained, errors.ConnectError | errors.TargetError)
    assert not str(explained).startswith("web: cannot connect"), "the fallback is for what nobody foresaw"
    assert "sesame" not in str(explained)
    if issubclass(kind, httpx2.TransportError):
        assert isinstance(request_error(kind("gone"), HTTP, "web:tool"), errors.SessionClosedError)


@pytest.mark.parametrize("kind", [anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, EOFError])
def test_closed_streams_end_a_session(kind):
    assert isinstance(request_error(kind(), HTTP, "web:tool"), errors.SessionClosedError)
    assert isinstance(connect_error(kind(), HTTP), errors.ConnectError)


def test_the_error_that_tells_most_is_taken_and_ours_kept():
    assert str(connect_error(KeyError("sesame-123"), HTTP)) == "web: cannot connect to http://127.0.0.1:1/mcp: '***'"
    assert str(request_error(KeyError("x"), HTTP, "web:tool")) == "web:tool: KeyError: 'x'"
    mine = errors.TargetError("x")
    assert connect_error(ExceptionGroup("g", [mine]), HTTP) is mine
    assert request_error(mine, HTTP, "web:tool") is mine
    closed = MCPError(-32000, "Connection closed")
    refused = httpx2.ConnectError("All connection attempts failed")
    explained = connect_error(ExceptionGroup("g", [closed, ExceptionGroup("h", [refused])]), HTTP)
    assert type(explained) is errors.UnreachableError


CODE_WORDS = [
    (-32700, None, "(-32700, parse error; fault: mcp_magic)\n  it could not parse the message as JSON; "),
    (-32601, None, "(-32601, method not found; fault: the caller)\n  this server does not support the request"),
    (-32603, None, "(-32603, internal error; fault: the server)\n  its log may say more: `%mcp logs web`"),
    (-32021, {"requiredCapabilities": {"sampling": {}}}, "fault: mcp_magic)\n  it wants sampling; it needs"),
    (-32022, {"supported": ["2031-01-01"]}, "fault: mcp_magic)\n  it takes 2031-01-01; `%mcp doctor` says"),
    (-32042, None, "(-32042, URL elicitation required; fault: you)\n  you must open a page first"),
    *((code, None, f"web:x: no ({code}, the server's own code; fault: the server)") for code in (-1, -32001, -31999)),
    (-32099, None, "(-32099, reserved by the specification; fault: the server)"),
]


@pytest.mark.parametrize(("code", "data", "words"), CODE_WORDS)
def test_protocol_errors_say_whose_fault_and_what_to_do(code, data, words):
    explained = request_error(MCPError(code, "no", data), HTTP, "web:x")
    assert isinstance(explained, errors.ProtocolError)
    assert words in str(explained)
    assert len(str(explained).splitlines()) <= 2


def test_protocol_errors_keep_their_code_and_data():
    codes = {value for name, value in vars(mcp_types).items() if name.isupper() and isinstance(value, int)}
    assert {code for code in codes if -32800 < code <= -32000} <= set(CODES)
    explained = request_error(MCPError(-32602, "Unknown tool: x", {"a": 1}), HTTP, "web:x")
    assert isinstance(explained, errors.ProtocolError)
    assert str(explained) == "web:x: Unknown tool: x (-32602, invalid params; fault: the caller)"
    assert (explained.code, explained.data) == (-32602, {"a": 1})
    late = request_error(MCPError(-32001, "Request 'tools/call' timed out"), HTTP, "web:x", 3.0)
    assert isinstance(late, errors.RequestTimeoutError)


STATUSES = {
    401: "HTTP 401 (unauthorized; fault: you): it wants credentials",
    403: "HTTP 403 (forbidden; fault: you): it refuses",
    404: "HTTP 404 (not found; fault: the caller): nothing",
    429: "HTTP 429 (too many requests; fault: the caller): it got too many requests",
    500: "HTTP 500 (internal server error; fault: the server): the server failed.",
    502: "HTTP 502 (bad gateway; fault: the network): a proxy",
    599: "HTTP 599 (an error; fault: the server): the server failed.",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_in_a_session_says_whose_fault_it_is(status):
    attempt = Attempt()
    attempt.status = status
    failure = MCPError(-32603, "Server returned an error response")
    explained = request_error(failure, HTTP, "web:x", attempt=attempt)
    assert isinstance(explained, errors.ProtocolError)
    assert str(explained).startswith(f"web:x: {STATUSES[status]}")
    assert (explained.status, explained.retry_after) == (status, None)


def test_programs_and_websockets_that_fail_are_explained():
    program = ErrorContext("x", StdioSpec(command="x"))
    for error in (
        PermissionError(13, "no"),
        NotADirectoryError(20, "Not a directory"),
        OSError(8, "Exec format error"),
    ):
        assert type(connect_error(error, program)) is errors.CommandNotFoundError
    place = ErrorContext("ws", WebSocketSpec(url="ws://127.0.0.1:1/"))
    assert isinstance(connect_error(InvalidURI("x", "bad"), place), errors.TargetError)
    assert isinstance(connect_error(InvalidHandshake("no"), place), errors.NotAnMCPServerError)
