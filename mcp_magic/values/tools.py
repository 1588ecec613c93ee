"""The tools that read values: `list_values`, `describe_value` and `read_value`.

The gateway for outside agents and our own agent use the same ones. Answers are content blocks of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_magic._text import did_you_mean, join_names, plural
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, MCPMagicError
from mcp_magic.schema.secrets import MASK
from mcp_magic.values.classes import class_name, is_among
from mcp_magic.values.images import image_of, is_image, size_of
from mcp_magic.values.reading import LIMIT, RESULTS, Reader, nothing_in, part_of, readable, row_range

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
        compute: Computes the answer.
        hide: Masks known secrets in an error, which may name columns.
    """

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    compute: Callable[[Mapping[str, Any], Values], list[ContentBlock]]
    hide: Callable[[str], str] = str

    def answer(self, arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        """Return the answer to a call.

        Raises:
            ArgumentsError: The arguments are not valid, or the value cannot be read. The message is for the agent.
        """
        valid = self.schema["properties"]
        for name in arguments:
            if name not in valid:
                near = did_you_mean(name, valid)
                raise ArgumentsError(
                    f"{self.name} has no argument {one_line(name, 60)!r}.{near} It has: {join_names(valid)}"
                )
        try:
            with readable():
                return self.compute(arguments, values)
        except MCPMagicError as error:
            raise ArgumentsError(self.hide(str(error))) from None

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


MAX_IMAGES = 5  # of one result

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
        if not names:
            return _text(f"[no names have {one_line(search, 60)!r}]")
        rows = _rows(arguments)
        numbers = row_range(rows, len(names))
        if not numbers:
            return _text(f"[{nothing_in(rows, len(names), 'values')}]")
        return _text(_listing(reader, values, names, numbers))

    def describe_value(arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        name, value = _value_of(arguments, values)
        return _text(reader.describe(value, name, _columns(arguments)))

    def read_value(arguments: Mapping[str, Any], values: Values) -> list[ContentBlock]:
        name, value = _value_of(arguments, values)
        rows, columns, query = _rows(arguments), _columns(arguments), _string(arguments, "query")
        images = _images(value)
        if images and not (rows or columns or query):
            return _image_answer(name, value, images)
        return _text(reader.read(value, name, rows=rows, columns=columns, query=query))

    return (
        ValueTool("list_values", "List shared values", _LISTS, _LISTING, list_values, hide),
        ValueTool("describe_value", "Describe a shared value", _DESCRIBES, _DESCRIPTION, describe_value, hide),
        ValueTool("read_value", "Read a shared value", _READS, _READING, read_value, hide),
    )


def _listing(reader: Reader, values: Values, names: Sequence[str], numbers: range) -> str:
    """Return some of the names, with types, shapes and sizes; as many as fit."""
    lines: list[str] = []
    room = reader.limit
    for number in numbers:
        try:
            value = values.peek(names[number])
        except MCPMagicError:  # deleted meanwhile
            continue
        line = f"{names[number]}: {reader.summary(value)}"
        if lines and len(line) > room:
            rest = plural(numbers.stop - number, "values")
            return "\n".join([*lines, f'[{rest} more; rows="{number}:{numbers.stop}" lists them]'])
        lines.append(line)
        room -= len(line) + 1
    return "\n".join(lines)


_LISTS = "Lists the values of the notebook that are shared: name, type, shape, size."
_DESCRIBES = "Describes a shared value: columns with types and statistics, and the first rows."
_READS = (
    "Reads rows of a shared value as CSV, or lines of a text or of nested JSON; figures and images as images. "
    "Long answers end early and say how to read on."
)


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | {"required": required} if required else schema


def _string_schema(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_NAME = _string_schema("a value or a handle, such as df or result_3; NAME.PART for a table or a member of it")
_COLUMNS = {"type": "array", "items": {"type": "string"}, "description": "only these columns"}
_QUERY = _string_schema(
    'only rows that fit, such as: price > 10 and city in ["Oslo", "Rome"] and note is not null; "text" in city '
    "searches; columns with blanks are written `unit price`; lines of a text are the column line"
)
_LISTING = _schema(
    [],
    search=_string_schema("only names with this text"),
    rows=_string_schema("START:STOP of the list, from 0, such as 100:200"),
)
_DESCRIPTION = _schema(["name"], name=_NAME, columns=_COLUMNS)
_READING = _schema(
    ["name"],
    name=_NAME,
    rows=_string_schema("START:STOP from 0, such as 20:40; -10: for the last ten; query selects among these"),
    columns=_COLUMNS,
    query=_QUERY,
)


def _value_of(arguments: Mapping[str, Any], values: Values) -> tuple[str, Any]:
    """Return the name in the arguments, and the value or the part of a value that it means."""
    full = _string(arguments, "name")
    if not full:
        raise ArgumentsError("name is missing; `list_values` lists the names")
    name, _, path = full.partition(".")
    value, is_masked = part_of(values.get(name), path, name)
    return one_line(full, 100), MASK if is_masked else value


_EXAMPLES = {"rows": "0:100", "columns": "price", "query": "price > 10"}


def _string(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ArgumentsError(f'{name} is a text, such as "{_EXAMPLES.get(name, "df")}"')
    return value


def _rows(arguments: Mapping[str, Any]) -> str | list[Any]:
    rows = arguments.get("rows")
    if type(rows) is int and rows.bit_length() < 64:
        return str(rows)
    return rows if isinstance(rows, list) else _string(arguments, "rows")


def _columns(arguments: Mapping[str, Any]) -> list[str]:
    columns = arguments.get("columns") or []
    columns = [columns] if isinstance(columns, str) else columns
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise ArgumentsError('columns is a list of names, such as ["city", "price"]')
    return columns


def _images(value: Any) -> list[Any]:
    """Return the images that a value is, or that a result without text has."""
    if is_among(type(value), RESULTS) and not any(text.strip() for text in value.texts):
        return list(value.images[:MAX_IMAGES])
    return [value] if is_image(value) else []


def _image_answer(name: str, value: Any, images: list[Any]) -> list[ContentBlock]:
    from mcp_types import ImageContent

    blocks = [image_of(image) for image in images]
    words = "; ".join(size_of(block) for block in blocks)
    content = [ImageContent(data=block.base64, mime_type=block.mime_type) for block in blocks]
    return [*_text(f"[{name}: {class_name(type(value))}, {words}]"), *content]


def _text(text: str) -> list[ContentBlock]:
    from mcp_types import TextContent

    return [TextContent(text=text)]
