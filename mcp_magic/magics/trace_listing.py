"""The trace as a listing: a row a message, which opens to its JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mcp_magic.core.trace.faults import fault, meaning
from mcp_magic.results import Listing, limits
from mcp_magic.results.html import Markup, details, escape, joined, note, preformatted, table, tag
from mcp_magic.results.jsontree import brief, tree
from mcp_magic.results.parts import Part
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_magic.core.trace.trace import Entry

__all__ = ["COLUMNS", "TraceListing", "summary", "trace_row"]

COLUMNS = ("number", "time", "server", "way", "method", "ms", "bytes", "status", "fault", "says", "message")

SAYS = 120
"""Characters of what a message says."""

TREE_BYTES = 6000
"""Bytes of one message's JSON in the page; all of them are in `.df` and in an export."""

LEAST_TREE_BYTES = 1500
"""The same where many messages share the page."""


def trace_row(entry: Entry) -> dict[str, Any]:
    """Return a message as a row of the listing."""
    answer = entry.kind in ("answer", "error")
    return {
        "number": entry.number,
        "time": time.strftime("%H:%M:%S", time.localtime(entry.time)) + f".{int(entry.time % 1 * 1000):03d}",
        "server": entry.server,
        "way": entry.direction,
        "method": entry.label,
        "ms": round(entry.seconds * 1000, 2) if answer and entry.seconds is not None else None,
        "bytes": entry.size,
        "status": entry.status,
        "fault": fault(entry),
        "says": summary(entry),
        "message": entry.message,
    }


def summary(entry: Entry) -> str:
    """Return what a message says, on one line."""
    message = entry.message
    if not isinstance(message, dict):
        return one_line(str(message), SAYS)
    if isinstance(error := message.get("error"), dict):
        code = error.get("code")
        return one_line(f"{code} ({meaning(code)}): {error.get('message')}", SAYS)
    if "result" in message:
        return _answer(message["result"])
    return _params(message.get("params"))


def _params(params: Any) -> str:
    if not isinstance(params, dict):
        return ""
    shown = {name: value for name, value in params.items() if name != "_meta"}
    name = shown.pop("name", None) if isinstance(shown.get("name"), str) else None
    given = shown.pop("arguments", None) if name else None
    parts = [name or "", brief(given, SAYS) if given else "", brief(shown, SAYS) if shown else ""]
    return one_line(" ".join(part for part in parts if part), SAYS)


def _answer(result: Any) -> str:
    if not isinstance(result, dict):
        return one_line(brief(result, SAYS), SAYS)
    error = "tool error: " if result.get("isError") is True else ""
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        first = content[0]
        more = f" (+{len(content) - 1} blocks)" if len(content) > 1 else ""
        said = first.get("text") if isinstance(first.get("text"), str) else f"[{first.get('type')}]"
        return one_line(f"{error}{said}{more}", SAYS)
    counted = [f"{len(items)} {name}" for name, items in result.items() if isinstance(items, list)]
    return error + (", ".join(counted) or one_line(brief(_plain(result), SAYS), SAYS))


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("_meta", "resultType", "cacheScope", "ttlMs")}


class TraceListing(Listing):
    """A listing whose rows open to the whole message; what servers wrote is escaped."""

    def _with(self, rows: Sequence[Mapping[str, Any]]) -> TraceListing:
        return TraceListing(
            rows, title=self.title, columns=self.columns, empty=self.empty, note=self.note, kind=self.kind
        )

    def part(self) -> Part:
        """Return the listing as text and as markup: the newest messages, which open to their JSON."""
        rows = self.rows[-limits.display.listing_rows :]
        columns = [name for name in self.columns if name != "message"]
        if not rows:
            return self._text(rows, columns)
        columns = [name for name in columns if any(row.get(name) is not None for row in rows)]
        html, rows, opened = self._table(rows, columns)
        rest = f"the last {len(rows):,} of {len(self):,} messages: .df has all" if len(rows) < len(self) else ""
        plain = "\n".join(line for line in (self._text(rows, columns).plain, rest) if line)
        open_ = f"the newest {opened:,} open to their JSON: .df has all of it" if opened < len(rows) else ""
        return Part(plain, joined([tag("p", tag("b", self.title)), html, note(rest), note(open_), note(self.note)]))

    def _text(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Part:
        return Listing(rows, title=self.title, columns=columns, empty=self.empty, note=self.note).part()

    @staticmethod
    def _table(rows: list[Mapping[str, Any]], columns: Sequence[str]) -> tuple[Markup, list[Mapping[str, Any]], int]:
        """Return the table, its rows (if they are too long for the page, the newest), and how many of them open."""
        limit = limits.display.bytes
        cells = [[row.get(name) for name in columns] for row in rows]
        html, count = table(columns, cells, limit=limit * 2 // 3)  # the rest is for what they open to
        while count < len(cells):
            cells = cells[-count:]
            html, count = table(columns, cells, limit=limit * 2 // 3)
        opened = _open(cells, rows[-count:], columns, room=limit - len(html.encode()))
        return table(columns, cells, limit=2 * limit)[0], rows[-count:], opened


def _open(cells: list[list[Any]], rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, room: int) -> int:
    """Let rows open to their JSON, the newest first, as many as fit into `room` bytes; return how many do."""
    if "says" not in columns:
        return len(rows)
    place = columns.index("says")
    for number, row in enumerate(reversed(rows)):
        share = 2 * room // (len(rows) - number)
        opened = _opened(row, min(TREE_BYTES, max(LEAST_TREE_BYTES, share)))
        room -= len(opened.encode())
        if room < 0:
            return number
        cells[-1 - number][place] = opened
    return len(rows)


def _opened(row: Mapping[str, Any], size: int) -> Markup:
    message = row.get("message")
    body = tree(message, size) if isinstance(message, dict | list) else preformatted(one_line(str(message), 1000))
    opened: Markup = details(escape(row.get("says") or "…"), body)
    return opened
