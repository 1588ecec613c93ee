"""A call, told: on one line, and argument by argument.

Pure functions from a call to text and markup. Names, descriptions and arguments come from servers and models: they are
written out and escaped, and the values of secret-looking arguments never appear. Of a long value the beginning and the
end are shown.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.results.html import Markup, joined, preformatted, tag
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_types import Tool

    from mcp_magic.schema import Field

__all__ = [
    "MAX_NAME",
    "MAX_VALUE",
    "argument_cell",
    "argument_rows",
    "call_line",
    "changes",
    "hidden_arguments",
    "hidden_values",
    "long_arguments",
    "short_value",
    "written",
]

MAX_VALUE = 1000
"""Characters shown of one argument."""

MAX_NAME = 80
"""Characters shown of the name of an argument."""

MAX_IN_LINE = 60
"""Characters of one argument in a line."""

MAX_LINE = 200
"""Characters of all arguments in a line."""

_PLAIN = re.compile(r"[\w.:/@+*-]+")


def hidden_arguments(
    arguments: Mapping[str, Any], definition: Tool | None, mask: Callable[[Any], str] = lambda _: MASK
) -> dict[str, Any]:
    """Return arguments with the values masked that their names or the tool's schema call secret.

    Args:
        arguments: The arguments.
        definition: The tool, or None.
        mask: Returns what stands in the place of a value.

    >>> hidden_arguments({"user": "me", "login": {"password": "pw"}}, None)
    {'user': 'me', 'login': {'password': '***'}}
    """
    field = schema.root_field(definition.input_schema) if definition is not None else None
    shown: dict[str, Any] = _inside(dict(arguments), field, mask)
    return shown


def hidden_values(arguments: Mapping[str, Any], definition: Tool | None) -> list[Any]:
    """Return what `hidden_arguments` masks.

    >>> hidden_values({"user": "me", "login": {"password": "pw"}}, None)
    ['pw']
    """
    return list(_differing(dict(arguments), hidden_arguments(arguments, definition)))


def _differing(value: Any, shown: Any) -> Iterator[Any]:
    if isinstance(shown, dict):
        for name, inner in shown.items():
            yield from _differing(value[name], inner)
    elif isinstance(shown, list):
        for inner, seen in zip(value, shown, strict=True):
            yield from _differing(inner, seen)
    elif shown is not value:
        yield value


def _hidden(value: Any, field: Field | None, name: str, mask: Callable[[Any], str]) -> Any:
    if value is not None and schema.is_secret(name, field):
        return mask(value)
    return _inside(value, field, mask)


def _inside(value: Any, field: Field | None, mask: Callable[[Any], str]) -> Any:
    if isinstance(value, dict):
        known = {child.name: child for child in field.children} if field else {}
        return {name: _hidden(inner, known.get(name), str(name), mask) for name, inner in value.items()}
    if isinstance(value, list):
        item = field.item if field else None
        return [_hidden(inner, item, "", mask) for inner in value]
    return value


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return what was done to which argument.

    >>> changes({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5, "d": 4})
    {'b': 'changed', 'c': 'left out', 'd': 'added'}
    """
    # repr tells 1 from True and 1.0, which == does not
    done = {}
    for name in {**before, **after}:
        if name not in after:
            done[name] = "left out"
        elif name not in before:
            done[name] = "added"
        elif repr(before[name]) != repr(after[name]):
            done[name] = "changed"
    return done


def call_line(arguments: Mapping[str, Any], definition: Tool | None, limit: int = MAX_LINE) -> str:
    """Return arguments on one line, secrets masked and long values cut.

    >>> call_line({"city": "Oslo", "days": 3, "api_key": "x", "note": "a b"}, None)
    'city=Oslo, days=3, api_key=***, note="a b"'
    """
    from mcp_magic.results.visible import in_line

    parts: list[str] = []
    room = limit
    for name, value in hidden_arguments(arguments, definition).items():
        part = f"{in_line(name, 40)}={short_value(value)}"
        room -= len(part)
        if room < 0:
            parts.append("…")
            break
        parts.append(part)
    return ", ".join(parts)


def written(value: Any, indent: int | None = None) -> str:
    """Return a value as text: a string as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def short_value(value: Any) -> str:
    """Return a value as short as it can be: quotes stand where the text could be taken for something else."""
    from mcp_magic.results.visible import in_line

    text = in_line(written(value), MAX_IN_LINE)
    return f'"{text}"' if isinstance(value, str) and not _PLAIN.fullmatch(value) else text


def argument_rows(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    definition: Tool | None,
    limit: int = MAX_VALUE,
    *,
    mask: Callable[[Any], str] = lambda _: MASK,
) -> Iterable[tuple[str, str, str]]:
    """Yield name, value and what was changed of each argument, also of those that were left out."""
    from mcp_magic.results.visible import in_line, outline

    shown, new = hidden_arguments(before, definition, mask), hidden_arguments(after, definition, mask)
    done = changes(before, after)
    for name in {**new, **shown}:
        was = f"; was {short_value(shown[name])}" if done.get(name) == "changed" else ""
        text = outline(written(new[name] if name in new else shown[name]), limit)
        yield in_line(name, MAX_NAME), text, f"{done[name]}{was}" if name in done else ""


def long_arguments(arguments: Mapping[str, Any], definition: Tool | None) -> dict[str, Any]:
    """Return the arguments of which `argument_rows` leaves something out, secrets masked.

    >>> list(long_arguments({"a": "x" * 1000, "b": "x" * 1100, "c": ["x"] * 300}, None))
    ['b', 'c']
    """
    from mcp_magic.results.visible import is_long

    return {
        name: value
        for name, value in hidden_arguments(arguments, definition).items()
        if is_long(written(value), MAX_VALUE) or is_long(name, MAX_NAME)
    }


def argument_cell(value: str, mark: str) -> Markup:
    """Return the value of an argument as markup, with what was changed."""
    text = preformatted(value) if "\n" in value else tag("code", value, style="white-space:pre-wrap")
    # the mark is a word: colour would not be seen by everybody
    return joined([text, " ", tag("b", f"✎ {mark}")]) if mark else text
