"""Two schemas as one: what `allOf` means, as far as a form, a message or a signature needs it.

The merged schema is for people and for turning text into values; validation uses the original.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeGuard

__all__ = ["ANNOTATIONS", "distinct", "is_number", "json_equal", "json_key", "merge"]

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment")
)
"""Keywords that describe a value and do not constrain it."""

MAX_PRODUCT = 64
"""Alternatives that `anyOf` times `anyOf` may make; more help nobody."""

Schema = dict[str, Any]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a keyword's value is a JSON number (booleans are not, nor is `1e400`, which reads as infinity)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; unlike Python's, 1 and true differ, at any depth.

    >>> json_equal(1, 1.0), json_equal(1, True), json_equal([0], [False])
    (True, False, False)
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    return bool(left == right)


def json_key(value: Any) -> Hashable:
    """Return what two JSON values share exactly if they are equal, to find equal ones without comparing each pair.

    >>> json_key([1, {"a": 2}]) == json_key([1.0, {"a": 2}]), json_key(1) == json_key(True)
    (True, False)
    """
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list | tuple):
        return list, tuple(map(json_key, value))
    if isinstance(value, Mapping):
        return dict, frozenset((key, json_key(inner)) for key, inner in value.items())
    return value if isinstance(value, Hashable) else (type(value), id(value))


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return JSON values in order, equal ones once.

    >>> distinct([1, True, 1.0, [2], [2]])
    [1, True, [2]]
    """
    found: dict[Hashable, Any] = {}
    for value in values:
        found.setdefault(json_key(value), value)
    return list(found.values())


def merge(near: Mapping[str, Any], far: Mapping[str, Any]) -> Schema:
    """Return a schema that asks for both; for annotations `near` wins.

    >>> merge({"minimum": 1, "title": "A"}, {"type": "integer", "minimum": 3, "title": "B"})
    {'minimum': 3, 'title': 'A', 'type': 'integer'}
    """
    merged = dict(near)
    for key, value in far.items():
        if key not in merged:
            merged[key] = value
        elif key in _COMBINE:
            merged[key] = _COMBINE[key](merged[key], value)
    return merged


def _named(near: Any, far: Any) -> Any:
    if not (isinstance(near, Mapping) and isinstance(far, Mapping)):
        return near if isinstance(near, Mapping) else far
    both = {name: _both(near[name], far[name]) if name in far else near[name] for name in near}
    return both | {name: schema for name, schema in far.items() if name not in near}


def _both(near: Any, far: Any) -> Any:
    if near is False or far is False:
        return False
    if near is True or near == far:
        return far
    return near if far is True else {"allOf": [near, far]}


def _union(near: Any, far: Any) -> Any:
    if not (isinstance(near, list) and isinstance(far, list)):
        return near if isinstance(near, list) else far
    return distinct([*near, *far])


def _types(near: Any, far: Any) -> Any:
    left = near if isinstance(near, list) else [near]
    right = far if isinstance(far, list) else [far]
    left, right = ([name for name in distinct(names) if isinstance(name, str)] for names in (left, right))
    common = [name for name in left if name in right or (name == "integer" and "number" in right)]
    common += [name for name in right if name == "integer" and "number" in left and name not in common]
    if not common:
        return near
    return common if len(common) > 1 else common[0]


def _enums(near: Any, far: Any) -> Any:
    if not (isinstance(near, list) and isinstance(far, list)):
        return near if isinstance(near, list) else far
    keys = set(map(json_key, far))
    return [value for value in near if json_key(value) in keys] or near


def _alternatives(near: Any, far: Any) -> Any:
    if not (isinstance(near, list) and isinstance(far, list)):
        return near if isinstance(near, list) else far
    return [{"allOf": pair} for pair in itertools.islice(map(list, itertools.product(near, far)), MAX_PRODUCT)]


def _bound(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def tighter(near: Any, far: Any) -> Any:
        return choose(near, far) if is_number(near) and is_number(far) else near

    return tighter


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _named,
    "patternProperties": _named,
    "required": _union,
    "type": _types,
    "enum": _enums,
    "items": _both,
    "additionalProperties": _both,
    "anyOf": _alternatives,
    "oneOf": _alternatives,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _bound(max)),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _bound(min)),
}
