"""Calls that a server makes tasks: waited for, asked about, cancelled; servers that do it wrongly."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import Answer, CallCancelledError, Elicitation, InvalidResponseError, ProtocolError, RequestTimeoutError
from mcp_magic.cassette.cassette import deck
from mcp_magic.results.reasons import last_failure
from mcp_magic.session import tasks
from tests.support.scripted_tasks import TASKS, UNKNOWN, Scripted, done, fails, form, state, text
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from mcp_magic import Connection, Host
    from mcp_magic.inflight import Report

    Connect = Callable[[Scripted], Awaitable[Connection]]

pytestmark = pytest.mark.usefixtures("own_data")


async def test_call_that_becomes_a_task_returns_its_result(connect: Connect) -> None:
    script = Scripted(state(), state(), done("built main"))
    ci = await connect(script)
    result = await ci.call("build", ref="main")
    assert (result.text, result.server, result.tool) == ("built main", "ci", "build")
    assert script.methods() == ["tools/call", "tasks/get", "tasks/get", "tasks/get"]
    assert script.params("tasks/get") == [{"taskId": "task-1"}] * 3
    for one in script.asked:
        if one.method.startswith("tasks/"):
            assert one.headers["mcp-name"] == "task-1"
            assert one.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS] == {}


async def test_a_call_that_becomes_no_task_is_answered_as_ever(connect: Connect) -> None:
    script = Scripted(done(), created=text("at once"))
    assert (await (await connect(script)).call("build")).text == "at once"
    assert script.methods() == ["tools/call"]


async def test_a_tool_error_of_a_task_is_one_of_its_call(connect: Connect) -> None:
    ci = await connect(Scripted(state("completed", result=text("no such branch", isError=True))))
    result = await ci.call_tool("build", {})
    assert (result.is_error, result.text) == (True, "no such branch")


async def test_a_failed_task_says_its_error(connect: Connect) -> None:
    ci = await connect(Scripted(state("failed", error={"code": -32603, "message": "rate limit exceeded"})))
    with pytest.raises(ProtocolError, match=r"ci:build: rate limit exceeded \(-32603, internal error") as error:
        await ci.call("build")
    assert error.value.code == -32603


async def test_a_failed_task_keeps_the_whole_error(connect: Connect) -> None:
    error = {"code": -32603, "message": "\nError:\nthe queue is full\n  retry later", "data": {"queue": "ci"}}
    ci = await connect(Scripted(state("failed", error=error)))
    with pytest.raises(ProtocolError, match=r"ci:build: the queue is full \(-32603") as caught:
        await ci.call("build")
    assert caught.value.whole.endswith('Error:\nthe queue is full\n  retry later\ndata: {"queue": "ci"}')
    assert last_failure().error is caught.value


async def test_a_task_that_the_server_cancels_says_so(connect: Connect) -> None:
    ci = await connect(Scripted(state("cancelled", statusMessage="the queue is full")))
    with pytest.raises(CallCancelledError, match=r"^ci:build: the server has cancelled the task: the queue is full\.$"):
        await ci.call("build")


async def test_server_poll_interval_is_kept_after_first_seconds(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "FIRST_SECONDS", 0.3)
    script = Scripted(*[state(pollIntervalMs=300)] * 3, done())
    await (await connect(script)).call("build")
    assert all(after - before >= 0.29 for before, after in pairwise(script.times()))


@pytest.mark.parametrize("interval", [0, None, 1e300])
async def test_no_interval_makes_it_ask_all_the_time_or_never(connect: Connect, interval: Any) -> None:
    script = Scripted(state(pollIntervalMs=interval))
    ci = await connect(script)
    call = asyncio.create_task(ci.call("build"))
    await until(lambda: len(script.times()) > 2)
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.wait({call})
    assert len(script.times()) < 9


async def test_an_interrupted_cell_cancels_the_task(connect: Connect) -> None:
    script = Scripted(state())
    ci = await connect(script)
    call = asyncio.create_task(ci.call("build"))
    await until(lambda: bool(script.times()))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert script.params("tasks/cancel") == [{"taskId": "task-1"}]


async def test_the_cancel_button_cancels_the_task(host: Host, connect: Connect) -> None:
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
    assert script.params("tasks/cancel") == [{"taskId": "task-1"}]


async def test_a_limit_in_all_ends_the_wait_and_the_task(connect: Connect) -> None:
    script = Scripted(state())
    ci = await connect(script)
    with pytest.raises(RequestTimeoutError, match=r"no answer within 0\.4 s in total"):
        await ci.call_tool("build", {}, timeout=30, max_total_timeout=0.4)
    assert script.params("tasks/cancel") == [{"taskId": "task-1"}]


async def test_task_question_is_asked_once_and_answered_by_update(host: Host, connect: Connect) -> None:
    asked: list[Elicitation] = []

    async def elicitor(elicitation: Elicitation) -> Answer:
        asked.append(elicitation)
        return Answer.accept({"branch": "main"})

    host.elicitor = elicitor
    script = Scripted(*[state("input_required", inputRequests={"branch": form()})] * 4, state(), done())
    assert (await (await connect(script)).call("build")).text == "built"
    assert [one.message for one in asked] == ["Which branch?"]
    answers = {"branch": {"action": "accept", "content": {"branch": "main"}}}
    assert script.params("tasks/update") == [{"taskId": "task-1", "inputResponses": answers}]


async def test_a_question_that_the_task_no_longer_has_is_taken_away(host: Host, connect: Connect) -> None:
    ended: list[str] = []

    async def elicitor(elicitation: Elicitation) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(elicitation.message)
        return Answer.decline()

    host.elicitor = elicitor
    script = Scripted(*[state("input_required", inputRequests={"branch": form()})] * 3, done())
    assert (await (await connect(script)).call("build")).text == "built"
    await until(lambda: ended == ["Which branch?"])
    assert not script.params("tasks/update")


async def test_endless_questions_without_a_user_get_pauses(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_QUESTIONS", 3)
    numbers = iter(range(1000))

    def more() -> dict[str, Any]:
        return state("input_required", inputRequests={f"q{next(numbers)}": {"method": "roots/list"}})

    script = Scripted(more)
    call = asyncio.create_task((await connect(script)).call("build"))
    await until(lambda: len(script.times()) >= 12)
    call.cancel()
    assert script.times()[-1] - script.times()[0] > 1.0, "the pauses grow to the usual interval"


async def test_endless_questions_are_cut_off(host: Host, connect: Connect) -> None:
    numbers = iter(range(1000))

    async def elicitor(elicitation: Elicitation) -> Answer:
        return Answer.accept({"branch": "main"})

    def more() -> dict[str, Any]:
        return state("input_required", inputRequests={f"q{next(numbers)}": form() for _ in range(10)})

    host.elicitor = elicitor
    script = Scripted(more)
    with pytest.raises(CallCancelledError, match="the user is asked 20 questions in a call at most"):
        await (await connect(script)).call("build")
    assert script.methods()[-1] == "tasks/cancel"


async def test_a_task_that_has_expired_says_how_long_it_was_kept(connect: Connect) -> None:
    script = Scripted(state(ttlMs=10), fails(UNKNOWN))
    with pytest.raises(ProtocolError) as error:
        await (await connect(script)).call("build")
    kept = "it keeps tasks for 10 ms, which are over"
    assert str(error.value) == f"ci:build: the server no longer knows the task: {kept}."


async def test_a_task_that_is_gone_early_says_that(connect: Connect) -> None:
    with pytest.raises(ProtocolError, match=r"^ci:build: the server no longer knows the task\.$"):
        await (await connect(Scripted(state(ttlMs=None), fails(UNKNOWN)))).call("build")


async def test_a_passing_error_of_the_server_does_not_lose_the_task(connect: Connect) -> None:
    broken = fails({"code": -32603, "message": "try again"})
    assert (await (await connect(Scripted(broken, broken, state(), broken, done()))).call("build")).text == "built"
    with pytest.raises(ProtocolError, match="try again"):
        await (await connect(Scripted(broken))).call("build")


BREAKS = "ci:build: the server's answer breaks the protocol: "


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (done() | {"taskId": "other"}, "it is about the task 'other', not about 'task-1'"),
        (done() | {"taskId": ["x"]}, "its taskId is not a text of 1 to 2,000 characters"),
        (state("sleeping"), "the task's status is 'sleeping', not one of working, "),
        (state("completed"), "the task is completed, but the answer has no result"),
        (state("input_required", inputRequests={str(n): form() for n in range(101)}), "more than 100 open questions"),
        (state("input_required", inputRequests={"a": {"method": "shell/run"}}), "method"),
    ],
)
async def test_an_answer_of_an_unknown_shape_ends_the_wait(connect: Connect, step: Any, problem: str) -> None:
    script = Scripted(state(), step)
    with pytest.raises(InvalidResponseError) as error:
        await (await connect(script)).call("build")
    assert str(error.value).startswith(BREAKS)
    assert problem in str(error.value)


async def test_an_odd_result_of_a_task_is_read(connect: Connect) -> None:
    connection = await connect(Scripted(state(), state("completed", result={"content": "x"})))
    assert (await connection.call("build")).text == "x"
    assert connection.info().remarks == ("the answer of the tool `build`: a block is a text, not an object",)


@pytest.mark.parametrize("created", [state() | {"taskId": ""}, state() | {"taskId": 7}, state("odd")])
async def test_a_task_of_an_unknown_shape_is_no_result(connect: Connect, created: dict[str, Any]) -> None:
    script = Scripted(done(), created=created)
    with pytest.raises(InvalidResponseError, match=BREAKS):
        await (await connect(script)).call("build")
    assert script.methods() == ["tools/call"]


async def test_huge_message_is_cut_and_nothing_is_heard_after_end(connect: Connect) -> None:
    script = Scripted(state(statusMessage="x" * 5_000_000), done(), state())
    assert (await (await connect(script)).call("build")).text == "built"
    assert script.methods().count("tasks/get") == 2


async def test_the_trace_has_a_row_for_each_request_about_a_task(host: Host, connect: Connect) -> None:
    await (await connect(Scripted(done()))).call("build")
    methods = [entry.method for entry in host.trace.entries()]
    assert methods.count("tasks/get") == 2


async def test_a_cassette_has_a_task_from_its_start_to_its_end(host: Host, connect: Connect, tmp_path: Path) -> None:
    script = Scripted(state(statusMessage="step 1 of 2"), state(), done("built main"))
    tape = tmp_path / "tasks.jsonl"
    with deck.holding(tape, "record"):
        ci = await connect(script)
        assert (await ci.call("build", ref="main")).text == "built main"
        where = ci.spec.where
        await host.close()
    asked = len(script.asked)
    with deck.holding(tape, "replay"):
        ci = await host.connect(where, name="ci")
        assert (await ci.call("build", ref="main")).text == "built main"
        assert len(script.asked) == asked
        await host.close()
