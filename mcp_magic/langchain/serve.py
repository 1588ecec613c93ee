"""LangChain tools as an MCP server: the bridge the other way round."""

from __future__ import annotations

import copy
import functools
import logging
import re
import uuid
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import MCPMagicError, listed
from mcp_magic.langchain.returned import to_error, to_result
from mcp_magic.wording import sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from langchain_core.tools import BaseTool
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
    from mcp_types import CallToolResult, ToolAnnotations

__all__ = ["DuplicateToolError", "InjectedArgumentsError", "UnservableToolError", "serve_langchain"]

_log = logging.getLogger(__name__)

_HINTS = {
    "readonly": "read_only_hint",
    "destructive": "destructive_hint",
    "idempotent": "idempotent_hint",
    "openworld": "open_world_hint",
}
"""A tag, without case, punctuation and "hint" -> the annotation that it sets."""


class UnservableToolError(MCPMagicError, TypeError):
    """What was given is no LangChain tool, or one whose arguments no schema describes."""


class InjectedArgumentsError(MCPMagicError, NotImplementedError):
    """A tool takes arguments that only an agent's graph can supply."""


class DuplicateToolError(MCPMagicError, ValueError):
    """Two tools have the same name."""


def serve_langchain(tools: Iterable[BaseTool] | BaseTool, name: str = "langchain") -> MCPServer[Any]:
    """Return an MCP server that offers LangChain tools, to connect in-process or to `run()` over a transport.

    A tool keeps its name, its description and the schema that a model would see; LangChain validates the
    arguments and honours `handle_tool_error` and `handle_validation_error`. A tool that raises answers with an
    error result that has the message and no traceback (that goes to this module's log, at INFO). Functions
    that are not async run in threads. Annotations come from `metadata["annotations"]` (the protocol's names,
    in snake or camel case) and from tags such as `"read_only"`.

    Args:
        tools: Decorated functions, `StructuredTool`s, instances of `BaseTool` classes; a single one too.
        name: What the server calls itself.

    Raises:
        UnservableToolError: (a TypeError) for what is no tool, and for a tool whose `args_schema` is a dict.
        InjectedArgumentsError: (a NotImplementedError) for a tool with injected arguments.
        DuplicateToolError: (a ValueError) when two tools have the same name.
    """
    from langchain_core.tools import BaseTool
    from mcp.server.mcpserver import MCPServer

    given = [tools] if isinstance(tools, BaseTool) else _listed(tools)
    served = [_served(tool) for tool in given]
    names = [tool.name for tool in served]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DuplicateToolError(f"serve_langchain: more than one tool is named {listed(map(repr, twice))}; rename it.")
    # At the SDK's own level, INFO, every call of an in-process server would write a line into the notebook.
    return MCPServer(name, tools=served, log_level="WARNING")


def _listed(tools: Any) -> list[Any]:
    if isinstance(tools, str) or not hasattr(tools, "__iter__"):
        raise UnservableToolError(
            f"serve_langchain: give a list of LangChain tools, not {_what(tools)}.{_advice(tools)}"
        )
    return list(tools)


def _served(tool: BaseTool) -> Tool:
    """Return the SDK's registration of a tool; raises where a tool cannot be served."""
    from mcp.server.mcpserver.tools import Tool

    _check(tool)
    return Tool(
        fn=_caller(tool),
        name=tool.name,
        title=None,
        description=tool.description,
        parameters=_schema(tool),
        fn_metadata=_as_sent(),
        is_async=True,
        context_kwarg=None,
        annotations=_annotations(tool),
    )


def _check(tool: Any) -> None:
    from langchain_core.tools import BaseTool

    if not isinstance(tool, BaseTool):
        raise UnservableToolError(f"serve_langchain: {_what(tool)} is no LangChain tool.{_advice(tool)}")
    if isinstance(tool.args_schema, dict):
        origin = tool.metadata or {}
        if "server" in origin and "tool" in origin:
            raise UnservableToolError(
                f"serve_langchain: {tool.name!r} is the MCP tool {origin['server']}:{origin['tool']}, "
                "whose args_schema is a dict; connect to its own server instead."
            )
        raise UnservableToolError(
            f"serve_langchain: the args_schema of {tool.name!r} is a dict, against which LangChain validates "
            "nothing; give it a pydantic model."
        )
    injected = _injected(tool)
    if injected:
        raise InjectedArgumentsError(
            f"serve_langchain: {tool.name!r} takes injected arguments ({listed(injected)}), which an MCP client "
            "cannot supply; make a tool without them, for example a closure."
        )


def _injected(tool: BaseTool) -> list[str]:
    """Return the arguments that LangChain or LangGraph would fill in, unseen by the model."""
    from langchain_core.utils.pydantic import get_fields

    whole: Any = tool.get_input_schema()
    seen: Any = tool.tool_call_schema
    hidden = set(get_fields(whole)) - set(get_fields(seen))
    # Where an explicit args_schema leaves them out, only the function's signature has them.
    return sorted(hidden | set(getattr(tool, "_injected_args_keys", ())))


def _schema(tool: BaseTool) -> dict[str, Any]:
    """Return the input schema that a model would see."""
    from langchain_core.tools import Tool as SingleInputTool
    from pydantic.errors import PydanticInvalidForJsonSchema

    if isinstance(tool, SingleInputTool) and tool.args_schema is None:
        return {"type": "object", "properties": tool.args, "required": list(tool.args)}
    seen: Any = tool.tool_call_schema
    fields = getattr(tool.args_schema, "model_fields", {})
    if any(field.validation_alias for field in fields.values()):
        # tool_call_schema forgets aliases, and what it describes would then not validate.
        seen = tool.args_schema
    try:
        # LangChain keeps the schema and hands out the same dict every time.
        return copy.deepcopy(seen.model_json_schema() if hasattr(seen, "model_json_schema") else seen.schema())
    except PydanticInvalidForJsonSchema as error:
        why = str(error).splitlines()[0]
    raise UnservableToolError(sentence(f"serve_langchain: the arguments of {tool.name!r} have no JSON schema", why))


def _annotations(tool: BaseTool) -> ToolAnnotations | None:
    from mcp_types import ToolAnnotations
    from pydantic import ValidationError

    given = (tool.metadata or {}).get("annotations") or {}
    tags = (re.sub(r"[^a-z]|hints?$", "", tag.lower()) for tag in tool.tags or ())
    hints = {_HINTS[tag]: True for tag in tags if tag in _HINTS}
    try:
        said = ToolAnnotations.model_validate(given).model_dump(exclude_none=True)
    except ValidationError:
        said = None
    if said is None:
        raise UnservableToolError(
            f"serve_langchain: metadata['annotations'] of {tool.name!r} are no MCP tool annotations: {given!r}; "
            f"valid are title (text) and {listed(_HINTS.values())} (true or false)."
        )
    return ToolAnnotations(**{**hints, **said}) if hints or said else None


def _caller(tool: BaseTool) -> Callable[[dict[str, Any]], Awaitable[CallToolResult]]:
    # Only a message says whether the tool failed and what its artifact is, and LangChain makes one where the
    # call has an id. The message's content is text, though; without an id the tool's own value comes back.
    handled = tool.handle_tool_error or tool.handle_validation_error
    needs_message = handled or tool.response_format == "content_and_artifact"

    async def call(arguments: dict[str, Any]) -> CallToolResult:
        identity = uuid.uuid4().hex if needs_message else None
        request = {"type": "tool_call", "id": identity, "name": tool.name, "args": arguments}
        try:
            return to_result(await tool.ainvoke(request))
        except Exception as error:
            _log.info("tool %r failed", tool.name, exc_info=True)
            return to_error(error)

    return call


@functools.cache
def _as_sent() -> FuncMetadata:
    """Return what makes the SDK hand arguments on as they came: LangChain is the one that validates."""
    from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata

    class AsSent(FuncMetadata):
        def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
            return {"arguments": arguments_to_validate}

    return AsSent(arg_model=ArgModelBase)


def _what(value: Any) -> str:
    name = getattr(value, "__name__", "")
    kind = "class" if isinstance(value, type) else type(value).__name__
    return f"the {kind} {name}" if name else f"an object of type {kind}"


def _advice(value: Any) -> str:
    if isinstance(value, type):
        return " Make an instance of it."
    return " Decorate it with langchain_core.tools.tool." if callable(value) else ""
