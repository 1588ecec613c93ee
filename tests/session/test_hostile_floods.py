"""Servers that ask, log and report without end: what that may take of the person, the page and the memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import ElicitRequestURLParams, LoggingMessageNotificationParams

from mcp_magic._host import Host
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Review, Sampled
from mcp_magic.config.specs import StdioSpec
from mcp_magic.session.notifications import Logs
from mcp_magic.stderr import ErrorLog, Lines
from mcp_magic.trace.trace import IN, Recorder, Trace
from tests.support import SUPPORT
from tests.support.frontends import Frontend
from tests.support.kernels import Kernel, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_magic.ask.elicitation import Elicitation
    from mcp_magic.session.connection import Connection

SERVER = SUPPORT / "flood_server.py"
LONG = "x" * 100_000
LIMIT = "the user is asked 20 questions in a call at most (max_questions)"


class Person:
    """Declines what is asked, and counts how much is asked at the same time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = self.now = 0

    async def __call__(self, question: Elicitation) -> Answer:
        await self._look(question.message)
        return Answer.decline()

    async def request(self, asked: Any, expected: Any) -> Review:
        await self._look(asked.messages[-1].content.text)
        return Review.approve(reply=Sampled.of("words", model="me"))

    async def _look(self, text: str) -> None:
        self.asked.append(text.strip())
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
async def flood(person: Person) -> AsyncIterator[Connection]:
    host = Host()
    host.elicitation.elicitor = person
    host.sampling.reviewer = person
    host.sampling.sampler = person._look  # never asked: each review has its reply
    try:
        yield await host.connect([sys.executable, str(SERVER)], name="flood")
    finally:
        await host.close()


# Questions


@pytest.mark.parametrize(("tool", "done"), [("ask", "decline"), ("sample", "replied")])
async def test_questions_come_one_at_a_time_up_to_a_told_limit(
    flood: Connection, person: Person, tool: str, done: str
) -> None:
    result = await flood.call_tool(tool, {"count": 300}, timeout=60)

    assert json.loads(result.text) == {done: 20, LIMIT: 280}
    assert person.most == 1
    assert person.asked == [f"question {number}" for number in range(20)]
    assert len(flood.notices.messages) == 21


async def test_each_call_has_questions_of_its_own(flood: Connection, person: Person) -> None:
    for _ in range(2):
        assert json.loads((await flood.call_tool("ask", {"count": 15}, timeout=60)).text) == {"decline": 15}


async def test_questions_of_a_finished_call_are_not_asked_later(flood: Connection) -> None:
    asked: list[str] = []
    first = asyncio.Event()

    async def away(question: Elicitation) -> Answer:
        asked.append(question.message)
        first.set()
        await asyncio.sleep(60)
        return Answer.decline()

    call = asyncio.create_task(flood.call_tool("ask", {"count": 2000, "size": 1000}, elicitor=away))
    await first.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    result = await flood.call_tool("echo", {}, elicitor=away, timeout=60)

    assert result.text == "done"
    assert len(asked) == 1


async def test_a_page_with_an_address_that_cannot_be_shown_is_declined(flood: Connection, person: Person) -> None:
    answer = await flood.notices.questions(None, ElicitRequestURLParams(message="Go", url=f"https://a.example/{LONG}"))

    assert answer.action == "decline"
    assert person.asked == []


# What a server says


def test_floods_leave_little_in_the_memory() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.flood_victim"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = [json.loads(line.removeprefix("FLOOD ")) for line in ran.stdout.splitlines() if line.startswith("FLOOD ")]

    assert [tool for tool, *_ in told] == ["log", "progress", "ask", "update", "change", "stderr", "list"]
    for _, _, logged, traced, written in told:
        assert logged <= 4_000_000
        assert traced <= 64_000_000
        assert written <= 1 << 16


async def test_a_huge_log_message_is_kept_cut_with_its_size(flood: Connection) -> None:
    await flood.call_tool("log", {"count": 1, "size": 1_000_000})

    [message] = flood.notices.messages
    assert message.data == f"0 {'x' * 19_998}… (1,000,002 characters)"


async def test_of_many_log_messages_the_last_are_kept_up_to_a_size(flood: Connection) -> None:
    await flood.call_tool("log", {"count": 400, "size": 20_000})

    kept = [message.data.partition(" ")[0] for message in flood.notices.messages]
    assert kept == [str(number) for number in range(400 - len(kept), 400)]
    assert 150 < len(kept) < 200


async def test_a_huge_structure_that_is_logged_is_kept_cut() -> None:
    logs = Logs()
    await logs(LoggingMessageNotificationParams(level="info", logger="l" * 10**6, data={"rows": [{"a": LONG}] * 9999}))

    [message] = logs.messages
    assert len(message.logger) == 200
    assert len(str(message.data)) < 100_000


async def test_a_secret_is_masked_before_a_message_is_cut() -> None:
    logs = Logs(masked=lambda text: text.replace("hunter2-hunter2", "***"))
    await logs(LoggingMessageNotificationParams(level="info", data="x" * 19_990 + "hunter2-hunter2" + LONG))

    assert "hunter" not in logs.messages[0].data


def test_the_trace_keeps_little_of_long_names_and_ids() -> None:
    trace = Trace()
    recorder = Recorder("flood", StdioSpec(command="python"), trace)
    for number in range(10):
        recorder.message(IN, {"jsonrpc": "2.0", "id": f"{number}{LONG}", "method": f"m{LONG}", "params": {}})

    assert max(len(entry.method) + len(entry.id) for entry in trace) <= 400


def test_a_line_of_stderr_that_never_ends_is_taken_for_several() -> None:
    with ErrorLog() as log:
        lines = Lines(log)
        found: list[str] = []
        for _ in range(10):
            os.write(log.file.fileno(), b"x" * 50_000)
            found += [line for _, line in lines.read()]

        assert max(map(len, found)) <= 2 * 65_536
        assert sum(map(len, found)) >= 400_000


# In a notebook


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frontend]:
    """A kernel that is connected to the server, before it somebody with widgets."""
    folder = tmp_path_factory.mktemp("floods")
    kernel = Kernel(folder, environment(folder))
    try:
        kernel.ok("%load_ext mcp_magic")
        kernel.ok(f"%mcp connect --name flood -- {sys.executable} {SERVER}")
        yield Frontend(kernel)
    finally:
        kernel.shutdown()


@pytest.mark.kernel
def test_interrupt_ends_the_one_panel_and_all_waiting_questions(notebook: Frontend) -> None:
    cell = notebook.start("r = %mcp call flood:ask count=300")
    for number in range(3):
        notebook.read_until(lambda: len(notebook._named("Decline", cell)) == 1, what="a panel")
        assert len(cell.live) == 1
        [decline] = notebook._named("Decline", cell)
        notebook.click("Decline", cell=cell)
        notebook.read_until(lambda decline=decline: decline not in notebook.models, what=f"the end of card {number}")
    notebook.read_until(lambda: len(notebook._named("Decline", cell)) == 1, what="the next panel")
    notebook.kernel.interrupt()
    notebook.finish(cell, 60)

    assert cell.ename == "KeyboardInterrupt"
    assert cell.live == []
    assert [line.split(" (")[0] for line in cell.lines] == ["✗ declined: flood"] * 3 + ["… not answered: flood"]
    assert notebook.kernel.ok("import ipywidgets.widgets.widget as w\nlen(w._instances)").text == "0"
    after = notebook.run("r = %mcp call flood:echo\nr.text")
    assert after.lines == ["'done'"]
    assert after.live == []


@pytest.mark.kernel
def test_a_call_that_asks_too_much_ends_with_its_result(notebook: Frontend) -> None:
    notebook.kernel.ok("%config MCPMagics.max_questions = 2")
    cell = notebook.start("r = %mcp call flood:ask count=300\nr.text")
    for _ in range(2):
        notebook.read_until(lambda: len(notebook._named("Cancel", cell)) == 1, what="a panel")
        [cancel] = notebook._named("Cancel", cell)
        notebook.click("Cancel", cell=cell)
        notebook.read_until(lambda cancel=cancel: cancel not in notebook.models, what="the card is closed")
    notebook.finish(cell, 60)

    assert len(cell.lines) == 3
    assert json.loads(cell.lines[2].strip("'")) == {"cancel": 2, LIMIT.replace("20", "2"): 298}
    notebook.kernel.ok("%config MCPMagics.max_questions = 20")


@pytest.mark.kernel
def test_interrupt_at_a_typed_question_drops_all_others(notebook: Frontend) -> None:
    notebook.kernel.ok("%config MCPMagics.ask_with = 'input'")
    cell = notebook.start("r = %mcp call flood:ask count=300")
    notebook.awaits_input()
    notebook.kernel.interrupt()
    notebook.finish(cell, 60)
    after = notebook.run("r = %mcp call flood:echo\nr.text")

    assert cell.ename == "KeyboardInterrupt"
    assert cell.stdout.count("asks you for") == 1
    assert (after.lines, after.stdout) == (["'done'"], "")
    notebook.kernel.ok("%config MCPMagics.ask_with = 'auto'")


# Calls of a model


MODEL = """
from mcp_magic.agent.scripted import ScriptedModel
m = ScriptedModel([[("flood:echo", {"count": i}) for i in range(300)], "done"])
"""


@pytest.mark.kernel
def test_interrupt_at_a_line_to_type_drops_all_calls_of_a_turn(notebook: Frontend) -> None:
    notebook.kernel.ok(MODEL + "\n%config MCPMagics.ask_with = 'input'")
    cell = notebook.start("%%mcp_agent --model $m\ngo")
    notebook.awaits_input()
    notebook.kernel.interrupt()
    notebook.finish(cell, 60)
    notebook.kernel.ok("%config MCPMagics.ask_with = 'auto'")

    assert cell.ename == "KeyboardInterrupt"
    assert cell.stdout.count("wants to call") == 1


@pytest.mark.kernel
def test_twenty_calls_are_shown_and_the_next_after_decisions(notebook: Frontend) -> None:
    notebook.kernel.ok(MODEL)
    sent = 0
    take = notebook._take

    def measured(message: dict[str, Any]) -> None:
        nonlocal sent
        sent += len(json.dumps(message["content"]))
        take(message)

    notebook._take = measured  # type: ignore[method-assign]
    cell = notebook.start("%%mcp_agent --model $m\ngo")
    notebook.panel(cell, 20)
    first = sent
    for _ in range(3):
        before = notebook._named("Deny", cell)
        notebook.click("Approve all", cell=cell)
        notebook.read_until(
            lambda before=before: len(set(notebook._named("Deny", cell)) - set(before)) == 20,
            what="the next twenty",
        )
        assert len(notebook._named("Deny", cell)) == 20
    shown = "(approved by you)"
    notebook.read_until(lambda: sum(text.count(shown) for text in cell.lines) == 60, what="the approvals in the cards")
    notebook.kernel.interrupt()
    notebook.finish(cell, 60)
    notebook._take = take  # type: ignore[method-assign]

    assert first < 1_500_000
    assert sent < 4_000_000
    assert cell.ename == "KeyboardInterrupt"
    assert cell.live == []
    calls = [line for text in cell.lines for line in text.splitlines() if "interrupted flood:echo(" in line]
    assert sum(shown in line for line in calls) == 60


SLOW = """
import time
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.transcript import render
from mcp_magic.ipython import live
live.LIVE_INTERVAL = 2.0  # so that it is a timer that draws
drawn, quick = [], render.draw
def draw(entry, *more, **named):
    while getattr(entry, "message", None) is not None:  # the result of a call, for ever
        drawn.append(time.sleep(0.001))
    return quick(entry, *more, **named)
render.draw = draw
m = ScriptedModel([[("flood:echo", {})], "done"])
"""


@pytest.mark.kernel
def test_interrupt_ends_an_endless_drawing_of_a_result(notebook: Frontend) -> None:
    notebook.kernel.ok(f"{SLOW}\n%config MCPMagics.approval = 'auto'")
    cell = notebook.start("%%mcp_agent --model $m\ngo")
    notebook.read_until(lambda: any("flood:echo" in line for line in cell.lines), what="the call is shown")
    for _ in range(3):
        notebook.kernel.interrupt()
        with suppress(AssertionError):
            notebook.finish(cell, 10)
            break
    notebook.kernel.ok("render.draw = quick\n%config MCPMagics.approval = 'ask'", timeout=60)

    assert cell.done
    assert cell.ename == "KeyboardInterrupt"
