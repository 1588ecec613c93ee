"""The transcript of an agent: takes the events of a run, or stored messages, and displays itself while it grows."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic._text import clean
from mcp_magic.agent.calls import asked_calls
from mcp_magic.agent.events import (
    CallEvent,
    DecisionEvent,
    NoteEvent,
    ProgressEvent,
    RequestEvent,
    ResultEvent,
    StartEvent,
    TextEvent,
    TurnEvent,
)
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.agent.transcript.entries import (
    OPEN,
    CallEntry,
    CallStatus,
    Entry,
    Level,
    NoteEntry,
    RequestEntry,
    TurnEntry,
    add_usage,
    artifact_of,
    images_of,
    text_of,
)
from mcp_magic.agent.transcript.render import STYLE, Segments, folded, totals
from mcp_magic.display import document
from mcp_magic.display.document import Part, only, page, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage
    from langchain_core.messages.utils import MessageLikeRepresentation
    from mcp_types import Tool

    from mcp_magic.agent.events import Event
    from mcp_magic.agent.transcript.render import Segment
    from mcp_magic.results.results import ToolResult


SHOWS = ("full", "answer", "none")

E = TypeVar("E", bound=Entry)


class Transcript:
    """The transcript of an agent: takes the graph's events, and displays itself whole or in segments."""

    def __init__(self, *, show: str = "full", tokens: bool = True) -> None:
        self.show = show
        self._tokens = tokens
        self._entries: list[Entry] = []
        self._turns_by_id: dict[str, TurnEntry] = {}
        self._calls: dict[str, CallEntry] = {}
        self._open: set[CallEntry] = set()
        self._turns = self._call_count = 0
        self._segments = Segments(self._is_shown)

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[MessageLikeRepresentation],
        *,
        show: str = "full",
        tokens: bool = True,
        definitions: Mapping[str, Tool] | None = None,
    ) -> Transcript:
        """Return the transcript of a thread's messages, also from agents made elsewhere."""
        from mcp_magic.langchain.names import Names

        pairs = (name.partition(":") for name in definitions or ())
        names = Names((server, tool) for server, _, tool in pairs)
        made = cls(show=show, tokens=tokens)
        for event in events_of(messages_of(messages), names.person, definitions or {}):
            made.on_event(event)
        made.finish()
        return made

    def on_event(self, event: object) -> None:
        """Take an event of a run; other values, which nodes of the user may write to the stream, are ignored."""
        entry: Entry | None = None
        match event:
            case RequestEvent(text, images, role):
                self._turns = self._turns if role == "system" else 0
                entry = self._add(RequestEntry(text, images, role))
            case TextEvent(id_, text):
                entry = turn = self._turn(id_)
                turn.text += text
            case TurnEvent(message):
                entry = turn = self._turn(str(message.id or ""))
                turn.complete_with(message)
            case CallEvent():
                entry = self._announce(event)
            case DecisionEvent() | StartEvent() | ProgressEvent():
                call = self._calls.get(event.id)
                entry = call if call is not None and call.update(event) else None
            case ResultEvent(id_, message):
                entry = call = self._calls.get(id_) or self._announce(CallEvent(id_, message.name or "tool"))
                call.answer(message)
            case NoteEvent(text, level):
                entry = self._add(NoteEntry(text, level))
        if entry is not None:
            self._touch(entry)

    def interrupted(self) -> None:
        """Mark the run as interrupted: open calls and the turn in progress will not finish."""
        self._close(CallStatus.INTERRUPTED)

    def finish(self) -> None:
        """Mark the run as over: the outcome of calls that are still open stays unknown."""
        self._close(CallStatus.CUT_OFF)

    def _close(self, status: CallStatus) -> None:
        for entry in self._entries:
            if isinstance(entry, CallEntry) and entry.status in OPEN:
                entry.status = status
            elif isinstance(entry, TurnEntry) and not entry.complete:
                entry.complete, entry.interrupted = True, status == CallStatus.INTERRUPTED
            else:
                continue
            self._touch(entry)

    def _touch(self, entry: Entry) -> None:
        """Take note of a new or changed entry."""
        if isinstance(entry, CallEntry) and not entry.is_over:
            self._open.add(entry)
        elif isinstance(entry, CallEntry):
            self._open.discard(entry)
        self._segments.touch(entry)

    def _add(self, entry: E) -> E:
        self._entries.append(entry)
        return entry

    def _turn(self, id_: str) -> TurnEntry:
        """Return the turn with an id, or the turn in progress: some providers give its parts different ids."""
        turn = self._turns_by_id.get(id_) if id_ else None
        if turn is None:  # calls that the model still writes may stand below it
            last = next((entry for entry in reversed(self._entries) if isinstance(entry, TurnEntry)), None)
            turn = last if last is not None and not last.complete else None
        if turn is None:
            self._turns += 1
            turn = self._add(TurnEntry(id_, turn=self._turns))
        self._turns_by_id[id_] = turn
        return turn

    def _announce(self, event: CallEvent) -> CallEntry:
        """Return the entry of a call.

        A resumed graph announces waiting calls again; an id that returns after its result is another call.
        """
        call = self._calls.get(event.id)
        if call is None or call.status not in OPEN:
            call = self._add(CallEntry(event.id, number=self._call_count, turn=event.turn or self._turns))
            self._call_count += 1
            self._calls[event.id] = call
        call.announce(event)
        return call

    # Contents

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries: requests, turns, calls and notes, in order."""
        return tuple(self._entries)

    @property
    def is_answered(self) -> bool:
        """Whether the model has begun its first turn."""
        return any(isinstance(entry, TurnEntry) for entry in self._entries)

    @property
    def calls(self) -> list[CallEntry]:
        """The calls, in order."""
        return [entry for entry in self._entries if isinstance(entry, CallEntry)]

    @property
    def results(self) -> list[ToolResult | None]:
        """The results of the calls, in order; None for an unanswered call."""
        return [called.result for called in self.calls]

    @property
    def answer(self) -> str:
        """The last answer, or ""."""
        answers = (e for e in reversed(self._entries) if isinstance(e, TurnEntry) and e.is_answer and e.text)
        return next((said.text for said in answers), "")

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all turns: `input_tokens`, `output_tokens`, `total_tokens`; {} if no model reports any."""
        return add_usage(entry.usage for entry in self._entries if isinstance(entry, TurnEntry))

    def __repr__(self) -> str:
        return f"<Transcript: {self.summary or f'{len(self.entries)} entries'}>"

    # The live screen

    @property
    def segment_count(self) -> int:
        """The number of segments; the last one grows."""
        return 0 if self.show == "none" else len(self._segments.all)

    @property
    def is_running(self) -> bool:
        """Whether a call runs, so that a clock goes on."""
        return any(called.status == CallStatus.RUNNING for called in self._open)

    @property
    def dirty(self) -> set[int]:
        """Indexes of the segments that changed since `render_segment` last rendered them; clocks change them too."""
        for called in self._open:
            if called.is_timed:
                self._segments.touch(called)
        self._segments.settle()
        return {index for index in self._segments.dirty if index < self.segment_count}

    def render_segment(self, index: int) -> dict[str, Any]:
        """Return the mimebundle of one segment."""
        self._segments.settle()
        self._segments.dirty.discard(index)
        # all segments are on one page, so only the first has the style
        return _bundle(self._segment(self._segments.all[index]), styled=index == 0)

    def complete_texts(self, start: int) -> list[str]:
        """Return the texts of the entries from `start` up to the first that is not final.

        For a screen that only appends. An entry that is not displayed has the text ""; the others begin with a blank
        line, except a call below a call.
        """
        texts: list[str] = []
        before: Entry | None = next((entry for entry in reversed(self._entries[:start]) if self._is_shown(entry)), None)
        for entry in takewhile(lambda entry: entry.is_over, self._entries[start:]):
            texts.append(self._segments.text(entry) if self._is_shown(entry) else "")
            if texts[-1]:
                calls = isinstance(before, CallEntry) and isinstance(entry, CallEntry)
                texts[-1] = texts[-1] if calls or before is None else f"\n{texts[-1]}"
                before = entry
        return texts

    @property
    def summary(self) -> str:
        """The last line: turns, calls and their outcomes, seconds in tools, tokens; "" without calls."""
        return totals(self._entries, tokens=self._tokens)

    # Display

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        self._segments.settle()
        shown = self._segments.all if self.show != "none" else []
        gone = sum(len(segment.entries) for segment in shown if segment.level == Level.GONE)
        kept = [segment for segment in shown if segment.level < Level.GONE]
        entries = [entry for segment in kept for entry in segment.entries if self._is_shown(entry)]
        drawn = [each.part for segment in kept for each in self._segments.drawings(segment, segment.level)]
        whole = Part.stack(_gone(gone), folded(entries, drawn, go_on=False), *self._last_line(), gap="\n\n")
        return only(_bundle(whole), include, exclude)

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    def _is_shown(self, entry: Entry) -> bool:
        if self.show == "full" or entry.is_blank:
            return self.show == "full" and not entry.is_blank
        return self.show == "answer" and not isinstance(entry, CallEntry) and getattr(entry, "is_answer", True)

    def _segment(self, segment: Segment) -> Part:
        if segment.level == Level.GONE:
            return _gone(len(segment.entries))
        is_last = segment is self._segments.all[-1]
        entries = [entry for entry in segment.entries if self._is_shown(entry)]
        drawn = [each.part for each in self._segments.drawings(segment, segment.level)]
        part = folded(entries, drawn, go_on=not is_last)
        return Part.stack(part, *(self._last_line() if is_last else []), gap="\n\n")

    def _last_line(self) -> list[Part]:
        summary = self.summary if self.show != "none" else ""
        return [Part(clean(summary), tag("div", summary, class_="mcp-totals"))] if summary else []


def _gone(count: int) -> Part:
    return Part.note(f"… {count:,} earlier entries are not shown" if count else "")


def _bundle(part: Part, *, styled: bool = True) -> dict[str, Any]:
    """Return a mimebundle; its texts are empty if there is nothing to show."""
    plain = clean(part.plain)  # the texts are clean already, and cleaning them again changes nothing
    if not part.html:
        return {"text/plain": plain, "text/html": ""}
    html = page([part.html], style=document.STYLE + STYLE if styled else "")
    return {"text/plain": plain, "text/html": html}


# Stored messages as the events of the run that made them.


def messages_of(messages: Iterable[MessageLikeRepresentation]) -> list[AnyMessage]:
    """Return LangChain messages; dicts in OpenAI's format, (role, text) pairs and strings are converted."""
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(list(messages))  # type: ignore[return-value]


def events_of(
    messages: Iterable[BaseMessage], person_name: Callable[[str], str], definitions: Mapping[str, Tool]
) -> Iterator[Event]:
    """Yield the events of the run that made these messages."""
    turn = 0
    for message in messages:
        if message.type in ("human", "system", "developer", "chat"):
            role = "system" if message.type in ("system", "developer") else "person"
            yield RequestEvent(text_of(message), images_of(message), role)
        elif message.type in ("ai", "AIMessageChunk"):
            turn += 1
            yield TurnEvent(message if message.id else message.model_copy(update={"id": f"#{turn}"}))
            for number, call in enumerate(asked_calls(message)):
                name = person_name(call.name)
                server, _, tool = name.rpartition(":")
                yield CallEvent(call.id or f"#{number}", tool, server, call.arguments, definitions.get(name))
        elif message.type in ("tool", "ToolMessageChunk"):
            yield from _answer(message, person_name)


def _answer(message: Any, person_name: Callable[[str], str]) -> Iterator[Event]:
    artifact, id_ = artifact_of(message), message.tool_call_id
    approval = artifact.get("approval")
    if isinstance(approval, dict):
        verdict = approval.get("decision")
        arguments = artifact.get("arguments") if verdict == "edit" else None
        by, reason = str(approval.get("by") or ""), str(approval.get("reason") or "")
        yield DecisionEvent(id_, verdict != "deny", by, reason, arguments)
    for inner, arguments in _inner_calls(message, artifact):
        server, _, tool = inner.name.partition(":")
        yield CallEvent(inner.tool_call_id, tool, server, dict(arguments or {}), parent=id_)
        yield from _answer(inner, str)
    if message.name:
        message = message.model_copy(update={"name": person_name(message.name)})
    yield ResultEvent(id_, message)


def _inner_calls(message: Any, artifact: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the answers to the calls of a program and their arguments, as its artifact stores them."""
    from langchain_core.messages import ToolMessage
    from pydantic import ValidationError

    calls = artifact.get("calls") if message.name == RUN_PROGRAM else None
    for stored in calls if isinstance(calls, list) else ():
        with suppress(ValidationError, TypeError, KeyError):  # the artifact is damaged
            facts = {name: stored[name] for name in ("name", "content", "artifact", "status")}
            yield ToolMessage(**facts, tool_call_id=stored["id"]), stored["arguments"]
