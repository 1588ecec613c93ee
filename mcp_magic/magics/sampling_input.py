"""Deciding with `input()` about what servers want of models: in terminals, and where clicks cannot be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.sampling.sampling import Review
from mcp_magic.core.sampling.texts import reply_texts, request_texts, with_reply_texts, with_request_texts
from mcp_magic.errors import ArgumentsError
from mcp_magic.magics.asking_input import InputAsker
from mcp_magic.magics.interrupts import interrupt
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_magic.core.sampling.sampling import Expected, Sampled, SamplingRequest
    from mcp_magic.core.sampling.texts import Text

__all__ = ["SamplingInput"]

REQUEST_CHOICES = "[a]pprove, approve and show me the [r]eply first, [e]dit, [d]eny: "
REPLY_CHOICES = "[s]end, [e]dit, [r]efuse: "
KEEP = "Each text on one line; empty keeps it, a single - leaves it out."


class SamplingInput(InputAsker):
    """A reviewer that asks line by line."""

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer; the end of input denies, and so does Ctrl-C where no magic runs that it ends.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        from mcp_magic.widgets.sampling_text import request_text

        return await self._until_ended(lambda: self._request(asked, lambda now: request_text(now, expected)))

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a reply may be sent; the end of input refuses it, and so does Ctrl-C, as above.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        from mcp_magic.widgets.sampling_text import reply_text

        return await self._until_ended(lambda: self._reply(asked, reply, lambda now: reply_text(asked, now)))

    async def _until_ended(self, ask: Callable[[], Review]) -> Review:
        await self._begin()
        try:
            return ask()
        except EOFError:
            return Review.deny("the input ended")
        except KeyboardInterrupt:
            pass
        await interrupt()
        return Review.deny("interrupted")

    def _request(self, asked: SamplingRequest, shown: Callable[[SamplingRequest], str]) -> Review:
        now = asked
        self._write(shown(now))
        while (choice := self._choice(REQUEST_CHOICES, "ared")) == "e":
            try:
                now = with_request_texts(now, self._retyped(request_texts(now)))
            except ArgumentsError as error:
                self._write(str(error))
            self._write(shown(now))
        if choice == "d":
            return Review.deny()
        return Review.approve(None if now is asked else now, show_reply=choice == "r")

    def _reply(self, asked: SamplingRequest, reply: Sampled, shown: Callable[[Sampled], str]) -> Review:
        now = reply
        self._write(shown(now))
        while (choice := self._choice(REPLY_CHOICES, "ser")) == "e":
            try:
                now = with_reply_texts(now, self._retyped(reply_texts(now)), asked.usable_tools)
            except ArgumentsError as error:
                self._write(str(error))
            self._write(shown(now))
        return Review.deny() if choice == "r" else Review.approve(reply=None if now is reply else now)

    def _retyped(self, texts: Sequence[Text]) -> list[str]:
        self._write(KEEP)
        return [self._new(text) for text in texts]

    def _new(self, text: Text) -> str:
        line = self._line(f"{one_line(text.label, 80)} [{one_line(text.text, 60)}]: ")
        return text.text if not line.strip() else "" if line.strip() == "-" else line
