"""The board of a cell: bars, outcomes and log messages, and the buttons that cancel."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.flight.progress import ProgressMeter, Report
from mcp_magic.ipython.live import Board, LivePanel, Reporting, bar_markup, board_rows
from mcp_magic.protocol import LogMessage

if TYPE_CHECKING:
    from collections.abc import Callable

EVIL = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


def running(board: Board, done: float, total: float | None = 4, cancel: Callable[[], None] = lambda: None) -> Report:
    report = Report("srv", f"srv:tool{EVIL}", cancel=cancel)
    report.meter.note(done, total, f"message {EVIL}", 0.0)
    board.add(report)
    return report


def log(report: Report, text: str, when: float = 0.0, level: str = "warning") -> None:
    report.log(LogMessage(when, level, f"logger {EVIL}", text))


def test_server_text_is_no_markup_and_no_terminal_control():
    board = Board()
    report = running(board, 1)
    log(report, f"line one\n{EVIL}", level=EVIL)
    for ended in (False, True):
        if ended:
            report.end("failed")
            board.end(report)
        bundle = board.bundle()
        assert "<img" not in bundle["text/html"]
        assert not set("\x1b\u202e") & set(bundle["text/html"] + bundle["text/plain"])
        assert "<img src=x" in bundle["text/plain"]


def test_bar_without_total_is_indeterminate_and_logs_have_none():
    markup = bar_markup(running(Board(), 7, None))
    assert " value=" not in markup
    assert "<progress" in markup
    assert "7 · " in markup
    board, report = Board(), Report("srv", "srv:tool")
    log(report, "careful")
    board.add(report)
    assert board.measured == []
    assert "<progress" not in board.bundle()["text/html"]


def test_messages_of_several_calls_are_in_time_order():
    board = Board()
    first, second = running(board, 1), running(board, 2)
    for report, text, when in ((first, "one", 1.0), (second, "two", 2.0), (first, "three", 3.0)):
        log(report, text, when)
    lines, levels, more = board.messages()
    assert [line.rpartition(": ")[2] for line in lines] == ["one", "two", "three"]
    assert (dict(levels), more) == ({"warning": 3}, 0)


def test_a_thousand_calls_keep_a_bounded_page():
    board = Board()
    for number in range(1000):
        report = running(board, number)
        log(report, "again", float(number))
        report.end("done")
        board.end(report)
    text = board.bundle()["text/plain"].splitlines()
    assert text[0] == "… 995 more calls"
    assert "… 950 more log messages before: %mcp logs srv" in text
    assert len(text) == 1 + 5 + 1 + 50
    assert "<summary>1,000 log messages</summary>" in board.bundle()["text/html"]


async def test_click_on_other_thread_cancels_one_call_on_loop():
    board, threads = Board(), []
    first = running(board, 1)
    running(board, 2, cancel=lambda: threads.append(threading.current_thread()))
    panel = LivePanel(lambda: board_rows(board))
    buttons = [row.children[1] for row in panel.widget.children]
    await asyncio.to_thread(buttons[1].click)
    await asyncio.sleep(0)
    assert threads == [threading.current_thread()]
    assert [button.disabled for button in buttons] == [False, True]

    running(board, 3)
    panel.refresh()
    assert len(panel.widget.children) == 3
    first.end("done")
    board.end(first)
    panel.refresh()
    over, row, _ = panel.widget.children
    assert "✓ srv:tool" in over.value
    assert "2 of 4" in row.children[0].value
    panel.close()


@pytest.mark.parametrize("state", ["done", "failed", "timed out", "cancelled", "interrupted"])
def test_each_outcome_has_a_line(state):
    board = Board()
    report = running(board, 1)
    report.end(state)
    board.end(report)
    assert board.bundle()["text/plain"].startswith("✓ srv:tool" if state == "done" else "✗ srv:tool")
    assert f": {'' if state == 'done' else f'{state} · '}1 of 4 (25 %) · " in board.bundle()["text/plain"]


class Raising(ProgressMeter):
    """A meter that shows something of its own; the failure of its work is raised."""


class Returning(ProgressMeter):
    """The same, for work that returns its failures."""

    ends_without_error = True


@pytest.mark.parametrize(("meter", "printed"), [(Raising, False), (Returning, True)], ids=["raised", "returned"])
def test_a_failure_is_printed_if_nothing_raises_it(meter, printed, capsys):
    cells: Any = SimpleNamespace(circumstances=lambda: SimpleNamespace(kernel=None))  # a terminal
    asking: Any = None
    report = Report("srv", "srv:tool", meter=meter())
    changed = Reporting(asking, cells)(report)
    report.end("failed")
    assert changed is not None
    changed()
    assert ("failed" in capsys.readouterr().err) == printed
