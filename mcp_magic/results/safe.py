"""Text and data of servers, made harmless before they are shown.

Nothing that a server sends may steer a terminal (escape sequences), reorder what is read (bidirectional
controls: CVE-2021-42574, "Trojan Source"), hide in plain sight, or leave the attribute that it is put in.
"""

from __future__ import annotations

import base64
import binascii
import re

from ..errors import InvalidResponseError
from ..wording import clean

__all__ = ["BINARY", "clean", "cut", "data_url", "decode", "is_base64", "mime", "one_line", "shorten"]

BINARY = "application/octet-stream"
"""The MIME type of what says none, or says something that is no MIME type."""

_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text`, cleaned.

    The cut comes first, so the length of `text` costs nothing.
    """
    return clean(text[:limit])[:limit]


def shorten(text: str, limit: int) -> str:
    """Return `text` cleaned, with an ellipsis if it is longer than `limit`.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    shown = cut(text, limit + 1)
    return shown if len(shown) <= limit else shown[: max(limit - 1, 0)] + "…"


def one_line(text: str, limit: int) -> str:
    r"""Return `text` on one line, shortened.

    >>> one_line("a\n  b\t c", 80), one_line("a" + " " * 99 + "b", 10)
    ('a b c', 'a…')
    """
    start = text[: limit * 4 + 1]
    rest = "…" if len(text) > len(start) else ""  # what comes behind so much white space
    return shorten(" ".join(start.split()) + rest, limit)


def mime(value: str | None) -> str:
    """Return the type and subtype of a MIME type, or `application/octet-stream` if it is none.

    >>> mime("Text/CSV; charset=utf-8")
    'text/csv'
    >>> mime('image/png" onerror="alert(1)')
    'application/octet-stream'
    """
    kind = (value or "")[:200].partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) else BINARY


def is_base64(data: str) -> bool:
    """Return whether `data` holds nothing but base64, so that it can stand in an attribute.

    >>> is_base64("aGk="), is_base64('aGk=" onload="x')
    (True, False)
    """
    return _BASE64.fullmatch(data) is not None


def data_url(mime_type: str, data: str) -> str:
    """Return a `data:` URL (RFC 2397) for base64 data.

    Raises:
        InvalidResponseError: The data is not base64.
    """
    if not is_base64(data):
        raise InvalidResponseError(f"the server sent {mime(mime_type)} that is not base64")
    return f"data:{mime(mime_type)};base64,{''.join(data.split())}"


def decode(data: str, what: str = "data") -> bytes:
    """Return the bytes of base64 data.

    Raises:
        InvalidResponseError: The data is not base64.
    """
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        reason = f"the server sent {what} that is not base64"
    raise InvalidResponseError(reason)
