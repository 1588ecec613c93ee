"""The servers of an explorer: their state, and buttons that open and close their sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets

from mcp_magic.core.catalog import KINDS
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.html import Markup, joined, tag
from mcp_magic.results.safe import one_line
from mcp_magic.widgets.explorer_rows import Pages

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.host import Host
    from mcp_magic.widgets.doing import Doing
    from mcp_magic.widgets.shop import Shop

__all__ = ["Server", "ServerRow", "Servers"]

ROWS = 8
"""Servers of a page."""

SIGNS = {"open": "●", "connecting": "◌", "reconnecting": "◌", "lost": "✗", "closed": "○"}
"""State -> a sign before the word; there is no colour."""


class Server(NamedTuple):
    """A server as a row shows it.

    Attributes:
        name: Its name.
        state: The connection's state, or "not connected".
        spec: Where it is.
        counts: How many of each kind it has; None where that is not known.
        chosen: Whether only this one is shown.
        busy: Whether a click is being carried out.
    """

    name: str
    state: str
    spec: Spec
    counts: Mapping[str, int | None]
    chosen: bool = False
    busy: bool = False


def servers_of(host: Host, offered: Mapping[str, Spec], chosen: str | None, busy: Collection[str]) -> list[Server]:
    """Return the host's servers, and those that could be connected."""

    def counts(connection: Connection) -> dict[str, int | None]:
        catalog = connection.catalog
        return {kind: len(catalog.cached(kind)) if catalog.known(kind) else None for kind in KINDS}

    def server(name: str, state: str, spec: Spec, counts: Mapping[str, int | None]) -> Server:
        return Server(name, state, spec, counts, chosen=name == chosen, busy=name in busy)

    connections = host.connections
    servers = [server(c.name, c.state, c.spec, counts(c)) for c in connections.values()]
    servers += [server(name, "not connected", spec, {}) for name, spec in offered.items() if name not in connections]
    return servers


class ServerRow:
    """One server.

    Args:
        shop: Makes the widgets.
        do: Called with what is to be done ("choose", "connect", "disconnect") and the server's name.
    """

    def __init__(self, shop: Shop, do: Callable[[str, str], None]) -> None:
        self.server: Server | None = None
        self._do = do
        self.name = self._button(shop, "choose", "", _dom_classes=("mcp-explorer-name",))
        self.about = shop.make(ipywidgets.HTML, "label", _dom_classes=("mcp-explorer-about",))
        self.connect = self._button(shop, "connect")
        self.disconnect = self._button(shop, "disconnect", description="Disconnect")
        self.widget = shop.make(ipywidgets.HBox, "line", children=(self.name, self.about, self.connect))

    def _button(self, shop: Shop, what: str, layout: str = "button", **traits: Any) -> Any:
        button = shop.make(ipywidgets.Button, layout, **traits)
        button.on_click(lambda _: self._do(what, self.server.name) if self.server is not None else None)
        return button

    def fill(self, server: Server) -> None:
        """Show this server."""
        self.server = server
        name = one_line(server.name, 80)
        with self.name.hold_sync():
            self.name.description = f"▸ {name}" if server.chosen else name
            self.name.button_style = "primary" if server.chosen else ""
            self.name.tooltip = f"show all servers, not only {name}" if server.chosen else f"show only {name}"
        self.about.value = about(server)
        is_open = server.state == "open"
        with self.connect.hold_sync():
            self.connect.description = "Reconnect" if is_open else "Connect"
            self.connect.tooltip = f"close the session with {name} and open a new one" if is_open else f"connect {name}"
            self.connect.disabled = server.busy
        self.disconnect.tooltip = f"close the session with {name}"
        self.disconnect.disabled = server.busy
        buttons = (self.connect, self.disconnect) if server.state != "not connected" else (self.connect,)
        self.widget.children = (self.name, self.about, *buttons)


def about(server: Server) -> Markup:
    """Return what a row says of a server: state, transport and place, what it offers."""
    state = "working …" if server.busy else f"{SIGNS.get(server.state, '○')} {server.state}"
    counts = ", ".join(
        f"{count:,} {kind if count != 1 else kind[:-1]}" for kind, count in server.counts.items() if count
    )
    where = tag("span", one_line(f"{server.spec.transport} {server.spec.where}", 120), class_="mcp-note")
    return tag("div", joined([tag("span", state, class_="mcp-badge"), where, counts], " "), class_="mcp-magic")


class Servers:
    """All servers, a page of them at a time.

    Args:
        shop: Makes the widgets.
        doing: Runs what takes long.
        host: Whose servers.
        offered: Those that are not connected and could be, by name.
        on_choose: Called with the name of the server that was clicked.
        on_done: Called after a session was opened or closed, with what went wrong, or "".

    Attributes:
        pages: The list.
        offered: As given, and those that were disconnected here: they can be connected again.
    """

    def __init__(
        self,
        shop: Shop,
        doing: Doing,
        host: Host,
        offered: Mapping[str, Spec],
        *,
        on_choose: Callable[[str], None],
        on_done: Callable[[str], None],
    ) -> None:
        self._doing, self._host = doing, host
        self._on_choose, self._on_done = on_choose, on_done
        self._busy: set[str] = set()
        self._chosen: str | None = None
        self.offered = dict(offered)
        self.pages: Pages[Server] = Pages(
            shop, lambda: ServerRow(shop, self._clicked), size=ROWS, what="servers", on_turn=doing.soon
        )

    def draw(self, chosen: str | None) -> None:
        """Show the servers as they are now; of all `chosen` is the one that is looked at."""
        self._chosen = chosen
        servers = servers_of(self._host, self.offered, chosen, self._busy)
        nobody = "no server is connected: %mcp connect TARGET opens a session"
        count = f"{len(servers):,} server{'s' if len(servers) != 1 else ''}"
        self.pages.show(servers, count if servers else nobody, from_start=False)

    def _clicked(self, what: str, server: str) -> None:
        if what == "choose":
            self._doing.soon(lambda: self._on_choose(server))
        else:
            self._doing.soon(lambda: self._begin(what, server))

    def _begin(self, what: str, server: str) -> None:
        if server not in self._busy:
            self._busy.add(server)
            self.draw(self._chosen)
            work = self._connect if what == "connect" else self._disconnect
            self._doing.start(self._carry_out(server, work(server)))

    async def _carry_out(self, server: str, work: Coroutine[Any, Any, None]) -> None:
        problem = ""
        try:
            await work
        except MCPMagicError as error:
            problem = str(error)
        finally:
            self._busy.discard(server)
        self._on_done(problem)

    async def _connect(self, server: str) -> None:
        if server in self._host:
            await self._host.reconnect(server)
        else:
            await self._host.connect_spec(self.offered[server], server)

    async def _disconnect(self, server: str) -> None:
        self.offered[server] = self._host[server].spec
        await self._host.disconnect(server)
