"""Asks the user in a notebook or a terminal: approvals, elicitations, sampling and log-ins; or answers from a file."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_magic import schema
from mcp_magic._text import clean, did_you_mean
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Review, reply_texts, request_texts, with_reply_texts, with_request_texts
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes, slug
from mcp_magic.config.project import Declaration, is_trusted, load_declaration, loosened, runs, trust, trust_line
from mcp_magic.config.servers import discover_servers, is_personal
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, DeniedError, MCPMagicError
from mcp_magic.ipython.execution import interrupt, let_end
from mcp_magic.schema.convert import UnfitText, from_text
from mcp_magic.schema.fields import UNSET
from mcp_magic.schema.validate import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
    from types import FrameType

    from mcp_magic.ask.elicitation import Elicitation, ElicitationSettings
    from mcp_magic.ask.sampling import Expected, Sampled, SamplingRequest, SamplingSettings, Text
    from mcp_magic.auth.login import LogIn, LogIns
    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.consent import Consent, Decision, Request
    from mcp_magic.ipython.cells import Cells, Circumstances
    from mcp_magic.ipython.commandline import Invocation
    from mcp_magic.ipython.settings import Settings
    from mcp_magic.schema.fields import Field
    from mcp_magic.ui.question import ApprovalPanel, Replace

__all__ = [
    "Answers",
    "Asking",
    "Authorizing",
    "ElicitationInput",
    "Eliciting",
    "InputAsker",
    "LogInInput",
    "Replies",
    "Reviewing",
    "SamplingInput",
    "Way",
    "answer_sampling",
    "ask_for_servers",
    "ask_for_trust",
    "ask_in_replays",
    "ask_no_more_in_replays",
    "authorize",
    "authorize_no_more",
    "displaced",
    "end_sampling",
    "how_to_ask",
    "in_terminal",
    "needs_yes",
    "shadowed",
    "show_below",
]


# Asking with `input()`: in terminals, in consoles, and where a kernel cannot deliver clicks to a running cell.
#
# `input()` stops the event loop, so signals have to end it: SIGINT for Ctrl-C, SIGALRM for the time-out. Without
# SIGALRM (Windows), while other code uses it, and on any thread but the main one, `input()` waits for a line. A line
# after the deadline is a time-out there as well.

CHOICES = "[y]es, [n]o (and why), [e]dit, [a]lways"

SHOW = ", [s]how all"
"""The choice if a value is cut."""

VIEW = ", [v]iew hidden"
"""The choice if a value is hidden."""


class _TimeIsUp(BaseException):
    """Ends `input()`. A BaseException, because ipykernel continues to wait after an `Exception`."""


class InputAsker:
    """An approver that asks line by line.

    Args:
        read: Shows a prompt and returns the line; `input` if None.
        write: Shows text; `print` if None.
        seconds: The time to answer a question with all its lines; None for no limit.
        reveal: Shows text that must not stay, and returns a function that removes it; None where written text is not
            kept.
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
        seconds: float | None = None,
        reveal: Callable[[str], Callable[[], None]] | None = None,
    ) -> None:
        # looked up late: ipykernel replaces Python's input() while a cell runs
        self._read = read if read is not None else lambda prompt: input(clean(prompt))
        self._write = write if write is not None else lambda text: print(clean(text), flush=True)
        self._seconds = seconds
        self._reveal = reveal
        self._until: float | None = None

    async def ask(self, request: Request) -> Decision:
        """Ask for a decision. The end of input denies; Ctrl-C ends the running magic, and denies if there is none.

        Raises:
            TimeoutError: The time is up.
        """
        from mcp_magic.consent.consent import Decision

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
        """Ask for a yes. The end of input is a no; Ctrl-C ends the running magic, and is a no if there is none.

        Raises:
            TimeoutError: The time is up.
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
        """Show whole values, page by page; where output is kept, remove each page after a line is typed.

        Args:
            values: The values, with their names.
            seen: Gets their names once the last page is shown.
        """
        from mcp_magic.display.arguments import page_text, pages

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
        from mcp_magic.consent.consent import Decision
        from mcp_magic.display.arguments import changes

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
        """Return the typed arguments, or the previous ones if those are invalid."""
        from mcp_magic.display.arguments import read_arguments, written_arguments
        from mcp_magic.errors import ArgumentsError

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
        """Return the seconds left, or None without a limit.

        Raises:
            TimeoutError: The time is up.
        """
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _question(request: Request, arguments: Mapping[str, Any]) -> str:
    from mcp_magic.ask.approval import approval_text

    return approval_text(request, arguments)


def _long(
    request: Request, arguments: Mapping[str, Any], seen: set[str]
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Return the values that the question cuts, the hidden ones, and those of both that the user must still see."""
    from mcp_magic.ask.approval import hidden_of, long_of, unseen_of

    hidden = [(part.path, part.value) for part in hidden_of(request, arguments)]
    return long_of(request, arguments), hidden, unseen_of(request, arguments, seen)


def _name(request: Request) -> str:
    from mcp_magic.display.visible import in_line

    return in_line(request.name, 80)


@contextmanager
def _ended_by_signals(seconds: float | None) -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt (during a magic it would only cancel the task), and a time-out end the wait.

    Raises:
        TimeoutError: The time is up.
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
    """Raise `_TimeIsUp` after a time, if SIGALRM exists and no other code uses it."""
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


# The notebook's approver.
#
# - It shows a panel with buttons if clicks reach the kernel while the cell waits. ipykernel 7.4 delivers them to a cell
#   that awaits; 7.0 to 7.3 only through a subshell, which the frontend has to use (JupyterLab 4.4 does); older ones
#   only after the cell. A nested event loop gets no clicks; a task that has outlived its cell always does.
# - It uses `input()` if the frontend takes input and the cell is running: consoles, terminals, older kernels, nested
#   runs.
# - Otherwise it denies. nbclient, nbval and papermill run cells without input. They would show a panel, too (they keep
#   widget states), so `allow_stdin` tells them from a frontend with a user.

T = TypeVar("T")

Way = Literal["panel", "input", "nobody"]

AWAITED_CLICKS = (7, 4)
"""The first version of ipykernel that delivers widget messages to a cell that awaits."""

SUBSHELL_CLICKS = (7, 0)
"""The first version of ipykernel that delivers them to a subshell."""

SUBSHELL_SECONDS = 2.0
"""Seconds that a frontend has to make a subshell once it shows a widget; JupyterLab takes a tenth of one."""

POLL_SECONDS = 0.02

EARLIER = 0.05
"""Seconds by which a panel ends its wait before `Consent` does, to tell a time-out from Interrupt."""

NOT_ASKED_FOR_APPROVAL = (
    "nobody can be asked here, where no input is allowed; MCP_MAGIC_APPROVAL=auto allows what no rule asks about"
)


def how_to_ask(where: Circumstances, ask_with: str = "auto") -> Way:
    """Return how the user can be asked.

    Args:
        where: Where the question comes up.
        ask_with: The setting: `"auto"`, or `"panel"` or `"input"` where that works better.

    >>> from mcp_magic.ipython.cells import Circumstances
    >>> how_to_ask(Circumstances(kernel=(7, 4), allow_stdin=True, widgets=True))
    'panel'
    >>> how_to_ask(Circumstances(kernel=(6, 30), allow_stdin=True, widgets=True))
    'input'
    >>> how_to_ask(Circumstances(kernel=(7, 4), allow_stdin=False, widgets=True))
    'nobody'
    """
    if ask_with == "panel" and where.kernel is not None:
        return "panel"
    if not where.allow_stdin:
        return "nobody"
    if where.kernel is None:
        return "input"
    if ask_with != "input" and where.widgets and _gets_clicks(where):
        return "panel"
    # input() from a cell that has ended is shown nowhere and would stop the kernel for ever
    return "input" if where.running else "nobody"


def _gets_clicks(where: Circumstances) -> bool:
    """Whether a click can arrive while the question waits."""
    assert where.kernel is not None
    if not where.running:
        return True  # the kernel is idle, or will be
    if where.nested:
        return False
    return where.kernel >= AWAITED_CLICKS or (where.kernel >= SUBSHELL_CLICKS and where.subshells)


class Asking:
    """The approver.

    Args:
        cells: Knows the cell that asks.
        settings: The settings.
        consent: Has the time-out.
    """

    def __init__(self, cells: Cells, settings: Settings, consent: Consent) -> None:
        self._cells = cells
        self._settings = settings
        self._consent = consent
        self._panels: dict[str, ApprovalPanel] = {}
        self._without_subshells: set[str] = set()

    async def __call__(self, request: Request) -> Decision:
        """Ask for a decision.

        Raises:
            TimeoutError: The time is up.
        """
        until = asyncio.get_running_loop().time() + self._consent.timeout - EARLIER
        way = await self.way()
        if way == "input":
            seconds = until - asyncio.get_running_loop().time()
            reveal = _show_for_now if self._cells.kernel is not None else None
            return await InputAsker(seconds=seconds, reveal=reveal).ask(request)
        if way == "panel":
            return await self.below_a_cell(lambda: self._in_panel(request, until))
        from mcp_magic.consent.consent import Decision

        return Decision.deny(NOT_ASKED_FOR_APPROVAL, by="nobody")

    async def confirm(self, text: str) -> bool | None:
        """Ask for a yes to a text; return None if the user cannot be asked.

        Raises:
            TimeoutError: The time is up.
        """
        way = await self.way()
        if way == "nobody":
            return None
        if way == "input":
            return await InputAsker(seconds=self._consent.timeout).confirm(text)
        from mcp_magic.ui.question import ConfirmationPanel

        async with asyncio.timeout(self._consent.timeout):
            return await self.below_a_cell(lambda: ConfirmationPanel(show_below).ask(text))

    async def way(self) -> Way:
        """Return how the user can be asked now."""
        return how_to_ask(await self._circumstances(), self._settings.ask_with)

    async def below_a_cell(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work that shows a panel below the cell that asks, or below the latest cell if no cell asks.

        Output from a click would go to the frontend's log.
        """
        if self._cells.asks_from_a_cell() or self._cells.latest is None:
            return await work()
        context = self._cells.latest.run(copy_context)
        return await asyncio.create_task(work(), context=context)

    async def _circumstances(self) -> Circumstances:
        where = self._cells.circumstances()
        trying = replace(where, subshells=True)
        if how_to_ask(trying) == how_to_ask(where):
            return where
        return trying if await self._finds_a_subshell() else where

    async def _finds_a_subshell(self) -> bool:
        """Whether the frontend uses subshells for widgets: show it a widget and wait for a subshell."""
        session = self._cells.parent().get("header", {}).get("session", "")
        manager = getattr(getattr(self._cells.kernel, "shell_channel_thread", None), "manager", None)
        if manager is None or session in self._without_subshells:
            return False
        if manager.list_subshell():
            return True
        import ipywidgets

        probe = ipywidgets.Layout()  # has no view, so it stays invisible
        until = time.monotonic() + SUBSHELL_SECONDS
        while not (found := bool(manager.list_subshell())) and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)
        probe.close()
        if not found:
            self._without_subshells.add(session)
        return found

    async def _in_panel(self, request: Request, until: float) -> Decision:
        """Ask in the panel of the cell, which all pending requests of the cell share."""
        from mcp_magic.ui.question import ApprovalPanel

        cell = self._cells.parent().get("header", {}).get("msg_id", "")
        if cell not in self._panels:
            self._panels[cell] = ApprovalPanel(show_below, seconds=lambda: self._consent.timeout)
        panel = self._panels[cell]
        try:
            return await panel.ask(request, until=until)
        finally:
            if not panel.waiting:
                self._panels.pop(cell, None)


def _show_for_now(text: str) -> Callable[[], None]:
    """Show text below the cell; return a function that removes it, so that the notebook does not save it."""
    replace_it = show_below({"text/plain": text})
    return lambda: replace_it({"text/plain": "hidden again"})


def show_below(bundle: dict[str, Any]) -> Replace:
    """Show a mimebundle below the cell; return a function that replaces it."""
    from IPython.display import display, update_display

    name = uuid.uuid4().hex
    display(bundle, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    def replacement(other: dict[str, Any]) -> None:
        update_display(other, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    return replacement


# Elicitation with `input()`, field by field: in terminals, and where a kernel cannot deliver clicks.

FORM_CHOICES = "[f]ill in, [d]ecline, [c]ancel: "
PAGE_CHOICES = "[o]pened it, go on; [d]ecline, [c]ancel: "
SEND_CHOICES = "[s]end, [f]ill in again, [d]ecline, [c]ancel: "


class ElicitationInput(InputAsker):
    """An elicitor that asks line by line.

    Args:
        read: Shows a prompt and returns the line; `input` if None.
        write: Shows text; `print` if None.
        seconds: The time for all lines together; None for no limit.
        read_secret: Reads a line without showing it; `getpass` if None.
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
        seconds: float | None = None,
        read_secret: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(read, write, seconds)
        self._read_secret = read_secret if read_secret is not None else _getpass

    async def elicit(self, asked: Elicitation) -> Answer:
        """Ask for an answer. The end of input cancels; Ctrl-C ends the running magic, and cancels if there is none.

        Raises:
            TimeoutError: The time is up.
        """
        from mcp_magic.ask.elicitation import question_text

        await self._begin()
        self._write(question_text(asked))
        try:
            return self._page() if asked.mode == "url" else self._form(asked)
        except EOFError:
            return Answer.cancel("the input ended")
        except KeyboardInterrupt:
            pass
        await interrupt()
        return Answer.cancel("interrupted")

    def _page(self) -> Answer:
        choice = self._choice(PAGE_CHOICES, "odc")
        return Answer.accept() if choice == "o" else _refusal(choice)

    def _form(self, asked: Elicitation) -> Answer:
        entered = asked.defaults
        choice = self._choice(FORM_CHOICES, "fdc")
        while choice == "f":
            entered = self._filled(asked, entered)
            choice = self._choice(SEND_CHOICES, "sfdc")
            if choice == "s":
                try:
                    schema.check_arguments(entered, asked.schema)
                    return Answer.accept(entered)
                except ArgumentsError as error:
                    self._write(str(error))
                    choice = "f"
        return _refusal(choice)

    def _filled(self, asked: Elicitation, before: dict[str, Any]) -> dict[str, Any]:
        """Ask for each value; an empty line keeps the value in brackets, or omits the field."""
        required = asked.schema.get("required")
        names = required if isinstance(required, list) else []
        entered: dict[str, Any] = {}
        for field in schema.root_field(asked.schema).children:
            value = self._value(field, before.get(field.name, UNSET), required=field.name in names)
            if value is not UNSET:
                entered[field.name] = value
        return entered

    def _value(self, field: Field, before: Any, *, required: bool) -> Any:
        secret = schema.is_secret(field.name, field)
        said = one_line(f"{field.title} — {field.description}".strip(" —"), 200)
        if said:
            self._write(f"  {said}")
        while True:
            text = self._line(_prompt(field, before, required=required, secret=secret), secret=secret)
            if not text:
                return before
            try:
                value = _read_value(text, field)
                one = {"type": "object", "properties": {field.name: field.schema}}
                schema.check_arguments({field.name: value}, one)
            except ArgumentsError as error:
                self._write("***: this does not fit" if secret else str(error))
            else:
                return value

    def _line(self, prompt: str, *, secret: bool = False) -> str:
        if not secret:
            return super()._line(prompt)
        read, self._read = self._read, self._read_secret
        try:
            return super()._line(prompt)
        finally:
            self._read = read


def _refusal(choice: str) -> Answer:
    return Answer.decline() if choice == "d" else Answer.cancel()


def _prompt(field: Field, before: Any, *, required: bool, secret: bool) -> str:
    facts = [field.type_text, field.constraints_text, "required" if required else ""]
    kept = "" if before is UNSET else f" [{'***' if secret else one_line(schema.shown(before), 60)}]"
    return f"{one_line(field.name, 80)} ({one_line(', '.join(fact for fact in facts if fact), 200)}){kept}: "


def _read_value(text: str, field: Field) -> Any:
    """Turn a line into a value; a list is separated by commas, or is JSON.

    Raises:
        ArgumentsError: The line does not fit the field.
    """
    problem = ""
    try:
        if field.item is not None and not text.lstrip().startswith("["):
            return [from_text(part.strip(), field.item) for part in text.split(",")]
        return from_text(text, field)
    except UnfitText:
        problem = unfit(field.name, field, text)
    raise ArgumentsError(problem)


def _getpass(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)


# The notebook's elicitor: asks as `Asking` does, or declines at once if the user cannot be asked.

NOT_ASKED_FOR_ANSWER = "nobody can be asked here, where no input is allowed; `%mcp call --answers FILE` answers"


class Eliciting:
    """The elicitor.

    Args:
        asking: Knows how the user can be asked.
        elicitors: Has the time-out.
    """

    def __init__(self, asking: Asking, elicitors: ElicitationSettings) -> None:
        self._asking = asking
        self._elicitors = elicitors

    async def __call__(self, asked: Elicitation) -> Answer:
        """Ask for an answer.

        Raises:
            TimeoutError: The time is up.
        """
        way = await self._asking.way()
        if way == "input":
            return await ElicitationInput(seconds=self._elicitors.timeout - EARLIER).elicit(asked)
        if way == "nobody":
            return Answer.decline(NOT_ASKED_FOR_ANSWER)
        from mcp_magic.ui.question import ElicitationPanel

        return await self._asking.below_a_cell(lambda: ElicitationPanel(show_below).ask(asked))


# The notebook's authorizer: shows a log-in as `Asking` does, where the user can answer.


class Authorizing:
    """The authorizer.

    Args:
        asking: Knows how the user can be asked.
        cells: Knows whether this is a terminal.
    """

    def __init__(self, asking: Asking, cells: Cells) -> None:
        self._asking = asking
        self._cells = cells

    async def possible(self) -> bool:
        """Whether the user can be asked now."""
        return await self._asking.way() != "nobody"

    async def __call__(self, login: LogIn) -> None:
        """Show a log-in until the user answers it."""
        way = await self._asking.way()
        if way == "panel":
            from mcp_magic.ui.question import AuthorizationPanel

            await self._asking.below_a_cell(lambda: AuthorizationPanel(show_below).ask(login))
        elif way == "input" and self._cells.kernel is None:
            await in_terminal(login)
        elif way == "input":
            await LogInInput(seconds=login.seconds).authorize(login)


def authorize(logins: LogIns, asking: Asking, cells: Cells) -> None:
    """Let the notebook show log-ins, unless another authorizer is set."""
    if logins.authorizer is None:
        authorizing = Authorizing(asking, cells)
        logins.ask_with(authorizing, authorizing.possible, asking.confirm)


def authorize_no_more(logins: LogIns) -> None:
    """Undo `authorize`."""
    if isinstance(logins.authorizer, Authorizing):
        logins.ask_with(None)


# A log-in in a terminal, and in consoles whose kernel gets no clicks.
#
# A terminal's event loop runs while it waits for a line. In a kernel, `input()` stops the loop. The callback has a
# thread of its own, so the browser still gets its page, and the user continues with Enter.

TERMINAL = (
    "Waiting for the browser to come back. If it is on another machine, paste the address that it is sent to here; "
    "c cancels."
)
CONSOLE = "Enter when the browser says that you can close its window, or paste the address that it shows; c cancels: "


async def in_terminal(login: LogIn) -> None:
    """Print a log-in and wait for the browser, or for a line with the address."""
    from mcp_magic.auth.login import login_text

    print(f"{login_text(login)}\n{TERMINAL}", flush=True)
    with _lines() as lines:
        answered = asyncio.ensure_future(login.answered())
        try:
            while not answered.done():
                line = asyncio.ensure_future(lines.get())
                await asyncio.wait({answered, line}, return_when=asyncio.FIRST_COMPLETED)
                if line.done():
                    _take(login, line.result())
                line.cancel()
        finally:
            answered.cancel()


def _take(login: LogIn, line: str) -> None:
    """Handle a line; print what is wrong with it. An empty line changes nothing."""
    text = line.strip()
    if text.lower() in ("c", "cancel"):
        login.cancel()
    elif text and (problem := login.pasted(text)):
        print(problem, flush=True)


@contextmanager
def _lines() -> Iterator[asyncio.Queue[str]]:
    """Read lines from the terminal without stopping the loop, if the loop can wait for files (not on Windows)."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop, stdin = asyncio.get_running_loop(), sys.stdin

    def read() -> None:
        line = stdin.readline()
        if line:
            lines.put_nowait(line)
        else:  # at its end, stdin would be readable for ever; the browser can still answer
            loop.remove_reader(stdin)

    try:
        loop.add_reader(stdin, read)
    except (NotImplementedError, OSError, ValueError):
        yield lines
        return
    try:
        yield lines
    finally:
        loop.remove_reader(stdin)


class LogInInput(InputAsker):
    """An authorizer with `input()` that does not echo: the address holds the code, and a notebook keeps lines."""

    async def authorize(self, login: LogIn) -> None:
        """Show a log-in, and ask until it is answered.

        Raises:
            TimeoutError: The time is up.
        """
        from mcp_magic.auth.login import login_text

        self._read = _unseen
        self._until = None if self._seconds is None else time.monotonic() + self._seconds
        self._write(login_text(login))
        try:
            while not login.outcome:
                line = self._line(CONSOLE).strip()
                if line.lower() in ("c", "cancel"):
                    login.cancel()
                elif line and (problem := login.pasted(line)):
                    self._write(problem)
                await asyncio.sleep(0)  # lets an answer that arrived during input() be handled
                await asyncio.sleep(0)
            return
        except EOFError:
            login.cancel()
        except KeyboardInterrupt:
            login.cancel()
            await interrupt()
        await login.answered()


def _unseen(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)


# Sampling with `input()`: the user decides line by line, in terminals and where clicks cannot arrive.

REQUEST_CHOICES = "[a]pprove, approve and show me the [r]eply first, [e]dit, [d]eny: "
REPLY_CHOICES = "[s]end, [e]dit, [r]efuse: "
KEEP = "Each text on one line; empty keeps it, a single - leaves it out."


class SamplingInput(InputAsker):
    """A reviewer that asks line by line."""

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer. The end of input denies; Ctrl-C ends the running magic, or else denies.

        Raises:
            TimeoutError: The time is up.
        """
        from mcp_magic.ask.sampling import request_text

        return await self._until_ended(lambda: self._request(asked, lambda now: request_text(now, expected)))

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a reply may be sent; the end of input and Ctrl-C act as in `request`.

        Raises:
            TimeoutError: The time is up.
        """
        from mcp_magic.ask.sampling import reply_text

        return await self._until_ended(lambda: self._reply(asked, reply, lambda now: reply_text(asked, now)))

    async def _until_ended(self, ask: Callable[[], Review]) -> Review:
        await self._begin()
        try:
            return ask()
        except EOFError:
            return Review.deny("the input ended")
        except KeyboardInterrupt:
            pass
        await interrupt()
        return Review.deny("interrupted")

    def _request(self, asked: SamplingRequest, shown: Callable[[SamplingRequest], str]) -> Review:
        now = asked
        self._write(shown(now))
        while (choice := self._choice(REQUEST_CHOICES, "ared")) == "e":
            try:
                now = with_request_texts(now, self._retyped(request_texts(now)))
            except ArgumentsError as error:
                self._write(str(error))
            self._write(shown(now))
        if choice == "d":
            return Review.deny()
        return Review.approve(None if now is asked else now, show_reply=choice == "r")

    def _reply(self, asked: SamplingRequest, reply: Sampled, shown: Callable[[Sampled], str]) -> Review:
        now = reply
        self._write(shown(now))
        while (choice := self._choice(REPLY_CHOICES, "ser")) == "e":
            try:
                now = with_reply_texts(now, self._retyped(reply_texts(now)), asked.usable_tools)
            except ArgumentsError as error:
                self._write(str(error))
            self._write(shown(now))
        return Review.deny() if choice == "r" else Review.approve(reply=None if now is reply else now)

    def _retyped(self, texts: Sequence[Text]) -> list[str]:
        self._write(KEEP)
        return [self._new(text) for text in texts]

    def _new(self, text: Text) -> str:
        line = self._line(f"{one_line(text.label, 80)} [{one_line(text.text, 60)}]: ")
        return text.text if not line.strip() else "" if line.strip() == "-" else line


# The notebook's reviewer: asks as `Asking` does, or denies at once if the user cannot be asked.

NOT_ASKED_FOR_REPLY = (
    "nobody can be asked here, where no input is allowed; `%mcp connect --sampling auto` answers without asking, "
    "`%mcp call --answers FILE` replies"
)


class Reviewing:
    """The reviewer.

    Args:
        asking: Knows how the user can be asked.
        samplers: Has the time-out.
    """

    def __init__(self, asking: Asking, samplers: SamplingSettings) -> None:
        self._asking = asking
        self._samplers = samplers
        self._wants_replies: dict[str, bool] = {}

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer.

        Raises:
            TimeoutError: The time is up.
        """
        way = await self._asking.way()
        if way == "nobody":
            return Review.deny(NOT_ASKED_FOR_REPLY, by="nobody")
        if way == "input":
            return await self._input().request(asked, expected)
        from mcp_magic.ui.question import RequestPanel

        wanted = self._wants_replies.get(asked.server, False)
        panel = RequestPanel(show_below, show_reply=wanted)
        review = await self._asking.below_a_cell(lambda: panel.ask(asked, expected))
        if review.approved:
            self._wants_replies[asked.server] = review.show_reply
        return review

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a reply may be sent.

        Raises:
            TimeoutError: The time is up.
        """
        way = await self._asking.way()
        if way == "nobody":
            return Review.deny(NOT_ASKED_FOR_REPLY, by="nobody")
        if way == "input":
            return await self._input().reply(asked, reply)
        from mcp_magic.ui.question import ReplyPanel

        return await self._asking.below_a_cell(lambda: ReplyPanel(show_below).ask(asked, reply))

    def _input(self) -> SamplingInput:
        return SamplingInput(seconds=self._samplers.timeout - EARLIER)


def answer_sampling(samplers: SamplingSettings, asking: Asking, model: Callable[[], Any]) -> None:
    """Let the configured model answer and the user review, unless a sampler or reviewer is already set.

    Args:
        samplers: Has the sampler and the reviewer.
        asking: Knows how the user can be asked.
        model: Returns the setting.
    """
    if samplers.sampler is None:
        samplers.sampler = ModelSampler(model)
    if samplers.reviewer is None:
        samplers.reviewer = Reviewing(asking, samplers)


def end_sampling(samplers: SamplingSettings) -> None:
    """Undo `answer_sampling`."""
    if isinstance(samplers.sampler, ModelSampler):
        samplers.sampler = None
    if isinstance(samplers.reviewer, Reviewing):
        samplers.reviewer = None


# Whether the user can be asked in a replayed session.


def ask_in_replays(cells: Cells, settings: Settings) -> None:
    """Ask the user where possible; elsewhere a replay repeats the recorded answer. Tell them when a recording ends."""

    def tell(text: str) -> None:
        context = cells.latest.copy() if cells.latest is not None else copy_context()
        context.run(print, clean(text), flush=True)

    deck.tell = tell
    deck.asks = lambda: how_to_ask(cells.circumstances(), settings.ask_with) != "nobody"


def ask_no_more_in_replays() -> None:
    """Undo `ask_in_replays`."""
    deck.asks, deck.tell = lambda: False, lambda text: None


# Replies to sampling requests from a file, for notebooks that run unattended.

KEYS = ("reply", "deny", "server", "message", "model")


@dataclass
class _Reply:
    """One entry of the file.

    Attributes:
        text: The reply; None refuses the request.
        model: The model named in the reply.
        reason: The reason for a refusal.
        server: A pattern for the server's name.
        message: A pattern for the text of the last message.
        used: Whether it has replied.
    """

    text: str | None
    model: str
    reason: str = ""
    server: str = "*"
    message: str = "*"
    used: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it can reply repeatedly: it names a server or a message."""
        return (self.server, self.message) != ("*", "*")

    def fits(self, asked: SamplingRequest) -> bool:
        """Whether it can reply to a request."""
        if self.used and not self.lasts:
            return False
        return fnmatchcase(asked.server, self.server) and fnmatchcase(_last_text(asked), self.message)


class Replies:
    """Decisions made in advance: replies in order, or by server and message.

    Args:
        entries: JSON values: texts, or objects with `reply` or `deny`, `server`, `message`, `model`.
        name: The name in messages, and the default name of the model.

    Attributes:
        problem: The first problem; "" if there was none.
    """

    def __init__(self, entries: list[Any], name: str) -> None:
        self._replies = [_read_reply(entry, name) for entry in entries]
        self._name = name
        self.problem = ""

    async def __call__(self, asked: SamplingRequest) -> Review:
        """Return the first reply that fits, or a refusal."""
        found = next((reply for reply in self._replies if reply.fits(asked)), None)
        if found is None:
            problem = f"{self._name} has no reply to {one_line(_last_text(asked), 100)!r} of {asked.server}"
            self.problem = self.problem or problem
            return Review.deny(problem, by=self._name)
        found.used = True
        if found.text is None:
            return Review.deny(found.reason, by=self._name)
        return Review(True, reply=_sampled(asked, found.text, found.model), by=self._name)


def _sampled(asked: SamplingRequest, text: str, model: str) -> Sampled:
    """Return a text as the reply, within the limits of the request."""
    from langchain_core.messages import AIMessage

    from mcp_magic.agent.offline import limited
    from mcp_magic.agent.sampling import to_sampled
    from mcp_magic.lint import CHARACTERS_A_TOKEN

    message = limited(AIMessage(text), asked.max_tokens * CHARACTERS_A_TOKEN)
    required = asked.tool_choice == "required" and bool(asked.usable_tools)
    notes = ["no tool is called, which the server required"] if required else []
    return to_sampled(message, model=model, stop_sequences=asked.stop_sequences, notes=notes)


def _last_text(asked: SamplingRequest) -> str:
    """Return the texts of the last message."""
    return "\n\n".join(block.text for block in asked.messages[-1].content_as_list if block.type == "text")


def _read_reply(entry: Any, name: str) -> _Reply:
    """Read one entry.

    Raises:
        ArgumentsError: The entry is invalid.
    """
    if isinstance(entry, str):
        return _Reply(entry, name)
    if not isinstance(entry, dict):
        raise ArgumentsError(f"{name}: a reply is a text or an object, not {schema.shown(entry)}")
    strange = next((key for key in entry if key not in KEYS), None)
    if strange is not None:
        near = did_you_mean(str(strange), KEYS)
        raise ArgumentsError(f"{name}: a reply has no {str(strange)!r}.{near} It has: {', '.join(KEYS)}")
    wrong = next((key for key, value in entry.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise ArgumentsError(f"{name}: {wrong!r} of a reply must be a text, not {schema.shown(entry[wrong])}")
    if ("reply" in entry) == ("deny" in entry):
        raise ArgumentsError(f'{name}: a reply has either "reply", the text, or "deny", the reason')
    patterns = {key: entry[key] for key in ("server", "message") if key in entry}
    return _Reply(entry.get("reply"), entry.get("model", name), entry.get("deny", ""), **patterns)


# Answers to elicitations from a file, for notebooks that run unattended.

ACTIONS = ("accept", "decline", "cancel")


class Answers:
    """An elicitor that answers from a list, in order, or from an object, by message.

    An answer is `"accept"`, `"decline"`, `"cancel"`, `{"action": ..., "content": {...}}`, or the values themselves. An
    object with a list `"sampling"` also has replies to sampling requests; its answers can then be in `"elicitation"`.

    Args:
        answers: The JSON value.
        name: The name in messages.

    Attributes:
        replies: Replies to sampling requests; None if the file has none.
        problem: The first problem; "" if there was none.
    """

    def __init__(self, answers: Any, name: str) -> None:
        self.replies: Replies | None = None
        if isinstance(answers, dict) and isinstance(answers.get("sampling"), list):
            answers = dict(answers)
            self.replies = Replies(answers.pop("sampling"), name)
            answers = _elicitation(answers, name)
        if not isinstance(answers, list | dict):
            problem = f"{name} must hold a list of answers, or an object with an answer for each message"
            raise ArgumentsError(problem)
        self._answers = answers if isinstance(answers, dict) else iter(answers)
        self._name = name
        self.problem = ""
        for answer in answers.values() if isinstance(answers, dict) else answers:
            _read_answer(answer, name)

    @classmethod
    def load(cls, path: Path) -> Answers:
        """Read a file.

        Raises:
            ArgumentsError: The file cannot be read, or holds no answers.
        """
        try:
            answers = json.loads(read_bytes(path, LARGEST_DATA))
        except OSError as error:
            problem = f"cannot read {path}: {error.strerror or error}"
        except (ValueError, RecursionError) as error:
            problem = f"{path} holds no JSON: {error}"
        else:
            return cls(answers, path.name)
        raise ArgumentsError(problem)

    async def __call__(self, asked: Elicitation) -> Answer:
        """Return the answer; "decline" if there is none, or it does not fit."""
        found = self._next(asked)
        message = one_line(asked.message, 100)
        if found is None:
            return self._refused(f"{self._name} has no answer to {message!r}")
        answer = _read_answer(found, self._name)
        if answer.action == "accept" and asked.mode == "form":
            try:
                schema.check_arguments(answer.content or {}, asked.schema)
            except ArgumentsError as error:
                return self._refused(f"the answer to {message!r} in {self._name} does not fit: {error}")
        return answer

    def raise_for_problem(self) -> None:
        """Raise the first problem, if there was one.

        Raises:
            ArgumentsError: An answer or a reply was missing or did not fit; the server got a refusal.
        """
        problem = self.problem or (self.replies.problem if self.replies is not None else "")
        if problem:
            raise ArgumentsError(problem)

    def _next(self, asked: Elicitation) -> Any:
        if isinstance(self._answers, dict):
            return self._answers.get(asked.message)
        return next(self._answers, None)

    def _refused(self, problem: str) -> Answer:
        self.problem = self.problem or problem
        return Answer.decline(problem)


def _elicitation(answers: dict[str, Any], name: str) -> Any:
    """Return the answers beside "sampling": the section "elicitation", or answers by message."""
    section = answers.get("elicitation")
    if not isinstance(section, list | dict):
        return answers
    if len(answers) > 1:
        beside = next(key for key in answers if key != "elicitation")
        raise ArgumentsError(f'{name}: {beside[:60]!r} stands beside "sampling" and "elicitation"; move it into one')
    return section


def _read_answer(answer: Any, name: str) -> Answer:
    if answer in ACTIONS:
        return Answer(answer)
    if isinstance(answer, Mapping):
        if answer.get("action") not in ACTIONS or not answer.keys() <= {"action", "content"}:
            return Answer.accept(answer)
        content = answer.get("content")
        if content is None or isinstance(content, Mapping):
            return Answer(answer["action"], content)
    problem = f'{name}: an answer is "accept", "decline", "cancel" or an object, not {schema.shown(answer)}'
    raise ArgumentsError(problem)


# Asks the user about servers of a file that loosen something, shadow other servers, or replace open sessions.


async def ask_for_trust(
    invocation: Invocation, declaration: Declaration, loose: list[str], taken: Sequence[str] = (), *, dry: bool = False
) -> list[str]:
    """Ask the user to trust a file; return notes to show.

    Args:
        invocation: The line.
        declaration: The content of the file.
        loose: Descriptions of what it loosens; a yes to these is stored.
        taken: Descriptions of the open sessions that it replaces; a yes to these is not stored.
        dry: Whether to ask nothing and only note that a yes is needed.

    Raises:
        DeniedError: The answer is no, or the user cannot be asked; nothing was done.
    """
    if loose and is_trusted(declaration):
        loose = []
    if not loose and not taken:
        return []
    if dry:
        return [f"takes your yes: {'; '.join([*loose, *taken])}"]
    await _ask(invocation, declaration, loose, taken)
    try:
        if loose:
            trust(declaration)
    except OSError as error:
        return [f"your yes cannot be kept: {error.strerror}"]
    return []


async def _ask(invocation: Invocation, declaration: Declaration, loose: Sequence[str], taken: Sequence[str]) -> None:
    source, wants = clean(declaration.source), [*loose, *taken]
    starts = [f"- {slug(entry.name)}: {runs(entry)}" for entry in declaration.started]
    question = [f"Do you trust {source}?", "It wants to", *(f"- {line}" for line in wants)]
    question += ["and to start or connect", *starts] if starts else []
    refused = f"{source} was not applied, nothing was started. It wants to {'; '.join(wants)}."
    try:
        answer = await Asking(invocation.cells, invocation.settings, invocation.host.consent).confirm(
            "\n".join(question)
        )
    except TimeoutError:
        raise DeniedError(f"{refused} Nobody answered within {invocation.host.consent.timeout:g} s.") from None
    if answer is None and taken:
        raise DeniedError(f"{refused}\nNobody can be asked here. `%mcp disconnect NAME` makes room for it first.")
    if answer is None:
        raise DeniedError(
            f"{refused}\nNobody can be asked here. This line in a terminal says yes to the file as it is now: "
            f"`{trust_line(declaration)}`"
        )
    if not answer:
        raise DeniedError(f"{refused} You said no.")


async def ask_for_servers(invocation: Invocation, entries: Iterable[ServerEntry], *, replacing: bool = False) -> None:
    """Ask the user about configured servers before they start, unless the files are the user's own.

    Args:
        invocation: The line.
        entries: The servers.
        replacing: Whether the user named the file, so that open sessions of these names are replaced.

    Raises:
        DeniedError: The answer is no, or the user cannot be asked; nothing was started.
    """
    for entry in entries:
        if entry.spec is None or entry.disabled or entry.problem:
            continue
        alone = _alone(entry)
        taken = displaced(invocation, {slug(entry.name): entry.spec}, entry.source) if replacing else []
        loose = _wants(alone, None if replacing else invocation.directory)
        await ask_for_trust(invocation, alone, loose, taken)


def needs_yes(entry: ServerEntry, directory: Path) -> bool:
    """Whether the user has to agree before a configured server starts."""
    alone = _alone(entry)
    return bool(_wants(alone, directory)) and not is_trusted(alone)


def _alone(entry: ServerEntry) -> Declaration:
    return Declaration({entry.name: entry}, source=entry.source, digest=entry.digest)


def _wants(declaration: Declaration, directory: Path | None) -> list[str]:
    """Return the reasons to ask about a declared server; none if the whole file is trusted, or is the user's own.

    Args:
        declaration: The declaration of this server alone.
        directory: Where the user named the server, perhaps meaning one of their own; None if they named the file.
    """
    if is_personal(declaration.source):
        return []
    with suppress(MCPMagicError):
        if is_trusted(load_declaration(Path(declaration.source))):
            return []
    hides = shadowed(declaration, directory) if directory is not None else []
    return [*loosened(declaration, {}), *(f"be taken for another: {line}" for line in hides)]


def shadowed(declaration: Declaration, directory: Path) -> list[str]:
    """Describe the servers of the user's own files whose names a project's file gives to other servers."""
    project = Path(declaration.source).parent
    mine: dict[str, ServerEntry] = {}
    for entry in discover_servers(directory):
        if entry.name and is_personal(entry.source):
            mine.setdefault(slug(entry.name), entry)
    return [
        f"{slug(entry.name)} is the one of {project}, not your own in {mine[slug(entry.name)].source}"
        for entry in declaration.started
        if slug(entry.name) in mine and mine[slug(entry.name)].spec != entry.spec
    ]


def displaced(invocation: Invocation, declared: dict[str, Spec], source: str) -> list[str]:
    """Describe the open sessions that other servers would replace, except sessions that the same file opened."""
    identity = invocation.host.consent.definitions.identity
    return [
        f"replace your open session {session.name} ({session.spec.where}); your rules for that one do not hold for it"
        for session in invocation.host.find()
        if session.name in declared
        and identity(session.name) != declared[session.name].identity
        and invocation.state.opened.get(session.name) != (source, identity(session.name))
    ]
