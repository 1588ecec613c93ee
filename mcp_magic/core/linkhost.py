"""Where a link leads that a server has written."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["host_of"]


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
