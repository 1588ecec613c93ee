"""The callbacks by which the server of a session asks the user and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.ask.elicitation import ElicitationSettings, Questions
from mcp_magic.ask.sampling import SamplingQuestions, SamplingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_magic.consent.consent import Consent
    from mcp_magic.flight.questions import QuestionQueue
    from mcp_magic.session.wire import ErrorContext


class SessionQuestions:
    """Answers the elicitations and the sampling requests of one session (`session.services.Questions`)."""

    def __init__(
        self,
        elicitation: ElicitationSettings,
        sampling: SamplingSettings,
        consent: Consent | None,
        place: ErrorContext,
        queue: QuestionQueue,
        log: Callable[[str, str], None],
        conceal: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.elicitation = Questions(place.name, elicitation, queue, log, conceal)
        self.sampling = SamplingQuestions(place.name, place.spec, sampling, consent, queue, log)

    def client_options(self) -> dict[str, Any]:
        """Return the options of a client that is made now: its callbacks, and the capabilities that they announce."""
        elicitation = {"elicitation_callback": self.elicitation} if self.elicitation.announced else {}
        return {**elicitation, **self.sampling.options}

    async def visited(self, required: Any) -> bool:
        """Whether the user visits the pages in the data of error -32042; False if there are none."""
        return await self.elicitation.visited(required)
