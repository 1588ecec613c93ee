"""A fast yes by jsonschema-rs: 100,000 rows of an answer take milliseconds, and jsonschema is not imported for them.

jsonschema has the last word on what does not fit here, and on what is not tried here. An Interrupt cannot end native
code, so a schema is read first, and a value is tried only if that takes a bounded number of steps. jsonschema-rs is not
built for a browser: there jsonschema decides everything.
"""

from __future__ import annotations

import copy
import functools
import operator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.budget import CHECKS_PER_VALUE, measure
from mcp_magic.schema.formats import fits_format
from mcp_magic.schema.merge import ANNOTATIONS, json_key
from mcp_magic.schema.patterns import matches
from mcp_magic.schema.resolve import Resolver
from mcp_magic.schema.validation import is_unique, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["is_surely_valid", "native_check"]

MAX_STEPS = 10_000_000
"""Subschemas that one native validation may try: about a second."""

MAX_LEVELS = 32
"""Levels of a value whose steps are known, where references of a schema lead back to it."""

MAX_PARTS = 50_000
"""Parts of a schema that are read to know them."""

_HERE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"))
_NAMED = frozenset(("properties", "$defs", "definitions"))
_INSIDE = frozenset(("additionalProperties", "items", "prefixItems", "additionalItems", "contains", "propertyNames"))
_FLAT = ANNOTATIONS.union(
    ("$schema", "$id", "type", "required", "format", "pattern", "enumNames", "uniqueItems"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    ("minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"),
)
"""With those above all keywords that are tried here: each takes a time in proportion to the value."""

_DRAFTS = ("2020-12/schema", "2019-09/schema", "draft-07/schema")


def native_check(schema: Any, *, formats: bool = True) -> Callable[[Any], bool]:
    """Compile a schema into a function: True if a value surely fits, False for "not sure".

    Args:
        schema: Any document.
        formats: Whether texts are checked against `format`.

    >>> fits = native_check({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
    >>> fits({"n": 3}), fits({"n": 0}), fits({"n": True})
    (True, False, False)
    """
    try:
        reading = _Reading(copy.deepcopy(schema))
        steps = reading.steps(reading.root, MAX_LEVELS)
        is_valid = reading.compiled(formats)
    except Exception:  # not to be tried here, invalid, a reference that leads nowhere; or there is no jsonschema-rs
        return _unsure
    is_cheap = reading.ends and max(steps) <= CHECKS_PER_VALUE

    def fits(value: Any) -> bool:
        if not is_cheap:
            values, levels = measure(value)
            if not reading.ends and levels > MAX_LEVELS:
                return False
            if values * max(steps[:levels]) > MAX_STEPS:
                return False
        try:
            is_sure = bool(is_valid(value))
        except Exception:  # a key that is no text, half of a surrogate pair
            is_sure = False
        if _ended:
            raise _ended.pop()
        return is_sure

    return fits


def is_surely_valid(schema: Any) -> bool:
    """Return whether a schema is valid by its metaschema; False: the metaschema has to say.

    >>> is_surely_valid({"type": "object"}), is_surely_valid({"type": "int"})
    (True, False)
    """
    return native_check(schema) is not _unsure


def _unsure(_: Any) -> bool:
    return False


class _Reading:
    """A schema that is made ready, and how many steps it takes for a value.

    Attributes:
        root: The schema; it is changed.
        ends: Whether it ends within `MAX_LEVELS`.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self.ends = True
        self._keywords = dict(_KEYWORDS)
        self._resolver = Resolver(root)
        self._known: dict[tuple[str, int], list[int] | None] = {}
        self._parts = 0

    def compiled(self, formats: bool) -> Callable[[Any], bool]:
        """Have jsonschema-rs compile what was read."""
        import jsonschema_rs

        keywords = {**self._keywords, "format": _FORMAT} if formats else self._keywords
        return jsonschema_rs.validator_for(self.root, validate_formats=False, offline=True, keywords=keywords).is_valid

    def steps(self, schema: Any, levels: int) -> list[int]:
        """Return how many subschemas are tried at most for one value on each level, the first being `schema`'s own.

        Raises:
            ValueError: Not all of it is to be tried here.
        """
        self._parts += 1
        if isinstance(schema, bool):
            return [1]
        if not levels:
            self.ends = False
            return []
        if not isinstance(schema, dict) or self._parts > MAX_PARTS or not self._is_simple(schema):
            raise ValueError
        found = [1]
        for keyword, value in schema.items():
            found = _sum(found, self._added(keyword, value, levels))
        return found

    def _added(self, keyword: str, value: Any, levels: int) -> list[int]:
        """Return the steps of one keyword."""
        parts = list(value.values()) if keyword in _NAMED else value if isinstance(value, list) else [value]
        if keyword == "$ref":
            return self._referenced(value, levels)
        if keyword in _HERE:
            return functools.reduce(_sum, (self.steps(part, levels) for part in parts), [])
        if keyword in _NAMED or keyword in _INSIDE:
            inside = [0, *_most(self.steps(part, levels - 1) for part in parts)]
            return [] if keyword in ("$defs", "definitions") else inside  # these are read, but not tried
        if keyword in _VALUES:
            if not set(map(type, parts)) <= {str, bool, type(None)}:
                self._keywords[keyword] = _VALUES[keyword]
        elif keyword not in _FLAT and not keyword.startswith("x-"):
            raise ValueError
        return []

    def _is_simple(self, schema: dict[str, Any]) -> bool:
        """Whether a part says nothing of its draft or its id, and its names are texts, which are compared fast."""
        names = (schema.get("required", []), schema.get("type", ""))
        if not all(isinstance(each, str) or set(map(type, each)) <= {str} for each in names):
            return False
        if schema.get("type") in ("number", ["number"]):
            schema["type"] = ["integer", "number"]  # the same, but a number of 4,000 digits is not converted for it
        if schema is self.root:
            return str(schema.get("$schema", _DRAFTS[0])).rstrip("#").endswith(_DRAFTS)
        return not schema.keys() & {"$id", "$schema"}

    def _referenced(self, ref: Any, levels: int) -> list[int]:
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise ValueError
        key = ref, levels
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self.steps(self._resolver.find(ref), levels)
        known = self._known[key]
        if known is None:  # it leads back to itself, for the same value
            raise ValueError
        return known


def _sum(left: list[int], right: list[int]) -> list[int]:
    return list(map(sum, zip_longest(left, right, fillvalue=0)))


def _most(each: Iterable[list[int]]) -> list[int]:
    return [max(level) for level in zip_longest(*each, fillvalue=0)]


_ended: list[BaseException] = []
"""Interrupts in a keyword of ours, which jsonschema-rs takes for "does not fit"."""


def _keyword(fits: Callable[[Any, Any], bool]) -> Any:
    """Make a keyword of ours, where the time or the meaning of jsonschema-rs's own is another one."""

    class Keyword:
        def __init__(self, schema: dict[str, Any], value: Any, path: list[str | int]) -> None:
            self.value = value

        def validate(self, instance: Any) -> None:
            try:
                is_fit = fits(instance, self.value)
            except Exception:
                raise
            except BaseException as error:
                _ended.append(error)
                raise
            if not is_fit:
                raise ValueError

    return Keyword


def _bound(compare: Callable[[Any, Any], bool]) -> Any:
    return _keyword(
        lambda number, bound: (
            not isinstance(number, int | float) or isinstance(number, bool) or not compare(number, bound)
        )
    )


_KEYWORDS = {
    "pattern": _keyword(lambda text, pattern: not isinstance(text, str) or matches(pattern, text) is not False),
    "uniqueItems": _keyword(lambda instance, unique: not unique or is_unique(instance)),
    "minimum": _bound(operator.lt),
    "maximum": _bound(operator.gt),
    "exclusiveMinimum": _bound(operator.le),
    "exclusiveMaximum": _bound(operator.ge),
}
_VALUES = {
    "enum": _keyword(lambda instance, values: json_key(instance) in keys_of(values)),
    "const": _keyword(lambda instance, value: json_key(instance) == json_key(value)),
}
"""For other values than texts, booleans and null."""
_FORMAT = _keyword(fits_format)
