"""Validates values against a server's JSON Schema, and turns the errors into messages."""

from __future__ import annotations

import copy
import itertools
import re
import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.convert import json_arguments
from mcp_magic.schema.engine import MAX_FAILURES, CompiledSchema, Failure, Path
from mcp_magic.schema.example import example_arguments
from mcp_magic.schema.fields import MAX_CHOICES, Field, expected, input_root, root_field, shorten
from mcp_magic.schema.patterns import unchecked
from mcp_magic.schema.repair import repair
from mcp_magic.schema.secrets import MASK, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence


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
    value_text = shown(value, secret=is_secret(path, field))
    hint = ""
    if isinstance(value, str) and value_text != MASK:
        hint = did_you_mean(value, [word for word, _ in field.choices if isinstance(word, str)])
    return f"{path}: expected {expected(field)}, got {value_text}{'.' if hint else ''}{hint}"


def unknown(names: list[str], field: Field, path: str = "") -> str:
    """Return the message for names that an object does not take."""
    valid = [child.name for child in field.children]
    names_text = ", ".join(shown(f"{path}.{name}" if path else name) for name in names[:MAX_PROBLEMS])
    more = f" and {len(names) - MAX_PROBLEMS} more" if len(names) > MAX_PROBLEMS else ""
    hint = did_you_mean(names[0], valid) if len(names) == 1 else ""
    takes = [join_names(valid, 12)] if valid else []
    if patterns := field.schema.get("patternProperties"):
        takes.append(f"names that match {join_names(map(shorten, patterns), 3)}")
    text = " and ".join(takes) or ("no names" if path else "no arguments")
    return f"unknown argument{'s' if len(names) > 1 else ''} {names_text}{more}.{hint} It takes {text}"


def together(problems: list[str]) -> ArgumentsError:
    """Return one error for several problems, of which it tells at most three."""
    rest = len(problems) - MAX_PROBLEMS
    more = [f"... and {rest} more"] if rest > 0 else []
    return ArgumentsError("\n".join(problems[:MAX_PROBLEMS] + more))


# Failures as lines for people.

_COVERED = frozenset(
    (
        *("type", "enum", "const", "format", "pattern", "anyOf", "oneOf", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties"),
    )
)
"""Keywords that `expected ...` covers."""

MAX_NAME = 120  # characters of a name that a message shows
MAX_MISSING = 20  # missing names that a message lists


@dataclass(frozen=True)
class Problem:
    """One problem in arguments; `path` is () for the root, and also the place of a value that is missing.

    `apart` says whether the text is a line of its own, so that no other missing name can join it.
    """

    path: Path
    text: str
    missing: bool = False
    apart: bool = False


def argument_problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """Return all problems of arguments, each with its place; see `check_arguments`."""
    compiled = _compile(schema)
    return [] if compiled.takes(arguments) else list(_problems(compiled, dict(arguments)))


def _problems(compiled: _Compiled, arguments: dict[str, Any]) -> Iterator[Problem]:
    root = input_root(compiled.source)
    extra = [name for name in arguments if not root.is_open and root.at(name) is None]
    if extra:
        yield Problem((), unknown(extra, root))
    yield from _problems_of(compiled.schema.failures(arguments), root)


def _problems_of(failures: Iterable[Failure], root: Field, *, is_answer: bool = False) -> Iterator[Problem]:
    """Yield the problems that failures mean; `is_answer`: whether unknown names at the root are problems, too."""
    for failure in (part for union in failures for part in _of_variant(union)):
        path, keyword = failure.path, failure.keyword
        field = _field_at(root, path)
        if failure.text:
            yield Problem(path, _in_words_of_jsonschema(failure, field))
        elif keyword == "required":
            yield from _missing(_lacking([failure]), path, field)
        elif keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(failure.instance, dict):
            names = [str(name) for name in failure.instance if field.at(str(name)) is None]
            if names and (path or is_answer):  # `extra` has those of the arguments
                yield Problem(path, unknown(names, field, path_text(path)))
            elif not names:
                yield Problem(path, _unfit_keyword(failure, field))
        elif keyword in ("dependentRequired", "dependencies"):
            yield from _dependent(failure)
        elif alternatives := _alternatives(failure):
            yield from _missing_alternatives(alternatives, path, field)
        else:
            yield Problem(path, _line(failure, field))


def _missing(names: Iterable[str], path: Path, field: Field) -> Iterator[Problem]:
    for name in itertools.islice(names, MAX_FAILURES):
        child, place = field.at(name), shorten(path_text((*path, name)), MAX_NAME)
        text = f"missing: {place} ({child.type_text if child is not None else 'any'})"
        yield Problem((*path, name), text, missing=True)


def _lacking(failures: Iterable[Failure]) -> dict[str, None]:
    """Return the names that objects lack, by their failures of `required`, as keys."""
    return {name: None for failure in failures for name in failure.expected if name not in failure.instance}


def _dependent(failure: Failure) -> Iterator[Problem]:
    """Yield what is missing because another name is there."""
    path, instance = failure.path, failure.instance
    for name, names in failure.expected.items():
        lacking = [need for need in names if need not in instance] if isinstance(names, list) else []
        if lacking and name in instance:
            text = f"missing: {_paths(path, lacking)}, which {path_text((*path, name))} needs"
            yield Problem((*path, lacking[0]), text, missing=True, apart=True)


def _paths(path: Path, names: Iterable[str]) -> str:
    shown_paths = [shorten(path_text((*path, name)), MAX_NAME) for name in itertools.islice(names, MAX_MISSING)]
    return " and ".join([*filter(None, [", ".join(shown_paths[:-1])]), *shown_paths[-1:]])


def _alternatives(failure: Failure) -> list[dict[str, None]]:
    """Return what each variant of a union lacks, if the value is an object that lacks only names in each; else []."""
    near = _near_variants(failure)
    lacks = all(inner.keyword == "required" and inner.path == failure.path for variant in near for inner in variant)
    return [_lacking(variant) for variant in near] if len(near) > 1 and lacks else []


def _missing_alternatives(alternatives: list[dict[str, None]], path: Path, field: Field) -> Iterator[Problem]:
    """Yield what all variants of a union lack, such as the name that tells them apart; else the choice."""
    everywhere = [name for name in alternatives[0] if all(name in names for names in alternatives)]
    if everywhere:
        yield from _missing(everywhere, path, field)
        return
    texts = list(dict.fromkeys(_paths(path, names) for names in alternatives))
    more = ", or others" if len(texts) > MAX_CHOICES else ""
    yield Problem(path, f"missing: {', or '.join(texts[:MAX_CHOICES])}{more}", missing=True, apart=True)


def _joined(problems: Iterable[Problem]) -> list[str]:
    """Return one line for each problem; all that is missing is on the first line."""
    problems = list(dict.fromkeys(problems))
    absent = [problem.text.removeprefix("missing: ") for problem in problems if problem.missing and not problem.apart]
    more = f" and {len(absent) - MAX_MISSING:,} more" if len(absent) > MAX_MISSING else ""
    if len(absent) >= MAX_FAILURES:  # not all of them are there
        more = " and many more"
    lines = [f"missing: {', '.join(absent[:MAX_MISSING])}{more}"] if absent else []
    return lines + list(dict.fromkeys(problem.text for problem in problems if problem.apart or not problem.missing))


def _line(failure: Failure, field: Field) -> str:
    path, keyword = failure.path, failure.keyword
    name = path_text(path) or _ROOT
    value = shown(failure.instance, secret=is_secret(name, field))
    if (names := _named_schema(failure)) is not None:
        return f"{name}: a name must be {expected(_part('', names, field))}, got {value}"
    if not keyword:
        return f"{name}: must be left out"
    if keyword == "oneOf" and not failure.branches:
        if rivals := _rivals(failure):
            return f"{_paths(path, rivals)}: give only one of them"
        return f"{name}: expected exactly one of {field.type_text} to fit, got {value}"
    if keyword in ("contains", "minContains", "maxContains"):
        return f"{name}: expected {_contained(failure, field)}, got {value}"
    if keyword in ("items", "additionalItems", "unevaluatedItems") and field.prefix:
        return f"{name}: expected {field.type_text} and no more items, got {value}"
    if "patternProperties" in failure.schema_path and isinstance(failure.schema, dict):
        field = _part(field.name, failure.schema, field)  # a name may have a schema of its own beside the pattern's
    return unfit(name, field, failure.instance) if keyword in _COVERED else _unfit_keyword(failure, field)


_ROOT = "arguments"  # the name of the root


def _part(name: str, schema: Any, field: Field) -> Field:
    """Return the field of a schema in the document of another field."""
    return Field(name, schema, resolver=field.resolver)


def _named_schema(failure: Failure) -> dict[str, Any] | None:
    """Return the schema of an object's names, if the failure is about a name; else None."""
    steps = failure.schema_path
    at = [number for number, step in enumerate(steps) if step == "propertyNames"]
    if not at or steps[at[-1] - 1] == "properties" or not isinstance(failure.instance, str):
        return None
    return {"type": "string", **failure.schema} if isinstance(failure.schema, dict) else None


def _rivals(failure: Failure) -> list[str]:
    """Return the names of which an object has too many, if each variant of a `oneOf` only requires names."""
    options, instance = failure.expected, failure.instance
    if not isinstance(instance, dict) or not all(
        isinstance(option, dict) and "required" in option for option in options
    ):
        return []
    return list(dict.fromkeys(name for option in options for name in option["required"] if name in instance))


def _contained(failure: Failure, field: Field) -> str:
    """Return what a list must contain, in words."""
    low, high = failure.schema.get("minContains", 1), failure.schema.get("maxContains")
    limit, count = ("at most", high) if failure.keyword == "maxContains" else ("at least", low)
    item = expected(_part("", failure.schema.get("contains", True), field))
    return f"{limit} {count} item{'' if count == 1 else 's'} to be {item}"


def _unfit_keyword(failure: Failure, field: Field) -> str:
    """Return the message for a keyword that has no words of its own."""
    name = path_text(failure.path) or _ROOT
    value = shown(failure.instance, secret=is_secret(name, field))
    if failure.keyword == "not" and not isinstance(failure.instance, dict | list):
        return f"{name}: must not fit {shown(failure.expected)}, got {value}"
    return f"{name}: does not fit {failure.keyword!r} of the schema, got {value}"


def _in_words_of_jsonschema(failure: Failure, field: Field) -> str:
    """Return the message of jsonschema, which quotes the value, or one that masks the secrets in it."""
    name = path_text(failure.path) or _ROOT
    if is_secret(name, field) or (isinstance(failure.instance, dict | list) and failure.keyword != "required"):
        return _unfit_keyword(failure, field)
    return f"{name}: {shorten(' '.join(failure.text.split()), 160)}"


def _of_variant(failure: Failure) -> Iterator[Failure]:
    """Yield, for a union's failure, those of the variant that the value is meant for, else the failure itself."""
    variant = _meant_variant(failure) if isinstance(failure.instance, dict | list) else ()
    if not variant or _alternatives(failure):
        yield failure
        return
    for inner in variant:
        yield from _of_variant(inner)


def _meant_variant(failure: Failure) -> Sequence[Failure]:
    """Return the failures of the one variant that matches the value's type and discriminator and has the fewest.

    If no variant has the discriminator's value (a constant such as `kind`), return the first variant's failure of it.
    If no single variant is nearest, return ().
    """
    wrong = [next(filter(_tells_apart(failure), variant), None) for variant in _variants(failure)]
    if wrong and wrong[0] and all(inner and inner.path == wrong[0].path for inner in wrong):
        return [wrong[0]]
    near = _near_variants(failure)
    fewest = min(map(len, near), default=0)
    best = [variant for variant in near if len(variant) == fewest]
    return best[0] if len(best) == 1 else ()


def _variants(failure: Failure) -> list[tuple[Failure, ...]]:
    """Return the failures of each variant of a union, but of a variant `false`, which no value is meant for."""
    return [
        variant
        for variant in failure.branches
        if not any(inner.keyword == "" and inner.path == failure.path for inner in variant)
    ]


def _near_variants(failure: Failure) -> list[tuple[Failure, ...]]:
    """Return the failures of the variants that match the value's type and discriminator."""
    is_discriminator = _tells_apart(failure)
    return [
        variant
        for variant in _variants(failure)
        if not any(
            is_discriminator(inner) or (inner.path == failure.path and inner.keyword == "type") for inner in variant
        )
    ]


def _tells_apart(union: Failure) -> Callable[[Failure], bool]:
    """Return what tells whether a failure within a union is about a value that tells its variants apart."""
    length = len(union.path) + 1
    return lambda failure: len(failure.path) == length and failure.keyword in ("const", "enum")


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


# Validation of arguments before they are sent, and of results.

MAX_COMPILED = 512  # schemas whose compiled form is cached


@dataclass(slots=True)
class _Compiled:
    """A compiled schema with its source, which it holds so that no other object gets its `id`, the cache's key."""

    source: Mapping[str, Any]
    schema: CompiledSchema
    has_patterns: bool
    names: frozenset[str] | None = None

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether arguments fit and none is unknown."""
        return (self.names is None or self.names.issuperset(arguments)) and self.schema.fits(arguments)


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
    json_values = json_arguments(arguments, schema)
    compiled = _compile(schema)
    if compiled.takes(json_values):
        return json_values, {}
    defaults: dict[Path, Any] = {}
    completed = _completed(json_values, input_root(schema), (), defaults)
    if not (defaults and compiled.takes(completed)) and (problems := list(_problems(compiled, completed))):
        blamed = {path for path in defaults for problem in problems if problem.path[: len(path)] == path}
        if blamed:  # a default that does not fit is no value: nobody gave it
            completed = _completed(json_values, input_root(schema), (), {}, blamed)
            problems = list(_problems(compiled, completed))
        raise together(_joined(problems))
    return completed, {path_text(path): value for path, value in defaults.items()}


def _completed(
    value: Any, field: Field | None, path: Path, defaults: dict[Path, Any], unfit: Container[Path] = ()
) -> Any:
    """Return a value with the defaults that it lacks, but at no `unfit` place; `defaults` gets them, too."""
    if isinstance(value, list) and field is not None:
        return [_completed(item, field.at(at), (*path, at), defaults, unfit) for at, item in enumerate(value)]
    if not isinstance(value, dict) or field is None or field.kind != "object":
        return value
    completed = {name: _completed(item, field.at(name), (*path, name), defaults, unfit) for name, item in value.items()}
    for child in field.children:
        place = (*path, child.name)
        if child.required and not child.is_mandatory and child.name not in completed and place not in unfit:
            completed[child.name] = defaults[place] = copy.deepcopy(child.default)
    return completed


def check_answer(structured: Any, schema: Mapping[str, Any]) -> str:
    """Raise ValueError, with the reason in words, unless structured content fits an output schema.

    Returns what was not checked and why. A format is no reason, but may tell the variants of a `oneOf` apart. By an
    invalid schema nothing is refused.
    """
    problems: list[Problem] = []
    for formats in (False, True):
        compiled = _compile(schema, formats=formats).schema
        with unchecked() as patterns:
            failures = [] if compiled.fits(structured) else compiled.failures(structured)
        if compiled.is_endless:
            return f"the answer was {_TOO_LONG}"
        if compiled.invalid:
            return f"the answer was not checked, because the output schema is invalid: {compiled.invalid}"
        if not failures:
            return _remark("the answer was", patterns)
        problems = problems or list(_problems_of(failures, root_field(schema), is_answer=True))
        if not has_keyword(schema, "oneOf"):
            break
    lines = _joined(problems)
    more = f"; and {len(lines) - MAX_PROBLEMS} more" if len(lines) > MAX_PROBLEMS else ""
    lines = [re.sub(rf"^{_ROOT}:", "the whole:", line).replace("unknown argument", "unknown name", 1) for line in lines]
    raise ValueError("; ".join(lines[:MAX_PROBLEMS]) + more)


def unchecked_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return what of checked arguments was not checked and why, in words; "" if all of it was checked."""
    compiled = _compile(schema)
    if compiled.schema.is_endless:
        return f"the arguments were {_TOO_LONG}"
    if not compiled.has_patterns:
        return ""
    with unchecked() as patterns:
        compiled.schema.fits(arguments)
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
    return not _compile(schema).schema.is_endless


def _compile(schema: Mapping[str, Any], *, formats: bool = True) -> _Compiled:
    key = id(schema), formats
    compiled = _compiled.get(key)
    if compiled is not None and compiled.source is schema:
        return compiled
    while len(_compiled) >= MAX_COMPILED:
        _compiled.pop(next(iter(_compiled)), None)
    has_patterns = has_keyword(schema, "pattern", "patternProperties")
    compiled = _Compiled(schema, CompiledSchema(repair(schema).schema, formats=formats), has_patterns)
    root = input_root(schema)
    if not root.is_open:
        compiled.names = frozenset(child.name for child in root.children)
    _compiled[key] = compiled
    return compiled


def has_keyword(schema: Any, *keywords: str) -> bool:
    """Return whether one of the keywords appears anywhere in a schema."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if not part.keys().isdisjoint(keywords):
                return True
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return False
