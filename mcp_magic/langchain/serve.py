"""Serves LangChain tools as an MCP server."""

from __future__ import annotations

import copy
import functools
import json
import logging
import math
import uuid
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names, repeated_names, sentence
from mcp_magic.errors import ArgumentsError, MCPMagicError, ToolError
from mcp_magic.langchain.content import mcp_block, result_of
from mcp_magic.protocol import leaf
from mcp_magic.results.results import ToolResult
from mcp_magic.schema.convert import to_json_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
    from mcp_types import CallToolResult, ContentBlock, ToolAnnotations


# The value or error of a LangChain tool, as the result of an MCP tool.

_OWN_KEYS = {"server", "tool", "is_error", "content", "structured_content"}
"""Keys of the artifact in messages of this package's own tools (`langchain/content.py`)."""

_NOT_JSON: Any = object()


def to_result(returned: Any) -> CallToolResult:
    """Return a tool's value as an MCP result; ToolError for a command to a LangGraph graph, as there is none."""
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.tool import ToolOutputMixin

    if isinstance(returned, BaseMessage):
        return _of_message(returned)
    if any(isinstance(item, ToolOutputMixin) for item in (returned if isinstance(returned, list) else [returned])):
        kind = type(returned).__name__
        raise ToolError(f"the tool answered with a {kind} for a LangGraph graph, which an MCP client cannot carry out.")
    return _of_value(returned)


def to_error(error: Exception) -> CallToolResult:
    """Return an exception as an MCP result: its message without traceback, or a failed MCP tool's own result."""
    from langchain_core.messages import ToolMessage
    from mcp_types import CallToolResult, TextContent

    cause = leaf(error)
    artifact = getattr(cause, "artifact", None)
    if _is_ours(artifact):
        content: Any = getattr(cause, "content", str(cause))
        return _of_message(ToolMessage(content, artifact=artifact, status="error", tool_call_id=""))
    return CallToolResult(content=[TextContent(text=_reason(cause))], is_error=True)


def _reason(error: BaseException) -> str:
    from langchain_core.tools import ToolException
    from pydantic import ValidationError

    if not str(error) and error.__cause__ is not None:
        error = error.__cause__  # LangChain's replacement of a StopIteration
    if isinstance(error, ValidationError):
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}".removeprefix(": ") for problem in error.errors()
        ]
        return f"{error.title} cannot take these values: {'; '.join(problems)}"
    if isinstance(error, ToolException | MCPMagicError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _is_ours(artifact: Any) -> bool:
    return isinstance(artifact, dict) and artifact.keys() >= _OWN_KEYS


def _of_message(message: BaseMessage) -> CallToolResult:
    from langchain_core.messages import ToolMessage

    artifact = getattr(message, "artifact", None)
    is_error = getattr(message, "status", "success") == "error"
    raw = _raw(artifact)
    if isinstance(message, ToolMessage) and _is_ours(artifact):
        raw = result_of(message).raw
    if raw is not None:
        return raw.model_copy(update={"is_error": raw.is_error or is_error})
    result = _of_value(message.content)
    structured = None if artifact is None else _boxed(_plain(artifact))
    return result.model_copy(update={"structured_content": structured, "is_error": is_error})


def _of_value(value: Any) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    raw = _raw(value)
    if raw is not None:
        return raw
    blocks = [] if value is None else _blocks(value)
    if blocks is not None:
        return CallToolResult(content=blocks)
    plain = _plain(value)
    if plain is _NOT_JSON or isinstance(plain, str):
        return CallToolResult(content=[TextContent(text=_text(value) if plain is _NOT_JSON else plain)])
    text = json.dumps(plain, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=_boxed(plain))


def _raw(value: Any) -> CallToolResult | None:
    from mcp_types import CallToolResult

    raw = value.raw if isinstance(value, ToolResult) else value
    return raw if isinstance(raw, CallToolResult) else None


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return _NOT_JSON  # in a list or table NaN becomes null; alone it is the tool's answer
    try:
        return to_json_value(value)
    except ArgumentsError:
        return _NOT_JSON


def _boxed(plain: Any) -> dict[str, Any] | None:
    """Return a JSON value as structured content: an object, since protocol versions before 2026-07-28 require one."""
    if plain is _NOT_JSON:
        return None
    return plain if isinstance(plain, dict) else {"result": plain}


def _text(value: Any) -> str:
    """Return the text that LangChain would show a model for a value that is not JSON."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _blocks(value: Any) -> list[ContentBlock] | None:
    if isinstance(value, dict):
        return None
    items = value if isinstance(value, list | tuple) else [value]
    blocks = [_block(item, number) for number, item in enumerate(items, 1)]
    known_blocks = [block for block in blocks if block is not None]
    return known_blocks if known_blocks and len(known_blocks) == len(blocks) else None


def _block(item: Any, number: int) -> ContentBlock | None:
    from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

    if isinstance(item, TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource):
        return item
    if type(item) is str:
        return TextContent(text=item)
    if isinstance(item, dict) and isinstance(item.get("type"), str):
        return mcp_block(item, number)
    return None


# The server, and the checks of its tools.

_log = logging.getLogger(__name__)


class UnservableToolError(MCPMagicError, TypeError):
    """An object cannot be served: it is no LangChain tool, its name is taken, or a client cannot give its arguments."""


def serve_langchain(tools: Iterable[BaseTool] | BaseTool, name: str = "langchain") -> MCPServer[Any]:
    """Return an MCP server that offers LangChain tools, to connect in-process or to `run()` over a transport.

    A tool keeps its name, description and the schema that a model would see. LangChain validates the arguments and
    honours `handle_tool_error` and `handle_validation_error`. If a tool raises, the answer is an error result with
    the message and without the traceback, which goes to this module's log at INFO. Synchronous functions run in
    threads. Annotations come from `metadata["annotations"]` (the protocol's names, in snake or camel case).

    Args:
        tools: Decorated functions, `StructuredTool`s, instances of `BaseTool` classes; or a single one.
        name: The server's name.

    Raises:
        UnservableToolError: (a TypeError) An object is not a tool, a tool has injected arguments or a dict as
            `args_schema`, or two tools have the same name.
    """
    from langchain_core.tools import BaseTool
    from mcp.server.mcpserver import MCPServer

    single = isinstance(tools, BaseTool | str) or not hasattr(tools, "__iter__")
    objects: Any = [tools] if single else tools
    served = [_served(tool) for tool in objects]
    if twice := sorted(repeated_names(tool.name for tool in served)):
        raise UnservableToolError(
            f"serve_langchain: more than one tool is named {join_names(map(repr, twice))}; rename it."
        )
    # At the SDK's default level, INFO, every call of an in-process server would write a line into the notebook.
    return MCPServer(name, tools=served, log_level="WARNING")


def _served(tool: BaseTool) -> Tool:
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
        label = getattr(tool, "__name__", f"an object of type {type(tool).__name__}")
        advice = "; decorate it with langchain_core.tools.tool." if callable(tool) else "."
        advice = "; make an instance of it." if isinstance(tool, type) else advice
        raise UnservableToolError(f"serve_langchain: {label} is not a LangChain tool{advice}")
    if isinstance(tool.args_schema, dict):
        raise UnservableToolError(
            f"serve_langchain: the args_schema of {tool.name!r} is a dict, against which LangChain validates nothing; "
            "give it a pydantic model, or connect to the MCP server that it comes from."
        )
    if injected := _injected(tool):
        raise UnservableToolError(
            f"serve_langchain: {tool.name!r} takes injected arguments ({join_names(injected)}), which an MCP client "
            "cannot supply; make a tool without them, for example a closure."
        )


def _injected(tool: BaseTool) -> list[str]:
    from langchain_core.utils.pydantic import get_fields

    full_schema: Any = tool.get_input_schema()
    model_schema: Any = tool.tool_call_schema
    hidden = set(get_fields(full_schema)) - set(get_fields(model_schema))
    # If an explicit args_schema omits them, only the function's signature has them.
    return sorted(hidden | set(getattr(tool, "_injected_args_keys", ())))


def _schema(tool: BaseTool) -> dict[str, Any]:
    from langchain_core.tools import Tool as SingleInputTool
    from pydantic.errors import PydanticInvalidForJsonSchema

    if isinstance(tool, SingleInputTool) and tool.args_schema is None:
        return {"type": "object", "properties": tool.args, "required": list(tool.args)}
    schema: Any = tool.tool_call_schema
    fields = getattr(tool.args_schema, "model_fields", {})
    if any(field.validation_alias for field in fields.values()):
        # tool_call_schema drops aliases, so arguments that match it would not validate.
        schema = tool.args_schema
    try:
        # LangChain caches the schema and returns the same dict every time, so it is copied.
        return copy.deepcopy(schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema())
    except PydanticInvalidForJsonSchema as error:
        why = str(error).splitlines()[0]
    raise UnservableToolError(sentence(f"serve_langchain: the arguments of {tool.name!r} have no JSON schema", why))


def _annotations(tool: BaseTool) -> ToolAnnotations | None:
    from mcp_types import ToolAnnotations
    from pydantic import ValidationError

    values = (tool.metadata or {}).get("annotations")
    try:
        return ToolAnnotations.model_validate(values) if values else None
    except ValidationError:
        valid = join_names(name for name in ToolAnnotations.model_fields if name != "title")
        problem = f"{values!r}; valid are title (text) and {valid} (true or false)."
    raise UnservableToolError(
        f"serve_langchain: metadata['annotations'] of {tool.name!r} are not MCP tool annotations: {problem}"
    )


def _caller(tool: BaseTool) -> Callable[[dict[str, Any]], Awaitable[CallToolResult]]:
    # Only a message tells whether the tool failed and holds its artifact, and LangChain makes one only for a call with
    # an id. But a message's content is text; without an id the tool's own value comes back.
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
    """Return metadata that makes the SDK pass arguments on unchanged, since LangChain validates them."""
    from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata

    class AsSent(FuncMetadata):
        def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
            return {"arguments": arguments_to_validate}

    return AsSent(arg_model=ArgModelBase)
