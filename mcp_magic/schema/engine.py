"""The engine that validates values against a JSON Schema: jsonschema-rs, and jsonschema in a browser.

An Interrupt cannot end native code. So a schema is read before it is compiled. That counts the subschemas that one
value may take, and a value that would take too many is not checked. Keywords whose time has no limit in an engine, or
whose meaning differs between the two, are replaced by our own.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic.schema.fields import shorten
from mcp_magic.schema.formats import FORMATS, fits_format
from mcp_magic.schema.patterns import (
    MAX_BYTES,
    MAX_CACHE,
    MAX_PATTERN_STEPS,
    is_checked,
    matches,
    measure,
)
from mcp_magic.schema.resolve import REFERENCES, Resolver, is_multiple, json_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

Path = tuple[str | int, ...]

MAX_FAILURES = 200  # failures of one validation; each row of a long table may have one


@dataclass(frozen=True, slots=True)
class Failure:
    """One reason why a value does not fit a schema.

    Attributes:
        keyword: The keyword that the value does not fit; "" for the schema `false`.
        path: The place of the value.
        instance: The value, or the name that does not fit `propertyNames`.
        schema_path: The place of the keyword in the schema.
        schema: The subschema that has the keyword.
        expected: The value of the keyword.
        branches: Of a union that no variant of fits, the failures of each variant.
        text: What jsonschema says about it, in a browser; else "".
    """

    keyword: str
    path: Path
    instance: Any
    schema_path: Path = ()
    schema: Any = None
    expected: Any = None
    branches: tuple[tuple[Failure, ...], ...] = ()
    text: str = ""


class _Engine(Protocol):
    """Validates values; either function may raise what the engine cannot take."""

    def is_valid(self, value: Any) -> bool: ...

    def failures(self, value: Any) -> list[Failure]: ...


class CompiledSchema:
    """A schema that values are checked against.

    Attributes:
        invalid: Why the schema cannot be used, in words, else "". Then each value fits here, and the server decides.
        is_endless: Whether a value, or each value, takes too many steps.
    """

    def __init__(self, schema: Any, *, formats: bool = True) -> None:
        self.invalid = ""
        self.is_endless = False
        self._engine: _Engine | None = None
        try:
            self._reading = _Reading(copy.deepcopy(schema))
            self._reading.steps_of(MAX_LEVELS)
            self._engine = (_Jsonschema if _lacks_native() else _Native)(self._reading, formats=formats)
        except (_EndlessError, RecursionError):
            self.is_endless = True
        except Exception as error:  # whatever an engine has against an invalid schema
            self.invalid = _reason(error)

    def fits(self, value: Any) -> bool:
        """Return whether a value fits, or cannot be checked."""
        fits: bool = self._engine is None or self._try(self._engine.is_valid, value, True)
        return fits

    def failures(self, value: Any) -> list[Failure]:
        """Return why a value does not fit, at most `MAX_FAILURES` reasons; [] if it fits or cannot be checked."""
        if self._engine is None:
            return []
        failures: list[Failure] = self._try(self._engine.failures, value, [])
        return failures

    def _try(self, judge: Callable[[Any], Any], value: Any, otherwise: Any) -> Any:
        """Return what an engine says of a value; `otherwise` if the value takes too many steps."""
        if not self._reading.is_bounded_for(value):
            self.is_endless = True
            return otherwise
        try:
            outcome = judge(value)
        except UnicodeEncodeError:  # half of a surrogate pair
            outcome = judge(_encodable(value))
        except RecursionError:
            self.is_endless = True
            outcome = otherwise
        except Exception as error:  # jsonschema follows a reference when a value needs it
            self.invalid = _reason(error)
            outcome = otherwise
        if _interrupts:
            raise _interrupts.pop()
        return outcome


def _reason(error: Exception) -> str:
    return shorten(" ".join(str(error).partition("\n")[0].split()) or type(error).__name__, 100)


def _lacks_native() -> bool:
    try:
        import jsonschema_rs  # noqa: F401
    except ImportError:
        return True
    return False


def _encodable(value: Any) -> Any:
    """Return a value whose texts can be encoded, of the same lengths."""
    if isinstance(value, str):
        return value.encode("utf-16", "replace").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(name): _encodable(inner) for name, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list) else value


# The steps of a validation.

MAX_STEPS = 10_000_000  # subschemas that one validation may try: about one second of native code
MAX_STEPS_IN_BROWSER = 100_000
CHECKS_PER_VALUE = 20  # subschemas for one value that are always tried
MAX_LEVELS = 32  # levels of a value for which the steps of a recursive schema are counted at first
MAX_VALUE_LEVELS = 250  # levels of a value that is checked; JSON over the wire has at most 200
MAX_PARTS = 50_000  # parts of a schema that are read to count its steps

_HERE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"))
_DEFINED = frozenset(("$defs", "definitions"))
_INSIDE = frozenset(
    (
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems", "additionalItems"),
        *("contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems"),
    )
)
_BY_NAME = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies", *_DEFINED))
_CONTENT = frozenset(("contentEncoding", "contentMediaType", "contentSchema"))  # annotations, which draft-07 may check

DRAFT_3 = "http://json-schema.org/draft-03/schema"

DRAFTS = (
    *("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema"),
    *(f"http://json-schema.org/draft-0{number}/schema" for number in (7, 6, 4)),
)
"""The dialects that are known, without a `#` at the end. A schema that names another is read as the first."""


class _EndlessError(Exception):
    """A validation may try more subschemas than it may, or has no end."""


class _Reading:
    """Prepares a schema, which it modifies, for an engine, and counts the steps of a validation."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.keywords = dict(_KEYWORDS)
        self._resolver = Resolver(root)
        self._known: dict[tuple[str, int], list[int] | None] = {}
        self._prepared: set[int] = set()
        self._steps: list[int] = []
        self._ends = True

    def steps_of(self, levels: int) -> list[int]:
        """Return, for each level from the root down, how many subschemas at most are tried for one value."""
        if not self._steps or (not self._ends and levels > len(self._steps)):
            for deep in range(MAX_LEVELS, max(levels, MAX_LEVELS) + 1):  # each uses what is known of the one before
                self._steps = self._count(self.root, deep)
        return self._steps

    def is_bounded_for(self, value: Any) -> bool:
        """Return whether the validation of a value takes few enough steps."""
        if self._ends and max(self._steps) <= CHECKS_PER_VALUE:
            return True
        values, levels = measure(value)
        if levels > MAX_VALUE_LEVELS:
            return False
        steps = self.steps_of(levels)
        return values * max(steps[:levels]) <= (MAX_STEPS_IN_BROWSER if _lacks_native() else MAX_STEPS)

    def _count(self, schema: Any, levels: int) -> list[int]:
        if isinstance(schema, bool):
            return [1]
        if not levels:
            self._ends = False
            return []
        if not isinstance(schema, dict):
            raise TypeError(f"{type(schema).__name__} is no schema")
        if id(schema) not in self._prepared:
            self._prepare(schema)
        steps = [1]
        for keyword, value in schema.items():
            steps = _sum(steps, self._added(keyword, value, levels))
        return steps

    def _added(self, keyword: str, value: Any, levels: int) -> list[int]:
        """Return the steps that one keyword adds."""
        if keyword in REFERENCES:
            return self._referenced(value, levels)
        if keyword not in _HERE and keyword not in _INSIDE and keyword not in _DEFINED:
            return []
        by_name = keyword in _BY_NAME and isinstance(value, dict)
        parts = list(value.values()) if by_name else value if isinstance(value, list) else [value]
        if keyword == "dependencies":
            parts = [part for part in parts if not isinstance(part, list)]
        if keyword in _HERE:
            return functools.reduce(_sum, (self._count(part, levels) for part in parts), [])
        inside = [0, *_most(self._count(part, levels - 1) for part in parts)]
        if keyword == "patternProperties":
            inside[0] = len(parts)
        return [] if keyword in _DEFINED else inside  # definitions are read but not tried

    def _referenced(self, ref: Any, levels: int) -> list[int]:
        if not isinstance(ref, str):
            raise TypeError("a $ref is no text")
        key = ref, levels
        if key not in self._known:
            self._known[key] = None
            self._known[key] = self._count(self._resolver.find(ref), levels)
        steps = self._known[key]
        if steps is None:  # the reference leads to itself for the same value
            raise _EndlessError
        return steps

    def _prepare(self, schema: dict[str, Any]) -> None:
        """Let a part be what both engines can take; raise what is wrong with it."""
        self._prepared.add(id(schema))
        if len(self._prepared) > MAX_PARTS:
            raise _EndlessError
        for names in (schema.get("required", []), schema.get("type", "")):  # texts, which compare fast
            if isinstance(names, list) and not set(map(type, names)) <= {str}:
                raise TypeError("`required` and `type` have names")
        if schema.get("type") in ("number", ["number"]):
            schema["type"] = ["integer", "number"]  # the same, but does not convert a number of 4,000 digits
        for keyword in _CONTENT if schema is self.root else (*_CONTENT, "$schema", "$id"):
            schema.pop(keyword, None)
        if schema is self.root and str(schema.get("$schema", DRAFTS[0])).rstrip("#") not in DRAFTS:
            del schema["$schema"]
        if str(schema.get("$id")).rstrip("#") in DRAFTS:  # its references would lead into the metaschema
            del schema["$id"]
        for keyword, own in _VALUES.items():
            values = schema.get(keyword) if keyword == "enum" else [schema.get(keyword)]
            if not (isinstance(values, list) and set(map(type, values)) <= {str, bool, type(None)}):
                self.keywords[keyword] = own
        _leave_out_patterns(schema)
        _rename_flagged_limits(schema)
        _write_out_booleans(schema, self.root)


def _write_out_booleans(schema: dict[str, Any], root: dict[str, Any]) -> None:
    """Let the schemas in a part of a schema of draft-04 be objects: it has no others."""
    if str(root.get("$schema")).rstrip("#") != DRAFTS[-1]:
        return

    def as_object(part: Any) -> Any:
        return part if not isinstance(part, bool) else {} if part else {"not": {}}

    for keyword in schema.keys() & (_HERE | _INSIDE | _BY_NAME) - {"additionalProperties", "additionalItems"}:
        value = schema[keyword]
        if keyword in _BY_NAME and isinstance(value, dict):
            schema[keyword] = {name: as_object(part) for name, part in value.items()}
        else:
            schema[keyword] = list(map(as_object, value)) if isinstance(value, list) else as_object(value)


def _rename_flagged_limits(schema: dict[str, Any]) -> None:
    """Give the limits that draft-04 flags as exclusive a keyword of ours."""
    for flag, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool) and schema.pop(flag) and limit in schema:
            schema[f"x-{flag}"] = schema.pop(limit)


def _leave_out_patterns(schema: dict[str, Any]) -> None:
    """Take out of a part the patterns that an engine would refuse to compile."""
    pattern = schema.get("pattern")
    if pattern is not None and not (isinstance(pattern, str) and is_checked(pattern)):
        schema["x-pattern"] = schema.pop("pattern")
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict) and not all(map(is_checked, patterns)):
        schema["patternProperties"] = {name: part for name, part in patterns.items() if is_checked(name)}
        for keyword in ("additionalProperties", "unevaluatedProperties"):  # a name may match what is not checked
            schema.pop(keyword, None)


def _sum(first: list[int], second: list[int]) -> list[int]:
    return list(map(sum, itertools.zip_longest(first, second, fillvalue=0)))


def _most(steps: Iterable[list[int]]) -> list[int]:
    return [max(level) for level in itertools.zip_longest(*steps, fillvalue=0)]


# Keywords of our own: those of the engines take a time without a limit, or mean something else.

MAX_KEPT = 256  # `enum` lists whose values are cached

_keys: dict[int, tuple[list[Any], frozenset[Hashable]]] = {}
"""The `enum` lists that were checked and the keys of their values, by id of the list."""


def _is_listed(instance: Any, values: list[Any]) -> bool:
    entry = _keys.get(id(values))
    if entry is None or entry[0] is not values:
        if len(_keys) >= MAX_KEPT:
            _keys.clear()
        entry = _keys[id(values)] = values, frozenset(map(json_key, values))
    return json_key(instance) in entry[1]


def _is_equal(instance: Any, value: Any) -> bool:
    return json_key(instance) == json_key(value)


def _is_unique(instance: Any, unique: Any) -> bool:
    return not (unique and isinstance(instance, list)) or len(set(map(json_key, instance))) == len(instance)


def _is_matched(instance: Any, pattern: Any) -> bool:
    return not isinstance(instance, str) or matches(pattern, instance) is not False


def _is_within(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda number, limit: (
        not isinstance(number, int | float) or isinstance(number, bool) or not compare(number, limit)
    )


_OWN: dict[str, Callable[[Any, Any], bool]] = {
    "pattern": _is_matched,
    "uniqueItems": _is_unique,
    "multipleOf": is_multiple,
    "minimum": _is_within(operator.lt),
    "maximum": _is_within(operator.gt),
    "exclusiveMinimum": _is_within(operator.le),
    "exclusiveMaximum": _is_within(operator.ge),
}
_OWN |= {f"x-{name}": _OWN[name] for name in ("pattern", "exclusiveMinimum", "exclusiveMaximum")}
_OWN_VALUES: dict[str, Callable[[Any, Any], bool]] = {"enum": _is_listed, "const": _is_equal}
"""Used only if a value is not text, a boolean or null."""

_interrupts: list[BaseException] = []  # raised in a keyword, which jsonschema-rs takes for "does not fit"


def _keyword(fits: Callable[[Any, Any], bool]) -> Any:
    """Return a keyword of jsonschema-rs."""

    class Keyword:
        def __init__(self, schema: dict[str, Any], value: Any, path: list[str | int]) -> None:
            self.value = value

        def validate(self, instance: Any) -> None:
            try:
                is_fit = fits(instance, self.value)
            except Exception:
                raise
            except BaseException as error:
                _interrupts.append(error)
                raise
            if not is_fit:
                raise ValueError

    return Keyword


_KEYWORDS = {name: _keyword(fits) for name, fits in _OWN.items()}
_VALUES = {name: _keyword(fits) for name, fits in _OWN_VALUES.items()}
_FORMAT = _keyword(fits_format)


class _Native:
    """jsonschema-rs."""

    def __init__(self, reading: _Reading, *, formats: bool) -> None:
        import jsonschema_rs

        self._root = reading.root
        self._kinds = jsonschema_rs.ValidationErrorKind
        self._validator = jsonschema_rs.validator_for(
            reading.root,
            validate_formats=False,
            offline=True,
            keywords={**reading.keywords, "format": _FORMAT} if formats else reading.keywords,
            pattern_options=jsonschema_rs.FancyRegexOptions(
                size_limit=MAX_BYTES, dfa_size_limit=MAX_CACHE, backtrack_limit=MAX_PATTERN_STEPS
            ),
        )
        self.is_valid: Callable[[Any], bool] = self._validator.is_valid

    def failures(self, value: Any) -> list[Failure]:
        # There is one for each name that is missing and each item too many; the keyword has them all.
        unique: dict[Any, Failure] = {}
        for error in itertools.islice(self._validator.iter_errors(value), MAX_FAILURES):
            if isinstance(error.kind, self._kinds.BacktrackLimitExceeded):  # it is unknown whether the name matches
                continue
            failure = self._failure(error, value)
            unique.setdefault((failure.schema_path, failure.path), failure)
        return list(unique.values())

    def _failure(self, error: Any, value: Any) -> Failure:
        kinds, kind = self._kinds, error.kind
        path, schema_path = _with_names(error.instance_path, value), _with_names(error.schema_path, self._root)
        keyword = str(schema_path[-1]) if schema_path else ""
        if isinstance(kind, kinds.FalseSchema):
            if keyword in _REST_OF_ITEMS:
                path = path[:-1]
            else:
                keyword = ""
        instance = kind.error.instance if isinstance(kind, kinds.PropertyNames) else _at(value, path)
        schema = _at(self._root, schema_path[:-1])
        branches: tuple[tuple[Failure, ...], ...] = ()
        if isinstance(kind, kinds.AnyOf | kinds.OneOfNotValid):
            branches = tuple(tuple(self._failure(inner, value) for inner in variant) for variant in kind.context)
        expected = schema.get(keyword) if isinstance(schema, dict) else None
        return Failure(keyword.removeprefix("x-"), path, instance, schema_path, schema, expected, branches)


def _with_names(path: Iterable[str | int], value: Any) -> Path:
    """Return a path into a value with the names of digits, for which jsonschema-rs has numbers."""
    names: list[str | int] = []
    for step in path:
        name = step
        if isinstance(step, int) and isinstance(value, dict) and (name := str(step)) not in value:  # such as "007"
            name = next((inner for inner in value if re.fullmatch(rf"\+?0*{step}", inner)), name)
        names.append(name)
        value = _at(value, (name,))
    return tuple(names)


_REST_OF_ITEMS = ("items", "additionalItems", "unevaluatedItems")


def _at(value: Any, path: Iterable[str | int]) -> Any:
    """Return what is at a place of JSON, or None if nothing is."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


_DIFFERENT = ("enum", "const", "uniqueItems", "multipleOf", "pattern")  # keywords of ours in jsonschema


class _Jsonschema:
    """jsonschema, for a browser, where jsonschema-rs does not run. It names failures in its own words."""

    def __init__(self, reading: _Reading, *, formats: bool) -> None:
        from jsonschema import Draft202012Validator, FormatChecker, validators
        from referencing import Registry

        checker = FormatChecker(formats=()) if formats else None
        if checker is not None:
            for name in FORMATS:
                checker.checks(name)(lambda text, name=name: fits_format(text, name))
        make: Any = validators
        draft: Any = make.validator_for(reading.root, default=Draft202012Validator)
        draft.check_schema(reading.root)
        own = {name: self._keyword(fits) for name, fits in (_OWN | _OWN_VALUES).items() if name not in draft.VALIDATORS}
        own |= {name: self._keyword((_OWN | _OWN_VALUES)[name]) for name in _DIFFERENT}
        # With an empty registry jsonschema does not fetch remote references.
        self._validator = make.extend(draft, own)(reading.root, registry=Registry(), format_checker=checker)
        self.is_valid: Callable[[Any], bool] = self._validator.is_valid

    @staticmethod
    def _keyword(fits: Callable[[Any, Any], bool]) -> Any:
        from jsonschema import ValidationError

        def keyword(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
            if not fits(instance, value):
                yield ValidationError(f"{shorten(repr(instance))} does not fit {shorten(repr(value))}")

        return keyword

    def failures(self, value: Any) -> list[Failure]:
        return [
            Failure(str(error.validator or ""), tuple(error.absolute_path), error.instance, text=error.message)
            for error in itertools.islice(self._validator.iter_errors(value), MAX_FAILURES)
        ]


# Schemas that are no JSON Schema.


def schema_problem(schema: Any) -> tuple[Path, str] | None:
    """Return where a schema breaks the rules of its draft, and how; None if it does not or is too large to tell.

    Raises:
        RecursionError: It is too deep to be read.
    """
    if _lacks_native():
        from jsonschema import Draft202012Validator, exceptions, validators

        draft: Any = validators.validator_for(schema, default=Draft202012Validator)
        problem: Any = exceptions.best_match(draft(draft.META_SCHEMA).iter_errors(schema))
        return None if problem is None else (tuple(problem.absolute_path), problem.message)
    import jsonschema_rs

    try:
        reading = _Reading(copy.deepcopy(schema))
        reading.steps_of(MAX_LEVELS)
    except _EndlessError:
        return None
    except TypeError as error:
        return (), str(error)
    except ValueError:
        pass
    if isinstance(schema, dict) and str(schema.get("$schema", DRAFTS[0])).rstrip("#") not in DRAFTS:
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        problem = error
        while isinstance(problem.kind, jsonschema_rs.ValidationErrorKind.AnyOf):
            problem = problem.kind.context[0][0]
        return tuple(problem.instance_path), problem.message
    except ValueError:  # half of a surrogate pair, or a reference that leads nowhere
        pass
    return None
