"""What is hidden of a call that somebody else wants: where, how much, and who says that it is a secret.

A server decides with its schema which arguments are masked, and a model which names it gives. Whoever is asked about a
call sees that something is hidden, and may look at it: at the whole of it, a part at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic.core.calltext import written
from mcp_magic.results.html import facts, page, preformatted, tag
from mcp_magic.results.safe import one_line
from mcp_magic.results.visible import in_line, visible
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_types import Tool

    from mcp_magic.schema import Field

__all__ = ["Hidden", "hidden_note", "hidden_parts", "page_html", "page_text", "pages", "sized"]

MAX_NAMED = 5
"""Hidden values that are named."""

PAGE = 100_000
"""Characters of whole values that are shown at a time."""


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


def pages(values: Iterable[tuple[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return whole values with their names, as much at a time as a frontend can take.

    >>> [[(name, len(text)) for name, text in page] for page in pages([("a", "x" * 150_000), ("b", "y")])]
    [[('a, characters 1 to 100,000', 100000)], [('a, characters 100,001 to 150,000', 50000), ('b', 1)]]
    """
    found: list[list[tuple[str, str]]] = [[]]
    room = PAGE
    for name, value in values:
        text = written(value, indent=2)
        at, shown = 0, in_line(name, PAGE)
        while at == 0 or at < len(text):
            if room <= 0:
                found.append([])
                room = PAGE
            part = text[at : at + room]
            where = f"{shown}, characters {at + 1:,} to {at + len(part):,}" if len(part) < len(text) else shown
            found[-1].append((where, part))
            room -= max(len(part), 1)
            at += max(len(part), 1)
    return found


def page_html(rows: Iterable[tuple[str, str]]) -> str:
    """Return a page of values, with everything in them to be seen, as HTML that scrolls."""
    shown = facts([(name, preformatted(visible(text))) for name, text in rows])
    return page([tag("div", shown, style="max-height:28em;overflow:auto")])


def page_text(rows: Iterable[tuple[str, str]]) -> str:
    """Return the same for a terminal."""
    shown = ((name, visible(text).replace("\n", "\n      ")) for name, text in rows)
    return "\n".join(f"  {name} = {text}" for name, text in shown)
