"""Kept messages, told again as the events of the run that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.agent.transcript import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from langchain_core.messages import AnyMessage, BaseMessage
    from langchain_core.messages.utils import MessageLikeRepresentation
    from mcp_types import Tool

__all__ = ["events_of", "messages_of"]


def messages_of(messages: Iterable[MessageLikeRepresentation]) -> list[AnyMessage]:
    """Return messages as LangChain's: dicts in OpenAI's format, (role, text) pairs and strings become messages."""
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(list(messages))  # type: ignore[return-value]


def events_of(
    messages: Iterable[BaseMessage],
    person_name: Callable[[str], str],
    definitions: Mapping[str, Tool],
) -> Iterator[dict[str, Any]]:
    """Yield the events of the run that left these messages.

    Args:
        messages: In order.
        person_name: A tool's name as people know it, of the name that the provider knows.
        definitions: By `server:tool`, what the servers say of their tools, where that is known.
    """
    turn = 0
    for message in messages:
        if message.type in ("human", "system", "developer", "chat"):
            role = "system" if message.type in ("system", "developer") else "person"
            text, images = reading.text_of(message), reading.images_of(message)
            yield {"kind": "asked", "text": text, "images": images, "role": role}
        elif message.type in ("ai", "AIMessageChunk"):
            turn += 1
            yield {"kind": "said", "message": message if message.id else message.model_copy(update={"id": f"#{turn}"})}
            yield from _calls(message, person_name, definitions)
        elif message.type in ("tool", "ToolMessageChunk"):
            yield from _answer(message, person_name)


def _calls(
    message: BaseMessage, person_name: Callable[[str], str], definitions: Mapping[str, Tool]
) -> Iterator[dict[str, Any]]:
    for number, wanted in enumerate(reading.wanted_by(message)):
        name = person_name(wanted.name)
        server, _, tool = name.rpartition(":")
        known = {"server": server, "tool": tool, "definition": definitions.get(name)}
        id_ = wanted.id or f"#{number}"
        yield {"kind": "call", "id": id_, "arguments": wanted.arguments, "step": None, **known}


def _answer(message: Any, person_name: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    artifact = reading.artifact_of(message)
    approval = artifact.get("approval")
    if isinstance(approval, dict):
        verdict = approval.get("decision")
        told = {"by": approval.get("by"), "reason": approval.get("reason")}
        changed = artifact.get("arguments") if verdict == "edit" else None
        yield {
            "kind": "decided",
            "id": message.tool_call_id,
            "approved": verdict != "deny",
            "arguments": changed,
        } | told
    if message.name:
        message = message.model_copy(update={"name": person_name(message.name)})
    yield {"kind": "result", "id": message.tool_call_id, "message": message}
