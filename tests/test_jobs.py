"""Jobs: calls in the background, their handle, and the file that outlives the kernel."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context  # noqa: TC002

from mcp_magic import (
    Answer,
    ArgumentsError,
    CallCancelledError,
    DeniedError,
    Elicitation,
    Host,
    ProtocolError,
    Rule,
    SessionClosedError,
    ToolError,
)
from tests.support.asgi import serving
from tests.support.scripted_tasks import UNKNOWN, Scripted, done, fails, form, state, text
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic import Connection

    Connect = Callable[[Scripted], Awaitable[Connection]]

pytestmark = pytest.mark.usefixtures("own_data")


async def test_a_job_is_there_at_once_and_awaiting_it_gives_the_result(host, connect):
    script = Scripted(state(statusMessage="step 1 of 2"))
    events = (await connect(script)).events()
    job = await host.start("ci:build", ref="main")
    assert (job.number, job.title, job.status, job.task, job.ended) == (1, "ci:build", "working", "task-1", False)
    await until(lambda: job.message == "step 1 of 2")
    under_way = [(event.kind, event.name, event.text) for _, event in host.events.under_way()]
    assert under_way == [("job", "1: build", "working · step 1 of 2")]
    assert "● ci:build · job 1 · working · " in str(job)
    assert str(job).endswith("a task of the server, which keeps it for 1 min")
    script.steps = [state(statusMessage="step 2 of 2"), done("built main")]
    assert (await job).text == "built main"
    assert (job.status, job.result is not None, (await job).text) == ("completed", True, "built main")
    assert [event.message for event in job.events if event.status == "working"] == ["", "step 1 of 2", "step 2 of 2"]
    seen = [await anext(events) for _ in range(4)]
    steps = ("working", "working · step 1 of 2", "working · step 2 of 2", "completed · step 2 of 2")
    assert [(event.text, event.ended) for event in seen] == [(step, step == steps[-1]) for step in steps]
    assert not host.events.under_way()
    assert host.jobs[1] is job
    assert str(job).startswith("✓ ci:build · job 1 · completed · ")
    assert str(job).endswith("built main")


async def test_job_that_cannot_start_raises_and_is_not_listed(host, connect):
    await connect(Scripted(fails(UNKNOWN), created=state()))
    with pytest.raises(ArgumentsError, match="ref"):
        await host.start("ci:build", ref=1)
    host.consent.add(Rule("deny", "ci:*"))
    with pytest.raises(DeniedError):
        await host.start("ci:build")
    assert len(host.jobs) == 0


async def test_cancelling_a_job_tells_the_server_and_no_wait_does(host, connect):
    script = Scripted(state())
    await connect(script)
    job = await host.start("ci:build")
    waiting = asyncio.ensure_future(job)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert not job.ended
    assert "tasks/cancel" not in script.methods()
    job.cancel()
    job.cancel()
    with pytest.raises(CallCancelledError, match=r"^ci:build: cancelled\.$"):
        await job
    assert job.status == "cancelled"
    assert script.params("tasks/cancel") == [{"taskId": "task-1"}]


async def test_the_question_of_a_job_shows_in_its_status(host, connect):
    answer = asyncio.get_running_loop().create_future()

    async def elicitor(elicitation: Elicitation) -> Answer:
        return Answer.accept({"branch": await answer})

    host.elicitation.elicitor = elicitor
    script = Scripted(state("input_required", inputRequests={"branch": form()}))
    await connect(script)
    job = await host.start("ci:build")
    await until(lambda: job.status == "input_required")
    assert "input required" in str(job)
    answer.set_result("main")
    await until(lambda: bool(script.params("tasks/update")))
    script.steps = [state(), done()]
    assert (await job).text == "built"
    assert [event.status for event in job.events] == ["working", "input_required", "working", "completed"]


async def test_a_job_message_is_cut_and_escaped(host, connect):
    await connect(Scripted(state(statusMessage="<img src=x onerror=alert(1)>\x1b[31m\n" + "x" * 100_000)))
    job = await host.start("ci:build")
    await until(lambda: bool(job.message))
    shown = job.bundle()
    assert len(job.message) <= 220
    assert "<img" not in shown["text/html"]
    assert "\x1b" not in shown["text/plain"]
    job.cancel()


async def test_a_job_outlives_its_session(host):
    script = Scripted(state())
    host.reconnection.first = host.reconnection.longest = 0.05
    async with serving(script) as url:
        await host.connect(f"{url}/mcp", name="ci")
        job = await host.start("ci:build")
        port = int(url.rpartition(":")[2])
    await until(lambda: "tried" in host["ci"].problem)
    assert not job.ended
    async with serving(script, port=port):
        script.steps = [done()]
        assert (await job).text == "built"
        await host.close()


async def test_job_of_closed_session_is_lost_and_can_resume(host, connect):
    script = Scripted(state())
    ci = await connect(script)
    job = await host.start("ci:build")
    await ci.close()
    await job.wait()
    assert job.status == "lost"
    assert "tasks/cancel" not in script.methods()
    assert host.jobs.unfollowed == 1
    await host.reconnect("ci")
    assert await host.jobs.resume() == []
    assert (host.jobs[1] is job, job.status) == (True, "working")
    script.steps = [done()]
    assert (await job).text == "built"


async def test_another_host_takes_up_what_an_earlier_one_has_left(host, connect, own_data):
    script = Scripted(state())
    ci = await connect(script)
    await host.start("ci:build", ref="a-secret-branch")
    assert stat.S_IMODE(own_data.stat().st_mode) == 0o600
    written = b"".join(path.read_bytes() for path in own_data.parent.iterdir())
    assert b"task-1" in written
    assert b"a-secret-branch" not in written
    assert ci.spec.where.encode() not in written
    host.jobs.leave()
    async with Host() as later:
        assert await later.jobs.resume() == ["ci:build: connect ci first, then `%mcp jobs --resume`"]
        await later.connect(ci.spec.where, name="ci")
        script.steps = [state(), done("built meanwhile")]
        assert await later.jobs.resume() == []
        [job] = later.jobs
        assert (await job).text == "built meanwhile"
        assert later.jobs.unfollowed == 0


async def test_call_waiting_for_task_resumes_in_later_kernel(host, connect):
    script = Scripted(state())
    ci = await connect(script)
    call = asyncio.create_task(ci.call("build", ref="main"))
    await until(lambda: bool(script.params("tasks/get")))
    assert (host.jobs.unfollowed, await host.jobs.resume(), len(host.jobs)) == (0, [], 0), "it is followed already"
    async with Host() as later:
        assert later.jobs.unfollowed == 1
        await later.connect(ci.spec.where, name="ci")
        await later.jobs.resume()
        [job] = later.jobs
        assert (job.title, job.status, job.task) == ("ci:build", "working", "task-1")
        script.steps = [done("built main")]
        assert (await job).text == "built main"
    assert (await call).text == "built main"
    assert (len(host.jobs), host.jobs.unfollowed) == (0, 0)


@pytest.mark.parametrize(
    "end", [done(), state("failed", error={"code": -32603, "message": "no"}), fails(UNKNOWN), None]
)
async def test_a_call_whose_task_has_ended_leaves_nothing_to_take_up(host, connect, end):
    script = Scripted(state(), *([end] if end else []))
    call = asyncio.create_task((await connect(script)).call("build"))
    await until(lambda: bool(script.params("tasks/get")))
    if end is None:
        call.cancel()
    with suppress(ProtocolError, asyncio.CancelledError):
        await call
    assert script.params("tasks/cancel") == ([{"taskId": "task-1"}] if end is None else [])
    async with Host() as later:
        assert later.jobs.unfollowed == 0


async def test_a_call_that_lost_its_session_leaves_its_task(host, connect):
    script = Scripted(state())
    ci = await connect(script)
    call = asyncio.create_task(ci.call("build"))
    await until(lambda: bool(script.params("tasks/get")))
    await ci.close()
    with pytest.raises(SessionClosedError):
        await call
    assert host.jobs.unfollowed == 1
    await host.reconnect("ci")
    script.steps = [done()]
    assert await host.jobs.resume() == []
    assert (await host.jobs[1]).text == "built"


async def test_only_the_kernel_and_server_of_a_job_take_it_up(host, connect, own_data):
    script = Scripted(state())
    ci = await connect(script)
    await host.start("ci:build")
    host.jobs.leave()
    other = Scripted(done("a lie"))
    async with Host() as later, serving(other) as url:
        await later.connect(f"{url}/mcp", name="ci")
        assert await later.jobs.resume() == ["ci:build: ci is another server now; its job belongs to the one before"]
        assert (len(later.jobs), other.methods()) == (0, [])
        await later.close()

    with sqlite3.connect(own_data) as file:
        (process,) = file.execute("SELECT process FROM jobs").fetchone()
        file.execute("UPDATE jobs SET process = ?", (os.getppid(),))
    async with Host() as later:
        assert await later.jobs.resume() == ["1 job of another kernel that is running"]
        assert later.jobs.unfollowed == 0

    with sqlite3.connect(own_data) as file:
        file.execute("UPDATE jobs SET process = ?", (process,))
    script.steps = [fails(UNKNOWN)]
    async with Host() as later:
        await later.connect(ci.spec.where, name="ci")
        await later.jobs.resume()
        [job] = later.jobs
        with pytest.raises(ProtocolError, match=r"^ci:build: the server no longer knows the task\.$"):
            await job
        assert (job.status, later.jobs.unfollowed) == ("failed", 0), "it is forgotten"


async def test_job_without_file_runs_and_says_it_cannot_resume(host, connect, own_data):
    own_data.parent.parent.mkdir(parents=True)
    own_data.parent.write_text("no folder")
    await connect(Scripted(state(), done()))
    job = await host.start("ci:build")
    assert job.note.startswith("it cannot be taken up after a restart of the kernel: ")
    assert (await job).text == "built"


async def test_a_server_without_tasks_runs_a_job_in_its_session(host):
    server = MCPServer("math", log_level="ERROR")

    @server.tool()
    async def slow(ctx: Context, fail: bool = False) -> str:
        await ctx.report_progress(1, 4, "first quarter")
        if fail:
            raise ValueError("no")
        await asyncio.Event().wait()
        return "never"

    await host.connect(server, name="math")
    job = await host.start("math:slow")
    await until(lambda: job.message == "first quarter")
    assert job.task == ""
    assert "1 of 4 (25 %)" in str(job)
    assert "the server does not make it a task: it ends with the session or the kernel" in str(job)
    assert host.jobs.unfollowed == 0
    job.cancel()
    with pytest.raises(CallCancelledError):
        await job
    assert job.status == "cancelled"

    job = await host.start("math:slow", fail=True)
    with pytest.raises(ToolError, match="no"):
        await job
    assert job.status == "completed"
    assert str(job).startswith("✗ math:slow · job 2 · completed with an error · ")


async def test_old_jobs_are_dropped_and_running_ones_never(host, connect, monkeypatch):
    monkeypatch.setattr("mcp_magic.jobs.MAX_ENDED", 2)
    script = Scripted(state())
    await connect(script)
    with pytest.raises(ArgumentsError, match=r"^no job 1\. `%mcp call SERVER:TOOL --background` starts one\.$"):
        host.jobs[1]
    running = await host.start("ci:build")
    script.created = text("at once")
    for _ in range(4):
        await (await host.start("ci:build"))
    assert [job.number for job in host.jobs] == [1, 4, 5]
    running.cancel()
    with pytest.raises(ArgumentsError, match=r"^no job 2\. There are: 1, 4, 5$"):
        host.jobs[2]
