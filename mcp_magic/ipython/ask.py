"""Asks the user in a notebook or a terminal: in a panel, with `input()`, or not at all; or answers from a file."""

from __future__ import annotations

import asyncio
import getpass
import re
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_magic import schema
from mcp_magic._text import clean, did_you_mean, join_names
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.question import (
    EDIT,
    INTERRUPTED,
    Choice,
    Reply,
    choice_of,
    confirmation_question,
    near_asker,
    numbers_in,
)
from mcp_magic.ask.sampling import Review
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.parsing import LARGEST_DATA, parse_json, read_text, slug
from mcp_magic.config.project import Declaration, alone, is_trusted, load_declaration, loosened, runs, trust, trust_line
from mcp_magic.config.servers import discover_servers, is_personal
from mcp_magic.consent.consent import PERSON
from mcp_magic.consent.rules import is_outside
from mcp_magic.display.arguments import page_text, pages, value_text
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import visible
from mcp_magic.errors import ArgumentsError, DeniedError, MCPMagicError
from mcp_magic.flight.progress import shown_paused
from mcp_magic.ipython.cells import CellRun, status
from mcp_magic.ipython.execution import interrupt, let_end
from mcp_magic.ipython.pages import AWAITED_CLICKS, SUBSHELL_CLICKS, NowhereError, Pages
from mcp_magic.schema.convert import UnfitText, from_text
from mcp_magic.schema.fields import UNSET, label
from mcp_magic.schema.validate import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
    from types import FrameType

    from mcp_magic._host import Host
    from mcp_magic.ask.elicitation import Elicitation
    from mcp_magic.ask.question import Extra, Form, Pairs, Question, Reveal, Row
    from mcp_magic.ask.sampling import Expected, Sampled, SamplingRequest
    from mcp_magic.auth.login import LogIn
    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.consent import Consent, Decision, PlannedRequest, Request
    from mcp_magic.ipython.cells import Cells, Circumstances, LatestCell
    from mcp_magic.ipython.commandline import Invocation
    from mcp_magic.ipython.pages import Place
    from mcp_magic.ipython.settings import Settings
    from mcp_magic.schema.fields import Field
    from mcp_magic.ui.question import Panel, Replace, Show


# Asking with `input()`: in terminals, in consoles, and where a kernel cannot deliver clicks to a running cell.
#
# `input()` stops the event loop, so signals have to end it: SIGINT for Ctrl-C, SIGALRM for the time-out. Without
# SIGALRM (Windows), while other code uses it, and on any thread but the main one, `input()` waits for a line. A line
# after the deadline is a time-out there as well.

SHOW = Choice("show", typed="show the [w]hole")  # the choice if a value is cut
VIEW = Choice("view", typed="[v]iew hidden")  # the choice if a value is hidden
KEEP = "Each text on one line; empty keeps it, a single - leaves it out."
MAX_KEPT = 60  # characters of a value that the brackets of a prompt show; a longer one stands above the prompt
MAX_TITLES = 30  # most choices that are listed with their titles
SETTLE_SECONDS = 0.05  # seconds for an answer that arrived during `input()` to be handled


class _TimeIsUp(BaseException):
    """Ends `input()`. A BaseException, because ipykernel continues to wait after an `Exception`."""


class InputAsker:
    """An asker that asks line by line, within `seconds` for a question with all its lines.

    `reveal` shows text that must not stay, and returns a function that removes it; None where text is not kept.
    """

    def __init__(
        self,
        read: Callable[[str], str] | None = None,
        write: Callable[[str], None] | None = None,
        seconds: float | None = None,
        reveal: Callable[[str], Callable[[], None]] | None = None,
        read_secret: Callable[[str], str] | None = None,
    ) -> None:
        # looked up late: ipykernel replaces Python's input() while a cell runs
        self._read = read if read is not None else lambda prompt: input(clean(prompt))
        self._write = write if write is not None else lambda text: print(clean(text), flush=True)
        self._read_secret = read_secret if read_secret is not None else lambda prompt: getpass.getpass(prompt)
        self._seconds = seconds
        self._reveal = reveal
        self._until: float | None = None

    async def ask(self, question: Question) -> Reply:
        """Ask. The end of input is a reply without a choice; so is Ctrl-C, which also ends the running magic.

        Raises TimeoutError if the time is up.
        """
        await let_end()
        self._until = None if self._seconds is None else time.monotonic() + self._seconds
        try:
            return self._choose(question) if question.elsewhere is None else await self._until_settled(question)
        except EOFError:
            return Reply(reason="the input ended")
        except KeyboardInterrupt:
            pass
        await interrupt()
        return Reply(reason=INTERRUPTED)

    def _choose(self, question: Question) -> Reply:
        """Show the question until a choice is typed that can be taken."""
        form, values, opened, last_text = question.form, question.values, set[str](), ""
        if form is not None and form.rows:  # the typed numbers say which rows are ticked
            values = [row.form and row.form.values for row in form.rows]
        if form is not None and form.at_once:
            self._write(question.full_part(values).plain)
            values = self._edited(form, values, "")
            return Reply(question.choices[0].name, values)
        is_filled = form is None or not form.must_open
        while True:
            text = question.full_part(values).plain
            if text != last_text:
                self._write(text)
                last_text = text
            choice, rest = self._typed(question, values, is_filled)
            to_send = _ticked(form.rows, values, rest) if form is not None and form.rows and choice.sends else values
            if to_show := self._to_show(question.reveal, choice, to_send, opened):
                self._show_all(to_show, opened)
                last_text = ""
            elif choice.name == EDIT and form is not None:
                values, is_filled = self._edited(form, values, rest), True
            elif not choice.sends or self._can_send(form, to_send):
                extra = {"reason": rest, **choice.extra}
                if choice.asks and not extra.get(choice.asks):
                    extra[choice.asks] = self._extra(question, choice.asks)
                return Reply(choice.name, to_send, extra)

    def _typed(self, question: Question, values: Any, is_filled: bool) -> tuple[Choice, str]:
        """Ask until a choice is typed; return it and the rest of the line."""
        choices = [choice for choice in question.choices if choice.typed and (is_filled or not choice.sends)]
        if question.reveal is not None:
            choices += [SHOW] if question.reveal.cut(values) else []
            choices += [VIEW] if question.reveal.hidden(values) else []
        again = question.form is not None and question.form.must_open and is_filled
        offered = [f"{choice.typed} again" if again and choice.name == EDIT else choice.typed for choice in choices]
        prompt = f"{question.prompt}{', '.join(offered)}: "
        while True:
            word, _, rest = self._line(prompt).strip().partition(" ")
            choice = choice_of(choices, word)
            if choice is not None:
                return choice, rest.strip()
            if question.form is not None and question.form.rows and numbers_in(f"{word} {rest}"):
                return question.choices[0], f"{word} {rest}"
            letters = re.findall(r"\[(\w)\]", " ".join(offered))
            self._write(question.help or f"type one of {join_names(letters)}")

    def _to_show(self, reveal: Reveal | None, choice: Choice, values: Any, opened: set[str]) -> Pairs:
        """Return the values to show whole now: because of the choice, or because it sends values not seen yet."""
        if reveal is None:
            return []
        if choice in (SHOW, VIEW):
            return reveal.cut(values) if choice is SHOW else reveal.hidden(values)
        unseen = reveal.unseen(values, opened) if choice.sends else []
        if unseen:
            self._write("You have not seen all of it yet. It is shown in full now; then answer again.")
        return unseen

    def _can_send(self, form: Form | None, values: Any) -> bool:
        """Whether the values fit; write why they do not."""
        try:
            if form is not None:
                form.check(values)
        except ArgumentsError as error:
            self._write(str(error))
            return False
        return True

    def _extra(self, question: Question, name: str) -> str:
        """Ask for the text of an extra field, or for one of its options, until its first letter is typed."""
        field: Extra = next(extra for extra in question.extra if extra.name == name)
        if field.is_text:
            return self._line(field.typed).strip()
        letters = {value[0]: value for _, value in field.options if value}
        while True:
            letter = self._line(field.typed).strip().lower()[:1]
            if letter in letters:
                return letters[letter]
            self._write(f"type one of {join_names(letters)}")

    def _show_all(self, values: list[tuple[str, Any]], opened: set[str]) -> None:
        """Show whole values, page by page; where output is kept, remove each page after a line is typed."""
        chunks = pages(values)
        for number, chunk in enumerate(chunks, 1):
            is_last = number == len(chunks)
            next_page = f"Enter shows part {number + 1} of {len(chunks)}, q goes back: "
            if self._reveal is None:
                self._write(page_text(chunk))
                line = "" if is_last else self._line(next_page)
            else:
                take_away = self._reveal(page_text(chunk))
                try:
                    line = self._line("Enter hides it again: " if is_last else next_page)
                finally:
                    take_away()
            if line.strip().lower() == "q" and not is_last:
                return
        opened.update(name for name, _ in values)

    def _edited(self, form: Form, values: Any, rest: str) -> Any:
        """Return the typed values, or the previous ones if those are invalid; `rest` is the number of a row."""
        if form.rows:
            rows = {row.number: (at, row.form) for at, row in enumerate(form.rows) if row.form is not None}
            number = next(iter(numbers_in(rest)), 0)
            if number not in rows:
                self._write(f"type e and one of {join_names(map(str, rows))}")
                return values
            at, row_form = rows[number]
            return [*values[:at], self._edited(row_form, values[at], ""), *values[at + 1 :]]
        if form.must_open:
            assert form.schema is not None
            return self._fill(form.schema, values)  # checked as a whole when it is sent
        try:
            if form.write is not None and form.read is not None:
                self._write(f"now: {form.write(values, None)}")
                text = self._line("Arguments as JSON, empty to leave them: ")
                return form.read(text, values) if text.strip() else values
            self._write(KEEP)
            typed = []
            for label, text in zip(form.labels, values, strict=True):
                line = self._line(f"{one_line(label, 80)} [{one_line(text, 60)}]: ")
                typed.append({"": text, "-": ""}.get(line.strip(), line))
            form.check(typed)
        except ArgumentsError as error:
            self._write(str(error))
            return values
        return typed

    def _fill(self, of: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for each value; an empty line keeps the value in brackets, or omits the field."""
        required = of.get("required")
        names = required if isinstance(required, list) else []
        entered: dict[str, Any] = {}
        for field in schema.root_field(of).children:
            value = self._value(field, before.get(field.name, UNSET), required=field.name in names)
            if value is not UNSET:
                entered[field.name] = value
        return entered

    def _value(self, field: Field, before: Any, *, required: bool) -> Any:
        secret = schema.is_secret(field.name, field)
        description = one_line(f"{field.title} — {field.description}".strip(" —"), 200)
        titles = _titles(field)
        for line in [
            description,
            *(f"  {one_line(schema.shown(value), 60)}: {title}" for title, value in titles.items()),
        ]:
            if line:
                self._write(f"  {line}")
        if not secret and before is not UNSET and len(value_text(before)) > MAX_KEPT:  # an empty line sends it
            self._write(f"  now: {visible(value_text(before))}")
        while True:
            text = self._line(_prompt(field, before, required=required, secret=secret), secret=secret)
            if not text:
                return before
            try:
                value = _read_value(text, field, titles)
                only_field = {"type": "object", "properties": {field.name: field.schema}}
                schema.check_arguments({field.name: value}, only_field)
            except ArgumentsError as error:
                self._write("***: this does not fit" if secret else str(error))
            else:
                return value

    async def _until_settled(self, question: Question) -> Reply:
        """Take lines until the question is answered elsewhere; lines are not echoed, because a notebook keeps them."""
        assert question.elsewhere is not None
        self._write(question.about(None).plain)
        answer = asyncio.ensure_future(question.elsewhere())
        try:
            while not answer.done():
                if problem := _take(question, self._line(f"{question.prompt}c cancels: ", secret=True)):
                    self._write(problem)
                await asyncio.wait({answer}, timeout=SETTLE_SECONDS)
        finally:
            answer.cancel()
        return Reply("settled")

    def _line(self, prompt: str, *, secret: bool = False) -> str:
        with _ended_by_signals(self._time_left()):
            line = (self._read_secret if secret else self._read)(prompt)
        self._time_left()
        return line

    def _time_left(self) -> float | None:
        """Return the seconds left, or None without a limit. Raises TimeoutError if the time is up."""
        if self._until is None:
            return None
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


def _ticked(rows: Sequence[Row], values: list[Any], typed: str) -> list[Any]:
    """Return the values of the rows with the typed numbers, or of all; None for the others."""
    numbers = numbers_in(typed)
    return [value if not typed or row.number in numbers else None for row, value in zip(rows, values, strict=True)]


def _take(question: Question, line: str) -> str:
    """Take a line as a choice, or else as the text of the first field; return what is wrong with it.

    An empty line changes nothing.
    """
    text = line.strip()
    if not text:
        return ""
    choice, field = choice_of(question.choices, text), question.extra[0]
    return question.take(Reply(choice.name) if choice is not None else Reply(field.beside, extra={field.name: text}))


@contextmanager
def _ended_by_signals(seconds: float | None) -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, where a magic would only cancel its task, and raise TimeoutError in time."""
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


def _prompt(field: Field, before: Any, *, required: bool, secret: bool) -> str:
    facts = [field.type_text, field.constraints_text, "required" if required else ""]
    default = "" if before is UNSET else f" [{'***' if secret else one_line(schema.shown(before), MAX_KEPT)}]"
    return f"{one_line(field.name, 80)} ({one_line(', '.join(fact for fact in facts if fact), 200)}){default}: "


def _titles(field: Field) -> dict[str, Any]:
    """Return the value of each title of a field's choices, or of its items' choices; {} if they have no titles."""
    of = field.item if field.item is not None else field
    titled = [(one_line(title, 120), value) for value, title in of.choices if title != label(value)]
    return dict(titled[:MAX_TITLES])


def _read_value(text: str, field: Field, titles: Mapping[str, Any]) -> Any:
    """Turn a line into a value; a list is separated by commas, or is JSON. A choice may be typed by its title."""

    def read(text: str, field: Field) -> Any:
        return titles[text.strip()] if text.strip() in titles else from_text(text, field)

    try:
        if field.item is not None and not text.lstrip().startswith("["):
            return [read(part.strip(), field.item) for part in text.split(",")]
        return read(text, field)
    except UnfitText:
        raise ArgumentsError(unfit(field.name, field, text)) from None


# Asking in a terminal about something that may be answered elsewhere: its event loop runs while it waits for a line.


class TerminalAsker:
    """An asker that prints a question and reads lines until it is answered, here or elsewhere."""

    async def ask(self, question: Question) -> Reply:
        """Ask. A line is a choice, or the text of the first field."""
        assert question.elsewhere is not None
        print(f"{question.about(None).plain}\n{question.help}", flush=True)
        answer = asyncio.ensure_future(question.elsewhere())
        with _lines() as lines:
            try:
                while not answer.done():
                    line = asyncio.ensure_future(lines.get())
                    try:
                        await asyncio.wait({answer, line}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        line.cancel()
                    if line.done() and (problem := _take(question, line.result())):
                        print(problem, flush=True)
            finally:
                answer.cancel()
        return Reply("settled")


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


# Where the user is asked in a notebook.
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

SUBSHELL_SECONDS = 2.0  # that a frontend has to make a subshell once it shows a widget; JupyterLab takes 0.1 s
POLL_SECONDS = 0.02
EARLIER = 0.05  # seconds by which a question ends before the hook's deadline, to tell a time-out from Interrupt


def how_to_ask(where: Circumstances, ask_with: str = "auto") -> Way:
    """Return how the user can be asked."""
    if ask_with == "panel" and where.kernel is not None:
        return "panel"
    if not where.allow_stdin:
        return "nobody"
    if where.kernel is None:
        return "input"
    awaited = where.kernel >= AWAITED_CLICKS or (where.kernel >= SUBSHELL_CLICKS and where.subshells)
    gets_clicks = not where.running or (awaited and not where.nested)  # a kernel whose cell has ended is idle
    if ask_with != "input" and where.widgets and gets_clicks:
        return "panel"
    # input() from a cell that has ended is shown nowhere and would stop the kernel for ever
    return "input" if where.running else "nobody"


class NotebookApprover:
    """The host's approver: asks about a call, or about all calls of a plan at once."""

    def __init__(self, asking: Asking, consent: Consent) -> None:
        self._asking = asking
        self._consent = consent

    async def __call__(self, request: Request) -> Decision:
        """Ask whether a call may run."""
        from mcp_magic.ask.approval import approval_question, decision_of

        ask = self._asking.ask_outside if is_outside(request.asker) else self._asking.ask
        return decision_of(request, await ask(approval_question(request), self._consent.timeout))

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        """Ask which calls of a plan may run."""
        from mcp_magic.ask.approval import plan_decisions, plan_question

        return plan_decisions(calls, await self._asking.ask(plan_question(calls), self._consent.timeout))


class Asking:
    """Asks the user where the cell that asks can be answered; the hooks of the host that ask are its methods."""

    def __init__(self, cells: Cells, settings: Settings, host: Host) -> None:
        self._cells = cells
        self._settings = settings
        self._host = host
        self._hooks: list[tuple[object, str, object]] = []
        self._pages = Pages(cells, settings)
        self._panels: dict[str, Panel] = {}  # by the run of the cell that they stand below; "" below none
        self._panel_cells: dict[str, str] = {}  # the cell of each that asks about calls from outside; "" for none
        self._without_subshells: set[str] = set()
        self._wants_replies: dict[str, bool] = {}

    def install(self, model: Callable[[], Any]) -> None:
        """Become the hooks of the host, except those that the user has set."""
        host = self._host
        self._hooks = [
            (host.consent, "approver", NotebookApprover(self, host.consent)),
            (host.elicitation, "elicitor", self.elicit),
            (host.sampling, "sampler", ModelSampler(model)),
            (host.sampling, "reviewer", self),
            (host.secrets, "asker", self.ask),
        ]
        for owner, name, hook in self._hooks:
            if getattr(owner, name) is None:
                setattr(owner, name, hook)
        if host.logins.authorizer is None:
            host.logins.ask_with(self.authorize, self.can_ask, self.confirm)
        # where the user cannot be asked, a replay repeats the recorded answer
        deck.asks = lambda: how_to_ask(self._cells.circumstances(), self._settings.ask_with) != "nobody"
        deck.tell = self._tell
        self._cells.started.append(self._show_panels_again)
        self._cells.ended.append(self._update_panels)

    def _tell(self, text: str) -> None:
        """Print a line in the cell that runs, or ran last."""
        latest = self._cells.latest
        context = latest.copy() if latest is not None else copy_context()
        context.run(print, clean(text), flush=True)

    def uninstall(self) -> None:
        """Undo `install`."""
        self._cells.started.remove(self._show_panels_again)
        self._cells.ended.remove(self._update_panels)
        for owner, name, hook in self._hooks:
            if getattr(owner, name) is hook:
                setattr(owner, name, None)
        if self._host.logins.authorizer == self.authorize:
            self._host.logins.ask_with(None)
        deck.asks, deck.tell = lambda: False, lambda text: None
        self._pages.close()

    async def ask(self, question: Question, seconds: float) -> Reply:
        """Ask as the frontend allows now; a reply by "default" says that the user cannot be asked.

        Raises TimeoutError if the time is up.
        """
        until = asyncio.get_running_loop().time() + seconds - EARLIER
        near = near_asker.get()
        if near is not None and near.can_ask(question):
            async with asyncio.timeout_at(until):
                return await near.ask(question)
        way = await self.way()
        if way == "nobody":
            return Reply(reason=question.refused, by="default")
        with shown_paused():
            return await self._ask(question, until, way)

    async def ask_outside(self, question: Question, seconds: float) -> Reply:
        """Ask about a call that no cell makes: below the latest cell of a page that is open, and in the explorer.

        Only in a panel: a line of `input()` would stop the cell that runs, and Ctrl-C would end it. A reply by
        "default" says why the user cannot be asked, to the client. Interrupt ends cells, and not this question.

        Raises TimeoutError if the time is up.
        """
        until = asyncio.get_running_loop().time() + seconds - EARLIER
        try:
            async with asyncio.timeout_at(until):
                place = await self._pages.place()
            context = place.cell.context.copy() if place.cell is not None else copy_context()
            asking = asyncio.create_task(self._in_place(question, until, place), context=context)
            return await self._pages.while_open(place, asking)
        except NowhereError as error:
            return Reply(reason=str(error), by="default")

    async def _in_place(self, question: Question, until: float, place: Place) -> Reply:
        if place.cell is not None:
            run = self._cells.run(place.cell.request)
            panel = self._panel(run, partial(self._show_at, place.cell))
        else:
            run = CellRun()
            panel = self._panel(run, self._show_in_boards)
        self._panel_cells[run.run] = run.cell
        for board in self._pages.boards:
            board.show_questions(panel.widget)
        try:
            return await panel.ask(question, until)
        finally:
            self._update_panels()

    async def _ask(self, question: Question, until: float, way: Way) -> Reply:
        loop = asyncio.get_running_loop()
        if way == "panel":
            return await self._below_a_cell(lambda: self._in_panel(question, until))
        with status.hidden():
            if question.elsewhere is not None and self._cells.kernel is None:
                return await TerminalAsker().ask(question)

            def reveal(text: str) -> Callable[[], None]:
                return partial(show_below({"text/plain": text}), {"text/plain": "hidden again"})

            is_kept = self._cells.kernel is not None  # a notebook saves what it shows
            asker = InputAsker(seconds=until - loop.time(), reveal=reveal if is_kept else None)
            return await asker.ask(question)

    # The hooks

    async def elicit(self, elicitation: Elicitation) -> Answer:
        """Ask for the values that a server wants: the host's elicitor."""
        from mcp_magic.ask.elicitation import answer_of, elicitation_question

        return answer_of(elicitation, await self.ask(elicitation_question(elicitation), self._host.elicitation.timeout))

    async def request(self, request: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer: the request of the host's reviewer."""
        from mcp_magic.ask.sampling import request_question, request_review, too_long_to_read, whole_request

        if why := too_long_to_read(whole_request(request)):
            return Review.deny(why, by="check")
        question = request_question(request, expected, show_reply=self._wants_replies.get(request.server, False))
        review = request_review(request, await self.ask(question, self._host.sampling.timeout))
        if review.approved:
            self._wants_replies[request.server] = review.show_reply
        return review

    async def reply(self, request: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a model's reply may be sent: the reply of the host's reviewer."""
        from mcp_magic.ask.sampling import reply_question, reply_review, too_long_to_read, whole_reply

        if why := too_long_to_read(whole_reply(reply)):
            return Review.deny(why, by="check")
        return reply_review(request, reply, await self.ask(reply_question(request, reply), self._host.sampling.timeout))

    async def authorize(self, login: LogIn) -> None:
        """Show a log-in until the user answers it: the host's authorizer."""
        from mcp_magic.auth.login import login_question

        reply = await self.ask(login_question(login), login.seconds)
        if reply.reason and reply.by == PERSON:
            login.cancel()

    async def confirm(self, text: str) -> bool | None:
        """Ask for a yes to a text; return None if the user cannot be asked. Raises TimeoutError if the time is up."""
        reply = await self.ask(confirmation_question(text), self._host.consent.timeout)
        return reply.choice == "yes" if reply.by == PERSON else None

    async def can_ask(self) -> bool:
        """Whether the user can be asked now."""
        return await self.way() != "nobody"

    # Where the user is asked

    async def way(self) -> Way:
        """Return how the user can be asked now."""
        return how_to_ask(await self._circumstances(), self._settings.ask_with)

    async def _below_a_cell(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
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
        matters = how_to_ask(trying) != how_to_ask(where)
        return trying if matters and await self._finds_a_subshell() else where

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
        try:
            while not (has_subshell := bool(manager.list_subshell())) and time.monotonic() < until:
                await asyncio.sleep(POLL_SECONDS)
        finally:
            probe.close()
        if not has_subshell:
            self._without_subshells.add(session)
        return has_subshell

    async def _in_panel(self, question: Question, until: float) -> Reply:
        """Ask in the panel of the cell, which is closed when the cell has ended and nothing waits any more."""
        try:
            return await self._panel(self._cells.run(), show_below).ask(question, until)
        finally:
            self._update_panels()

    def _panel(self, run: CellRun, show: Show) -> Panel:
        """Return the panel of a run of a cell, which `show` shows there."""
        from mcp_magic.ui.question import Panel

        if run.run not in self._panels:
            self._panels[run.run] = Panel(show)
        return self._panels[run.run]

    def _show_in_boards(self, bundle: dict[str, Any]) -> Replace:
        """Show nothing more, as the boards show the panel itself; and there the lines that replace it."""

        def replacement(lines: dict[str, Any]) -> None:
            for board in self._pages.boards:
                board.say(str(lines.get("text/plain", "")))

        return replacement

    def _show_at(self, cell: LatestCell, bundle: dict[str, Any]) -> Replace:
        with self._cells.below(cell):
            return show_below(bundle)

    def _show_panels_again(self) -> None:
        """Show what agents outside wait for again, if its cell begins anew or is deleted.

        What a cell asks goes with the cell.
        """
        run = self._cells.run()
        for message, panel in self._panels.items():
            if (
                panel.waiting
                and message != run.run
                and self._panel_cells.get(message) in {run.cell, *run.deleted} - {""}
            ):
                panel.show_again(partial(self._show_at, next(reversed(self._cells.pages.values()))))
                self._panel_cells[message] = run.cell

    def _update_panels(self) -> None:
        """Show what agents outside wait for in all boards; close the panels of ended cells that wait for nothing.

        A cell that has ended may have opened a board.
        """
        for cell, panel in list(self._panels.items()):
            for board in self._pages.boards:
                if not panel.waiting:
                    board.hide_questions(panel.widget)
                elif cell in self._panel_cells:
                    board.show_questions(panel.widget)
            if not panel.waiting and not self._cells.is_running(cell):
                del self._panels[cell]
                self._panel_cells.pop(cell, None)
                panel.close()


def show_below(bundle: dict[str, Any]) -> Replace:
    """Show a mimebundle below the cell; return a function that replaces it."""
    from IPython.display import display, update_display

    name = uuid.uuid4().hex
    display(bundle, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    def replacement(bundle: dict[str, Any]) -> None:
        update_display(bundle, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    return replacement


# Answers from a file, for notebooks that run unattended.

ACTIONS = ("accept", "decline", "cancel")
KEYS = ("reply", "deny", "server", "message", "model")


@dataclass
class SamplingReply:
    """One reply of the file to a sampling request; only one that names a server or a message can reply repeatedly."""

    text: str | None  # None refuses the request
    model: str
    reason: str = ""  # of a refusal
    server: str = "*"
    message: str = "*"  # a pattern for the text of the last message
    used: bool = False

    def fits(self, request: SamplingRequest) -> bool:
        """Whether it can reply to a request."""
        if self.used and (self.server, self.message) == ("*", "*"):
            return False
        return fnmatchcase(request.server, self.server) and fnmatchcase(_last_text(request), self.message)


class Answers:
    """Answers elicitations and sampling requests during a call, without asking the user.

    Elicitations are answered from a list, in order, or from an object, by message. An answer is `"accept"`,
    `"decline"`, `"cancel"`, `{"action": ..., "content": {...}}`, or the values themselves. An object with a list
    `"sampling"` also has replies to sampling requests: texts, or objects with `reply` or `deny`, `server`, `message`,
    `model`. Its answers can then be in `"elicitation"`. `name` is the name in messages, and of the default model.
    """

    def __init__(self, answers: Any, name: str) -> None:
        self._name = name
        self._problem = ""
        self._replies: list[SamplingReply] | None = None
        if isinstance(answers, dict) and isinstance(answers.get("sampling"), list):
            answers = dict(answers)
            self._replies = [_read_reply(entry, name) for entry in answers.pop("sampling")]
            answers = _elicitation(answers, name)
        if not isinstance(answers, list | dict):
            raise ArgumentsError(f"{name} must hold a list of answers, or an object with an answer for each message")
        for answer in answers.values() if isinstance(answers, dict) else answers:
            _read_answer(answer, name)
        self._answers = answers if isinstance(answers, dict) else iter(answers)

    @classmethod
    def load(cls, path: Path) -> Answers:
        """Read a file. Raises ConfigError if it holds no JSON, and ArgumentsError if it holds no answers."""
        return cls(parse_json(read_text(path, LARGEST_DATA), source=str(path)), path.name)

    async def elicit(self, elicitation: Elicitation) -> Answer:
        """Return the answer; "decline" if there is none, or it does not fit."""
        entry = self._answers.get(elicitation.message) if isinstance(self._answers, dict) else next(self._answers, None)
        message = one_line(elicitation.message, 100)
        if entry is None:
            return Answer.decline(self._note(f"{self._name} has no answer to {message!r}"))
        answer = _read_answer(entry, self._name)
        if answer.action == "accept" and elicitation.mode == "form":
            try:
                schema.check_arguments(answer.content or {}, elicitation.schema)
            except ArgumentsError as error:
                problem = f"the answer to {message!r} in {self._name} does not fit: {error}"
                return Answer.decline(self._note(problem))
        return answer

    async def sample(self, request: SamplingRequest) -> Review | None:
        """Return the first reply that fits, or a refusal; None if the file has no replies."""
        if self._replies is None:
            return None
        entry = next((reply for reply in self._replies if reply.fits(request)), None)
        if entry is None:
            problem = f"{self._name} has no reply to {one_line(_last_text(request), 100)!r} of {request.server}"
            return Review.deny(self._note(problem), by=self._name)
        entry.used = True
        if entry.text is None:
            return Review.deny(entry.reason, by=self._name)
        return Review(True, reply=_sampled(request, entry.text, entry.model), by=self._name)

    def raise_for_problem(self) -> None:
        """Raise the first problem, if there was one."""
        if self._problem:
            raise ArgumentsError(self._problem)

    def _note(self, problem: str) -> str:
        """Keep the first problem; return this one."""
        self._problem = self._problem or problem
        return problem


def _sampled(request: SamplingRequest, text: str, model: str) -> Sampled:
    """Return a text as the reply, within the limits of the request."""
    from langchain_core.messages import AIMessage

    from mcp_magic.agent.offline import limited
    from mcp_magic.agent.sampling import to_sampled
    from mcp_magic.lint import CHARACTERS_A_TOKEN

    message = limited(AIMessage(text), request.max_tokens * CHARACTERS_A_TOKEN)
    required = request.tool_choice == "required" and bool(request.usable_tools)
    notes = ["no tool is called, which the server required"] if required else []
    return to_sampled(message, model=model, stop_sequences=request.stop_sequences, notes=notes)


def _last_text(request: SamplingRequest) -> str:
    return "\n\n".join(block.text for block in request.messages[-1].content_as_list if block.type == "text")


def _read_reply(entry: Any, name: str) -> SamplingReply:
    if isinstance(entry, str):
        return SamplingReply(entry, name)
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
    return SamplingReply(entry.get("reply"), entry.get("model", name), entry.get("deny", ""), **patterns)


def _elicitation(answers: dict[str, Any], name: str) -> Any:
    """Return the answers beside "sampling": the section "elicitation", or answers by message."""
    section = answers.get("elicitation")
    if not isinstance(section, list | dict):
        return answers
    if len(answers) > 1:
        beside = next(key for key in answers if key != "elicitation")
        raise ArgumentsError(
            f'{name}: {beside[:60]!r} is beside "sampling" and "elicitation"; move it into one of them'
        )
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
    invocation: Invocation,
    declaration: Declaration,
    loose: list[str],
    conflicts: Sequence[str] = (),
    *,
    dry: bool = False,
) -> list[str]:
    """Ask for a yes to what a file loosens (stored) and to the sessions that it replaces (not stored); return notes."""
    if loose and is_trusted(declaration):
        loose = []
    if not loose and not conflicts:
        return []
    if dry:
        return [f"needs your approval: {'; '.join([*loose, *conflicts])}"]
    await _ask(invocation, declaration, loose, conflicts)
    try:
        if loose:
            trust(declaration)
    except OSError as error:
        return [f"your approval cannot be saved: {error.strerror}"]
    return []


async def _ask(
    invocation: Invocation, declaration: Declaration, loose: Sequence[str], conflicts: Sequence[str]
) -> None:
    source, wants = clean(declaration.source), [*loose, *conflicts]
    starts = [f"- {slug(entry.name)}: {runs(entry)}" for entry in declaration.started]
    question = [f"Do you trust {source}?", "It wants to", *(f"- {line}" for line in wants)]
    question += ["and to start or connect", *starts] if starts else []
    refused = f"{source} was not applied, nothing was started. It wants to {'; '.join(wants)}."
    try:
        asking = Asking(invocation.cells, invocation.settings, invocation.host)
        answer = await asking.confirm("\n".join(question))
    except TimeoutError:
        raise DeniedError(f"{refused} You did not answer within {invocation.host.consent.timeout:g} s.") from None
    if answer is None and conflicts:
        raise DeniedError(f"{refused}\nYou cannot be asked here. `%mcp disconnect NAME` makes room for it first.")
    if answer is None:
        raise DeniedError(
            f"{refused}\nYou cannot be asked here. This line, typed in a terminal, approves the file as it is now: "
            f"`{trust_line(declaration)}`"
        )
    if not answer:
        raise DeniedError(f"{refused} You said no.")


async def ask_for_servers(invocation: Invocation, entries: Iterable[ServerEntry], *, replacing: bool = False) -> None:
    """Ask the user about configured servers before they start, unless the files are the user's own.

    With `replacing` the user named the file: open sessions of these names are replaced.
    """
    for entry in entries:
        if entry.spec is None or entry.disabled or entry.problem:
            continue
        declaration = alone(entry)
        conflicts = displaced(invocation, {slug(entry.name): entry.spec}, entry.source) if replacing else []
        loose = _wants(declaration, None if replacing else invocation.directory)
        await ask_for_trust(invocation, declaration, loose, conflicts)


def needs_yes(entry: ServerEntry, directory: Path) -> bool:
    """Whether the user has to agree before a configured server starts."""
    declaration = alone(entry)
    return bool(_wants(declaration, directory)) and not is_trusted(declaration)


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
    return [*loosened(declaration, {}), *(f"use the name of another server: {line}" for line in hides)]


def shadowed(declaration: Declaration, directory: Path) -> list[str]:
    """Describe the servers of the user's own files whose names a project's file gives to other servers."""
    project = Path(declaration.source).parent
    mine: dict[str, ServerEntry] = {}
    for entry in discover_servers(directory):
        if entry.name and is_personal(entry.source):
            mine.setdefault(slug(entry.name), entry)
    return [
        f"{slug(entry.name)} would be the server of {project}, not your own in {mine[slug(entry.name)].source}"
        for entry in declaration.started
        if slug(entry.name) in mine and mine[slug(entry.name)].spec != entry.spec
    ]


def displaced(invocation: Invocation, declared: dict[str, Spec], source: str) -> list[str]:
    """Describe the open sessions that other servers would replace, except sessions that the same file opened."""
    identity = invocation.host.consent.definitions.identity
    return [
        f"replace your open session {session.name} ({session.spec.where}); your rules for it do not apply then"
        for session in invocation.host.find()
        if session.name in declared
        and identity(session.name) != declared[session.name].identity
        and invocation.state.opened.get(session.name) != (source, identity(session.name))
    ]
