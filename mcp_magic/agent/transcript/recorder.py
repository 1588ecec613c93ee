"""Makes transcript entries from the events of a run, and events from stored messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.agent.transcript import entries
from mcp_magic.agent.transcript.entries import OPEN, Asked, Called, Note, Said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from langchain_core.messages import AnyMessage, BaseMessage
    from langchain_core.messages.utils import MessageLikeRepresentation
    from mcp_types import Tool

    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["Recorder", "events_of", "messages_of"]


# Conversion of events to entries, one method for each kind of event.
# The graph writes the events while it runs; `events_of` makes them from stored messages.

Event = dict[str, Any]


class Recorder:
    """Collects the entries of a transcript.

    Attributes:
        entries: The entries, in order.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._said: dict[str, Said] = {}
        self._called: dict[str, Called] = {}
        self._steps = 0
        self._calls = 0
        self._kinds: dict[str, Callable[[Event], Entry | None]] = {
            "asked": self._on_asked,
            "text": self._on_text,
            "said": self._on_said,
            "call": self._on_call,
            "decided": self._on_decided,
            "started": self._on_started,
            "progress": self._on_progress,
            "result": self._on_result,
            "note": self._on_note,
        }

    def take(self, event: Mapping[str, Any]) -> Entry | None:
        """Take an event; return the entry it made or changed, or None for an unknown kind."""
        handler = self._kinds.get(str(event.get("kind")))
        entry = handler(dict(event)) if handler else None
        if entry is not None:
            entry.changed()
        return entry

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def calls(self) -> list[Called]:
        """Return the calls, in order."""
        return [entry for entry in self.entries if isinstance(entry, Called)]

    def close(self, status: str) -> Iterator[Entry]:
        """Give open calls a final status and end the turn in progress; yield the changed entries."""
        for entry in self.entries:
            if isinstance(entry, Called) and entry.status in OPEN:
                entry.status = status
            elif isinstance(entry, Said) and not entry.complete:
                entry.complete, entry.interrupted = True, status == "interrupted"
            else:
                continue
            entry.changed()
            yield entry

    # The user

    def _on_asked(self, event: Event) -> Asked:
        self._steps = 0 if event.get("role") != "system" else self._steps
        asked = Asked(str(event["text"]), int(event.get("images", 0)), str(event.get("role", "person")))
        self._add(asked)
        return asked

    # The model

    def _on_text(self, event: Event) -> Said:
        said = self._turn(str(event["id"]))
        said.text += str(event["text"])
        return said

    def _on_said(self, event: Event) -> Said:
        message = event["message"]
        said = self._turn(str(message.id or ""))
        said.text = entries.text_of(message)
        said.thinking = entries.thinking_of(message)
        said.images = entries.images_of(message)
        said.usage = entries.tokens_of(message)
        said.model = entries.model_of(message)
        said.calls = len(entries.wanted_by(message))
        said.is_turn = not entries.is_stop(message)
        said.complete = True
        return said

    def _turn(self, id_: str) -> Said:
        """Return the turn with an id, or the turn in progress: some providers give its parts different ids."""
        known = self._said.get(id_) if id_ else None
        if known is None and self.entries:
            last = self.entries[-1]
            known = last if isinstance(last, Said) and not last.complete else None
        if known is None:
            self._steps += 1
            known = Said(id_, step=self._steps)
            self._add(known)
        self._said[id_] = known
        return known

    # The tools

    def _on_call(self, event: Event) -> Called:
        id_ = str(event["id"])
        called = self._called.get(id_)
        # A resumed graph announces waiting calls again; an id that returns after its result is another call.
        if called is None or called.status not in OPEN:
            called = Called(id_, number=self._calls, step=int(event.get("step") or self._steps))
            self._calls += 1
            self._called[id_] = called
            self._add(called)
        called.server, called.tool = str(event.get("server") or ""), str(event["tool"])
        called.arguments = dict(event.get("arguments") or {})
        called.definition = event.get("definition")
        called.trusted = bool(event.get("trusted"))
        return called

    def _on_decided(self, event: Event) -> Called | None:
        called = self._called.get(str(event["id"]))
        if called is None:
            return None
        called.approved, called.by = bool(event["approved"]), str(event.get("by") or "")
        called.reason = str(event.get("reason") or "")
        called.changed_arguments = event.get("arguments")
        if not called.approved:
            called.status = "denied"
        return called

    def _on_started(self, event: Event) -> Called | None:
        called = self._called.get(str(event["id"]))
        if called is not None and called.status in OPEN:
            called.status = "running"
        return called

    def _on_progress(self, event: Event) -> Called | None:
        called = self._called.get(str(event["id"]))
        if called is None or called.status not in OPEN:
            return None
        called.progress = (event["progress"], event.get("total"), str(event.get("message") or ""))
        return called

    def _on_result(self, event: Event) -> Called:
        message = event["message"]
        called = self._called.get(str(event["id"]))
        if called is None:
            called = self._on_call({"id": event["id"], "server": "", "tool": message.name or "tool"})
        artifact = entries.artifact_of(message)
        if not called.server:  # an old name: only the artifact tells the server
            called.server = str(artifact.get("server") or "")
            called.tool = str(artifact.get("tool") or called.tool)
        called.seconds = None if called.status == "denied" else entries.seconds_of(artifact)
        called.take(message)
        if artifact.get("interrupted"):
            called.status = "interrupted"
        elif called.status != "denied":
            called.status = "error" if entries.failed(message) else "ok"
        return called

    def _on_note(self, event: Event) -> Note:
        note = Note(str(event["text"]), str(event.get("level", "info")))
        self._add(note)
        return note


# Stored messages as the events of the run that made them.


def messages_of(messages: Iterable[MessageLikeRepresentation]) -> list[AnyMessage]:
    """Return LangChain messages; dicts in OpenAI's format, (role, text) pairs and strings are converted."""
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(list(messages))  # type: ignore[return-value]


def events_of(
    messages: Iterable[BaseMessage],
    person_name: Callable[[str], str],
    definitions: Mapping[str, Tool],
) -> Iterator[dict[str, Any]]:
    """Yield the events of the run that made these messages.

    Args:
        messages: In order.
        person_name: Returns `server:tool` for the name that the provider knows.
        definitions: The servers' definitions of tools, by `server:tool`, where known.
    """
    turn = 0
    for message in messages:
        if message.type in ("human", "system", "developer", "chat"):
            role = "system" if message.type in ("system", "developer") else "person"
            text, images = entries.text_of(message), entries.images_of(message)
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
    for number, wanted in enumerate(entries.wanted_by(message)):
        name = person_name(wanted.name)
        server, _, tool = name.rpartition(":")
        known = {"server": server, "tool": tool, "definition": definitions.get(name)}
        id_ = wanted.id or f"#{number}"
        yield {"kind": "call", "id": id_, "arguments": wanted.arguments, "step": None, **known}


def _answer(message: Any, person_name: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    artifact = entries.artifact_of(message)
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
