"""The trace as a picture: requests as bars on a time axis, a lane for each method of each server."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from mcp_magic.core.trace.trace import OUT, STDERR
from mcp_magic.errors import MissingDependencyError
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_magic.core.trace.trace import Entry

__all__ = ["Timeline", "timeline"]

LANES = 40
"""Lanes drawn; more are no picture any more."""

SHORTEST = 0.002
"""Part of the axis that a bar has at least, so that it can be seen."""

_COLOURS = {"answered": "#4c78a8", "failed": "#e45756", "unanswered": "#bab0ac", "said": "#54a24b"}


class Timeline:
    """A picture of requests.

    Attributes:
        figure: The `matplotlib.figure.Figure`.
        text: What it shows, for a terminal.
    """

    def __init__(self, figure: Any, text: str) -> None:
        self.figure = figure
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        picture = io.BytesIO()
        self.figure.savefig(picture, format="png", dpi=110, bbox_inches="tight")
        return {"text/plain": self.text, "image/png": picture.getvalue()}


def timeline(entries: Sequence[Entry]) -> Timeline:
    """Draw messages.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise MissingDependencyError("%mcp trace --plot needs matplotlib: pip install 'mcp-magic[plot]'")
    lanes = _lanes(entries)
    figure = Figure(figsize=(10, 1 + 0.3 * max(len(lanes), 1)))
    axes = figure.subplots()
    start = min((entry.time for entry in entries), default=0.0)
    end = max(
        (entry.time + (entry.seconds or 0.0 if entry.kind == "request" else 0.0) for entry in entries), default=1.0
    )
    failed = {entry.pair for entry in entries if entry.failed}
    for row, lane in enumerate(lanes.values()):
        for entry in lane:
            _draw(axes, row, entry, start, max((end - start) * SHORTEST, 1e-6), failed)
    axes.set_yticks(range(len(lanes)), [one_line(name, 60) for name in lanes], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.grid(axis="x", alpha=0.3)
    return Timeline(figure, f"<Timeline of {len(entries)} messages in {end - start:.3g} s, {len(lanes)} lanes>")


def _lanes(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    lanes: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind in ("answer", "error"):
            continue
        what = "stderr" if entry.direction == STDERR else entry.label
        arrow = "" if entry.direction == STDERR or entry.direction == OUT else "← "
        name = f"{arrow}{entry.server}: {what}"
        if name in lanes or len(lanes) < LANES:
            lanes.setdefault(name, []).append(entry)
    return lanes


def _draw(axes: Any, row: int, entry: Entry, start: float, least: float, failed: Collection[int | None]) -> None:
    at = entry.time - start
    if entry.kind != "request":
        axes.plot([at], [row], marker="|", markersize=10, color=_COLOURS["failed" if entry.failed else "said"])
        return
    state = "failed" if entry.failed or entry.number in failed else "unanswered" if entry.pair is None else "answered"
    # the hatching tells a failure where colours do not
    hatch = "////" if state == "failed" else None
    axes.barh(
        row, max(entry.seconds or 0.0, least), left=at, height=0.6, color=_COLOURS[state], hatch=hatch, alpha=0.85
    )
