"""Calls that a server makes tasks: waited for, asked about, cancelled; servers that do it wrongly, and a real one."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import pytest

from mcp_magic import (
    Answer,
    CallCancelledError,
    Elicitation,
    InvalidResponseError,
    ProtocolError,
    RequestTimeoutError,
    ToolError,
)
from mcp_magic.results.reasons import last_failure
from mcp_magic.session import calls as session_calls
from tests.environments import tasks_command
from tests.support.cassettes import hosting
from tests.support.scripted_tasks import TASKS, UNKNOWN, Scripted, done, fails, form, state, text
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic import Connection
    from mcp_magic.flight.progress import Report

    Connect = Callable[[Scripted], Awaitable[Connection]]

pytestmark = pytest.mark.usefixtures("own_data")
CANCELLED = [{"taskId": "task-1"}]


async def accepts(elicitation: Elicitation) -> Answer:
    return Answer.accept({"branch": "main"})


async def test_call_that_becomes_a_task_returns_its_result(host, connect):
    script = Scripted(state(), state(), done("built main"))
    result = await (await connect(script)).call("build", ref="main")
    assert (result.text, result.server, result.tool) == ("built main", "ci", "build")
    assert script.methods() == ["tools/call", "tasks/get", "tasks/get", "tasks/get"]
    assert script.params("tasks/get") == [{"taskId": "task-1"}] * 3
    for one in script.asked:
        if one.method.startswith("tasks/"):
            assert one.headers["mcp-name"] == "task-1"
            assert one.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS] == {}
    assert [entry.method for entry in host.trace.entries()].count("tasks/get") == 6, "a row for each and its answer"


async def test_a_call_that_becomes_no_task_is_answered_as_ever(connect):
    script = Scripted(done(), created=text("at once"))
    assert (await (await connect(script)).call("build")).text == "at once"
    assert script.methods() == ["tools/call"]


async def test_an_error_of_a_task_is_one_of_its_call(connect):
    ci = await connect(Scripted(state("completed", result=text("no such branch", isError=True))))
    result = await ci.call_tool("build", {})
    assert (result.is_error, result.text) == (True, "no such branch")

    error = {"code": -32603, "message": "\nError:\nthe queue is full\n  retry later", "data": {"queue": "ci"}}
    ci = await connect(Scripted(state("failed", error=error)))
    said = r"ci:build: the queue is full \(-32603, internal error"
    with pytest.raises(ProtocolError, match=said) as caught:
        await ci.call("build")
    assert caught.value.code == -32603
    assert caught.value.whole.endswith('Error:\nthe queue is full\n  retry later\ndata: {"queue": "ci"}')
    assert last_failure().error is caught.value

    ci = await connect(Scripted(state("cancelled", statusMessage="the queue is full")))
    with pytest.raises(CallCancelledError, match=r"^ci:build: the server has cancelled the task: the queue is full\.$"):
        await ci.call("build")


@pytest.mark.parametrize("interval", [300, 0, None, 100_000, 1e300])
async def test_server_poll_interval_is_kept_within_bounds(connect, slept, interval):
    script = Scripted(*[state(pollIntervalMs=interval)] * 12, done(), created=state(pollIntervalMs=interval))
    ci = await connect(script)
    del slept[:]
    await ci.call("build")
    longest = {300: 0.3, 0: 0.2, None: 1.0, 100_000: 60.0, 1e300: 1.0}[interval]
    assert slept == [min(0.05 * 2**number, longest) for number in range(13)]


async def test_an_interrupt_a_button_and_a_limit_cancel_the_task(host, connect):
    script = Scripted(state())
    call = asyncio.create_task((await connect(script)).call("build"))
    await until(lambda: bool(script.params("tasks/get")))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert script.params("tasks/cancel") == CANCELLED

    shown: list[Report] = []

    def report(one: Report) -> Callable[[], None]:
        shown.append(one)
        return lambda: None

    host.reports.reporter = report
    script = Scripted(state(statusMessage="step 1 of 3"))
    ci = await connect(script)
    call = asyncio.create_task(ci.call("build"))
    await until(lambda: bool(shown))
    assert "step 1 of 3" in shown[0].words()
    shown[0].cancel()
    with pytest.raises(CallCancelledError, match=r"^ci:build: cancelled\.$"):
        await call
    assert script.params("tasks/cancel") == CANCELLED
    with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.4 s in total"):
        await ci.call_tool("build", {}, timeout=30, max_total_timeout=0.4)
    assert script.params("tasks/cancel") == CANCELLED * 2


# Questions


async def test_task_question_is_asked_once_and_answered_by_update(host, connect):
    asked: list[Elicitation] = []

    async def elicitor(elicitation: Elicitation) -> Answer:
        asked.append(elicitation)
        return await accepts(elicitation)

    host.elicitation.elicitor = elicitor
    script = Scripted(*[state("input_required", inputRequests={"branch": form()})] * 4, state(), done())
    assert (await (await connect(script)).call("build")).text == "built"
    assert [one.message for one in asked] == ["Which branch?"]
    answers = {"branch": {"action": "accept", "content": {"branch": "main"}}}
    assert script.params("tasks/update") == [{"taskId": "task-1", "inputResponses": answers}]


async def test_a_question_that_the_task_no_longer_has_is_taken_away(host, connect):
    ended: list[str] = []

    async def elicitor(elicitation: Elicitation) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(elicitation.message)
        return Answer.decline()

    host.elicitation.elicitor = elicitor
    script = Scripted(*[state("input_required", inputRequests={"branch": form()})] * 3, done())
    assert (await (await connect(script)).call("build")).text == "built"
    await until(lambda: ended == ["Which branch?"])
    assert not script.params("tasks/update")


async def test_endless_questions_get_pauses_and_are_cut_off(host, connect, slept, monkeypatch):
    monkeypatch.setattr(session_calls, "MAX_QUESTIONS", 3)
    numbers = count()
    script = Scripted(lambda: state("input_required", inputRequests={f"q{next(numbers)}": {"method": "roots/list"}}))
    call = asyncio.create_task((await connect(script)).call("build"))
    await until(lambda: len(script.params("tasks/get")) >= 12)
    call.cancel()
    assert slept[-1] == 0.2, "the pauses grow to the usual interval"

    monkeypatch.undo()
    host.elicitation.elicitor = accepts
    ten = lambda: state("input_required", inputRequests={f"q{next(numbers)}": form() for _ in range(10)})  # noqa: E731
    script = Scripted(ten)
    with pytest.raises(CallCancelledError, match="the user is asked 20 questions in a call at most"):
        await (await connect(script)).call("build")
    assert script.methods()[-1] == "tasks/cancel"


# Servers that do it wrongly


async def test_a_task_that_is_gone_says_how_long_it_was_kept(connect):
    gone = "ci:build: the server no longer knows the task"
    for kept, said in ((10, f"{gone}: it keeps tasks for 10 ms, which are over."), (None, f"{gone}.")):
        with pytest.raises(ProtocolError) as error:
            await (await connect(Scripted(state(ttlMs=kept), fails(UNKNOWN)))).call("build")
        assert str(error.value) == said


async def test_a_passing_error_of_the_server_does_not_lose_the_task(connect):
    broken = fails({"code": -32603, "message": "try again"})
    assert (await (await connect(Scripted(broken, broken, state(), broken, done()))).call("build")).text == "built"
    with pytest.raises(ProtocolError, match="try again"):
        await (await connect(Scripted(broken))).call("build")


BREAKS = "ci:build: the server's answer breaks the protocol: "


SHAPES = [
    (done() | {"taskId": "other"}, "it is about the task 'other', not about 'task-1'"),
    (done() | {"taskId": ["x"]}, "its taskId is not a text of 1 to 2,000 characters"),
    (state("sleeping"), "the task's status is 'sleeping', not one of working, "),
    (state("completed"), "the task is completed, but the answer has no result"),
    (state("input_required", inputRequests={str(n): form() for n in range(101)}), "more than 100 open questions"),
    (state("input_required", inputRequests={"a": {"method": "shell/run"}}), "method"),
]


async def test_an_answer_of_an_unknown_shape_ends_the_wait(connect):
    for step, problem in SHAPES:
        with pytest.raises(InvalidResponseError) as error:
            await (await connect(Scripted(state(), step))).call("build")
        assert str(error.value).startswith(BREAKS)
        assert problem in str(error.value)
    for created in (state() | {"taskId": ""}, state() | {"taskId": 7}, state("odd")):
        script = Scripted(done(), created=created)
        with pytest.raises(InvalidResponseError, match=BREAKS):
            await (await connect(script)).call("build")
        assert script.methods() == ["tools/call"]

    connection = await connect(Scripted(state(), state("completed", result={"content": "x"})))
    assert (await connection.call("build")).text == "x", "an odd result is read"
    assert connection.info().remarks == ("the answer of the tool `build`: a block is a text, not an object",)


async def test_huge_message_is_cut_and_nothing_is_heard_after_end(connect):
    script = Scripted(state(statusMessage="x" * 5_000_000), done(), state())
    assert (await (await connect(script)).call("build")).text == "built"
    assert script.methods().count("tasks/get") == 2


async def test_a_cassette_has_a_task_from_its_start_to_its_end(connect, host, tmp_path):
    script = Scripted(state(statusMessage="step 1 of 2"), state(), done("built main"))
    async with hosting(tmp_path / "tasks.jsonl", "record"):
        ci = await connect(script)
        assert (await ci.call("build", ref="main")).text == "built main"
        await host.close()
    asked = len(script.asked)
    async with hosting(tmp_path / "tasks.jsonl", "replay") as later:
        ci = await later.connect(ci.spec.where, name="ci")
        assert (await ci.call("build", ref="main")).text == "built main"
    assert len(script.asked) == asked


async def test_tasks_of_a_real_server_are_awaited_and_cancelled(host):
    host.elicitation.elicitor = accepts
    ci = await host.connect(tasks_command(), name="ci")  # over stdio; tests/kernel/test_jobs.py has it over HTTP
    assert ci.makes_tasks

    # the server has its tasks in memory, and a new process has none
    forgotten = await host.start("ci:build", ref="main")
    await host.reconnect("ci")
    async with asyncio.timeout(30):
        with pytest.raises(ProtocolError, match=r"^ci:build: the server no longer knows the task\.$"):
            await forgotten
    assert forgotten.status == "failed"

    assert (await ci.call("quick", ref="main")).data == "quick main"  # a tool that only runs as a task
    job = await host.start("ci:build", ref="main")
    assert (job.status, bool(job.task)) == ("working", True)
    await until(lambda: job.message == "building main")
    other = await host.start("ci:build", ref="other")
    other.cancel()
    with pytest.raises(CallCancelledError):
        await other
    assert (await ci.call("choose")).data == "accept main"
    with pytest.raises(ToolError, match="no such branch"):
        await ci.call("fail", how="tool")
    with pytest.raises(ProtocolError, match="the queue is full") as error:
        await (await host.start("ci:fail", how="protocol"))
    assert error.value.code == -32099
    await ci.call("release")
    assert (await job).data == {"built": "main"}
