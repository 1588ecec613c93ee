"""LangChain tools of a server that need no open session."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic.config.targets import resolve_target
from mcp_magic.core.connection import Connection
from mcp_magic.core.host import Host
from mcp_magic.core.services import Services
from mcp_magic.langchain.breaker import Breaker
from mcp_magic.langchain.retrying import reaching
from mcp_magic.langchain.tools import Options, make_tools

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from langchain_core.tools import StructuredTool
    from mcp_types import Tool

    from mcp_magic.config.specs import Spec

__all__ = ["spec_tools"]


async def spec_tools(
    target: Any, *, name: str | None = None, host: Host | None = None, options: Options | None = None, **connecting: Any
) -> list[StructuredTool]:
    """Return the tools of a server as LangChain tools that open a session for each call and close it again.

    The tools are listed once, now. While the host has an open session to the same server the calls use that.

    Args:
        target: A URL, the path of a server file, a command as a list, the name of a configured server, a server
            object, or a spec.
        name: The server's name, for consent and for the names of the tools; the default is made from the target.
        host: Whose sessions and whose consent; without one each call has a session of its own, and its consent denies
            what nobody can be asked about.
        options: What holds for all calls.
        **connecting: Options of the connection, see `Host.connect`.

    Raises:
        TargetError: The target names no server.
        ConnectError: No session could be opened.
    """
    command = target if isinstance(target, list | tuple) else ()
    spec, default = resolve_target(None if command else target, command=command, **connecting)
    source = _Source(spec, name or default, host if host is not None else Host())
    tools = await source.listed()
    return make_tools([(source, tool) for tool in tools], options or Options())


class _Source:
    """Where the sessions for the calls come from."""

    def __init__(self, spec: Spec, name: str, host: Host) -> None:
        self.spec = spec
        self.name = name
        self._host = host
        self._specs = [spec]
        self._breaker = Breaker(name)

    async def listed(self) -> tuple[Tool, ...]:
        """List the tools, and remember how the server was reached."""
        open_ = self._open()
        if open_ is not None:
            return await open_.listing("tools")
        finder = Host(self._host.consent)  # it knows that an old URL may be of the SSE transport
        try:
            connection = await finder.connect_spec(self.spec, self.name)
            self._specs.append(connection.spec)
            return await connection.listing("tools")
        finally:
            await finder.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        """Hand out the host's open session, else one for this call."""
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
            consent=host.consent,
            elicitation=host.elicitation,
            sampling=host.sampling,
            open_transport=host.services.open_transport,
        )
        connection = Connection(self.name, self._specs[-1], services)
        await connection.open()
        return connection

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop of the host's session, None while there is none."""
        connection = self._open()
        return connection.loop if connection is not None else None

    def _open(self) -> Connection | None:
        return next((c for c in self._host.find() if c.spec in self._specs), None)
