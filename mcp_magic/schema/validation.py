"""jsonschema, with two things of its own changed: what it imports, and how it runs patterns.

A server's patterns run within bounds (`schema.patterns`); one that is not checked fits every text.

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

from mcp_magic.schema.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator

__all__ = ["import_jsonschema", "make_validator"]

_GRAMMAR = "rfc3987_syntax"


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
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    cls = _bounded(validator_for(schema, default=Draft202012Validator), _names_patterns(schema))
    # An empty registry of our own: without one, jsonschema would fetch remote references.
    made: Validator = cls(schema, registry=Registry(), format_checker=format_checker)
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
    }
    if named:  # jsonschema's own keyword looks for the patterns of all schemas that took part, and runs them
        bounded["unevaluatedProperties"] = _nothing
    extending: Any = validators
    made = extending.extend(cls, bounded)
    evolve = made.evolve

    def evolve_here(validator: Any, **changes: Any) -> Any:
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
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if matches(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


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
