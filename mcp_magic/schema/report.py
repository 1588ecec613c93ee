"""What jsonschema found, in lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mcp_magic.errors import listed
from mcp_magic.schema.describe import shorten
from mcp_magic.schema.fields import Field
from mcp_magic.schema.messages import is_secret, shown, unfit, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jsonschema.exceptions import ValidationError

__all__ = ["missing_names", "path_text", "problems_of", "told_of"]

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
