"""The notebook's elicitor: asks where a person can answer, in the ways of `asking`; else the answer is no, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.elicitation import Answer
from mcp_magic.magics.asking import EARLIER, Asking, show_below
from mcp_magic.magics.eliciting_input import ElicitationInput

if TYPE_CHECKING:
    from mcp_magic.core.elicitation import Elicitation, Elicitors

__all__ = ["Eliciting"]

NOBODY = "nobody can be asked here, where no input is allowed; `%mcp call --answers FILE` answers"


class Eliciting:
    """The elicitor.

    Args:
        asking: Knows how a person can be asked.
        elicitors: Whose time-out holds.
    """

    def __init__(self, asking: Asking, elicitors: Elicitors) -> None:
        self._asking = asking
        self._elicitors = elicitors

    async def __call__(self, asked: Elicitation) -> Answer:
        """Ask for an answer.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        way = await self._asking.way()
        if way == "input":
            return await ElicitationInput(seconds=self._elicitors.timeout - EARLIER).elicit(asked)
        if way == "nobody":
            return Answer.decline(NOBODY)
        from mcp_magic.widgets.elicitation import ElicitationPanel

        return await self._asking.below_a_cell(lambda: ElicitationPanel(show_below).ask(asked))
