"""Where a link leads that a server has written."""

from __future__ import annotations

from urllib.parse import urlsplit

from mcp_magic.results.safe import one_line

__all__ = ["MAX_URL", "host_of", "why_not_open"]

MAX_URL = 8_000
"""Characters of an address that a person may be shown."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def why_not_open(url: str) -> str:
    """Return why a person is not asked to open an address; "" if they may be.

    >>> why_not_open("https://github.com@evil.example/")
    "has a user name, which looks like the host: 'github.com@'"
    >>> why_not_open("javascript:alert(1)"), why_not_open("http://127.0.0.1:8000/login")
    ('is no http(s) URL', '')
    """
    if len(url) > MAX_URL:
        return f"has more than {MAX_URL:,} characters"
    if not host_of(url):
        return "is no http(s) URL"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return f"has a user name, which looks like the host: {one_line(parts.netloc.rpartition('@')[0], 60) + '@'!r}"
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        return "has no https, so anybody on the way could read what you type there"
    return ""


def host_of(url: str) -> str:
    """Return the host (and port) that an http(s) URL leads to, in ASCII; "" for any other.

    What comes before an `@` is left out, and names that only look like another are shown as what they are:

    >>> host_of("https://bank.example@evil.example:8443/login")
    'evil.example:8443'
    >>> host_of("https://\u0430pple.com/")
    'xn--pple-43d.com'
    >>> host_of("https://stra\u00dfe.example/"), host_of("https://pay\u200dpal.com/")
    ('xn--strae-oqa.example', '')
    >>> host_of("javascript:alert(1)")
    ''
    """
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
        name = name if name.isascii() else _ascii(name)
    except ValueError:  # no port, or no name that there can be
        return ""
    strange = any(ord(char) <= 32 for char in url) or "\\" in url
    if parts.scheme not in ("http", "https") or not name or strange:
        return ""
    return f"{name}:{port}" if port is not None else name


def _ascii(name: str) -> str:
    """Return a name as a browser sends it (UTS 46): Python's own codec is of 2003 and takes `ß` for `ss`.

    Raises:
        ValueError: There can be no such name.
    """
    import idna

    return idna.encode(name, uts46=True, std3_rules=True).decode()
