"""The panel that asks for a yes or a no to a text."""

from __future__ import annotations

from functools import partial
from typing import Any

import ipywidgets

from mcp_magic.results.html import page, tag
from mcp_magic.widgets.look import FORM_STYLE
from mcp_magic.widgets.question import QuestionPanel
from mcp_magic.wording import duration

__all__ = ["ConfirmationPanel"]


class ConfirmationPanel(QuestionPanel[bool]):
    """Asks for a yes. The first line of the text stays in the notebook, with the answer."""

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
