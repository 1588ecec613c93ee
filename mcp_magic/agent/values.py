"""Values of the notebook that the person names for an agent: `--with $df`, or `values={"df": df}`.

The model reads them with the tools that outside agents have (`values/tools.py`), and puts them into arguments by
reference (`{"$value": "df"}`), so rows do not go through it. Naming a value is the permission to read it; a call that
gets one is asked about as ever. Threads store the references, and the rows only that the model has read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.builtin import BuiltinCall, BuiltinTool
from mcp_magic.config.masking import Masker
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import to_content
from mcp_magic.results.results import ToolResult
from mcp_magic.values.plain import Writer
from mcp_magic.values.reading import Reader
from mcp_magic.values.references import MAX_BYTES, MAX_VALUES
from mcp_magic.values.shared import why_never
from mcp_magic.values.tables import as_json
from mcp_magic.values.tools import ValueTool, value_tools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic.langchain.content import Content

SUMMARY_CHARACTERS = 2_000  # characters that a model is told of the values at each turn


class NamedValues:
    """The values that an agent may read, by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if reason := why_never(value):
                raise ArgumentsError(f"{name!r} is {reason}; an agent reads only data")
        self._values = dict(values)

    def names(self) -> Sequence[str]:
        """Return their names."""
        return tuple(self._values)

    def get(self, name: str) -> Any:
        """Return a value; ArgumentsError if there is none of this name."""
        if name not in self._values:
            near = did_you_mean(name, self._values)
            raise ArgumentsError(
                f"the person has named no value {one_line(name, 60)!r}.{near} Named: {join_names(self._values)}"
            )
        return self._values[name]

    peek = get

    def as_variables(self) -> dict[str, Any]:
        """Return them as JSON, for programs in a sandbox. Raises ArgumentsError for what cannot be written so."""
        variables = {}
        for name, value in self._values.items():
            try:
                variables[name] = as_json(value, writer=Writer(nodes=MAX_VALUES, characters=MAX_BYTES, strict=True))
            except ArgumentsError as error:
                raise ArgumentsError(f"{name}: {error}") from None
        return variables

    def prompt(self, *, in_programs: bool = False) -> str:
        """Return what the model is told of them at each turn."""
        reader = Reader(SUMMARY_CHARACTERS, Masker(()).text)
        lines = [f"{name}: {reader.summary(value)}" for name, value in self._values.items()]
        text = "\n".join(lines)
        if len(text) > SUMMARY_CHARACTERS:
            text = f"{text[:SUMMARY_CHARACTERS]}\n[list_values has all {len(lines)}]"
        if in_programs:
            return f"Your programs have these values of the notebook as variables, tables as lists of dicts:\n{text}"
        return (
            "The person gives you these values of the notebook:\n"
            f"{text}\n"
            'In the arguments of a tool, {"$value": NAME} in place of a list, an object or a text passes a value on as '
            'a whole, without your reading it; "columns": [...], "rows": [0, 100] and "query" beside it choose a part.'
        )


def value_readers(values: NamedValues, limit: int, *, images: bool) -> list[BuiltinTool]:
    """Return the tools that read values."""
    return [_reader(tool, values, limit, images) for tool in value_tools(limit, Masker(()).text)]


def _reader(tool: ValueTool, values: NamedValues, limit: int, images: bool) -> BuiltinTool:
    async def answer(
        arguments: Mapping[str, Any], messages: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        from mcp_types import CallToolResult

        result = CallToolResult(content=tool.answer(arguments, values))
        content, _ = to_content(ToolResult(result, server="", tool=tool.name), images=images, limit=2 * limit)
        return content, {}

    return BuiltinTool(tool.function, answer)
