"""A transcript that is shown while it grows.

Where a frontend shows widgets, each segment is a display that is updated in place. A terminal gets each entry as it
is complete. Where nobody watches (nbclient, nbval, papermill) and in consoles, nothing is shown before the end.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.results.parts import mimebundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.magics.cells import Circumstances

__all__ = [
    "AtTheEnd",
    "NotebookScreen",
    "Screen",
    "TerminalScreen",
    "screen_for",
    "shown_again",
    "shown_once",
]

INTERVAL = 0.05
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
        wait = self._last + INTERVAL - loop.time()
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
