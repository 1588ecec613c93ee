"""An in-process MCP server made of the functions of a cell."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import CommandError
from mcp_magic.results.safe import one_line
from mcp_magic.serving.binary import as_json
from mcp_magic.serving.docstrings import read_docstring
from mcp_magic.serving.rows import giving_rows, rows_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CellServer", "Marks", "make_server"]

_HINTS = ("read_only", "destructive", "idempotent", "open_world")


@dataclass
class Marks:
    """What the decorators of a cell say: `@tool`, `@resource`, `@prompt`.

    A decorated function stays the function that it is.

    Attributes:
        tools: Function and options.
        resources: Function, URI and options.
        prompts: Function and options.
    """

    tools: list[tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=list)
    resources: list[tuple[Callable[..., Any], str, dict[str, Any]]] = field(default_factory=list)
    prompts: list[tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=list)

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Say more of a tool than its function does: `@tool(title=..., read_only=True)`."""
        return self._marked(self.tools, function, options)

    def prompt(self, function: Any = None, /, **options: Any) -> Any:
        """Make a function a prompt instead of a tool."""
        return self._marked(self.prompts, function, options)

    def resource(self, uri: str, /, **options: Any) -> Any:
        """Make a function a resource, or a template of resources where the URI has `{names}`."""
        if not isinstance(uri, str):
            raise CommandError('%%mcp_server: @resource needs a URI, such as @resource("data://table").')

        def mark(function: Any) -> Any:
            self.resources.append((function, uri, options))
            return function

        return mark

    @property
    def names(self) -> dict[str, Any]:
        """The decorators by name."""
        return {"tool": self.tool, "resource": self.resource, "prompt": self.prompt}

    @staticmethod
    def _marked(where: list[Any], function: Any, options: dict[str, Any]) -> Any:
        def mark(function: Any) -> Any:
            where.append((function, options))
            return function

        return mark if function is None else mark(function)


class CellServer(MCPServer[Any]):
    """A server that a cell has made.

    Attributes:
        source: The code of its cell.
        marks: What the decorators in it said.
    """

    source: str
    marks: Marks

    def add_function(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        """Offer a function as a tool: its docstring describes it and its arguments."""
        from mcp_types import ToolAnnotations

        given = dict(options)
        hints = {f"{hint}_hint": given.pop(hint) for hint in _HINTS if hint in given}
        if hints:
            given["annotations"] = ToolAnnotations(**hints)
        described, arguments = read_docstring(inspect.getdoc(function) or "")
        given.setdefault("description", described)
        with as_json(function):
            self.add_tool(function, **given)
        tool = self._tool_manager.get_tool(given.get("name") or function.__name__)
        if tool is not None and _may_give_tables(function):
            tool.fn = giving_rows(function)
        properties = tool.parameters.get("properties", {}) if tool is not None else {}
        for name, text in arguments.items():
            if isinstance(properties.get(name), dict):
                properties[name].setdefault("description", text)


def make_server(
    name: str,
    functions: Sequence[Callable[..., Any]],
    marks: Marks,
    *,
    source: str = "",
    instructions: str | None = None,
) -> CellServer:
    """Return a server of functions.

    Args:
        name: What it calls itself.
        functions: Those of the cell; they become tools, except where a decorator says something else.
        marks: What the decorators said.
        source: The code of the cell, for `%mcp export`.
        instructions: What it tells models about itself.

    Raises:
        CommandError: A function that cannot be offered, and why.
    """
    # At the SDK's own level every call would write a line into the notebook.
    server = CellServer(name, instructions=instructions, log_level="CRITICAL")
    server.source, server.marks = source, marks
    marked = {id(function): options for function, options in marks.tools}
    elsewhere = {id(function) for function, *_ in [*marks.resources, *marks.prompts]}
    for function in [*functions, *(f for f, _ in marks.tools if f not in functions)]:
        if id(function) not in elsewhere:
            _offer(function, server.add_function, function, marked.get(id(function), {}))
    for function, uri, options in marks.resources:
        _offer(function, _add_resource, server, function, uri, options)
    for function, options in marks.prompts:
        _offer(function, _add_prompt, server, function, options)
    return server


def _offer(function: Callable[..., Any], add: Callable[..., Any], *arguments: Any) -> None:
    try:
        add(*arguments)
    except Exception as error:  # the SDK, pydantic and typing have no errors in common
        reason = one_line(str(error), 300) or type(error).__name__
    else:
        return
    called = getattr(function, "__name__", repr(function))
    advice = "" if called.startswith("_") else "; `_` in front of its name makes it a helper."
    raise CommandError(f"%%mcp_server: {called}{_signature(function)} cannot be offered: {reason}{advice}")


def _signature(function: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "()"


def _may_give_tables(function: Callable[..., Any]) -> bool:
    """Whether a function returns DataFrames, or does not say what it returns."""
    try:
        kind = inspect.signature(function, eval_str=True).return_annotation
    except Exception:  # the SDK has said what is wrong with it
        return False
    return kind in (inspect.Signature.empty, Any, object) or rows_type(kind) is not kind


def _add_resource(server: CellServer, function: Callable[..., Any], uri: str, options: Mapping[str, Any]) -> None:
    server.resource(uri, **options)(function)


def _add_prompt(server: CellServer, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    server.prompt(**options)(function)
