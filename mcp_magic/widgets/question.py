"""A panel that asks one question, is replaced by one line when it is answered, and leaves no widget behind."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import ipywidgets

from mcp_magic.widgets.approval import WIDGET_VIEW
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from mcp_magic.widgets.approval import Show

__all__ = ["QuestionPanel"]

T = TypeVar("T")


class QuestionPanel(Generic[T]):
    """Shows a question and waits for the answer.

    Answered, it is replaced by one line of HTML and text, which stays in the saved notebook, and its widgets are
    closed. What a frontend sends may be handled on another thread (ipykernel's subshells), so handlers note what is
    entered and post the answer to the loop that waits. No input takes the focus when it appears.

    Args:
        show: Shows the panel where the person is looking.

    Attributes:
        widget: The live panel; None while nothing waits.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._shop = Shop()
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
        """Show what is asked and wait for the answer; whoever cancels the wait leaves a line that says so.

        Args:
            build: Makes the widgets, one below the other.
            question: The mimebundle for where there are no widgets.
            outcome: Returns the line of an answer (None: there is none) and the seconds that it took.
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
            # First the line, then the end of the widgets: a frontend would show them as lost for a moment.
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
        """Do something on the loop that waits, in the context of the cell (see `ApprovalPanel._post`)."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work, *arguments, context=self._context)

    def _settle(self, answer: T) -> None:
        self._post(self._take, answer)

    def _take(self, answer: T) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
