"""Differences between two texts or two JSON values, short enough to read."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import clean
from mcp_magic.display.document import Markup, Part, display, joined, table, tag, terminal_width, width

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


# Two texts side by side, with the words marked that differ.

MAX_PAIRS = 20  # most pairs of texts that are shown

MAX_WORDS = 300  # most words of a run that are shown where the texts differ

MAX_TEXT = 20_000  # characters of a text that are compared, about the first difference

COMPARED_WORDS = 200  # most words that are compared, apart from the common beginning and end, as with `COMPARED`

CONTEXT = 20  # words that are shown before and after the words that differ

_WORD = re.compile(r"(?:[\u2e80-\u9fff\uac00-\ud7af]|[^\s\u2e80-\u9fff\uac00-\ud7af]{1,80})\s{0,80}|\s{1,80}")
"""A word and the white space after it; one letter of a script that has no white space between words."""

_MARKS = {"-": "[-{}-]", "+": "{{+{}+}}"}  # those of `wdiff`


class Pair(NamedTuple):
    """Two versions of a text, and what they are the text of."""

    name: str
    before: str
    now: str


def words_diff(before: str, now: str) -> tuple[list[Line], list[Line]]:
    """Return both texts as runs of words, of which those that differ have a sign."""
    half, begin = MAX_TEXT // 2, 0
    while before[begin : begin + half] == now[begin : begin + half] != "":
        begin += half
    before, now = (text[max(begin - half, 0) : begin + half] for text in (before, now))
    old, new = _WORD.findall(before), _WORD.findall(now)
    start, end = _common(old, new)
    former, later = old[start : len(old) - end], new[start : len(new) - end]
    blocks: list[Any] = [("replace", 0, len(former), 0, len(later))]
    if max(len(former), len(later)) <= COMPARED_WORDS:
        blocks = difflib.SequenceMatcher(None, former, later, autojunk=False).get_opcodes()
    left, right = [*_run(" ", old[:start])], [*_run(" ", old[:start])]
    for kind, a, b, c, d in blocks:
        left += _run(" " if kind == "equal" else "-", former[a:b])
        right += _run(" " if kind == "equal" else "+", later[c:d])
    rest = [*_run(" ", old[len(old) - end :])]
    return left + rest, right + rest


def _run(sign: str, words: Sequence[str]) -> Iterator[Line]:
    """Yield a run of words; of a long one its beginning and its end."""
    most = CONTEXT * 2 if sign == " " else MAX_WORDS
    if len(words) <= most:
        if words:
            yield Line(sign, "".join(words))
        return
    yield Line(sign, "".join(words[: most // 2]))
    yield Line("@", f"… {len(words) - most:,} words … ")
    yield Line(sign, "".join(words[-(most // 2) :]))


def pairs_part(pairs: Sequence[Pair]) -> Part:
    """Return the first pairs of texts, each side by side."""
    compared = [(pair.name, *words_diff(pair.before, pair.now)) for pair in pairs[:MAX_PAIRS]]
    cells = [(name, _words_html(old), _words_html(new)) for name, old, new in compared]
    html, count = table(("text", "before", "now"), cells, limit=display.bytes // 2)
    plain = "\n".join(f"{name}:\n{_columns(_words_text(old), _words_text(new))}" for name, old, new in compared[:count])
    more = len(pairs) - count
    return Part.stack(
        Part(plain, tag("div", html, class_="mcp-diff")), Part.note(f"… {more:,} more texts" if more else "")
    )


def _words_html(lines: Sequence[Line]) -> Markup:
    texts = ((sign, clean(text)) for sign, text in lines)
    marked = (tag("del" if sign == "-" else "ins", tag("b", text)) if sign in _MARKS else text for sign, text in texts)
    return tag("div", joined(marked), style="white-space:pre-wrap")


def _words_text(lines: Sequence[Line]) -> str:
    def marked(line: Line) -> str:
        words = line.text.rstrip()
        return _MARKS[line.sign].format(words or line.text) + line.text[len(words) :] * bool(words)

    return clean("".join(marked(line) if line.sign in _MARKS else line.text for line in lines))


def _columns(left: str, right: str) -> str:
    """Return two texts in two columns that fill the terminal."""
    room = max((terminal_width() - 5) // 2, 20)

    def wrapped(text: str) -> list[str]:
        size = room // 2 if width(text) > len(text) else room  # letters that take two columns
        return [piece for line in text.splitlines() for piece in textwrap.wrap(line, size) or [""]]

    rows = zip_longest(wrapped(left), wrapped(right), fillvalue="")
    return "\n".join(f"  {old}{' ' * (room - width(old))} | {new}".rstrip() for old, new in rows)
