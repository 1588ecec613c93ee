"""One call that waits for an answer, drawn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.consent.consent import Decision
from mcp_magic.errors import ArgumentsError
from mcp_magic.results.safe import one_line
from mcp_magic.widgets.approval_edit import editor_for
from mcp_magic.widgets.approval_text import ALWAYS, changes, hidden_of, long_of, named, question_html, unseen_of
from mcp_magic.widgets.look import FORM_STYLE, note_markup, problem_markup
from mcp_magic.widgets.revealing import Revealing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_magic.core.consent.consent import Request
    from mcp_magic.widgets.approval_edit import Editor
    from mcp_magic.widgets.shop import Shop

    Work = Callable[[], None]
    Post = Callable[[Work], None]

__all__ = ["Card"]

_EDIT = "change the arguments of {} first"


class Card:
    """The question about one request: what it is, and Approve, Edit, Deny.

    What a frontend sends may be handled on another thread (ipykernel's subshells), so handlers only note what
    is typed and chosen now, and post the work to the loop that waits. Nothing takes the focus when it appears: a
    person who is typing elsewhere would answer with the next key. In the order of Tab: what opens long and hidden
    values, Approve, Edit, Deny, the reason, how far it reaches; Enter in the reason denies. Approve waits until each
    long value was opened.

    Args:
        request: What waits.
        shop: Makes the widgets.
        post: Runs a function on the loop that waits.

    Attributes:
        answer: Gets the decision.
        widget: What is shown.
    """

    def __init__(self, request: Request, shop: Shop, post: Post) -> None:
        self.request = request
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._shop = shop
        self._post = post
        self._editor: Editor | None = None
        self._arguments: Mapping[str, Any] = request.arguments
        self._text = shop.make(ipywidgets.HTML, "label", value=FORM_STYLE + question_html(request, self._arguments))
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
        self.widget = shop.make(ipywidgets.VBox, "row", children=[inside])  # apart from the next

    def _made_revealing(self) -> list[Revealing]:
        """Make the buttons that show what is long and what is hidden, where something is."""

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
        """Let Approve be clicked where the arguments fit and all that is long was opened."""
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
        """Return what lets the call go out, unless what was edited does not fit; how far it reaches is settled now."""
        return partial(self._let_go, self._scope.value)

    def denial(self) -> Work:
        """Return what refuses the call, for the reason that is typed now."""
        return partial(self._decide, Decision.deny(self._reason.value.strip()))

    # What the buttons do, on the loop

    def _let_go(self, always: str) -> None:
        if not self._approve.disabled:
            changed = bool(changes(self.request.arguments, self._arguments))
            self._decide(Decision.approve(self._arguments if changed else None, always=always))

    def edit(self) -> None:
        """Show the arguments to be changed, or forget the changes."""
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
        self._text.value = FORM_STYLE + question_html(self.request, arguments)
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
