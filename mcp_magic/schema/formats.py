"""Checks of the JSON Schema `format` keyword, with the standard library only.

The checks of jsonschema depend on which optional packages are installed: with JupyterLab it refuses a date-time
without a time zone, without JupyterLab it accepts any text. Servers (above all with pydantic) accept what ISO 8601
allows, so these checks do too, in every environment.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_DURATION = re.compile(r"[+-]?P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?")
_LEAP_SECOND = re.compile(r":60(?=$|[.,Zz+-])")


def _date_time(text: str) -> bool:
    # RFC 3339 allows second 60; Python does not.
    if len(text) < 12 or text[4] != "-":
        return False
    datetime.datetime.fromisoformat(_LEAP_SECOND.sub(":59", text.upper()))
    return True


def _time(text: str) -> bool:
    datetime.time.fromisoformat(_LEAP_SECOND.sub(":59", text.upper()))
    return ":" in text


def _email(text: str) -> bool:
    user, at, domain = text.rpartition("@")
    return bool(user and at and domain) and not re.search(r"\s", text)


def _uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": lambda text: bool(datetime.date.fromisoformat(text)) and len(text) == 10,
    "date-time": _date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": _email,
    "idn-email": _email,
    "ipv4": lambda text: bool(ipaddress.IPv4Address(text)),
    "ipv6": lambda text: not ipaddress.IPv6Address(text).scope_id,
    "iri": _uri,
    "time": _time,
    "uri": _uri,
    "uuid": lambda text: bool(uuid.UUID(text)) and len(text) == 36,
}
"""Format -> check of a text, which returns False or raises ValueError if it does not fit. Others are not checked."""


def fits_format(text: object, name: str) -> bool:
    """Return whether `text` fits a format; True for an unknown format and for a value that is not text."""
    check = FORMATS.get(name)
    if check is None or not isinstance(text, str):
        return True
    try:
        return check(text)
    except ValueError:
        return False
