"""MCP tools as LangChain tools."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool

from mcp_magic.errors import ArgumentsError, CassetteError, MCPMagicError, UnknownToolError, did_you_mean
from mcp_magic.langchain.blocking import run_blocking, run_on
from mcp_magic.langchain.calls import MCPToolException, call
from mcp_magic.langchain.content import LIMIT, Content, artifact_of
from mcp_magic.langchain.names import Names
from mcp_magic.langchain.retrying import current
from mcp_magic.langchain.schemas import portable
from mcp_magic.results.badges import app_only

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_types import Tool

    from mcp_magic.core.connection import Connection

__all__ = ["MCPTool", "Options", "Source", "description_of", "hints_of", "langchain_tools", "make_tools"]

Answer = tuple[Content | ToolMessage, dict[str, Any]]
"""What a tool's function returns to LangChain: content or a whole message, and the artifact."""


class MCPTool(StructuredTool):
    """A tool of an MCP server.

    A model's call (`{"type": "tool_call", "id": ..., ...}`, as agents make them) is answered by a `ToolMessage`, with
    `status="error"` if it failed or was refused. With arguments alone (`tool.invoke({"a": 1})`) that raises instead.

    Its `args_schema` is the server's input schema as it is; its `metadata` has `server`, `tool` and `annotations`.
    """

    @property
    def args(self) -> dict[str, Any]:
        """The schemas of the arguments by name."""
        properties = self.args_schema.get("properties") if isinstance(self.args_schema, dict) else None
        return dict(properties) if isinstance(properties, dict) else {}

    @property
    def tool_call_schema(self) -> dict[str, Any]:
        """The schema that LangChain hands to providers, with its references written out."""
        return {**self._portable, "description": self.description}

    @cached_property
    def _portable(self) -> dict[str, Any]:
        return portable(self.args_schema if isinstance(self.args_schema, dict) else {})

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Hand the arguments on as one dict: the keywords `config`, `self` and `run_manager` are LangChain's own.

        With it goes the id of the model's call, to which a failure is the answer, unless `handle_tool_error` makes one.
        """
        if isinstance(tool_input, str):
            raise ArgumentsError(f"{self.name} takes a dict of arguments, not the text {tool_input[:40]!r}")
        return (dict(tool_input), None if self.handle_tool_error else tool_call_id), {}


@dataclass(frozen=True)
class Options:
    """What holds for all calls of some tools.

    Attributes:
        timeout: Seconds a call may take, or None for as long as it takes.
        timeouts: The same for single tools, by `"server:tool"` or a pattern such as `"server:*"`; the first that
            matches holds.
        images: Whether the model takes images in tool messages.
        limit: Characters of a result that it reads.
        asker: Who wants the calls, for consent.
    """

    timeout: float | None = None
    timeouts: Mapping[str, float | None] = field(default_factory=dict)
    images: bool = False
    limit: int = LIMIT
    asker: str = "agent"

    def timeout_of(self, name: str) -> float | None:
        """Return the time-out of the tool `"server:tool"`."""
        if name in self.timeouts:
            return self.timeouts[name]
        return next((seconds for p, seconds in self.timeouts.items() if fnmatchcase(name, p)), self.timeout)

    def check(self, names: Iterable[str]) -> None:
        """Complain about time-outs for tools that are not there.

        Raises:
            UnknownToolError: One matches none of the names.
        """
        known = list(names)
        for pattern in self.timeouts:
            if not any(fnmatchcase(name, pattern) or name == pattern for name in known):
                raise UnknownToolError(f"a time-out for {pattern!r}: no such tool.{did_you_mean(pattern, known)}")


def langchain_tools(*connections: Connection, options: Options | None = None, **settings: Any) -> list[StructuredTool]:
    """Return the tools of open sessions as LangChain tools, without those that are for apps only.

    What the model reads is the content of a message, everything else its artifact; see `content.to_content`. An error
    of a tool, arguments that do not fit, a refusal and a session that failed are messages with `status="error"`; where
    a program calls a tool with arguments alone they raise `MCPToolException`, which has content and artifact. Calls go
    through the host's consent as an agent's: by default the person is asked.

    Args:
        *connections: Sessions; a tool goes on over the next one when a server is reconnected.
        options: What holds for all calls.
        **settings: The fields of `Options`, instead.

    Raises:
        UnknownToolError: A time-out is for a tool that is not there.
    """
    options = options or Options(**settings)
    offered = [(connection, tool) for connection in connections for tool in connection.catalog.cached("tools")]
    return make_tools([(_Held(connection), tool) for connection, tool in offered], options)


class Source(Protocol):
    """Where the sessions for calls come from.

    Attributes:
        name: The server's name.
    """

    name: str

    def session(self) -> AbstractAsyncContextManager[Connection]:
        """Return what is entered for each call."""
        ...

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that calls belong to, None for any."""
        ...


class _Held:
    """A session that stays open."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        yield self._connection

    def loop(self) -> asyncio.AbstractEventLoop | None:
        return current(self._connection).loop


def make_tools(offered: Sequence[tuple[Source, Tool]], options: Options) -> list[StructuredTool]:
    """Return tools as LangChain tools, without those that are for apps only.

    Args:
        offered: Each with the source of its sessions.
        options: What holds for all calls.

    Raises:
        UnknownToolError: A time-out is for a tool that is not there.
    """
    offered = [(source, tool) for source, tool in offered if not app_only(tool)]
    options.check(f"{source.name}:{tool.name}" for source, tool in offered)
    names = Names((source.name, tool.name) for source, tool in offered)
    return [_make(source, tool, names.provider(source.name, tool.name), options) for source, tool in offered]


def _make(source: Source, tool: Tool, name: str, options: Options) -> StructuredTool:
    server = source.name
    timeout = options.timeout_of(f"{server}:{tool.name}")

    async def work(arguments: dict[str, Any], call_id: str | None) -> Answer:
        try:
            async with source.session() as connection:
                return await call(
                    connection,
                    tool.name,
                    arguments,
                    timeout=timeout,
                    images=options.images,
                    limit=options.limit,
                    asker=options.asker,
                )
        except CassetteError:  # nothing that a model could do about
            raise
        except MCPToolException as error:
            failure = error
        except MCPMagicError as error:
            failure = MCPToolException(str(error), artifact_of(server, tool.name))
        if call_id is None:
            raise failure
        return failure.message(name, call_id), failure.artifact

    # What these two raise beside it, a loop that does not run, is a mistake of the program: the model is not told.
    async def awaited(arguments: dict[str, Any], call_id: str | None) -> Answer:
        with _for_langchain(server, tool.name):
            return await run_on(source.loop(), work(arguments, call_id))

    def blocking(arguments: dict[str, Any], call_id: str | None) -> Answer:
        with _for_langchain(server, tool.name):
            return run_blocking(source.loop(), work(arguments, call_id))

    return MCPTool(
        name=name,
        description=description_of(tool),
        args_schema=tool.input_schema,
        func=blocking,
        coroutine=awaited,
        response_format="content_and_artifact",
        metadata={"server": server, "tool": tool.name, "annotations": hints_of(tool)},
    )


@contextmanager
def _for_langchain(server: str, tool: str) -> Iterator[None]:
    """Raise our errors as what LangChain gives to a model."""
    try:
        yield
    except MCPMagicError as error:
        raise MCPToolException(str(error), artifact_of(server, tool)) from None


def description_of(tool: Tool) -> str:
    """Return what a model is told of a tool: its description, else its title, else its name."""
    return tool.description or tool.title or (tool.annotations and tool.annotations.title) or tool.name


def hints_of(tool: Tool) -> dict[str, Any]:
    """Return the five annotation hints by their names in the protocol, None for what the server does not say."""
    from mcp_types import ToolAnnotations

    hints = tool.annotations or ToolAnnotations()
    return {
        "title": hints.title,
        "readOnlyHint": hints.read_only_hint,
        "destructiveHint": hints.destructive_hint,
        "idempotentHint": hints.idempotent_hint,
        "openWorldHint": hints.open_world_hint,
    }
