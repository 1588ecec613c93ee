"""A fast yes for arguments that obviously fit, without jsonschema.

Importing jsonschema takes longer than most first calls, and validating with it longer than most
in-process ones. So the plain part of a schema is compiled into closures. They only ever say "fits" or
"not sure"; each is at least as strict as JSON Schema, whatever it does not know makes it unsure, and
jsonschema has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp_magic.schema.budget import MAX_DEPTH
from mcp_magic.schema.merge import ANNOTATIONS
from mcp_magic.schema.quickchecks import (
    Check,
    all_fit,
    any_fits,
    fixed,
    limits,
    numeric,
    stated_types,
    sure,
    textual,
    unsure,
)
from mcp_magic.schema.resolve import Resolver

__all__ = ["quick_check"]

_IGNORED = ANNOTATIONS.union(("$schema", "$id", "$defs", "definitions", "$ref", "enumNames"))
_HANDLED = _IGNORED.union(("type", "anyOf", "enum", "const"))
_KEYWORDS = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "string": frozenset(("minLength", "maxLength", "pattern", "format")),
    "integer": frozenset(("minimum", "maximum")),
    "number": frozenset(("minimum", "maximum")),
}
"""Type -> the keywords that its check knows. With any other keyword the check is unsure."""

_MAX_REFERENCES = 50


def quick_check(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Compile a schema into a function: True if the arguments surely fit, False for "not sure".

    >>> fits = quick_check({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
    >>> fits({"n": 3}), fits({"n": 0}), fits({"n": True}), fits({"m": 1})
    (True, False, False, False)
    """
    stated = str(schema.get("$schema"))
    if "draft-03" in stated or "draft-04" in stated:
        return unsure  # there, 1.0 is no integer
    return _Compiler(schema).compile(schema)


class _Compiler:
    """Compiles the schemas of one document, each referenced one at most twice.

    A check may call itself, but only for a deeper part of the value, and alternatives of alternatives are
    left to jsonschema; so a check takes time in proportion to the value.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.resolver = Resolver(root)
        self.referenced: dict[tuple[str, bool], list[Check]] = {}
        self.entered: set[str] = set()  # references on the way to here that are about the same part of the value
        self.in_any = False
        self.depth = 0

    def compile(self, schema: Any) -> Check:
        if schema is True or schema == {}:
            return sure
        if not isinstance(schema, Mapping) or ("$id" in schema and schema is not self.root) or self.depth > MAX_DEPTH:
            return unsure
        known = _HANDLED.union(*(_KEYWORDS.get(name, ()) for name in stated_types(schema)))
        if any(key not in known and not str(key).startswith("x-") for key in schema):
            return unsure
        self.depth += 1
        checks = [make(self, schema) for key, make in _MAKERS.items() if key in schema]
        self.depth -= 1
        if not checks:
            return sure
        return checks[0] if len(checks) == 1 else all_fit(checks)

    def deeper(self, schema: Any) -> Check:
        """Compile the schema of a part of the value."""
        before = self.entered, self.in_any
        self.entered, self.in_any = set(), False
        try:
            return self.compile(schema)
        finally:
            self.entered, self.in_any = before

    def reference(self, schema: Mapping[str, Any]) -> Check:
        ref = schema["$ref"]
        if not isinstance(ref, str) or not ref.startswith("#/") or ref in self.entered:
            return unsure
        key = ref, self.in_any
        if key not in self.referenced:
            target = self.resolver.find(ref)
            if target is True or len(self.referenced) >= _MAX_REFERENCES:
                return unsure
            self.referenced[key] = [unsure]
            self.entered.add(ref)
            self.referenced[key][0] = self.compile(target)
            self.entered.discard(ref)
        cell = self.referenced[key]
        return lambda value: cell[0](value)

    def typed(self, schema: Mapping[str, Any]) -> Check:
        names = stated_types(schema)
        checks = [self.named(name, schema) for name in names]
        return checks[0] if len(checks) == 1 else any_fits(checks)

    def named(self, name: str, schema: Mapping[str, Any]) -> Check:
        match name:
            case "object":
                return self.object(schema)
            case "array":
                return self.array(schema)
            case "string":
                return textual(schema)
            case "integer" | "number":
                return numeric(schema, whole=name == "integer")
            case "boolean":
                return lambda value: value is True or value is False
            case "null":
                return lambda value: value is None
        return unsure

    def any_of(self, schema: Mapping[str, Any]) -> Check:
        options = schema["anyOf"]
        if not isinstance(options, list) or self.in_any:
            return unsure
        self.in_any = True
        try:
            return any_fits([self.compile(option) for option in options])
        finally:
            self.in_any = False

    def array(self, schema: Mapping[str, Any]) -> Check:
        item = self.deeper(schema.get("items", True))
        low, high = limits(schema, "minItems", "maxItems")
        return lambda value: type(value) is list and low <= len(value) <= high and all(map(item, value))

    def object(self, schema: Mapping[str, Any]) -> Check:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            return unsure
        rest = schema.get("additionalProperties", "properties" not in schema)
        checks = {name: self.deeper(inner) for name, inner in properties.items()}
        other = unsure if rest is False else self.deeper(rest)
        needed = [name for name in required if isinstance(name, str)]
        if len(needed) != len(required):
            return unsure

        def fits(value: Any) -> bool:
            if type(value) is not dict:
                return False
            for name in needed:
                if name not in value:
                    return False
            for name, item in value.items():  # noqa: SIM110  # all() of a generator takes twice the time
                if type(name) is not str or not checks.get(name, other)(item):
                    return False
            return True

        return fits


_MAKERS: dict[str, Callable[[_Compiler, Mapping[str, Any]], Check]] = {
    "$ref": _Compiler.reference,
    "type": _Compiler.typed,
    "anyOf": _Compiler.any_of,
    "enum": lambda _, schema: fixed(schema),
    "const": lambda _, schema: fixed(schema),
}
