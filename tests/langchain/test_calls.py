from __future__ import annotations

import asyncio
import pickle
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from mcp_magic.config.specs import StdioSpec
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.langchain.calls import Breaker, MCPToolException, call
from tests.environments import everything_command, needs_node
from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.bundled import command, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_magic.notebook import NotebookHost
    from mcp_magic.session.connection import Connection

DYING = SUPPORT / "dying_server.py"


class Asked:
    """An approver that answers always the same and remembers what it was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Decision:
        self.requests.append(request)
        return self.decision


def ask(host: NotebookHost, decision: Decision) -> Asked:
    asked = Asked(decision)
    host.consent.policy, host.approver = "ask", asked
    return asked


async def fails(
    connection: Connection, tool: str, arguments: dict[str, Any] | None = None, **how: Any
) -> MCPToolException:
    with pytest.raises(MCPToolException) as caught:
        await call(connection, tool, arguments or {}, **how)
    assert caught.value.__context__ is None
    return caught.value


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


# What comes back


async def test_call_returns_content_and_artifact_with_the_approval(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    content, artifact = await call(math, "add", {"a": 1, "b": 2})
    assert content == "3"
    assert artifact["arguments"] == {"a": 1, "b": 2}
    assert artifact["approval"] == {"decision": "approve", "by": "approval = 'auto'", "reason": ""}
    assert (artifact["server"], artifact["tool"], artifact["is_error"]) == ("math", "add", False)
    assert artifact["seconds"] > 0


async def test_tool_error_keeps_its_text_and_structured_content(host: NotebookHost) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    error = await fails(show, "fail_structured")
    assert error.content == str(error) == "The quota is used up."
    assert error.artifact["is_error"] is True
    assert error.artifact["structured_content"]["code"] == "quota"
    several = await fails(show, "fail_several_texts")
    assert several.content == ["It failed.", "Twice."]
    assert str(several) == "It failed.\nTwice."


async def test_schema_misfit_goes_to_the_model_without_a_question(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    asked, sent = ask(host, Decision.approve()), math.calls
    error = await fails(math, "add", {"a": "x", "c": 1})
    assert "a: expected integer or number" in str(error)
    assert error.artifact["arguments"] == {"a": "x", "c": 1}
    assert "approval" not in error.artifact
    assert not asked.requests
    assert math.calls == sent


async def test_a_tool_that_is_not_there_is_told_the_model(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    assert "math has no tool 'ad'. Did you mean 'add'?" in str(await fails(math, "ad"))


async def test_a_protocol_error_is_told_the_model(host: NotebookHost) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    assert "This tool always refuses its parameters" in str(await fails(show, "fail_protocol"))


async def test_progress_is_handed_on(host: NotebookHost) -> None:
    show = await host.connect(load("showcase_server").server, name="show")
    told: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    await call(show, "slow", {"seconds": 0.2}, on_progress=on_progress)
    assert told


# Consent


async def test_a_denied_call_is_not_sent_and_says_why(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    asked, sent = ask(host, Decision.deny("too dear")), math.calls
    error = await fails(math, "add", {"a": 1, "b": 2}, run="r1")
    assert str(error) == "math:add was not called; denied by the user: too dear."
    assert error.artifact["approval"] == {"decision": "deny", "by": "person", "reason": "too dear"}
    assert math.calls == sent
    assert [(request.asker, request.run) for request in asked.requests] == [("agent", "r1")]


async def test_an_edited_call_goes_out_as_edited(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    ask(host, Decision.approve({"a": 5, "b": 6}))
    content, artifact = await call(math, "add", {"a": 1, "b": 2})
    assert content == "11"
    assert artifact["arguments"] == {"a": 5, "b": 6}
    assert artifact["approval"]["decision"] == "edit"


async def test_earlier_decision_is_not_asked_again(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    asked = ask(host, Decision.deny())
    assert (await call(math, "add", {"a": 1, "b": 2}, decision=Decision.approve()))[0] == "3"
    assert (await call(math, "add", {"a": 1, "b": 2}, decision=Decision.approve({"a": 2, "b": 2})))[0] == "4"
    refused = await fails(math, "add", {"a": 1, "b": 2}, decision=Decision.deny("no"))
    assert "denied by the user: no." in str(refused)
    assert "a: expected integer or number" in str(
        await fails(math, "add", {}, decision=Decision.approve({"a": "x", "b": 1}))
    )
    assert not asked.requests


# Time-outs


@pytest.mark.timed
async def test_timed_out_call_is_not_repeated_without_a_trusted_hint(host: NotebookHost) -> None:
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
        begun = time.monotonic()
        error = await fails(connection, "wait", {"name": name}, timeout=0.2)
        assert time.monotonic() - begun < 1.5, "the time-out is for all attempts together"
        assert f"{name}:wait: timed out: no answer within 0.2 s" in str(error)
        assert error.artifact["seconds"] >= 0.2
    assert runs == ["doubted", "trusted"]


async def test_the_time_that_a_decision_takes_does_not_count(host: NotebookHost) -> None:
    math = await host.connect(load("math_server").server, name="math")
    host.consent.policy = "ask"

    async def slowly(request: Request) -> Decision:
        await asyncio.sleep(2.1)
        return Decision.approve()

    host.approver = slowly
    assert (await call(math, "add", {"a": 1, "b": 2}, timeout=2.0))[0] == "3"


# Sessions that end


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def happened(log: Path, what: str) -> int:
    return log.read_text().splitlines().count(what)


async def dying(host: NotebookHost, log: Path, *, trust: bool = False, script: Path = DYING) -> Connection:
    spec = StdioSpec(command=sys.executable, args=(str(script), str(log)), trust=trust)
    return await host.connect_spec(spec, "dying")


async def test_fatal_call_is_not_repeated_and_the_server_restarts(host: NotebookHost, log: Path) -> None:
    connection = await dying(host, log, trust=True)
    error = await fails(connection, "die")
    assert "dying:die: the session has ended" in str(error)
    assert happened(log, "die") == 1
    content, _ = await call(connection, "pid", {})
    assert content != ""
    assert happened(log, "start") == 2
    assert host["dying"] is connection
    assert host["dying"].state == "open"


@pytest.mark.parametrize(("trust", "runs"), [(True, 2), (False, 1)])
async def test_reading_tool_of_a_trusted_server_is_called_again(
    host: NotebookHost, log: Path, trust: bool, runs: int
) -> None:
    asked = ask(host, Decision.approve())
    connection = await dying(host, log, trust=trust)
    if trust:
        content, artifact = await call(connection, "read", {})
        assert content == "read"
        assert artifact["approval"]["decision"] == "approve"
    else:
        await fails(connection, "read")
    assert happened(log, "read") == runs
    assert len(asked.requests) == 1, "the person is asked once, however often it is sent"


async def test_tool_that_always_kills_its_server_is_tried_three_times(host: NotebookHost, log: Path) -> None:
    connection = await dying(host, log, trust=True)
    await fails(connection, "always_die")
    assert happened(log, "always_die") == 3
    error = await fails(connection, "pid")
    assert "dying: not called: its session has failed 3 times in a row" in str(error)
    assert "`%mcp reconnect dying`" in str(error)
    assert happened(log, "pid") == 0


async def test_calls_that_find_the_session_lost_together_open_it_once(host: NotebookHost, log: Path) -> None:
    connection = await dying(host, log)
    await fails(connection, "die")
    answers = await asyncio.gather(*(call(connection, "pid", {}) for _ in range(5)))
    assert len({content for content, _ in answers}) == 1  # type: ignore[arg-type]
    assert happened(log, "start") == 2


@pytest.mark.timed
async def test_dead_server_fails_at_once_until_reconnected(host: NotebookHost, log: Path, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(DYING.read_text())
    connection = await dying(host, log, script=script)
    math = await host.connect(load("math_server").server, name="math")
    await fails(connection, "die")
    script.unlink()
    for _ in range(2):
        assert "ended before it answered" in str(await fails(connection, "pid"))
    begun = time.perf_counter()
    error = await fails(connection, "pid")
    assert time.perf_counter() - begun < 0.05
    assert "not called: its session has failed 3 times in a row since" in str(error)
    assert (await call(math, "add", {"a": 1, "b": 1}))[0] == "2"
    script.write_text(DYING.read_text())
    await host.reconnect("dying")
    assert (await call(connection, "pid", {}))[0] != ""


async def test_after_a_rest_one_call_tries_a_dead_server_again(host: NotebookHost, log: Path) -> None:
    now = [0.0]
    breaker = Breaker("dying", clock=lambda: now[0])
    connection = await dying(host, log, trust=True)
    await fails(connection, "always_die", breaker=breaker)
    assert breaker.is_open
    now[0] = 30.0
    assert (await call(connection, "pid", {}, breaker=breaker))[0] != ""
    assert not breaker.is_open


@pytest.mark.timed
@pytest.mark.parametrize("how", ["disconnect", "close"])
async def test_a_session_that_the_person_ended_is_not_opened_again(host: NotebookHost, log: Path, how: str) -> None:
    connection = await dying(host, log)
    await (host.disconnect("dying") if how == "disconnect" else connection.close())
    begun = time.perf_counter()
    assert "the session was closed" in str(await fails(connection, "pid"))
    assert time.perf_counter() - begun < 0.1
    assert happened(log, "start") == 1


async def test_call_to_a_missing_server_is_made_once_after_its_return(host: NotebookHost) -> None:
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
    waiting = asyncio.create_task(call(connection, "count", {}))
    await until(lambda: "tried" in connection.problem or waiting.done())
    async with serving(app(), port=int(url.rpartition(":")[2])):
        content, _ = await waiting
        assert content == "1"
        assert runs == [1]
        await host.disconnect("counting")


async def test_a_server_that_stays_away_is_tried_three_times(host: NotebookHost) -> None:
    async with serving(load("math_server").server.streamable_http_app()) as url:
        connection = await host.connect(f"{url}/mcp", name="math")
    host.reconnection.wait = 0.05
    for _ in range(3):
        error = await fails(connection, "add", {"a": 1, "b": 2})
        assert "math:add: not sent: the session did not come back within 0.05 s" in str(error)
        assert "nothing listens" in str(error)
    assert "not called" in str(await fails(connection, "add", {"a": 1, "b": 2}))


@pytest.mark.timed
async def test_interrupt_ends_the_call_and_keeps_the_session(host: NotebookHost) -> None:
    show = await host.connect(command("showcase_server"), name="show")
    started = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    slow = asyncio.create_task(call(show, "slow", {"seconds": 30}, on_progress=on_progress))
    async with asyncio.timeout(60):
        await started.wait()
    begun = time.monotonic()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert time.monotonic() - begun < 0.5
    assert (await call(show, "one_text", {}))[0] == "Hello!"


@needs_node
async def test_server_everything_answers_as_a_model_reads_it(host: NotebookHost) -> None:
    everything = await host.connect([*everything_command(), "stdio"], name="everything")
    assert (await call(everything, "echo", {"message": "hi"}))[0] == "Echo: hi"
    content, artifact = await call(everything, "get-tiny-image", {}, images=True)
    assert [item["type"] for item in content if isinstance(item, dict)] == ["image"]
    assert [block["type"] for block in artifact["content"]] == ["text", "image", "text"]
    _, artifact = await call(everything, "get-structured-content", {"location": "New York"})
    assert artifact["structured_content"]["temperature"] == 33


async def test_errors_survive_pickle(host: NotebookHost) -> None:
    error = await fails(await host.connect(load("math_server").server), "add", {"a": "x", "b": 2})
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.content, twin.artifact) == (str(error), error.content, error.artifact)
