"""Runs of entries of bounded size: a live screen draws anew only those that changed, nearly always the last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_magic.agent.transcript.levels import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["Segment", "Segments"]

MOST_ENTRIES = 8

MOST_WEIGHT = 20_000
"""Characters, about, after which another entry begins a new segment."""


@dataclass(eq=False)
class Segment:
    """A run of entries.

    Attributes:
        entries: In order.
        level: How much of them is shown.
    """

    entries: list[Entry] = field(default_factory=list)
    level: Level = Level.FULL


class Segments:
    """All segments, and which of them changed.

    Args:
        is_shown: Whether an entry is displayed.

    Attributes:
        all: In order; the last is the open one.
        dirty: Indexes of those that changed since they were last rendered.
        unsettled: Whether the levels have to be worked out again.
    """

    def __init__(self, is_shown: Callable[[Entry], bool]) -> None:
        self._is_shown = is_shown
        self.all: list[Segment] = []
        self.dirty: set[int] = set()
        self.unsettled = False
        self._forced = False
        self._places: dict[Entry, int] = {}

    def touch(self, entry: Entry) -> None:
        """Give a new entry its place, and mark what changes with it."""
        if entry not in self._places:
            if not self.all or self._is_over(self.all[-1]):
                self._begin()
            self._places[entry] = len(self.all) - 1
            self.all[-1].entries.append(entry)
        place = self._places[entry]
        self.unsettled |= place != len(self.all) - 1
        self.dirty |= {place, len(self.all) - 1}  # the last has the totals

    def _is_over(self, segment: Segment) -> bool:
        """Whether what comes next belongs into another segment; one in which nothing is to be seen goes on."""
        shown = [entry for entry in segment.entries if self._is_shown(entry)]
        if not shown:
            return False
        return self._forced or len(shown) >= MOST_ENTRIES or sum(entry.weight for entry in shown) > MOST_WEIGHT

    def force(self) -> None:
        """Let the next entry begin a new segment."""
        self._forced = True

    def _begin(self) -> None:
        if self.all:
            self.dirty.add(len(self.all) - 1)
        self.all.append(Segment())
        self._forced = False
        self.unsettled = True
