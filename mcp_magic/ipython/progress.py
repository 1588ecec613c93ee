"""Progress and log messages of calls, below the cell that made the call."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean
from mcp_magic.inflight import KEPT_MESSAGES
from mcp_magic.ipython.ask import show_below
from mcp_magic.ui.progress_text import Board, message_line, outcome_text, report_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.inflight import Report
    from mcp_magic.ipython.ask import Asking
    from mcp_magic.ipython.cells import Cells
    from mcp_magic.ui.progress import BoardPanel
    from mcp_magic.ui.question import Show

__all__ = ["Lines", "LiveBoard", "Reporting"]


# The notebook's reporter.
#
# Where a frontend shows widgets, the calls of a cell share one display. A long call gets a Cancel button if clicks
# reach the kernel. At the end, one line per call remains and no widget. Terminals and notebooks that run unattended get
# printed lines.

LINE_SECONDS = 1.0
"""Seconds between two printed progress lines of a call."""


class Reporting:
    """The reporter.

    Args:
        asking: Knows whether clicks arrive.
        cells: Knows the cell that made the call.
    """

    def __init__(self, asking: Asking, cells: Cells) -> None:
        self._asking = asking
        self._cells = cells
        self._boards: dict[str, LiveBoard] = {}

    def __call__(self, report: Report) -> Callable[[], None] | None:
        """Start to show a report; return the callback for its changes, or None if it is not shown."""
        where = self._cells.circumstances()
        if where.kernel is None:
            return Lines(report, lambda text: print(clean(text), file=sys.stderr, flush=True))
        if not self._cells.asks_from_a_cell():
            return None  # a click: its output would go to the frontend's log
        if not (where.widgets and where.allow_stdin):
            return Lines(report, lambda text: print(clean(text), flush=True))
        return self._board().add(report)

    def _board(self) -> LiveBoard:
        """Return the board of the calling cell."""
        cell = self._cells.parent().get("header", {}).get("msg_id", "")
        if cell not in self._boards:
            self._boards = {name: board for name, board in self._boards.items() if board.board.running}
            self._boards[cell] = LiveBoard(self._gets_clicks)
        return self._boards[cell]

    async def _gets_clicks(self) -> bool:
        return await self._asking.way() == "panel"


class Lines:
    """Prints what a call reports: progress at most once a second, and the outcome if progress was printed.

    Args:
        report: The report of the call.
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
        """Print what is new, if it is time."""
        report = self._report
        if report.logged > self._logged:
            self._say_messages()
        if report.state != "running":
            self._say_last()
        elif report.meter.count and (now := time.perf_counter()) >= self._next:
            self._begun = True
            if report.meter.share != 1:  # the last line says that all is done
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
        self._context.run(self._write, text)  # prints below the cell that made the call


# The board of one cell, shown below it while its calls run.

INTERVAL = 0.1
"""Least seconds between two updates: ten a second, however many notifications come."""

SHOW_AFTER = 0.2
"""Seconds from the first report until a bar is shown; a quicker call gets only its last line."""

CANCEL_AFTER = 0.5
"""Seconds from the first report until there is a button: earlier clicks are unlikely, and widgets are imported late."""

TICK = 1.0
"""Most seconds between two updates, so that the elapsed time advances."""


class LiveBoard:
    """Shows a board below the cell in whose context it is created.

    Args:
        gets_clicks: Returns whether a click would reach the kernel while the cell waits.
        show: Shows a mimebundle and returns a function that replaces it.

    Attributes:
        board: The board that it shows.
    """

    def __init__(self, gets_clicks: Callable[[], Awaitable[bool]], show: Show = show_below) -> None:
        self.board = Board()
        self._gets_clicks = gets_clicks
        self._show_first = show
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._replace: Callable[[dict[str, Any]], None] | None = None
        self._panel: BoardPanel | None = None
        self._offering: asyncio.Task[None] | None = None
        self._last = self._loop.time() + SHOW_AFTER - INTERVAL
        self._settled = -INTERVAL
        self._later: asyncio.TimerHandle | None = None

    def add(self, report: Report) -> Callable[[], None]:
        """Show a call; return the callback for its changes."""
        self.board.add(report)
        if self._offering is None:
            self._offering = self._loop.create_task(self._offer(), context=self._context.copy())

        def changed() -> None:
            if report.state != "running":
                self._ended(report)
            else:
                self._refresh_at(self._last + INTERVAL)

        return changed

    def _ended(self, report: Report) -> None:
        self.board.end(report)
        if self.board.running:
            self._refresh_at(self._last + INTERVAL)
            return
        if self._offering is not None:
            self._offering.cancel()
            self._offering = None
        if self._loop.time() < self._settled + INTERVAL:
            self._refresh_at(self._settled + INTERVAL)  # one of many quick calls
        else:
            self._settled = self._loop.time()
            self._context.copy().run(self._refresh)

    def _refresh_at(self, when: float) -> None:
        """Schedule a refresh at a time of the loop."""
        if self._later is not None:
            if self._later.when() <= when:
                return
            self._later.cancel()
        self._later = self._loop.call_at(when, self._refresh_later, context=self._context)

    def _refresh_later(self) -> None:
        with suppress(asyncio.CancelledError):  # Interrupt ends slow drawing
            self._refresh()

    def _refresh(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._last = self._loop.time()
        if not self.board.running:
            self._show(self.board.bundle())
            if self._panel is not None:  # only now, or a frontend shows lost widgets for a moment
                self._panel.close()
                self._panel = None
            return
        if self._panel is not None:
            self._panel.refresh()
        else:
            self._show(self.board.bundle())
        self._refresh_at(self._last + TICK)

    def _show(self, bundle: dict[str, Any]) -> None:
        if self._replace is not None:
            self._replace(bundle)
        elif bundle["text/plain"]:
            self._replace = self._show_first(bundle)

    async def _offer(self) -> None:
        """Replace the bars by the widget with buttons, once a call takes long enough."""
        await asyncio.sleep(CANCEL_AFTER)
        while not self.board.measured:
            await asyncio.sleep(CANCEL_AFTER)
        if not await self._gets_clicks():
            return
        await asyncio.to_thread(_import_widgets)
        from mcp_magic.ui.progress import BoardPanel

        self._panel = BoardPanel(self.board)
        self._show(self._panel.bundle())


def _import_widgets() -> None:
    import mcp_magic.ui.progress  # noqa: F401
