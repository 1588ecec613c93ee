"""The panel in which a person answers what a server asks for: a form to fill in, or a page to visit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.elicitation import Answer
from mcp_magic.widgets.elicitation_text import outcome_bundle, question_html, question_text
from mcp_magic.widgets.form import Form
from mcp_magic.widgets.look import FORM_STYLE
from mcp_magic.widgets.question import QuestionPanel

if TYPE_CHECKING:
    from mcp_magic.core.elicitation import Elicitation
    from mcp_magic.widgets.approval import Show

__all__ = ["ElicitationPanel"]


class ElicitationPanel(QuestionPanel[Answer]):
    """An elicitor: each question is a panel of its own, shown by `show`.

    Args:
        show: Shows the panel where the person is looking.

    Attributes:
        widget: The live panel; None while nothing waits.
        form: Its form; None where there is none.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.form: Form | None = None

    async def ask(self, asked: Elicitation) -> Answer:
        """Show what is asked for and wait for the answer; whoever cancels the wait leaves a line that says so."""
        question = {"text/html": question_html(asked), "text/plain": question_text(asked)}
        try:
            return await self._wait(partial(self._build, asked), question, partial(outcome_bundle, asked))
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
