"""What is taken back of a thread whose conversation a provider refuses, so that the thread can go on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, ToolMessage

from mcp_magic._text import join_names
from mcp_magic.agent.calls import calls_of
from mcp_magic.agent.transcript.entries import is_turn
from mcp_magic.display.arguments import call_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import BaseMessage


def refused_from(messages: Sequence[BaseMessage], *, again: bool = False) -> int:
    """Return the index from which on messages are taken back: those that no provider has taken yet.

    These are the last turn with the answers to its calls, or the request if there is no such turn.

    Args:
        messages: The refused conversation.
        again: Whether the one before it was refused, too: then the last turn goes in any case.
    """
    turn = max((at for at, message in enumerate(messages) if is_turn(message)), default=-1)
    said = max((at for at, message in enumerate(messages) if message.type == "ai"), default=-1)
    if turn >= 0 and (again or (turn == said and calls_of(messages[turn]))):
        return turn
    first = next((at for at, message in enumerate(messages) if message.type == "human"), 0)
    return first if again else max(said + 1, first)


def refused_note(messages: Sequence[BaseMessage], person_name: Callable[[str], str]) -> AIMessage | None:
    """Return what a model reads in place of a turn that is taken back: which calls were made; None if none was."""
    made = _made(messages, person_name)
    if not made:
        return None
    text = (
        f"Made: {join_names(made, len(made))}. The provider refused the answers, so they are not in this conversation."
    )
    return AIMessage(text, id=f"refused_{uuid.uuid4().hex}", response_metadata={"stopped": "refused"})


def refused_text(messages: Sequence[BaseMessage], person_name: Callable[[str], str]) -> str:
    """Return what an error says of the messages that are taken back."""
    taken = "your last request"
    if any(message.type == "ai" for message in messages):
        made = join_names(_made(messages, person_name), 3)
        taken = f"the last turn, with the answers to {made}" if made else "the last turn"
    return f"taken back from the thread, which can go on without it: {taken}"


def _made(messages: Sequence[BaseMessage], person_name: Callable[[str], str]) -> list[str]:
    """Return the calls that were made."""
    made = {each.tool_call_id for each in messages if isinstance(each, ToolMessage) and each.status == "success"}
    calls = [call for message in messages for call in getattr(message, "tool_calls", ()) if call["id"] in made]
    return [f"{person_name(call['name'])}({call_line(call['args'], None)})" for call in calls]
