"""What a request mentions that may become an argument: numbers, quotations, dates, paths, places and so on."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic.agent.offline import moments
from mcp_magic.agent.offline.places import place_names
from mcp_magic.agent.offline.quantities import NUMBER, NUMBER_WORDS, number_of, words_number
from mcp_magic.agent.offline.zones import zone_said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Kind", "Mention", "masked", "mentions", "quotations"]

Kind = Literal[
    "json", "quoted", "datetime", "date", "month", "ago", "time", "url", "email", "uuid", "zone", "path", "code",
    "number", "place", "words", "reference",
]  # fmt: skip


@dataclass(frozen=True)
class Mention:
    """A part of a text that stands for a value.

    Attributes:
        kind: What it looks like.
        start: Where it begins in the text.
        end: Where it ends.
        text: The part itself, a quotation without its quotes.
        value: What it stands for.
    """

    kind: Kind
    start: int
    end: int
    text: str
    value: Any


_QUOTED = re.compile(
    r"""(?<![\w"])"([^"]*)"(?!\w)|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)|(?<!`)`([^`]+)`"""
    "|\u201c([^\u201d]*)\u201d|(?<!\\w)\u2018((?:[^\u2019]|(?<=\\w)\u2019(?=\\w))*)\u2019(?!\\w)|\u00ab([^\u00bb]*)\u00bb"
)
_URL = re.compile(r"\b[a-zA-Z][\w+.-]*://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]|\bdata:[\w/+.-]+[;,]\S+")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_ZONE = re.compile(r"\b(?:[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_+-]+){1,2}|[A-Z]{3,4})\b(?!/)")
_PATH = re.compile(
    r"(?<![\w/:.~])(?:[A-Za-z]:\\[^\s,;\"']+|(?:~|\.{1,2})?/[\w.~@+-]*(?:/[\w.~@+-]+)*/?)|(?<!\S)\.{1,2}(?=[\s,;?!]|$)"
)
_FILE = re.compile(r"(?<![\w/.@:-])[\w-]+(?:[./][\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}\b(?![\w/(:])")
_CODE = re.compile(
    r"(?<![\w/.@-])(?:HEAD(?:[~^]\d*)*(?::[\w./-]+)?|[A-Za-z][\w.-]*[~^]\d+|[A-Za-z0-9][\w.-]*:[\w./-]*/[\w./-]+"
    r"|(?=\w*\d)(?=\w*[a-f])[0-9a-f]{7,40}|[A-Za-z][\w.]*(?:/[\w.-]+)+|[A-Za-z]+_[\w-]+|[A-Za-z]+-[\w.-]*\d[\w-]*"
    r"|[A-Za-z]+\d[\w.-]*|v\d+(?:\.\d+)+|[A-Za-z]+(?:-[A-Za-z0-9]+)+)(?![\w/])"
)
_PAIR = re.compile(r"\b(\d+)\s?[x\u00d7]\s?(\d+)\b")


def quotations(text: str) -> list[Mention]:
    r"""Return what is in quotes; an apostrophe inside of a word is none.

    >>> [found.text for found in quotations("say 'it's on' or \"don't\", Tom's `x`")]
    ["it's on", "don't", 'x']
    """
    found = []
    for match in _QUOTED.finditer(text):
        inner = next(group for group in match.groups() if group is not None)
        found.append(Mention("quoted", match.start(), match.end(), inner, inner))
    return found


def masked(text: str, parts: list[Mention]) -> str:
    """Return the text with parts blanked out by characters of no meaning, so that places in it stay."""
    for part in parts:
        text = text[: part.start] + "\0" * (part.end - part.start) + text[part.end :]
    return text


@lru_cache(maxsize=32)  # the clause is read again for each tool that is tried
def mentions(text: str, vocabulary: Callable[[str], bool]) -> tuple[Mention, ...]:
    """Return all mentions of a text, from left to right; none overlap.

    Args:
        text: A clause of a request.
        vocabulary: Whether some tool has a stem; a capital at the beginning does not make such a word a name.
    """
    found: list[Mention] = []
    for reader in (*_READERS, _numbers):
        found += reader(masked(text, found))
    blank = masked(text, found)
    found += [Mention("place", start, end, name, name) for start, end, name in place_names(blank, vocabulary)]
    return tuple(sorted(found, key=lambda mention: mention.start))


def _json(text: str) -> Iterator[Mention]:
    decoder = json.JSONDecoder()
    end = 0
    for match in re.finditer(r"(?<![\w\"'`])[\[{]", text):
        if match.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        yield Mention("json", match.start(), end, text[match.start() : end], value)


def _plain(kind: Kind, pattern: re.Pattern[str]) -> Callable[[str], Iterator[Mention]]:
    def read(text: str) -> Iterator[Mention]:
        for match in pattern.finditer(text):
            yield Mention(kind, match.start(), match.end(), match[0], match[0])

    return read


def _converted(
    kind: Kind, pattern: re.Pattern[str], convert: Callable[[str], object]
) -> Callable[[str], Iterator[Mention]]:
    def read(text: str) -> Iterator[Mention]:
        for match in pattern.finditer(text):
            if (value := convert(match[0])) is not None:
                yield Mention(kind, match.start(), match.end(), match[0], value)

    return read


def _dates(text: str) -> Iterator[Mention]:
    year = re.search(r"\b(?:19|20)\d\d\b", text)
    for match in moments.DATE.finditer(text):
        if (day := moments.iso_date(match[0], int(year[0]) if year else None)) is not None:
            yield Mention("date", match.start(), match.end(), match[0], day)


def _numbers(text: str) -> Iterator[Mention]:
    taken: set[int] = set()
    for match in NUMBER.finditer(_PAIR.sub(lambda pair: pair[0].replace("x", " ").replace("\u00d7", " "), text)):
        taken |= set(range(match.start(), match.end()))
        value = number_of(match[0])
        if isinstance(value, int) or math.isfinite(value):
            yield Mention("number", match.start(), match.end(), match[0], value)
    for match in NUMBER_WORDS.finditer(text):
        if taken & set(range(match.start(), match.end())):
            continue
        said = words_number(match[0])
        if said is not None:
            yield Mention("number", match.start(), match.end(), match[0], said)
            continue
        for part in re.finditer(r"[\w-]+", match[0]):
            if (said := words_number(part[0])) is not None and part[0] not in ("and", "a"):
                start = match.start() + part.start()
                yield Mention("number", start, start + len(part[0]), part[0], said)


_READERS: tuple[Callable[[str], Iterator[Mention]], ...] = (
    _json,
    lambda text: iter(quotations(text)),
    _plain("url", _URL),
    _plain("email", _EMAIL),
    _plain("uuid", _UUID),
    _converted("datetime", moments.DATETIME, moments.iso_datetime),
    _plain("ago", moments.AGO),
    _dates,
    _converted("month", moments.MONTH, moments.days_of),
    _converted("time", moments.TIME, moments.iso_time),
    _converted("zone", _ZONE, zone_said),
    _plain("path", _PATH),
    _plain("path", _FILE),
    _converted("code", _CODE, lambda text: None if NUMBER_WORDS.fullmatch(text) else text),
)
"""Readers of mentions; each reads what those before it left."""
