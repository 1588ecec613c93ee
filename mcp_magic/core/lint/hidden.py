"""Characters that a person does not see and a model reads.

Sources: Unicode Technical Report 36 (security) and Standard Annex 9 (bidirectional text); CVE-2021-42574.
What has an honest use is left alone there: joiners in emoji and in scripts that need them, flags, variation
selectors behind a character that has variants.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

__all__ = ["Hidden", "hidden", "lookalikes", "unhidden"]

_SHOWN = 4
"""Code points that a message names, with their positions."""

_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
)
_KINDS = (
    ("tag characters", re.compile("[\U000e0000-\U000e007f]")),
    ("bidirectional controls", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    ("zero-width characters", re.compile(f"[{_ZERO_WIDTH}]")),
    ("invisible selectors", re.compile("[\U000e0100-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]")),
    ("private use characters", re.compile("[\ue000-\uf8ff\U000f0000-\U0010ffff]")),
    ("control characters", re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff]")),
)
MAX_TEXT = 200_000
"""Characters that are looked at: for each hidden one those around it are, too."""

_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
_ANY = re.compile("|".join(pattern.pattern for _, pattern in _KINDS))

_NO_JOINERS = ("LATIN", "GREEK", "CYRILLIC", "DIGIT", "CJK", "HANGUL", "HIRAGANA", "KATAKANA")
_ALIKE = frozenset(("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC"))


class Hidden(NamedTuple):
    """Characters of one kind in a text.

    Attributes:
        kind: Which, for example `"tag characters"`.
        points: Code points and positions in words: `"U+200B ZERO WIDTH SPACE at 12"`.
        says: What tag characters spell, else "".
    """

    kind: str
    points: str
    says: str = ""


def hidden(text: str) -> list[Hidden]:
    """Return what is hidden in the first `MAX_TEXT` characters of a text, one row for each kind of character.

    >>> [found.points for found in hidden("ab\u200bc")]
    ['U+200B ZERO WIDTH SPACE at 2']
    >>> hidden("Family: \U0001f468\u200d\U0001f469, flag: \U0001f3f4\U000e0067\U000e0062\U000e007f")
    []
    """
    text = text[:MAX_TEXT]
    if text.isascii() and text.isprintable():
        return []
    text = _FLAG.sub(lambda found: " " * len(found[0]), text)
    rows = []
    for kind, pattern in _KINDS:
        places = [found.start() for found in pattern.finditer(text) if not _honest(text, found.start())]
        if places:
            rows.append(Hidden(kind, _named(text, places), _spelt(text, places) if kind == _KINDS[0][0] else ""))
    return rows


def unhidden(text: str) -> str:
    """Return what a model may read in a text: tag characters as the letters that they stand for, the rest taken out."""
    tags = "".join(chr(ord(c) - 0xE0000) if "\U000e0020" <= c <= "\U000e007e" else c for c in text)
    return unicodedata.normalize("NFKC", _ANY.sub(lambda found: " " if found[0] == "\x0b" else "", tags))


def lookalikes(name: str) -> str:
    """Return the scripts that a name mixes although their letters look alike, in words; "" if it does not.

    >>> lookalikes("get_p\u0430ssword"), lookalikes("get_password"), lookalikes("\u65e5\u672c_tool")
    ('LATIN and CYRILLIC (U+0430 CYRILLIC SMALL LETTER A at 5)', '', '')
    """
    if name.isascii():
        return ""
    scripts: dict[str, int] = {}
    for place, letter in enumerate(name):
        first = unicodedata.name(letter, "").partition(" ")[0]
        if first in ("FULLWIDTH", "MATHEMATICAL"):
            return f"letters that only look like Latin ({_named(name, [place])})"
        if first in _ALIKE and letter.isalpha():
            scripts.setdefault(first, place)
    if len(scripts) < 2:
        return ""
    odd = next(place for script, place in scripts.items() if script != "LATIN")
    return f"{' and '.join(scripts)} ({_named(name, [odd])})"


def _honest(text: str, place: int) -> bool:
    """Whether a joiner or a mark stands where scripts and emoji need it."""
    if text[place] == "\ufeff":
        return False
    before, after = text[max(0, place - 20) : place].rstrip("\ufe0f")[-1:], text[place + 1 : place + 2]
    if text[place] in "\u200c\u200d":
        return _joins(before) and _joins(after)
    if text[place] in "\u200e\u200f\u061c":  # marks, which text in Arabic and Hebrew has beside its words
        return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text[max(0, place - 20) : place + 20])
    return text[place] in "\u180b\u180c\u180d\u180f" and unicodedata.name(before or " ", "").startswith("MONGOLIAN")


def _joins(letter: str) -> bool:
    if not letter:
        return False
    name = unicodedata.name(letter, "")
    kind = unicodedata.category(letter)
    return kind in ("So", "Sk") or (kind[0] in "LM" and not name.startswith(_NO_JOINERS))


def _named(text: str, places: list[int]) -> str:
    named = [f"U+{ord(text[p]):04X} {unicodedata.name(text[p], '')}".strip() + f" at {p}" for p in places[:_SHOWN]]
    more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
    return ", ".join(named) + more


def _spelt(text: str, places: list[int]) -> str:
    letters = (ord(text[place]) - 0xE0000 for place in places)
    return "".join(chr(letter) for letter in letters if 0x20 <= letter < 0x7F)[:80]
