"""Checks values against a server's JSON Schema, and words what is wrong."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import itertools
import operator
import reprlib
import sys
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from mcp_magic._text import did_you_mean, listed
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import json_arguments
from mcp_magic.schema.example import example_arguments
from mcp_magic.schema.fields import MAX_CHOICES, Field, expected, root_field, shorten
from mcp_magic.schema.formats import FORMATS, fits_format
from mcp_magic.schema.patterns import (
    CHECKS_PER_VALUE,
    StepsExceeded,
    limited_steps,
    matches,
    measure,
    spend_step,
    unchecked,
)
from mcp_magic.schema.resolve import ANNOTATIONS, Resolver, json_key
from mcp_magic.schema.secrets import MASK, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = [
    "check_answer",
    "check_arguments",
    "import_jsonschema",
    "is_bounded",
    "is_secret",
    "is_surely_valid",
    "is_unique",
    "keys_of",
    "make_validator",
    "missing_names",
    "native_check",
    "path_text",
    "prepare_arguments",
    "problems_of",
    "schema_errors",
    "schema_problem",
    "shown",
    "together",
    "told_of",
    "unfit",
    "unknown",
]


# What messages about arguments are made of. Values of secret-looking arguments never appear in them.

MAX_PROBLEMS = 3
"""Problems told at a time; more of them are read by nobody."""


def is_secret(path: str, field: Field | None = None) -> bool:
    """Return whether the value of an argument must not be shown.

    >>> is_secret("api_key"), is_secret("login.password"), is_secret("max_tokens")
    (True, True, False)
    """
    said = field is not None and (field.format == "password" or field.schema.get("writeOnly") is True)
    return said or is_secret_name(path)


class _Short(reprlib.Repr):
    """Repr of the beginning only: a value may have megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict = 3, 4
        self.maxlist = self.maxtuple = self.maxset = 6
        self.maxstring = self.maxlong = self.maxother = 70

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write more than 4,300 digits in decimal.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"an integer of {x.bit_length()} bits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return super().repr_dict(_masked(x), level)

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: ARG002, N802, RUF100  # reprlib finds it by this name
        return "null"


def _masked(value: Mapping[Any, Any]) -> dict[Any, Any]:
    if not any(is_secret_name(str(key)) for key in value):
        return dict(value)
    return {key: MASK if is_secret_name(str(key)) else item for key, item in value.items()}


def shown(value: Any, *, secret: bool = False) -> str:
    """Return a value for a message, about 60 characters of it.

    >>> shown({"user": "me", "password": "pw"}), shown(None), shown("x", secret=True)
    ("{'password': '***', 'user': 'me'}", 'null', '***')
    """
    return MASK if secret else shorten(_Short().repr(value))


def unfit(path: str, field: Field, value: Any) -> str:
    """Return the message for a value that does not fit its field."""
    got = shown(value, secret=is_secret(path, field))
    hint = ""
    if isinstance(value, str) and field.kind in ("enum", "union") and got != MASK:
        hint = did_you_mean(value, [word for word, _ in field.choices if isinstance(word, str)]).replace(
            " Did", ". Did"
        )
    return f"{path}: expected {expected(field)}, got {got}{hint}"


def unknown(names: list[str], field: Field, path: str = "") -> str:
    """Return the message for names that a field does not take."""
    valid = [child.name for child in field.children]
    named = ", ".join(shown(f"{path}.{name}" if path else name) for name in names[:MAX_PROBLEMS])
    more = f" and {len(names) - MAX_PROBLEMS} more" if len(names) > MAX_PROBLEMS else ""
    hint = did_you_mean(names[0], valid) if len(names) == 1 else ""
    takes = f"It takes {listed(valid, 12)}" if valid else "It takes no arguments" if not path else "It takes no names"
    return f"unknown argument{'s' if len(names) > 1 else ''} {named}{more}.{hint} {takes}"


def together(problems: list[str]) -> ArgumentsError:
    """Return one error of several problems, at most three of them told."""
    rest = len(problems) - MAX_PROBLEMS
    more = [f"... and {rest} more"] if rest > 0 else []
    return ArgumentsError("\n".join(problems[:MAX_PROBLEMS] + more))


# What jsonschema found, in lines for people.

_TOLD_BY_TYPE = frozenset(
    (
        *("type", "enum", "const", "format", "pattern", "anyOf", "oneOf", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties"),
    )
)
"""Keywords that `expected ...` spells out; the others need jsonschema's own words."""

MAX_NAME = 120
"""Characters of a name in a message."""

MAX_MISSING = 20
"""Missing names of one object in a message."""

MAX_VALUES = 10_000
"""Values inside of one that are looked at for a secret; one with more of them is not quoted."""


def problems_of(errors: Iterable[ValidationError], arguments: dict[str, Any], root: Field) -> list[str]:
    """Return one line a problem: what is missing, what is unknown, then what does not fit."""
    missing: dict[tuple[str | int, ...], str] = {}
    unfitting: dict[str, None] = {}
    unknowns: dict[str, None] = {}
    extra = [name for name in arguments if not root.is_open and root.at(name) is None]
    if extra:
        unknowns[unknown(extra, root)] = None
    for error in (told for found in errors for told in told_of(found)):
        path = list(error.absolute_path)
        field = _field_at(root, path)
        if error.validator == "required" and isinstance(error.instance, dict):
            if tuple(path) not in missing:  # each name that is missing is an error, and each knows all of them
                missing[tuple(path)] = _missing(error, path, field)
        elif error.validator in ("additionalProperties", "unevaluatedProperties") and isinstance(error.instance, dict):
            names = [str(name) for name in error.instance if field.at(str(name)) is None]
            if names and path:
                unknowns[unknown(names, field, path_text(path))] = None
            elif not names:
                unfitting[_in_its_words(error, path, field)] = None
        else:
            unfitting[_line(error, path, field)] = None
    absent = ", ".join(missing.values())
    return [f"missing: {absent}"] * bool(absent) + list(unknowns) + list(unfitting)


def _line(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    name = path_text(path) or "arguments"
    if not error.validator:  # the schema `false`; jsonschema does not say where
        forbidden = [path_text([*path, child.name]) for child in field.children if child.raw is False]
        return f"{listed(forbidden or [name])}: must be left out"
    if error.validator == "oneOf" and not error.context:
        return f"{name}: expected exactly one of {field.type_text} to fit, got {_got(error, path, field)}"
    return unfit(name, field, error.instance) if error.validator in _TOLD_BY_TYPE else _in_its_words(error, path, field)


def _in_its_words(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    """The message of jsonschema, unless it could have a secret in it: it starts with the value."""
    name = path_text(path) or "arguments"
    if _has_secret(error.instance) or is_secret(name, field):
        return f"{name}: does not fit {error.validator!r} of the schema, got {_got(error, path, field)}"
    return f"{name}: {shorten(' '.join(error.message.split()), 160)}"


def _got(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    return shown(error.instance, secret=is_secret(path_text(path), field))


def _has_secret(value: Any) -> bool:
    """Whether a list or an object has a secret in it, or a text that speaks of one."""
    waiting: list[Any] = [value] if isinstance(value, list | dict) else []
    for _ in range(MAX_VALUES):
        if not waiting:
            return False
        inner = waiting.pop()
        if isinstance(inner, dict):
            waiting += [*inner, *inner.values()]
        elif isinstance(inner, list):
            waiting += inner
        elif isinstance(inner, str) and is_secret(inner):
            return True
    return True


def missing_names(error: ValidationError) -> list[str]:
    """Return the names that an object lacks, given its error of `required`."""
    required = cast("list[Any]", error.validator_value)
    return [name for name in required if isinstance(name, str) and name not in cast("Any", error.instance)]


def _missing(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    names = missing_names(error)
    texts = []
    for name in names[:MAX_MISSING]:
        child = field.at(name)
        texts.append(
            f"{shorten(path_text([*path, name]), MAX_NAME)} ({child.type_text if child is not None else 'any'})"
        )
    return ", ".join(texts) + (f" and {len(names) - MAX_MISSING:,} more" if len(names) > MAX_MISSING else "")


def told_of(error: ValidationError) -> Iterator[ValidationError]:
    """Yield, for a union's error, the errors of the variant that was meant; if none was, the error itself."""
    meant = _meant_variant(error) if isinstance(error.instance, dict | list) else []
    if not meant:
        yield error
    for each in meant:
        yield from told_of(each)


def _meant_variant(error: ValidationError) -> list[ValidationError]:
    """The errors of the only variant with the value's type and `kind`-like constants, or with the fewest errors."""
    variants: dict[Any, list[ValidationError]] = {}
    for each in error.context if error.validator in ("anyOf", "oneOf") else ():
        if each.schema_path:  # that of a variant `false`, which nobody meant, is empty
            variants.setdefault(each.schema_path[0], []).append(each)
    wrong = [next(filter(_is_discriminator, errors), None) for errors in variants.values()]
    if wrong and wrong[0] and all(each and each.path == wrong[0].path for each in wrong):
        return [wrong[0]]
    near = [errors for errors in variants.values() if not any(map(_excludes, errors))]
    fewest = min(map(len, near), default=0)
    best = [errors for errors in near if len(errors) == fewest]
    return best[0] if len(best) == 1 else []


def _excludes(error: ValidationError) -> bool:
    """Whether an error of a variant means that another one was meant."""
    return (not error.path and error.validator == "type") or _is_discriminator(error)


def _is_discriminator(error: ValidationError) -> bool:
    return len(error.path) == 1 and error.validator in ("const", "enum")


def _field_at(root: Field, path: Iterable[str | int]) -> Field:
    field = root
    for key in path:
        inner = field.at(key)
        if inner is None:
            return Field(str(key), True, resolver=root.resolver)
        field = inner
    return field


def path_text(path: Iterable[str | int]) -> str:
    """Write a path as Python would.

    >>> path_text(["items", 0, "price"])
    'items[0].price'
    """
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


# jsonschema, with three things of its own changed: what it imports, how it runs patterns, and how long it goes on.
#
# A server's patterns run within bounds (`schema.patterns`); one that is not checked fits every text. A validation
# counts its steps, because references that double at each level take for ever (`limited_steps`).
#
# Beside JupyterLab jsonschema finds its optional `rfc3987_syntax`, which builds 38 parsers when it is imported: 1.3 s
# of work in every kernel, for the formats "iri" and "iri-reference" alone. Here it is imported when one is checked.

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


# A fast yes by jsonschema-rs: 100,000 rows of an answer take milliseconds, and jsonschema is not imported for them.
#
# jsonschema has the last word on what does not fit here, and on what is not tried here. An Interrupt cannot end
# native code, so a schema is read first, and a value is tried only if that takes a bounded number of steps.
# jsonschema-rs is not built for a browser: there jsonschema decides everything.

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


# Whether arguments fit a schema, said before anything is sent.

MAX_COMPILED = 512
"""Schemas whose compiled form is kept."""

MAX_ERRORS = 200
"""Errors taken from jsonschema; each row of a long table may have one."""


@dataclass(slots=True)
class _Compiled:
    """A schema made ready. It holds the schema, so that the `id` it is kept under stays its own.

    Attributes:
        fits: Whether a value surely fits.
        names: The arguments that there are; None if it takes others.
        validator: Made at the first need.
        given_up: Whether a validation by jsonschema has taken all its steps; it is not tried again then.
    """

    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    names: frozenset[str] | None = None
    validator: Validator | None = None
    given_up: bool = False

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Whether arguments surely fit, and there are no others."""
        return (self.names is None or self.names.issuperset(arguments)) and self.fits(arguments)


_compiled: dict[tuple[int, bool], _Compiled] = {}
"""By the schema's id, and whether it is one of answers."""


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise unless the arguments are valid, by the draft that the schema names (else 2020-12).

    A name that the schema does not list is a mistake, too, unless the schema says that it takes more
    (`additionalProperties`, `patternProperties`) or has no list of them. What cannot be decided here (a reference
    to another document, an invalid schema) is left to the server: nothing is ever fetched.

    Args:
        arguments: JSON values; see `to_json_value`.
        schema: The tool's input schema. Its compiled form is kept for the object, so pass the same one.

    Raises:
        ArgumentsError: At most three problems, each on a line that names the argument, what was expected
            and what was got.

    >>> check_arguments({"n": "x"}, {"properties": {"n": {"type": "integer"}}})
    Traceback (most recent call last):
    mcp_magic.errors.ArgumentsError: n: expected integer, got 'x'
    """
    compiled = _compile(schema)
    if not compiled.takes(arguments):
        _check(dict(arguments), compiled)


def prepare_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call as they are sent: JSON values that are valid, with what was left out filled in.

    Filled in is what the schema requires and has a default for, also inside of objects and lists.

    Args:
        arguments: Python objects by name; see `to_json_value`.
        schema: As for `check_arguments`.

    Returns:
        The arguments, and by path the defaults that were filled in.

    Raises:
        ArgumentsError: One has no JSON form, or they are not valid.

    >>> schema = {"properties": {"scale": {"default": "css"}, "type": {}}, "required": ["scale"]}
    >>> prepare_arguments({"type": "png"}, schema)
    ({'type': 'png', 'scale': 'css'}, {'scale': 'css'})
    """
    sent = json_arguments(arguments, schema)
    compiled, filled = _compile(schema), dict[str, Any]()
    if not compiled.takes(sent):
        sent = _completed(sent, root_field(schema), (), filled)
        if not (filled and compiled.takes(sent)):
            _check(sent, compiled)
    return sent, filled


def _completed(value: Any, field: Field | None, path: tuple[str | int, ...], filled: dict[str, Any]) -> Any:
    """Return a value with the required defaults that it lacks, each noted in `filled`."""
    if isinstance(value, list) and field is not None:
        return [_completed(item, field.at(index), (*path, index), filled) for index, item in enumerate(value)]
    if not isinstance(value, dict) or field is None or field.kind != "object":
        return value
    made = {name: _completed(item, field.at(name), (*path, name), filled) for name, item in value.items()}
    for child in field.children:
        if child.required and not child.needed and child.name not in made:
            made[child.name] = filled[path_text((*path, child.name))] = copy.deepcopy(child.default)
    return made


def schema_errors(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[ValidationError] | None:
    """Return all that jsonschema finds wrong with arguments; None if they obviously fit.

    Args:
        arguments: JSON values.
        schema: As for `check_arguments`; names that it does not list are no error of jsonschema's.
    """
    compiled = _compile(schema)
    return None if compiled.takes(arguments) else _errors(compiled, dict(arguments))


def check_answer(structured: Any, schema: Mapping[str, Any]) -> list[str]:
    """Raise unless structured content fits a tool's output schema, as far as patterns and steps are bounded.

    Args:
        structured: JSON values.
        schema: The output schema. Its compiled form is kept for the object, so pass the same one.

    Returns:
        The patterns against which a text of it could not be checked.

    Raises:
        ValueError: It does not fit, or the schema is invalid or refers to another document.
    """
    compiled = _compile(schema, answers=True)
    with unchecked() as patterns:
        if compiled.given_up or compiled.fits(structured):
            return list(patterns)
    import_jsonschema()
    from jsonschema.exceptions import best_match

    try:
        if compiled.validator is None:
            if (invalid := schema_problem(schema)) is not None:
                raise ValueError(f"the output schema is invalid: {invalid}")
            compiled.validator = make_validator(schema)
        with unchecked() as patterns, limited_steps(structured):
            problem = best_match(compiled.validator.iter_errors(structured))
    except (StepsExceeded, RecursionError):
        compiled.given_up = True
        return []
    except ValueError:
        raise
    except Exception as error:  # a reference that leads nowhere, or whatever an invalid keyword happens to raise
        raise ValueError(f"the output schema is invalid: {error}") from error
    if problem is not None:
        raise ValueError(f"Invalid structured content: {problem}") from problem
    return list(patterns)


def is_bounded(schema: Mapping[str, Any]) -> bool:
    """Return whether checking a value takes a bounded number of steps, as far as examples tell.

    >>> is_bounded({"properties": {"n": {"type": "integer"}}, "required": ["n"]})
    True
    """
    schema_errors(example_arguments(schema), schema)
    schema_errors({child.name: {} for child in root_field(schema).children if child.required}, schema)  # fits nothing
    return not _compile(schema).given_up


def _compile(schema: Mapping[str, Any], *, answers: bool = False) -> _Compiled:
    key = id(schema), answers
    known = _compiled.get(key)
    if known is not None and known.schema is schema:
        return known
    while len(_compiled) >= MAX_COMPILED:
        _compiled.pop(next(iter(_compiled)), None)
    compiled = _compiled[key] = _Compiled(schema, native_check(schema, formats=not answers))
    root = root_field(schema)
    if not answers and not root.is_open:
        compiled.names = frozenset(child.name for child in root.children)
    return compiled


def _check(arguments: dict[str, Any], compiled: _Compiled) -> None:
    problems = problems_of(_errors(compiled, arguments), arguments, root_field(compiled.schema))
    if problems:
        raise together(problems)


def _validator(schema: Mapping[str, Any]) -> Validator:
    import_jsonschema()
    from jsonschema import FormatChecker

    formats = FormatChecker(formats=())
    for name in FORMATS:
        formats.checks(name)(lambda text, name=name: fits_format(text, name))
    return make_validator(schema, formats)


def _errors(compiled: _Compiled, arguments: dict[str, Any]) -> list[ValidationError]:
    """Return what jsonschema finds, up to where it cannot go on."""
    found: list[ValidationError] = []
    if compiled.given_up:
        return found
    try:
        if compiled.validator is None:
            compiled.validator = _validator(compiled.schema)
        with limited_steps(arguments):
            found.extend(itertools.islice(compiled.validator.iter_errors(arguments), MAX_ERRORS))
    except StepsExceeded:
        compiled.given_up = True
    except Exception:
        # An invalid schema raises whatever its keyword happens to (TypeError, re.error, UnknownType,
        # Unresolvable, RecursionError). The server made the schema, so the server shall judge.
        pass
    return found
