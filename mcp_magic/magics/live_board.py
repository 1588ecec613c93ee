"""The board of one cell, shown below it while its calls run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.asking import show_below
from mcp_magic.widgets.board_text import Board

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.core.progress import Report
    from mcp_magic.widgets.approval import Show
    from mcp_magic.widgets.board import BoardPanel

__all__ = ["LiveBoard"]

INTERVAL = 0.1
"""Seconds between two updates at least: ten a second, however many notifications come."""

SHOW_AFTER = 0.2
"""Seconds after the first report until a bar is shown; a call that is over before has just its last line."""

CANCEL_AFTER = 0.5
"""Seconds after the first report until there is a button: nobody clicks sooner, and only now widgets are imported."""

TICK = 1.0
"""Seconds between two updates at most: the time goes on."""


class LiveBoard:
    """Shows a board below the cell in whose context it is made.

    Args:
        gets_clicks: Returns whether a click would reach the kernel while the cell waits.
        show: Shows a mimebundle, and returns what replaces it.

    Attributes:
        board: What it shows.
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
        """Show a call; what is returned is called when it has changed."""
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
        """Show what has changed, at a time of the loop."""
        if self._later is not None:
            if self._later.when() <= when:
                return
            self._later.cancel()
        self._later = self._loop.call_at(when, self._refresh_later, context=self._context)

    def _refresh_later(self) -> None:
        with suppress(asyncio.CancelledError):  # Interrupt ends what takes long to draw
            self._refresh()

    def _refresh(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._last = self._loop.time()
        if not self.board.running:
            self._show(self.board.bundle())
            if self._panel is not None:  # after that: a frontend would show the widgets as lost for a moment
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
        """Put the live form with its buttons in the place of the bars, once it is worth it."""
        await asyncio.sleep(CANCEL_AFTER)
        while not self.board.measured:
            await asyncio.sleep(CANCEL_AFTER)
        if not await self._gets_clicks():
            return
        await asyncio.to_thread(_import_widgets)
        from mcp_magic.widgets.board import BoardPanel

        self._panel = BoardPanel(self.board)
        self._show(self._panel.bundle())


def _import_widgets() -> None:
    import mcp_magic.widgets.board  # noqa: F401
