"""Calls for a model: what comes back, who decides, and what happens to sessions that end."""

from __future__ import annotations

import asyncio
import pickle
import sys
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from mcp_magic.calls.call import Progress
from mcp_magic.config.specs import StdioSpec
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.errors import ProtocolError, RequestTimeoutError, SessionClosedError, SessionError, ToolError
from mcp_magic.langchain.calls import Breaker, MCPToolException
from tests.environments import everything_command, needs_node
from tests.support.agents import ask
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.calling import model_call
from tests.support.clocks import jump
from tests.support.dying_server import DYING
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.notebook import NotebookHost
    from mcp_magic.session.connection import Connection

ONE_AND_TWO = {"a": 1, "b": 2}


async def fails(connection: Connection, tool: str, arguments: Any = None, **how: Any) -> MCPToolException:
    with pytest.raises(MCPToolException) as caught:
        await model_call(connection, tool, arguments or {}, **how)
    trace = "".join(traceback.format_exception(caught.value))
    assert trace.count("Traceback (most recent call last)") == 1  # that of no error behind it
    return caught.value


# What comes back


async def test_a_call_returns_content_and_artifact(math):
    content, artifact = await model_call(math, "add", ONE_AND_TWO)
    assert content == "3"
    assert artifact["arguments"] == ONE_AND_TWO
    assert artifact["approval"] == {"decision": "approve", "by": "approval = 'auto'", "reason": ""}
    assert (artifact["server"], artifact["tool"], artifact["is_error"]) == ("math", "add", False)
    assert artifact["seconds"] > 0


async def test_errors_are_told_the_model(math, show):
    error = await fails(show, "fail_structured")
    assert error.content == str(error) == "The quota is used up."
    assert error.artifact["is_error"] is True
    assert error.artifact["structured_content"]["code"] == "quota"
    several = await fails(show, "fail_several_texts")
    assert several.content == ["It failed.", "Twice."]
    assert str(several) == "It failed.\nTwice."
    assert "This tool always refuses its parameters" in str(await fails(show, "fail_protocol"))
    assert "math has no tool 'ad'. Did you mean 'add'?" in str(await fails(math, "ad"))


async def test_a_misfit_goes_to_the_model_without_a_question(host, math):
    requests, sent = ask(host), math.calls
    error = await fails(math, "add", {"a": "x", "c": 1})
    assert "a: expected integer or number" in str(error)
    assert error.artifact["arguments"] == {"a": "x", "c": 1}
    assert "approval" not in error.artifact
    assert (requests, math.calls) == ([], sent)
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.content, twin.artifact) == (str(error), error.content, error.artifact)


async def test_progress_is_handed_on_and_an_interrupt_ends_the_call(show):
    started = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    slow = asyncio.create_task(model_call(show, "slow", {"seconds": 30}, Progress(on_progress)))
    async with asyncio.timeout(60):
        await started.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
    assert (await model_call(show, "one_text", {}))[0] == "Hello!", "the session is kept"


@needs_node
async def test_server_everything_answers_as_a_model_reads_it(host):
    everything = await host.connect([*everything_command(), "stdio"], name="everything")
    assert (await model_call(everything, "echo", {"message": "hi"}))[0] == "Echo: hi"
    content, artifact = await model_call(everything, "get-tiny-image", {}, images=True)
    assert [item["type"] for item in content if isinstance(item, dict)] == ["image"]
    assert [block["type"] for block in artifact["content"]] == ["text", "image", "text"]
    _, artifact = await model_call(everything, "get-structured-content", {"location": "New York"})
    assert artifact["structured_content"]["temperature"] == 33


# Consent


async def test_a_denied_call_is_not_sent_and_says_why(host, math):
    requests, sent = ask(host, Decision.deny("too dear")), math.calls
    error = await fails(math, "add", ONE_AND_TWO, run="r1")
    assert str(error) == "math:add was not called; denied by the user: too dear."
    assert error.artifact["approval"] == {"decision": "deny", "by": "person", "reason": "too dear"}
    assert math.calls == sent
    assert [(request.asker, request.run) for request in requests] == [("agent", "r1")]


async def test_an_edited_call_goes_out_as_edited(host, math):
    ask(host, Decision.approve({"a": 5, "b": 6}))
    content, artifact = await model_call(math, "add", ONE_AND_TWO)
    assert (content, artifact["arguments"]) == ("11", {"a": 5, "b": 6})
    assert artifact["approval"]["decision"] == "edit"


async def test_an_earlier_decision_is_not_asked_again(host, math):
    requests = ask(host, Decision.deny())
    assert (await model_call(math, "add", ONE_AND_TWO, decision=Decision.approve()))[0] == "3"
    assert (await model_call(math, "add", ONE_AND_TWO, decision=Decision.approve({"a": 2, "b": 2})))[0] == "4"
    refused = await fails(math, "add", ONE_AND_TWO, decision=Decision.deny("no"))
    assert "denied by the user: no." in str(refused)
    misfit = await fails(math, "add", {}, decision=Decision.approve({"a": "x", "b": 1}))
    assert "a: expected integer or number" in str(misfit)
    assert not requests


# Time-outs


async def test_a_call_that_used_up_its_time_is_not_repeated(host):
    runs: list[str] = []
    server = MCPServer("waiting")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def wait(name: str) -> str:
        """Wait."""
        runs.append(name)
        await asyncio.sleep(60)
        return name

    for name, trust in (("doubted", False), ("trusted", True)):
        connection = await host.connect(server, name=name, trust=trust)
        error = await fails(connection, "wait", {"name": name}, timeout=0.2)
        assert f"{name}:wait: timed out: no answer within 0.2 s" in str(error)
        assert error.artifact["seconds"] >= 0.2
    assert runs == ["doubted", "trusted"]


async def test_the_time_that_a_decision_takes_does_not_count(host, math):
    async def slowly(request: Request) -> Decision:
        jump(100)
        await asyncio.sleep(0.01)
        return Decision.approve()

    host.consent.policy, host.approver = "ask", slowly
    assert (await model_call(math, "add", ONE_AND_TWO, timeout=60.0))[0] == "3"


# Sessions that end


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


def happened(log: Path, line: str) -> int:
    return log.read_text().splitlines().count(line)


async def dying(host: NotebookHost, log: Path, *, trust: bool = False, script: Path = DYING) -> Connection:
    spec = StdioSpec(command=sys.executable, args=(str(script), str(log)), trust=trust)
    return await host.connect_spec(spec, "dying")


async def test_a_fatal_call_is_not_repeated_and_the_server_restarts(host, log):
    connection = await dying(host, log, trust=True)
    assert "dying:die: the session has ended" in str(await fails(connection, "die"))
    assert happened(log, "die") == 1
    contents = await asyncio.gather(*(model_call(connection, "pid", {}) for _ in range(5)))
    assert len({str(content) for content, _ in contents}) == 1, "calls that find it lost together open it once"
    assert happened(log, "start") == 2
    assert host["dying"] is connection
    assert connection.state == "open"


@pytest.mark.parametrize(("trust", "runs"), [(True, 2), (False, 1)])
async def test_only_a_trusted_reading_tool_is_called_again(host, log, trust, runs):
    requests = ask(host)
    connection = await dying(host, log, trust=trust)
    if trust:
        content, artifact = await model_call(connection, "read", {})
        assert (content, artifact["approval"]["decision"]) == ("read", "approve")
    else:
        await fails(connection, "read")
    assert happened(log, "read") == runs
    assert len(requests) == 1, "the person is asked once, however often it is sent"


async def test_a_tool_that_kills_its_server_is_tried_three_times(host, log):
    connection = await dying(host, log, trust=True)
    await fails(connection, "always_die")
    assert happened(log, "always_die") == 3
    error = str(await fails(connection, "pid"))
    assert "dying: not called: its session has failed 3 times in a row" in error
    assert "`%mcp reconnect dying`" in error
    assert happened(log, "pid") == 0


async def test_a_dead_server_is_left_alone_until_reconnected(host, math, log, tmp_path):
    script = tmp_path / "server.py"
    script.write_text(DYING.read_text())
    connection = await dying(host, log, script=script)
    await fails(connection, "die")
    script.unlink()
    for _ in range(2):
        assert "ended before it answered" in str(await fails(connection, "pid"))
    said = str(await fails(connection, "pid"))
    assert "not called: its session has failed 3 times in a row since" in said
    assert (await model_call(math, "add", {"a": 1, "b": 1}))[0] == "2"
    script.write_text(DYING.read_text())
    await host.reconnect("dying")
    assert (await model_call(connection, "pid", {}))[0] != ""


async def test_after_a_rest_one_call_tries_a_dead_server_again(host, log):
    now = [0.0]
    breaker = Breaker("dying", clock=lambda: now[0])
    connection = await dying(host, log, trust=True)
    await fails(connection, "always_die", breaker=breaker)
    assert breaker.is_open
    now[0] = 30.0
    assert (await model_call(connection, "pid", {}, breaker=breaker))[0] != ""
    assert not breaker.is_open


@pytest.mark.parametrize("how", ["disconnect", "close"])
async def test_a_session_that_you_ended_is_not_opened_again(host, log, how):
    connection = await dying(host, log)
    await (host.disconnect("dying") if how == "disconnect" else connection.close())
    assert "the session was closed" in str(await fails(connection, "pid"))
    assert happened(log, "start") == 1


async def test_a_call_to_a_missing_server_waits_and_is_made_once(host):
    runs: list[int] = []

    def app() -> Any:
        server = MCPServer("counting")

        @server.tool()
        def count() -> int:
            """Count, which is neither reading nor idempotent."""
            runs.append(1)
            return len(runs)

        return server.streamable_http_app()

    async with serving(app()) as url:
        connection = await host.connect(f"{url}/mcp", name="counting")
    waiting = asyncio.create_task(model_call(connection, "count", {}))
    await until(lambda: "tried" in connection.problem or waiting.done())
    async with serving(app(), port=int(url.rpartition(":")[2])):
        assert (await waiting)[0] == "1"
        assert runs == [1]
        await host.disconnect("counting")


async def test_a_server_that_stays_away_is_tried_three_times(host):
    async with serving(load("math_server").server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="math")
    host.reconnection.wait = 0.05
    for _ in range(3):
        said = str(await fails(connection, "add", ONE_AND_TWO))
        assert "math:add: not sent: the session did not come back within 0.05 s" in said
        assert "nothing listens" in said
    assert "not called" in str(await fails(connection, "add", ONE_AND_TWO))


# The breaker, which counts the failures


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker("weather", clock=clock)


GONE = SessionClosedError("gone")


def attempt(breaker: Breaker, *errors: BaseException | None, session: object = None) -> bool:
    """Let attempts end with these errors, and return whether the breaker is open."""
    for error in errors:
        try:
            with breaker.attempt(session):
                if error is not None:
                    raise error
        except BaseException as caught:
            if caught is not error:
                raise
    return breaker.is_open


def test_three_failures_in_a_row_open_the_breaker(breaker):
    assert not attempt(breaker, GONE, GONE, None, GONE, GONE)
    for error in (ProtocolError("refused", -32602), ToolError("failed"), asyncio.CancelledError()):
        fresh = Breaker("weather")
        assert not attempt(fresh, *[error] * 5), "it has nothing to do with the session"
    assert attempt(breaker, RequestTimeoutError("late"))


def test_calls_that_fail_with_one_session_count_once(breaker):
    assert not attempt(breaker, *[GONE] * 5, session="first")
    assert not attempt(breaker, GONE, session="second")
    assert attempt(breaker, GONE, session="third")


def test_an_open_breaker_says_since_when_and_what_to_do(breaker, clock):
    for _ in range(3):
        attempt(breaker, SessionClosedError("weather: the session has ended.\n  stderr: secret"))
        clock.now += 5
    with pytest.raises(SessionError) as caught:
        breaker.check()
    assert not isinstance(caught.value, SessionClosedError)
    assert str(caught.value) == (
        "weather: not called: its session has failed 3 times in a row since 15 s ago; "
        "`%mcp reconnect weather` opens it again, else the next call after 25 s tries it.\n"
        "  last: weather: the session has ended."
    )


def test_a_breaker_tries_again_after_30_s(breaker, clock):
    assert attempt(breaker, GONE, GONE, GONE)
    clock.now += 30
    assert not breaker.is_open
    assert attempt(breaker, GONE)
    clock.now += 30
    assert not attempt(breaker, asyncio.CancelledError(), None)
