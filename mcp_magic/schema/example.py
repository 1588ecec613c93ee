"""Makes a plausible example of a schema, to show how to call a tool."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.fields import BOUNDS, MISSING, input_root
from mcp_magic.schema.patterns import Budget
from mcp_magic.schema.resolve import is_number

if TYPE_CHECKING:
    from mcp_magic.schema.fields import Field

MAX_OBJECT_DEPTH = 6  # levels of objects in an example; a schema that requires itself has no instance
MAX_REQUIRED_DEPTH = 20  # levels of lists that get an item because their `minItems` asks for one

MAX_STATED = 10  # examples of a schema that are looked at

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

_HELLO = "hello"  # the example of a text that is called "text": `text=text` does not tell the name from the value


def example_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return plausible values for the required arguments, valid except for keywords such as `pattern` and `if`.

    `validate.valid_example` tells whether they are valid.
    """
    root = input_root(schema)
    stated = root.schema.get("examples")
    required = {child.name for child in root.children if child.required}
    for example in stated if isinstance(stated, list) else ():
        if isinstance(example, dict) and _is_json(example) and required <= example.keys():
            return example
    objects = [variant for variant in root.variants if variant.kind == "object"]
    return _object(objects[0] if objects else root, 0, Budget(MAX_VALUES))


def example_value(field: Field) -> Any:
    """Return a plausible value of one field, as `example_arguments` does for all."""
    return _value(field, 0, Budget(MAX_VALUES))


def _value(field: Field, depth: int, budget: Budget) -> Any:
    stated = field.schema.get("examples")
    candidates = [*(stated[:MAX_STATED] if isinstance(stated, list) else ())]
    candidates += [field.schema["example"]] if "example" in field.schema else []  # OpenAPI's spelling
    default = field.default
    if default is not MISSING and (default is not None or not field.required):
        candidates.append(default)
    fitting = (value for value in candidates if _is_json(value) and field.takes(value))
    value = next(fitting, MISSING)
    return _generate(field, depth, budget) if value is MISSING else value


def _is_json(value: Any) -> bool:
    """Return whether a value from a schema can be sent; `1e400` reads as infinity, which JSON does not have."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _generate(field: Field, depth: int, budget: Budget) -> Any:
    match field.kind:
        case "enum" | "const":
            return field.choices[0][0] if field.choices else None
        case "integer" | "number":
            return _number(field.schema, is_integer=field.kind == "integer")
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


def _number(schema: Mapping[str, Any], *, is_integer: bool) -> int | float:
    """Return a number in range: 1, or one near the bounds; 1 also if floats cannot reach the range."""
    step = schema.get("multipleOf")
    step = step if is_number(step) and step > 0 else 1 if is_integer else None
    bounds = {keyword: schema[keyword] for keyword in BOUNDS if is_number(schema.get(keyword))}
    candidates: list[float] = [step or 1]
    try:
        for limit in sorted(bounds.values()):
            if step is None:
                candidates += [limit, limit + 1, limit - 1, sum(bounds.values()) / len(bounds)]
            else:
                exact = Fraction(repr(step))  # in decimals: 3 * 0.1 is no multiple of 0.1
                candidates += [float((math.ceil(Fraction(repr(limit)) / exact) + more) * exact) for more in (0, 1, -1)]
    except (OverflowError, ValueError):
        return 1
    fitting = (x for x in candidates if all(BOUNDS[keyword](x, limit) for keyword, limit in bounds.items()))
    value = next(fitting, 1)
    return int(value) if is_integer or float(value).is_integer() else value


def _string(field: Field) -> str:
    if field.is_base64:
        return "aGVsbG8="
    text = _FORMATS.get(field.format) or (_HELLO if field.name.casefold() == _TEXT else _TEXT)
    low, high = field.schema.get("minLength"), field.schema.get("maxLength")
    if is_number(low) and len(text) < low <= 1_000:
        text = (text * math.ceil(low / len(text)))[: int(low)]
    return text[: int(high)] if is_number(high) else text


def _array(field: Field, depth: int, budget: Budget) -> list[Any]:
    low, high = field.schema.get("minItems"), field.schema.get("maxItems")
    count = int(low) if is_number(low) and low > 0 else max(1, len(field.prefix))
    count = min(count, 20, int(high) if is_number(high) else count)
    if depth >= MAX_OBJECT_DEPTH and (not low or depth > MAX_REQUIRED_DEPTH):
        return []
    fields = [field.at(index) for index in range(budget.take(count))]
    return [_value(item, depth + 1, budget) for item in fields if item is not None]


def _object(field: Field, depth: int, budget: Budget) -> dict[str, Any]:
    if depth > MAX_OBJECT_DEPTH:
        return {}
    names = _chosen_names(field.raw)
    required = [child for child in field.children if child.required or child.name in names]
    return {child.name: _value(child, depth + 1, budget) for child in required[: budget.take(len(required))]}


def _chosen_names(schema: Any) -> list[Any]:
    """Return the names that the first of an object's alternatives requires."""
    for key in ("anyOf", "oneOf"):
        options = schema.get(key) if isinstance(schema, Mapping) else None
        first = options[0] if isinstance(options, list) and options else None
        if isinstance(first, Mapping) and isinstance(first.get("required"), list):
            return list(first["required"])
    return []
