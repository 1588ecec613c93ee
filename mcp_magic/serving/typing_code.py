"""JSON Schema as Python type hints, written out as code: TypedDicts for objects, Literals for choices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_magic.schema import identifier

if TYPE_CHECKING:
    from collections.abc import Container

    from mcp_magic.schema import Field

__all__ = ["USED", "Types"]

USED = frozenset(("bool", "dict", "float", "int", "list", "str", "Any", "Literal", "NotRequired", "TypedDict"))
"""Names that type hints are made of; whatever else were called so, a type checker would take for them."""

MAX_DEPTH = 6
"""Levels of objects that get types of their own; recursive schemas have no end."""

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Types:
    """Writes type hints, and the classes that they need.

    Args:
        taken: Names of the module that no class may have.

    Attributes:
        classes: The code of each class, in an order in which they can stand in a module.
    """

    def __init__(self, taken: Container[str] = ()) -> None:
        self.classes: list[str] = []
        self._taken = taken
        self._names: set[str] = set()
        self._made: dict[tuple[str, str], str] = {}

    def hint(self, field: Field, called: str, depth: int = 0) -> str:
        """Return the type hint of a field.

        Args:
            field: The field.
            called: What a class for it is called.
            depth: How many levels of objects it is inside of.
        """
        text = self._plain(field, called, depth)
        return f"{text} | None" if field.nullable and text not in ("None", "Any") else text

    def _plain(self, field: Field, called: str, depth: int) -> str:
        kind = field.kind
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind in ("enum", "const"):
            return _literal([value for value, _ in field.choices])
        if kind == "union":
            hints = [self.hint(each, f"{called}{number}", depth) for number, each in enumerate(field.variants, 1)]
            return " | ".join(dict.fromkeys(hints)) if "Any" not in hints else "Any"
        if kind == "array":
            inner = self.hint(field.item, f"{called}Item", depth) if field.item is not None else "Any"
            return f"list[{inner}]"
        if kind == "object":
            return self._object(field, called, depth)
        return "Any"

    def _object(self, field: Field, called: str, depth: int) -> str:
        if not field.children:
            rest = field.additional
            inner = "Any" if isinstance(rest, bool) else self.hint(rest, f"{called}Value", depth + 1)
            return f"dict[str, {inner}]"
        if depth >= MAX_DEPTH:
            return "dict[str, Any]"
        key = (called, repr(field.raw))
        if key not in self._made:
            self._made[key] = name = self._unique(called)
            children = [
                (child.name, self.hint(child, f"{name}{_camel(child.name)}", depth + 1), child)
                for child in field.children
            ]
            self.classes.append(_class(name, children, field.description, self._names | USED))
        return self._made[key]

    def _unique(self, called: str) -> str:
        called = name = identifier(called)
        number = 2
        while name in self._names or name in self._taken or name in USED:
            name, number = f"{called}{number}", number + 1
        self._names.add(name)
        return name


def _literal(values: list[object]) -> str:
    simple = [value for value in values if value is None or isinstance(value, str | int | bool)]
    if not simple or len(simple) < len(values):
        return "Any"
    return f"Literal[{', '.join(map(repr, simple))}]"


def _class(name: str, children: list[tuple[str, str, Field]], description: str, types: Container[str]) -> str:
    keys = [
        (key, hint if child.required else f"NotRequired[{hint}]", child.description) for key, hint, child in children
    ]
    if any(key != identifier(key) or key in types or key.startswith("__") for key, *_ in keys):
        members = ", ".join(f"{key!r}: {hint}" for key, hint, _ in keys)
        return f"{name} = TypedDict({name!r}, {{{members}}})"
    lines = [f"class {name}(TypedDict):", f"    {docstring(description or 'An object.')}", ""]
    for key, hint, said in keys:
        lines.append(f"    {key}: {hint}")
        if said:
            lines.append(f"    {docstring(said)}")
    return "\n".join(lines)


def docstring(text: str) -> str:
    """Return a text as a docstring that ends where it should, in one line."""
    shown = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{shown} """' if shown.endswith('"') else f'"""{shown}"""'


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", name) if part) or "Value"
