"""MCP tools as LangChain tools."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool

from mcp_magic._host import Host
from mcp_magic.auth.login import LogIns
from mcp_magic.auth.session import authenticator
from mcp_magic.calls.call import Call
from mcp_magic.calls.caller import Caller
from mcp_magic.config.targets import resolve_target
from mcp_magic.display.document import app_only
from mcp_magic.errors import ArgumentsError, CassetteError, MCPMagicError
from mcp_magic.flight.deadline import check_seconds
from mcp_magic.flight.request import Limits
from mcp_magic.langchain.calls import Breaker, MCPToolException, Reading, call_for_model, current, decided, reaching
from mcp_magic.langchain.content import LIMIT, Content, artifact_of, bounded
from mcp_magic.langchain.functions import described, own_arguments, parameters_of
from mcp_magic.langchain.names import Names
from mcp_magic.langchain.variants import as_listed, variants_by_server
from mcp_magic.loops import run_blocking, run_on
from mcp_magic.schema.patterns import MAX_DEPTH, MAX_NODES
from mcp_magic.schema.repair import repair
from mcp_magic.schema.resolve import REFERENCES, Resolver, merge
from mcp_magic.session.connection import Connection
from mcp_magic.session.services import Services
from mcp_magic.telemetry.spans import MeasuredCall

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

    from mcp_types import Tool

    from mcp_magic.config.specs import Spec
    from mcp_magic.langchain.variants import ToolVariant, Variant


# Input schemas in a form that LangChain passes on correctly.
#
# `convert_to_openai_tool` follows references itself: it loses the siblings of `$ref`, garbles recursive schemas, and
# fails at anchors, at references out of the document and at data with a key `$ref`. One such tool would keep a model
# from all others. So references are resolved here first; schemas without any stay as they are.

MAX_ROUNDS = 2  # how often a recursive schema is expanded; below that only its type stays

_IDENTIFIERS = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions")
_MAPPINGS = ("properties", "patternProperties", "dependentSchemas")
_SEQUENCES = ("allOf", "anyOf", "oneOf", "prefixItems")
_EXTRA = ("additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_SINGLE = (*_EXTRA, "items", "contains", "propertyNames", "not", "if", "then", "else")


def portable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an equivalent input schema that LangChain's providers take, always with `type` and `properties`."""
    valid = repair(schema).schema
    plain = _Inliner(valid).inline(valid, ()) if _mentions_reference(valid) else dict(valid)
    return {"type": "object", "properties": {}, **plain}


def _mentions_reference(value: Any) -> bool:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            if any(key in node for key in REFERENCES):
                return True
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return False


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._resolver = Resolver(root)
        self._nodes = 0
        self._depth = 0

    def inline(self, schema: Any, trail: tuple[str, ...]) -> Any:
        """Return a schema without references; `trail` has the references on the way here."""
        self._nodes += 1
        if not isinstance(schema, Mapping):
            return schema
        if self._nodes > MAX_NODES or self._depth >= MAX_DEPTH:
            return _outline(schema)
        self._depth += 1
        inner = self._inlined(schema, trail)
        self._depth -= 1
        return inner

    def _inlined(self, schema: Mapping[str, Any], trail: tuple[str, ...]) -> Any:
        members = {key: value for key, value in schema.items() if key not in (*REFERENCES, *_IDENTIFIERS)}
        result = {key: self._keyword(key, value, trail) for key, value in members.items()}
        result = {key: value for key, value in result.items() if key in _MAPPINGS or not _mentions_reference(value)}
        for key in REFERENCES:
            ref = schema.get(key)
            if isinstance(ref, str):
                target = self._resolver.find(ref)
                may_expand = trail.count(ref) < MAX_ROUNDS
                part = self.inline(target, (*trail, ref)) if may_expand else _outline(target)
                result = merge(result, part) if isinstance(part, Mapping) else result
        return result

    def _keyword(self, key: str, value: Any, trail: tuple[str, ...]) -> Any:
        if key in _SINGLE and isinstance(value, Mapping):
            return self.inline(value, trail)
        if key in (*_SEQUENCES, "items") and isinstance(value, list):
            return [self.inline(part, trail) for part in value]
        if key in _MAPPINGS and isinstance(value, Mapping):
            # LangChain would take a property named "$ref" for a reference
            return {name: self.inline(part, trail) for name, part in value.items() if name != "$ref"}
        return value


def _outline(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        return {}
    return {key: schema[key] for key in ("type", "title", "description") if isinstance(schema.get(key), str)}


# LangChain tools that call over sessions.

Answer = tuple[Content | ToolMessage, dict[str, Any]]
"""The return value of a tool's function for LangChain: content or a whole message, and the artifact."""


class MCPTool(StructuredTool):
    """A tool of an MCP server.

    A model's call (`{"type": "tool_call", "id": ..., ...}`, as agents make it) returns a `ToolMessage`, with
    `status="error"` if it failed or was refused. With arguments alone (`tool.invoke({"a": 1})`) a failure raises.

    `args_schema` is the server's input schema unchanged; `metadata` has `server`, `tool` and `annotations`.
    """

    @property
    def args(self) -> dict[str, Any]:
        """The schemas of the arguments, by name."""
        properties = self.args_schema.get("properties") if isinstance(self.args_schema, dict) else None
        return dict(properties) if isinstance(properties, dict) else {}

    @property
    def tool_call_schema(self) -> dict[str, Any]:
        """The schema that LangChain passes to providers, in the form that they accept, with references expanded."""
        return {**self._parameters[0], "description": self.description}

    @property
    def _parameters(self) -> tuple[dict[str, Any], dict[str, str]]:
        return parameters_of(portable(self.args_schema if isinstance(self.args_schema, dict) else {}))

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Pass the arguments on as one dict, as LangChain takes some keywords, with the id for a failure."""
        if isinstance(tool_input, str):
            raise ArgumentsError(f"{self.name} takes a dict of arguments, not the text {tool_input[:40]!r}")
        arguments = own_arguments(tool_input, self._parameters[1])
        return (arguments, None if self.handle_tool_error else tool_call_id), {}

    @property
    def _arun(self) -> Callable[..., Awaitable[Any]] | None:  # type: ignore[override]
        """The function that calls. At each call LangChain looks for a signature, which is made anew for a method."""
        return self.coroutine


@dataclass(frozen=True)
class Options:
    """Options for all calls of some tools."""

    timeout: float | None = None  # seconds for a call; None for no limit
    images: bool = False  # whether the model takes images in tool messages
    limit: int = LIMIT  # characters of a result that the model reads
    asker: str = "agent"  # the caller, for consent
    surfaces: Collection[Variant] = ()  # what a model reads of some servers in place of what they list

    def __post_init__(self) -> None:
        check_seconds("langchain_tools", timeout=self.timeout)


def langchain_tools(*connections: Connection, options: Options | None = None, **settings: Any) -> list[StructuredTool]:
    """Return the tools of open sessions as LangChain tools, without tools for apps only.

    The model reads the content of a message; everything else is in its artifact (see `content.to_content`). A tool's
    error, arguments that do not fit, a refusal and a failed session become messages with `status="error"`. If a program
    calls a tool with arguments alone, they raise `MCPToolException`, which has content and artifact. Calls need the
    host's consent like an agent's. `settings` are the fields of `Options`, in place of `options`.
    """
    options = options or Options(**settings)
    offered = [(connection, tool) for connection in connections for tool in connection.catalog.cached("tools")]
    return make_tools([(_Held(connection), tool) for connection, tool in offered], options)


# A source gives the session for a call, and the event loop of the calls (None for any).


class _Held:
    """A source with one session that stays open."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._connection = connection

    def session(self) -> AbstractAsyncContextManager[Connection]:
        return nullcontext(self._connection)

    def loop(self) -> asyncio.AbstractEventLoop | None:
        connection = current(self._connection)
        connection.supervisor.check_process()
        return connection.loop


def make_tools(offered: Sequence[tuple[_Held | _Source, Tool]], options: Options) -> list[StructuredTool]:
    """Return tools as LangChain tools, without tools for apps only."""
    variants = variants_by_server(options.surfaces)
    read: list[tuple[_Held | _Source, ToolVariant]] = []
    for source in {id(source): source for source, _ in offered}.values():
        tools = [tool for owner, tool in offered if owner is source and not app_only(tool)]
        variant = variants.get(source.name)
        read += [(source, text) for text in (variant.read(tools) if variant is not None else as_listed(tools))]
    names = Names((source.name, text.shown.name) for source, text in read)
    return [_make(source, text, names.provider(source.name, text.shown.name), options) for source, text in read]


def _make(source: _Held | _Source, read: ToolVariant, name: str, options: Options) -> StructuredTool:
    server, (tool, shown, difference) = source.name, read

    async def work(arguments: dict[str, Any], call_id: str | None) -> Answer:
        try:
            async with source.session() as connection:
                limits = Limits(options.timeout)
                call = Call(
                    connection,
                    tool.name,
                    arguments,
                    asker=options.asker,
                    limits=limits,
                    variant=difference,
                    decision=decided.get(),
                )
                return await call_for_model(call, reading=Reading(options.images, options.limit))
        except CassetteError:  # a model cannot fix it
            raise
        except MCPToolException as error:
            failure = error
        except MCPMagicError as error:
            failure = _for_langchain(error, server, tool.name)
        if call_id is None:
            raise failure
        return failure.message(name, call_id), failure.artifact

    # If the loop does not run, the next two raise: that is a mistake of the program, and the model does not read it.
    async def awaited(arguments: dict[str, Any], call_id: str | None) -> Answer:
        try:
            return await run_on(source.loop(), work(arguments, call_id))
        except MCPMagicError as error:
            raise _for_langchain(error, server, tool.name) from None

    def blocking(arguments: dict[str, Any], call_id: str | None) -> Answer:
        try:
            return run_blocking(source.loop(), work(arguments, call_id))
        except MCPMagicError as error:
            raise _for_langchain(error, server, tool.name) from None

    awaited.__annotations__.clear()  # LangChain evaluates them at each call
    vars(awaited)["__signature__"] = signature(awaited)
    return MCPTool(
        name=name,
        description=described(description_of(shown), shown.input_schema),
        args_schema=shown.input_schema,
        func=blocking,
        coroutine=awaited,
        response_format="content_and_artifact",
        metadata={"server": server, "tool": tool.name, "annotations": hints_of(tool)},
    )


def _for_langchain(error: MCPMagicError, server: str, tool: str) -> MCPToolException:
    """Return this package's error as an exception that LangChain passes to a model."""
    return MCPToolException(bounded(error.whole), artifact_of(server, tool))


def description_of(tool: Tool) -> str:
    """Return a tool's description for a model: its description, else its title, else its name."""
    return tool.description or tool.title or (tool.annotations and tool.annotations.title) or tool.name


def hints_of(tool: Tool) -> dict[str, Any]:
    """Return the five annotation hints by their protocol names; None for hints that the server does not give."""
    from mcp_types import ToolAnnotations

    hints = tool.annotations or ToolAnnotations()
    return {
        "title": hints.title,
        "readOnlyHint": hints.read_only_hint,
        "destructiveHint": hints.destructive_hint,
        "idempotentHint": hints.idempotent_hint,
        "openWorldHint": hints.open_world_hint,
    }


# LangChain tools of a server that need no open session.


async def spec_tools(
    target: Any, *, name: str | None = None, host: Host | None = None, options: Options | None = None, **connecting: Any
) -> list[StructuredTool]:
    """Return the tools of a server as LangChain tools that open a session for each call and close it again.

    The list of tools is read once, now. While the host has an open session to the same server, calls use that session.
    Without a host, each call opens its own, and calls that need an answer of the user are denied.
    """
    spec, default = resolve_target(target, **connecting)
    source = _Source(spec, name or default, host if host is not None else Host())
    tools = await source.list_tools()
    return make_tools([(source, tool) for tool in tools], options or Options())


class _Source:
    def __init__(self, spec: Spec, name: str, host: Host) -> None:
        self.spec = spec
        self.name = name
        self._host = host
        self._specs = [spec]
        self._breaker = Breaker(name)

    async def list_tools(self) -> tuple[Tool, ...]:
        """List the tools, and remember the spec that reached the server."""
        open_ = self._open()
        if open_ is not None:
            return await open_.listing("tools")
        finder = Host(self._host.consent)  # it retries an old URL with the SSE transport
        try:
            connection = await finder.connect_spec(self.spec, self.name)
            self._specs.append(connection.spec)
            return await connection.listing("tools")
        finally:
            await finder.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        """Yield the host's open session, or else a new one for this call."""
        connection = self._open()
        if connection is not None:
            yield connection
            return
        connection = await reaching(self._connect, self._breaker)
        try:
            yield connection
        finally:
            await connection.close()

    async def _connect(self) -> Connection:
        host = self._host
        services = Services(
            caller=Caller(host.consent, observers=lambda call, others: (MeasuredCall(),)),
            taps=host.services.taps,
            questions=host.services.questions,
            max_questions=host.services.max_questions,
            authenticate=authenticator(LogIns()),
            open_transport=host.services.open_transport,
        )
        connection = Connection(self.name, self._specs[-1], services)
        await connection.open()
        return connection

    def loop(self) -> asyncio.AbstractEventLoop | None:
        connection = self._open()
        if connection is None:
            return None
        connection.supervisor.check_process()
        return connection.loop

    def _open(self) -> Connection | None:
        return next((c for c in self._host.find() if c.spec in self._specs), None)
