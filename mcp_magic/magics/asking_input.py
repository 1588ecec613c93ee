"""Asking with `input()`: in terminals, in consoles, and where a kernel cannot deliver clicks to a running cell.

`input()` stops the event loop. While it waits, SIGINT and the time-out have to end it themselves. Both are signals:
where there is no SIGALRM (Windows), where somebody else uses it, and on any thread but the main one `input()` goes on
until a line comes. One that comes too late is a time-out there as well.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.interrupts import interrupt, let_end
from mcp_magic.wording import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from mcp_magic.core.consent.consent import Decision, Request

__all__ = ["InputAsker"]

CHOICES = "[y]es, [n]o (and why), [e]dit, [a]lways"

SHOW = ", [s]how all"
"""The choice where a value is cut."""

VIEW = ", [v]iew hidden"
"""The choice where something is hidden."""


class _TimeIsUp(BaseException):
    """Ends `input()`; ipykernel goes on waiting after an `Exception`."""


class InputAsker:
    """An approver that asks line by line.

    Args:
        read: Asks with a prompt and returns the line; `input` if None.
        write: Shows text; `print` if None.
        seconds: How long it waits for the answer to a question, with all lines that belong to it; None for ever.
        reveal: Shows text that must not stay, and returns what takes it away; None where nothing that is written is
            kept.
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
        seconds: float | None = None,
        reveal: Callable[[str], Callable[[], None]] | None = None,
    ) -> None:
        # looked up here: ipykernel puts its own input() in the place of Python's while a cell runs
        self._read = read if read is not None else lambda prompt: input(clean(prompt))
        self._write = write if write is not None else lambda text: print(clean(text), flush=True)
        self._seconds = seconds
        self._reveal = reveal
        self._until: float | None = None

    async def ask(self, request: Request) -> Decision:
        """Ask for a decision; the end of input denies, and so does Ctrl-C where no magic runs that it ends.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        from mcp_magic.core.consent.consent import Decision

        arguments: Mapping[str, Any] = request.arguments
        seen: set[str] = set()
        await self._begin()
        while True:
            self._write(_question(request, arguments))
            long, hidden, unseen = _long(request, arguments, seen)
            choices = f"{CHOICES}{SHOW if long else ''}{VIEW if hidden else ''}: "
            try:
                answer = self._line(f"Approve {_name(request)}? {choices}")
                letter, _, rest = answer.strip().partition(" ")
                to_show = {"s": long, "show": long, "v": hidden, "view": hidden}
                if unseen and letter.lower() in ("y", "yes", "a", "always"):
                    self._write("You have not seen all of it yet. This is the whole; then answer again.")
                    to_show[letter.lower()] = unseen
                if values := to_show.get(letter.lower()):
                    self._show_all(values, seen)
                    continue
                match letter.lower():
                    case "y" | "yes":
                        return self._approval(request, arguments)
                    case "n" | "no":
                        return Decision.deny(rest.strip())
                    case "a" | "always":
                        return self._approval(request, arguments, always=self._scope(request))
                    case "e" | "edit":
                        arguments = self._edited(request, arguments)
                    case _:
                        self._write("y lets it go out, n refuses, e changes the arguments first, a asks no more")
            except EOFError:
                return Decision.deny("the input ended")
            except KeyboardInterrupt:
                break
        await interrupt()
        return Decision.deny("interrupted")

    async def confirm(self, text: str) -> bool:
        """Ask for a yes; the end of input is a no, and so is Ctrl-C where no magic runs that it ends.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        await self._begin()
        self._write(text)
        try:
            return self._choice("[y]es, [n]o: ", "yn") == "y"
        except EOFError:
            return False
        except KeyboardInterrupt:
            pass
        await interrupt()
        return False

    async def _begin(self) -> None:
        await let_end()
        self._until = None if self._seconds is None else time.monotonic() + self._seconds

    def _show_all(self, values: list[tuple[str, Any]], seen: set[str]) -> None:
        """Show whole values, page by page; where it would be kept, each until a line is typed.

        Args:
            values: The values, with their names.
            seen: Gets their names when the last page is shown.
        """
        from mcp_magic.core.hidden import page_text, pages

        shown = pages(values)
        for number, each in enumerate(shown, 1):
            is_last = number == len(shown)
            next_page = f"Enter shows part {number + 1} of {len(shown)}, q goes back: "
            if self._reveal is None:
                self._write(page_text(each))
                line = "" if is_last else self._line(next_page)
            else:
                take_away = self._reveal(page_text(each))
                try:
                    line = self._line("Enter hides it again: " if is_last else next_page)
                finally:
                    take_away()
            if line.strip().lower() == "q" and not is_last:
                return
        seen.update(name for name, _ in values)

    def _approval(self, request: Request, arguments: Mapping[str, Any], always: str = "") -> Decision:
        from mcp_magic.core.consent.consent import Decision
        from mcp_magic.widgets.approval_text import changes

        changed = arguments if changes(request.arguments, arguments) else None
        return Decision.approve(changed, always=always)

    def _scope(self, request: Request) -> str:
        choices = {"t": "tool", "a": "arguments"} | ({"r": "run"} if request.run is not None else {})
        of_the_run = ", this [r]un" if request.run is not None else ""
        while True:
            answer = self._line(f"Always for this [t]ool, these [a]rguments{of_the_run}: ").strip().lower()[:1]
            if answer in choices:
                return choices[answer]

    def _edited(self, request: Request, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was typed, or what was there if it cannot be sent."""
        from mcp_magic.errors import ArgumentsError
        from mcp_magic.widgets.hiding import read_arguments, written_arguments

        self._write(f"now: {written_arguments(arguments, request.definition, indent=None)}")
        text = self._line("Arguments as JSON, empty to leave them: ")
        if not text.strip():
            return arguments
        try:
            return read_arguments(text, arguments, request.definition)
        except ArgumentsError as error:
            self._write(str(error))
            return arguments

    def _choice(self, prompt: str, letters: str) -> str:
        """Ask until one of the letters is typed."""
        while True:
            letter = self._line(prompt).strip().lower()[:1]
            if letter and letter in letters:
                return letter

    def _line(self, prompt: str) -> str:
        with _ended_by_signals(self._left()):
            line = self._read(prompt)
        self._left()
        return line

    def _left(self) -> float | None:
        """Return the seconds that are left, or None without a limit.

        Raises:
            TimeoutError: There are none.
        """
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _question(request: Request, arguments: Mapping[str, Any]) -> str:
    from mcp_magic.widgets.approval_text import question_text

    return question_text(request, arguments)


def _long(
    request: Request, arguments: Mapping[str, Any], seen: set[str]
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Return what the question cuts, what it hides, and what of both must still be seen."""
    from mcp_magic.widgets.approval_text import hidden_of, long_of, unseen_of

    hidden = [(part.path, part.value) for part in hidden_of(request, arguments)]
    return long_of(request, arguments), hidden, unseen_of(request, arguments, seen)


def _name(request: Request) -> str:
    from mcp_magic.results.visible import in_line

    return in_line(request.name, 80)


@contextmanager
def _ended_by_signals(seconds: float | None) -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, which while a magic runs only cancels its task, and the time end the wait.

    Raises:
        TimeoutError: The time was up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    late = False
    try:
        with _alarm(seconds):
            yield
    except _TimeIsUp:
        late = True
    finally:
        signal.signal(signal.SIGINT, handler)
    if late:
        raise TimeoutError


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise `_TimeIsUp` after a time, where there is SIGALRM and nobody else uses it."""
    if seconds is None or not hasattr(signal, "setitimer") or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TimeIsUp

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
