"""Addresses without a scheme, such as `localhost:8000/mcp`."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_magic.config.serverfiles import is_server_file

__all__ = ["url_meant"]

_ADDRESS = re.compile(r"(?P<host>localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?P<port>:\d+)?(?P<path>/.*)?")


def url_meant(text: str, directory: Path | None = None) -> str:
    """Return the URL that an address means; "" if it is none, or a file in the directory is meant.

    >>> url_meant("localhost:8000/mcp"), url_meant("mcp.example.com/mcp"), url_meant("weather"), url_meant("a/b.py")
    ('http://localhost:8000/mcp', 'https://mcp.example.com/mcp', '', '')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or is_server_file(text) or (directory or Path()).joinpath(text.partition("/")[0]).exists():
        return ""
    if not (found["port"] or found["path"]):
        return ""
    near = found["port"] or found["host"] == "localhost" or found["host"].replace(".", "").isdecimal()
    return f"{'http' if near else 'https'}://{text}"
