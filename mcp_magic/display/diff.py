"""Differences between two texts or two JSON values, short enough to read."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import clean
from mcp_magic.display.document import Markup, Part, joined, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_LINES = 40  # most lines of a difference that are shown
MAX_LINE = 300  # most characters of a line that are shown; a longer line is shown where it differs
AROUND = 60  # characters shown before and after the difference in a long line

COMPARED = 400
"""Most lines that are compared, apart from the common beginning and end; the time grows with their square."""


class Line(NamedTuple):
    """One line: its sign (`"-"` removed, `"+"` added, `" "` unchanged, `"@"` a heading or a gap) and its text."""

    sign: str
    text: str


def text_diff(before: str, after: str) -> list[Line]:
    """Return the lines that differ, with one unchanged line before and after."""
    old, new = before.splitlines(), after.splitlines()
    start, end = _common(old, new)
    middle = old[start : len(old) - end], new[start : len(new) - end]
    if not (middle[0] or middle[1]):
        return [] if before == after else [Line("@", "only the line endings differ")]
    lines = [Line(" ", _cut(text)) for text in old[max(start - 1, 0) : start]]
    if max(map(len, middle)) > COMPARED:
        lines.append(Line("@", f"{len(middle[0]):,} lines became {len(middle[1]):,}; the first of them:"))
    old_middle, new_middle = middle[0][:COMPARED], middle[1][:COMPARED]
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old_middle, new_middle, autojunk=False).get_opcodes():
        if kind != "equal":
            lines += _replaced(old_middle[a:b], new_middle[c:d])
            continue
        lines.append(Line(" ", _cut(old_middle[a])))
        if b - a > 2:
            lines.append(Line("@", "…"))
        if b - a > 1:
            lines.append(Line(" ", _cut(old_middle[b - 1])))
    return lines + [Line(" ", _cut(text)) for text in old[len(old) - end :][:1]]


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the common beginning and the common end."""
    limit = min(len(old), len(new))
    start = next((i for i in range(limit) if old[i] != new[i]), limit)
    end = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
    return start, end


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    """Yield removed lines and the lines that replace them; long lines are cut to the difference."""
    if len(old) == len(new):
        pairs = [_where_they_differ(a, b) for a, b in zip(old, new, strict=True)]
        yield from (Line("-", a) for a, _ in pairs)
        yield from (Line("+", b) for _, b in pairs)
        return
    yield from (Line("-", _cut(text)) for text in old)
    yield from (Line("+", _cut(text)) for text in new)


def _where_they_differ(a: str, b: str) -> tuple[str, str]:
    """Cut two long lines to the part that differs: a change must be visible wherever it is."""
    if max(len(a), len(b)) <= MAX_LINE:
        return a, b
    start, end = _common(a, b)
    begin = max(start - AROUND, 0)
    after = max(end - AROUND, 0)
    windows = (_cut(text[begin : len(text) - after]) for text in (a, b))
    first, second = (f"{'…' if begin else ''}{window}{'…' if after else ''}" for window in windows)
    return first, second


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}… ({len(text):,} characters)"


def json_diff(before: Any, after: Any, path: str = "") -> list[Line]:
    """Return the differences between two JSON values, each with its path; the order of keys does not matter."""
    if isinstance(before, dict) and isinstance(after, dict):
        lines: list[Line] = []
        for name in {**before, **after}:
            inner = f"{path}.{name}" if path else str(name)
            if name not in after:
                lines.append(Line("-", _cut(f"{inner}: {_json(before[name])}")))
            elif name not in before:
                lines += _added(inner, after[name])
            else:
                lines += json_diff(before[name], after[name], inner)
        return lines
    old, new = _json(before), _json(after)
    if old == new:
        return []
    old, new = _where_they_differ(old, new)
    return [Line("-", f"{path}: {old}" if path else old), Line("+", f"{path}: {new}" if path else new)]


def _added(path: str, value: Any) -> list[Line]:
    """Return all lines of an added value, however long: any part may matter. `first_lines` limits them later."""
    text = f"{path}: {_json(value)}"
    return [Line("+", text[at : at + MAX_LINE]) for at in range(0, max(len(text), 1), MAX_LINE)]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def first_lines(lines: Sequence[Line]) -> list[Line]:
    """Return the first lines, and a line with the number of the others."""
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], Line("@", f"… {more:,} more lines")] if more > 0 else list(lines)


def diff_text(lines: Sequence[Line], indent: str = "") -> str:
    """Return lines as plain text."""
    return "\n".join(f"{indent}{'' if sign == '@' else f'{sign} '}{clean(text)}" for sign, text in first_lines(lines))


def diff_html(lines: Sequence[Line]) -> Markup:
    """Return lines as markup; the sign in front means the same as the colour."""
    return tag("pre", joined(map(_marked, first_lines(lines)), "\n"), class_="mcp-diff")


def _marked(line: Line) -> Markup:
    text = clean(line.text)
    if line.sign == "@":
        return tag("b", text)
    return tag({"-": "del", "+": "ins"}.get(line.sign, "span"), f"{line.sign} {text}")


def diff_part(lines: Sequence[Line]) -> Part:
    """Return lines as a part."""
    return Part(diff_text(lines, "  "), diff_html(lines))
