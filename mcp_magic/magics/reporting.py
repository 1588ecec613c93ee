"""The notebook's reporter: progress and log messages below the cell whose call they are about.

Where a frontend shows widgets, the calls of a cell share one display that is updated; once a call takes long it has a
Cancel button, if clicks reach the kernel. At the end it is one line for each call, and no widget is left. In terminals
and where nobody watches, lines are printed.
"""

from __future__ import annotations

import sys
import time
from contextvars import copy_context
from typing import TYPE_CHECKING

from mcp_magic.core.progress import KEPT_MESSAGES
from mcp_magic.widgets.board_text import message_line, outcome_text, report_line
from mcp_magic.wording import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.progress import Report
    from mcp_magic.magics.asking import Asking
    from mcp_magic.magics.cells import Cells
    from mcp_magic.magics.live_board import LiveBoard

__all__ = ["Lines", "Reporting"]

LINE_SECONDS = 1.0
"""Seconds between two printed lines about the progress of a call."""


class Reporting:
    """The reporter.

    Args:
        asking: Knows whether clicks arrive.
        cells: Knows the cell that called.
    """

    def __init__(self, asking: Asking, cells: Cells) -> None:
        self._asking = asking
        self._cells = cells
        self._boards: dict[str, LiveBoard] = {}

    def __call__(self, report: Report) -> Callable[[], None] | None:
        """Show a report from now on."""
        where = self._cells.circumstances()
        if where.kernel is None:
            return Lines(report, lambda text: print(clean(text), file=sys.stderr, flush=True))
        if not self._cells.asks_from_a_cell():
            return None  # a click: what it shows is lost in the frontend's log
        if not (where.widgets and where.allow_stdin):
            return Lines(report, lambda text: print(clean(text), flush=True))
        return self._board().add(report)

    def _board(self) -> LiveBoard:
        """Return the board of the cell that calls."""
        from mcp_magic.magics.live_board import LiveBoard

        cell = self._cells.parent().get("header", {}).get("msg_id", "")
        if cell not in self._boards:
            self._boards = {name: board for name, board in self._boards.items() if board.board.running}
            self._boards[cell] = LiveBoard(self._gets_clicks)
        return self._boards[cell]

    async def _gets_clicks(self) -> bool:
        return await self._asking.way() == "panel"


class Lines:
    """Prints what a call reports: its progress at most once a second, and how it ended if there was such a line.

    Args:
        report: What is reported.
        write: Prints a line.
    """

    def __init__(self, report: Report, write: Callable[[str], None]) -> None:
        self._report = report
        self._write = write
        self._context = copy_context()
        self._next = time.perf_counter() + max(LINE_SECONDS - report.seconds, 0.0)
        self._begun = False
        self._logged = 0

    def __call__(self) -> None:
        """Print what is new, if it is time to."""
        report = self._report
        if report.logged > self._logged:
            self._say_messages()
        if report.state != "running":
            self._say_last()
        elif report.meter.count and (now := time.perf_counter()) >= self._next:
            self._begun = True
            if report.meter.share != 1:  # that all is done says the last line
                self._next = now + LINE_SECONDS
                self._say(report_line(report))

    def _say_messages(self) -> None:
        new = self._report.logged - self._logged
        if self._logged < KEPT_MESSAGES:
            for message in list(self._report.messages)[-new:]:
                self._say(message_line(message))
        self._logged = self._report.logged

    def _say_last(self) -> None:
        if (more := self._logged - KEPT_MESSAGES) > 0:
            self._say(f"… {more:,} more log messages: %mcp logs {self._report.server}")
        if self._begun:
            self._say(outcome_text(self._report))

    def _say(self, text: str) -> None:
        self._context.run(self._write, text)  # the output of the cell that called
