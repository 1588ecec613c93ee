"""The closures that `quick_check` is made of: each says True for "fits", False for "not sure"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp_magic.schema.formats import fits_format
from mcp_magic.schema.merge import is_number
from mcp_magic.schema.patterns import matches

__all__ = ["Check", "all_fit", "any_fits", "fixed", "limits", "numeric", "stated_types", "sure", "textual", "unsure"]

Check = Callable[[Any], bool]


def unsure(_: Any) -> bool:
    """Say that it is not sure, whatever the value."""
    return False


def sure(_: Any) -> bool:
    """Say that anything fits."""
    return True


def stated_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema states; "" stands for one that is invalid."""
    stated = schema.get("type")
    return [name if isinstance(name, str) else "" for name in (stated if isinstance(stated, list) else [stated])]


def textual(schema: Mapping[str, Any]) -> Check:
    """Make the check of a string: length, pattern and format."""
    low, high = limits(schema, "minLength", "maxLength")
    name, pattern = schema.get("format", ""), schema.get("pattern", "")
    if not isinstance(name, str) or not isinstance(pattern, str):
        return unsure
    if not name and not pattern:
        return lambda value: type(value) is str and low <= len(value) <= high
    return lambda value: (
        type(value) is str
        and low <= len(value) <= high
        and (not pattern or matches(pattern, value) is True)
        and fits_format(value, name)
    )


def numeric(schema: Mapping[str, Any], *, whole: bool) -> Check:
    """Make the check of a number; by JSON Schema 1.0 is an integer and true is no number."""
    low, high = limits(schema, "minimum", "maximum")

    def fits(value: Any) -> bool:
        if type(value) is int:
            return low <= value <= high
        # Compared with the bounds, NaN fails; infinity does not, and JSON has neither.
        return type(value) is float and low <= value <= high and math.isfinite(value) and not (whole and value % 1)

    return fits


def limits(schema: Mapping[str, Any], low: str, high: str) -> tuple[float, float]:
    """Return both bounds; bounds that nothing meets if they are no numbers."""
    if not all(is_number(schema.get(key, 0)) for key in (low, high)):
        return math.inf, -math.inf
    return schema.get(low, -math.inf), schema.get(high, math.inf)


def any_fits(checks: list[Check]) -> Check:
    """Make a check that one of these is enough for."""

    def fits(value: Any) -> bool:
        return any(check(value) for check in checks)

    return fits


def all_fit(checks: list[Check]) -> Check:
    """Make a check that all of these are needed for."""

    def fits(value: Any) -> bool:
        return all(check(value) for check in checks)

    return fits


def fixed(schema: Mapping[str, Any]) -> Check:
    """Make the check of `enum` or `const`, for the texts, whole numbers and null among the values."""
    values = schema.get("enum", [schema.get("const")])
    if not isinstance(values, list) or ("enum" in schema and "const" in schema):
        return unsure
    texts = frozenset(value for value in values if type(value) is str)
    whole = frozenset(value for value in values if type(value) is int)
    null = None in values
    return lambda value: (
        value in texts if type(value) is str else value in whole if type(value) is int else null and value is None
    )
