"""An explorer of all servers: what they offer, searched as one types, with its cards and forms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.catalog import KINDS
from mcp_magic.results import Listing
from mcp_magic.results.parts import mimebundle, only
from mcp_magic.results.style import STYLE
from mcp_magic.widgets.doing import Doing
from mcp_magic.widgets.explorer_detail import Detail, line, make_form
from mcp_magic.widgets.explorer_items import Index, Item, search
from mcp_magic.widgets.explorer_look import EXPLORER_STYLE
from mcp_magic.widgets.explorer_rows import ItemRow, Look, Pages
from mcp_magic.widgets.explorer_servers import Servers
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.host import Host
    from mcp_magic.widgets.explorer_forms import MakeForm

__all__ = ["Explorer"]

ROWS = 25
"""Tools of a page: about a screen. Every one of them is three widgets, which the page in the browser draws."""

SETTLE_SECONDS = 0.05
"""Seconds from the first of several changes to the drawing of them all; fifty servers may come at once."""


class Explorer:
    """Servers with their state, and what they offer, to look at and to try.

    Args:
        host: Whose servers.
        server: Show only this one at first.
        offered: Servers that are not connected and could be, by name.
        form: Makes the form of an item; called with the connection and the `Item`.

    Attributes:
        widget: The whole of it.
        detail: The card that is open.

    Raises:
        UnknownServerError: There is no such server.
    """

    def __init__(
        self,
        host: Host,
        server: str | None = None,
        *,
        offered: Mapping[str, Spec] | None = None,
        form: MakeForm = make_form,
    ) -> None:
        if server is not None:
            host[server]  # raises, with what there is
        self.host, self.server = host, server
        self.closed = False
        self._drawing = False
        self._index = Index()
        self._shop, self._doing = Shop(), Doing()
        self.detail = Detail(self._shop, self._doing, form)
        self.detail.on_close = lambda: self.items.redraw()
        self.servers = Servers(
            self._shop, self._doing, host, offered or {}, on_choose=self._server_chosen, on_done=self._server_done
        )
        self._build()
        self._stop = host.watch(lambda name: self._doing.once(self.update, SETTLE_SECONDS))
        self.update()

    def _build(self) -> None:
        make, soon = self._shop.make, self._doing.soon
        self.search = make(
            ipywidgets.Text,
            "field",
            description="Search",
            placeholder="words of a name, title or description",
            continuous_update=True,
        )
        self.kinds = make(ipywidgets.ToggleButtons, "", options=[(kind, kind) for kind in KINDS])
        self.kinds.style.button_width = "auto"
        self.refresh_button = make(
            ipywidgets.Button, "button", description="Refresh", tooltip="ask the servers again what they offer"
        )
        self.status = make(ipywidgets.HTML, "label")
        self.items: Pages[Item] = Pages(
            self._shop, lambda: ItemRow(self._shop, self._chosen, self._look), size=ROWS, what="results", on_turn=soon
        )
        self.search.observe(lambda _: soon(self._search), "value")
        self.kinds.observe(lambda _: soon(self._search), "value")
        self.refresh_button.on_click(lambda _: soon(self.refresh))
        self.widget = self._laid_out()

    def _laid_out(self) -> Any:
        make, vbox, hbox = self._shop.make, ipywidgets.VBox, ipywidgets.HBox
        style = make(ipywidgets.HTML, "label", value=STYLE + EXPLORER_STYLE)
        listed = make(vbox, "", children=(self.items.widget,), _dom_classes=("mcp-explorer-list",))
        found = make(hbox, "", children=(listed, self.detail.widget), _dom_classes=("mcp-explorer-found",))
        tools = make(hbox, "line", children=(self.search, self.kinds, self.refresh_button))
        parts = (style, self.servers.pages.widget, tools, self.status, found)
        return make(vbox, "", children=parts, _dom_classes=("mcp-explorer",))

    # What is shown

    @property
    def kind(self) -> str:
        """Which kind is shown: "tools", "resources", "templates" or "prompts"."""
        return str(self.kinds.value)

    @property
    def found(self) -> Sequence[Item]:
        """What is found, on all pages."""
        return search(self._index.items(self.kind, self.server), self.search.value)

    def update(self) -> None:
        """Draw anew what the host knows now; it is called whenever that changes."""
        if self.closed:
            return
        connections = self.host.connections
        if self.server is not None and self.server not in {*connections, *self.servers.offered}:
            self.server = None
        self._index.update(connections.values())
        self.servers.draw(self.server)
        self._draw_kinds()
        self._draw_items(from_start=False)
        shown = self.detail.item
        if shown is not None:
            self.detail.update(connections.get(shown.server), self._index.at(shown.where))

    def _draw_kinds(self) -> None:
        counts = self._index.counts(self.server)
        options = [(f"{kind} ({count:,})", kind) for kind, count in counts.items()]
        if options != list(self.kinds.options):
            self._drawing, chosen = True, self.kind
            with self.kinds.hold_sync():  # new options choose the first of them
                self.kinds.options = options
                self.kinds.value = chosen
            self._drawing = False

    def _draw_items(self, *, from_start: bool) -> None:
        found, total = self.found, len(self._index.items(self.kind, self.server))
        of = f" of {self.server}" if self.server is not None else ""
        note = (
            f"{len(found):,} of {total:,} {self.kind}{of}"
            if self.search.value.strip()
            else f"{total:,} {self.kind}{of}"
        )
        self.items.show(found, note, from_start=from_start)

    def _search(self) -> None:
        if not (self._drawing or self.closed):
            self._draw_items(from_start=True)

    def _look(self, item: Item) -> Look:
        shown = self.detail.item
        chosen = shown is not None and shown.where == item.where
        connection = self.host.connections.get(item.server)
        if connection is None:
            return Look(chosen)
        change = connection.change_of(item.definition) if item.kind == "tools" else None
        return Look(chosen, connection.spec.trust, (change.badge,) if change else ())

    # What is done

    def _chosen(self, item: Item) -> None:
        self._doing.soon(lambda: self.choose(item))

    def choose(self, item: Item) -> None:
        """Show an item's card; choosing it again leaves what is open below it."""
        connection = self.host.connections.get(item.server)
        if connection is None or (self.detail.item is not None and self.detail.item.where == item.where):
            return
        self.detail.show(connection, item)
        self.items.redraw()

    def only(self, server: str | None) -> None:
        """Show what one server offers, or with None what all do."""
        self.server = server
        self.servers.draw(self.server)
        self._draw_kinds()
        self._draw_items(from_start=True)

    def refresh(self) -> None:
        """Ask all open servers again what they offer."""
        self._doing.start(self._refresh())

    async def _refresh(self) -> None:
        self.refresh_button.disabled = True
        self._say("asking the servers …")
        asked = [c.listing(kind, refresh=True) for c in self.host.find() for kind in KINDS]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        self._say(*dict.fromkeys(str(answer) for answer in answers if isinstance(answer, Exception)), error=True)
        self.refresh_button.disabled = False

    def _server_chosen(self, server: str) -> None:
        self.only(None if self.server == server else server)

    def _server_done(self, problem: str) -> None:
        self._say(problem, error=True)
        self.update()

    def _say(self, *lines: str, error: bool = False) -> None:
        self.status.value = line("\n".join(lines), error=error)

    async def settled(self) -> None:
        """Wait until what was clicked is done."""
        await self._doing.finished()

    def close(self) -> None:
        """Close every comm, and follow the servers no more. Closing twice is fine."""
        self.closed = True
        self._stop()
        self._doing.end()
        self.detail.close()
        self._shop.close()

    def __repr__(self) -> str:
        return f"<Explorer of {len(self.host)} servers{' (closed)' if self.closed else ''}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        rows = [connection.info().row() for connection in self.host.connections.values()]
        note = "%mcp ui explores them where a kernel runs"
        static = Listing(rows, title="MCP servers", empty="no server is connected", note=note, kind="servers")
        live = {} if self.closed else {VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}}
        return only({**live, **mimebundle(static)}, include, exclude)


VIEW = "application/vnd.jupyter.widget-view+json"
"""The MIME type of a live widget (https://ipywidgets.readthedocs.io, "Widget messaging protocol")."""
