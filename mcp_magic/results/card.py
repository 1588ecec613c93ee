"""One tool, described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import limits
from .badges import Badge, tool_badges
from .diff import diff_html, diff_text
from .html import Markup, details, joined, note, table, tag
from .jsontree import brief
from .parts import Part, bundle
from .plain import aligned, cell_text, terminal_width
from .safe import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import mcp_types

    from .diff import Line

__all__ = ["ToolCard"]

_CHANGED = "changed since it was first seen"
_COLUMNS = ("name", "type", "required", "default", "description")


class ToolCard:
    """A tool's description, hints, arguments and an example call.

    Attributes:
        tool: The SDK's description of the tool.
        server: The server's name.
        example: A line that calls it.
        arguments: One row an argument: name, type, required, default, description.
        output: Rows of the same kind for the output schema, or None if there is none.
        trusted: Whether the person believes this server's hints.
        marks: Badges besides those of the hints.
        difference: What has changed since it was first seen.
        unlisted: How many arguments, and fields of the output, have no row because the schema is too large.
    """

    def __init__(
        self,
        tool: mcp_types.Tool,
        *,
        server: str,
        example: str,
        arguments: Sequence[Mapping[str, Any]],
        output: Sequence[Mapping[str, Any]] | None = None,
        trusted: bool = False,
        marks: Sequence[Badge] = (),
        difference: Sequence[Line] = (),
        unlisted: tuple[int, int] = (0, 0),
    ) -> None:
        self.tool = tool
        self.server = server
        self.example = example
        self.arguments = list(arguments)
        self.output = list(output) if output is not None else None
        self.trusted = trusted
        self.marks = list(marks)
        self.difference = list(difference)
        self.unlisted = unlisted

    @property
    def name(self) -> str:
        """The name to call it by."""
        return f"{self.server}:{self.tool.name}" if self.server else self.tool.name

    @property
    def title(self) -> str:
        """The title that the server gives it: `title`, else `annotations.title`, else ""."""
        annotations = self.tool.annotations
        return self.tool.title or (annotations.title if annotations else None) or ""

    @property
    def description(self) -> str:
        """The description, or ""."""
        return (self.tool.description or "").strip()

    @property
    def badges(self) -> list[Badge]:
        """What was found out about it, whom it is for, and the hints that its server gives."""
        return [*self.marks, *tool_badges(self.tool, trusted=self.trusted)]

    def __repr__(self) -> str:
        return f"<ToolCard {one_line(self.name, 100)}>"

    def __str__(self) -> str:
        text: str = self._repr_mimebundle_()["text/plain"]
        return text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return bundle([self.part()], include, exclude)

    def part(self) -> Part:
        """Return the card as text and markup."""
        return Part(self._plain(), self._html())

    def _description(self) -> str:
        limit = limits.display.characters
        text = cut(self.description, limit)
        return text if len(self.description) <= limit else f"{text}\n… .description has all of it"

    def _plain(self) -> str:
        heading = one_line(self.name + (f": {self.title}" if self.title else ""), 300)
        blocks = [f"{heading}\n{' '.join(map(str, self.badges))}"]
        if self.difference:
            blocks.append(f"{_CHANGED}\n{diff_text(self.difference, '  ')}")
        blocks.append(self._description())
        blocks.append(self._plain_table("arguments", self.arguments, self.unlisted[0]) or "no arguments")
        blocks.append(self._plain_table("returns", self.output or (), self.unlisted[1]))
        blocks.append(cut(self.example, 2000))
        return "\n\n".join(block for block in blocks if block)

    def _plain_table(self, title: str, rows: Sequence[Mapping[str, Any]], unlisted: int) -> str:
        if not rows:
            return ""
        values = [[_cell(row.get(name)) for name in _COLUMNS] for row in rows[: limits.display.listing_rows]]
        more = _more(len(rows) + unlisted - len(values))
        names, values = _without_empty(values)
        text = aligned(names, values, total=terminal_width(), cell=limits.display.cell, names=True)
        return f"{title}\n{text}" + (f"\n{more}" if more else "")

    def _html(self) -> Markup:
        heading = [tag("b", one_line(self.name, 200)), f" {one_line(self.title, 200)} " if self.title else " "]
        parts = [tag("p", joined([*heading, joined((badge.html() for badge in self.badges), " ")]))]
        if self.difference:
            parts.append(details(_CHANGED, diff_html(self.difference), opened=True))
        if self.description:
            parts.append(tag("div", self._description(), style="white-space:pre-wrap"))
        parts.append(self._html_table(self.arguments, self.unlisted[0]) if self.arguments else note("no arguments"))
        if self.output:
            parts.append(details("returns", self._html_table(self.output, self.unlisted[1])))
        parts.append(tag("pre", tag("code", cut(self.example, 2000)), class_="mcp-line"))
        return joined(parts)

    def _html_table(self, rows: Sequence[Mapping[str, Any]], unlisted: int) -> Markup:
        names, values = _without_empty([[_cell(row.get(name)) for name in _COLUMNS] for row in rows])
        html, shown = table(names, values, limit=limits.display.bytes // 3)
        return joined([html, note(_more(len(rows) + unlisted - shown))])


def _more(count: int) -> str:
    return f"… {count:,} more" if count else ""


def _cell(value: Any) -> str:
    return brief(value, 300) if isinstance(value, (dict, list)) else cell_text(value, 300)


def _without_empty(values: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Leave out the columns that no row fills."""
    kept = [i for i in range(len(_COLUMNS)) if any(row[i] for row in values)]
    return [_COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in values]
