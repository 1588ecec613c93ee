"""Segments, drawn: what did not change is not drawn again, and what is further back takes less and less room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.agent.transcript.drawing import draw
from mcp_magic.agent.transcript.levels import ROOM, Level
from mcp_magic.results.limits import display

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.agent.transcript.drawing import Drawn
    from mcp_magic.agent.transcript.entries import Entry
    from mcp_magic.agent.transcript.segments import Segment, Segments

__all__ = ["Canvas"]


class Canvas:
    """Draws entries, and keeps what it drew.

    Args:
        is_shown: Whether an entry is displayed.
        tokens: Whether the model's turns tell their tokens.
    """

    def __init__(self, is_shown: Callable[[Entry], bool], *, tokens: bool) -> None:
        self.tokens = tokens
        self._is_shown = is_shown
        self._drawn: dict[Entry, tuple[int, Level, Drawn]] = {}

    def drawings(self, segment: Segment, level: Level) -> list[Drawn]:
        """Return the entries of a segment that are displayed, drawn at a level."""
        drawn: list[Drawn] = []
        media = display.media
        for entry in segment.entries:
            if self._is_shown(entry):
                drawn.append(self._draw(entry, level, media))
                media = max(media - _bytes(drawn[-1].media), 0)
        return drawn

    def text(self, entry: Entry) -> str:
        """Return the whole text of an entry, without markup."""
        return self._draw(entry, Level.FULL, display.media).plain

    def _draw(self, entry: Entry, level: Level, media: int) -> Drawn:
        """Return an entry as it is displayed, drawn again only if it or its level changed."""
        revision, drawn_level, drawn = self._drawn.get(entry, (-1, level, None))
        if drawn is not None and revision == entry.revision and drawn_level == level:
            return drawn
        before = drawn if revision == entry.revision else None
        made = draw(entry, level, tokens=self.tokens, media=media, before=before)
        self._drawn[entry] = (entry.revision, level, made)
        return made

    def settle(self, segments: Segments) -> None:
        """Work out how much is shown of each segment, from the last, which is in full, to the first.

        A segment is never shown longer again than it was.
        """
        if not segments.unsettled:
            return
        segments.unsettled = False
        used = dict.fromkeys(ROOM, 0)
        media, level = 0, Level.FULL
        for index in range(len(segments.all) - 2, -1, -1):
            segment = segments.all[index]
            level = max(level, segment.level)
            while level < Level.GONE:
                drawn = self.drawings(segment, level)
                size, pictures = sum(entry.size for entry in drawn), sum(_bytes(entry.media) for entry in drawn)
                if used[level] + size <= ROOM[level] and media + pictures <= display.media:
                    used[level] += size
                    media += pictures
                    break
                level = Level(level + 1)
            if level != segment.level:
                segment.level = level
                segments.dirty.add(index)


def _bytes(base64: int) -> int:
    """Return how many bytes so many characters of base64 hold."""
    return base64 * 3 // 4
