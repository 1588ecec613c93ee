# ruff: noqa: RUF001, RUF002 - it is about letters that look like others
r"""Text in which everything can be seen: what a person approves hides nowhere and looks like nothing else.

Written out are runs of white space (`⟨␣×1,200⟩`), controls and characters without a shape (`\u202e`), and letters of
other scripts where they pass for Latin ones (`p⟨Cyrillic а⟩ypal`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LEGEND", "Mark", "ends", "escaped_json", "in_line", "is_long", "outline", "visible"]

LEGEND = (
    "⟨␣×20⟩ stands for 20 spaces in a row (↵ line ends, ⇥ tabs), ⟨Cyrillic а⟩ for a letter that only looks like a "
    "Latin one, \\u202e and the like for a character that cannot be seen."
)

RUN = 8
"""Characters of white space in a row that are counted instead of shown."""

COUNTED = 10
"""Characters that a counted run takes, about."""

SAVED = 30
"""Characters that are worth leaving out."""

_INDENTED = re.compile(r"\n{0,3}(?: {0,40}|\t{0,8})")
"""At the beginning of a line: what indents code and divides paragraphs stays as it is."""

_BLANKS = r"\s\u115f\u1160\u2800\u3164\uffa0"
"""White space, and letters that have no ink."""

_WHITE = re.compile(f"[{_BLANKS}]+")
_RUN = re.compile(f"[{_BLANKS}]{{{RUN},}}")

# Zero-width joiners stay between letters and emoji that need them, and a variation selector stays behind a symbol.
_HIDDEN = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
    r"|(?<![\u0590-\u1fff\u2030-\U0001ffff])[\u200c\u200d]|[\u200c\u200d](?![\u0590-\u1fff\u2030-\U0001ffff])"
    r"|(?<![#*0-9\xa9\xae\u2030-\ufdff\U0001f000-\U0001ffff])[\ufe0e\ufe0f]"
)
_PILED = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}"
"""Marks above and below one letter, which would cover the lines around it."""

_ODD = re.compile(f"{_RUN.pattern}|{_HIDDEN}|{_PILED}")

_NAMES = {" ": "␣", "\n": "↵", "\t": "⇥"}

# Letters that a reader takes for ASCII ones: what Unicode's confusables.txt (UTS 39) maps to one ASCII letter, of the
# scripts that fonts have in the same style, without what resembles it only in some fonts.
_LOOKALIKES = (
    "аеорсухіјѕԁһӏԛԝѵѡүҽАВЕНІЈКМОРСТУХЅԌԜѴҮӀ"  # Cyrillic
    "αικνορυγχϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿϜ"  # Greek
    "հոսցօքգզԼՍՏՕ"  # Armenian
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᏀᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏳᏴꭵꮁꮃꮓꮩꮪꮯ"  # Cherokee
    "ⲞⲟⲤⲥⲢⲣⲔⲎⲘⲚⲦⲨⲬⲒ"  # Coptic
    "ꓐꓑꓒꓓꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓔꓧꓪꓫꓬꓮꓰꓲꓳꓴꓦ"  # Lisu
    "ɑɡɩᴄᴏᴠᴡᴢꜱ"  # Latin letters of phonetics
)
_LIKE = re.compile(
    # what NFKC makes ASCII: letters of mathematics and of full width, Roman numerals, the Kelvin sign
    f"[{_LOOKALIKES}\u212a\u2160-\u217f\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5]"
)
_ACCENTED = re.compile("[\u0370-\u052f\u1f00-\u1fff]")
"""Greek and Cyrillic, where letters with accents look like Latin ones, too."""

_WORD = re.compile(r"\\[nrtbf]|([^\W_]+)")
_LATIN = re.compile("[A-Za-z]")
_AROUND = 2
"""Words to each side that say whether a word of look-alikes is honest."""


class Mark(NamedTuple):
    """A stretch of a text that is written out.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        shown: What stands in its place.
    """

    start: int
    end: int
    shown: str


def visible(text: str) -> str:
    r"""Return text with everything in it written out that the eye would miss; line ends become `\n`.

    >>> visible("ls -la" + " " * 1200 + "; rm -r .")
    'ls -la⟨␣×1,200⟩; rm -r .'
    >>> visible("p\u0430ypal.com, user\u202egnp.exe"), visible("Привет, мир")
    ('p⟨Cyrillic а⟩ypal.com, user\\u202egnp.exe', 'Привет, мир')
    """
    text = text.replace("\r\n", "\n")
    parts, at = [], 0
    for mark in _marks(text):
        parts += [text[at : mark.start], mark.shown]
        at = mark.end
    return "".join([*parts, text[at:]])


def escaped_json(value: Any, indent: int | None = None) -> str:
    r"""Return a value as JSON that reads back as it is, in which all that `visible` writes out is escaped.

    >>> escaped_json({"host": "p\u0430ypal", "path": "a\u200bb"})
    '{"host": "p\\u0430ypal", "path": "a\\u200bb"}'
    """
    written = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return re.sub(r'"(?:[^"\\]|\\.)*"', _escaped, written)


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
    """Return text written out; of one that is longer than `limit` the beginning, how much is left out, and the end.

    >>> outline("0123456789" * 6, 12)
    '01234567 … 48 characters left out … 6789'
    """
    text = text.replace("\r\n", "\n")
    start, end = ends(text, limit)
    if start == end:
        return visible(text)
    return f"{visible(text[:start])} … {end - start:,} characters left out … {visible(text[end:])}"


def in_line(text: str, limit: int) -> str:
    r"""Return the same on one line.

    >>> in_line("a\nb", 80)
    'a\\nb'
    """
    return outline(text, limit).replace("\n", "\\n")


def is_long(text: str, limit: int) -> bool:
    """Whether `outline` leaves something out."""
    start, end = ends(text.replace("\r\n", "\n"), limit)
    return start != end


def ends(text: str, limit: int) -> tuple[int, int]:
    """Return where the beginning that is shown of a text ends and where its end begins; the same if all is shown.

    A run of white space is not cut: it is short when it is counted. Nor is what is hardly longer than the words that
    would stand in its place.
    """
    if len(text) <= limit + SAVED:
        return len(text), len(text)
    start, end = _reach(text, limit * 2 // 3), len(text) - _reach(text[::-1], limit // 3)
    return (start, end) if start + SAVED < end else (len(text), len(text))


def _reach(text: str, room: int) -> int:
    """Return how far into a text one gets with so many characters; a run of white space takes few."""
    at = 0
    while room > 0 and (run := _RUN.search(text, at, at + room)):
        room -= run.start() - at + COUNTED
        at = _WHITE.match(text, run.start()).end()  # type: ignore[union-attr]
    return min(at + max(room, 0), len(text))


def _marks(text: str) -> list[Mark]:
    odd = [Mark(*found.span(), shown) for found in _ODD.finditer(text) if (shown := _named(found)) != found[0]]
    return odd if text.isascii() else sorted([*odd, *_lookalikes(text)])


def _named(found: re.Match[str]) -> str:
    """Return what stands for white space, for marks on one letter, or for a character that cannot be seen."""
    text = found[0]
    if unicodedata.combining(text[0]):
        return f"⟨marks ×{len(text):,}⟩"
    if len(text) < RUN:
        return _code(text)
    if _INDENTED.fullmatch(text) and (text[0] == "\n" or found.start() == 0):
        return text
    runs = [f"{_NAMES.get(char) or _code(char)}×{len(list(same)):,}" for char, same in groupby(text)]
    return f"⟨{' '.join(runs)}⟩" if len(runs) <= 4 else f"⟨white space ×{len(text):,}⟩"


def _code(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _lookalikes(text: str) -> Iterator[Mark]:
    """Yield letters that pass for Latin ones.

    A word that mixes Latin letters with look-alikes of another script is marked, and so is a word that has nothing but
    look-alikes: where Latin letters stand beside it without a space (`https://сору.com`), or where no word near it is
    unmistakably of its script. So honest Russian and Greek stay as they are.
    """
    if not (_LIKE.search(text) or _ACCENTED.search(text)):
        return
    tokens = list(re.finditer(r"\S+", text))
    for number, token in enumerate(tokens):
        if not (_LIKE.search(token[0]) or (_ACCENTED.search(token[0]) and _LATIN.search(token[0]))):
            continue
        words = [word for word in _WORD.finditer(token[0]) if word[1]]
        beside = any(_LATIN.search(word[0]) for word in words)
        near = "".join(each[0] for each in tokens[max(number - _AROUND, 0) : number + _AROUND + 1])
        for word in words:
            yield from (
                Mark(token.start() + word.start() + mark.start, token.start() + word.start() + mark.end, mark.shown)
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
    for script, letters in groupby(word, lambda char: _script(char) if not char.isascii() else ""):
        length = len(list(letters))
        if script in scripts:
            yield Mark(at, at + length, f"⟨{script} {word[at : at + length]}⟩")
        at += length


def _is_like(char: str) -> bool:
    """Whether a letter looks like a Latin one, an accent aside."""
    return _LIKE.match(char) is not None or _LIKE.match(unicodedata.normalize("NFD", char)[0]) is not None


def _unmistakable(text: str, scripts: set[str]) -> bool:
    return any(
        not char.isascii() and char.isalpha() and not _LIKE.match(char) and _script(char) in scripts for char in text
    )


@cache
def _script(char: str) -> str:
    """Return the script of a letter, as its name begins."""
    first = unicodedata.name(char, "unknown").split()[0]
    named = {"FULLWIDTH": "full-width", "LATIN": "phonetic", "SMALL": "Roman numeral", "ROMAN": "Roman numeral"}
    return named.get(first) or ("mathematical" if char >= "\U0001d400" else first.capitalize())
