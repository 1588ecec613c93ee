"""The notebook's authorizer: shows a log-in where a person can answer, in the ways of `asking`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.magics.asking import Asking, show_below

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIn, LogIns
    from mcp_magic.magics.cells import Cells

__all__ = ["Authorizing", "authorize", "authorize_no_more"]


class Authorizing:
    """The authorizer.

    Args:
        asking: Knows how a person can be asked.
        cells: Knows whether this is a terminal.
    """

    def __init__(self, asking: Asking, cells: Cells) -> None:
        self._asking = asking
        self._cells = cells

    async def possible(self) -> bool:
        """Whether a person can be asked now."""
        return await self._asking.way() != "nobody"

    async def __call__(self, login: LogIn) -> None:
        """Show a log-in until it is answered."""
        way = await self._asking.way()
        if way == "panel":
            from mcp_magic.widgets.authorization import AuthorizationPanel

            await self._asking.below_a_cell(lambda: AuthorizationPanel(show_below).ask(login))
        elif way == "input" and self._cells.kernel is None:
            from mcp_magic.magics.authorizing_input import in_terminal

            await in_terminal(login)
        elif way == "input":
            from mcp_magic.magics.authorizing_input import LogInInput

            await LogInInput(seconds=login.seconds).authorize(login)


def authorize(logins: LogIns, asking: Asking, cells: Cells) -> None:
    """Let the notebook show log-ins, unless somebody else does."""
    if logins.authorizer is None:
        authorizing = Authorizing(asking, cells)
        logins.ask_with(authorizing, authorizing.possible, asking.confirm)


def authorize_no_more(logins: LogIns) -> None:
    """Undo that."""
    if isinstance(logins.authorizer, Authorizing):
        logins.ask_with(None)
