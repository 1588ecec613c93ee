"""The tools that a model is given, read anew at each turn: servers come, go and change what they offer."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.agent.binding import bind_tools
from mcp_magic.agent.functions import function_of
from mcp_magic.errors import MCPMagicError, UnknownServerError, UnknownToolError, did_you_mean, listed
from mcp_magic.langchain.names import Names
from mcp_magic.results.badges import app_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.host import Host

__all__ = ["Offer", "Registry"]

WITHOUT_TOOLS = ", or `%mcp disconnect --all`: without tools it answers"
"""What can be done with a model that takes no tools."""


class Offer(NamedTuple):
    """A tool as a model is given it.

    Attributes:
        name: The name under which the model knows it.
        connection: Whose it is.
        tool: Its definition.
        bound: What `bind_tools` takes.
        renamed: Its own names of arguments, by those that the model is given instead.
    """

    name: str
    connection: Connection
    tool: Tool
    bound: dict[str, Any]
    renamed: dict[str, str]

    @property
    def person_name(self) -> str:
        """`"server:tool"`."""
        return f"{self.connection.name}:{self.tool.name}"


class Registry:
    """What of a host's tools a model may use: never those that are for apps only.

    Args:
        host: Whose tools.
        servers: Names of servers; empty: all that are open.
        tools: Patterns for `server:tool`, such as `"fs:read_*"`; empty: all.

    Attributes:
        app_only: The tools, as `server:tool`, that it leaves out because their servers offer them to apps only.
    """

    def __init__(self, host: Host, *, servers: Iterable[str] = (), tools: Iterable[str] = ()) -> None:
        self.host = host
        self.servers = tuple(servers)
        self.patterns = tuple(pattern if ":" in pattern else f"*:{pattern}" for pattern in tools)
        self.offers: dict[str, Offer] = {}
        self.app_only: list[str] = []
        self._known: tuple[Any, ...] = ()
        self._bound: tuple[Any, Runnable[Any, Any]] | None = None

    async def check(self) -> None:
        """Complain about servers and tools that are not there.

        Raises:
            UnknownServerError: A name is none of an open session.
            UnknownToolError: No tool matches the patterns.
        """
        missing = [name for name in self.servers if name not in self.host]
        if missing:
            near = did_you_mean(missing[0], self.host)
            raise UnknownServerError(f"no server {missing[0]!r}.{near} Connected: {listed(self.host)}")
        if self.patterns and self.host.find() and not await self.refresh():
            kept = f" ({listed(self.app_only)}: for apps only, not for models)" if self.app_only else ""
            raise UnknownToolError(f"no tool matches {listed(self.patterns)}{kept}; `%mcp tools` lists them")

    async def refresh(self) -> dict[str, Offer]:
        """Return the tools there are now, by the model's name; a server that cannot list gives what is known of it."""
        connections = [self.host[n] for n in self.servers if n in self.host] if self.servers else self.host.find()
        listings = [(connection, await _tools(connection)) for connection in connections]
        known = tuple(part for pair in listings for part in pair)
        if len(known) != len(self._known) or any(a is not b for a, b in zip(known, self._known, strict=True)):
            self._known, self.offers = known, self._offers(listings)
        return self.offers

    def bind(self, model: BaseChatModel) -> Runnable[Any, Any]:
        """Return the model with the tools bound; the same one as long as they are the same.

        Raises:
            ModelError: There are tools, and it can be given none.
        """
        if self._bound is None or self._bound[0] is not self.offers:
            tools = [offer.bound for offer in self.offers.values()]
            self._bound = (self.offers, bind_tools(model, tools, instead=WITHOUT_TOOLS) if tools else model)
        return self._bound[1]

    def person_name(self, name: str) -> str:
        """Return `server:tool` for a model's name of a tool."""
        offer = self.offers.get(name)
        return offer.person_name if offer else Names(()).person(name)

    def _offers(self, listings: Sequence[tuple[Connection, Sequence[Tool]]]) -> dict[str, Offer]:
        matching = [(c, tool) for c, tools in listings for tool in tools if self._may(c.name, tool.name)]
        offered = [(c, tool) for c, tool in matching if not app_only(tool)]
        self.app_only = [f"{c.name}:{tool.name}" for c, tool in matching if app_only(tool)]
        names = Names((c.name, tool.name) for c, tool in offered)
        called = [(names.provider(c.name, tool.name), c, tool) for c, tool in offered]
        return {name: Offer(name, c, tool, *function_of(name, tool)) for name, c, tool in called}

    def _may(self, server: str, tool: str) -> bool:
        return not self.patterns or any(fnmatchcase(f"{server}:{tool}", pattern) for pattern in self.patterns)


async def _tools(connection: Connection) -> tuple[Any, ...]:
    try:
        return await connection.listing("tools")
    except MCPMagicError:
        return connection.catalog.cached("tools")
