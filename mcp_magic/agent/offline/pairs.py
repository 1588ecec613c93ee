"""Arguments that a request gives by name: `days=3`, `customer.name="Ada"`, `topic: bees`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.words import name_words
from mcp_magic.schema.coerce import UnfitText, from_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.schema import Field

__all__ = ["Pairs", "pairs"]

MAX_DEPTH = 4
"""Levels of objects in which a name is looked for; recursive schemas have no end."""

_EQUALS = re.compile(r"(?<![\w.=<>!])([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*(?::=|=)\s*(?![=>])")
_COLON = re.compile(r"(?<![\w.:/])([A-Za-z_][\w-]*)\s*:\s+")
_VALUE = re.compile(r"\"([^\"]*)\"|'([^']*)'|`([^`]*)`|([^\s,;]*[^\s,;.?!])")


@dataclass(frozen=True)
class Pairs:
    """What was given by name.

    Attributes:
        arguments: The arguments, nested as the schema nests them.
        spans: Where in the text they stand.
    """

    arguments: dict[str, Any]
    spans: list[tuple[int, int]]


def pairs(text: str, fields: tuple[Field, ...]) -> Pairs:
    """Read all pairs of a text that the fields of a tool can take.

    A name may be that of an inner field, if there is only one of that name. A name that nothing lists goes into the
    only argument that takes names of one's own.
    """
    arguments: dict[str, Any] = {}
    spans: list[tuple[int, int]] = []
    for start, end, given in _objects(text, fields):
        arguments |= given
        spans.append((start, end))
    for start, name, at, colon in _heads(_hidden(text, spans)):
        if any(begin <= start < end for begin, end in spans):
            continue
        path, field = _find(name.split("."), fields)
        if field is None or (colon and len(path) > 1 and "." not in name and not path[-1]):
            continue
        read = _read(text, at, field, rest=colon and field.kind == "string")
        if read is not None:
            value, end = read
            _place(arguments, path, value)
            spans.append((start, end))
    return Pairs(arguments, spans)


def _hidden(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def _objects(text: str, fields: tuple[Field, ...]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Find JSON objects that hold all arguments."""
    names = {field.name for field in fields}
    for match in re.finditer(r"(?<![\w=:])\{", text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, match.start())
        except ValueError:
            continue
        before = text[: match.start()].rstrip()
        if value and value.keys() <= names and not before.endswith(("=", ":", *names)):
            yield match.start(), end, value
            return


def _heads(text: str) -> list[tuple[int, str, int, bool]]:
    """Return where a pair begins, its name, where its value begins, and whether a colon stands between."""
    found = [(match.start(1), match[1], match.end(), False) for match in _EQUALS.finditer(text)]
    for match in _COLON.finditer(text):
        found.append((match.start(1), match[1], match.end(), True))
    return sorted(found)


def _find(parts: list[str], fields: tuple[Field, ...]) -> tuple[list[str], Field | None]:
    for field in fields:
        if name_words(field.name) == name_words(parts[0]):
            path, inner = [field.name], field
            for part in parts[1:]:
                found = inner.at(part)
                if found is None:
                    return path, None
                path, inner = [*path, part], found
            return path, inner
    if len(parts) > 1:
        return [], None
    within = [found for field in fields for found in _inner(parts[0], field, (field.name,), 1)]
    if len(within) == 1:
        return within[0]
    taking = [field for field in fields if field.kind == "object" and not field.children]
    taking = [field for field in taking if field.required] or taking
    if len(taking) == 1 and (item := taking[0].at(parts[0])) is not None:
        return [taking[0].name, parts[0]], item
    return [], None


def _inner(name: str, field: Field, path: tuple[str, ...], depth: int) -> Iterator[tuple[list[str], Field]]:
    if field.kind != "object" or depth > MAX_DEPTH:
        return
    for child in field.children:
        if child.name == name:
            yield [*path, child.name], child
        else:
            yield from _inner(name, child, (*path, child.name), depth + 1)


def _read(text: str, at: int, field: Field, *, rest: bool) -> tuple[Any, int] | None:
    """Read a value: JSON, quoted, one word, or with `rest` all up to the next comma that a name follows."""
    if text[at : at + 1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            pass
    match = _VALUE.match(text, at)
    if match is None:
        return None
    quoted = next((group for group in match.groups()[:3] if group is not None), None)
    if quoted is None and rest:
        ends = re.compile(r"[,;]\s*[\w.-]+\s*[:=]|\n|$").search(text, at)
        end = ends.start() if ends else len(text)
        return text[at:end].strip().rstrip(".,;"), end
    if quoted is None and field.kind == "array":
        return _list(text, at, field)
    value = quoted if quoted is not None else match[4]
    try:
        return from_text(value, field), match.end()
    except UnfitText:
        folded = [choice for choice, label in field.choices if value.lower() in (str(choice).lower(), label.lower())]
        return (folded[0], match.end()) if folded else None


def _list(text: str, at: int, field: Field) -> tuple[Any, int] | None:
    """Read `1,2,3` or `a, b and c` up to where something else begins."""
    match = re.compile(r"[^\s,;=]+(?:\s*,\s*(?:and\s+)?(?![\w.-]+\s*[:=])[^\s,;=]+)*(?:\s+and\s+[^\s,;=]+)?").match(
        text, at
    )
    item = field.item
    if match is None or item is None:
        return None
    parts = [part.strip("\"'.") for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match[0])]
    try:
        return [from_text(part, item) for part in parts], match.end()
    except UnfitText:
        return None


def _place(arguments: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        inner = arguments.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        arguments = inner
    arguments[path[-1]] = value
