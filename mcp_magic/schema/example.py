"""Makes a plausible example of a schema, to show how to call a tool."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.fields import MISSING, root_field
from mcp_magic.schema.patterns import Budget
from mcp_magic.schema.resolve import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.schema.fields import Field

MAX_DEPTH = 6
"""Levels of objects in an example; a schema that requires itself has no instance."""

MAX_REQUIRED_DEPTH = 20
"""Levels of lists that get an item because their `minItems` asks for one."""

MAX_VALUES = 200
"""Values in an example. A larger one is cut even if that makes it invalid, because it would be of no use."""

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "ann@example.com",
    "idn-email": "ann@example.com",
    "hostname": "example.com",
    "uri": "https://example.com",
    "url": "https://example.com",
    "iri": "https://example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "12345678-1234-4234-8234-123456789abc",
    "regex": "a+",
}

_TEXT = "text"
"""The example of any other text. No pattern is tried on it; forms, calls and the server check what the user types."""


def example_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return plausible values for the required arguments, from the schema's examples and defaults if it has some.

    They are valid except for keywords such as `pattern`, `not` and `if`.
    """
    root = root_field(schema)
    stated = root.schema.get("examples")
    for each in stated if isinstance(stated, list) else ():
        if (
            isinstance(each, dict)
            and _is_json(each)
            and all(child.name in each for child in root.children if child.required)
        ):
            return each
    objects = [variant for variant in root.variants if variant.kind == "object"]
    return _object(objects[0] if objects else root, 0, Budget(MAX_VALUES))


def example_value(field: Field) -> Any:
    """Return a plausible value of a field."""
    return _value(field, 0, Budget(MAX_VALUES))


def _value(field: Field, depth: int, budget: Budget) -> Any:
    stated = field.schema.get("examples")
    if isinstance(stated, list) and stated and _is_json(stated[0]):
        return stated[0]
    if "example" in field.schema and _is_json(field.schema["example"]):  # OpenAPI's spelling
        return field.schema["example"]
    default = field.default
    if default is not MISSING and (default is not None or not field.required) and _is_json(default):
        return default
    return _made(field, depth, budget)


def _is_json(value: Any) -> bool:
    """Return whether a value from a schema can be sent; `1e400` reads as infinity, which JSON does not have."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _made(field: Field, depth: int, budget: Budget) -> Any:
    match field.kind:
        case "enum" | "const":
            return field.choices[0][0] if field.choices else None
        case "integer" | "number":
            return _number(field.schema, whole=field.kind == "integer")
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            return _array(field, depth, budget)
        case "object":
            return _object(field, depth, budget)
        case "union":
            return _value(field.variants[0], depth, budget) if field.variants else None
    return _string(field)


def _number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    """Return the number in range that is nearest to 1; 1 if floats cannot reach the range."""
    try:
        return _in_range(schema, whole=whole)
    except (OverflowError, ValueError, ZeroDivisionError):
        return 1


def _in_range(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    step = schema.get("multipleOf")
    step = step if is_number(step) and step > 0 else 1 if whole else None
    low, high = _bound(schema, "minimum", "exclusiveMinimum", max), _bound(schema, "maximum", "exclusiveMaximum", min)
    value: float = step or 1
    if low is not None and value <= low[0]:
        value = _from_low(low, high, step)
    if high is not None and value >= high[0]:
        value = _from_high(low, high, step)
    return int(value) if whole or float(value).is_integer() else value


def _from_low(low: tuple[float, bool], high: tuple[float, bool] | None, step: float | None) -> float:
    bound, open_ = low
    if step is None:
        middle = (bound + high[0]) / 2 if high else bound + 1
        return middle if open_ else bound
    value = math.ceil(bound / step) * step
    return value + step if open_ and value <= bound else value


def _from_high(low: tuple[float, bool] | None, high: tuple[float, bool], step: float | None) -> float:
    bound, open_ = high
    if step is None:
        middle = (bound + low[0]) / 2 if low else bound - 1
        return middle if open_ else bound
    value = math.floor(bound / step) * step
    return value - step if open_ and value >= bound else value


def _bound(schema: Mapping[str, Any], closed: str, open_: str, tighter: Any) -> tuple[float, bool] | None:
    """Return the tighter of the two spellings of a bound, and whether the bound is exclusive."""
    bounds = [(schema[key], key == open_) for key in (closed, open_) if is_number(schema.get(key))]
    if not bounds:
        return None
    value = tighter(bound for bound, _ in bounds)
    return value, (value, True) in bounds


def _string(field: Field) -> str:
    if field.is_base64:
        return "aGVsbG8="
    text = _FORMATS.get(field.format) or _TEXT
    low, high = field.schema.get("minLength"), field.schema.get("maxLength")
    if is_number(low) and len(text) < low <= 1_000:
        text = (text * math.ceil(low / len(text)))[: int(low)]
    return text[: int(high)] if is_number(high) else text


def _array(field: Field, depth: int, budget: Budget) -> list[Any]:
    low, high = field.schema.get("minItems"), field.schema.get("maxItems")
    count = int(low) if is_number(low) and low > 0 else max(1, len(field.prefix))
    count = min(count, 20, int(high) if is_number(high) else count)
    if depth >= MAX_DEPTH and (not low or depth > MAX_REQUIRED_DEPTH):
        return []
    fields = [field.at(index) for index in range(budget.take(count))]
    return [_value(each, depth + 1, budget) for each in fields if each is not None]


def _object(field: Field, depth: int, budget: Budget) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        return {}
    required = [child for child in field.children if child.required]
    return {child.name: _value(child, depth + 1, budget) for child in required[: budget.take(len(required))]}
