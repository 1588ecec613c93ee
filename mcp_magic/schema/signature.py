"""The Python signature of a tool: parameters, annotations and defaults."""

from __future__ import annotations

import functools
import inspect
import keyword
import operator
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic._text import clean, is_identifier, join_names
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.fields import MISSING, UNSET, Field, input_root, root_field
from mcp_magic.schema.validate import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# Fields as type hints.

MAX_HINT_DEPTH = 4  # levels of containers in a type hint; a recursive schema has no last level

_PLAIN: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "null": None, "any": Any}


def annotation_of(field: Field, depth: int = 0) -> Any:
    """Return the type hint of a field."""
    hint = Any if depth > MAX_HINT_DEPTH else _hint(field, depth)
    return _union([hint, None]) if field.nullable and hint not in (Any, None) else hint


def _hint(field: Field, depth: int) -> Any:
    match field.kind:
        case "string":
            return str | bytes if field.is_base64 else str
        case "enum" | "const":
            values = [value for value, _ in field.choices]
            # PEP 586 has no literals for floats, lists and objects
            is_literal = values and all(value is None or isinstance(value, str | int) for value in values)
            return Literal[tuple(values)] if is_literal else Any
        case "union":
            return _union(annotation_of(variant, depth) for variant in field.variants)
        case "array":
            inner = Any if field.item is None else annotation_of(field.item, depth + 1)
            return list[inner]  # type: ignore[valid-type]  # made at run time
        case "object":
            additional = field.additional
            inner = Any if field.children or isinstance(additional, bool) else annotation_of(additional, depth + 1)
            return dict[str, inner]  # type: ignore[valid-type]  # made at run time
    return _PLAIN[field.kind]


def _union(hints: Iterable[Any]) -> Any:
    distinct = list(dict.fromkeys(hints))
    if Any in distinct:
        return Any
    return functools.reduce(operator.or_, distinct)


# A tool as a Python function: signature, documentation, arguments of a call.

MAX_MISSING = 20  # missing arguments that a message names


def identifier(name: str) -> str:
    """Return a valid Python identifier for a name: `get_sum` for `get-sum`, `class_` for `class`."""
    # Python normalizes identifiers to NFKC, so two names that differ only in that would be the same.
    text = "".join(letter if f"_{letter}".isidentifier() else "_" for letter in unicodedata.normalize("NFKC", name))
    text = text if text.isidentifier() else f"_{text}"
    return f"{text}_" if keyword.iskeyword(text) else text


def make_signature(schema: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature of a function that takes the arguments of an input schema.

    Required arguments come first and may be positional; required arguments with a default follow the others. Optional
    arguments are keyword-only. Their default is the schema's, or `unset`, which sends nothing. A name that is no
    Python identifier goes into `**arguments`.
    """
    root = input_root(schema)
    fields = [child for child in root.children if is_identifier(child.name)]
    fields.sort(key=lambda child: (not child.is_mandatory, not child.required))
    parameters = [_parameter(child) for child in fields]
    if root.is_open or root.unlisted or len(fields) < len(root.children):
        name = "arguments"
        while any(child.name == name for child in fields):
            name += "_"
        parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD, annotation=Any))
    return inspect.Signature(parameters)


def _parameter(field: Field) -> inspect.Parameter:
    hint = annotation_of(field)
    if field.is_mandatory:
        return inspect.Parameter(field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if field.required else inspect.Parameter.KEYWORD_ONLY
    default = UNSET if field.default is MISSING else field.default
    return inspect.Parameter(field.name, kind, default=default, annotation=hint)


def make_docstring(
    name: str,
    title: str | None,
    description: str | None,
    schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None = None,
) -> str:
    """Return the documentation of a tool as a function, in Google style."""
    text = inspect.cleandoc(description or "").strip()
    heading = (title or "").strip()
    parts = [heading] if heading and heading != text.partition("\n")[0] else []
    if text:
        parts.append(text)
    parts = parts or [name]
    root = input_root(schema)
    children = root.children
    if children:
        more = [f"    … {root.unlisted:,} more"] if root.unlisted else []
        parts.append("\n".join(["Args:", *(f"    {child.describe()}" for child in children), *more]))
    unwritable = [child.name for child in children if not is_identifier(child.name)]
    if unwritable:
        names = ", ".join(f"{name!r}: ..." for name in unwritable)
        parts.append(f"Python cannot write {join_names(unwritable)} as a keyword: give **{{{names}}}.")
    returned = _returned(output_schema)
    return clean("\n\n".join([*parts, returned] if returned else parts))


def _returned(output_schema: Mapping[str, Any] | None) -> str:
    if not output_schema:
        return ""
    root = root_field(output_schema)
    children = root.children
    # FastMCP wraps a result that is not an object as {"result": ...}, and `.data` unwraps it.
    if len(children) == 1 and children[0].name == "result":
        root, children = children[0], ()
    lines = ["Returns:", f"    A ToolResult; its `.data` is {root.type_text}."]
    return "\n".join([*lines, *(f"        {child.describe()}" for child in children)])


def bind_arguments(
    signature: inspect.Signature,
    schema: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a Python call by name, without `unset` ones; ArgumentsError if they do not fit."""
    root = input_root(schema)
    arguments = {**_positional(signature, root, args, kwargs), **kwargs}
    arguments = {name: value for name, value in arguments.items() if value is not UNSET}
    unknowns = [name for name in arguments if root.at(name) is None]
    if unknowns:
        raise ArgumentsError(unknown(unknowns, root))
    missing = [child for child in root.children if child.is_mandatory and child.name not in arguments]
    if missing:
        unwritable = [child.name for child in missing if not is_identifier(child.name)]
        how = f"; give it as **{{{unwritable[0]!r}: ...}}" if unwritable else ""
        names = join_names((f"{child.name} ({child.type_text})" for child in missing), MAX_MISSING)
        raise ArgumentsError(f"missing: {names}{how}")
    return arguments


def _positional(
    signature: inspect.Signature, root: Field, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    kinds = signature.parameters.values()
    names = [parameter.name for parameter in kinds if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(names):
        takes = f"{len(names)} ({', '.join(names)})" if names else "none"
        optional = [child.name for child in root.children if child.name not in names]
        hint = f"; give the others by name, as {optional[0]}=..." if optional else ""
        raise ArgumentsError(f"{len(args)} positional arguments given, and it takes {takes}{hint}")
    twice = [name for name, _ in zip(names, args, strict=False) if name in kwargs]
    if twice:
        raise ArgumentsError(f"{twice[0]} is given twice, by position and by name")
    return dict(zip(names, args, strict=False))
