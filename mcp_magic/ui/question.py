"""Panels that ask the user: approvals, elicitations, sampling, log-ins and confirmations."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import ipywidgets

from mcp_magic._text import duration
from mcp_magic.ask.approval import (
    ALWAYS,
    Outcome,
    approval_html,
    approval_text,
    hidden_of,
    long_of,
    named,
    outcomes_bundle,
    unseen_of,
)
from mcp_magic.ask.elicitation import Answer, answer_bundle, question_html, question_text
from mcp_magic.ask.sampling import (
    Review,
    reply_html,
    reply_outcome_bundle,
    reply_text,
    reply_texts,
    request_html,
    request_text,
    request_texts,
    review_bundle,
    with_reply_texts,
    with_request_texts,
)
from mcp_magic.auth.login import login_bundle, login_html
from mcp_magic.consent.consent import Decision
from mcp_magic.display.arguments import changes, hidden_arguments, page_html, pages, read_arguments, written_arguments
from mcp_magic.display.document import note, page, tag
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.ui.form import Form
from mcp_magic.ui.widgets import FORM_STYLE, WIDGET_VIEW, WidgetScope, note_markup, problem_markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_magic.ask.elicitation import Elicitation
    from mcp_magic.ask.sampling import Expected, Sampled, SamplingRequest, Text
    from mcp_magic.auth.login import LogIn
    from mcp_magic.consent.consent import Request

    Values = list[tuple[str, Any]]
    Work = Callable[[], None]
    Post = Callable[[Work], None]

__all__ = [
    "ApprovalPanel",
    "AuthorizationPanel",
    "Card",
    "ConfirmationPanel",
    "Editor",
    "ElicitationPanel",
    "QuestionPanel",
    "Replace",
    "ReplyPanel",
    "RequestPanel",
    "Revealing",
    "Show",
    "editor_for",
]


# Editing the arguments of a request: in the tool's form, or as JSON.


class Editor(Protocol):
    """Widgets to change arguments with."""

    @property
    def widget(self) -> Any:
        """The editor's widget."""

    def read(self) -> dict[str, Any]:
        """Return the present arguments.

        Raises:
            ArgumentsError: They cannot be sent.
        """

    def close(self) -> None:
        """Close the widgets."""


def editor_for(request: Request, shop: WidgetScope, on_change: Callable[[], None]) -> Editor:
    """Return an editor for the arguments of a request.

    Arguments with secrets are edited as JSON with the secrets masked, so that no form field takes a mask for a value.

    Args:
        request: The request.
        shop: Makes the widgets.
        on_change: Called for each change, on the thread that handles the frontend's message.
    """
    secret = hidden_arguments(request.arguments, request.definition) != request.arguments
    if request.definition is None or secret:
        return _JsonEditor(request, shop, on_change)
    return _FormEditor(request, request.definition.input_schema, shop, on_change)


class _FormEditor:
    def __init__(
        self, request: Request, schema: dict[str, Any], shop: WidgetScope, on_change: Callable[[], None]
    ) -> None:
        self._form = Form(schema, shop=shop)
        self._form.set_arguments(request.arguments)
        self._form.on_change(on_change)
        self._box = shop.part()
        self.widget = self._box.make(ipywidgets.VBox, "row", children=[self._form.widget, self._form.toggle])

    def read(self) -> dict[str, Any]:
        return self._form.arguments

    def close(self) -> None:
        self._form.close()
        self._box.close()


class _JsonEditor:
    def __init__(self, request: Request, shop: WidgetScope, on_change: Callable[[], None]) -> None:
        self._request = request
        self._box = shop.part()
        self.widget = self._box.make(
            ipywidgets.Textarea,
            "area",
            value=written_arguments(request.arguments, request.definition),
            tooltip=f"arguments of {request.name} as JSON; *** stands for a hidden value",
        )
        self.widget.observe(lambda _: on_change(), "value")

    def read(self) -> dict[str, Any]:
        return read_arguments(self.widget.value, self._request.arguments, self._request.definition)

    def close(self) -> None:
        self._box.close()


# Revealing values that the question masks or cuts.
#
# Revealed text is in no output and goes with the panel: a notebook contains it only if it is saved at that moment
# together with its widget state.


class Revealing:
    """A button that shows values page by page, and then hides them.

    Args:
        shop: Makes the widgets.
        values: Returns the present values, with their names.
        post: Runs a function on the event loop.
        show: Returns the label and the tooltip of the button while nothing is shown.
        on_seen: Receives the names of all values when the last page is shown.

    Attributes:
        widget: The button with the text below it.
    """

    def __init__(
        self,
        shop: WidgetScope,
        values: Callable[[], Values],
        post: Post,
        show: Callable[[], tuple[str, str]],
        on_seen: Callable[[list[str]], None],
    ) -> None:
        self._values = values
        self._show = show
        self._on_seen = on_seen
        self._page: int | None = None
        self._button = shop.make(ipywidgets.Button, "button")
        self._button.on_click(lambda _: post(self._turn))
        self._text = shop.make(ipywidgets.HTML, "label")
        self.widget = shop.make(ipywidgets.VBox, "row", children=[self._button, self._text])
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
        """Show the present values, if they are revealed, and the button's label."""
        shown = pages(self._values())
        if self._page is None:
            self._button.icon = "eye"
            self._button.description, self._button.tooltip = self._show()
            self._text.value = ""
            return
        self._page = min(self._page, len(shown) - 1)
        rest = len(shown) - 1 - self._page
        self._button.icon = "eye" if rest else "eye-slash"
        self._button.description = f"Show more (part {self._page + 2} of {len(shown)})" if rest else "Hide"
        self._button.tooltip = "show the next part" if rest else "hide it again"
        self._text.value = FORM_STYLE + page_html(shown[self._page])


# The card of one request.

_EDIT = "change the arguments of {} first"


class Card:
    """The question about one request, with Approve, Edit and Deny.

    A frontend's message may be handled on another thread (ipykernel's subshells). So the callbacks only read what is
    typed and chosen now, and post the work to the event loop. Nothing takes the focus when the card appears: the next
    key of a user who is typing elsewhere would answer it. Tab order: the buttons that reveal values, Approve, Edit,
    Deny, the reason, the scope. Enter in the reason denies. Approve is disabled until the user has opened each long
    value.

    Args:
        request: The request.
        shop: Makes the widgets.
        post: Runs a function on the event loop.

    Attributes:
        answer: Receives the decision.
        widget: The card's widget.
    """

    def __init__(self, request: Request, shop: WidgetScope, post: Post) -> None:
        self.request = request
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._shop = shop
        self._post = post
        self._editor: Editor | None = None
        self._arguments: Mapping[str, Any] = request.arguments
        self._text = shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + approval_html(request, self._arguments))
        self._seen: set[str] = set()
        self._invalid = False
        self._problem = shop.make(ipywidgets.HTML, "label")
        self._waits = shop.make(ipywidgets.HTML, "label")
        self._place = shop.make(ipywidgets.VBox, "row")
        self._revealing = self._made_revealing()
        self._make_buttons()
        self._refresh_approve()
        buttons = [self._approve, self._edit, self._deny, self._reason, self._scope]
        line = shop.make(ipywidgets.HBox, "line", children=buttons)
        shown = [self._text, *(each.widget for each in self._revealing), self._place, self._problem, self._waits, line]
        inside = shop.make(ipywidgets.VBox, "inside", children=shown)
        self.widget = shop.make(ipywidgets.VBox, "row", children=[inside])  # keeps a distance to the next card

    def _made_revealing(self) -> list[Revealing]:
        """Return a button each for long and for hidden values, if there are any."""

        def long() -> list[tuple[str, Any]]:
            return long_of(self.request, self._arguments)

        def hidden() -> list[tuple[str, Any]]:
            return [(part.path, part.value) for part in hidden_of(self.request, self._arguments)]

        def show_all() -> tuple[str, str]:
            return f"Show all of {named(long()) or 'it'}", "show the whole of what is cut above; it stays in no output"

        def show_hidden() -> tuple[str, str]:
            return "Show hidden", "show what would be sent in place of ***; it stays in no output"

        kinds = [(long, show_all), (hidden, show_hidden)]
        return [Revealing(self._shop, values, self._post, show, self._saw) for values, show in kinds if values()]

    def _saw(self, names: list[str]) -> None:
        self._seen.update(names)
        self._refresh_approve()

    def _refresh_approve(self) -> None:
        """Enable Approve if the arguments are valid and all long values were opened."""
        unseen = unseen_of(self.request, self._arguments, self._seen) if self._revealing else []
        self._approve.disabled = self._invalid or bool(unseen)
        waits = f"Approve waits until you have opened all of {named(unseen)}."
        self._waits.value = FORM_STYLE + note_markup(waits) if unseen else ""

    def _make_buttons(self) -> None:
        name = one_line(self.request.name, 80)
        self._approve = self._button("Approve", "check", f"let {name} go out as shown", self.approval)
        self._edit = self._button("Edit", "pencil", _EDIT.format(name), lambda: self.edit)
        self._deny = self._button("Deny", "ban", f"do not call {name}", self.denial)
        self._reason = self._shop.make(
            ipywidgets.Text, "bar", placeholder="why not; Enter denies", tooltip=f"why {name} must not be called"
        )
        self._reason.on_msg(self._entered)
        scopes = [(text, how) for how, text in ALWAYS.items() if how != "run" or self.request.run is not None]
        self._scope = self._shop.make(
            ipywidgets.Dropdown,
            "button",
            options=[("only this time", ""), *scopes],
            value="",
            tooltip="what Approve approves",
        )

    def _button(self, text: str, icon: str, tooltip: str, taken: Callable[[], Work]) -> Any:
        button = self._shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
        button.on_click(lambda _: self._post(taken()))
        return button

    def _entered(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("event") == "submit":
            self._post(self.denial())

    def approval(self) -> Work:
        """Return a function that approves, with the scope chosen now, unless the edited arguments are invalid."""
        return partial(self._let_go, self._scope.value)

    def denial(self) -> Work:
        """Return a function that denies, with the reason typed now."""
        return partial(self._decide, Decision.deny(self._reason.value.strip()))

    # Actions of the buttons, on the event loop

    def _let_go(self, always: str) -> None:
        if not self._approve.disabled:
            changed = bool(changes(self.request.arguments, self._arguments))
            self._decide(Decision.approve(self._arguments if changed else None, always=always))

    def edit(self) -> None:
        """Open the editor, or close it and discard the changes."""
        if self.answer.done():
            return
        if self._editor is None:
            self._editor = editor_for(self.request, self._shop, self._edited)
            self._place.children = (self._editor.widget,)
            self._edit.description, self._edit.tooltip = "Discard changes", "take the arguments as they came"
            return
        self._place.children = ()
        self._editor.close()
        self._editor = None
        self._edit.description, self._edit.tooltip = "Edit", _EDIT.format(one_line(self.request.name, 80))
        self._show(self.request.arguments, "")

    def _edited(self) -> None:
        editor = self._editor
        if editor is None:
            return
        try:
            self._post(partial(self._take, editor, editor.read(), ""))
        except ArgumentsError as error:
            self._post(partial(self._take, editor, None, str(error)))

    def _take(self, editor: Editor, arguments: Mapping[str, Any] | None, problem: str) -> None:
        if editor is self._editor and not self.answer.done():
            self._show(self._arguments if arguments is None else arguments, problem)

    def _show(self, arguments: Mapping[str, Any], problem: str) -> None:
        self._arguments = arguments
        self._text.value = FORM_STYLE + approval_html(self.request, arguments)
        for each in self._revealing:
            each.refresh()
        self._problem.value = problem_markup(problem)
        self._invalid = bool(problem)
        self._refresh_approve()
        edited = bool(changes(self.request.arguments, arguments))
        self._approve.description = "Approve changed" if edited else "Approve"

    def _decide(self, decision: Decision) -> None:
        if not self.answer.done():
            self.answer.set_result(decision)

    def close(self) -> None:
        """Close the widgets."""
        self._shop.close()


# The approval panel: the calls that agents, servers and apps request.

Replace = Callable[[dict[str, Any]], None]
"""Replaces the shown mimebundle by another one."""

Show = Callable[[dict[str, Any]], Replace]
"""Shows a mimebundle, and returns a function that replaces it."""


MAX_CARDS = 20
"""Requests shown at a time; the next appear when one of these is decided."""


class All(NamedTuple):
    """The buttons Approve all and Deny all.

    Attributes:
        cards: The cards that they decide.
        shop: The shop that made them.
        widget: The box around both.
    """

    cards: tuple[Card, ...]
    shop: WidgetScope
    widget: Any


class ApprovalPanel:
    """An approver: one panel for all pending requests, of which it shows the first twenty.

    Each decision becomes one line in the panel. When no request is pending, the panel is replaced by those lines as
    plain HTML and text, which stay in the saved notebook, and all its widgets are closed. The next request opens a new
    panel below.

    Approve all and Deny all decide only the cards that were visible when they were clicked: each added request gets new
    buttons.

    Args:
        show: Displays the panel below the cell that asks.
        seconds: Returns the deadline of a request, in seconds.
    """

    def __init__(self, show: Show, *, seconds: Callable[[], float] | None = None) -> None:
        self._show = show
        self._seconds = seconds
        self._cards: list[Card] = []
        self._later: deque[tuple[Request, asyncio.Future[Card]]] = deque()
        self._done: list[Card] = []
        self._outcomes: list[Outcome] = []
        self._all: list[All] = []
        self._shop: WidgetScope | None = None
        self._replace: Replace = lambda _: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self._root: Any = None
        self._is_drawn_soon = False

    @property
    def waiting(self) -> tuple[Request, ...]:
        """The pending requests, those on cards first."""
        return (*(card.request for card in self._cards), *(request for request, _ in self._later))

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards shown."""
        return tuple(self._cards)

    @property
    def widget(self) -> Any:
        """The live panel, or None."""
        return self._root

    async def ask(self, request: Request, *, until: float | None = None) -> Decision:
        """Show a request and wait for the decision; a cancelled wait leaves a line that says so.

        Args:
            request: The request.
            until: The deadline, in the event loop's time; None means `seconds` from now.

        Raises:
            TimeoutError: The deadline passed.
        """
        if until is None and self._seconds is not None:
            until = asyncio.get_running_loop().time() + self._seconds()
        place: asyncio.Future[Card] = asyncio.get_running_loop().create_future()
        self._later.append((request, place))
        if len(self._cards) < MAX_CARDS:
            self._fill()
        else:
            self._draw_soon()
        started = time.monotonic()
        verdict, decision = "interrupted", None
        try:
            async with asyncio.timeout_at(until):
                decision = await (await asyncio.shield(place)).answer
            verdict = "approved" if decision.approved else "denied"
        except TimeoutError:
            verdict = "not answered"
            raise
        finally:
            self._settle(request, place, Outcome(request, verdict, time.monotonic() - started, decision))
        return decision

    __call__ = ask

    def _fill(self) -> None:
        """Move pending requests onto cards, as far as there is room."""
        opened = self._shop is None
        if self._shop is None:
            self._open()
        assert self._shop is not None
        before = len(self._cards)
        while self._later and len(self._cards) < MAX_CARDS:
            request, place = self._later.popleft()
            self._cards.append(Card(request, self._shop.part(), self._post))
            place.set_result(self._cards[-1])
        if len(self._cards) > max(before, 1):
            self._all.append(self._buttons_for(self.cards, self._shop.part()))
        self._refresh()
        if opened:
            self._replace = self._show(self._live_bundle(self._cards[0].request))

    def _open(self) -> None:
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._shop = shop = WidgetScope()
        self._heading = shop.make(ipywidgets.HTML, "label")
        self._lines = shop.make(ipywidgets.HTML, "label")
        self._root = shop.make(ipywidgets.VBox, "row")

    def _buttons_for(self, cards: tuple[Card, ...], shop: WidgetScope) -> All:
        """Return the buttons that decide these cards."""

        def decide(taken: Callable[[Card], Work]) -> None:
            for card in cards:
                self._post(taken(card))

        def button(text: str, icon: str, tooltip: str, taken: Callable[[Card], Work]) -> Any:
            made = shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
            made.on_click(lambda _: decide(taken))
            return made

        approve = button("Approve all", "check", "let all of them go out as shown", Card.approval)
        deny = button("Deny all", "ban", "call none of them", Card.denial)
        return All(cards, shop, shop.make(ipywidgets.HBox, "line", children=[approve, deny]))

    def _post(self, work: Callable[[], None]) -> None:
        """Run a function on the event loop, from any thread.

        It runs in the context of the cell: messages sent from the context of a frontend's message would make ipykernel
        deliver the answers to another shell.
        """
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work, context=self._context)

    def _refresh(self) -> None:
        count = len(self._cards) + len(self._later)
        limit = f"; what nobody answers within {self._seconds():g} s is denied" if self._seconds else ""
        calls = "1 call waits" if count == 1 else f"{count:,} calls wait"
        limit += f"; the first {MAX_CARDS} are shown" if self._later else ""
        self._heading.value = page([note(f"{calls} for your answer{limit}")])
        self._lines.value = outcomes_bundle(self._outcomes)["text/html"] if self._outcomes else ""
        several = [self._all[-1].widget] if len(self._cards) > 1 else []
        self._root.children = (self._lines, self._heading, *several, *(card.widget for card in self._cards))

    def _settle(self, request: Request, place: asyncio.Future[Card], outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if place.done():
            card = place.result()
            self._cards.remove(card)
            self._done.append(card)
        else:
            self._later.remove((request, place))
            place.cancel()
        if self._cards or self._later:
            self._draw_soon()
            return
        # lines first: a frontend would briefly show closed widgets as lost
        self._replace(outcomes_bundle(self._outcomes))
        assert self._shop is not None
        self._shop.close()
        self._shop = self._root = None
        self._outcomes.clear()
        self._all.clear()
        self._done.clear()

    def _draw_soon(self) -> None:
        """Draw the remaining cards, once for all requests decided at the same time."""
        if not self._is_drawn_soon:
            self._is_drawn_soon = True
            self._post(self._draw)

    def _draw(self) -> None:
        self._is_drawn_soon = False
        if self._shop is None:
            return
        self._fill()
        for card in self._done:
            card.close()
        self._done.clear()
        self._close_done()

    def _close_done(self) -> None:
        """Close the buttons whose cards are all decided."""
        for each in [each for each in self._all if not set(each.cards) & set(self._cards)]:
            self._all.remove(each)
            each.shop.close()

    def _live_bundle(self, request: Request) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self._root.model_id}
        return {
            WIDGET_VIEW: view,
            "text/html": approval_html(request, request.arguments),
            "text/plain": approval_text(request, request.arguments),
        }


# The base of the panels for a single question.

T = TypeVar("T")


class QuestionPanel(Generic[T]):
    """Shows one question and waits for the answer.

    Once answered, it is replaced by one line of HTML and text, which stays in the saved notebook, and its widgets are
    closed. A frontend's message may be handled on another thread (ipykernel's subshells), so callbacks read the input
    and post the answer to the event loop. No input takes the focus when the panel appears.

    Args:
        show: Displays the panel below the cell that asks.

    Attributes:
        widget: The live panel, or None.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._shop = WidgetScope()
        self._answer: asyncio.Future[T] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self.widget: Any = None

    async def _wait(
        self,
        build: Callable[[], list[Any]],
        question: dict[str, str],
        outcome: Callable[[T | None, float], dict[str, Any]],
    ) -> T:
        """Show the question and wait for the answer; a cancelled wait leaves a line that says so.

        Args:
            build: Returns the widgets, from top to bottom.
            question: The mimebundle for readers without widgets.
            outcome: Returns the mimebundle of the outcome, from the answer (or None) and the seconds it took.
        """
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._answer = self._loop.create_future()
        try:
            self.widget = self._shop.make(ipywidgets.VBox, "inside", children=build())
        except Exception:
            self._shop.close()
            raise
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        replace = self._show({WIDGET_VIEW: view, **question})
        started = time.monotonic()
        answer = None
        try:
            answer = await self._answer
        finally:
            # line first: a frontend would briefly show closed widgets as lost
            replace(outcome(answer, time.monotonic() - started))
            self._shop.close()
            self.widget = None
        return answer

    def _button(self, text: str, icon: str, tooltip: str, clicked: Callable[[], Any]) -> Any:
        button = self._shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
        button.on_click(lambda _: clicked())
        return button

    def _line(self, *children: Any) -> Any:
        return self._shop.make(ipywidgets.HBox, "line", children=children)

    def _post(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run a function on the event loop, in the context of the cell (see `ApprovalPanel._post`)."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work, *arguments, context=self._context)

    def _settle(self, answer: T) -> None:
        self._post(self._take, answer)

    def _take(self, answer: T) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


# The elicitation panel: a form to fill in, or a page to visit.


class ElicitationPanel(QuestionPanel[Answer]):
    """An elicitor: shows each question in its own panel.

    Args:
        show: Displays the panel below the cell that asks.

    Attributes:
        widget: The live panel, or None.
        form: Its form, or None.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.form: Form | None = None

    async def ask(self, asked: Elicitation) -> Answer:
        """Show an elicitation and wait for the answer; a cancelled wait leaves a line that says so."""
        question = {"text/html": question_html(asked), "text/plain": question_text(asked)}
        try:
            return await self._wait(partial(self._build, asked), question, partial(answer_bundle, asked))
        finally:
            self.form = None

    __call__ = ask

    def _build(self, asked: Elicitation) -> list[Any]:
        parts = [self._shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + question_html(asked))]
        if asked.mode == "form":
            self.form = form = Form(asked.schema, shop=self._shop)
            form.root.set(asked.defaults)
            form.on_submit(lambda content: self._settle(Answer.accept(content)))
            parts.append(form.widget)
            submit = self._button("Submit", "check", "send what is entered to the server", form.submit)
        else:
            visited = partial(self._settle, Answer.accept())
            submit = self._button("Done", "check", "I have opened the page myself; go on", visited)
        decline = self._button("Decline", "ban", "say no to the server", partial(self._settle, Answer.decline()))
        cancel = self._button("Cancel", "times", "do not answer the question", partial(self._settle, Answer.cancel()))
        toggle = [self.form.toggle] if self.form is not None else []
        return [*parts, self._line(submit, decline, cancel, *toggle)]


# The sampling panels: for the request to a model, and for its reply.


class _TextsPanel(QuestionPanel[Review]):
    """A question about texts that the user can edit.

    Attributes:
        areas: The text areas; empty until the user clicks Edit.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.areas: list[Any] = []
        self._texts: Sequence[Text] = ()

    def _with_editor(self, html: str, texts: Sequence[Text]) -> list[Any]:
        self._texts = texts
        self._editor = self._shop.make(ipywidgets.VBox, "form")
        self._problem = self._shop.make(ipywidgets.HTML, "label")
        return [self._shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + html), self._editor, self._problem]

    def _edit_button(self) -> Any:
        return self._button("Edit", "pencil", "change the texts first", partial(self._post, self._edit))

    def _edit(self) -> None:
        """Show the text areas; does nothing if they are shown."""
        if self.areas:
            return
        children = []
        for text in self._texts:
            label = tag("div", tag("b", one_line(text.label, 120)), class_="mcp-form")
            area = self._shop.make(ipywidgets.Textarea, "area", value=text.text, tooltip=one_line(text.label, 120))
            children += [self._shop.make(ipywidgets.HTML, "label", value=label), area]
            self.areas.append(area)
        self._editor.children = tuple(children)

    def _settle_changed(self, changed: Callable[[list[str]], Review]) -> None:
        """Answer with the texts in the text areas, or show why they cannot be sent."""
        try:
            review = changed([area.value for area in self.areas])
        except ArgumentsError as error:
            self._problem.value = problem_markup(str(error))
        else:
            self._settle(review)


class RequestPanel(_TextsPanel):
    """Asks whether a model may answer a server's request; each request has its own panel.

    Args:
        show: Displays the panel below the cell that asks.
        show_reply: Whether "show me the reply" is ticked at first.
    """

    def __init__(self, show: Show, *, show_reply: bool = False) -> None:
        super().__init__(show)
        self._show_reply = show_reply

    async def ask(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Show a request in full and wait for the answer."""
        question = {"text/html": request_html(asked, expected), "text/plain": request_text(asked, expected)}
        return await self._wait(
            partial(self._build, asked, question["text/html"]), question, partial(review_bundle, asked, expected)
        )

    def _build(self, asked: SamplingRequest, html: str) -> list[Any]:
        parts = self._with_editor(html, request_texts(asked))
        self.box = self._shop.make(
            ipywidgets.Checkbox,
            "check",
            value=self._show_reply,
            description="show me the reply before it is sent",
            indent=False,
        )
        approve = self._button("Approve", "check", "let the model answer", partial(self._approve, asked))
        deny = self._button("Deny", "ban", "tell the server that it was rejected", partial(self._settle, Review.deny()))
        return [*parts, self._line(approve, self._edit_button(), deny, self.box)]

    def _approve(self, asked: SamplingRequest) -> None:
        def changed(texts: list[str]) -> Review:
            request = with_request_texts(asked, texts) if texts else asked
            return Review.approve(None if request is asked else request, show_reply=self.box.value)

        self._settle_changed(changed)


class ReplyPanel(_TextsPanel):
    """Asks whether a model's reply may be sent to the server."""

    async def ask(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Show a reply and wait for the answer."""
        question = {"text/html": reply_html(asked, reply), "text/plain": reply_text(asked, reply)}
        return await self._wait(
            partial(self._build, asked, reply, question["text/html"]),
            question,
            partial(reply_outcome_bundle, asked, reply),
        )

    def _build(self, asked: SamplingRequest, reply: Sampled, html: str) -> list[Any]:
        parts = self._with_editor(html, reply_texts(reply))
        send = self._button("Send", "check", "send the reply to the server", partial(self._send, asked, reply))
        refuse = self._button("Refuse", "ban", "send nothing of it", partial(self._settle, Review.deny()))
        return [*parts, self._line(send, self._edit_button(), refuse)]

    def _send(self, asked: SamplingRequest, reply: Sampled) -> None:
        def changed(texts: list[str]) -> Review:
            other = with_reply_texts(reply, texts, asked.usable_tools) if texts else reply
            return Review.approve(reply=None if other is reply else other)

        self._settle_changed(changed)


# The log-in panel: a link, and a field for the redirect address if the browser cannot reach the loopback callback.


class AuthorizationPanel(QuestionPanel[str]):
    """An authorizer: shows a log-in until it is answered, here or at the loopback callback.

    Args:
        show: Displays the panel below the cell that asks.

    Attributes:
        field: The field for the pasted address.
        problem: Shows why an address was refused.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.field: Any = None
        self.problem: Any = None

    async def ask(self, login: LogIn) -> None:
        """Show a log-in and wait for its answer."""
        # the saved text omits the address
        question = {"text/html": login_html(login), "text/plain": f"log-in at {login.host}"}
        waiting = asyncio.ensure_future(self._follow(login))
        try:
            await self._wait(partial(self._build, login), question, lambda _, seconds: login_bundle(login, seconds))
        finally:
            waiting.cancel()
            self.field = self.problem = None

    __call__ = ask

    async def _follow(self, login: LogIn) -> None:
        await login.answered()
        self._settle(login.outcome)

    def _build(self, login: LogIn) -> list[Any]:
        make = self._shop.make
        text = make(ipywidgets.HTML, "label", value=FORM_STYLE + login_html(login))
        self.field = make(ipywidgets.Text, "field", placeholder=f"{login.redirect_uri}?code=…")
        self.problem = make(ipywidgets.HTML, "label", value="")
        self.field.on_submit(lambda _: self._paste(login))
        paste = self._button(
            "Use this address", "paste", "go on with the address that is pasted here", partial(self._paste, login)
        )
        cancel = self._button("Cancel", "times", "do not log in", login.cancel)
        return [text, self._line(self.field, paste), self.problem, self._line(cancel)]

    def _paste(self, login: LogIn) -> None:
        field, note = self.field, self.problem
        if field is None or not field.value.strip():
            return
        problem = login.pasted(field.value)
        field.value = ""  # it contains the authorization code
        self._post(_say, note, problem)


def _say(note: Any, problem: str) -> None:
    note.value = str(problem_markup(problem)) if problem else ""


# The confirmation panel.


class ConfirmationPanel(QuestionPanel[bool]):
    """Asks a yes-or-no question. The first line of its text stays in the notebook, with the answer."""

    async def ask(self, text: str) -> bool:
        """Show a text and wait for the answer."""
        question = {"text/plain": text, "text/html": _html(text)}
        return await self._wait(partial(self._build, text), question, partial(_outcome, text.partition("\n")[0]))

    def _build(self, text: str) -> list[Any]:
        shown = self._shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + _html(text))
        yes = self._button("Yes", "check", "do it", partial(self._settle, True))
        no = self._button("No", "ban", "do nothing", partial(self._settle, False))
        return [shown, self._line(yes, no)]


def _html(text: str) -> str:
    return page([tag("pre", text, style="white-space:pre-wrap")])


def _outcome(first: str, answer: bool | None, seconds: float) -> dict[str, Any]:
    sign = {True: "✓ yes", False: "✗ no", None: "… not answered"}[answer]
    line = f"{sign}: {first} {duration(seconds)}"
    return {"text/plain": line, "text/html": page([tag("p", line)])}
