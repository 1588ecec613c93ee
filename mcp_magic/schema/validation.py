"""jsonschema, with three things of its own changed: what it imports, how it runs patterns, and how long it goes on.

A server's patterns run within bounds (`schema.patterns`); one that is not checked fits every text. A validation counts
its steps, because references that double at each level take for ever (`limited_steps`).

Beside JupyterLab jsonschema finds its optional `rfc3987_syntax`, which builds 38 parsers when it is imported: 1.3 s
of work in every kernel, for the formats "iri" and "iri-reference" alone. Here it is imported when one is checked.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.budget import StepsExceeded, limited_steps, spend_step
from mcp_magic.schema.describe import MAX_CHOICES, shorten
from mcp_magic.schema.merge import json_key
from mcp_magic.schema.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["import_jsonschema", "is_unique", "keys_of", "make_validator", "schema_problem"]

_GRAMMAR = "rfc3987_syntax"

NAMES_A_STEP = 4
"""Names of a list that take as long as one step."""

MAX_KEPT = 256
"""Lists of `enum` whose values are kept ready."""


def import_jsonschema() -> ModuleType:
    """Import jsonschema, and its grammar of IRIs at the first need of it; return the module.

    Whoever imports jsonschema afterwards has what is here, with all formats that it would have otherwise.
    """
    if "jsonschema" in sys.modules or _GRAMMAR in sys.modules or importlib.util.find_spec(_GRAMMAR) is None:
        return importlib.import_module("jsonschema")
    instead: Any = ModuleType(_GRAMMAR)
    instead.is_valid_syntax = _is_valid_syntax
    sys.modules[_GRAMMAR] = instead
    try:
        return importlib.import_module("jsonschema")
    finally:
        sys.modules.pop(_GRAMMAR, None)


def _is_valid_syntax(term: str, value: str) -> bool:
    grammar: Any = importlib.import_module(_GRAMMAR)
    return bool(grammar.is_valid_syntax(term, value))


def make_validator(schema: Any, format_checker: Any = None) -> Validator:
    """Make a validator of the draft that a schema names (else 2020-12), which fetches nothing and bounds patterns."""
    import_jsonschema()
    from referencing import Registry

    cls = _bounded(_draft_of(schema), _names_patterns(schema))
    # An empty registry of our own: without one, jsonschema would fetch remote references.
    made: Validator = cls(schema, registry=Registry(), format_checker=format_checker)
    return made


def schema_problem(schema: Any, cls: type[Validator] | None = None) -> ValidationError | None:
    """Return what a metaschema finds wrong with a schema; None also for one that is too large to be checked.

    Args:
        schema: The schema.
        cls: The draft to check it by, instead of the one that it names (else 2020-12).

    Raises:
        RecursionError: It is nested too deeply.
    """
    from jsonschema.exceptions import best_match

    validator = _metaschema_validator(cls or _draft_of(schema))
    try:
        with limited_steps(None):
            problem: ValidationError | None = best_match(validator.iter_errors(schema))
            return problem
    except StepsExceeded:
        return None


def _draft_of(schema: Any) -> type[Validator]:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    named = isinstance(schema, dict) and isinstance(schema.get("$schema"), str)
    found: type[Validator] = validator_for(schema, default=Draft202012Validator) if named else Draft202012Validator
    return found


@cache
def _metaschema_validator(cls: type[Validator]) -> Validator:
    made: Validator = _bounded(cls, named=True)(cls.META_SCHEMA)
    return made


@cache
def _bounded(cls: type[Validator], named: bool) -> Any:
    """Return a draft's class with patterns that are bounded; `named`: whether its schemas have `patternProperties`."""
    from jsonschema import validators

    whole: Any = cls.VALIDATORS["additionalProperties"]

    def additional(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and isinstance(instance, dict):
            # What fits no pattern, and a schema without them: the keyword itself would run them all as one.
            spend_step(len(patterns) * len(instance))
            instance = {
                name: value
                for name, value in instance.items()
                if all(matches(pattern, name) is False for pattern in patterns)
            }
            schema = {key: value for key, value in schema.items() if key != "patternProperties"}
        yield from whole(validator, rest, instance, schema)

    bounded: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": additional,
        "enum": _enum,
        "uniqueItems": _unique_items,
    }
    for keyword in ("required", "dependentRequired", "dependencies"):
        if keyword in cls.VALIDATORS:
            bounded[keyword] = _counting_names(cls.VALIDATORS[keyword])
    if named:  # jsonschema's own keyword looks for the patterns of all schemas that took part, and runs them
        bounded["unevaluatedProperties"] = _nothing
    extending: Any = validators
    made = extending.extend(cls, bounded)
    evolve = made.evolve

    def evolve_here(validator: Any, **changes: Any) -> Any:
        spend_step()
        # A part that names its draft would be checked by the class of that draft, and its patterns without bounds.
        part = changes.get("schema", validator.schema)
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {key: value for key, value in part.items() if key != "$schema"}
        return evolve(validator, **changes)

    made.evolve = evolve_here
    return made


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and matches(pattern, instance) is False:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    spend_step(len(patterns) * len(instance))
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if matches(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _counting_names(keyword: Any) -> Any:
    """Return a keyword that counts the names in its list, each of which may be an error."""

    def counted(validator: Any, names: Any, instance: Any, schema: Any) -> Any:
        lists = names.values() if isinstance(names, dict) else [names]
        spend_step(sum(len(each) for each in lists if isinstance(each, list)) // NAMES_A_STEP)
        return keyword(validator, names, instance, schema)

    return counted


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Iterator[Any]:
    # jsonschema's own compares the value with each of the list, and writes all of them into its message.
    from jsonschema import ValidationError

    if json_key(instance) not in keys_of(values):
        yield ValidationError(f"{shorten(repr(instance))} is not one of {shorten(repr(values[:MAX_CHOICES]))}")


def keys_of(values: list[Any]) -> frozenset[Hashable]:
    """Return the values of an `enum` as `json_key` has them, kept for the list."""
    known = _keys.get(id(values))
    if known is None or known[0] is not values:
        if len(_keys) >= MAX_KEPT:
            _keys.clear()
        known = _keys[id(values)] = values, frozenset(map(json_key, values))
    return known[1]


_keys: dict[int, tuple[list[Any], frozenset[Hashable]]] = {}
"""The values of each `enum` that was checked, by its id."""


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[Any]:
    # jsonschema's own compares each item with all others where they are objects.
    from jsonschema import ValidationError

    if unique and not is_unique(instance):
        yield ValidationError(f"{shorten(repr(instance))} has non-unique elements")


def is_unique(instance: Any) -> bool:
    """Return whether a list has no value twice; what is no list has none."""
    return not isinstance(instance, list) or len(set(map(json_key, instance))) == len(instance)


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


def _names_patterns(schema: Any) -> bool:
    """Whether `patternProperties` is anywhere in a schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "patternProperties" in part:
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False
