"""Resources that are watched from cells: what is shown of them, and which there are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.core.watching.text import status_text, update_line
from mcp_magic.magics.asking import show_below
from mcp_magic.magics.interrupts import until_interrupted
from mcp_magic.magics.live import mimebundle
from mcp_magic.wording import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_magic.core.watching.watch import Watch
    from mcp_magic.magics.cells import Cells
    from mcp_magic.widgets.watch_panel import WatchPanel

__all__ = ["Running", "running", "screen_for"]

_running: dict[tuple[str, str], Running] = {}


def running() -> Iterable[Running]:
    """Return what is watched now, in the order in which it began."""
    return list(_running.values())


class Screen(Protocol):
    """What a watch is shown on.

    Attributes:
        live: Whether all has been shown when it ends.
    """

    live: bool

    def show(self, watch: Watch) -> None:
        """Show what it has to say now."""

    def detached(self) -> None:
        """The cell has ended, and the watch goes on."""


class Running:
    """A watch that follows its resource, in a task of the cell that began it.

    Args:
        watch: It, opened.
        screen: Where it is shown.
        seconds: How long at most, or None.
        count: After how many updates it ends, or None.
    """

    def __init__(self, watch: Watch, screen: Screen, seconds: float | None, count: int | None) -> None:
        self.watch = watch
        self.screen = screen
        self._free = asyncio.Event()
        self._key = (watch.server, watch.uri)
        if (before := _running.get(self._key)) is not None:
            before.watch.stop("watched again by another cell")
        _running[self._key] = self
        screen.show(watch)
        following = watch.follow(lambda: screen.show(watch), seconds=seconds, count=count)
        self._task = asyncio.create_task(following, name=f"mcp_magic watch {watch.uri}")
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        if _running.get(self._key) is self:
            del _running[self._key]
        self._free.set()
        if not task.cancelled():
            task.exception()  # what went wrong is what `wait` raises

    def detach(self) -> None:
        """Let whoever waits go on."""
        self.screen.detached()
        self._free.set()

    async def wait(self) -> None:
        """Wait until it ends, or is detached. Interrupt ends it."""
        interrupted = True
        with until_interrupted():
            await self._free.wait()
            interrupted = False
        if interrupted:
            await self.stop("interrupted")
        elif self._task.done():
            await self._task

    async def stop(self, why: str) -> None:
        """End it, and wait until that is shown."""
        self.watch.stop(why)
        await asyncio.wait({self._task})

    def close(self) -> None:
        """End it: its cell runs again, or was deleted."""
        self.watch.stop("its cell was run again")


class Printer:
    """Lines in a terminal."""

    live = True

    def __init__(self) -> None:
        self._said = -1

    def show(self, watch: Watch) -> None:
        """Print the resource at first, then each update, at last how it ended."""
        if self._said < 0:
            print(clean(f"{watch!s}\nCtrl-C ends it"), flush=True)
        elif watch.updates > self._said or watch.problem:
            print(clean(update_line(watch)), flush=True)
        self._said = watch.updates
        if watch.ended:
            print(clean(status_text(watch)), flush=True)

    def detached(self) -> None:
        """A terminal is never detached."""


class Display:
    """A display below the cell that is updated; with buttons, where clicks arrive.

    Args:
        buttons: Whether they do.
        detach: Lets the cell end; None where it does not wait.
    """

    live = True

    def __init__(self, buttons: bool, detach: Callable[[], None] | None = None) -> None:
        self._buttons = buttons
        self._detach = detach
        self._panel: WatchPanel | None = None
        self._replace: Callable[[dict[str, Any]], None] | None = None

    def show(self, watch: Watch) -> None:
        """Show it for the first time, or what has changed; at last without buttons."""
        if self._replace is None:
            self._replace = show_below(self._first(watch))
        elif watch.ended:
            self._replace(mimebundle(watch))
            if self._panel is not None:  # after that: a frontend would show the widgets as lost for a moment
                self._panel.close()
                self._panel = None
        elif self._panel is not None:
            self._panel.refresh()
        else:
            self._replace(mimebundle(watch))

    def _first(self, watch: Watch) -> dict[str, Any]:
        if not self._buttons:
            return mimebundle(watch)
        from mcp_magic.widgets.watch_panel import WatchPanel

        self._panel = WatchPanel(watch, self._detach)
        return self._panel.bundle()

    def detached(self) -> None:
        """Show that the cell has ended."""
        if self._panel is not None:
            self._panel.detached()


class Headless:
    """A display where a notebook runs by itself: of what a cell has sent after its end nbclient takes nothing.

    So an update is sent by the cell that runs when it comes, and once more by the next one where none did.

    Args:
        cells: Know which cell runs.
    """

    live = True

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._replace: Callable[[dict[str, Any]], None] | None = None
        self._watch: Watch | None = None
        self._missed = False

    def show(self, watch: Watch) -> None:
        """Show it for the first time, or what has changed."""
        if self._replace is None:
            self._replace = show_below(mimebundle(watch))
            self._watch = watch
            self._cells.started.append(self._cell_started)
        elif self._cells.running:
            self._send(watch)
        else:
            self._replace(mimebundle(watch))
            self._missed = True

    def _cell_started(self) -> None:
        if self._missed and self._watch is not None:
            self._send(self._watch)
        if self._watch is None or self._watch.ended:
            self._cells.started.remove(self._cell_started)

    def _send(self, watch: Watch) -> None:
        self._missed = False
        if self._replace is not None and self._cells.latest is not None:
            self._cells.latest.copy().run(self._replace, mimebundle(watch))

    def detached(self) -> None:
        """Nobody detaches it."""


def screen_for(cells: Cells, *, clicks: bool, detach: Callable[[], None] | None) -> Screen:
    """Return what a watch of a cell is shown on.

    Args:
        cells: Know where the cell runs.
        clicks: Whether clicks arrive while it waits.
        detach: Lets it end; None where it does not wait.
    """
    where = cells.circumstances()
    if where.kernel is None:
        return Printer()
    if not where.allow_stdin:
        return Headless(cells)
    return Display(clicks and where.widgets, detach)
