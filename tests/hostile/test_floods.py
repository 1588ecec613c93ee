"""Servers that ask, log and report without end: what that may take of the person, the page and the memory."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.core.elicitation import Answer
from mcp_magic.core.host import Host
from mcp_magic.core.sampling.sampling import Review, Sampled
from tests.kernel.answering import Frontend
from tests.kernel.driving import Kernel, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.elicitation import Elicitation

SERVER = Path(__file__).parent / "flood_server.py"
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
async def test_questions_are_asked_one_at_a_time_up_to_a_limit_that_the_server_is_told(
    flood: Connection, person: Person, tool: str, done: str
) -> None:
    result = await flood.call_tool(tool, {"count": 300}, timeout=20)

    assert json.loads(result.text) == {done: 20, LIMIT: 280}
    assert person.most == 1
    assert person.asked == [f"question {number}" for number in range(20)]
    assert len(flood.notices.messages) == 21


async def test_each_call_has_questions_of_its_own(flood: Connection, person: Person) -> None:
    for _ in range(2):
        assert json.loads((await flood.call_tool("ask", {"count": 15}, timeout=20)).text) == {"decline": 15}


async def test_questions_of_a_call_that_is_over_are_not_asked_in_the_next(flood: Connection) -> None:
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
    result = await flood.call_tool("echo", {}, elicitor=away, timeout=20)

    assert result.text == "done"
    assert len(asked) == 1


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
def test_a_flood_of_questions_is_one_panel_which_interrupt_ends_with_all_that_wait(notebook: Frontend) -> None:
    cell = notebook.start("r = %mcp call flood:ask count=300")
    for number in range(3):
        notebook.read_until(lambda: len(notebook._named("Decline", cell)) == 1, what="a panel")
        assert len(cell.live) == 1
        panel = cell.live[0]
        notebook.click("Decline", cell=cell)
        notebook.read_until(lambda panel=panel: panel not in notebook.models, what=f"the end of panel {number}")
    notebook.read_until(lambda: len(notebook._named("Decline", cell)) == 1, what="the next panel")
    notebook.kernel.interrupt()
    notebook.finish(cell, 5)

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
        panel = cell.live[0]
        notebook.click("Cancel", cell=cell)
        notebook.read_until(lambda panel=panel: panel not in notebook.models, what="the panel is closed")
    notebook.finish(cell, 10)

    assert len(cell.lines) == 3
    assert json.loads(cell.lines[2].strip("'")) == {"cancel": 2, LIMIT.replace("20", "2"): 298}
    notebook.kernel.ok("%config MCPMagics.max_questions = 20")


@pytest.mark.kernel
def test_interrupt_at_a_line_to_type_drops_all_questions_and_none_comes_under_the_next_call(notebook: Frontend) -> None:
    notebook.kernel.ok("%config MCPMagics.ask_with = 'input'")
    cell = notebook.start("r = %mcp call flood:ask count=300")
    notebook.awaits_input()
    notebook.kernel.interrupt()
    notebook.finish(cell, 10)
    after = notebook.run("r = %mcp call flood:echo\nr.text")

    assert cell.ename == "KeyboardInterrupt"
    assert cell.stdout.count("asks you for") == 1
    assert (after.lines, after.stdout) == (["'done'"], "")
    notebook.kernel.ok("%config MCPMagics.ask_with = 'auto'")
