"""Something that runs while a person looks on: its progress, its time, Cancel, and what came of it."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.progress import Report
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.parts import mimebundle
from mcp_magic.widgets.look import note_markup
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.widgets.shop import Shop

    Work = Callable[[ProgressFnT], Awaitable[Any]]

__all__ = ["Runner"]

TICK_SECONDS = 0.2
"""How often time and progress are shown. A server may report a thousand steps a second; nobody reads them, and
each would be a message to the page."""


class Runner:
    """Runs one thing at a time on a loop, and shows how it goes.

    Args:
        shop: Makes the widgets.
        loop: Where it runs; the one that runs now, if left out.

    Attributes:
        widget: Progress and outcome.
        result: What came of the last run, or None.
        error: Why it failed, or None.
        seconds: How long it took, or has taken so far.
    """

    def __init__(self, shop: Shop, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or _running_loop()
        self.result: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._asked = False
        self._task: asyncio.Task[None] | None = None
        self._work: asyncio.Future[Any] | None = None
        self._report = Report("", "")
        self._bar = shop.make(ipywidgets.FloatProgress, "bar", min=0.0, max=1.0, value=0.0)
        self._note = shop.make(ipywidgets.HTML, "label")
        self._line = shop.make(ipywidgets.HBox, "line")
        self.output = shop.make(ipywidgets.Output)
        self.widget = shop.make(ipywidgets.VBox, "", children=(self._line, self.output))

    @property
    def running(self) -> bool:
        """Whether something runs now, or will as soon as the loop is free."""
        return self._asked or (self._task is not None and not self._task.done())

    def start(self, work: Work, done: Callable[[], None]) -> None:
        """Start something, from whichever thread a click arrives on; the loop may be busy with a cell for long.

        Args:
            work: Called with what to await at each progress notification.
            done: Called when it has ended, in whichever way.
        """
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
        self._asked = True
        try:
            self.loop.call_soon_threadsafe(self._start_asked, work, done)
        except RuntimeError:  # the loop is closed
            self._asked = False
            raise

    def cancel(self) -> None:
        """Cancel what runs; the server is told."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._cancel)

    async def run(self, work: Work, done: Callable[[], None]) -> None:
        """Start something and wait until it has ended. If this is cancelled, so is what runs."""
        self._start(work, done)
        assert self._task is not None
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._cancel()
            await asyncio.wait({self._task})
            raise

    def _start_asked(self, work: Work, done: Callable[[], None]) -> None:
        self._asked = False
        self._start(work, done)

    def _start(self, work: Work, done: Callable[[], None]) -> None:
        if self.running:
            return
        self.result = self.error = None
        self._report = Report("", "")
        self.output.outputs = ()
        self._work = asyncio.ensure_future(work(self._on_progress))  # now: Cancel may be the next thing to happen
        self._task = asyncio.get_running_loop().create_task(self._run(self._work, done))

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _run(self, work: asyncio.Future[Any], done: Callable[[], None]) -> None:
        started = time.perf_counter()
        try:
            while not work.done():
                self.seconds = time.perf_counter() - started
                self._show_progress()
                await asyncio.wait({work}, timeout=TICK_SECONDS)
            self.seconds = time.perf_counter() - started
            self._keep(work)
        finally:
            work.cancel()
        try:
            self._show_outcome()
        finally:
            done()

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._report.meter.note(progress, total, message, time.perf_counter())

    def _keep(self, work: asyncio.Future[Any]) -> None:
        if work.cancelled():
            self.error = asyncio.CancelledError()
        elif work.exception() is not None:
            self.error = work.exception()
        else:
            self.result = work.result()

    # What is seen of it

    def _show_progress(self) -> None:
        share = self._report.meter.share
        # A bar that does not know its end wanders, which says that something goes on.
        self._bar.value = share if share is not None else (self.seconds / 2) % 1
        self._bar.bar_style = "info" if share is not None else ""
        self._note.value = note_markup(self._report.words())
        self._put(self._line, (self._bar, self._note))

    def _show_outcome(self) -> None:
        self._note.value = note_markup(self.outcome)
        self._put(self._line, (self._note,))
        if isinstance(self.error, asyncio.CancelledError):
            return
        self.output.outputs = (_error_output(self.error) if self.error else _result_output(self.result),)

    @property
    def outcome(self) -> str:
        """How the last run ended, on one line; "" before there was one."""
        if self.error is None and self.result is None:
            return ""
        if isinstance(self.error, asyncio.CancelledError):
            return f"cancelled after {duration(self.seconds)}"
        return f"{'failed' if self.error else 'done'} in {duration(self.seconds)}"

    @staticmethod
    def _put(box: Any, children: tuple[Any, ...]) -> None:
        if box.children != children:
            box.children = children


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _result_output(result: Any) -> dict[str, Any]:
    """What the cell of a magic would show; bytes as base64, as the kernel does it."""
    data = {
        kind: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for kind, value in mimebundle(result).items()
    }
    return {"output_type": "display_data", "data": data, "metadata": {}}


def _error_output(error: BaseException) -> dict[str, Any]:
    """An error as a cell shows it: our own in one line, others by their last line."""
    name = type(error).__name__
    lines = error.traceback_lines() if isinstance(error, MCPMagicError) else [f"{name}: {error}"]
    return {"output_type": "error", "ename": name, "evalue": str(error), "traceback": lines}
