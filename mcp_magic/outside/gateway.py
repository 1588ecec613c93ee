"""The server of the kernel: it offers outside agents the tools, resources and prompts of the connected sessions.

It speaks both protocol eras. HTTP is served on a loop of its own in another thread, so that listings are answered while
the kernel runs a cell; what needs the sessions goes to the kernel's loop, and waits there (`kernel.py`).

Each call of a session's tool goes the way of all calls (`calls/caller.py`), as `outside NAME`: consent is asked, and
the audit has it. Its result goes to the client as the server gave it.

The URIs of resources stay as they are, because results link to them; if several servers list the same one, it is
`SERVER+URI` for each of them.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import (
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolResult,
    NotificationParams,
    PaginatedRequestParams,
    TextContent,
    methods,
)

from mcp_magic._sdk import connection_of
from mcp_magic.calls.call import Call, Progress
from mcp_magic.display.text import one_line
from mcp_magic.errors import MCPMagicError, ProtocolError
from mcp_magic.loops import soon_on
from mcp_magic.outside.exchange import Exchange
from mcp_magic.outside.kernel import PATIENCE_SECONDS, Kernel
from mcp_magic.outside.offer import Item, Offer
from mcp_magic.protocol import UNCACHED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp_types import CallToolRequestParams

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection
    from mcp_magic.values.shared import SharedValues

logger = logging.getLogger(__name__)

NAME = "mcp_magic"

INSTRUCTIONS = """\
This is a running Jupyter kernel: a person works with it in a notebook. `SERVER__TOOL` is a tool of a server that is \
connected there; resources and prompts are those of these servers, too. The person is asked about calls in the \
notebook, so an answer may take a while, or be no."""

MAX_NAME = 60  # characters of a client's name

GATHER_SECONDS = 0.05  # seconds for which changes are gathered before they are announced

COMPLETE = {**UNCACHED, "resultType": "complete"}  # what 2026-07-28 requires of a listing

_EVENTS: dict[str, tuple[Any, str]] = {
    "tools": (ToolsListChanged, "send_tool_list_changed"),
    "prompts": (PromptsListChanged, "send_prompt_list_changed"),
    "resources": (ResourcesListChanged, "send_resource_list_changed"),
    "templates": (ResourcesListChanged, "send_resource_list_changed"),
}


class _LowLevel(Server[Any]):
    """The SDK's server, which announces changes of all its listings."""

    def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(True, True, True), *args[1:], **options)


class KernelServer:
    """An MCP server of this kernel, for the programs of outside agents.

    Args:
        host: The host whose sessions it offers.
        values: The variables that may be read; None for none.
        loop: The loop of the kernel; None for the one that runs now, or that first serves a request.
        patience: Returns the seconds that a request waits for a kernel that runs a cell.

    Attributes:
        server: The low-level server of the SDK, which any transport can serve.
    """

    def __init__(
        self,
        host: Host,
        values: SharedValues | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        patience: Callable[[], float] = lambda: PATIENCE_SECONDS,
    ) -> None:
        from mcp_magic import __version__

        self._host = host
        self._values = values
        self._kernel = Kernel(loop or host.loop, patience)
        self._offer = Offer(())
        self._exchanges: set[Exchange] = set()
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._peers: dict[int, Any] = {}  # connections of the handshake era, by id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._announcing: asyncio.Handle | None = None
        self._usable: dict[tuple[str, str], tuple[Any, dict[str, Any] | None]] = {}
        self.server: Server[Any] = _LowLevel(
            NAME,
            version=__version__,
            title="Jupyter kernel",
            instructions=INSTRUCTIONS,
            lifespan=lambda _: self._running(),
            get_tool_input_schema=self._input_schema,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listen,
        )
        self.server.add_request_handler("tools/list", PaginatedRequestParams, partial(self._list, "tools"))
        self.server.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)

    def streamable_http_app(self, **options: Any) -> Any:
        """Return the application that serves it over streamable HTTP, as the SDK's servers do."""
        return self.server.streamable_http_app(**options)

    @property
    def middleware(self) -> list[Any]:
        """The middleware of the SDK's server."""
        return self.server.middleware

    def close(self) -> None:
        """End all requests that go on, from any thread: calls are cancelled, and clients get an error."""
        soon_on(self._loop, self._end)

    def _end(self) -> None:
        self._listen.close()
        for exchange in [*self._exchanges]:
            exchange.cancel()

    # Changes

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[dict[str, Any]]:
        """Announce changes as long as the server runs."""
        self._loop = asyncio.get_running_loop()
        self._offer = Offer(self._host.connections.values())
        stop = self._host.watch(lambda name: self.announce())
        try:
            yield {}
        finally:
            stop()
            self._end()

    def announce(self) -> None:
        """Tell clients soon if the listings have changed, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gather)

    def _gather(self) -> None:
        if self._announcing is None:
            loop = asyncio.get_running_loop()
            self._announcing = loop.call_later(GATHER_SECONDS, lambda: loop.create_task(self._announce()))

    async def _announce(self) -> None:
        self._announcing = None
        before, self._offer = self._offer, Offer(self._host.connections.values())
        for event, send in dict.fromkeys(_EVENTS[kind] for kind in self._offer.kinds_changed(before)):
            await self._bus.publish(event())
            for peer in [*self._peers.values()]:
                await getattr(peer, send)()

    async def _initialized(self, context: ServerRequestContext[Any, Any], params: Any) -> None:
        """Remember a connection of the handshake era until it ends."""
        peer = connection_of(context.session)
        self._peers[id(peer)] = peer
        peer.exit_stack.callback(self._peers.pop, id(peer), None)

    def _current(self) -> Offer:
        """Return what the sessions offer now."""
        return Offer(self._host.connections.values())

    # Listings

    async def _list(self, kind: str, context: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        """Return a listing; a definition that the client's version cannot have is left out."""
        offer, version = self._current(), context.protocol_version
        self._offer = self._offer if self._peers or self._announcing else offer
        items = getattr(offer, kind).values()
        dumps = (self._dump(kind, item, version) for item in items)
        return {**COMPLETE, "tools": [dump for dump in dumps if dump is not None]}

    def _dump(self, kind: str, item: Item, version: str) -> dict[str, Any] | None:
        """Return a definition as JSON, None if a client of this version could not read it."""
        key = version, item.name
        definition, dump = self._usable.get(key, (None, None))
        if definition is not item.definition:
            dump = item.definition.model_dump(by_alias=True, mode="json", exclude_none=True) | {"name": item.name}
            try:
                methods.serialize_server_result("tools/list", version, {**COMPLETE, "tools": [dump]})
            except ValueError as error:
                logger.info("%s is not offered to clients of %s: %s", one_line(item.name, 200), version, error)
                dump = None
            self._usable[key] = item.definition, dump
        return dump

    def _input_schema(self, name: str) -> Any:
        item = self._current().tools.get(name)
        return None if item is None else item.definition.input_schema

    # Calls

    async def _call_tool(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Any:
        item = self._current().tools.get(params.name)
        if item is None:
            name = one_line(params.name, 100)
            raise MCPError(INVALID_PARAMS, f"there is no tool {name!r} (any more); tools/list names those there are")
        exchange = Exchange(context)
        exchange.start(self._in_kernel(exchange, lambda: self._call(exchange, item, params.arguments or {})))
        return await self._answer(exchange)

    async def _in_kernel(self, exchange: Exchange, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        def waits(seconds: float) -> None:
            exchange.stage = "the kernel runs a cell" if seconds else ""

        return await self._kernel.run(work, waits)

    async def _answer(self, exchange: Exchange) -> Any:
        """Wait for the result of an exchange; errors that the agent can do something about are results, too."""
        self._exchanges.add(exchange)
        try:
            return await exchange.next(lambda: "")
        except ProtocolError as error:
            raise MCPError(error.code, str(error), error.data) from None
        except MCPMagicError as error:
            return CallToolResult(content=[TextContent(text=error.whole)], is_error=True)
        finally:
            self._exchanges.discard(exchange)
            exchange.cancel()

    async def _call(self, exchange: Exchange, item: Item, arguments: dict[str, Any]) -> Any:
        """Call the tool of a session, on the kernel's loop."""
        exchange.stage = ""
        name = item.definition.name
        call = Call(self._session(item), name, arguments, asker=_asker(exchange), is_shown=False)
        caller = self._host.caller
        prepared = await caller.prepare(call)
        exchange.stage = f"the person is asked about {prepared.name}"
        authorized = await caller.authorize(prepared)
        exchange.stage = ""
        result = await caller.send(authorized, Progress(exchange.progressed))
        raw = result.raw
        if raw.meta and SERVER_INFO_META_KEY in raw.meta:  # this server answers, for that one
            meta = {name: value for name, value in raw.meta.items() if name != SERVER_INFO_META_KEY}
            raw = raw.model_copy(update={"meta": meta or None})
        return raw

    def _session(self, item: Item) -> Connection:
        """Return the present session of a server: the person may have connected it again."""
        present = self._host.connections.get(item.connection.name)
        return present if present is not None and present.spec == item.connection.spec else item.connection


def _asker(exchange: Exchange) -> str:
    """Return the asker of a client's calls: the client's name is what it says itself."""
    params = exchange.context.session.client_params
    name = one_line(params.client_info.name, MAX_NAME) if params is not None else ""
    return f"outside {name or 'agent'}"
