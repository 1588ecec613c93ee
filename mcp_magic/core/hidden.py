"""What is hidden of a call that somebody else wants: where, how much, and who says that it is a secret.

A server decides with its schema which arguments are masked, and a model which names it gives. Whoever is asked about a
call sees that something is hidden, and may look at it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.results.html import facts, joined, note, page, preformatted
from mcp_magic.results.safe import clean, one_line
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_types import Tool

    from mcp_magic.schema import Field

__all__ = ["Hidden", "hidden_note", "hidden_parts", "revealed_html", "revealed_text", "sized"]

MAX_NAMED = 5
"""Hidden values that are named."""

MAX_REVEALED = 20_000
"""Characters shown of a hidden value."""


class Hidden(NamedTuple):
    """A value that is masked.

    Attributes:
        path: Where it is, `login.password`.
        value: What it is.
        by_server: Whether the tool's schema says that it is a secret; else its name does.
    """

    path: str
    value: Any
    by_server: bool


def hidden_parts(arguments: Mapping[str, Any], definition: Tool | None) -> list[Hidden]:
    """Return what is masked of arguments, as `hidden_arguments` does it.

    >>> hidden_parts({"user": "me", "login": [{"password": "pw"}]}, None)
    [Hidden(path='login[0].password', value='pw', by_server=False)]
    """
    field = schema.root_field(definition.input_schema) if definition is not None else None
    return list(_inside(dict(arguments), field, ""))


def _parts(value: Any, field: Field | None, name: str, path: str) -> Iterator[Hidden]:
    if value is not None and schema.is_secret(name, field):
        yield Hidden(path, value, schema.is_secret("", field))
    else:
        yield from _inside(value, field, path)


def _inside(value: Any, field: Field | None, path: str) -> Iterator[Hidden]:
    if isinstance(value, dict):
        known = {child.name: child for child in field.children} if field else {}
        for name, inner in value.items():
            yield from _parts(inner, known.get(name), str(name), f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _parts(inner, field.item if field else None, "", f"{path}[{index}]")


def written(value: Any) -> str:
    """Return a value as text: a string as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def sized(mask: str, value: Any) -> str:
    """Return a mask with how much it hides.

    >>> sized("***", "x" * 1234), sized("***", "x")
    ('*** (1,234 characters)', '*** (1 character)')
    """
    return f"{mask} ({counted(len(written(value)), 'characters')})"


def hidden_note(parts: Iterable[Hidden]) -> str:
    """Say what is hidden, and why; nothing where nothing is.

    >>> hidden_note([Hidden("context", "x", True), Hidden("api_key", "x", False)])
    'hidden: context (the server calls it a secret), api_key (the name of a secret)'
    """
    why = {True: "the server calls it a secret", False: "the name of a secret"}
    said = [f"{one_line(part.path, 60)} ({why[part.by_server]})" for part in parts]
    more = [f"and {len(said) - MAX_NAMED} more"] if len(said) > MAX_NAMED else []
    return f"hidden: {', '.join([*said[:MAX_NAMED], *more])}" if said else ""


def revealed_html(parts: Iterable[Hidden]) -> str:
    """Return hidden values as a page of its own."""
    rows = [(one_line(part.path, 80), joined([preformatted(text), note(rest)])) for part, text, rest in _cut(parts)]
    return page([facts(rows) if rows else note("nothing is hidden any more")])


def revealed_text(parts: Iterable[Hidden]) -> str:
    """Return the same for a terminal."""
    lines = []
    for part, text, rest in _cut(parts):
        shown = clean(text).replace("\n", "\n      ")
        lines.append(f"  {one_line(part.path, 80)} = {shown}{rest}")
    return "\n".join(lines)


def _cut(parts: Iterable[Hidden]) -> Iterator[tuple[Hidden, str, str]]:
    for part in parts:
        text = written(part.value)
        rest = f"… the first {MAX_REVEALED:,} of {len(text):,} characters" if len(text) > MAX_REVEALED else ""
        yield part, text[:MAX_REVEALED], rest
