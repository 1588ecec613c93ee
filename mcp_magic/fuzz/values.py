"""Values around a schema: such as fit, boundaries, values just outside, other types, missing and extra members.

They are made from the fields of the schema, which have a budget and follow recursion as far as it is asked for. Whether
a value fits is not decided here but by the one engine (`schema/engine.py`).

A text for a `pattern` is made from the parse tree of Python's `re`, which is never run: the engine, which has limits,
tells whether the text matches.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.example import example_value
from mcp_magic.schema.patterns import MAX_PATTERN, matches
from mcp_magic.schema.resolve import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_magic.schema.fields import Field

LONG = 10_000  # characters of a long text

TEXTS = (
    *(
        "",
        " ",
        "a",
        "0",
        "-1",
        "null",
        "\x00",
        "a\x00b",
        "\n",
        "'",
        '"',
        "\\",
        "%s",
        "{}",
        "é",
        "e\u0301",
        "\U0001f600",
    ),
    *("\u202eabc", "\ufeff", "\u05d0\u05d1", "a" * 300, "a" * LONG, "\U0001f600" * 1_000, "a" * (10 * LONG)),
)

INTEGERS = (
    0,
    -1,
    1,
    *(sign * 2**bits + step for bits in (31, 53, 63) for sign in (1, -1) for step in (-1, 0, 1)),
    2**64,
)

NUMBERS = (*INTEGERS, 0.5, -0.5, 0.1 + 0.2, 1e308, -1e308, 5e-324)

OTHERS: tuple[Any, ...] = (None, True, 0, 1.5, "1", "text", [], {}, ["a"], [None], {"a": 1})
"""A value of each type, for places that take another."""

MAX_CHOICES = 20  # values of an `enum` that are tried one by one

MAX_ITEMS = 1_000  # items of a long list

MAX_PARTS = 200  # values for one part of an object or a list

MAX_LEVELS = 4  # levels of a schema whose parts vary one by one


def plain_value(field: Field, depth: int = 0) -> Any:
    """Return a small value that fits a field, as far as its keywords are understood."""
    value = example_value(field)
    if depth > MAX_LEVELS or field.takes(value):
        return value
    match field.kind:
        case "object":
            return {child.name: plain_value(child, depth + 1) for child in field.children if child.required}
        case "array":
            inner = (field.at(at) for at in range(len(value)))
            return [plain_value(item, depth + 1) for item in inner if item is not None]
        case "union" if field.variants:
            return plain_value(field.variants[0], depth + 1)
        case "string" if isinstance(field.schema.get("pattern"), str):
            return matching_text(field.schema["pattern"], random.Random(0), field.takes)
    return value


def variations(field: Field, depth: int = 0) -> Iterator[Any]:
    """Yield values for a field: a plain one, the boundaries, other types, and then the same for each of its parts."""
    plain = plain_value(field)
    yield plain
    yield from boundaries(field, plain)
    if depth < MAX_LEVELS:
        yield from _interleaved(_parts(field, plain, depth))
    yield from OTHERS


def boundaries(field: Field, plain: Any) -> Iterator[Any]:
    """Yield the values at the limits of a field, and just outside of them."""
    limits = field.schema
    match field.kind:
        case "enum" | "const":
            yield from (value for value, _ in field.choices[:MAX_CHOICES])
            yield from ("not a choice", *(value.swapcase() for value, _ in field.choices[:1] if isinstance(value, str)))
        case "integer" | "number":
            yield from _near_limits(limits)
            yield from INTEGERS if field.kind == "integer" else NUMBERS
        case "string":
            yield from (text * count for text in ("a", "\U0001f600") for count in _counts(limits, "Length", LONG))
            if isinstance(limits.get("pattern"), str):
                sources = map(random.Random, range(1, 4))
                yield from (matching_text(limits["pattern"], source, field.takes) for source in sources)
            yield from TEXTS
        case "boolean":
            yield from (True, False)
        case "array":
            item = field.at(0)
            inner = None if item is None else plain_value(item, 1)
            yield from ([inner] * count for count in (0, *_counts(limits, "Items", MAX_ITEMS), MAX_ITEMS))
        case "object":
            yield from _near_object(field, plain)
        case "any":
            yield from (*TEXTS, *NUMBERS, _nested(50))


def _near_limits(limits: Any) -> Iterator[Any]:
    step = limits.get("multipleOf")
    for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        if is_number(limit := limits.get(keyword)):
            yield from (limit, limit - 1, limit + 1)
            if is_number(step):
                yield from (limit - step, limit + step)
    if is_number(step):
        yield from (step, 2 * step, step + 1, step / 2)


def _counts(limits: Any, noun: str, most: int) -> Iterator[int]:
    for keyword in (f"min{noun}", f"max{noun}"):
        if is_number(limit := limits.get(keyword)):
            yield from (count for count in map(int, (limit, limit - 1, limit + 1)) if 0 <= count <= most)


def _near_object(field: Field, plain: Any) -> Iterator[dict[str, Any]]:
    members = plain if isinstance(plain, dict) else {}
    yield {}
    yield {child.name: plain_value(child, 1) for child in field.children[:MAX_PARTS]}
    for name in itertools.islice(members, MAX_PARTS):
        yield {other: value for other, value in members.items() if other != name}
    for name, value in (("unlisted", 1), ("", "a"), ("\x00", None), ("__proto__", {})):
        yield {**members, name: value}


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _parts(field: Field, plain: Any, depth: int) -> Iterator[Iterator[Any]]:
    """Yield for each part of a field the values in which only that part varies."""
    if field.kind == "union":
        yield from (variations(variant, depth + 1) for variant in field.variants)
    elif field.kind == "array":
        first = field.at(0)
        rest = plain[1:] if isinstance(plain, list) else []
        if first is not None:
            yield ([value, *rest] for value in variations(first, depth + 1))
    elif field.kind == "object":
        members = plain if isinstance(plain, dict) else {}
        for child in field.children[:MAX_PARTS]:
            yield ({**members, child.name: value} for value in variations(child, depth + 1))


def _interleaved(sources: Iterable[Iterator[Any]]) -> Iterator[Any]:
    """Yield from each source in turn, at most `MAX_PARTS` values of each."""
    rounds = itertools.zip_longest(*(itertools.islice(source, MAX_PARTS) for source in sources), fillvalue=_interleaved)
    return (value for values in rounds for value in values if value is not _interleaved)


# Texts for a pattern.

ATTEMPTS = 20  # texts that are made for a pattern with lookaheads, of which some do not match

MAX_REPEATS = 3  # repeats beyond the fewest

_GROUP = re.compile(r"\(\?<(?![=!])")  # ECMA 262 names a group without Python's P
_DIGITS, _SPACES = "0123456789", " \t"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_KINDS = {"DIGIT": _DIGITS, "SPACE": _SPACES, "WORD": _LETTERS + _DIGITS}
_ALL = _LETTERS + _DIGITS + _SPACES + "-"


def matching_text(pattern: str, source: random.Random, fits: Callable[[Any], bool] | None = None) -> str:
    """Return a text that matches a pattern, or, if none is known, any text."""
    text = ""
    try:
        tree = import_module("re._parser").parse(_GROUP.sub("(?P<", pattern[:MAX_PATTERN]))
        for _ in range(ATTEMPTS):
            text = "".join(_texts(tree, source))
            if matches(pattern, text) and (fits is None or fits(text)):
                return text
    except (re.error, RecursionError, OverflowError, ValueError):  # ValueError: of a part that is not understood
        pass
    return text


def _texts(tree: Any, source: random.Random) -> Iterator[str]:
    for operator, argument in tree:
        name = str(operator)
        if name == "LITERAL":
            yield chr(argument)
        elif name in ("NOT_LITERAL", "ANY"):
            yield source.choice([other for other in "ab1Z-" if name == "ANY" or other != chr(argument)])
        elif name == "IN":
            yield _character(argument, source)
        elif name in ("BRANCH", "SUBPATTERN", "ATOMIC_GROUP"):
            inner = argument if name == "ATOMIC_GROUP" else argument[-1]
            yield from _texts(source.choice(inner) if name == "BRANCH" else inner, source)
        elif name.endswith("_REPEAT"):
            least, most, inner = argument
            for _ in range(min(source.randint(least, min(int(most), least + MAX_REPEATS)), LONG)):
                yield from _texts(inner, source)
        elif name not in ("AT", "ASSERT", "ASSERT_NOT"):
            raise ValueError(name)


def _character(parts: Any, source: random.Random) -> str:
    """Return a character of a class such as `[a-f_]`."""
    is_negated = str(parts[0][0]) == "NEGATE"
    options: list[str] = []
    for operator, argument in parts[is_negated:]:
        match str(operator):
            case "LITERAL":
                options.append(chr(argument))
            case "RANGE":
                low, high = argument
                options += map(chr, range(low, min(high, low + 200) + 1))
            case "CATEGORY":
                members = next(kind for word, kind in _KINDS.items() if str(argument).endswith(word))
                options += [other for other in _ALL if other not in members] if "_NOT_" in str(argument) else members
    if is_negated:
        options = [character for character in _ALL if character not in options]
    return source.choice(options or ["a"])


def distinct_key(value: Any) -> bytes:
    """Return a short key that is equal for values that are sent as the same JSON."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
