"""What a server asks a model for in the middle of a call (specification, "Sampling"): the values.

Messages, tools and preferences are the SDK's own, as they came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.core.consent.consent import PERSON

if TYPE_CHECKING:
    from mcp_types import ModelPreferences, SamplingMessage, SamplingMessageContentBlock, Tool

__all__ = [
    "Expected",
    "Prepared",
    "Review",
    "Reviewer",
    "Sampled",
    "Sampler",
    "Samplers",
    "SamplingRequest",
    "expected_of",
]

SAMPLE_SECONDS = 600.0
"""Seconds a person has to look at a request, a model to answer it, and the person to look at the reply."""


@dataclass(frozen=True)
class SamplingRequest:
    """What a server asks for.

    Attributes:
        server: The server's name.
        messages: The conversation, at least one message.
        max_tokens: Tokens that the reply may have.
        system_prompt: What the model is to be told first, or "".
        temperature: How much chance there is in the reply; None: as the model does it.
        stop_sequences: Texts before which the reply ends.
        preferences: Which model the server would like.
        tools: What the model may ask the server to call; None if the server does not speak of tools.
        tool_choice: `"auto"`, `"required"` or `"none"`.
        include_context: What the server would like to be added of servers: `"none"`, `"thisServer"`, `"allServers"`.
        metadata: For the model's provider.
        unasked: Whether it is answered without asking the person.
    """

    server: str
    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system_prompt: str = ""
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    preferences: ModelPreferences | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: str = "auto"
    include_context: str = "none"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    unasked: bool = False

    @property
    def usable_tools(self) -> tuple[Tool, ...]:
        """The tools that the model may ask for now."""
        return () if self.tool_choice == "none" else self.tools or ()


@dataclass(frozen=True)
class Sampled:
    """A model's reply.

    Attributes:
        content: The blocks: text, images, audio, and calls of tools where the server sent tools.
        model: The name of the model.
        stop_reason: `"endTurn"`, `"maxTokens"`, `"stopSequence"`, `"toolUse"`, or what the provider says.
        notes: What of the request was not done as it was asked for.
    """

    content: tuple[SamplingMessageContentBlock, ...]
    model: str
    stop_reason: str = "endTurn"
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, model: str) -> Sampled:
        """Return a reply of one text."""
        from mcp_types import TextContent

        return cls((TextContent(text=text),), model)

    @property
    def text(self) -> str:
        """The texts of it, with an empty line between."""
        return "\n\n".join(block.text for block in self.content if block.type == "text")


@dataclass(frozen=True)
class Expected:
    """What is known before a model is asked.

    Attributes:
        model: The name of the model that would answer; "" if nobody knows.
        notes: What of the request would not be done as it is asked for.
    """

    model: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Review:
    """What a person says of a request, or of the reply to it.

    Attributes:
        approved: Whether it goes on.
        request: The request as the person changed it; None if they did not.
        reply: The reply as the person changed it; None if they did not. Of a request: what is replied without a model.
        show_reply: Whether they want to see the reply before it is sent.
        reason: Why not, for `%mcp logs`; the server is told that it was rejected.
        by: Who says so.
    """

    approved: bool
    request: SamplingRequest | None = None
    reply: Sampled | None = None
    show_reply: bool = False
    reason: str = ""
    by: str = PERSON

    @classmethod
    def approve(
        cls, request: SamplingRequest | None = None, *, reply: Sampled | None = None, show_reply: bool = False
    ) -> Review:
        """Let it go on, changed if it is given."""
        return cls(True, request, reply, show_reply)

    @classmethod
    def deny(cls, reason: str = "", *, by: str = PERSON) -> Review:
        """Refuse it."""
        return cls(False, reason=reason, by=by)


Sampler = Callable[[SamplingRequest], Awaitable[Sampled]]
"""Lets a model answer: any `async def (request) -> Sampled`.

It may have `expected(request) -> Expected`, which says beforehand which model would answer and what would not be done
as it is asked for, and the attribute `takes_tools`; without it tools are taken to be understood.
"""


Prepared = Callable[[SamplingRequest], Awaitable[Review | None]]
"""Decides about a request beforehand, instead of the person, and with a reply instead of a model; None: ask them."""


class Reviewer(Protocol):
    """Asks the person."""

    async def request(self, asked: SamplingRequest, expected: Expected) -> Review:
        """Ask whether a model may answer."""

    async def reply(self, asked: SamplingRequest, reply: Sampled) -> Review:
        """Ask whether a reply may be sent."""


@dataclass
class Samplers:
    """Who answers what servers ask models for.

    Attributes:
        sampler: Lets a model answer; None where there is none. A session says that it can sample if there is one when
            it is opened.
        reviewer: Asks the person; None where nobody can be asked.
        timeout: Seconds that each of them has.
        per_minute: Requests of one server that are answered without asking, within a minute; more are refused.
    """

    sampler: Sampler | None = None
    reviewer: Reviewer | None = None
    timeout: float = SAMPLE_SECONDS
    per_minute: int = 60

    @property
    def takes_tools(self) -> bool:
        """Whether the sampler understands tools."""
        return self.sampler is not None and bool(getattr(self.sampler, "takes_tools", True))


def expected_of(sampler: Sampler | None, asked: SamplingRequest) -> Expected:
    """Return what a sampler says beforehand.

    Raises:
        ModelError: No model can answer.
    """
    says: Callable[[SamplingRequest], Expected] | None = getattr(sampler, "expected", None)
    return says(asked) if says is not None else Expected()
