"""A server that asks without end, and a model that calls without end, before somebody in a notebook."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import SUPPORT

if TYPE_CHECKING:
    from tests.support.frontends import Frontend

SETUP = ["%load_ext mcp_magic", f"%mcp connect --name flood -- {sys.executable} {SUPPORT / 'flood_server.py'}"]
MODEL = """
from mcp_magic.agent.scripted import ScriptedModel
m = ScriptedModel([[("flood:echo", {"count": i}) for i in range(300)], "done"])
"""


def close_panels(frontend: Frontend, cell: Any, button: str, count: int) -> None:
    """Click the button of so many panels, which come one after the other."""
    for number in range(count):
        frontend.read_until(lambda: len(frontend._named(button, cell)) == 1, what=f"panel {number}")
        assert len(cell.live) == 1
        [widget] = frontend._named(button, cell)
        frontend.click(button, cell=cell)
        frontend.read_until(lambda widget=widget: widget not in frontend.models, what=f"the end of panel {number}")


def interrupt(frontend: Frontend, cell: Any) -> None:
    """Interrupt, which must end the cell and drop all that waits."""
    frontend.kernel.interrupt()
    frontend.finish(cell, 60)
    assert cell.ename == "KeyboardInterrupt"
    assert cell.live == []
    after = frontend.run("r = %mcp call flood:echo\nr.text")
    assert (after.lines, after.live, after.stdout) == (["'done'"], [], "")


@pytest.mark.usefixtures("no_widget_is_left")
def test_interrupt_ends_the_panel_and_all_waiting_questions(frontend):
    cell = frontend.start("r = %mcp call flood:ask count=300")
    close_panels(frontend, cell, "Decline", 3)
    frontend.read_until(lambda: len(frontend._named("Decline", cell)) == 1, what="the next panel")
    interrupt(frontend, cell)
    assert [line.split(" (")[0] for line in cell.lines] == ["✗ declined: flood"] * 3 + ["… not answered: flood"]


def test_a_call_that_asks_too_much_ends_with_its_result(frontend):
    frontend.kernel.ok("%config MCPMagics.max_questions = 2")
    cell = frontend.start("r = %mcp call flood:ask count=20\nr.text")
    close_panels(frontend, cell, "Cancel", 2)
    frontend.finish(cell, 60)
    assert len(cell.lines) == 3
    limit = "the user is asked 2 questions in a call at most (max_questions)"
    assert json.loads(cell.lines[2].strip("'")) == {"cancel": 2, limit: 18}
    frontend.kernel.ok("%config MCPMagics.max_questions = 20")


@pytest.mark.parametrize(
    ("code", "asks"),
    [("r = %mcp call flood:ask count=300", "asks you for"), ("%%mcp_agent --model $m\ngo", "wants to call")],
    ids=["question", "call"],
)
def test_interrupt_at_a_line_to_type_drops_all_others(frontend, code, asks):
    frontend.kernel.ok(f"{MODEL}\n%config MCPMagics.ask_with = 'input'")
    cell = frontend.start(code)
    frontend.awaits_input()
    interrupt(frontend, cell)
    assert cell.stdout.count(asks) == 1
    frontend.kernel.ok("%config MCPMagics.ask_with = 'auto'")


def test_twenty_calls_are_shown_and_the_next_after_decisions(frontend):
    frontend.kernel.ok(MODEL)
    sent, take = 0, frontend._take

    def measured(message: dict[str, Any]) -> None:
        nonlocal sent
        sent += len(json.dumps(message["content"]))
        take(message)

    frontend._take = measured  # type: ignore[method-assign]
    cell = frontend.start("%%mcp_agent --model $m\ngo")
    frontend.panel(cell, 20)
    first = sent
    for _ in range(3):
        before = set(frontend._named("Deny", cell))
        frontend.click("Approve all", cell=cell)
        frontend.read_until(
            lambda before=before: len(set(frontend._named("Deny", cell)) - before) == 20, what="the next twenty"
        )
        assert len(frontend._named("Deny", cell)) == 20
    shown = "(approved by you)"
    frontend.read_until(lambda: sum(text.count(shown) for text in cell.lines) == 60, what="the approvals in the cards")
    interrupt(frontend, cell)
    frontend._take = take  # type: ignore[method-assign]
    assert first < 1_500_000
    assert sent < 4_000_000
    calls = [line for text in cell.lines for line in text.splitlines() if "interrupted flood:echo(" in line]
    assert sum(shown in line for line in calls) == 60


SLOW = """
import time
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent import transcript as render
from mcp_magic.ipython import live
live.LIVE_INTERVAL = 2.0  # so that it is a timer that draws
drawn, quick = [], render.draw
def draw(entry, *more, **named):
    while getattr(entry, "message", None) is not None:  # the result of a call, for ever
        drawn.append(time.sleep(0.001))
    return quick(entry, *more, **named)
render.draw = draw
m = ScriptedModel([[("flood:echo", {})], "done"])
%config MCPMagics.approval = 'auto'
"""


def test_interrupt_ends_an_endless_drawing_of_a_result(frontend):
    frontend.kernel.ok(SLOW)
    cell = frontend.start("%%mcp_agent --model $m\ngo")
    frontend.read_until(lambda: any("flood:echo" in line for line in cell.lines), what="the call is shown")
    for _ in range(3):
        frontend.kernel.interrupt()
        with suppress(AssertionError):
            frontend.finish(cell, 10)
            break
    frontend.kernel.ok("render.draw = quick\n%config MCPMagics.approval = 'ask'", timeout=60)
    assert cell.done
    assert cell.ename == "KeyboardInterrupt"
