"""Integers beyond 64 bits in arguments: msgpack, in which threads are kept, has none.

They are kept as their digits, and become numbers again where the tool's schema asks for one.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic.langchain.content import LEVELS, storable
from mcp_magic.schema.check import schema_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["is_too_deep", "kept", "sent"]

MAX_NUMBERS = 20
"""Long integers of one call that become numbers again; each takes a check of all arguments."""

_DIGITS = re.compile(r"-?[1-9]\d{18,}")


def kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a thread can hold them.

    >>> kept({"n": 2**70, "m": 1})
    {'n': '1180591620717411303424', 'm': 1}
    """
    stored: dict[str, Any] = storable(dict(arguments))
    return stored


def is_too_deep(value: Any, levels: int = LEVELS) -> bool:
    """Whether a value has more levels than a thread can hold.

    >>> is_too_deep([[1]], levels=2), is_too_deep([[{}]], levels=2)
    (False, True)
    """
    if not isinstance(value, dict | list):
        return False
    return not levels or any(
        is_too_deep(each, levels - 1) for each in (value.values() if isinstance(value, dict) else value)
    )


def sent(arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return kept arguments as they go out: digits that do not fit the schema as text, and do as a number, as that.

    >>> schema = {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    >>> sent({"n": "1180591620717411303424", "s": "1180591620717411303424"}, schema)
    {'n': 1180591620717411303424, 's': '1180591620717411303424'}
    """
    exact: dict[str, Any] = dict(arguments)
    wrong = _errors(exact, input_schema)
    for path in list(islice(_digits(exact), MAX_NUMBERS)) if wrong else ():
        tried = _with_number(exact, path)
        fewer = _errors(tried, input_schema)
        if fewer < wrong:
            exact, wrong = tried, fewer
    return exact


def _digits(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the digits of long integers are."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _digits(each, (*path, key))


def _with_number(value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return int(value)
    copy = value.copy()
    copy[path[0]] = _with_number(copy[path[0]], path[1:])
    return copy


def _errors(arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> int:
    return len(schema_errors(arguments, input_schema) or ())
