"""A transcript: entries in, mimebundles out."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean
from mcp_magic.agent.transcript.entries import OPEN, Called, Level, Said, add_usage
from mcp_magic.agent.transcript.recorder import Recorder, events_of, messages_of
from mcp_magic.agent.transcript.render import STYLE, Canvas, Segments, status_text, totals
from mcp_magic.display import document
from mcp_magic.display.document import Markup, joined, note, only, page, tag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_core.messages.utils import MessageLikeRepresentation
    from mcp_types import Tool

    from mcp_magic.agent.transcript.entries import Entry
    from mcp_magic.agent.transcript.render import Segment
    from mcp_magic.langchain.names import Names
    from mcp_magic.results.results import ToolResult

__all__ = ["SHOWS", "Transcript"]

SHOWS = ("full", "answer", "none")


class Transcript:
    """What an agent did: takes the graph's events, displays itself, whole or in segments.

    Args:
        show: `"full"`, `"answer"` (requests, answers and notes, no calls) or `"none"`.
        tokens: Whether to tell the tokens of each turn and of all.

    Attributes:
        show: What is displayed.

    Raises:
        ValueError: `show` is none of `SHOWS`.
    """

    def __init__(self, *, show: str = "full", tokens: bool = True) -> None:
        if show not in SHOWS:
            raise ValueError(f"show={show!r}: it is one of {', '.join(SHOWS)}")
        self.show = show
        self._recorder = Recorder()
        self._segments = Segments(self._is_shown)
        self._canvas = Canvas(self._is_shown, tokens=tokens)

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[MessageLikeRepresentation],
        *,
        show: str = "full",
        tokens: bool = True,
        names: Names | None = None,
        definitions: Mapping[str, Tool] | None = None,
    ) -> Transcript:
        """Return the transcript of a thread's messages, whoever made them.

        Args:
            messages: LangChain's, or dicts in OpenAI's format.
            show: As for the class.
            tokens: As for the class.
            names: Knows the tools' names; without it they are read as far as they and `definitions` tell.
            definitions: By `server:tool`, what the servers say of their tools: for badges, and for arguments that
                only a tool's schema calls secret.
        """
        if names is None:
            from mcp_magic.langchain.names import Names

            pairs = (name.partition(":") for name in definitions or ())
            names = Names((server, tool) for server, _, tool in pairs)
        made = cls(show=show, tokens=tokens)
        for event in events_of(messages_of(messages), names.person, definitions or {}):
            made.on_event(event)
        made.finish()
        return made

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take an event of the graph; one of an unknown kind is somebody else's."""
        entry = self._recorder.take(event)
        if entry is not None:
            self._segments.touch(entry)

    def interrupted(self) -> None:
        """Say that the run was interrupted: what waits or runs will not come to an end."""
        self._close("interrupted")

    def finish(self) -> None:
        """Say that the run is over: of what still waits or runs nothing more will be known."""
        self._close("cut off")

    def _close(self, status: str) -> None:
        for entry in self._recorder.close(status):
            self._segments.touch(entry)

    # What happened

    @property
    def entries(self) -> Sequence[Entry]:
        """What was asked, said, called and noted, in order."""
        return tuple(self._recorder.entries)

    @property
    def is_answered(self) -> bool:
        """Whether the model has begun to say anything."""
        return any(isinstance(entry, Said) for entry in self._recorder.entries)

    @property
    def calls(self) -> list[Called]:
        """The calls, in order."""
        return self._recorder.calls()

    @property
    def results(self) -> list[ToolResult | None]:
        """What the calls answered, in order; None for one that was not answered."""
        return [called.result for called in self.calls]

    @property
    def answer(self) -> str:
        """The last answer, "" if there is none."""
        answers = (e for e in reversed(self._recorder.entries) if isinstance(e, Said) and e.is_answer and e.text)
        return next((said.text for said in answers), "")

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all turns: `input_tokens`, `output_tokens`, `total_tokens`; {} where no model tells."""
        return add_usage(entry.usage for entry in self._recorder.entries if isinstance(entry, Said))

    def __repr__(self) -> str:
        return f"<Transcript: {self.summary or f'{len(self.entries)} entries'}>"

    # The live screen

    @property
    def segment_count(self) -> int:
        """How many segments there are; the last is the one that grows."""
        return 0 if self.show == "none" else len(self._segments.all)

    @property
    def dirty(self) -> set[int]:
        """Indexes of the segments that changed since `render_segment` last made them."""
        self._canvas.settle(self._segments)
        return {index for index in self._segments.dirty if index < self.segment_count}

    def new_segment(self) -> None:
        """Let what comes next begin a new segment: something else was displayed below the last one."""
        self._segments.force()

    def render_segment(self, index: int) -> dict[str, Any]:
        """Return the mimebundle of one segment.

        Raises:
            IndexError: There is none with this index.
        """
        if not 0 <= index < self.segment_count:
            raise IndexError(f"there is no segment {index}; there are {self.segment_count}")
        self._canvas.settle(self._segments)
        self._segments.dirty.discard(index)
        markup, texts = self._segment(self._segments.all[index])
        # All segments are on one page: the first has the style.
        return _bundle([markup], texts, styled=index == 0)

    def complete_texts(self, start: int) -> list[str]:
        """Return the texts of the entries from `start` on, up to the first of which something may still come.

        For a screen that only appends. An entry that is not displayed has the text "".
        """
        over = takewhile(lambda entry: entry.is_over, self._recorder.entries[start:])
        return [self._canvas.text(entry) if self._is_shown(entry) else "" for entry in over]

    @property
    def summary(self) -> str:
        """The last line: turns, calls and what became of them, time in tools, tokens; "" if there is nothing to say."""
        return totals(self._recorder.entries, tokens=self._canvas.tokens)

    # Display

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        self._canvas.settle(self._segments)
        shown = self._segments.all if self.show != "none" else []
        gone = sum(len(segment.entries) for segment in shown if segment.level == Level.GONE)
        drawn = [self._segment(segment) for segment in shown if segment.level < Level.GONE]
        before = _gone(gone)
        texts = [before, *(text for _, segment_texts in drawn for text in segment_texts)]
        return only(_bundle([note(before), *(markup for markup, _ in drawn)], texts), include, exclude)

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    def _is_shown(self, entry: Entry) -> bool:
        if self.show == "full" or entry.is_blank:
            return self.show == "full" and not entry.is_blank
        return self.show == "answer" and not isinstance(entry, Called) and getattr(entry, "is_answer", True)

    def _segment(self, segment: Segment) -> tuple[Markup, list[str]]:
        """Return a segment as markup without a page around it, and its texts."""
        if segment.level == Level.GONE:
            gone = _gone(len(segment.entries))
            return note(gone), [gone]
        drawn = self._canvas.drawings(segment, segment.level)
        markup, texts = [entry.html for entry in drawn], [entry.plain for entry in drawn]
        if segment is self._segments.all[-1]:
            for line in filter(None, (self._busy(), self.summary)):
                markup.append(tag("div", line, class_="mcp-totals"))
                texts.append(clean(line))
        return joined(markup), texts

    def _busy(self) -> str:
        """Return what goes on where calls are not displayed."""
        going = [c for c in self.calls if c.status in OPEN] if self.show == "answer" else []
        return "; ".join(f"{called.name} {status_text(called)}" for called in going[:3])


def _gone(count: int) -> str:
    return f"… {count:,} earlier entries are not shown" if count else ""


def _bundle(markup: Iterable[Markup], texts: Iterable[str], *, styled: bool = True) -> dict[str, Any]:
    """Return the mimebundle of what is to be shown; empty texts if there is nothing."""
    body = joined(markup)
    # Each text is clean already; cleaning what is clean changes nothing.
    plain = clean("\n\n".join(text for text in texts if text))
    if not body:
        return {"text/plain": plain, "text/html": ""}
    html = page([Markup(STYLE + body)]) if styled else page([body]).removeprefix(document.STYLE)
    return {"text/plain": plain, "text/html": html}
