"""One entry, drawn: its HTML and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_magic.agent.transcript import html, plain
from mcp_magic.agent.transcript.entries import Called
from mcp_magic.agent.transcript.levels import RESULT, Level
from mcp_magic.results.html import Markup, joined
from mcp_magic.results.limits import Budget, display

if TYPE_CHECKING:
    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["Drawn", "ShownResult", "draw"]


class ShownResult(NamedTuple):
    """A result as it is displayed.

    Attributes:
        html: For pages.
        plain: For terminals.
        media: Characters of the HTML that are pictures and sounds.
    """

    html: Markup
    plain: str
    media: int = 0


class Drawn(NamedTuple):
    """An entry as it is displayed.

    Attributes:
        html: For pages.
        plain: For terminals.
        size: Bytes of the HTML, media left out.
        media: Characters of media.
        result: The text of the result, of which shorter displays are made.
    """

    html: Markup
    plain: str
    size: int
    media: int = 0
    result: str = ""


def draw(entry: Entry, level: Level, *, tokens: bool, media: int, before: Drawn | None = None) -> Drawn:
    """Return an entry as it is displayed at a level.

    Args:
        entry: What to draw.
        level: How much of it.
        tokens: Whether the model's turns tell their tokens.
        media: Bytes of pictures and sounds that may be shown.
        before: What was drawn of the same revision: its result need not be computed again.
    """
    if not isinstance(entry, Called):
        markup = html.entry_html(entry, level, tokens=tokens)
        return Drawn(markup, plain.entry_plain(entry, level, tokens=tokens), len(markup.encode()))
    shown = _result(entry, level, media, before)
    markup = html.call_html(entry, level, shown.html, shown.plain, opened=shown.media > 0)
    size = len(markup.encode()) - shown.media
    return Drawn(markup, plain.call_plain(entry, level, shown.plain), size, shown.media, shown.plain)


def _result(called: Called, level: Level, media: int, before: Drawn | None) -> ShownResult:
    """Return what a call answered: in full as `ToolResult` shows it, else the beginning of its text."""
    if called.shown_result is None or called.status == "denied":
        return ShownResult(Markup(), "")
    if level == Level.FULL:
        return _full(called, media)
    text = before.result if before is not None else _full(called, 0).plain
    return ShownResult(html.excerpt_html(text), text)


def _full(called: Called, media: int) -> ShownResult:
    result = called.shown_result
    assert result is not None
    budget = Budget(min(RESULT, display.bytes), media, display.blocks, display.parse)
    parts = result.parts(budget)[result.is_error :]  # the first says "error", as the call's line does
    text = "\n".join(part.plain for part in parts if part.plain)
    size = sum(len(part.html) for part in parts if part.media)
    return ShownResult(joined(part.html for part in parts), plain.excerpt(text), size)
