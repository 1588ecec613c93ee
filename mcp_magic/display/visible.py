# ruff: noqa: RUF001, RUF002 - this code is about letters that look alike
r"""Text for approval: nothing in it may be invisible or look like something else.

`visible` writes out runs of white space (`⟨␣×1,200⟩`), controls and invisible characters (`\u202e`), and letters of
other scripts that look like Latin ones (`p⟨Cyrillic а⟩ypal`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._unicode import INVISIBLE, JOINERS, LOOKALIKES, escapes, script

if TYPE_CHECKING:
    from collections.abc import Iterator

LEGEND = (
    "⟨␣×20⟩ stands for 20 spaces in a row (↵ line ends, ⇥ tabs), ⟨Cyrillic а⟩ for a letter that only looks like a "
    "Latin one, \\u202e and the like for a character that cannot be seen."
)

RUN = 8  # length from which a run of white space is counted instead of shown
COUNT_WIDTH = 10  # approximate length of a counted run, in characters
MOST_RUNS = 4  # the most runs of one character each that are named in a run of white space
SAVED = 30  # fewest characters that are worth leaving out

_INDENTED = re.compile(r"\n{0,3}(?: {0,40}|\t{0,8})")
"""White space at the beginning of a line that is shown unchanged: it indents code and separates paragraphs."""

_BLANKS = r"\s\u115f\u1160\u2800\u3164\uffa0"  # white space, and letters without a visible shape

_WHITE = re.compile(f"[{_BLANKS}]+")
_RUN = re.compile(f"[{_BLANKS}]{{{RUN},}}")

# Zero-width joiners stay between letters and emoji that need them, and a variation selector stays after a symbol.
_HIDDEN = (
    f"[{INVISIBLE}]"
    rf"|(?<![\u0590-\u1fff\u2030-\U0001ffff])[{JOINERS}]|[{JOINERS}](?![\u0590-\u1fff\u2030-\U0001ffff])"
    r"|(?<![#*0-9\xa9\xae\u2030-\ufdff\U0001f000-\U0001ffff])[\ufe0e\ufe0f]"
)
_PILED = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
"""Piles of combining marks on one letter, which would cover the lines around it."""

_ODD = re.compile(f"{_RUN.pattern}|{_HIDDEN}|{_PILED}")

_NAMES = {" ": "␣", "\n": "↵", "\t": "⇥"}

_LIKE = re.compile(f"[{LOOKALIKES}]")
_ACCENTED = re.compile("[\u0370-\u052f\u1f00-\u1fff]")
"""Greek and Cyrillic, whose accented letters also look like Latin ones."""

_WORD = re.compile(r"\\[nrtbf]|([^\W_]+)")
_LATIN = re.compile("[A-Za-z]")
_AROUND = 2  # number of words on each side that decide whether a word made of look-alikes is genuine


class Mark(NamedTuple):
    """A range of a text, and the text that is written out in its place."""

    start: int
    end: int
    text: str


def visible(text: str) -> str:
    r"""Return text with invisible and misleading characters written out; line ends become `\n`.

    >>> visible("ls -la" + " " * 1200 + "; rm -r .")
    'ls -la⟨␣×1,200⟩; rm -r .'
    >>> visible("p\u0430ypal.com, user\u202egnp.exe"), visible("Привет, мир")
    ('p⟨Cyrillic а⟩ypal.com, user\\u202egnp.exe', 'Привет, мир')
    """
    text = text.replace("\r\n", "\n")
    parts, at = [], 0
    for mark in _marks(text):
        parts += [text[at : mark.start], mark.text]
        at = mark.end
    return "".join([*parts, text[at:]])


def escaped_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON in which all that `visible` writes out is escaped; parsing it gives the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return re.sub(r'"(?:[^"\\]|\\.)*"', _escaped, text)


def _escaped(literal: re.Match[str]) -> str:
    text = json.loads(literal[0])
    parts, at = [], 0
    for mark in _marks(text):
        units = text[mark.start : mark.end].encode("utf-16-be", "surrogatepass").hex()
        escapes = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        parts += [json.dumps(text[at : mark.start], ensure_ascii=False)[1:-1], escapes]
        at = mark.end
    return f'"{"".join(parts)}{json.dumps(text[at:], ensure_ascii=False)[1:-1]}"'


def outline(text: str, limit: int) -> str:
    """Return `visible` text; if it is longer than `limit`, its beginning, how much is left out, and its end."""
    text = text.replace("\r\n", "\n")
    start, end = ends(text, limit)
    if start == end:
        return visible(text)
    return f"{visible(text[:start])} … {end - start:,} characters left out … {visible(text[end:])}"


def in_line(text: str, limit: int) -> str:
    """Return the `outline` of a text on one line."""
    return outline(text, limit).replace("\n", "\\n")


def is_long(text: str, limit: int) -> bool:
    """Whether `outline` leaves something out."""
    start, end = ends(text.replace("\r\n", "\n"), limit)
    return start != end


def ends(text: str, limit: int) -> tuple[int, int]:
    """Return the range of characters that `outline` leaves out, empty if it shows all; no run of white space is cut."""
    if len(text) <= limit + SAVED:
        return len(text), len(text)
    start, end = _reach(text, limit * 2 // 3), len(text) - _reach(text[::-1], limit // 3)
    return (start, end) if start + SAVED < end else (len(text), len(text))


def _reach(text: str, room: int) -> int:
    """Return how many characters of a text fit into `room`; a long run of white space takes only `COUNT_WIDTH`."""
    at = 0
    while room > 0 and (run := _RUN.search(text, at, at + room)):
        room -= run.start() - at + COUNT_WIDTH
        at = _WHITE.match(text, run.start()).end()  # type: ignore[union-attr]
    return min(at + max(room, 0), len(text))


def _marks(text: str) -> list[Mark]:
    odd = [Mark(*match.span(), name) for match in _ODD.finditer(text) if (name := _describe(match)) != match[0]]
    return odd if text.isascii() else sorted([*odd, *_lookalikes(text)])


def _describe(match: re.Match[str]) -> str:
    """Return the text shown for a run of white space, a pile of marks or an invisible character."""
    text = match[0]
    if unicodedata.combining(text[0]):
        return f"⟨marks ×{len(text):,}⟩"
    if len(text) < RUN:
        return escapes(text)
    if _INDENTED.fullmatch(text) and (text[0] == "\n" or match.start() == 0):
        return text
    first = islice(groupby(text), MOST_RUNS + 1)
    runs = [f"{_NAMES.get(char) or escapes(char)}×{len(list(same)):,}" for char, same in first]
    return f"⟨{' '.join(runs)}⟩" if len(runs) <= MOST_RUNS else f"⟨white space ×{len(text):,}⟩"


def _lookalikes(text: str) -> Iterator[Mark]:
    """Yield letters that look like Latin ones, in words that may deceive.

    A word that mixes Latin letters with look-alikes of another script is marked. A word made only of look-alikes is
    marked if Latin letters adjoin it without a space (`https://сору.com`), or if no word near it is clearly of its
    script. So genuine Russian and Greek stay unchanged.
    """
    if not (_LIKE.search(text) or _ACCENTED.search(text)):
        return
    tokens = list(re.finditer(r"\S+", text))
    for number, token in enumerate(tokens):
        if not (_LIKE.search(token[0]) or (_ACCENTED.search(token[0]) and _LATIN.search(token[0]))):
            continue
        words = [word for word in _WORD.finditer(token[0]) if word[1]]
        beside = any(_LATIN.search(word[0]) for word in words)
        near = "".join(neighbour[0] for neighbour in tokens[max(number - _AROUND, 0) : number + _AROUND + 1])
        for word in words:
            yield from (
                Mark(token.start() + word.start() + mark.start, token.start() + word.start() + mark.end, mark.text)
                for mark in _in_word(word[0], near, beside=beside)
            )


def _in_word(word: str, near: str, *, beside: bool) -> Iterator[Mark]:
    scripts = {_script(char) for char in word if not char.isascii() and _is_like(char)}
    if not scripts:
        return
    if not _LATIN.search(word):
        if not all(_LIKE.match(char) or char.isdigit() for char in word):
            return
        if not beside and (len(word) == 1 or scripts == {"full-width"} or _unmistakable(near, scripts)):
            return
    at = 0
    for style, letters in groupby(word, lambda char: _script(char) if not char.isascii() else ""):
        length = len(list(letters))
        if style in scripts:
            yield Mark(at, at + length, f"⟨{style} {word[at : at + length]}⟩")
        at += length


def _is_like(char: str) -> bool:
    """Whether a letter looks like a Latin one, ignoring accents."""
    return _LIKE.match(char) is not None or _LIKE.match(unicodedata.normalize("NFD", char)[0]) is not None


def _unmistakable(text: str, scripts: set[str]) -> bool:
    return any(
        not char.isascii() and char.isalpha() and not _LIKE.match(char) and _script(char) in scripts for char in text
    )


def _script(char: str) -> str:
    """Return the name of the script or style of a letter that is shown."""
    first = script(char)
    styles = {"FULLWIDTH": "full-width", "LATIN": "phonetic", "SMALL": "Roman numeral", "ROMAN": "Roman numeral"}
    return styles.get(first) or ("mathematical" if char >= "\U0001d400" else first.capitalize())
