"""Dates and times in English text, as ISO 8601 writes them."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta

__all__ = ["AGO", "DATE", "DATETIME", "MONTH", "TIME", "days_of", "iso_date", "iso_datetime", "iso_time"]

_MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
} | {"sept": 9}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))

DATETIME = re.compile(r"\b\d{4}-\d\d-\d\d(?:T| | at )\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?!\d)")
DATE = re.compile(
    rf"\b\d{{4}}[-/]\d\d?[-/]\d\d?\b|\b(?:{_NAMES})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_NAMES})\b\.?(?:,?\s+\d{{4}}\b)?|\b(?:today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)
AGO = re.compile(
    r"\b(?:\d+|an?|one|two|three|four|five|six|ten)\s+(?:minute|hour|day|week|month|year)s?\s+ago\b"
    r"|\blast (?:week|month|year|night)\b",
    re.IGNORECASE,
)
MONTH = re.compile(rf"\b(?:{_NAMES})\.?\s+(?:of\s+)?\d{{4}}\b", re.IGNORECASE)
TIME = re.compile(
    r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b\.?)?|\b\d{1,2}\s?(?:[ap]\.?m\b\.?|o['\u2019]clock\b)|\b(?:noon|midnight)\b",
    re.IGNORECASE,
)


def iso_date(text: str, year: int | None = None, today: date | None = None) -> str | None:
    """Return the day that `DATE` found, or None if there is no such day or no year.

    Args:
        text: What was found.
        year: The year of a date that has none.
        today: What "today" is; by default the day it is.

    >>> iso_date("March 3rd, 2026"), iso_date("3 Mar 2026"), iso_date("2026/3/3"), iso_date("1 June", 2026)
    ('2026-03-03', '2026-03-03', '2026-03-03', '2026-06-01')
    >>> iso_date("tomorrow", today=date(2026, 12, 31)), iso_date("2026-02-30")
    ('2027-01-01', None)
    """
    low = text.lower()
    if low in _RELATIVE:
        return ((today or date.today()) + timedelta(days=_RELATIVE[low])).isoformat()
    numbers = [int(found) for found in re.findall(r"\d+", low)]
    named = re.search(rf"\b(?:{_NAMES})\b", low)
    try:
        if named is None:
            return date(*numbers).isoformat()
        which = numbers[1] if len(numbers) > 1 else year
        return None if which is None else date(which, _MONTHS[named[0]], numbers[0]).isoformat()
    except ValueError:
        return None


_RELATIVE = {"yesterday": -1, "today": 0, "tomorrow": 1}


def days_of(text: str) -> tuple[str, str] | None:
    """Return the first and the last day of the month that `MONTH` found.

    >>> days_of("February 2028")
    ('2028-02-01', '2028-02-29')
    """
    found = re.match(r"[a-z]+", text.lower())
    year = int(text[-4:])
    if found is None or year < 1:
        return None
    month = _MONTHS[found[0]]
    return date(year, month, 1).isoformat(), date(year, month, calendar.monthrange(year, month)[1]).isoformat()


def iso_datetime(text: str) -> str:
    """Return the moment that `DATETIME` found.

    >>> iso_datetime("2026-03-01 at 14:30")
    '2026-03-01T14:30'
    """
    return re.sub(r" at | ", "T", text, count=1)


def iso_time(text: str) -> str | None:
    """Return the time that `TIME` found as HH:MM or HH:MM:SS, or None if there is no such time.

    >>> [iso_time(text) for text in ("3pm", "9:30", "12 a.m.", "12:15 PM", "noon", "23:59:58", "15pm")]
    ['15:00', '09:30', '00:00', '12:15', '12:00', '23:59:58', None]
    """
    low = text.lower().replace(".", "")
    if low in ("noon", "midnight"):
        return "12:00" if low == "noon" else "00:00"
    numbers = [int(found) for found in re.findall(r"\d+", low)]
    half = re.search(r"[ap]m", low)
    if half:
        if not 1 <= numbers[0] <= 12:
            return None
        numbers[0] = numbers[0] % 12 + (12 if half[0] == "pm" else 0)
    if numbers[0] > 23:
        return None
    return ":".join(f"{number:02}" for number in (numbers if len(numbers) > 1 else [numbers[0], 0]))
