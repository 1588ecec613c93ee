"""The notebook's reviewer: asks where a person can answer, in the ways of `asking`; else the answer is no, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.core.sampling.sampling import Review
from mcp_magic.magics.asking import EARLIER, Asking, show_below
from mcp_magic.magics.sampling_input import SamplingInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.sampling.sampling import Expected, Sampled, Samplers, SamplingRequest

__all__ = ["Reviewing", "answer_sampling", "end_sampling"]

NOBODY = (
    "nobody can be asked here, where no input is allowed; `%mcp connect --sampling auto` answers without asking, "
    "`%mcp call --answers FILE` replies"
)


class Reviewing:
    """The reviewer.

    Args:
        asking: Knows how a person can be asked.
        samplers: Whose time-out holds.
    """

    def __init__(self, asking: Asking, samplers: Samplers) -> None:
        self._asking = asking
        self._samplers = samplers
        self._wants_replies: dict[str, bool] = {}

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        way = await self._asking.way()
        if way == "nobody":
            return Review.deny(NOBODY, by="nobody")
        if way == "input":
            return await self._input().request(asked, expected)
        from mcp_magic.widgets.sampling import RequestPanel

        wanted = self._wants_replies.get(asked.server, False)
        panel = RequestPanel(show_below, show_reply=wanted)
        review = await self._asking.below_a_cell(lambda: panel.ask(asked, expected))
        if review.approved:
            self._wants_replies[asked.server] = review.show_reply
        return review

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a reply may be sent.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        way = await self._asking.way()
        if way == "nobody":
            return Review.deny(NOBODY, by="nobody")
        if way == "input":
            return await self._input().reply(asked, reply)
        from mcp_magic.widgets.sampling import ReplyPanel

        return await self._asking.below_a_cell(lambda: ReplyPanel(show_below).ask(asked, reply))

    def _input(self) -> SamplingInput:
        return SamplingInput(seconds=self._samplers.timeout - EARLIER)


def answer_sampling(samplers: Samplers, asking: Asking, model: Callable[[], Any]) -> None:
    """Let the configured model answer and the person be asked, unless somebody else has been set for that.

    Args:
        samplers: Who answers.
        asking: Knows how a person can be asked.
        model: Returns the setting.
    """
    if samplers.sampler is None:
        samplers.sampler = ModelSampler(model)
    if samplers.reviewer is None:
        samplers.reviewer = Reviewing(asking, samplers)


def end_sampling(samplers: Samplers) -> None:
    """Undo `answer_sampling`."""
    if isinstance(samplers.sampler, ModelSampler):
        samplers.sampler = None
    if isinstance(samplers.reviewer, Reviewing):
        samplers.reviewer = None
