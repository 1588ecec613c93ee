"""Live output below a cell: logs, watches and what follows."""

from __future__ import annotations

import asyncio
import time
import uuid
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


# A transcript that is shown while it grows.
#
# Where a frontend shows widgets, each segment is a display that is updated in place. A terminal gets each entry as it
# is complete. Where nobody watches (nbclient, nbval, papermill) and in consoles, nothing is shown before the end.

LIVE_INTERVAL = 0.05
"""Seconds between two updates at least: twenty a second."""


class Screen(Protocol):
    """What a transcript is shown on.

    Attributes:
        live: Whether everything has been shown when the run ends.
    """

    live: bool

    def changed(self, transcript: Transcript) -> None:
        """Show what changed, soon."""

    def flush(self, transcript: Transcript) -> None:
        """Show it now."""

    def end(self, transcript: Transcript) -> None:
        """The run is over."""

    def broken_off(self, transcript: Transcript) -> None:
        """The run is over without a value that the cell could show."""


class AtTheEnd:
    """Shows nothing: the value of the cell does. Of a run that breaks off there is none, and it is shown here."""

    live = False

    def changed(self, transcript: Transcript) -> None:
        """Nothing is shown yet."""

    flush = end = changed

    def broken_off(self, transcript: Transcript) -> None:
        """Show what there is; a request and what is about to be raised are not worth it."""
        bundle = mimebundle(transcript)
        if bundle["text/plain"] and transcript.is_answered:
            _show(bundle)


class NotebookScreen:
    """Shows each segment of a transcript below the cell, and updates it at most every `INTERVAL`."""

    live = True

    def __init__(self) -> None:
        self._shown: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._last = 0.0
        self._later: asyncio.TimerHandle | None = None

    def changed(self, transcript: Transcript) -> None:
        """Show what changed: now, if the last time is long enough ago."""
        loop = asyncio.get_running_loop()
        wait = self._last + LIVE_INTERVAL - loop.time()
        if wait <= 0:
            self.flush(transcript)
        elif self._later is None:
            self._later = loop.call_later(wait, self._flush_later, transcript)

    def flush(self, transcript: Transcript) -> None:
        """Show it now."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._last = asyncio.get_running_loop().time()
        for index in sorted(transcript.dirty):
            bundle = transcript.render_segment(index)
            if index in self._shown:
                self._shown[index](bundle)
            elif bundle["text/plain"]:
                self._shown[index] = _show(bundle)

    end = broken_off = flush

    def _flush_later(self, transcript: Transcript) -> None:
        with suppress(asyncio.CancelledError):  # Interrupt ends what takes long to draw
            self.flush(transcript)


class TerminalScreen:
    """Prints each entry of a transcript when it is complete."""

    live = True

    def __init__(self) -> None:
        self._printed = 0

    def changed(self, transcript: Transcript) -> None:
        """Print what is complete now."""
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
    """Return the screen for where a cell runs."""
    if where.kernel is None:
        return TerminalScreen()
    return NotebookScreen() if where.widgets and where.allow_stdin else AtTheEnd()


def _show(bundle: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Show a mimebundle below the cell; what is returned replaces it."""
    from IPython.display import display, update_display

    name = uuid.uuid4().hex
    display(bundle, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    def replacement(other: dict[str, Any]) -> None:
        update_display(other, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    return replacement


def shown_once(shell: InteractiveShell, run: Any) -> None:
    """Keep the value of this cell from being displayed below what was shown of it while it ran.

    Later cells display it as any value.
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
    """Keep a terminal from writing `Out[n]:` with nothing behind it; the value is in `Out` and `_` all the same."""
    hook: Any = shell.displayhook

    def write_output_prompt() -> None:
        vars(hook).pop("write_output_prompt", None)
        if shell.execution_count != cell:  # that cell did not show the value: it was assigned
            hook.write_output_prompt()

    if getattr(shell, "kernel", None) is None:
        hook.write_output_prompt = write_output_prompt


# Showing the logs of a server live, until Interrupt.

LISTED = 50
"""Lines of each kind that are listed where nothing else is said."""

FOLLOWED = 500
"""Lines that are shown while following, and listed at the end; the last ones."""

FOLLOW_INTERVAL = 0.2
"""Seconds between two updates at least."""


async def follow(
    invocation: Invocation,
    server: str,
    before: list[LogMessage],
    seconds: float | None,
    listing: MakeListing,
    least: str,
) -> tuple[list[LogMessage], str]:
    """Show what a server logs, as it comes.

    Args:
        invocation: The line.
        server: The server's name.
        before: What is known already.
        seconds: How long; None until Interrupt.
        listing: Makes what is shown.
        least: The least severe level that is shown.

    Returns:
        What there was in the end, and a line about it.
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
    """A display below the cell that is updated."""

    def __init__(self, server: str, listing: MakeListing) -> None:
        self._server = server
        self._listing = listing
        self._replace: Callable[[dict[str, Any]], None] | None = None

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        from mcp_magic.display.document import bundle
        from mcp_magic.ipython.ask import show_below

        table = self._listing(self._server, shown)
        table.note = "following; Interrupt ends it"
        data = bundle([table[-LISTED:].part()])
        if self._replace is None:
            self._replace = show_below(data)
        else:
            self._replace(data)

    def end(self, said: str) -> None:
        from mcp_magic.display.document import note, page

        if self._replace is not None:
            self._replace(
                {"text/html": page([note(f"{self._server}: {said}")]), "text/plain": f"{self._server}: {said}"}
            )


class _Printer:
    """Lines in a terminal."""

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        for message in new:
            print(message_line(message), flush=True)

    def end(self, said: str) -> None:
        """The listing says the rest."""


# Resources that are watched from cells: what is shown of them, and which there are.

_running: dict[tuple[str, str], Running] = {}


def running() -> Iterable[Running]:
    """Return what is watched now, in the order in which it began."""
    return list(_running.values())


class WatchScreen(Protocol):
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
            self._replace(watch.bundle())
            if self._panel is not None:  # after that: a frontend would show the widgets as lost for a moment
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
        """Nobody detaches it."""


def watch_screen_for(cells: Cells, *, clicks: bool, detach: Callable[[], None] | None) -> WatchScreen:
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
