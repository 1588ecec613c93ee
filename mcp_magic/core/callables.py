"""A server's tools as awaitable Python functions, with the signature that their schema describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.errors import UnknownToolError, did_you_mean, listed
from mcp_magic.wording import clean

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator

    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.results import ToolResult

__all__ = ["ToolFunction", "ToolNamespace"]


class ToolFunction:
    """One tool as an async function; Tab completes its arguments and Shift-Tab shows its documentation."""

    def __init__(self, connection: Connection, tool: Tool) -> None:
        self._connection = connection
        self.definition = tool
        self.__name__ = self.__qualname__ = tool.name
        self.__module__ = f"mcp_magic.{connection.name}"
        self.__doc__ = schema.make_docstring(
            tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema
        )
        self.__signature__: inspect.Signature = schema.make_signature(tool.input_schema)
        self.__annotations__ = {name: parameter.annotation for name, parameter in self.__signature__.parameters.items()}

    async def __call__(self, /, *args: Any, **kwargs: Any) -> ToolResult:
        """Call the tool; its own documentation says with what."""
        arguments = schema.bind_arguments(self.__signature__, self.definition.input_schema, args, kwargs)
        return await self._connection.call(self.definition.name, arguments)

    def __repr__(self) -> str:
        return clean(f"<tool {self._connection.name}:{self.definition.name}{self.__signature__}>").replace("\n", "\\n")


class ToolNamespace:
    """The tools of one server: `tools.add(a=1, b=2)`, `tools["any name"]`, `len(tools)`, iteration over names.

    As an attribute, a name that Python cannot write has underscores: `tools.get_sum` is `tools["get-sum"]`, unless
    another tool is called so or could be.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._functions: tuple[Any, dict[str, ToolFunction]] = ((), {})

    def __getattr__(self, name: str) -> ToolFunction:
        if name.startswith("_"):  # copy, pickle and IPython's displays ask for names of their own
            raise AttributeError(name)
        try:
            return self[name if name in self else self._attributes().get(name, name)]
        except UnknownToolError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name: str) -> ToolFunction:
        definitions, made = self._known()
        if name not in definitions:
            near = did_you_mean(name, definitions)
            message = f"{self._connection.name} has no tool {name!r}.{near} It has: {listed(definitions)}"
            raise UnknownToolError(message)
        if name not in made:
            made[name] = ToolFunction(self._connection, definitions[name])
        return made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known()[0])

    def __len__(self) -> int:
        return len(self._known()[0])

    def __contains__(self, name: object) -> bool:
        return name in self._known()[0]

    def __dir__(self) -> list[str]:
        return list(self._attributes())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<tools of {self._connection.name!r}: {listed(self)}>"

    def _attributes(self) -> dict[str, str]:
        """The tools by the names that Python can write, as far as each means one tool."""
        tools: dict[str, list[str]] = {}
        for name in self:
            tools.setdefault(schema.identifier(name), []).append(name)
        unique = {written: names[0] for written, names in tools.items() if len(names) == 1 or written in names}
        return {written: written if written in self else name for written, name in unique.items() if written[0] != "_"}

    def _known(self) -> tuple[dict[str, Tool], dict[str, ToolFunction]]:
        definitions = self._connection.tool_index()
        if self._functions[0] is not definitions:
            self._functions = (definitions, {})
        return definitions, self._functions[1]
