"""The arguments of a `%mcp call` line as the JSON object that is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.binary import base64_text
from mcp_magic.schema.coerce import UnfitText, from_text
from mcp_magic.schema.describe import shorten
from mcp_magic.schema.fields import Field, root_field
from mcp_magic.schema.items import CELL, Item, is_stray, read_item, stray_error
from mcp_magic.schema.jsontext import read_json
from mcp_magic.schema.messages import unfit, unknown
from mcp_magic.schema.values import to_json_value

__all__ = ["parse_arguments"]

Evaluate = Callable[[str], Any]
Convert = Callable[[Any, Field, str], Any]
Path_ = tuple[str, ...]


@dataclass
class _Given:
    """What the line gives for one property."""

    where: Field
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True)
class _Reader:
    """Reads values; holds what is outside of the line."""

    evaluate: Evaluate
    directory: Path
    convert: Convert
    cell: str | None


def parse_arguments(
    items: Sequence[str],
    schema: Mapping[str, Any],
    *,
    evaluate: Evaluate | None = None,
    directory: Path | None = None,
    convert: Convert = to_json_value,
    cell: str | None = None,
) -> dict[str, Any]:
    r"""Return the arguments that a command line gives.

    Texts become what the schema asks for; `check_arguments` says whether the whole is valid.

    Args:
        items: `name=text` (repeated for a list), `name:=json`, `name=$variable`, `name={expression}`,
            `name=@file`, `name=@cell`, `a.b=text` for what is inside of `a`; `\$`, `\{` and `\@` start a text.
            `$dict` or a JSON object alone is all arguments; what is given by name counts then.
        schema: The tool's input schema.
        evaluate: Returns the object that a Python expression stands for. Without it, `$` and `{` are text.
        directory: What file names are relative to; the working directory if left out.
        convert: Makes the JSON value of an object, given its field and how messages name it.
        cell: The text that `@cell` stands for; without one, it is a file of that name.

    Raises:
        ArgumentsError: An item cannot be read, names nothing, is given twice, or has a value that does not fit.

    >>> schema = {"properties": {"n": {"type": "integer"}, "tags": {"type": "array"}, "at": {"type": "object"}}}
    >>> parse_arguments(["n=12", "tags=a", "tags=b", "at.x:=1"], schema)
    {'n': 12, 'tags': ['a', 'b'], 'at': {'x': 1}}
    """
    root = root_field(schema)
    reader = _Reader(evaluate or _nothing, directory or Path(), convert, cell)
    given: dict[Path_, _Given] = {}
    result: dict[str, Any] = {}
    for index, written in enumerate(items):
        if is_stray(written):
            raise stray_error(items, index)
        item = read_item(written, objects=evaluate is not None)
        if not item.parts:
            result |= _all(item, written, root, reader)
            continue
        path, where = _locate(root, item.parts)
        given.setdefault(path, _Given(where)).items.append(item)
    _refuse_overlap(given)
    for path, each in given.items():
        _place(result, path, _value(each, reader))
    return result


def _all(item: Item, written: str, root: Field, reader: _Reader) -> dict[str, Any]:
    value = _read(item, root, reader, shorten(written))
    if isinstance(value, dict):
        return value
    what = f"it is {type(value).__name__}, not a dict of all arguments; write name={written} for one of them"
    raise ArgumentsError(f"cannot read {shorten(written)!r} as arguments: {what}")


def _locate(root: Field, parts: Path_, path: Path_ = ()) -> tuple[Path_, Field]:
    """Find the field that a dotted name means: a property that has dots in its name wins over nesting."""
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        child = root.listed(name)
        if child is not None:
            return _inside(child, parts[size:], (*path, name))
    child = root.at(parts[0])
    if child is None:
        raise ArgumentsError(_nowhere(root, parts, path))
    return _inside(child, parts[1:], (*path, parts[0]))


def _inside(field: Field, rest: Path_, path: Path_) -> tuple[Path_, Field]:
    return _locate(field, rest, path) if rest else (path, field)


def _nowhere(field: Field, parts: Path_, path: Path_) -> str:
    where = ".".join(path)
    if path and field.kind not in ("object", "union"):
        name = ".".join((*path, *parts))
        return f"{name}: {where} is {field.type_text} and has no names inside; give it whole, as {where}:=JSON"
    # Dots may be part of a misspelt name: "did you mean" should see all of it.
    return unknown([".".join(parts)], field, where)


def _value(given: _Given, reader: _Reader) -> Any:
    path = given.items[0].name
    if len(given.items) == 1:
        return _read(given.items[0], given.where, reader, path)
    lists = [each for each in (given.where, *given.where.variants) if each.kind in ("array", "any")]
    if not lists:
        message = f"{path} is given {len(given.items)} times; it takes one value ({given.where.type_text})"
        raise ArgumentsError(message)
    return [
        _read(item, lists[0].at(index) or given.where, reader, f"{path}[{index}]")
        for index, item in enumerate(given.items)
    ]


def _read(item: Item, field: Field, reader: _Reader, path: str) -> Any:
    match item.source:
        case "json":
            return _json(item.text, path)
        case "json file":
            return _json(_decoded(_file(item.text, reader, path), path), path)
        case "file":
            return _from_file(_file(item.text, reader, path), field, path)
        case "python":
            return reader.convert(_evaluated(item.text, reader, path), field, path)
        case "text":
            return _text(item.text, field, path)


def _text(text: str, field: Field, path: str) -> Any:
    try:
        return from_text(text, field)
    except UnfitText:
        several = f"; several are {path}=A {path}=B" if field.kind == "array" and "," in text else ""
        raise ArgumentsError(unfit(path, field, text) + several) from None


def _json(text: str, path: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise ArgumentsError(f"{path}: what follows := is not JSON: {error}; for text write {path}=text") from None


def _nothing(source: str) -> Any:
    raise NameError("there is no Python scope here")


def _evaluated(source: str, reader: _Reader, path: str) -> Any:
    try:
        return reader.evaluate(source)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    # Raised out here, since an exception group must not even be the context of what leaves the package.
    raise ArgumentsError(f"{path}: cannot evaluate {source!r}: {problem}")


def _file(name: str, reader: _Reader, path: str) -> bytes:
    if name == CELL and reader.cell is not None:
        return reader.cell.encode()
    place = reader.directory / Path(name).expanduser()
    try:
        return place.read_bytes()
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        below = "; the text of a cell needs %%mcp above it" if name == CELL else ""
        message = f"{path}: cannot read {str(place)!r}: {why}; for the text write '\\@{name}'{below}"
        raise ArgumentsError(message) from None


def _from_file(data: bytes, field: Field, path: str) -> Any:
    """Base64 where the schema asks for it and for what is no text, else the text as the field reads it."""
    if field.is_base64:
        return base64_text(data, field)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if _takes_text(field):
            return base64_text(data, field)
        raise ArgumentsError(f"{path}: expected {field.type_text}, got a file that is not UTF-8 text") from None
    return text if _takes_text(field) else _text(text.strip(), field, path)


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ArgumentsError(f"{path}: the file is not UTF-8 text, so it is not JSON") from None


def _takes_text(field: Field) -> bool:
    return any(each.kind in ("string", "any") for each in (field, *field.variants))


def _refuse_overlap(paths: Iterable[Path_]) -> None:
    whole = set(paths)
    for path in whole:
        if any(path[:size] in whole for size in range(1, len(path))):
            raise ArgumentsError(f"{path[0]} is given whole and in parts ({'.'.join(path)}); give one of them")


def _place(result: dict[str, Any], path: Path_, value: Any) -> None:
    """Put a value where its path says, making the objects on the way."""
    for part in path[:-1]:
        if not isinstance(result.get(part), dict):
            result[part] = {}
        result = result[part]
    result[path[-1]] = value
