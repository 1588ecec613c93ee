"""Checked access to the tables that config files hold.

No message has a value in it that could be a secret: tables of servers hold tokens.
"""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "PROTOCOLS",
    "SAMPLING_MODES",
    "FieldError",
    "as_text",
    "flag",
    "kind_of",
    "path_of",
    "protocol",
    "reject_unknown",
    "sampling",
    "seconds",
    "text",
    "texts",
]

SAMPLING_MODES = ("off", "ask", "auto")
"""What a server that asks for a model's words gets: nothing, what the person lets pass, or an answer at once."""


PROTOCOLS = ("auto", "handshake", "2026-07-28")
"""How a session is begun: by what the server takes, by `initialize` only, or by `server/discover` only."""


class FieldError(ValueError):
    """What is wrong with a key; never leaves `core`: who catches it knows the file and the line.

    Attributes:
        message: What is wrong.
        path: The key, from the table that is looked at down.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        self.message = message
        super().__init__(f"{'.'.join(map(str, path))}: {message}" if path else message)
        self.path = path


_KINDS: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a table"}


def kind_of(value: Any) -> str:
    """Say what a value is without saying what it holds.

    >>> kind_of(3), kind_of(""), kind_of(None)
    ('a number', 'empty text', 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def reject_unknown(table: Mapping[str, Any], valid: Iterable[str], *path: str | int) -> None:
    """Raise FieldError for the first key of `table` that is not among the valid ones."""
    valid = list(valid)
    for key in table:
        if key not in valid:
            hint = did_you_mean(key, valid) or f" Valid: {listed(valid, limit=12)}."
            raise FieldError(f"unknown key.{hint}", *path, key)


def path_of(text: str, base: Path | None) -> Path:
    """Return the path that a file in `base` means by `text`."""
    path = Path(text).expanduser()
    return base / path if base else path


def text(said: Mapping[str, Any], key: str) -> str:
    """Return the text under `key`, which must be there."""
    value = said[key]
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"expected text, got {kind_of(value)}.", key)
    return value


def flag(said: Mapping[str, Any], key: str) -> bool:
    """Return the boolean under `key`, false when there is none."""
    value = said.get(key, False)
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false, got {kind_of(value)}.", key)
    return value


def texts(said: Mapping[str, Any], key: str) -> dict[str, str]:
    """Read a table of strings, or Jupyter's list of `{"name": ..., "value": ...}`."""
    table = said.get(key, {})
    if isinstance(table, list) and all(isinstance(row, dict) and {"name", "value"} <= row.keys() for row in table):
        table = {str(row["name"]): row["value"] for row in table}
    if not isinstance(table, dict):
        raise FieldError(f"expected names with values, got {kind_of(table)}.", key)
    return {name: as_text(value, key, name) for name, value in table.items() if value is not None}


def as_text(value: Any, *path: str | int) -> str:
    """Return text, a number or a boolean as text: people write `"PORT": 8000`."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise FieldError(f"expected text, got {kind_of(value)}.", *path)
    text = str(value)
    if path[0] == "headers" and any(c in text for c in "\r\n\0"):
        raise FieldError("a header may not have line breaks.", *path)
    return text


def sampling(value: Any) -> str:
    """Return whether a server may ask for a model's words: `off`, `ask` or `auto`."""
    if value not in SAMPLING_MODES:
        got = f"{value!r}.{did_you_mean(value, SAMPLING_MODES)}" if isinstance(value, str) else f"{kind_of(value)}."
        raise FieldError(f"expected off, ask or auto, got {got}", "sampling")
    return str(value)


def protocol(value: Any) -> str:
    """Return how a session is begun: `auto`, `handshake` or `2026-07-28`."""
    if isinstance(value, date):  # as TOML reads it without quotes
        value = value.isoformat()
    if value not in PROTOCOLS:
        got = f"{value!r}.{did_you_mean(value, PROTOCOLS)}" if isinstance(value, str) else f"{kind_of(value)}."
        raise FieldError(f"expected auto, handshake or 2026-07-28, got {got}", "protocol")
    return str(value)


def seconds(value: Any) -> float:
    """Return a time-out."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise FieldError(f"expected seconds above 0, got {value!r}.", "timeout")
    return float(value)
