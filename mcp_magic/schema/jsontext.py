"""JSON as people and servers write it, read strictly."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["read_json"]


def read_json(text: str) -> Any:
    """Return the value of a JSON text; integers are exact, NaN and Infinity are refused (RFC 8259, section 6).

    Raises:
        ValueError: It is no JSON; the message says why in a few words.

    >>> read_json("[1, 2.0]")
    [1, 2.0]
    >>> read_json("NaN")
    Traceback (most recent call last):
    ValueError: NaN is not JSON
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise ValueError(f"{error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a float")
    return value
