"""Validates values against a server's JSON Schema, and turns the errors into messages."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import itertools
import operator
import re
import reprlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import json_arguments
from mcp_magic.schema.example import example_arguments
from mcp_magic.schema.fields import MAX_CHOICES, Field, expected, input_root, root_field, shorten
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
from mcp_magic.schema.repair import repair
from mcp_magic.schema.resolve import ANNOTATIONS, Resolver, is_multiple, json_key
from mcp_magic.schema.secrets import MASK, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator


# Parts of messages about arguments. They never contain the value of an argument with a secret-looking name.

MAX_PROBLEMS = 3  # problems in one error message; a longer list would not be read


def is_secret(path: str, field: Field | None = None) -> bool:
    """Return whether to mask the value of an argument."""
    is_marked = field is not None and (field.format == "password" or field.schema.get("writeOnly") is True)
    return is_marked or is_secret_name(path)


class _Short(reprlib.Repr):
    """Writes only the beginning of a value's repr, because a value may have megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict = 3, 4
        self.maxlist = self.maxtuple = self.maxset = 6
        self.maxstring = self.maxlong = self.maxother = 70

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write more than 4,300 decimal digits.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"an integer of {x.bit_length()} bits"

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        masked = {key: MASK if is_secret_name(str(key)) else item for key, item in x.items()}
        return super().repr_dict(masked, level)

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: ARG002, N802, RUF100  # reprlib finds it by this name
        return "null"


def shown(value: Any, *, secret: bool = False) -> str:
    """Return a value as a message shows it: at most 60 characters, secrets masked."""
    return MASK if secret else shorten(_Short().repr(value))


def unfit(path: str, field: Field, value: Any) -> str:
    """Return the message for a value that does not fit its field."""
    got = shown(value, secret=is_secret(path, field))
    hint = ""
    if isinstance(value, str) and got != MASK:
        hint = did_you_mean(value, [word for word, _ in field.choices if isinstance(word, str)])
    return f"{path}: expected {expected(field)}, got {got}{'.' if hint else ''}{hint}"


def unknown(names: list[str], field: Field, path: str = "") -> str:
    """Return the message for names that an object does not take."""
    valid = [child.name for child in field.children]
    named = ", ".join(shown(f"{path}.{name}" if path else name) for name in names[:MAX_PROBLEMS])
    more = f" and {len(names) - MAX_PROBLEMS} more" if len(names) > MAX_PROBLEMS else ""
    hint = did_you_mean(names[0], valid) if len(names) == 1 else ""
    takes = [join_names(valid, 12)] if valid else []
    if patterns := field.schema.get("patternProperties"):
        takes.append(f"names that match {join_names(map(shorten, patterns), 3)}")
    text = " and ".join(takes) or ("no names" if path else "no arguments")
    return f"unknown argument{'s' if len(names) > 1 else ''} {named}{more}.{hint} It takes {text}"


def together(problems: list[str]) -> ArgumentsError:
    """Return one error for several problems, of which it tells at most three."""
    rest = len(problems) - MAX_PROBLEMS
    more = [f"... and {rest} more"] if rest > 0 else []
    return ArgumentsError("\n".join(problems[:MAX_PROBLEMS] + more))


# Errors of jsonschema as lines for people.

_COVERED = frozenset(
    (
        *("type", "enum", "const", "format", "pattern", "anyOf", "oneOf", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties"),
    )
)
"""Keywords that `expected ...` covers; for the others the message of jsonschema is used."""

MAX_NAME = 120  # characters of a name that a message shows
MAX_MISSING = 20  # missing names that a message lists


@dataclass(frozen=True)
class Problem:
    """One problem in arguments; `path` is () for the root, and also the place of a value that is missing.

    `apart` says whether the text is a line of its own, so that no other missing name can join it.
    """

    path: tuple[str | int, ...]
    text: str
    missing: bool = False
    apart: bool = False


def argument_problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """Return all problems of arguments, each with its place; see `check_arguments`."""
    compiled = _compile(schema)
    return [] if compiled.takes(arguments) else list(_problems(compiled, dict(arguments)))


def _problems(compiled: _Compiled, arguments: dict[str, Any]) -> Iterator[Problem]:
    root = input_root(compiled.schema)
    extra = [name for name in arguments if not root.is_open and root.at(name) is None]
    if extra:
        yield Problem((), unknown(extra, root))
    yield from _told(_errors(compiled, arguments), root)


def _told(errors: Iterable[ValidationError], root: Field, *, is_answer: bool = False) -> Iterator[Problem]:
    """Yield the problems that errors of jsonschema mean."""
    lacking: set[tuple[str | int, ...]] = set()
    for error in (part for whole in errors for part in _variant_errors(whole)):
        path = tuple(error.absolute_path)
        field = _field_at(root, path)
        if error.validator == "required" and isinstance(error.instance, dict):
            if not isinstance(error.validator_value, list):  # of draft 3, where a property says it
                path, field = path[:-1], _field_at(root, path[:-1])
            if path in lacking:  # jsonschema yields one error for each missing name, and each error lists all
                continue
            lacking.add(path)
            yield from _missing(_lacking([error]), path, field)
        elif error.validator in ("additionalProperties", "unevaluatedProperties") and isinstance(error.instance, dict):
            names = [str(name) for name in error.instance if field.at(str(name)) is None]
            if names and (path or is_answer):  # `extra` has those of the arguments
                yield Problem(path, unknown(names, field, path_text(path)))
            elif not names:
                yield Problem(path, _in_its_words(error, path, field))
        elif error.validator in ("dependentRequired", "dependencies"):
            yield from _dependent(error, path)
        elif alternatives := _alternatives(error):
            yield from _missing_alternatives(alternatives, path, field)
        else:
            yield Problem(path, _line(error, path, field))


def _missing(names: Iterable[str], path: tuple[str | int, ...], field: Field) -> Iterator[Problem]:
    for name in itertools.islice(names, MAX_ERRORS):
        child, shown_path = field.at(name), shorten(path_text((*path, name)), MAX_NAME)
        text = f"missing: {shown_path} ({child.type_text if child is not None else 'any'})"
        yield Problem((*path, name), text, missing=True)


def _lacking(errors: Iterable[ValidationError]) -> dict[str, None]:
    """Return the names that objects lack, by the errors of `required` about them, as keys."""
    names: dict[str, None] = {}
    for error in errors:
        required: Any = error.validator_value
        instance = cast("dict[str, Any]", error.instance)
        if not isinstance(required, list):
            properties = cast("dict[str, Any]", error.schema)["properties"]
            required = [name for name, part in properties.items() if isinstance(part, dict) and part.get("required")]
        names |= {name: None for name in required if isinstance(name, str) and name not in instance}
    return names


def _dependent(error: ValidationError, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield what is missing because another name is there."""
    instance, rules = cast("dict[str, Any]", error.instance), cast("dict[str, Any]", error.validator_value)
    for name, needed in rules.items():
        lacking = [each for each in needed if each not in instance] if isinstance(needed, list) else []
        if lacking and name in instance:
            text = f"missing: {_paths(path, lacking)}, which {path_text((*path, name))} needs"
            yield Problem((*path, lacking[0]), text, missing=True, apart=True)


def _paths(path: tuple[str | int, ...], names: Iterable[str]) -> str:
    shown_paths = [shorten(path_text((*path, name)), MAX_NAME) for name in itertools.islice(names, MAX_MISSING)]
    return " and ".join([*filter(None, [", ".join(shown_paths[:-1])]), *shown_paths[-1:]])


def _alternatives(error: ValidationError) -> list[dict[str, None]]:
    """Return what each variant of a union lacks, if the value is an object that lacks only names in each; else []."""
    near = _near_variants(error)
    if len(near) < 2 or not all(each.validator == "required" and not each.path for errors in near for each in errors):
        return []
    return [_lacking(errors) for errors in near]


def _missing_alternatives(
    alternatives: list[dict[str, None]], path: tuple[str | int, ...], field: Field
) -> Iterator[Problem]:
    """Yield what all variants of a union lack, such as the name that tells them apart; else the choice."""
    everywhere = [name for name in alternatives[0] if all(name in each for each in alternatives)]
    if everywhere:
        yield from _missing(everywhere, path, field)
        return
    texts = list(dict.fromkeys(_paths(path, names) for names in alternatives))
    more = ", or others" if len(texts) > MAX_CHOICES else ""
    yield Problem(path, f"missing: {', or '.join(texts[:MAX_CHOICES])}{more}", missing=True, apart=True)


def _joined(problems: Iterable[Problem]) -> list[str]:
    """Return one line for each problem; all that is missing is on the first line."""
    found = list(dict.fromkeys(problems))
    absent = [problem.text.removeprefix("missing: ") for problem in found if problem.missing and not problem.apart]
    more = f" and {len(absent) - MAX_MISSING:,} more" if len(absent) > MAX_MISSING else ""
    if len(absent) >= MAX_ERRORS:  # not all of them are there
        more = " and many more"
    lines = [f"missing: {', '.join(absent[:MAX_MISSING])}{more}"] if absent else []
    return lines + list(dict.fromkeys(problem.text for problem in found if problem.apart or not problem.missing))


def _line(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    name = path_text(path) or _WHOLE
    got = shown(error.instance, secret=is_secret(name, field))
    if (names := _named_schema(error)) is not None:
        return f"{name}: a name must be {expected(_part('', names, field))}, got {got}"
    if not error.validator:  # the schema `false`; jsonschema does not say which part of it
        forbidden = [path_text([*path, child.name]) for child in field.children if child.raw is False]
        return f"{join_names(forbidden or [name])}: must be left out"
    if error.validator == "oneOf" and not error.context:
        if rivals := _rivals(error):
            return f"{_paths(tuple(path), rivals)}: give only one of them"
        return f"{name}: expected exactly one of {field.type_text} to fit, got {got}"
    if error.validator in ("contains", "minContains", "maxContains"):
        return f"{name}: expected {_contained(error, field)}, got {got}"
    if error.validator in ("items", "additionalItems", "unevaluatedItems") and field.prefix:
        return f"{name}: expected {field.type_text} and no more items, got {got}"
    if "patternProperties" in error.absolute_schema_path and isinstance(error.schema, dict):
        field = _part(field.name, error.schema, field)  # a name may have a schema of its own beside the pattern's
    return unfit(name, field, error.instance) if error.validator in _COVERED else _in_its_words(error, path, field)


_WHOLE = "arguments"  # the name of the root


def _part(name: str, schema: Any, field: Field) -> Field:
    """Return the field of a schema in the document of another field."""
    return Field(name, schema, resolver=field.resolver)


def _named_schema(error: ValidationError) -> dict[str, Any] | None:
    """Return the schema of an object's names, if the error is about a name; else None."""
    steps = list(error.absolute_schema_path)
    at = [number for number, step in enumerate(steps) if step == "propertyNames"]
    if not at or steps[at[-1] - 1] == "properties" or not isinstance(error.instance, str):
        return None
    return {"type": "string", **error.schema} if isinstance(error.schema, dict) else None


def _rivals(error: ValidationError) -> list[str]:
    """Return the names of which an object has too many, if each variant of a `oneOf` only requires names."""
    options, instance = cast("list[Any]", error.validator_value), error.instance
    if not isinstance(instance, dict) or not all(isinstance(each, dict) and "required" in each for each in options):
        return []
    return list(dict.fromkeys(name for each in options for name in each["required"] if name in instance))


def _contained(error: ValidationError, field: Field) -> str:
    """Return what a list must contain, in words."""
    schema = cast("dict[str, Any]", error.schema)
    low, high = schema.get("minContains", 1), schema.get("maxContains")
    bound, count = ("at most", high) if error.validator == "maxContains" else ("at least", low)
    item = expected(_part("", schema.get("contains", True), field))
    return f"{bound} {count} item{'' if count == 1 else 's'} to be {item}"


def _in_its_words(error: ValidationError, path: Sequence[str | int], field: Field) -> str:
    """Return the message of jsonschema, which quotes the value, or one that masks the secrets in it."""
    name = path_text(path) or _WHOLE
    if isinstance(error.instance, dict | list) or is_secret(name, field):
        got = shown(error.instance, secret=is_secret(name, field))
        return f"{name}: does not fit {error.validator!r} of the schema, got {got}"
    return f"{name}: {shorten(' '.join(error.message.split()), 160)}"


def _variant_errors(error: ValidationError) -> Iterator[ValidationError]:
    """Yield, for a union's error, the errors of the variant that the value is meant for, else the error itself."""
    meant = _meant_variant(error) if isinstance(error.instance, dict | list) else []
    if not meant or _alternatives(error):
        yield error
        return
    for each in meant:
        yield from _variant_errors(each)


def _meant_variant(error: ValidationError) -> list[ValidationError]:
    """Return the errors of the one variant that matches the value's type and discriminator and has the fewest errors.

    If no variant has the discriminator's value (a constant such as `kind`), return the first variant's error about it.
    If no single variant is nearest, return an empty list.
    """
    wrong = [next(filter(_is_discriminator, errors), None) for errors in _variants(error).values()]
    if wrong and wrong[0] and all(each and each.path == wrong[0].path for each in wrong):
        return [wrong[0]]
    near = _near_variants(error)
    fewest = min(map(len, near), default=0)
    best = [errors for errors in near if len(errors) == fewest]
    return best[0] if len(best) == 1 else []


def _variants(error: ValidationError) -> dict[Any, list[ValidationError]]:
    """Return the errors of each variant of a union."""
    variants: dict[Any, list[ValidationError]] = {}
    for each in error.context if error.validator in ("anyOf", "oneOf") else ():
        if each.schema_path:  # empty for a variant `false`, which no value is meant for
            variants.setdefault(each.schema_path[0], []).append(each)
    return variants


def _near_variants(error: ValidationError) -> list[list[ValidationError]]:
    """Return the errors of the variants that match the value's type and discriminator."""
    return [
        errors
        for errors in _variants(error).values()
        if not any(_is_discriminator(each) or (not each.path and each.validator == "type") for each in errors)
    ]


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
    """Return a path in the syntax of Python: `items[0].price`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


# jsonschema with three changes. A server's patterns run within limits (`schema.patterns`), and a pattern that is not
# checked fits every text. A validation counts its steps, because references that double at each level never end
# (`limited_steps`). And the optional `rfc3987_syntax`, which JupyterLab installs, is imported only when an IRI is
# checked: its import builds 38 parsers, which costs every kernel 1.3 s for the formats "iri" and "iri-reference" alone.

_GRAMMAR = "rfc3987_syntax"

NAMES_A_STEP = 4  # names in a list that take as long as one step
MAX_KEPT = 256  # `enum` lists whose values are cached


def import_jsonschema() -> ModuleType:
    """Import jsonschema, once for all its users, with a lazy import of its IRI grammar, and return the module."""
    if "jsonschema" in sys.modules or _GRAMMAR in sys.modules or importlib.util.find_spec(_GRAMMAR) is None:
        return importlib.import_module("jsonschema")
    instead: Any = ModuleType(_GRAMMAR)
    instead.is_valid_syntax = lambda term, value: importlib.import_module(_GRAMMAR).is_valid_syntax(term, value)
    sys.modules[_GRAMMAR] = instead
    try:
        return importlib.import_module("jsonschema")
    finally:
        sys.modules.pop(_GRAMMAR, None)


def make_validator(schema: Any, *, formats: bool = False) -> Validator:
    """Return a validator for the schema's draft (default 2020-12) that fetches nothing and limits patterns."""
    import_jsonschema()
    from jsonschema import FormatChecker
    from referencing import Registry

    checker = FormatChecker(formats=()) if formats else None
    if checker is not None:
        for name in FORMATS:
            checker.checks(name)(lambda text, name=name: fits_format(text, name))
    cls = _bounded(_draft_of(schema), _has_keyword(schema, "patternProperties"))
    # With an empty registry jsonschema does not fetch remote references.
    validator: Validator = cls(schema, registry=Registry(), format_checker=checker)
    return validator


def schema_problem(schema: Any, cls: type[Validator] | None = None) -> ValidationError | None:
    """Return the error of a schema by a draft's metaschema; None if valid or too large; RecursionError if too deep."""
    from jsonschema.exceptions import best_match

    cls = cls or _draft_of(schema)
    validator = _bounded(cls, named=True)(cls.META_SCHEMA)
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


@functools.cache
def _bounded(cls: type[Validator], named: bool) -> Any:
    """Return a draft's class that limits patterns and steps; `named`: whether the schema has `patternProperties`."""
    from jsonschema import validators

    whole: Any = cls.VALIDATORS["additionalProperties"]

    def additional(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and isinstance(instance, dict):
            # Removes the patterns and the names that match one: the original keyword would join and run them with `re`.
            spend_step(len(patterns) * len(instance))
            instance = {
                name: value
                for name, value in instance.items()
                if all(matches(pattern, name) is False for pattern in patterns)
            }
            schema = {key: value for key, value in schema.items() if key != "patternProperties"}
        yield from whole(validator, rest, instance, schema)

    bounded: dict[str, Any] = {
        **{name: _keyword_with(fits, message) for name, (fits, message) in _OWN.items()},
        "patternProperties": _pattern_properties,
        "additionalProperties": additional,
    }
    for keyword in ("required", "dependentRequired", "dependencies"):
        if keyword in cls.VALIDATORS:
            bounded[keyword] = _counting_names(cls.VALIDATORS[keyword])
    if named:  # jsonschema's own keyword runs the patterns of every subschema without limits
        bounded["unevaluatedProperties"] = _nothing
    extending: Any = validators
    limited = extending.extend(cls, bounded)
    evolve = limited.evolve

    def evolve_here(validator: Any, **changes: Any) -> Any:
        spend_step()
        # A part that names its draft would be checked by that draft's original class, whose patterns have no limits.
        part = changes.get("schema", validator.schema)
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {key: value for key, value in part.items() if key != "$schema"}
        return evolve(validator, **changes)

    limited.evolve = evolve_here
    return limited


def _keyword_with(fits: Callable[[Any, Any], bool], message: Callable[[Any, Any], str]) -> Any:
    """Return a keyword of jsonschema."""

    def keyword(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        from jsonschema import ValidationError

        if not fits(instance, value):
            yield ValidationError(message(instance, value))

    return keyword


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    spend_step(len(patterns) * len(instance))
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if matches(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _counting_names(keyword: Any) -> Any:
    """Return a keyword that counts steps for the names in its list, because each of them may be an error."""

    def counted(validator: Any, names: Any, instance: Any, schema: Any) -> Any:
        lists = names.values() if isinstance(names, dict) else [names]
        spend_step(sum(len(each) for each in lists if isinstance(each, list)) // NAMES_A_STEP)
        return keyword(validator, names, instance, schema)

    return counted


_keys: dict[int, tuple[list[Any], frozenset[Hashable]]] = {}
"""The `enum` lists that were checked and the keys of their values, by id of the list."""


def _is_listed(instance: Any, values: list[Any]) -> bool:
    known = _keys.get(id(values))
    if known is None or known[0] is not values:
        if len(_keys) >= MAX_KEPT:
            _keys.clear()
        known = _keys[id(values)] = values, frozenset(map(json_key, values))
    return json_key(instance) in known[1]


def _is_unique(instance: Any, unique: Any) -> bool:
    return not (unique and isinstance(instance, list)) or len(set(map(json_key, instance))) == len(instance)


def _is_matched(instance: Any, pattern: Any) -> bool:
    return not isinstance(instance, str) or matches(pattern, instance) is not False


_OWN: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], str]]] = {
    "pattern": (_is_matched, lambda text, pattern: f"{text!r} does not match {pattern!r}"),
    "enum": (
        _is_listed,
        lambda value, values: f"{shorten(repr(value))} is not one of {shorten(repr(values[:MAX_CHOICES]))}",
    ),
    "uniqueItems": (_is_unique, lambda items, _: f"{shorten(repr(items))} has non-unique elements"),
    "multipleOf": (is_multiple, lambda number, step: f"{number!r} is not a multiple of {step}"),
}
"""Keywords that both engines take from here, with messages for jsonschema. Their own ones have no limit."""


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


def _has_keyword(schema: Any, *keywords: str) -> bool:
    """Return whether one of the keywords appears anywhere in a schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if not part.keys().isdisjoint(keywords):
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


# A fast check by jsonschema-rs: 100,000 rows take milliseconds, and jsonschema need not be imported. If a value does
# not fit or cannot be tried here, jsonschema decides. An Interrupt cannot end native code, so the schema is read first,
# and a value is tried only if its steps are limited. jsonschema-rs is missing in a browser: there jsonschema decides.

MAX_STEPS = 10_000_000  # subschemas that one native validation may try: about one second
MAX_LEVELS = 32  # levels of a value for which the steps of a recursive schema are counted
MAX_PARTS = 50_000  # parts of a schema that are read to count its steps

_HERE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"))
_NAMED = frozenset(("properties", "$defs", "definitions"))
_INSIDE = frozenset(("additionalProperties", "items", "prefixItems", "additionalItems", "contains", "propertyNames"))
_FLAT = ANNOTATIONS.union(
    ("$schema", "$id", "type", "required", "format", "pattern", "enumNames", "uniqueItems", "multipleOf", "nullable"),
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    ("minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"),
)
"""With the sets above, all keywords that jsonschema-rs may check. Each takes time in proportion to the value."""

_DRAFTS = ("2020-12/schema", "2019-09/schema", "draft-07/schema")


def native_check(schema: Any, *, formats: bool = True) -> Callable[[Any], bool]:
    """Compile a schema into a function that returns True if a value surely fits, False if that is unknown."""
    try:
        reading = _Reading(copy.deepcopy(schema))
        steps = reading.steps(reading.root, MAX_LEVELS)
        import jsonschema_rs

        keywords = {**reading.keywords, "format": _FORMAT} if formats else reading.keywords
        native = jsonschema_rs.validator_for(reading.root, validate_formats=False, offline=True, keywords=keywords)
    except Exception:  # unlimited steps, an invalid schema, an unresolvable reference, or no jsonschema-rs
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
            is_sure: bool = native.is_valid(value)
        except Exception:  # a key that is not text, a lone surrogate
            is_sure = False
        if _ended:
            raise _ended.pop()
        return is_sure

    return fits


def is_surely_valid(schema: Any) -> bool:
    """Return whether a schema is surely valid; if False, only the metaschema can tell."""
    return native_check(schema) is not _unsure


def _unsure(_: Any) -> bool:
    return False


class _Reading:
    """Prepares a schema, which it modifies, for jsonschema-rs, and counts the steps of a validation by it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.ends = True
        self.keywords = dict(_KEYWORDS)
        self._resolver = Resolver(root)
        self._known: dict[tuple[str, int], list[int] | None] = {}
        self._parts = 0

    def steps(self, schema: Any, levels: int) -> list[int]:
        """Return, for each level from that of `schema` down, how many subschemas at most are tried for one value.

        A part that jsonschema-rs must not check is a ValueError.
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
        """Return the steps that one keyword adds."""
        parts = list(value.values()) if keyword in _NAMED else value if isinstance(value, list) else [value]
        if keyword == "$ref":
            return self._referenced(value, levels)
        if keyword in _HERE:
            return functools.reduce(_sum, (self.steps(part, levels) for part in parts), [])
        if keyword in _NAMED or keyword in _INSIDE:
            inside = [0, *_most(self.steps(part, levels - 1) for part in parts)]
            return [] if keyword in ("$defs", "definitions") else inside  # definitions are read but not tried
        if keyword in _VALUES:
            if not set(map(type, parts)) <= {str, bool, type(None)}:
                self.keywords[keyword] = _VALUES[keyword]
        elif keyword not in _FLAT and not keyword.startswith("x-"):
            raise ValueError
        return []

    def _is_simple(self, schema: dict[str, Any]) -> bool:
        """Return whether a part names no other draft or id and its names are texts, which compare fast."""
        names = (schema.get("required", []), schema.get("type", ""))
        if not all(isinstance(each, str) or set(map(type, each)) <= {str} for each in names):
            return False
        if schema.get("type") in ("number", ["number"]):
            schema["type"] = ["integer", "number"]  # the same, but does not convert a number of 4,000 digits
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
        if known is None:  # the reference leads to itself for the same value
            raise ValueError
        return known


def _sum(left: list[int], right: list[int]) -> list[int]:
    return list(map(sum, itertools.zip_longest(left, right, fillvalue=0)))


def _most(each: Iterable[list[int]]) -> list[int]:
    return [max(level) for level in itertools.zip_longest(*each, fillvalue=0)]


_ended: list[BaseException] = []  # interrupts raised in a custom keyword, which jsonschema-rs takes for "does not fit"


def _keyword(fits: Callable[[Any, Any], bool]) -> Any:
    """Return a custom keyword, for cases in which that of jsonschema-rs differs in time or meaning."""

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
    "pattern": _keyword(_is_matched),
    "uniqueItems": _keyword(_is_unique),
    "multipleOf": _keyword(is_multiple),
    "minimum": _bound(operator.lt),
    "maximum": _bound(operator.gt),
    "exclusiveMinimum": _bound(operator.le),
    "exclusiveMaximum": _bound(operator.ge),
}
_VALUES = {
    "enum": _keyword(_is_listed),
    "const": _keyword(lambda instance, value: json_key(instance) == json_key(value)),
}
"""Custom keywords, used only if a value is not text, a boolean or null."""
_FORMAT = _keyword(fits_format)


# Validation of arguments before they are sent, and of results.

MAX_COMPILED = 512  # schemas whose compiled form is cached
MAX_ERRORS = 200  # errors taken from jsonschema in one validation; each row of a long table may have one


@dataclass(slots=True)
class _Compiled:
    """A compiled schema, which it holds so that no other object gets its `id`, the cache's key.

    `invalid` says why the schema cannot be used, in words; "" while no value showed that.
    """

    schema: Mapping[str, Any]
    checks_formats: bool
    fits: Callable[[Any], bool]
    has_patterns: bool
    names: frozenset[str] | None = None
    validator: Validator | None = None
    given_up: bool = False
    invalid: str = ""

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether arguments surely fit and none is unknown."""
        return (self.names is None or self.names.issuperset(arguments)) and self.fits(arguments)


_compiled: dict[tuple[int, bool], _Compiled] = {}  # cache by the schema's id and whether formats are checked


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Raise an ArgumentsError unless the arguments are valid by the draft that the schema names (default 2020-12).

    An unlisted name is a mistake too, unless the schema allows more names (`additionalProperties`,
    `patternProperties`) or lists none. An invalid schema or a reference to another document is left to the server:
    nothing is fetched. The compiled form of a schema is cached by `id`, so pass the same object each time.
    """
    if problems := argument_problems(arguments, schema):
        raise together(_joined(problems))


def prepare_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call as they are sent, and by path the defaults that were filled in.

    A default is filled in only for a required name that is missing, also inside objects and lists. Arguments that have
    no JSON form or are invalid are an ArgumentsError; see `check_arguments`.
    """
    sent = json_arguments(arguments, schema)
    compiled = _compile(schema)
    # what `takes` does, without a call more on the way of each `%mcp call`
    if not ((compiled.names is None or compiled.names.issuperset(sent)) and compiled.fits(sent)):
        filled: dict[_Path, Any] = {}
        completed = _completed(sent, input_root(schema), (), filled)
        if not (filled and compiled.takes(completed)) and (problems := list(_problems(compiled, completed))):
            blamed = {path for path in filled for problem in problems if problem.path[: len(path)] == path}
            if blamed:  # a default that does not fit is no value: nobody gave it
                completed = _completed(sent, input_root(schema), (), {}, blamed)
                problems = list(_problems(compiled, completed))
            raise together(_joined(problems))
        return completed, {path_text(path): value for path, value in filled.items()}
    return sent, {}


_Path = tuple[str | int, ...]


def _completed(
    value: Any, field: Field | None, path: _Path, filled: dict[_Path, Any], unfit: Container[_Path] = ()
) -> Any:
    """Return a value with its missing required defaults but `unfit` ones; they are also added to `filled`."""
    if isinstance(value, list) and field is not None:
        return [_completed(item, field.at(at), (*path, at), filled, unfit) for at, item in enumerate(value)]
    if not isinstance(value, dict) or field is None or field.kind != "object":
        return value
    completed = {name: _completed(item, field.at(name), (*path, name), filled, unfit) for name, item in value.items()}
    for child in field.children:
        place = (*path, child.name)
        if child.required and not child.is_mandatory and child.name not in completed and place not in unfit:
            completed[child.name] = filled[place] = copy.deepcopy(child.default)
    return completed


def check_answer(structured: Any, schema: Mapping[str, Any]) -> str:
    """Raise ValueError, with the reason in words, unless structured content fits an output schema.

    Returns what was not checked and why. A format is no reason, but may tell the variants of a `oneOf` apart. By an
    invalid schema nothing is refused.
    """
    problems: list[Problem] = []
    for formats in (False, True):
        compiled = _compile(schema, formats=formats)
        with unchecked() as patterns:
            errors = [] if compiled.fits(structured) else _errors(compiled, structured)
        if compiled.given_up:
            return f"the answer was {_TOO_LONG}"
        if compiled.invalid:
            return f"the answer was not checked, because the output schema is invalid: {compiled.invalid}"
        if not errors:
            return _remark("the answer was", patterns)
        problems = problems or list(_told(errors, root_field(schema), is_answer=True))
        if not _has_keyword(schema, "oneOf"):
            break
    lines = _joined(problems)
    more = f"; and {len(lines) - MAX_PROBLEMS} more" if len(lines) > MAX_PROBLEMS else ""
    lines = [
        re.sub(rf"^{_WHOLE}:", "the whole:", line).replace("unknown argument", "unknown name", 1) for line in lines
    ]
    raise ValueError("; ".join(lines[:MAX_PROBLEMS]) + more)


def unchecked_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return what of checked arguments was not checked and why, in words; "" if all of it was checked."""
    compiled = _compile(schema)
    if not (compiled.given_up or compiled.has_patterns):
        return ""
    with unchecked() as patterns:
        if not compiled.fits(arguments):
            _errors(compiled, dict(arguments))
            if compiled.given_up:
                return f"the arguments were {_TOO_LONG}"
    return _remark("the arguments were", patterns)


_TOO_LONG = "not wholly checked against the schema, which takes too many steps"


def _remark(subject: str, patterns: Mapping[str, None]) -> str:
    if not patterns:
        return ""
    more = f" and {len(patterns) - 1} more" if len(patterns) > 1 else ""
    return f"{subject} not checked against the pattern {shorten(next(iter(patterns)))}{more}"


def valid_example(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return valid arguments as an example of a call, or None if none is known."""
    example = example_arguments(schema)
    return None if argument_problems(example, schema) else example


def is_bounded(schema: Mapping[str, Any]) -> bool:
    """Return whether validation stays within its steps, tried with example values."""
    argument_problems(example_arguments(schema), schema)
    argument_problems({child.name: {} for child in input_root(schema).children if child.required}, schema)
    return not _compile(schema).given_up


def _compile(schema: Mapping[str, Any], *, formats: bool = True) -> _Compiled:
    key = id(schema), formats
    known = _compiled.get(key)
    if known is not None and known.schema is schema:
        return known
    while len(_compiled) >= MAX_COMPILED:
        _compiled.pop(next(iter(_compiled)), None)
    has_patterns = _has_keyword(schema, "pattern", "patternProperties")
    fits = native_check(repair(schema).schema, formats=formats)
    compiled = _compiled[key] = _Compiled(schema, formats, fits, has_patterns)
    root = input_root(schema)
    if not root.is_open:
        compiled.names = frozenset(child.name for child in root.children)
    return compiled


def _errors(compiled: _Compiled, arguments: Any) -> list[ValidationError]:
    """Return the errors that jsonschema finds until it ends, fails or runs out of steps."""
    found: list[ValidationError] = []
    if compiled.given_up or compiled.invalid:
        return found
    try:
        if compiled.validator is None:
            compiled.validator = make_validator(repair(compiled.schema).schema, formats=compiled.checks_formats)
        with limited_steps(arguments):
            found.extend(itertools.islice(compiled.validator.iter_errors(arguments), MAX_ERRORS))
    except (StepsExceeded, RecursionError):
        compiled.given_up = True
    except Exception as error:
        # An invalid schema can raise anything (TypeError, re.error, UnknownType, Unresolvable).
        # The server wrote the schema, so the server decides.
        compiled.invalid = shorten(" ".join(str(error).split()) or type(error).__name__, 100)
    return found
