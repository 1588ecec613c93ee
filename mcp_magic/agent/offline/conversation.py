"""Where a conversation stands: the last request, what was done for it, and what was asked back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mcp_magic.agent.offline.results import Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

__all__ = ["ASKED", "Asked", "Conversation", "conversation"]

ASKED = "asked_back"
"""The key in an `AIMessage`'s `additional_kwargs` that keeps what a question was about."""


@dataclass(frozen=True)
class Asked:
    """A question that was asked back.

    Attributes:
        request: The request that lacks something.
        tool: The provider's name of the tool that needs it.
        wanted: The arguments asked for.
        given: What earlier replies gave, by argument.
    """

    request: str
    tool: str
    wanted: tuple[str, ...]
    given: dict[str, Any]

    def kept(self) -> dict[str, Any]:
        """Return the question as JSON, to be kept with the message that asks it."""
        return {"request": self.request, "tool": self.tool, "wanted": list(self.wanted), "given": self.given}


@dataclass(frozen=True)
class Conversation:
    """Where a conversation stands.

    Attributes:
        request: What the person said last.
        turns: The results of each turn of calls since, in order.
        earlier: The results before.
        asked: The question that the request may be a reply to, or None.
    """

    request: str
    turns: list[list[Outcome]] = field(default_factory=list)
    earlier: list[Outcome] = field(default_factory=list)
    asked: Asked | None = None


def conversation(messages: Sequence[BaseMessage], persons: Mapping[str, str]) -> Conversation:
    """Return where a conversation stands.

    Args:
        messages: All of it; what a system message says is not understood and not followed.
        persons: By provider's name the name of a tool for people.
    """
    last = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    if last < 0:
        return Conversation("")
    before, after = messages[:last], messages[last + 1 :]
    return Conversation(
        request=messages[last].text.strip(),
        turns=_turns(after, persons),
        earlier=[each for turn in _turns(before, persons) for each in turn],
        asked=_asked(before),
    )


def _turns(messages: Sequence[BaseMessage], persons: Mapping[str, str]) -> list[list[Outcome]]:
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    turns = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            calls = [(answers[call["id"]], call) for call in message.tool_calls if call["id"] in answers]
            turns.append([outcome(said, call["args"], persons.get(call["name"], call["name"])) for said, call in calls])
    return turns


def _asked(before: Sequence[BaseMessage]) -> Asked | None:
    last = before[-1] if before else None
    kept = last.additional_kwargs.get(ASKED) if isinstance(last, AIMessage) else None
    if not isinstance(kept, dict):
        return None
    return Asked(str(kept["request"]), str(kept["tool"]), tuple(kept["wanted"]), dict(kept["given"]))
