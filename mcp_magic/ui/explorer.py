"""The explorer: a widget to search, read and call everything that servers offer."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import ipywidgets

from mcp_magic._text import duration, plural
from mcp_magic.config.specs import StdioSpec
from mcp_magic.display.document import STYLE, Markup, inline, joined, mimebundle, only, page, tag, tool_badges
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import middle_cuts, one_line, shorten, visible
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.cards import ToolCard, prompt_part, resource_part, template_part
from mcp_magic.session.catalog import KINDS
from mcp_magic.ui.widgets import FORM_STYLE, LoopRunner, WidgetScope, on_enter, widget_view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from mcp_magic._host import Host
    from mcp_magic.config.specs import Spec
    from mcp_magic.display.document import Part
    from mcp_magic.session.connection import Connection
    from mcp_magic.ui.request_form import RequestForm, Save

    Connect = Callable[[str], Awaitable[Any]]
    Identity = tuple[str, str, str]
    MakeForm = Callable[[Connection, Any], RequestForm]  # makes the form of a connection's item


__all__ = ["Explorer"]

# The details of the chosen item: its card, or its form with the result.

MAX_FORMS = 10  # forms kept besides the one that is shown. A form has from ten to some hundred widgets.


class Forms:
    """The forms that were used, with their input, by their items."""

    def __init__(self, make: MakeForm) -> None:
        self._make = make
        self._forms: dict[Identity, RequestForm] = {}  # the oldest first

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._forms

    def get(self, connection: Connection, item: Item) -> RequestForm:
        """Return an item's form, or a new one with its input if the session or the definition has changed."""
        old = self._forms.get(item.identity)
        if old is not None:
            is_current = old.connection is connection and old.definition == item.definition
            if old.running or is_current:
                return old
        form = self._forms[item.identity] = self._make(connection, item.definition)
        if old is not None:
            if old.touched:
                form.set_arguments(old.form.draft)
            old.close()
        return form

    def leave(self, identity: Identity) -> None:
        """Keep a form that is no longer shown if it was used; otherwise close it."""
        form = self._forms.pop(identity)
        if form.touched:
            self._forms[identity] = form
        else:
            form.close()
        while len(self._forms) > MAX_FORMS:
            # a running form goes last: closing it cancels its request
            self.discard(min(self._forms, key=lambda identity: self._forms[identity].running))

    def discard(self, identity: Identity) -> None:
        self._forms.pop(identity).close()

    def close(self) -> None:
        for identity in list(self._forms):
            self.discard(identity)


class Detail:
    """The card of an item, or its form; a form that was used is kept until its item is chosen again."""

    def __init__(self, scope: WidgetScope, loop: LoopRunner, make_form: MakeForm, on_close: Callable[[], None]) -> None:
        self._forms = Forms(make_form)
        self._on_close = on_close
        self._connection: Connection | None = None
        self.item: Item | None = None
        self.form: RequestForm | None = None
        self.card = scope.make(ipywidgets.HTML, "label", _dom_classes=("mcp-explorer-card",))
        self.note = scope.make(ipywidgets.HTML, "label")

        def button(text: str, tooltip: str, do: Callable[[], None]) -> Any:
            return scope.button(text, tooltip, partial(loop.soon, do))

        self.open = button("Open form", "fill in the arguments and run it", self.open_form)
        self.read = button("Read", "read this resource and show it here", self.read_resource)
        self.back = button("Close form", "discard the form and go back to the card", self.close_form)
        self.hide = button("Close", "close this card", self._hide)
        self.buttons = scope.make(ipywidgets.HBox, "line")
        self.widget = scope.make(ipywidgets.VBox, "detail", _dom_classes=("mcp-explorer-detail",))

    def show(self, connection: Connection, item: Item) -> None:
        self._leave()
        self._connection, self.item = connection, item
        self.card.value = card(connection, item)
        if item.identity in self._forms:
            self.open_form()
        else:
            self._draw()

    def update(self, connection: Connection | None, item: Item | None) -> None:
        """Update the shown item from its server's present definition; None if it is gone."""
        if self.item is None:
            return
        if end := end_of_session(self.item.server, connection):
            self.say(end, error=True)
            return
        if item is None or connection is None:
            self.say(f"{self.item.label} is no longer offered", error=True)
            return
        self.say("")
        if connection is not self._connection or item.definition != self.item.definition:
            self._connection, self.item = connection, item
            self.card.value = card(connection, item)
            if self.form is not None:
                self.form = None
                self.open_form()

    def clear(self) -> None:
        self._leave()
        self.item = self._connection = None
        self.widget.children = ()

    def open_form(self) -> None:
        """Show the item's form in place of the card, which it repeats."""
        if self.item is None or self._connection is None or self.form is not None:
            return
        try:
            self.form = self._forms.get(self._connection, self.item)
        except MCPMagicError as error:  # a template that cannot be filled in; the card still has the line to type
            self.say(str(error), error=True)
            return
        self.buttons.children = (self.back, self.hide)
        self.widget.children = (self.buttons, self.note, self.form.widget)

    def read_resource(self) -> None:
        self.open_form()
        if self.form is not None:
            self.form.start()

    def close_form(self) -> None:
        """Discard the form with its contents, and show the card."""
        if self.item is not None:
            self._forms.discard(self.item.identity)
            self.form = None
            self.say("")
            self._draw()

    def _hide(self) -> None:
        self.clear()
        self._on_close()

    def say(self, text: str, *, error: bool = False) -> None:
        self.note.value = line(text, error=error)

    def _draw(self) -> None:
        is_resource = self.item is not None and self.item.kind == "resources"
        self.buttons.children = (self.read if is_resource else self.open, self.hide)
        self.widget.children = (self.card, self.buttons, self.note)

    def _leave(self) -> None:
        self.say("")
        if self.form is not None and self.item is not None:
            self._forms.leave(self.item.identity)
        self.form = None

    def close(self) -> None:
        self._forms.close()


def end_of_session(server: str, connection: Connection | None) -> str:
    """Return a line if a server's session is over, with what opens it again; else ""."""
    state = "closed" if connection is None else connection.state
    if state not in ("lost", "closed"):
        return ""
    name = one_line(server, 80)
    return f"The session of `{name}` is {state}; `Connect` in its row or `%mcp reconnect {name}` opens it again."


_PARTS: dict[str, Callable[[str, Any], Part]] = {
    "resources": resource_part,
    "templates": template_part,
    "prompts": prompt_part,
}


def card(connection: Connection, item: Item) -> str:
    if item.kind == "tools":
        tool = item.definition
        trusted, change = connection.spec.trust, connection.change_of(tool)
        return page(
            part.html for part in ToolCard(tool, server=connection.name, trusted=trusted, change=change).parts()
        )
    return page([_PARTS[item.kind](connection.name, item.definition).html])


def line(text: str, *, error: bool = False) -> Markup:
    """Return a line that a screen reader announces when it changes."""
    short = "\n".join(shorten(line, 400) for line in text.splitlines()[:4])
    sign = tag("b", "✗ ") if error and short else ""
    return tag("div", joined([sign, inline(short)]), class_="mcp-explorer-note", role="status")


# The index: every tool, resource, template and prompt as a searchable item.

SEARCHED = 4000  # characters of a description that are searched, so that each keystroke stays fast


class Item(NamedTuple):
    """A tool, resource, template or prompt of a server.

    `key` is its name, URI or URI template; `names` and, with the description, `haystack` are the texts to search.
    """

    kind: str
    server: str
    key: str
    definition: Any
    names: str
    haystack: str

    @property
    def label(self) -> str:
        """The name as a row shows it, with its server where one is typed before it."""
        name = visible(self.key)
        return name if self.kind in ("resources", "templates") else f"{self.server}:{name}"

    @property
    def identity(self) -> Identity:
        """What stays when its definition changes: kind, server and key."""
        return self.kind, self.server, self.key


_KEYS = {"resources": "uri", "templates": "uri_template"}  # kind -> the attribute that identifies an item


def make_item(kind: str, server: str, definition: Any) -> Item:
    key = str(getattr(definition, _KEYS.get(kind, "name")))
    names = "\n".join({f"{server}:{definition.name}", key, definition.title or ""}).casefold()
    description = (definition.description or "")[:SEARCHED].casefold()
    return Item(kind, server, key, definition, names, f"{names}\n{description}")


def search(items: Sequence[Item], text: str) -> list[Item]:
    """Return the items that contain every word of `text`, in any order, matches in their names first."""
    words = text.casefold().split()
    if not words:
        return list(items)
    first, *rest = words
    matches = [item for item in items if first in item.haystack]
    for word in rest:
        matches = [item for item in matches if word in item.haystack]
    return sorted(matches, key=lambda item: not all(word in item.names for word in words))


class Index:
    """The items of all servers, of those too whose session was lost; only changed listings are indexed again."""

    def __init__(self) -> None:
        self._indexed: dict[tuple[str, str], tuple[tuple[Any, ...], list[Item]]] = {}

    def update(self, connections: Iterable[Connection]) -> None:
        before, self._indexed = self._indexed, {}
        for connection in connections:
            for kind in KINDS:
                listing, indexed = connection.catalog.cached(kind), before.get((connection.name, kind))
                if indexed is None or indexed[0] is not listing:
                    indexed = listing, [make_item(kind, connection.name, definition) for definition in listing]
                self._indexed[connection.name, kind] = indexed

    def items(self, kind: str, server: str | None = None) -> Sequence[Item]:
        """Return the items of a kind, of one server or of all."""
        listings = [items for (name, of), (_, items) in self._indexed.items() if of == kind and server in (None, name)]
        return listings[0] if len(listings) == 1 else [item for items in listings for item in items]

    def at(self, identity: Identity) -> Item | None:
        """Return the present item with this identity, or None."""
        kind, server, _ = identity
        return next((item for item in self.items(kind, server) if item.identity == identity), None)


# The explorer's style: sizes and positions only; colours come from the theme.

# The list and the details are cells of one grid that scrolls. Where it is wide, the details stay beside the list while
# the list scrolls. Where it is narrow, they are below the chosen row: rows have even numbers in the order, and the
# details get the odd number after their row (`ORDERS`).
NAME = 60  # most characters of a name in a row: about two lines of its column

ROWS = 25  # items on one page: about a screen. Each item needs three widgets in the browser.

_WIDE = {
    "": "container-type:inline-size",
    ".mcp-explorer-found": f"display:grid;grid-template:repeat({ROWS + 1},auto) 1fr/minmax(0,1fr) minmax(0,1.1fr);"
    "max-height:min(44em,85vh);overflow:auto;align-items:start",
    ".mcp-explorer-found:has(>.mcp-explorer-detail:empty)": "grid-template-columns:minmax(0,1fr)",
    ".mcp-explorer-list,.mcp-explorer-list>.widget-vbox": "display:contents",
    **{f".mcp-explorer-list .mcp-explorer-row:nth-child({n + 1})": f"order:{2 * n}" for n in range(ROWS)},
    ".mcp-explorer-bar": f"order:{2 * ROWS}",
    ".mcp-explorer-detail": f"grid-area:1/2/{ROWS + 3};position:sticky;top:0;max-height:min(44em,85vh);overflow:auto;"
    "min-width:0;margin-left:1em;overflow-wrap:anywhere",
    ".mcp-explorer-detail:empty": "display:none",
    ".mcp-explorer-name": "flex:0 0 auto;width:min(21em,60%);height:auto;min-height:var(--jp-widgets-inline-height);"
    "padding:4px 10px;text-align:left;line-height:1.3;white-space:normal;word-break:break-all",
    ".widget-text>.widget-label": "width:auto;margin:0 8px 0 6px",
    ".mcp-explorer-list .widget-hbox": "align-items:center;flex-wrap:nowrap",
    # Two lines of a description: those of similar tools often differ at their end only.
    ".mcp-explorer-about": "flex:1 1 0;min-width:9em;height:auto",
    ".mcp-explorer-list .mcp-explorer-about": "min-width:0",
    ".mcp-explorer-about .widget-html-content": "min-width:0;white-space:normal;height:auto;line-height:1.3;"
    "overflow-wrap:anywhere",
    ".mcp-explorer-about .mcp-magic": "margin:3px 6px;padding:0;line-height:1.3;overflow:hidden;display:-webkit-box;"
    "-webkit-box-orient:vertical;-webkit-line-clamp:2",
    ".mcp-explorer-card .mcp-magic": "line-height:normal",
    ".mcp-explorer-note": "color:var(--jp-ui-font-color1,inherit);white-space:pre-wrap;padding:0 6px",
}

_NARROW = {
    ".mcp-explorer-found": "grid-template:none/minmax(0,1fr);max-height:none;overflow:visible",
    ".mcp-explorer-detail": "grid-area:auto;position:static;max-height:none;margin:0 0 .6em 1em",
    # What is said of a server is below its name and buttons.
    ".mcp-explorer-servers .mcp-explorer-row": "flex-wrap:wrap",
    ".mcp-explorer-servers .mcp-explorer-name": "flex:1 1 12em;width:auto",
    ".mcp-explorer-servers .mcp-explorer-about": "flex:1 0 100%;order:1",
}
NARROW = "58em"  # width of the explorer up to which the details are below their row


def _rules(rules: Mapping[str, str]) -> str:
    # the class is repeated to outrank the rules of JupyterLab and ipywidgets for the same boxes
    scope = ".mcp-explorer.mcp-explorer"
    return "".join(
        f"{', '.join(f'{scope} {part}'.strip() for part in selector.split(','))}{{{declarations}}}"
        for selector, declarations in rules.items()
    )


EXPLORER_STYLE = f"<style>{_rules(_WIDE)}@container (max-width:{NARROW}){{{_rules(_NARROW)}}}</style>"
"""The style element, sent once with each explorer."""


# Paged lists. Only the rows of one page have widgets, which are refilled for every page and keystroke: ten thousand
# tools need as many widgets as twenty-five.

T = TypeVar("T")


class Pages(Generic[T]):
    """One page of a list, with buttons for the previous and the next page.

    `content` returns what the row of an item shows, `noun` is that of the rows, `on_turn` runs the function that
    turns the page on the right thread, and `on_draw` receives the items of the page whenever it is drawn.
    """

    def __init__(
        self,
        scope: WidgetScope,
        content: Callable[[T], RowContent],
        *,
        size: int,
        noun: str,
        on_turn: Callable[[Callable[[], None]], None],
        on_draw: Callable[[Sequence[T]], None] = lambda items: None,
    ) -> None:
        self._scope, self._content, self._size, self._on_draw = scope, content, size, on_draw
        self._items: Sequence[T] = ()
        self._start = 0
        self._rows: list[Row] = []
        self._note = ""
        self.box = scope.make(ipywidgets.VBox, "")
        self.label = scope.make(ipywidgets.HTML, "label")
        self.previous = scope.button("← Previous", f"the page of {noun} before", lambda: on_turn(lambda: self.turn(-1)))
        self.next = scope.button("Next →", f"the next page of {noun}", lambda: on_turn(lambda: self.turn(1)))
        self.bar = scope.make(ipywidgets.HBox, "line", children=(self.label,), _dom_classes=("mcp-explorer-bar",))
        self.widget = scope.make(ipywidgets.VBox, "", children=(self.box, self.bar))

    @property
    def page(self) -> Sequence[T]:
        return self._items[self._start : self._start + self._size]

    def show(self, items: Sequence[T], note: str, *, from_start: bool) -> None:
        """Show all `items`, and their number in words; not `from_start`, the present page or the last one there is."""
        self._items, self._note = items, note
        last = max(len(items) - 1, 0) // self._size * self._size
        self._start = 0 if from_start else min(self._start, last)
        self.redraw()

    def turn(self, pages: int) -> None:
        start = self._start + pages * self._size
        if 0 <= start < len(self._items):
            self._start = start
            self.redraw()

    def redraw(self) -> None:
        items = self.page
        while len(self._rows) < len(items):
            self._rows.append(Row(self._scope))
        contents = [self._content(item) for item in items]
        names = middle_cuts([content.label for content in contents], NAME)
        for row, content, name in zip(self._rows, contents, names, strict=False):
            row.fill(content, name)
        self.box.children = tuple(row.widget for row in self._rows[: len(items)])
        count, total = len(items), len(self._items)
        range_ = f"{self._start + 1:,}\u2013{self._start + count:,} of " if total > self._size else ""
        self.label.value = tag("div", inline(f"{range_}{self._note}"), class_="mcp-explorer-note", role="status")
        self.previous.disabled = self._start == 0
        self.next.disabled = self._start + count >= total
        self.bar.children = (self.label, self.previous, self.next) if total > self._size else (self.label,)
        self._on_draw(items)

    def close(self) -> None:
        self._items = ()


class RowContent(NamedTuple):
    """What a row shows; a click on its name calls `choose`."""

    label: str
    tooltip: str
    about: Markup
    choose: Callable[[], None]
    is_chosen: bool
    actions: Sequence[tuple[str, str, Callable[[], None]]] = ()  # a button each: label, tooltip and what a click does


class Row:
    """A row of a list: a button with a name, a summary, and buttons for actions."""

    def __init__(self, scope: WidgetScope) -> None:
        self._scope = scope
        self._content: RowContent | None = None
        self._buttons: list[Any] = []
        self._name = scope.make(ipywidgets.Button, "", _dom_classes=("mcp-explorer-name",))
        self._about = scope.make(ipywidgets.HTML, "label", _dom_classes=("mcp-explorer-about",))
        children = (self._name, self._about)
        self.widget = scope.make(ipywidgets.HBox, "line", children=children, _dom_classes=("mcp-explorer-row",))
        self._name.on_click(lambda _: self._content.choose() if self._content is not None else None)

    def fill(self, content: RowContent, name: str) -> None:
        """Show the content, with its label as `name`."""
        self._content = content
        with self._name.hold_sync():
            # a sign besides the colour marks the chosen row
            self._name.description = f"▸ {name}" if content.is_chosen else name
            self._name.tooltip = content.tooltip
            self._name.button_style = "primary" if content.is_chosen else ""
        self._about.value = content.about
        while (number := len(self._buttons)) < len(content.actions):
            self._buttons.append(self._scope.button("", "", partial(self._run, number)))
        buttons = self._buttons[: len(content.actions)]
        for button, (label, tooltip, _) in zip(buttons, content.actions, strict=True):
            with button.hold_sync():
                button.description, button.tooltip = label, tooltip
        self.widget.children = (self._name, self._about, *buttons)

    def _run(self, number: int) -> None:
        if self._content is not None and number < len(self._content.actions):
            self._content.actions[number][2]()


def about(item: Item, connection: Connection | None) -> Markup:
    """Return an item's summary: the hints of a tool, the type of a resource, the start of the description."""
    definition = item.definition
    signs: list[object] = []
    if item.kind == "tools" and connection is not None:
        change = connection.change_of(definition)
        signs += [change.badge] if change is not None else []
        signs += tool_badges(definition, trusted=connection.spec.trust)
    elif item.kind in ("resources", "templates"):
        kind = one_line(f"{item.server}: {definition.mime_type or 'any type'}", 80)
        signs.append(tag("span", kind, class_="mcp-note"))
    description = one_line(definition.description or definition.title or "", 160)
    return tag("div", joined([*signs, inline(description)], " "), class_="mcp-magic")


# The list of servers: their state, and buttons that connect and disconnect them.

SERVER_ROWS = 8  # servers on one page
MAX_ENDS = 3  # most sessions that are over which the list of items names
MAX_UNUSABLE = 3  # most unusable definitions whose reasons a server's row shows
TICK_SECONDS = 1.0  # how often the time of what waits is drawn

SIGNS = {"open": "●", "connecting": "◌", "reconnecting": "◌", "lost": "✗"}
"""State -> a sign before the word, since no colour is used."""

Server = tuple[str, "Spec", "Connection | None"]  # a server's name, its spec, and its connection if it is connected


class Servers:
    """A field that connects a server, and the paged list of servers.

    `connect` opens what is typed into the field. `offered` are the specs of servers that can be connected; a server
    that is disconnected here is added. `on_choose` receives the name of a clicked server, and `say` a line about what
    waits, or the problem when connecting or disconnecting has ended.
    """

    def __init__(
        self,
        scope: WidgetScope,
        loop: LoopRunner,
        host: Host,
        offered: Mapping[str, Spec],
        *,
        connect: Connect,
        on_choose: Callable[[str], None],
        say: Callable[[str, bool], None],
    ) -> None:
        self._loop, self._host, self._connect = loop, host, connect
        self._on_choose, self._say = on_choose, say
        self._pending: dict[str, asyncio.Task[None]] = {}  # by server; "" for the one that is typed
        self._choice: str | None = None
        self.offered = dict(offered)
        self.target = scope.make(
            ipywidgets.Text, "field", description="Connect", placeholder="URL, file or command of a server"
        )
        self._echo = scope.echo(loop.loop)
        on_enter(self.target, self._submit)
        self.button = scope.button("Connect", "connect this server", self._submit)
        line = scope.make(ipywidgets.HBox, "line", children=(self.target, self.button))
        self.pages: Pages[Server] = Pages(scope, self._content, size=SERVER_ROWS, noun="servers", on_turn=loop.soon)
        self.pages.widget.add_class("mcp-explorer-servers")
        self.widget = scope.make(ipywidgets.VBox, "", children=(line, self.pages.widget))

    def draw(self, choice: str | None) -> None:
        """Show the present servers; `choice` names the one whose items are shown."""
        self._choice = choice
        connections = self._host.connections
        servers: list[Server] = [(name, connection.spec, connection) for name, connection in connections.items()]
        servers += [(name, spec, None) for name, spec in self.offered.items() if name not in connections]
        label = plural(len(servers), "servers") if connections else "No server is connected yet."
        self.pages.show(servers, label, from_start=False)
        waits = "" in self._pending
        self.button.description = "Cancel" if waits else "Connect"
        self.button.tooltip = "stop connecting" if waits else "connect this server"

    def _content(self, server: Server) -> RowContent:
        name, spec, connection = server
        label, is_chosen, waits = one_line(name, 80), name == self._choice, name in self._pending
        state = connection.state if connection is not None else "not connected"
        badge = tag("span", "working …" if waits else f"{SIGNS.get(state, '○')} {state}", class_="mcp-badge")
        where = tag("span", one_line(f"{spec.transport} {spec.where}", 120), class_="mcp-note")
        facts = [one_line(spec.isolation, 300)] if isinstance(spec, StdioSpec) else []
        if spec.secret_sources:
            facts.append(one_line(f"secrets: {', '.join(spec.secret_sources)}", 300))
        counts = []
        verb, tooltip = "Connect", f"connect {label}"
        if state == "open":
            verb, tooltip = "Reconnect", f"close the session with {label} and open a new one"
        actions = [(verb, tooltip, partial(self._begin, name, partial(self._open, name)))]
        if connection is not None:
            counts = [plural(count, kind) for kind in KINDS if (count := len(connection.catalog.cached(kind)))]
            unusable = [item for kind in KINDS for item in connection.catalog.unusable.get(kind, {}).items()]
            if unusable:
                reasons = "; ".join(f"{item}: {reason}" for item, reason in unusable[:MAX_UNUSABLE])
                counts.append(one_line(f"{len(unusable):,} unusable ({reasons})", 300))
            end = partial(self._begin, name, partial(self._end, name))
            actions.append(("Disconnect", f"close the session with {label}", end))
        if waits:
            actions = [("Cancel", f"stop waiting for {label}", partial(self._cancel, name))]
        return RowContent(
            label,
            f"show all servers, not only {label}" if is_chosen else f"show only {label}",
            tag(
                "div",
                joined([badge, where, " · ".join(filter(None, [*facts, ", ".join(counts)]))], " "),
                class_="mcp-magic",
            ),
            partial(self._loop.soon, partial(self._on_choose, name)),
            is_chosen,
            actions,
        )

    def _submit(self) -> None:
        if "" in self._pending:
            self._cancel("")
        else:
            self._echo.then(self._connect_target)

    def _connect_target(self) -> None:
        target = self.target.value.strip()

        async def connect() -> None:
            await self._connect(target)
            self.target.value = ""

        if target:
            self._begin("", connect)

    def _begin(self, server: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        def begin() -> None:
            task = self._loop.start(work()) if server not in self._pending else None
            if task is not None:
                self._pending[server] = task
                self.draw(self._choice)
                self._loop.start(self._follow(server, task))

        self._loop.soon(begin)

    def _cancel(self, server: str) -> None:
        def cancel() -> None:
            if server in self._pending:
                self._pending[server].cancel()

        self._loop.soon(cancel)

    async def _follow(self, server: str, task: asyncio.Task[None]) -> None:
        """Say what waits and how long, until it has ended, and then its problem."""
        name, started = one_line(server or self.target.value, 80), time.perf_counter()
        while not task.done():
            self._say(f"{name} · {duration(time.perf_counter() - started)}", False)
            await asyncio.wait({task}, timeout=TICK_SECONDS)
        del self._pending[server]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, MCPMagicError):
            raise error
        self._say(str(error or ""), True)
        self.draw(self._choice)

    async def _open(self, server: str) -> None:
        if server in self._host:
            await self._host.reconnect(server)
        else:
            await self._host.connect_spec(self.offered[server], server)

    async def _end(self, server: str) -> None:
        self.offered[server] = self._host[server].spec
        await self._host.disconnect(server)


# The explorer itself.

SETTLE_SECONDS = 0.05
"""Seconds from the first of several changes until all are drawn at once; fifty servers may connect together."""


class Filter:
    """The text to search and the kind of the items; `on_change` is called when the user changes either."""

    def __init__(self, scope: WidgetScope, on_change: Callable[[], None]) -> None:
        hint = "words of a name, title or description"
        self.search = scope.make(
            ipywidgets.Text, "field", description="Search", placeholder=hint, continuous_update=True
        )
        self.kinds = scope.make(ipywidgets.ToggleButtons, "", options=[(kind, kind) for kind in KINDS])
        self.kinds.style.button_width = "auto"
        self._is_drawing = False
        for widget in (self.search, self.kinds):
            widget.observe(lambda _: None if self._is_drawing else on_change(), "value")

    @property
    def text(self) -> str:
        return str(self.search.value)

    @property
    def kind(self) -> str:
        """The kind of the items: "tools", "resources", "templates" or "prompts"."""
        return str(self.kinds.value)

    def count(self, counts: Mapping[str, int]) -> None:
        options = [(f"{kind} ({count:,})", kind) for kind, count in counts.items()]
        if options != list(self.kinds.options):
            self._is_drawing, kind = True, self.kind
            with self.kinds.hold_sync():  # setting the options selects the first one
                self.kinds.options = options
                self.kinds.value = kind
            self._is_drawing = False


class Explorer:
    """All servers with their state and everything they offer, with cards and forms.

    At first it shows only `server`; an unknown one raises UnknownServerError. `offered` are servers that are not
    connected but can be, and `connect` opens one that is typed. `timeout` returns the deadline of a form's request in
    seconds, when the form is opened, and `save` assigns a result to a variable.
    """

    def __init__(
        self,
        host: Host,
        server: str | None = None,
        *,
        offered: Mapping[str, Spec] | None = None,
        timeout: Callable[[], float | None] = lambda: None,
        connect: Connect | None = None,
        save: Save | None = None,
    ) -> None:
        if server is not None:
            host[server]  # raises an error that lists the known servers
        self.host, self.server = host, server
        self.closed = False
        self._index = Index()
        self._scope, self._loop = WidgetScope(), LoopRunner()

        def make_form(connection: Connection, definition: Any) -> RequestForm:
            from mcp_magic.ui.request_form import RequestForm

            return RequestForm(connection, definition, timeout=timeout(), save=save)

        self.detail = Detail(self._scope, self._loop, make_form, on_close=lambda: self.items.redraw())
        self.servers = Servers(
            self._scope,
            self._loop,
            host,
            offered or {},
            connect=connect or host.connect,
            on_choose=lambda name: self.only(None if self.server == name else name),
            say=self._say,
        )
        self._build()
        self._stop = host.watch(lambda name: self._loop.once(self.update, SETTLE_SECONDS))
        self.update()

    def _build(self) -> None:
        make, soon = self._scope.make, self._loop.soon
        self.filter = Filter(self._scope, partial(soon, self._search))
        tooltip = "ask the servers again what they offer"
        self.refresh_button = self._scope.button("Refresh", tooltip, lambda: soon(self.refresh))
        self.status = make(ipywidgets.HTML, "label")
        self.items: Pages[Item] = Pages(
            self._scope, self._content, size=ROWS, noun="results", on_turn=soon, on_draw=self._place_detail
        )
        self.items.widget.add_class("mcp-explorer-list")
        vbox, hbox = ipywidgets.VBox, ipywidgets.HBox
        style = make(ipywidgets.HTML, "label", value=STYLE + FORM_STYLE + EXPLORER_STYLE)
        grid = make(hbox, "", children=(self.items.widget, self.detail.widget), _dom_classes=("mcp-explorer-found",))
        tools = make(hbox, "line", children=(self.filter.search, self.filter.kinds, self.refresh_button))
        self._questions = make(vbox, "")
        parts = (style, self._questions, self.servers.widget, self.status, tools, grid)
        self.widget = make(vbox, "", children=parts, _dom_classes=("mcp-explorer",))

    @property
    def matches(self) -> Sequence[Item]:
        """The items that match the search, on all pages."""
        return search(self._index.items(self.filter.kind, self.server), self.filter.text)

    def update(self) -> None:
        """Draw the host's present state; called whenever it changes."""
        if self.closed:
            return
        connections = self.host.connections
        if self.server is not None and self.server not in {*connections, *self.servers.offered}:
            self.server = None
        self._index.update(connections.values())
        self.servers.draw(self.server)
        self._draw_items(from_start=False)
        item = self.detail.item
        if item is not None:
            self.detail.update(connections.get(item.server), self._index.at(item.identity))

    def _draw_items(self, *, from_start: bool) -> None:
        self.filter.count({kind: len(self._index.items(kind, self.server)) for kind in KINDS})
        kind, matches = self.filter.kind, self.matches
        total = len(self._index.items(kind, self.server))
        note = f"{plural(total, kind)}{f' of {self.server}' if self.server is not None else ''}"
        if text := one_line(self.filter.text, 60):
            note = f"{len(matches):,} of {note}" if matches else self._no_match(text, note)
        connections = self.host.connections.items()
        ends = [end_of_session(name, connection) for name, connection in connections if self.server in (None, name)]
        ends = [end for end in ends if end]
        lines = [note, *ends[:MAX_ENDS]]
        if len(ends) > MAX_ENDS:
            lines.append(f"{len(ends) - MAX_ENDS:,} more sessions are over.")
        self.items.show(matches, "\n".join(lines), from_start=from_start)

    def _no_match(self, text: str, note: str) -> str:
        """Say what was searched, which other kinds match, and how to see everything again."""
        counts = {kind: len(search(self._index.items(kind, self.server), text)) for kind in KINDS}
        others = ", ".join(plural(count, kind) for kind, count in counts.items() if count)
        elsewhere = f" It matches {others}." if others else ""
        return (
            f"0 of {note}: no name, title or description has all words of {text!r}.{elsewhere} "
            "Delete the text in Search to see all."
        )

    def _search(self) -> None:
        if not self.closed:
            self._draw_items(from_start=True)

    def _place_detail(self, items: Sequence[Item]) -> None:
        """Put the details below the chosen row, for a narrow page; above all rows if it is not on this page."""
        row = next((row for row, item in enumerate(items) if self._is_chosen(item)), -1)
        self.detail.widget.layout.order = str(2 * row + 1)

    def _is_chosen(self, item: Item) -> bool:
        return self.detail.item is not None and self.detail.item.identity == item.identity

    def _content(self, item: Item) -> RowContent:
        tooltip = one_line(f"show {item.label} {item.definition.title or ''}", 300)
        summary = about(item, self.host.connections.get(item.server))
        choose = partial(self._loop.soon, partial(self.choose, item))
        is_only_server = self.server is not None or len(self.host.connections) == 1
        label = visible(item.key) if is_only_server else item.label
        return RowContent(label, tooltip, summary, choose, self._is_chosen(item))

    def choose(self, item: Item) -> None:
        """Show an item's card; nothing changes if the item is already shown."""
        connection = self.host.connections.get(item.server)
        if connection is None or self._is_chosen(item):
            return
        self.detail.show(connection, item)
        self.detail.update(connection, item)  # which says so if the session is over
        self.items.redraw()

    def only(self, server: str | None) -> None:
        """Show the items of one server, or of all if None."""
        self.server = server
        self.servers.draw(self.server)
        self._draw_items(from_start=True)

    def refresh(self) -> None:
        """Ask all open servers again for their listings."""
        self._loop.start(self._refresh())

    async def _refresh(self) -> None:
        self.refresh_button.disabled = True
        self._say("asking the servers …", False)
        requests = [c.listing(kind, refresh=True) for c in self.host.find() for kind in KINDS]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        self._say("\n".join(dict.fromkeys(str(answer) for answer in answers if isinstance(answer, Exception))), True)
        self.refresh_button.disabled = False

    def _say(self, text: str, is_error: bool) -> None:
        self.status.value = line(text, error=is_error)
        if is_error:
            self.update()  # not later: what was clicked has ended

    def show_questions(self, widget: Any) -> None:
        """Show a widget with questions above the servers. Idempotent."""
        if not self.closed and widget not in self._questions.children:
            self._questions.children = (*self._questions.children, widget)

    def hide_questions(self, widget: Any) -> None:
        """Show it no more. Idempotent."""
        if not self.closed:
            self._questions.children = tuple(child for child in self._questions.children if child is not widget)

    def say(self, text: str) -> None:
        """Show a text below the servers until another one."""
        if not self.closed:
            self._say(text, False)

    async def wait(self) -> None:
        """Wait until all clicks are handled."""
        await self._loop.finished()

    def close(self) -> None:
        """Close every comm, stop following the servers, and let their items go. Idempotent."""
        self.closed = True
        self._stop()
        self._loop.end()
        self.detail.close()
        self.items.close()
        self._index = Index()
        self._scope.close()

    def __repr__(self) -> str:
        return f"<Explorer of {plural(len(self.host), 'servers')}{' (closed)' if self.closed else ''}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        rows = [connection.info().row() for connection in self.host.connections.values()]
        note = "%mcp ui explores them where a kernel runs"
        static = Listing(rows, title="MCP servers", empty="no server is connected", note=note, kind="servers")
        live = {} if self.closed else widget_view(self.widget)
        return only({**live, **mimebundle(static)}, include, exclude)
