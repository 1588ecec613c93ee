"""The panel of a log-in: the link to click on, and a field for the address where the way back does not lead here."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.widgets.authorization_text import login_html, outcome_bundle
from mcp_magic.widgets.look import FORM_STYLE, problem_markup
from mcp_magic.widgets.question import QuestionPanel

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn
    from mcp_magic.widgets.approval import Show

__all__ = ["AuthorizationPanel"]


class AuthorizationPanel(QuestionPanel[str]):
    """An authorizer: shows a log-in, and stays until it is answered, here or at the loopback callback.

    Args:
        show: Shows the panel where the person is looking.

    Attributes:
        field: Takes the pasted address.
        problem: Says why an address was not taken.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(show)
        self.field: Any = None
        self.problem: Any = None

    async def ask(self, login: LogIn) -> None:
        """Show a log-in and wait for its answer."""
        # The address stays out of what a notebook keeps where no widget is shown.
        question = {"text/html": login_html(login), "text/plain": f"log-in at {login.host}"}
        waiting = asyncio.ensure_future(self._follow(login))
        try:
            await self._wait(partial(self._build, login), question, lambda _, seconds: outcome_bundle(login, seconds))
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
        field.value = ""  # it holds the code
        self._post(_say, note, problem)


def _say(note: Any, problem: str) -> None:
    note.value = str(problem_markup(problem)) if problem else ""
