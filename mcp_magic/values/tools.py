"""The tools that read values: `list_values`, `describe_value` and `read_value`.

The gateway for outside agents and our own agent use the same ones. Answers are content blocks of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.values.reading import LIMIT, Reader, part_of, row_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_types import ContentBlock, Tool


class Values(Protocol):
    """The values that a reader may see."""

    def names(self) -> Sequence[str]:
        """Return their names."""

    def get(self, name: str) -> Any:
        """Return a value, and note the read; ArgumentsError if there is none of this name."""

    def peek(self, name: str) -> Any:
        """Return a value without a note."""


@dataclass(frozen=True)
class ValueTool:
    """A tool that reads values.

    Attributes:
        name: Its name.
        title: Its title, for people.
        description: What it does.
        schema: The JSON Schema of its arguments.
        answer: Answers a call, from its arguments and the values. An ArgumentsError is the answer of a failed call.
    """

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    answer: Callable[[Mapping[str, Any], Values], list[ContentBlock]]

    @property
    def tool(self) -> Tool:
        """The tool of the protocol."""
        from mcp_types import Tool, ToolAnnotations

        hints = ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=dict(self.schema),
            annotations=hints,
        )

    @property
    def function(self) -> dict[str, Any]:
        """The tool as an OpenAI function."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.schema)}


NOTHING_SHARED = "No value is shared. The person shares one with `%mcp share NAME` in the notebook."


def value_tools(limit: int = LIMIT, hide: Callable[[str], str] = str) -> tuple[ValueTool, ...]:
    """Return the tools.

    Args:
        limit: Most characters of an answer, about.
        hide: Masks known secrets in a text.
    """
    reader = Reader(limit, hide)

    def list_values(arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        names = list(values.names())
        if not names:
            return _text(NOTHING_SHARED)
        search = _string(arguments, "search").casefold()
        names = [name for name in names if search in name.casefold()]
        numbers = row_range(_string(arguments, "rows"), len(names))
        lines: list[str] = []
        room = reader.limit
        for number in numbers:
            try:
                line = f"{names[number]}: {reader.summary(values.peek(names[number]))}"
            except MCPMagicError:  # deleted meanwhile
                continue
            if lines and len(line) > room:
                rest = f'[{plural(numbers.stop - number, "values")} more; rows="{number}:{numbers.stop}" lists them]'
                return _text("\n".join([*lines, rest]))
            lines.append(line)
            room -= len(line) + 1
        return _text("\n".join(lines) or f"[no values here; {plural(len(names), 'values')} fit]")

    def describe_value(arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        name, value = _named(arguments, values)
        return _text(reader.describe(value, one_line(name, 100)))

    def read_value(arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        _, value = _named(arguments, values)
        columns = arguments.get("columns") or []
        if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
            raise ArgumentsError('columns is a list of names, such as ["city", "price"]')
        rows, query = _string(arguments, "rows"), _string(arguments, "query")
        return _text(reader.read(value, rows=rows, columns=columns, query=query))

    return (
        ValueTool("list_values", "List shared values", _LISTS, _schema(search=_SEARCH, rows=_PAGE), list_values),
        ValueTool("describe_value", "Describe a shared value", _DESCRIBES, _schema("name", name=_NAME), describe_value),
        ValueTool(
            "read_value",
            "Read a shared value",
            _READS,
            _schema("name", name=_NAME, rows=_ROWS, columns=_COLUMNS, query=_QUERY),
            read_value,
        ),
    )


_LISTS = "Lists the values of the notebook that are shared: name, type, shape, size."
_DESCRIBES = "Describes a shared value: columns with types, and the first rows."
_READS = (
    "Reads rows of a shared value as CSV, or lines of a text or of nested JSON. A long answer ends with how to read on."
)
_SEARCH = {"type": "string", "description": "only names with this text"}
_PAGE = {"type": "string", "description": "START:STOP of the list, from 0, such as 100:200"}
_NAME = {
    "type": "string",
    "description": "the name of a value or a handle, such as df or result_3; NAME.PART for a table or a member of it",
}
_ROWS = {"type": "string", "description": "START:STOP from 0, such as 20:40; -10: for the last ten"}
_COLUMNS = {"type": "array", "items": {"type": "string"}, "description": "only these columns"}

_QUERY = {
    "type": "string",
    "description": 'only rows that fit, such as: price > 10 and city in ["Oslo", "Rome"] and note is not null; '
    '"text" in city searches; columns with blanks are written `unit price`; lines of a text are the column line',
}


def _schema(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | {"required": list(required)} if required else schema


def _named(arguments: Mapping[str, Any], values: Values) -> tuple[str, Any]:
    """Return the name in the arguments, and the value or the part of a value that it means."""
    whole = _string(arguments, "name")
    if not whole:
        raise ArgumentsError("name is missing; `list_values` lists the names")
    name, _, path = whole.partition(".")
    return whole, part_of(values.get(name), path, name)


def _string(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ArgumentsError(f"{name} is a text")
    return value


def _text(text: str) -> list[ContentBlock]:
    from mcp_types import TextContent

    return [TextContent(text=text)]
