"""The panel in which a person answers what a server asks for: a form to fill in, or a page to visit."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.elicitation import Answer
from mcp_magic.widgets.approval import WIDGET_VIEW
from mcp_magic.widgets.elicitation_text import outcome_bundle, question_html, question_text
from mcp_magic.widgets.form import Form
from mcp_magic.widgets.look import FORM_STYLE
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from mcp_magic.core.elicitation import Elicitation
    from mcp_magic.widgets.approval import Show

__all__ = ["ElicitationPanel"]


class ElicitationPanel:
    """An elicitor: each question is a panel of its own, shown by `show`.

    Answered, it is replaced by one line of HTML and text, which stays in the saved notebook, and its widgets are
    closed. What a frontend sends may be handled on another thread (ipykernel's subshells), so handlers note what is
    entered and post the answer to the loop that waits. No input takes the focus when it appears.

    Args:
        show: Shows the panel where the person is looking.

    Attributes:
        widget: The live panel; None while nothing waits.
        form: Its form; None where there is none.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._shop = Shop()
        self._answer: asyncio.Future[Answer] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self.form: Form | None = None
        self.widget: Any = None

    async def ask(self, asked: Elicitation) -> Answer:
        """Show what is asked for and wait for the answer; whoever cancels the wait leaves a line that says so."""
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._answer = self._loop.create_future()
        try:
            self._build(asked)
        except Exception:
            self._shop.close()
            raise
        replace = self._show(self._live_bundle(asked))
        started = time.monotonic()
        answer = None
        try:
            answer = await self._answer
        finally:
            # First the line, then the end of the widgets: a frontend would show them as lost for a moment.
            replace(outcome_bundle(asked, answer, time.monotonic() - started))
            self._shop.close()
            self.widget = self.form = None
        return answer

    __call__ = ask

    def _build(self, asked: Elicitation) -> None:
        make = self._shop.make
        parts = [make(ipywidgets.HTML, "label", value=FORM_STYLE + question_html(asked))]
        if asked.mode == "form":
            self.form = form = Form(asked.schema, shop=self._shop)
            form.root.set(asked.defaults)
            form.on_submit(lambda content: self._settle(Answer.accept(content)))
            parts.append(form.widget)
            submit = self._button("Submit", "check", "send what is entered to the server", form.submit)
        else:
            submit = self._button("Done", "check", "I have opened the page myself; go on", self._accept_page)
        decline = self._button("Decline", "ban", "say no to the server", partial(self._settle, Answer.decline()))
        cancel = self._button("Cancel", "times", "do not answer the question", partial(self._settle, Answer.cancel()))
        buttons = [submit, decline, cancel, *([self.form.toggle] if self.form is not None else [])]
        parts.append(make(ipywidgets.HBox, "line", children=buttons))
        self.widget = make(ipywidgets.VBox, "inside", children=parts)

    def _button(self, text: str, icon: str, tooltip: str, clicked: Callable[[], Any]) -> Any:
        button = self._shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
        button.on_click(lambda _: clicked())
        return button

    def _accept_page(self) -> None:
        self._settle(Answer.accept())

    def _settle(self, answer: Answer) -> None:
        """Answer on the loop that waits, in the context of the cell (see `ApprovalPanel._post`)."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._take, answer, context=self._context)

    def _take(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _live_bundle(self, asked: Elicitation) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {WIDGET_VIEW: view, "text/html": question_html(asked), "text/plain": question_text(asked)}
