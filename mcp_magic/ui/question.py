"""The panel that asks the user, with widgets below the cell: cards with buttons, forms and a countdown."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets

from mcp_magic._text import join_names, plural
from mcp_magic.ask.question import EDIT, INTERRUPTED, NOT_ANSWERED, Reply, outcome_bundle
from mcp_magic.display.arguments import changes, page_html, pages, value_text
from mcp_magic.display.document import page, tag
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import in_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.flight.deadline import is_out_of_time
from mcp_magic.ui import form as forms
from mcp_magic.ui.widgets import (
    FOCUS_SECONDS,
    FORM_STYLE,
    Echo,
    WidgetScope,
    note_markup,
    on_enter,
    problem_markup,
    widget_view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextvars import Context

    from mcp_magic.ask.question import Cell, Choice, Extra, Form, Outcome, Pairs, Question, Row

    Listener = Callable[[], None]
    Work = Callable[[], None]
    Post = Callable[[Work], object]

__all__ = ["Panel", "Replace", "Show"]


# Editing the values of a question: in the fields of a schema, as JSON, or text by text.


class Editor(NamedTuple):
    """Widgets to change values with."""

    widget: Any  # all of them
    scope: WidgetScope  # made them
    read: Callable[[], Any]  # returns the present values, or raises ArgumentsError if they cannot be sent
    form: forms.Form | None = None  # the fields of a JSON Schema; None for text


def editor_for(form: Form, scope: WidgetScope, on_change: Listener) -> Editor:
    """Return an editor for the values of a form; `on_change` runs on the thread that handles the frontend's message."""
    if form.rows:
        lines = [
            TableRow(row, value is not None, scope, on_change)
            for row, value in zip(form.rows, form.values, strict=True)
        ]
        table = scope.make(ipywidgets.VBox, "table", children=[line.widget for line in lines])
        return Editor(table, scope, lambda: [line.read() for line in lines])
    if form.labels:
        return _texts_editor(form, scope)
    if form.schema is None:
        return _json_editor(form, scope, on_change)
    fields = forms.Form(form.schema, scope=scope)
    if not form.must_open:
        fields.set_arguments(form.values)
        fields.on_change(on_change)
        box = scope.make(ipywidgets.VBox, "row", children=[fields.widget, fields.toggle])
        return Editor(box, scope, lambda: fields.arguments, fields)
    fields.root.set(form.values)

    def read() -> Any:
        if not fields.submit():
            raise ArgumentsError("")  # the form shows the problems beside its fields
        return fields.arguments

    return Editor(fields.widget, scope, read, fields)


def _json_editor(form: Form, scope: WidgetScope, on_change: Listener) -> Editor:
    write, read = form.write, form.read
    assert write is not None
    assert read is not None
    name = "the arguments as JSON; *** stands for a hidden value"
    area = scope.make(ipywidgets.Textarea, "area", value=write(form.values, 2), name=name)
    area.observe(lambda _: on_change(), "value")
    return Editor(area, scope, lambda: read(area.value, form.values))


def _texts_editor(form: Form, scope: WidgetScope) -> Editor:
    areas, children = [], []
    for label, text in zip(form.labels, form.values, strict=True):
        name = one_line(label, 120)
        area = scope.make(ipywidgets.Textarea, "area", value=text, name=name)
        markup = tag("div", tag("b", name), class_="mcp-form")
        children += [scope.make(ipywidgets.HTML, "label", value=markup), area]
        areas.append(area)
    return Editor(scope.make(ipywidgets.VBox, "form", children=children), scope, lambda: [area.value for area in areas])


class TableRow:
    """A row of a table: a box to tick, what it is about, its values in cells, and a form for all of them.

    A value that a cell does not show exactly is text, and is changed in the form.
    """

    def __init__(self, row: Row, ticked: bool, scope: WidgetScope, on_change: Listener) -> None:
        make = scope.make
        self._row = row
        self._scope = scope
        self._on_change = on_change
        self._editor: Editor | None = None
        self._cells: list[tuple[Cell, Any]] = []
        self._place = make(ipywidgets.VBox, "cells")
        about = make(ipywidgets.HTML, "label", value=FORM_STYLE + page([row.head.html]))
        head = make(ipywidgets.VBox, "head", children=[about])
        name = f"call {row.number}"
        if row.form is None:
            number = make(ipywidgets.HTML, "decided", value=note_markup(f"{row.number}."))
            facts = row.facts(None, ())
            self._place.children = [make(ipywidgets.HTML, "label", value=FORM_STYLE + page([facts.html]))]
            self.widget = make(ipywidgets.HBox, "tablerow", children=[number, head, self._place])
            return
        self._tick = make(
            ipywidgets.Checkbox,
            "number",
            value=ticked,
            description=f"{row.number}.",
            indent=False,
            tooltip=f"approve {name}",
        )
        self._tick.observe(lambda _: on_change(), "value")
        self._edit = scope.button("Edit", f"change the arguments of {name}", self._turn, icon="pencil")
        self._show_cells()
        self.widget = make(ipywidgets.HBox, "tablerow", children=[self._tick, head, self._place, self._edit])

    def read(self) -> Any:
        """Return the values, or None if the row is not ticked; raise ArgumentsError if they do not fit."""
        if self._row.form is None or not self._tick.value:
            return None
        try:
            return self._values()
        except ArgumentsError as error:
            raise ArgumentsError(f"{self._row.number}. {error}") from None

    def _values(self) -> Any:
        assert self._row.form is not None
        if self._editor is not None:
            return self._editor.read()
        edits = {cell.name: cell.read(box.value) for cell, box in self._cells if box.value != cell.text}
        return {**self._row.form.values, **edits} if edits else self._row.form.values

    def _show_cells(self) -> None:
        form, make = self._row.form, self._scope.make
        assert form is not None
        if not self._cells:
            for cell in self._row.cells(form.values):
                box = make(
                    ipywidgets.Text,
                    "cell",
                    value=cell.text,
                    name=f"{self._row.number}. {cell.name}",
                    continuous_update=True,
                )
                box.add_class("mcp-cell")
                box.observe(lambda _: self._on_change(), "value")
                self._cells.append((cell, box))
        groups = [
            make(ipywidgets.HBox, "pair", children=[make(ipywidgets.HTML, "name", value=note_markup(cell.name)), box])
            for cell, box in self._cells
        ]
        rest = self._row.facts(form.values, [cell.name for cell, _ in self._cells]).html
        if rest:
            groups.append(make(ipywidgets.HTML, "label", value=FORM_STYLE + page([rest])))
        self._place.children = groups

    def _turn(self) -> None:
        """Open the form with the present values; if it is open, discard what was changed."""
        form = self._row.form
        assert form is not None
        if self._editor is None:
            try:
                values = self._values()
            except ArgumentsError:
                values = form.values
            self._editor = editor_for(replace(form, values=values), self._scope.part(), self._on_change)
            self._place.children = (self._editor.widget,)
            self._edit.description, self._edit.tooltip = "Discard changes", "use the original arguments"
        else:
            self._editor.scope.close()
            self._editor = None
            for cell, box in self._cells:
                box.value = cell.text
            self._show_cells()
            self._edit.description, self._edit.tooltip = "Edit", f"change the arguments of call {self._row.number}"
        self._on_change()


# Revealing values that the question masks or cuts.
#
# Revealed text is in no output and goes with the panel: a notebook contains it only if it is saved at that moment
# together with its widget state.


class Revealing:
    """A button that shows values page by page, and then hides them.

    `values` returns the present values with their names, `show` the label and tooltip of the button while nothing is
    shown. `on_seen` receives the names of all values when the last page is shown.
    """

    def __init__(
        self,
        scope: WidgetScope,
        values: Callable[[], Pairs],
        post: Post,
        show: Callable[[], tuple[str, str]],
        on_seen: Callable[[list[str]], None],
    ) -> None:
        self._values = values
        self._show = show
        self._on_seen = on_seen
        self._page: int | None = None
        self._button = scope.button("", "", lambda: post(self._turn))
        self._text = scope.make(ipywidgets.HTML, "label")
        self.widget = scope.make(ipywidgets.VBox, "row", children=[self._button, self._text])
        self.refresh()

    def _turn(self) -> None:
        """Show the next page, or nothing after the last one."""
        values = self._values()
        count = len(pages(values))
        self._page = 0 if self._page is None else self._page + 1
        if self._page >= count:
            self._page = None
        self.refresh()
        if self._page == count - 1:
            self._on_seen([name for name, _ in values])

    def refresh(self) -> None:
        """Show the present values, if they are revealed, and the button's label; nothing while there are none."""
        values = self._values()
        self.widget.children = [self._button, self._text] if values else []  # a change may have left nothing out
        chunks = pages(values)
        if self._page is None:
            self._button.icon = "eye"
            self._button.description, self._button.tooltip = self._show()
            self._text.value = ""
            return
        self._page = min(self._page, len(chunks) - 1)
        rest = len(chunks) - 1 - self._page
        self._button.icon = "eye" if rest else "eye-slash"
        self._button.description = f"Show more (part {self._page + 2} of {len(chunks)})" if rest else "Hide"
        self._button.tooltip = "show the next part" if rest else "hide it again"
        self._text.value = FORM_STYLE + page_html(chunks[self._page])


# The card of one question.


class About:
    """What a question is about: its text, and buttons that reveal cut and hidden values; `on_open` is called then."""

    def __init__(self, question: Question, scope: WidgetScope, post: Post, on_open: Listener) -> None:
        self.values = question.values
        self._question = question
        self._opened: set[str] = set()  # the names of values that were revealed
        self._on_open = on_open
        self._text = scope.make(ipywidgets.HTML, "label")
        self._revealing: list[Revealing] = []
        if (reveal := question.reveal) is not None:

            def cut() -> Pairs:
                return reveal.cut(self.values)

            def hidden() -> Pairs:
                return reveal.hidden(self.values)

            def show_all() -> tuple[str, str]:
                return f"Show all of {sizes(cut())}", "show the cut texts in full; no output keeps them"

            def show_hidden() -> tuple[str, str]:
                return "Show hidden", "show the values behind ***; no output keeps them"

            kinds = [(cut, show_all), (hidden, show_hidden)]
            self._revealing = [Revealing(scope, read, post, show, self._open) for read, show in kinds if read()]
        self.widgets = (self._text, *(revealing.widget for revealing in self._revealing))
        self.show(self.values)

    def show(self, values: Any) -> None:
        self.values = values
        self._text.value = FORM_STYLE + self._question.about(values).html
        for revealing in self._revealing:
            revealing.refresh()

    def _open(self, names: list[str]) -> None:
        self._opened.update(names)
        self._on_open()

    @property
    def unseen(self) -> Pairs:
        """The long values that the user has not opened yet."""
        reveal = self._question.reveal
        return reveal.unseen(self.values, self._opened) if reveal is not None and self._revealing else []


class Card:
    """The widgets of one question: what it is about, the form, the buttons and the fields beside them.

    A frontend's message may be handled on another thread (ipykernel's subshells). So the callbacks only read what is
    typed and chosen now, and post the work to the event loop. Nothing takes the focus when the card appears: the next
    key of a user who is typing elsewhere would answer it. Tab order: the buttons that reveal values, the form, the main
    choice, Edit, the other choices, each with the fields beside it. The main choice is disabled until the user has
    opened each long value.
    """

    def __init__(self, question: Question, scope: WidgetScope, post: Post, echo: Echo) -> None:
        self.question = question
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.editor: Editor | None = None
        self._scope, self._post, self._echo = scope, post, echo
        self._invalid = False
        self._about = About(question, scope, post, self._refresh_main)
        self._place = scope.make(ipywidgets.VBox, "row")
        self._problem = scope.make(ipywidgets.HTML, "label")
        self._waits = scope.make(ipywidgets.HTML, "label")
        self._fields = {extra.name: self._field(extra) for extra in question.extra}
        self._buttons = {choice.name: self._button(choice) for choice in question.choices if choice.label}
        parts = [*self._about.widgets, self._place, self._problem, self._waits, self._line()]
        inside = scope.make(ipywidgets.VBox, "inside", children=parts)
        self.widget = scope.make(ipywidgets.VBox, "row", children=[inside])  # keeps a distance to the next card
        self._refresh_main()

    def _line(self) -> Any:
        """Return the buttons, the main one first and Edit second, each with its lines of text before it."""
        make = self._scope.make
        groups = []
        for choice in sorted(
            (c for c in self.question.choices if c.label), key=lambda c: 0 if c.sends else c.name != EDIT
        ):
            beside = [extra for extra in self.question.extra if extra.beside == choice.name]
            before = [self._fields[extra.name] for extra in beside if extra.is_text]
            after = [self._fields[extra.name] for extra in beside if not extra.is_text]
            button = self._buttons[choice.name]
            group = [*before, button, *after]
            groups.append(make(ipywidgets.HBox, "group", children=group) if beside else button)
        if self.question.form is not None and (self.question.form.must_open or self.question.form.rows):
            editor = self._open(self.question.form)
            if editor.form is not None:
                editor.form.on_enter(lambda: self.choose(self.question.choices[0]))
                groups.append(editor.form.toggle)
        return make(ipywidgets.HBox, "line", children=groups)

    def _button(self, choice: Choice) -> Any:
        main = choice is self.question.choices[0]
        style = "primary" if main else ""
        return self._scope.button(
            choice.label, choice.tooltip, lambda: self.choose(choice), icon=choice.icon, button_style=style
        )

    def _field(self, extra: Extra) -> Any:
        make = self._scope.make
        if isinstance(extra.value, bool):
            return make(ipywidgets.Checkbox, "check", value=extra.value, description=extra.label, indent=False)
        if extra.options:
            return make(
                ipywidgets.Dropdown, "button", options=list(extra.options), value=extra.value, name=extra.tooltip
            )
        field = make(ipywidgets.Text, "bar", placeholder=extra.label, name=extra.tooltip)
        entered = next(choice for choice in self.question.choices if choice.name == extra.beside)
        on_enter(field, lambda: self.choose(entered))
        return field

    def _refresh_main(self) -> None:
        """Enable the main choice if the values are valid and all long ones were opened."""
        values, unseen = self._about.values, self._about.unseen
        for choice in self.question.choices:
            if choice.sends and choice.label:
                is_empty = isinstance(values, list) and not any(value is not None for value in values)
                self._buttons[choice.name].disabled = self._invalid or bool(unseen) or is_empty
                waits = f"{choice.label} waits until you have opened all of {sizes(unseen)}."
                self._waits.value = FORM_STYLE + note_markup(waits) if unseen else ""

    def focus(self) -> None:
        """Let Edit have the focus, beside the main choice: a key that is pressed once too often answers nothing."""
        if EDIT in self._buttons:
            self._scope.focus(self._buttons[EDIT])

    def choose(self, choice: Choice) -> None:
        """Make a choice, with what is typed and chosen on the screen."""
        if choice.name == EDIT:
            self._post(self.edit)
        elif self.editor is not None and choice.sends:
            again = f"Nothing was sent: the page has not sent all that you typed. Press {choice.label} again."
            self._echo.then(partial(self._make, choice), partial(self._say, again))
        elif any(isinstance(field, ipywidgets.Text) and field.value for field in self._fields.values()):
            self._echo.then(partial(self._make, choice))
        else:
            self._make(choice)

    def _make(self, choice: Choice) -> None:
        """Post what a choice does, with what is typed and chosen now."""
        extra = {name: field.value for name, field in self._fields.items()}
        for field in self.question.extra:
            if field.is_secret:
                self._fields[field.name].value = ""
        editor, values = self.editor, None
        if choice.sends and editor is not None:
            assert self.question.form is not None
            try:
                values = editor.read()
                self.question.form.check(values)
            except ArgumentsError as error:
                self._post(partial(self._say, str(error)))
                return
        self._post(partial(self._reply, choice, editor, values, extra))

    # On the event loop

    def _reply(self, choice: Choice, editor: Editor | None, values: Any, extra: dict[str, Any]) -> None:
        if self.answer.done() or (choice.sends and self._buttons[choice.name].disabled):
            return
        if values is None or editor is not self.editor:
            values = self._about.values
        reply = Reply(choice.name, values, extra)
        problem = self.question.take(reply)
        self._say(problem)
        if not problem and self.question.elsewhere is None:
            self.answer.set_result(reply)

    def _say(self, problem: str) -> None:
        self._problem.value = problem_markup(problem)

    def edit(self) -> None:
        form = self.question.form
        if self.answer.done() or form is None:
            return
        button = self._buttons[EDIT]
        if self.editor is None:
            self._open(form)
            if not form.labels:
                button.description, button.tooltip = "Discard changes", "use the original arguments"
            return
        if form.labels:
            return
        self._place.children = ()
        self.editor.scope.close()
        self.editor = None
        choice = next(choice for choice in self.question.choices if choice.name == EDIT)
        button.description, button.tooltip = choice.label, choice.tooltip
        self._show(form.values, "")

    def _open(self, form: Form) -> Editor:
        self.editor = editor_for(form, self._scope.part(), self._read_editor)
        self._place.children = (self.editor.widget,)
        return self.editor

    def _read_editor(self) -> None:
        editor = self.editor
        if editor is None:
            return
        try:
            self._post(partial(self._take, editor, editor.read(), ""))
        except ArgumentsError as error:
            self._post(partial(self._take, editor, self._about.values, str(error)))

    def _take(self, editor: Editor, values: Any, problem: str) -> None:
        if editor is self.editor and not self.answer.done():
            self._show(values, problem)

    def _show(self, values: Any, problem: str) -> None:
        self._about.show(values)
        self._say(problem)
        self._invalid = bool(problem)
        self._refresh_main()
        edited = isinstance(values, Mapping) and bool(changes(self.question.values, values))
        for choice in self.question.choices:
            if choice.sends and choice.label:
                self._buttons[choice.name].description = f"{choice.label} changed" if edited else choice.label

    def close(self) -> None:
        self._scope.close()


def sizes(values: Iterable[tuple[str, Any]]) -> str:
    """Return the names of values and their lengths.

    >>> sizes([("note", "x" * 2000), ("rows", [1, 2])])
    'note (2,000 characters), rows (6 characters)'
    """
    texts = [f"{in_line(name, 40)} ({plural(len(value_text(value)), 'characters')})" for name, value in values]
    return join_names(texts, 3)


# The panel: the questions of a cell.

Replace = Callable[[dict[str, Any]], None]  # replaces the shown mimebundle by another one

Show = Callable[[dict[str, Any]], Replace]  # shows a mimebundle, and returns a function that replaces it

MAX_CARDS = 20  # questions shown at a time; the next appear when one of these is answered
TICK_SECONDS = 1.0  # seconds between two changes of the countdown


class Pending(NamedTuple):
    """A question that waits for its reply until a time of the event loop; `card` is set once there is room for it."""

    question: Question
    until: float | None
    card: asyncio.Future[Card]


class ForAll(NamedTuple):
    """The buttons that make one choice for several cards, and the scope that made them."""

    cards: tuple[Card, ...]
    scope: WidgetScope
    widget: Any


class Heading:
    """What a panel waits for, and until when: updated each second from `start` to `stop`."""

    def __init__(self, scope: WidgetScope, pending: Sequence[Pending]) -> None:
        self._pending = pending
        self._text = scope.make(ipywidgets.HTML, "label")
        self._time = scope.make(ipywidgets.HTML, "label")  # apart, so that it is not read out each second
        self.widget = scope.make(ipywidgets.HBox, "line", children=[self._text, self._time])
        self._timer: asyncio.TimerHandle | None = None

    def start(self, context: Context) -> None:
        """Update it each second, in a context."""
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick, context, context=context)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, context: Context) -> None:
        if self._pending:
            self.update()
        self.start(context)

    def update(self) -> None:
        question, count = self._pending[0].question, len(self._pending)
        text = f"Waiting for your {question.waits_for}."
        if count > 1:
            alike = all(pending.question.waits_for == question.waits_for for pending in self._pending)
            text = f"{count:,} calls are waiting for your {question.waits_for if alike else 'answer'}."
        if not all(pending.card.done() for pending in self._pending):
            text += f" The first {MAX_CARDS} are shown."
        self._text.value = page([tag("p", text, class_="mcp-note", role="status")])
        deadlines = [pending.until for pending in self._pending if pending.until is not None]
        if deadlines:
            rest = max(math.ceil(min(deadlines) - asyncio.get_running_loop().time()), 0)
            at_once = max(deadlines) - min(deadlines) < 1
            late = question.late if at_once else f"The first is {question.late.lower()}"
            ends = f"{late} automatically in {rest // 60}:{rest % 60:02}."
            self._time.value = page([tag("p", ends, class_="mcp-note", role="timer")])


class OutcomeLines:
    """A line for each answered question."""

    def __init__(self, scope: WidgetScope) -> None:
        self._outcomes: list[Outcome] = []
        self.widget = scope.make(ipywidgets.HTML, "label")

    def add(self, outcome: Outcome) -> None:
        """Add a line; `draw` shows it."""
        self._outcomes.append(outcome)

    def draw(self) -> dict[str, Any]:
        """Show the lines; return them as a mimebundle."""
        lines = outcome_bundle(self._outcomes) if self._outcomes else {}
        self.widget.value = lines.get("text/html", "")
        return lines

    def clear(self) -> None:
        """Forget the lines; the widget keeps them until the next `draw`."""
        self._outcomes.clear()


class Panel:
    """An asker: one panel for all questions of a cell. It shows the first twenty of the pending ones.

    Each answered question becomes one line in the panel. When none is pending, the panel is replaced by those lines as
    plain HTML and text, which stay in the saved notebook. The next question shows the panel again, below. Its widget is
    the same until `close`, so a page that was loaded again, and gets no more output of the cell, shows the next
    question too.

    Approve all and Deny all decide only the cards that were visible when they were clicked: each added question gets
    new buttons.

    Args:
        show: Displays the panel below the cell that asks.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._context = copy_context()
        # From any thread, in the context of the cell: messages sent from the context of a frontend's message would make
        # ipykernel deliver the answers to another shell.
        loop = asyncio.get_running_loop()
        self._post: Post = partial(loop.call_soon_threadsafe, context=self._context)
        self._scope = scope = WidgetScope()
        self._echo = scope.echo(loop)
        self._pending: list[Pending] = []
        self._cards: list[Card] = []
        self._answered: list[Card] = []
        self._for_all: list[ForAll] = []
        self._heading = Heading(scope, self._pending)
        self._lines = OutcomeLines(scope)
        self.widget = scope.make(ipywidgets.VBox, "row")
        self._replace: Replace | None = None
        self._answered_at = -math.inf
        self._is_drawn_soon = False

    @property
    def waiting(self) -> tuple[Question, ...]:
        """The pending questions, in the order in which they were asked."""
        return tuple(pending.question for pending in self._pending)

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards shown."""
        return tuple(self._cards)

    def close(self) -> None:
        """Close the widgets."""
        self._scope.close()

    def show_again(self, show: Show) -> None:
        """Show the panel in another place, if it is shown: the output that it stood in is gone."""
        self._show = show
        if self._replace is not None:
            self._display()

    async def ask(self, question: Question, until: float | None = None) -> Reply:
        """Show a question and wait for the reply until a time of the event loop; a cancelled wait leaves a line.

        Raises:
            TimeoutError: The deadline passed.
        """
        loop = asyncio.get_running_loop()
        pending = Pending(question, until, loop.create_future())
        self._pending.append(pending)
        started = time.monotonic()
        reply = None
        try:
            if len(self._cards) < MAX_CARDS:
                self._fill()
            else:
                self._draw_soon()
            async with asyncio.timeout_at(until):
                card = await asyncio.shield(pending.card)
                if question.elsewhere is None:
                    reply = await card.answer
                    self._answered_at = loop.time()
                else:
                    await question.elsewhere()
                    reply = Reply("settled")
        finally:
            if reply is None:  # on a busy event loop the caller's own deadline may cancel this wait first
                is_late = is_out_of_time() or (until is not None and loop.time() >= until)
                reply = Reply(reason=NOT_ANSWERED if is_late else INTERRUPTED)
            self._settle(pending, question.outcome(reply, time.monotonic() - started))
        return reply

    def _fill(self) -> None:
        """Move pending questions onto cards, as far as there is room, and show the panel."""
        before = len(self._cards)
        for pending in self._pending:
            if len(self._cards) == MAX_CARDS:
                break
            if not pending.card.done():
                self._cards.append(Card(pending.question, self._scope.part(), self._post, self._echo))
                pending.card.set_result(self._cards[-1])
        if len(self._cards) > max(before, 1):
            self._for_all.append(self._buttons_for(self.cards, self._scope.part()))
        self._heading.update()
        self._lines.draw()
        several = [self._for_all[-1].widget] if len(self._cards) > 1 else []
        cards = (card.widget for card in self._cards)
        self.widget.children = (self._lines.widget, self._heading.widget, *several, *cards)
        if self._replace is None:
            self._display()
            self._heading.start(self._context)
        if asyncio.get_running_loop().time() - self._answered_at < FOCUS_SECONDS:  # the user types nowhere else
            self._context.copy().run(self._cards[0].focus)

    def _display(self) -> None:
        question = self._cards[0].question
        about = question.full_part(question.values)
        static = {"text/html": about.html, "text/plain": question.saved or about.plain}
        self._replace = self._show({**widget_view(self.widget), **static})

    def _buttons_for(self, cards: tuple[Card, ...], scope: WidgetScope) -> ForAll:
        """Return the buttons that decide these cards."""

        def decide(choice: Choice) -> None:
            for card in cards:
                card.choose(choice)

        alike = len({card.question.waits_for for card in cards}) == 1
        buttons = [
            scope.button(f"{choice.label} all", choice.for_all, partial(decide, choice), icon=choice.icon)
            for choice in cards[0].question.choices
            if choice.for_all and alike
        ]
        return ForAll(cards, scope, scope.make(ipywidgets.HBox, "line", children=buttons))

    def _settle(self, pending: Pending, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._lines.add(outcome)
        self._pending.remove(pending)
        if pending.card.done():
            card = pending.card.result()
            self._cards.remove(card)
            self._answered.append(card)
        else:
            pending.card.cancel()
        if self._pending:
            self._draw_soon()
            return
        # lines first: a frontend would briefly show closed widgets as lost
        lines = self._lines.draw()
        if self._replace is not None:
            self._replace(lines)
            self._replace = None
        self._heading.stop()
        self.widget.children = (self._lines.widget,)
        self._lines.clear()
        self._close_answered()

    def _draw_soon(self) -> None:
        """Draw the remaining cards, once for all questions answered at the same time."""
        if not self._is_drawn_soon:
            self._is_drawn_soon = True
            self._post(self._draw)

    def _draw(self) -> None:
        self._is_drawn_soon = False
        if self._pending:
            self._fill()
            self._close_answered()

    def _close_answered(self) -> None:
        """Close the widgets that no pending question needs."""
        for card in self._answered:
            card.close()
        self._answered.clear()
        for buttons in list(self._for_all):
            if not set(buttons.cards) & set(self._cards):
                self._for_all.remove(buttons)
                buttons.scope.close()
