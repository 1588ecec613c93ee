"""The server of the kernel: it offers outside agents what the connected sessions offer, and the values that are shared.

It speaks both protocol eras. HTTP is served on a loop of its own in another thread, so that listings are answered while
the kernel runs a cell; what needs the sessions goes to the kernel's loop, and waits there (`kernel.py`).

Each call of a session's tool goes the way of all calls (`calls/caller.py`), as `outside NAME`: consent is asked, and
the audit has it. Its result goes to the client as the server gave it. Reading a resource is asked about as
`SERVER:resources/read`, as for MCP Apps: it is data of the person's session, and its URI may hold anything. Prompts
and completions are not, because a person chooses them in the client, and their texts are made for that.

The URIs of resources stay as they are, because results link to them; if several servers list the same one, or it looks
like that already, it is `SERVER+URI` for each of them (`ui://SERVER+...` for a view), also in the definitions of tools
that have such a view.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ResourceTemplateReference,
    SetLevelRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_magic._sdk import connection_of
from mcp_magic._text import did_you_mean
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import Request
from mcp_magic.consent.values import unchanged
from mcp_magic.display.text import one_line
from mcp_magic.errors import (
    ArgumentsError,
    DeniedError,
    MCPMagicError,
    ProtocolError,
    SessionError,
    UnknownResourceError,
)
from mcp_magic.loopback import CLIENT_HEADER
from mcp_magic.loops import soon_on
from mcp_magic.outside.changes import Changes
from mcp_magic.outside.clients import Clients
from mcp_magic.outside.edits import edited_names, with_edit
from mcp_magic.outside.exchange import LEVEL, Exchange, OpenQuestions, Relay
from mcp_magic.outside.kernel import PATIENCE_SECONDS, Kernel
from mcp_magic.outside.listing import METHODS, Listings, with_handles, with_references
from mcp_magic.outside.logs import passed_on
from mcp_magic.outside.masking import SessionSecrets
from mcp_magic.outside.offer import Offer
from mcp_magic.outside.put import PutValue
from mcp_magic.outside.questions import client_answers
from mcp_magic.outside.runtime import KERNEL
from mcp_magic.outside.sessions import MAX_SESSIONS, BoundedSessions
from mcp_magic.outside.spill import spilled, spilled_prompt, spilled_resource
from mcp_magic.results.results import META as CRASH
from mcp_magic.values.references import check_others, misfit, resolve_references
from mcp_magic.values.shared import SharedValues
from mcp_magic.values.tools import ValueTool, value_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp_types import ServerCapabilities

    from mcp_magic._host import Host
    from mcp_magic.outside.clients import Client
    from mcp_magic.outside.offer import Item
    from mcp_magic.session.connection import Connection
    from mcp_magic.values.shared import ClientValues

    Context = ServerRequestContext[Any, Any]
    Work = Callable[[Exchange, Client], Coroutine[Any, Any, Any]]

T = TypeVar("T")

logger = logging.getLogger(__name__)

NAME, TITLE = KERNEL

INSTRUCTIONS = """\
This is a running Jupyter kernel; a person works with it in a notebook.
- list_values names the variables that the person shares; describe_value and read_value read them. Others cannot be \
read: ask the person to share one with `%mcp share NAME`.
- SERVER__TOOL is a tool of a server that is connected there. Pass data by reference instead of reading it: in its \
arguments, also for a text, {"$value": "df"} stands for a value, and {"$value": "df", "columns": ["a"], "rows": \
[0, 100], "query": "a > 1"} for a part of it. A large answer stays in the kernel: you get its head and a handle, \
such as result_3, which can be read and passed on likewise.
- put_value makes a variable of the notebook.
- The person is asked about calls in the notebook, so an answer may take a while, or be no. While the kernel runs a \
cell, calls wait."""

BROKEN = "the kernel's server failed; what was called may have run. The log of the kernel says why."


MAX_COMPLETION = 1_000  # characters of a completion; longer ones are left out

DENIED = -32000  # the JSON-RPC code of a refusal, where there is no result that could say it

READING = Tool(
    name="resources/read",
    description="Reads a resource of the server.",
    input_schema={"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
    annotations=ToolAnnotations(read_only_hint=True),
)
"""What consent is asked about when a resource is read."""


class OwnTool(Protocol):
    """A tool of the kernel itself."""

    @property
    def tool(self) -> Tool:
        """Its definition."""

    async def call(self, arguments: dict[str, Any], client: Client, values: ClientValues) -> CallToolResult:
        """Answer a call, on the kernel's loop; errors of this package become results that say so."""


class Reading:
    """A tool that reads values; each call is in the audit."""

    def __init__(self, tool: ValueTool, host: Host, hide: Callable[[str], str]) -> None:
        self.tool = tool.tool
        self._hide = hide
        self._answer = tool.answer
        self._host = host

    async def call(self, arguments: dict[str, Any], client: Client, values: ClientValues) -> CallToolResult:
        """Answer a read, and note it, or why there is no answer."""
        note = partial(self._host.consent.note_read, client.asker, self.tool.name, arguments)
        try:
            content = self._answer(arguments, values)
        except MCPMagicError as error:
            note(self._hide(str(error)))  # it names columns, which may be secrets
            raise
        note()
        return CallToolResult(content=content)


class _LowLevel(Server[Any]):
    """The SDK's server, which announces changes of all its listings, and none of the resources themselves."""

    def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(True, True, True), *args[1:], **options)

    def get_capabilities(self, *args: Any, **options: Any) -> ServerCapabilities:
        capabilities = super().get_capabilities(*args, **options)
        assert capabilities.resources is not None
        capabilities.resources.subscribe = False
        return capabilities


class KernelServer:
    """An MCP server of this kernel, for the programs of outside agents.

    Args:
        host: The host whose sessions it offers.
        values: The variables that may be read; None for none.
        loop: The loop of the kernel; None for that of the host, or before it has one, for the one that runs now.
        patience: Seconds that a request waits for a kernel that runs a cell.
        own: Further tools of the kernel.

    Attributes:
        server: The low-level server of the SDK, which any transport can serve.
        clients: The clients that are connected.
    """

    def __init__(
        self,
        host: Host,
        values: SharedValues | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        patience: float = PATIENCE_SECONDS,
        own: Sequence[OwnTool] = (),
    ) -> None:
        from mcp_magic import __version__

        self._host = host
        self._values = SharedValues() if values is None else values
        self._kernel = Kernel(lambda: loop or host.loop, patience)
        self._secrets = SessionSecrets(host)
        hide = self._secrets.hide
        readings = [Reading(tool, host, hide) for tool in value_tools(hide=hide)]
        tools: list[OwnTool] = [*readings, PutValue(host, hide), *own]
        self._own = {tool.tool.name: tool for tool in tools}
        self._listings = {
            has_handles: Listings(adapt, hide)
            for has_handles, adapt in ((False, with_references), (True, with_handles))
        }
        self._latest = Offer(())
        self._changes = Changes(host)
        self._open = OpenQuestions()
        self._exchanges: dict[Exchange, Client] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.clients = Clients(self._forget)
        self.server: Server[Any] = _LowLevel(
            NAME,
            version=__version__,
            title=TITLE,
            instructions=INSTRUCTIONS,
            lifespan=lambda _: self._running(),
            get_tool_input_schema=self._input_schema,
            on_subscriptions_listen=self._changes.listen,
        )
        for kind, (method, _) in METHODS.items():
            self.server.add_request_handler(method, PaginatedRequestParams, partial(self._list, kind))
        handlers: list[tuple[str, Any, Any]] = [
            ("tools/call", CallToolRequestParams, self._call_tool),
            ("resources/read", ReadResourceRequestParams, self._read_resource),
            ("prompts/get", GetPromptRequestParams, self._get_prompt),
            ("completion/complete", CompleteRequestParams, self._complete),
            ("logging/setLevel", SetLevelRequestParams, _set_level),
        ]
        for method, params, handler in handlers:
            self.server.add_request_handler(method, params, handler)
        self.server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)

    def streamable_http_app(self, *, max_sessions: int = MAX_SESSIONS, **options: Any) -> Any:
        """Return the application that serves it over streamable HTTP, as the SDK's servers do.

        With `max_sessions` sessions of the handshake era, another one ends the one that was unused the longest.
        """
        most = 2 * max_sessions  # where all are at work: then the SDK refuses others
        app = BoundedSessions(self.server.streamable_http_app(max_sessions=most, **options), max_sessions)

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            async def take() -> Any:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self._cut(scope)
                return message

            headers = dict(scope.get("headers") or ())
            proxy = headers.get(CLIENT_HEADER.encode(), b"").decode("latin-1")
            if scope.get("method") == "DELETE" and proxy and b"mcp-session-id" not in headers:
                self._leave(proxy)
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            else:
                await app(scope, take, send)

        return answer

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the tools of the kernel itself."""
        return tuple(self._own)

    @property
    def middleware(self) -> list[Any]:
        """The middleware of the SDK's server."""
        return self.server.middleware

    def close(self) -> None:
        """End all requests that go on, from any thread: calls are cancelled, and clients get an error."""
        soon_on(self._loop, self._end)

    def _end(self) -> None:
        self._changes.end()
        for exchange in [*self._exchanges]:
            exchange.end()

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[dict[str, Any]]:
        """Announce changes as long as the server runs."""
        self._loop = asyncio.get_running_loop()
        try:
            with self._changes.watching():
                yield {}
        finally:
            self._end()

    # Clients

    async def _initialized(self, context: Context, params: Any) -> None:
        """Remember a connection of the handshake era until it ends."""
        peer = connection_of(context.session)
        if not self._changes.add(peer):
            return
        with suppress(DeniedError):  # its first request says so
            peer.exit_stack.callback(self.clients.leave, self._client(context).key)

    def _client(self, context: Context) -> Client:
        """Return the client of a request. Its name is its own claim; its key is that of its session, or of its proxy.

        Raises:
            DeniedError: There are too many.
        """
        params, headers = context.session.client_params, getattr(context.request, "headers", None)
        name, version = (params.client_info.name, params.client_info.version) if params is not None else ("", "")
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        if headers is None:
            key = f"stream {name}" if modern else f"stream {id(connection_of(context.session))}"
        elif not modern:
            key = f"session {headers.get('mcp-session-id', '')}"
        elif proxy := headers.get(CLIENT_HEADER, ""):
            key = f"proxy {proxy[:200]} {name}"
        else:
            key = f"http {name}"
        return self.clients.client(key, name, version)

    def _leave(self, proxy: str) -> None:
        """Forget the clients of a proxy that ends: since 2026-07-28 no session ends for them."""
        for client in self.clients:
            if client.key.startswith(f"proxy {proxy[:200]} "):
                self.clients.leave(client.key)

    def _forget(self, client: Client) -> None:
        """End the requests of a client that has gone: nobody answers their questions, or reads their results."""

        def end() -> None:
            for exchange in [exchange for exchange, owner in self._exchanges.items() if owner is client]:
                exchange.end("it has gone")

        soon_on(self._loop, end)
        soon_on(self._kernel.loop, lambda: self._values.forget(client.key))

    def _cut(self, scope: Any) -> None:
        """Ask nothing more for a request whose stream has ended; before 2026-07-28 it goes on all the same."""
        for exchange in [*self._exchanges]:
            if not exchange.is_modern and getattr(exchange.context.request, "scope", None) is scope:
                exchange.mute("the stream of its request has ended")

    # Listings

    def _offer(self) -> Offer:
        """Return what the sessions offer now."""
        self._latest = self._latest.renewed(self._host.connections.values())
        return self._latest

    async def _list(self, kind: str, context: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        own = [tool.tool for tool in self._own.values()] if kind == "tools" else []
        items = getattr(self._offer(), kind).values()
        listings = self._listings[self._host.outputs.spill is not None]
        return listings.result(kind, items, context.protocol_version, own, params.cursor)

    def _input_schema(self, name: str) -> Any:
        """Return the schema of a tool for the SDK's check of HTTP headers; None if it has no argument in a header."""
        item = self._offer().tools.get(name)
        return None if item is None or not item.has_header else item.definition.input_schema

    # Requests

    async def _request(self, context: Context, params: Any, work: Work) -> Any:
        """Answer a request by work on the kernel's loop, or go on with one whose question the client has answered."""
        client = self._client(context)
        state = getattr(params, "request_state", None)
        if state is not None:
            exchange = self._open.take(state, (client.key, context.method))
            exchange.answer(context, params.input_responses)
        else:
            exchange = Exchange(context)
            exchange.stack.enter_context(self.clients.call(client))
            self._exchanges[exchange] = client
            exchange.stack.callback(self._exchanges.pop, exchange, None)
        is_open = False

        def ask() -> str:
            nonlocal is_open
            is_open = True
            return self._open.add(exchange, (client.key, context.method))

        try:
            if state is None:
                exchange.start(self._kernel, partial(self._begin, work, exchange, client))
            return await exchange.next(ask)
        finally:
            if not is_open:
                exchange.end()

    async def _begin(self, work: Work, exchange: Exchange, client: Client) -> Any:
        exchange.enter("")
        return await work(exchange, client)

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> Any:
        arguments = params.arguments or {}
        work: Work
        if (own := self._own.get(params.name)) is not None:
            work = partial(self._call_own, own, arguments)
        elif (item := self._offer().tools.get(params.name)) is not None:
            work = partial(self._call, item, arguments)
        else:
            raise MCPError(INVALID_PARAMS, self._no_tool(params.name))
        try:
            result = await self._request(context, params, work)
        except ProtocolError as error:
            raise self._secrets.error(error) from None
        except MCPMagicError as error:  # something that the agent can read and do something about
            result = _error_result(self._secrets.text(error.whole))
        except MCPError:
            raise
        except Exception:
            logger.exception("a call of %s failed", one_line(params.name, 100))
            result = _error_result(BROKEN)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS and isinstance(result, CallToolResult):
            return _of_handshake(result)
        return result

    def _no_tool(self, name: str) -> str:
        """Return what is said of a tool that is not there."""
        near = did_you_mean(name, (*self._own, *self._offer().tools))
        steps = "`%mcp serve --kernel --stop` and `%mcp serve --kernel --code`"
        code = f" The person serves it with {steps}." if name == "run_code" else ""
        return f"there is no tool {one_line(name, 100)!r} (any more).{near}{code} tools/list names those there are"

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        try:
            owner = self._offer().owner(uri)
        except UnknownResourceError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        return await self._passed(self._request(context, params, partial(self._read, *owner, uri)))

    async def _get_prompt(self, context: Context, params: GetPromptRequestParams) -> Any:
        item = self._prompt(params.name)
        return await self._passed(self._request(context, params, partial(self._prompted, item, params.arguments or {})))

    async def _complete(self, context: Context, params: CompleteRequestParams) -> Any:
        reference: Any
        if isinstance(params.ref, PromptReference):
            item = self._prompt(params.ref.name)
            connection, reference = item.connection, PromptReference(name=item.definition.name)
        elif (owner := self._offer().template(params.ref.uri)) is not None:
            connection, reference = owner[0], ResourceTemplateReference(uri=owner[1])
        else:
            raise MCPError(INVALID_PARAMS, "there is no such template; resources/templates/list names them")

        async def work(exchange: Exchange, client: Client) -> Any:
            others = params.context.arguments if params.context is not None else None
            values = await self._session(connection).complete(
                reference, params.argument.name, params.argument.value, others
            )
            fitting = [self._secrets.hide(value) for value in values if len(value) <= MAX_COMPLETION][:100]
            return CompleteResult(completion=Completion(values=fitting, has_more=len(fitting) < len(values)))

        return await self._passed(self._request(context, params, work))

    def _prompt(self, name: str) -> Item:
        if (item := self._offer().prompts.get(name)) is None:
            name = one_line(name, 100)
            problem = f"there is no prompt {name!r} (any more); prompts/list names those there are"
            raise MCPError(INVALID_PARAMS, problem)
        return item

    async def _passed(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """Return an answer; errors become those of JSON-RPC."""
        try:
            return await answer
        except ProtocolError as error:
            raise self._secrets.error(error) from None
        except DeniedError as error:
            raise MCPError(DENIED, self._secrets.text(error.whole)) from None
        except MCPMagicError as error:
            raise MCPError(INTERNAL_ERROR, self._secrets.text(error.whole)) from None
        except MCPError:
            raise
        except Exception:
            logger.exception("a request of an outside client failed")
            raise MCPError(INTERNAL_ERROR, BROKEN) from None

    # On the kernel's loop

    async def _call(self, item: Item, arguments: dict[str, Any], exchange: Exchange, client: Client) -> Any:
        """Call the tool of a session."""
        connection, tool = self._session(item.connection), item.definition
        caller, view = self._host.caller, self._view(client)
        call = Call(
            connection,
            tool.name,
            arguments,
            tool,
            asker=client.asker,
            answerers=client_answers(exchange, client, self._secrets.hide),
            is_shown=False,
        )
        if self._host.consent.denies_any(call.request):
            await caller.authorize(call)  # raises the denial; no value is read for it
        check_others(arguments, tool.input_schema)
        resolve = partial(resolve_references, arguments, view, tool.input_schema, hide=self._secrets.hide)
        try:
            resolved, masked = resolve(), partial(resolve, masks=True)
        except ArgumentsError as error:  # the audit has it as it has a read that is refused
            note = partial(self._host.consent.note_read, client.asker, f"{connection.name}:{tool.name}", arguments)
            note(self._secrets.hide(str(error)))
            raise
        call = replace(call, arguments=resolved.arguments, values=resolved.references)
        problem: ArgumentsError | None = None
        try:
            prepared = await caller.prepare(call)
        except ArgumentsError as error:
            problem, is_masked = misfit(error, resolved, masked, tool.input_schema)
            if not is_masked:
                view.note_reads(note.name for note in call.values)  # the error quotes them
                raise problem from None
            # whether a masked value fits would tell what it holds: the person is asked as if it did
            prepared = await caller.prepare(call, validate=False)
        exchange.enter(f"the person is asked about {one_line(prepared.name, 100)}")
        authorized = await _while_connected(self._host, connection, caller.authorize(prepared))
        exchange.enter("")
        if problem is not None and (authorized.decision is None or authorized.decision.arguments is None):
            raise problem
        agreed = authorized.decision.arguments if authorized.decision is not None else None
        view.note_reads(note.name for note in unchanged(call.values, prepared.arguments, agreed or prepared.arguments))
        try:
            with passed_on(connection, exchange):
                result = await caller.send(authorized, Relay(exchange, connection.spec.masked))
        except ArgumentsError as error:
            raise misfit(error, resolved, masked, tool.input_schema)[0] from None
        edited, spill = edited_names(prepared.arguments, agreed), self._host.outputs.spill
        is_open = spill is not None or result.output_schema is None
        return _unsigned(with_edit(spilled(result, view, spill), edited, is_open=is_open))

    async def _call_own(self, tool: OwnTool, arguments: dict[str, Any], exchange: Exchange, client: Client) -> Any:
        exchange.enter("" if isinstance(tool, Reading) else f"the person is asked about {tool.tool.name}")
        return await tool.call(arguments, client, self._view(client))

    async def _read(self, connection: Connection, own: str, uri: str, exchange: Exchange, client: Client) -> Any:
        """Read a resource of a session; in the answer it has the URI that the client knows."""
        connection = self._session(connection)
        request = Request(
            connection.name, READING.name, {"uri": own}, client.asker, READING, trusted=connection.spec.trust
        )
        exchange.enter(f"the person is asked about {one_line(own, 100)}")
        decision = await _while_connected(self._host, connection, self._host.caller.approval(request))
        exchange.enter("")
        if decision.arguments is not None and (agreed := str(decision.arguments["uri"])) != own:
            own = uri = agreed  # the client sees that it has read another one
        with passed_on(connection, exchange):
            result = await connection.read(own)
        raw = spilled_resource(result, self._view(client), self._host.outputs.spill)
        contents = [
            part.model_copy(update={"uri": uri}) if str(part.uri) == own and uri != own else part
            for part in raw.contents
        ]
        return _unsigned(raw.model_copy(update={"contents": contents}))

    async def _prompted(self, item: Item, arguments: dict[str, str], exchange: Exchange, client: Client) -> Any:
        connection = self._session(item.connection)
        with passed_on(connection, exchange):
            result = await connection.prompt(item.definition.name, arguments)
        return _unsigned(spilled_prompt(result, self._view(client), self._host.outputs.spill))

    def _session(self, connection: Connection) -> Connection:
        """Return the present session of a server: the person may have connected it again."""
        present = self._host.connections.get(connection.name)
        return present if present is not None and present.spec == connection.spec else connection

    def _view(self, client: Client) -> ClientValues:
        return self._values.of(client.key, client.name)


async def _while_connected(host: Host, connection: Connection, asking: Coroutine[Any, Any, T]) -> T:
    """Return the answer of the person; the question goes away with the session that it is about.

    Raises:
        SessionError: The session is no longer among those of the host. Nothing was sent.
    """
    loop, is_gone = asyncio.get_running_loop(), asyncio.Event()

    def look(name: str) -> None:
        if name == connection.name and host.connections.get(name) is not connection:
            soon_on(loop, is_gone.set)

    stop = host.watch(look)
    look(connection.name)
    tasks = asyncio.ensure_future(asking), asyncio.ensure_future(is_gone.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()
    finally:
        stop()
        for task in tasks:
            task.cancel()
    raise SessionError(f"the person has disconnected {connection.name!r} while the question stood; nothing was sent.")


async def _set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
    """Note the level of the log messages that a client of the handshake era wants."""
    connection_of(context.session).state[LEVEL] = params.level
    return EmptyResult()


def _error_result(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _unsigned(raw: Any) -> Any:
    """Return a result without the name of its server, for the kernel's server answers, and without marks of ours."""
    if not raw.meta or not (SERVER_INFO_META_KEY in raw.meta or CRASH in raw.meta):
        return raw
    meta = {name: value for name, value in raw.meta.items() if name not in (SERVER_INFO_META_KEY, CRASH)}
    return raw.model_copy(update={"meta": meta or None})


def _of_handshake(result: CallToolResult) -> CallToolResult:
    """Return a result as a client of the handshake era can read it: its structured content is an object."""
    if result.structured_content is None or isinstance(result.structured_content, dict):
        return result
    return result.model_copy(update={"structured_content": None})
