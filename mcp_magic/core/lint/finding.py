"""What the lint found: single findings, and all of them as a listing."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.results import limits
from mcp_magic.results.listing import Listing
from mcp_magic.results.parts import Part
from mcp_magic.results.plain import terminal_width
from mcp_magic.results.safe import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ERROR", "NOTE", "WARNING", "Finding", "Findings", "counted", "wrapped"]

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Severities: breaks something or hides something; will trouble somebody; could be better."""

_ORDER = (ERROR, WARNING, NOTE)
_MARKS = {ERROR: "✗ error", WARNING: "! warning", NOTE: "· note"}


class Finding(NamedTuple):
    """One thing that is wrong with a definition.

    Attributes:
        code: What kind of thing, for example `"hidden-unicode"`.
        severity: `ERROR`, `WARNING` or `NOTE`.
        where: `"tool add, argument a"`.
        what: What is wrong; text of the server in it is not escaped.
        todo: What its author should do.
    """

    code: str
    severity: str
    where: str
    what: str
    todo: str


class Findings(Listing):
    """Findings as a listing, the worst first.

    Attributes:
        findings: The findings.
    """

    def __init__(self, findings: Iterable[Finding], *, title: str = "Lint", looked_at: str = "") -> None:
        self.findings = sorted(findings, key=lambda found: _ORDER.index(found.severity))
        super().__init__(
            [_row(found) for found in self.findings],
            title=title,
            columns=("severity", "code", "where", "what", "to do"),
            empty=f"nothing to complain about: {looked_at}" if looked_at else "nothing to complain about",
            note=f"looked at {looked_at}: {counted(self.findings)}" if looked_at and self.findings else "",
            kind="findings",
        )

    def part(self) -> Part:
        """Return the findings as text and as markup."""
        shown = [
            {"": row["severity"], "code": row["code"], "where": row["where"], "what, and what to do": _told(row)}
            for row in self.rows
        ]
        part = Listing(shown, title=self.title, empty=self.empty, note=self.note, kind=self.kind).part()
        return Part(self._plain(), part.html) if shown else part

    def _plain(self) -> str:
        width = max(min(terminal_width(), 120), 40)
        lines = [self.title]
        for row in self.rows[: limits.display.listing_rows]:
            lines.append(f"{row['severity']}: {shorten(row['where'], width)} [{row['code']}]")
            lines += wrapped(shorten(row["what"], 600), width, "    ")
            lines += wrapped(f"→ {row['to do']}", width, "    ")
        rest = len(self) - limits.display.listing_rows
        more = f"… {rest:,} more findings: .df has all {len(self):,}" if rest > 0 else ""
        return "\n".join(line for line in (*lines, more, self.note) if line)

    def of(self, severity: str) -> list[Finding]:
        """Return the findings of one severity."""
        return [found for found in self.findings if found.severity == severity]

    @property
    def codes(self) -> set[str]:
        """The codes that were found."""
        return {found.code for found in self.findings}

    def __repr__(self) -> str:
        return f"<Findings: {counted(self.findings)}>"


def wrapped(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """Return text as lines of at most `width` characters, each indented; long words stay whole.

    >>> wrapped("one two three", 10, "  ")
    ['  one two', '  three']
    """
    flat = " ".join(text.split())
    begun = indent if first is None else first
    found = textwrap.wrap(
        flat, width, initial_indent=begun, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return found or [begun]


def _told(row: Mapping[str, Any]) -> str:
    return f"{row['what']} → {row['to do']}"


def _row(found: Finding) -> dict[str, Any]:
    return {
        "severity": _MARKS[found.severity],
        "code": found.code,
        "where": found.where,
        "what": found.what,
        "to do": found.todo,
    }


def counted(findings: Iterable[Finding]) -> str:
    """Return how many there are of each severity.

    >>> counted([Finding("a", NOTE, "", "", ""), Finding("b", ERROR, "", "", ""), Finding("c", NOTE, "", "", "")])
    '1 error, 2 notes'
    >>> counted([])
    'nothing found'
    """
    counts = Counter(found.severity for found in findings)
    parts = [f"{counts[name]} {name}{'s' if counts[name] > 1 else ''}" for name in _ORDER if counts[name]]
    return ", ".join(parts) or "nothing found"
