"""Sentences have one end, also where somebody else wrote a part of them; the names of tests are short."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import sentinel

import httpx2
import pytest
from mcp import MCPError

import mcp_magic
from mcp_magic.agent import graph
from mcp_magic.agent.offline import Outcome as ToolOutcome
from mcp_magic.agent.offline import answer
from mcp_magic.auth import errors
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.consent.consent import Consent, Decision, Request, because_outdated
from mcp_magic.flight.attempt import Attempt
from mcp_magic.protocol import CODES, STATUSES
from mcp_magic.session import failures
from mcp_magic.session.failures import connect_error, request_error
from mcp_magic.session.wire import ErrorContext, Wire
from mcp_magic.trace.trace import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
LONGEST_NAME = 60
WEB = HttpSpec(url="http://127.0.0.1:1/mcp")
SAID = ("", "no", "Not now.", "why should I?", "Stop!", "wait ...", "wait…")
JOINED_BADLY = re.compile(
    r"(?<!\.)\.\.(?!\.)|[?!…]\.|\.\.\.\.|\w\.[;,:](?=\s|$)|[;,:]\.|[;,:] ?[;,:] | [.;,]( |$)|\(\)"
)


def answered(status: int) -> Iterator[Exception]:
    """Errors of an HTTP status, while connecting and in a session."""
    place, attempt = ErrorContext("web", WEB), Attempt()
    attempt.status = status
    response = httpx2.Response(status, request=httpx2.Request("POST", WEB.url))
    yield connect_error(httpx2.HTTPStatusError("x", request=response.request, response=response), place)
    for said in ("Server returned an error response", "no", "Not now."):
        yield request_error(MCPError(-32603, said), place, "web:tool", attempt=attempt)


def coded(code: int, said: str) -> Iterator[Exception]:
    """Errors of a JSON-RPC code, by a server that says something."""
    for data in (None, {"supported": ["2025-11-25"]}, {"requiredCapabilities": {"roots": {}}}):
        yield request_error(MCPError(code, said or "x", data), ErrorContext("web", WEB), "web:tool")


def failed(said: str) -> Iterator[Exception]:
    """Errors of everything else."""
    stdio = ErrorContext("local", StdioSpec(command="server"))
    web = ErrorContext("web", WEB, Wire(Recorder("web", WEB)))
    for error in (
        OSError(said),
        PermissionError(13, said),
        ValueError(said),
        httpx2.ConnectError(said),
        EOFError(said),
    ):
        yield connect_error(error, stdio)
        yield connect_error(error, web)
        yield request_error(error, web, "web:tool")
    yield failures.lost_error("web", "web:tool", httpx2.ReadError(said), web)
    attempt = Attempt()
    attempt.status, attempt.retry_after = 429, 1.0
    yield request_error(MCPError(-32603, said), web, "web:tool", attempt=attempt)


def denied(said: str) -> Iterator[object]:
    """What is said of a call that was not allowed."""
    request = Request(
        "web", "tool", {}, asker="agent", outdated="the tool has changed since rule `allow web:*` allowed it"
    )
    for decision in (Decision.deny(said), Decision.deny(said or "no", by="rule `deny web:*`")):
        yield Consent().refusal(request, decision)
        yield Consent(magics=True).refusal(request, because_outdated(request, decision))
        sentinel.offer.person_name = "web:tool"
        yield graph._denied(sentinel.offer, decision)
    yield answer([ToolOutcome("web:tool", said, said, True, True, {})])


def not_logged_in(said: str) -> Iterator[str]:
    """What is said of a log-in that failed."""
    parties = errors.Parties("web", WEB.url, "auth.example.com")
    for code in (*errors.OAUTH_ERRORS, "server_error", "x"):
        body = f'{{"error": "{code}", "error_description": "{said}"}}'
        yield str(parties.no_token(400, body))
        yield str(parties.no_token(503, body))
        yield errors.refusal("auth.example.com", code, said)
        yield str(parties.not_registered(400, body))


def assert_joined_well(messages: Iterator[object]) -> None:
    found = [str(message) for message in messages]
    assert found
    assert [message for message in found if JOINED_BADLY.search(message)] == []


@pytest.mark.parametrize("status", [*STATUSES, 418, 500, 599])
async def test_http_errors_read_as_plain_sentences(status):
    assert_joined_well(answered(status))


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("code", [*CODES, -32050, 7])
def test_protocol_errors_read_as_plain_sentences(code, said):
    assert_joined_well(coded(code, said))


@pytest.mark.parametrize("said", SAID)
async def test_transport_errors_read_as_plain_sentences(said):
    assert_joined_well(failed(said))


@pytest.mark.parametrize("said", SAID)
def test_denials_read_as_plain_sentences(said):
    assert_joined_well(denied(said))


@pytest.mark.parametrize("said", SAID)
def test_log_in_errors_read_as_plain_sentences(said):
    assert_joined_well(not_logged_in(said))


def test_help_texts_of_faults_end_without_a_full_stop():
    assert [fault.help for fault in (*CODES.values(), *STATUSES.values()) if fault.help.endswith(".")] == []


def test_no_sentence_in_the_package_ends_twice():
    texts = [
        (path.name, node.value)
        for path in Path(mcp_magic.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(texts) > 5000
    assert [text for text in texts if re.search(r"\w[?!]\.(\s|$)|\w\.\.(\s|$)", text[1])] == []


def test_names_of_tests_are_short():
    names = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name) > LONGEST_NAME
    ]
    assert names == [], "\n".join(names)
