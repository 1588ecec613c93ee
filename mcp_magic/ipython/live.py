"""Live output below a cell: transcripts of agents, logs and watches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import clean, duration
from mcp_magic.display.document import mimebundle
from mcp_magic.ipython.ask import show_below
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.protocol import at_least
from mcp_magic.ui.progress_text import message_line
from mcp_magic.watch import STDERR, LogFollower, status_text, update_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.transcript.transcript import Transcript
    from mcp_magic.display.listing import Listing
    from mcp_magic.ipython.cells import Cells, Circumstances
    from mcp_magic.ipython.commandline import Invocation
    from mcp_magic.protocol import LogMessage
    from mcp_magic.ui.progress import WatchPanel
    from mcp_magic.watch import Watch

    MakeListing = Callable[[str, Iterable[LogMessage]], Listing]

__all__ = [
    "LISTED",
    "AtTheEnd",
    "NotebookScreen",
    "Running",
    "Screen",
    "TerminalScreen",
    "follow",
    "running",
    "screen_for",
    "shown_again",
    "shown_once",
    "watch_screen_for",
]


# Transcripts of agents, shown while they grow.
#
# Where a frontend shows widgets, each segment is a display that is updated in place. A terminal prints each entry once
# it is complete. Unattended notebooks (nbclient, nbval, papermill) and consoles show nothing before the end.

LIVE_INTERVAL = 0.05
"""Least seconds between two updates: twenty a second."""


class Screen(Protocol):
    """Shows a transcript.

    Attributes:
        live: Whether the screen has shown everything when the run ends.
    """

    live: bool

    def changed(self, transcript: Transcript) -> None:
        """Show the changes soon."""

    def flush(self, transcript: Transcript) -> None:
        """Show the changes now."""

    def end(self, transcript: Transcript) -> None:
        """Finish: the run is over."""

    def broken_off(self, transcript: Transcript) -> None:
        """Finish: the run broke off, and the cell has no value to show."""


class AtTheEnd:
    """Leaves the display to the cell's value; a run that breaks off has none, so it is shown here."""

    live = False

    def changed(self, transcript: Transcript) -> None:
        """Do nothing."""

    flush = end = changed

    def broken_off(self, transcript: Transcript) -> None:
        """Show a transcript that has an answer; the request and the error that follows appear anyway."""
        bundle = mimebundle(transcript)
        if bundle["text/plain"] and transcript.is_answered:
            show_below(bundle)


class NotebookScreen:
    """Shows each segment of a transcript below the cell, updated at most every `LIVE_INTERVAL`."""

    live = True

    def __init__(self) -> None:
        self._shown: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._last = 0.0
        self._later: asyncio.TimerHandle | None = None

    def changed(self, transcript: Transcript) -> None:
        """Show the changes, now or as soon as the interval is over."""
        loop = asyncio.get_running_loop()
        wait = self._last + LIVE_INTERVAL - loop.time()
        if wait <= 0:
            self.flush(transcript)
        elif self._later is None:
            self._later = loop.call_later(wait, self._flush_later, transcript)

    def flush(self, transcript: Transcript) -> None:
        """Show the changes now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._last = asyncio.get_running_loop().time()
        for index in sorted(transcript.dirty):
            bundle = transcript.render_segment(index)
            if index in self._shown:
                self._shown[index](bundle)
            elif bundle["text/plain"]:
                self._shown[index] = show_below(bundle)

    end = broken_off = flush

    def _flush_later(self, transcript: Transcript) -> None:
        with suppress(asyncio.CancelledError):  # Interrupt ends slow drawing
            self.flush(transcript)


class TerminalScreen:
    """Prints each entry of a transcript once it is complete."""

    live = True

    def __init__(self) -> None:
        self._printed = 0

    def changed(self, transcript: Transcript) -> None:
        """Print the entries that are complete."""
        texts = transcript.complete_texts(self._printed)
        self._printed += len(texts)
        for text in texts:
            if text:
                print(text, end="\n\n", flush=True)

    flush = changed

    def end(self, transcript: Transcript) -> None:
        """Print the totals."""
        self.changed(transcript)
        if transcript.summary and transcript.show != "none":
            print(transcript.summary, flush=True)

    broken_off = end


def screen_for(where: Circumstances) -> Screen:
    """Return the screen for these circumstances."""
    if where.kernel is None:
        return TerminalScreen()
    return NotebookScreen() if where.widgets and where.allow_stdin else AtTheEnd()


def shown_once(shell: InteractiveShell, run: Any) -> None:
    """Keep IPython from displaying this cell's value again: it was shown while it ran.

    Later cells display it like any value.
    """
    formatter = shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]
    cell = shell.execution_count
    _without_prompt(shell, cell)

    def display_run(value: Any) -> None:
        if value is run and shell.execution_count == cell:
            return
        from IPython.display import display

        display(mimebundle(value), raw=True)  # type: ignore[no-untyped-call]

    formatter.for_type(type(run), display_run)


def shown_again(shell: InteractiveShell) -> None:
    """Undo `shown_once`."""
    formatter = shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]
    for each in [each for each, display in formatter.type_printers.items() if display.__module__ == __name__]:
        formatter.pop(each)
    vars(shell.displayhook).pop("write_output_prompt", None)


def _without_prompt(shell: InteractiveShell, cell: int) -> None:
    """Keep a terminal from printing an empty `Out[n]:`; `Out` and `_` still get the value."""
    hook: Any = shell.displayhook

    def write_output_prompt() -> None:
        vars(hook).pop("write_output_prompt", None)
        if shell.execution_count != cell:  # that cell assigned the value and showed none
            hook.write_output_prompt()

    if getattr(shell, "kernel", None) is None:
        hook.write_output_prompt = write_output_prompt


# Live logs of a server, until Interrupt.

LISTED = 50
"""Lines listed of each kind by default."""

FOLLOWED = 500
"""The last lines that are kept while following, and listed at the end."""

FOLLOW_INTERVAL = 0.2
"""Least seconds between two updates."""


async def follow(
    invocation: Invocation,
    server: str,
    before: list[LogMessage],
    seconds: float | None,
    listing: MakeListing,
    least: str,
) -> tuple[list[LogMessage], str]:
    """Show a server's log messages as they arrive.

    Args:
        invocation: The line.
        server: The server's name.
        before: The messages so far.
        seconds: How long to follow; None until Interrupt.
        listing: Makes the listing to show.
        least: The least severe level that is shown.

    Returns:
        The messages at the end, and a line about them.
    """
    where = invocation.cells.circumstances()
    if seconds is None and not where.allow_stdin:
        return before, "not followed: nobody could interrupt it here; --seconds S follows for a time"
    shown: deque[LogMessage] = deque(before, maxlen=FOLLOWED)
    screen: _Display | _Printer = _Display(server, listing) if where.widgets else _Printer()
    started, count = time.monotonic(), 0
    screen.show(shown, list(before))
    with until_interrupted(), suppress(TimeoutError), LogFollower(lambda: _found(invocation, server)) as follower:
        async with asyncio.timeout(seconds):
            while (new := await follower.take()) is not None:
                wanted = [message for message in new if message.logger == STDERR or at_least(message.level, least)]
                if wanted:
                    count += len(wanted)
                    shown.extend(wanted)
                    screen.show(shown, wanted)
                    await asyncio.sleep(FOLLOW_INTERVAL)
    said = f"followed for {duration(time.monotonic() - started)}: {count:,} new"
    screen.end(said)
    return list(shown), said


def _found(invocation: Invocation, server: str) -> Any:
    return invocation.host.connections.get(server)


class _Display:
    """A display below the cell, updated in place."""

    def __init__(self, server: str, listing: MakeListing) -> None:
        self._server = server
        self._listing = listing
        self._replace: Callable[[dict[str, Any]], None] | None = None

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        table = self._listing(self._server, shown)
        table.note = "following; Interrupt ends it"
        data = mimebundle(table[-LISTED:])
        if self._replace is None:
            self._replace = show_below(data)
        else:
            self._replace(data)

    def end(self, said: str) -> None:
        from mcp_magic.display.document import Part, bundle

        if self._replace is not None:
            self._replace(bundle([Part.note(f"{self._server}: {said}")]))


class _Printer:
    """Prints lines in a terminal."""

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        for message in new:
            print(message_line(message), flush=True)

    def end(self, said: str) -> None:
        """Do nothing: the listing says it."""


# Watches of resources: which ones run, and their screens.

_running: dict[tuple[str, str], Running] = {}


def running() -> Iterable[Running]:
    """Return the running watches, in the order of their start."""
    return list(_running.values())


class WatchScreen(Protocol):
    """Shows a watch.

    Attributes:
        live: Whether the screen has shown everything when the watch ends.
    """

    live: bool

    def show(self, watch: Watch) -> None:
        """Show the state of the watch now."""

    def detached(self) -> None:
        """Show that the cell has ended and the watch goes on."""


class Running:
    """A watch that follows its resource in a task of the cell that started it.

    Args:
        watch: The open watch.
        screen: Where to show it.
        seconds: The longest time, or None.
        count: The number of updates after which it ends, or None.
    """

    def __init__(self, watch: Watch, screen: WatchScreen, seconds: float | None, count: int | None) -> None:
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
            task.exception()  # mark the exception as seen; `wait` raises it

    def detach(self) -> None:
        """Let `wait` return while the watch goes on."""
        self.screen.detached()
        self._free.set()

    async def wait(self) -> None:
        """Wait until the watch ends or is detached. Interrupt ends it."""
        interrupted = True
        with until_interrupted():
            await self._free.wait()
            interrupted = False
        if interrupted:
            await self.stop("interrupted")
        elif self._task.done():
            await self._task

    async def stop(self, why: str) -> None:
        """End the watch, and wait until the screen shows that."""
        self.watch.stop(why)
        await asyncio.wait({self._task})

    def close(self) -> None:
        """End the watch because its cell runs again or was deleted."""
        self.watch.stop("its cell was run again")


class Printer:
    """Prints lines in a terminal."""

    live = True

    def __init__(self) -> None:
        self._said = -1

    def show(self, watch: Watch) -> None:
        """Print the resource first, then each update, and the outcome at the end."""
        if self._said < 0:
            print(clean(f"{watch!s}\nCtrl-C ends it"), flush=True)
        elif watch.updates > self._said or watch.problem:
            print(clean(update_line(watch)), flush=True)
        self._said = watch.updates
        if watch.ended:
            print(clean(status_text(watch)), flush=True)

    def detached(self) -> None:
        """Do nothing: a terminal is never detached."""


class Display:
    """A display below the cell, updated in place, with buttons where clicks arrive.

    Args:
        buttons: Whether clicks arrive.
        detach: Lets the cell end; None if the cell does not wait.
    """

    live = True

    def __init__(self, buttons: bool, detach: Callable[[], None] | None = None) -> None:
        self._buttons = buttons
        self._detach = detach
        self._panel: WatchPanel | None = None
        self._replace: Callable[[dict[str, Any]], None] | None = None

    def show(self, watch: Watch) -> None:
        """Show the watch or its changes; without buttons once it has ended."""
        if self._replace is None:
            self._replace = show_below(self._first(watch))
        elif watch.ended:
            self._replace(watch.bundle())
            if self._panel is not None:  # only now, or a frontend shows lost widgets for a moment
                self._panel.close()
                self._panel = None
        elif self._panel is not None:
            self._panel.refresh()
        else:
            self._replace(watch.bundle())

    def _first(self, watch: Watch) -> dict[str, Any]:
        if not self._buttons:
            return watch.bundle()
        from mcp_magic.ui.progress import WatchPanel

        self._panel = WatchPanel(watch, self._detach)
        return self._panel.bundle()

    def detached(self) -> None:
        """Show that the cell has ended."""
        if self._panel is not None:
            self._panel.detached()


class Headless:
    """A display in a notebook that runs unattended: nbclient drops output that a cell sends after its end.

    So the cell that is running sends an update. If no cell is running, the next cell sends it again.

    Args:
        cells: Know which cell is running.
    """

    live = True

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._replace: Callable[[dict[str, Any]], None] | None = None
        self._watch: Watch | None = None
        self._missed = False

    def show(self, watch: Watch) -> None:
        """Show the watch or its changes."""
        if self._replace is None:
            self._replace = show_below(watch.bundle())
            self._watch = watch
            self._cells.started.append(self._cell_started)
        elif self._cells.running:
            self._send(watch)
        else:
            self._replace(watch.bundle())
            self._missed = True

    def _cell_started(self) -> None:
        if self._missed and self._watch is not None:
            self._send(self._watch)
        if self._watch is None or self._watch.ended:
            self._cells.started.remove(self._cell_started)

    def _send(self, watch: Watch) -> None:
        self._missed = False
        if self._replace is not None and self._cells.latest is not None:
            self._cells.latest.copy().run(self._replace, watch.bundle())

    def detached(self) -> None:
        """Do nothing: an unattended watch is never detached."""


def watch_screen_for(cells: Cells, *, clicks: bool, detach: Callable[[], None] | None) -> WatchScreen:
    """Return the screen for a watch of the current cell.

    Args:
        cells: Know where the cell runs.
        clicks: Whether clicks arrive while the cell waits.
        detach: Lets the cell end; None if the cell does not wait.
    """
    where = cells.circumstances()
    if where.kernel is None:
        return Printer()
    if not where.allow_stdin:
        return Headless(cells)
    return Display(clicks and where.widgets, detach)
