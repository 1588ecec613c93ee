"""Numbers in English text: digits, thousands, percent, words."""

from __future__ import annotations

import re

__all__ = ["NUMBER", "NUMBER_WORDS", "number_of", "words_number"]

_SMALL = {
    word: value
    for value, word in enumerate(
        re.findall(
            r"\w+",
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty",
        )
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2
    )
}
_LARGE = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "dozen": 12}

_ANY = "|".join(sorted(_SMALL | _TENS | _LARGE, key=len, reverse=True))

NUMBER_WORDS = re.compile(rf"\b(?:(?:minus|negative)\s+)?(?:a\s+(?=dozen|hundred|thousand|million))?(?:{_ANY})"
                          rf"(?:(?:\s+and\s+|[\s-]+)(?:{_ANY}))*\b", re.IGNORECASE)  # fmt: skip
"""A number in words: "minus twenty-five", "two hundred and six"; or several, which `words_number` tells apart."""

NUMBER = re.compile(
    r"(?<![\w.])(?<!\d,)[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?(?:\s?%|st\b|nd\b|rd\b|th\b)?"
)
"""A number in digits, with thousands set off by commas, an exponent, a percent sign or an ordinal's ending."""


def number_of(text: str) -> int | float:
    """Return the number that `NUMBER` found; percent are of a hundred only where the reader says so.

    >>> number_of("1,250"), number_of("-2.5"), number_of("10th"), number_of("1e3"), number_of("20 %")
    (1250, -2.5, 10, 1000.0, 20)
    """
    digits = re.sub(r"(?i)\s?%$|(st|nd|rd|th)$", "", text).replace(",", "").replace("\u2212", "-")
    return int(digits) if re.fullmatch(r"[+-]?\d{1,4000}", digits) else float(digits)


def words_number(text: str) -> int | None:
    """Return the number that words say, or None if they say several.

    >>> words_number("twenty-five"), words_number("minus two hundred and six"), words_number("three thousand")
    (25, -206, 3000)
    >>> words_number("three and four") is None, words_number("five six") is None
    (True, True)
    """
    parts = re.split(r"[\s-]+", text.lower())
    sign = -1 if parts[0] in ("minus", "negative") else 1
    total = current = 0
    last = 10**12
    for part in (part for part in parts if part not in ("minus", "negative", "and", "a")):
        if part in _LARGE:
            current = max(current, 1) * _LARGE[part]
            last = 100 if part == "hundred" else 10**12
            if part != "hundred":
                total, current = total + current, 0
            continue
        value = _SMALL.get(part, _TENS.get(part, 0))
        size = 10 if part in _TENS else 1
        if size >= last or (last == 10 and value >= 10):
            return None
        current, last = current + value, size
    if "and" in parts and not set(parts) & set(_LARGE):
        return None
    return sign * (total + current)
