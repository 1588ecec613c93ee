"""What the kernel offers of its sessions: tools and prompts as `SERVER__NAME`, resources by their URIs.

Tools for apps only are left out, as for the agent of the notebook: a model never gets one.
A listing is answered from what the sessions have listed last, also while the kernel runs a cell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any

from mcp_magic._host import OFFERING, owner_of
from mcp_magic._text import join_names, json_text
from mcp_magic.apps.view import view_uri
from mcp_magic.display.document import app_only
from mcp_magic.display.text import one_line
from mcp_magic.errors import AmbiguousNameError, NotFoundError, UnknownResourceError
from mcp_magic.langchain.names import Names
from mcp_magic.outside.runtime import KERNEL
from mcp_magic.session.catalog import KINDS
from mcp_magic.values.schemas import HEADER_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.session.connection import Connection

    Listing = tuple[tuple[Connection, tuple[Any, ...]], ...]

JOINT = "__"  # between a server's name and that of a resource

_VIEW = "ui://"  # begins the URI of a view


@dataclass
class Item:
    """A tool, prompt, resource or template of a session, and its name or URI for the clients of the kernel.

    Attributes:
        view: The URI of a tool's view for the clients; "" if it has none.
    """

    connection: Connection
    definition: Any
    name: str
    view: str = ""

    @cached_property
    def has_header(self) -> bool:
        """Whether an argument of the tool is sent in a header of HTTP, too."""
        return HEADER_MARK in json_text(self.definition.input_schema)


def _offering(connections: Iterable[Connection]) -> list[Connection]:
    """Return the sessions that offer something, without those with kernels: one that offers itself would never end."""
    sessions = [connection for connection in connections if connection.state in OFFERING]
    return [s for s in sessions if s.server_info is None or (s.server_info.name, s.server_info.title) != KERNEL]


class Offer:
    """What some sessions offered when this was made, by kind (`session.catalog.KINDS`)."""

    def __init__(self, connections: Iterable[Connection]) -> None:
        sessions = _offering(connections)
        self._sessions = {connection.name: connection for connection in sessions}
        self._listings = {kind: _listing(sessions, kind) for kind in KINDS}

    @cached_property
    def tools(self) -> dict[str, Item]:
        """The tools that are for models, by their names for clients."""
        listing = self._listings["tools"]
        tools = _by_name(tuple((session, tuple(t for t in items if not app_only(t))) for session, items in listing))
        uris = {(item.connection.name, str(item.definition.uri)): uri for uri, item in self.resources.items()}
        for item in tools.values():
            if uri := view_uri(item.definition):
                server = item.connection.name
                item.view = uris.get((server, uri), _joined(server, uri))  # a server need not list its views
        return tools

    @cached_property
    def prompts(self) -> dict[str, Item]:
        """The prompts, by their names for clients."""
        return _by_name(self._listings["prompts"])

    @cached_property
    def resources(self) -> dict[str, Item]:
        """The resources, by their URIs for clients."""
        return _by_uri(self._listings["resources"], "uri")

    @cached_property
    def templates(self) -> dict[str, Item]:
        """The templates of resources, by what clients know them by."""
        return _by_uri(self._listings["templates"], "uri_template")

    def renewed(self, connections: Iterable[Connection]) -> Offer:
        """Return what the sessions offer now: this one if nothing has changed."""
        sessions = _offering(connections)
        same = len(sessions) == len(self._sessions) and all(map(is_, sessions, self._sessions.values()))
        if same and all(_is_listed(listing, kind) for kind, listing in self._listings.items()):
            return self
        return Offer(sessions)

    def kinds_changed(self, before: Offer) -> list[str]:
        """Return the kinds of listings that differ from those of an offer before this one."""
        listings = before.of_kinds
        return [kind for kind, listing in self._listings.items() if not _same(listing, listings[kind])]

    @property
    def of_kinds(self) -> dict[str, Listing]:
        """The sessions and what they have listed last, by kind."""
        return self._listings

    def owner(self, uri: str) -> tuple[Connection, str]:
        """Return the session of a URI as clients know it, and the URI as the server knows it.

        Raises:
            UnknownResourceError: No server has it, or several may have it.
        """
        if (item := self.resources.get(uri)) is not None:
            return item.connection, str(item.definition.uri)
        server, own = _split(uri)
        if server in self._sessions:
            return self._sessions[server], own
        text = one_line(uri, 200)
        try:
            return owner_of(uri, list(self._sessions.values())), uri
        except AmbiguousNameError:
            able = [s.name for s in self._sessions.values() if s.capabilities and s.capabilities.resources is not None]
            problem = f"{text!r} could be on {join_names(able)}: `{able[0]}+{text}` asks {able[0]}"
        except NotFoundError:
            problem = f"no server here has a resource {text!r}; resources/list names them"
        raise UnknownResourceError(problem)

    def template(self, uri: str) -> tuple[Connection, str] | None:
        """Return the session of a template as clients know it, and the template as the server knows it."""
        item = self.templates.get(uri)
        return None if item is None else (item.connection, str(item.definition.uri_template))


def _listing(sessions: Iterable[Connection], kind: str) -> Listing:
    return tuple((connection, connection.catalog.cached(kind)) for connection in sessions)


def _is_listed(listing: Listing, kind: str) -> bool:
    """Whether sessions have not listed anything else since."""
    return all(connection.catalog.cached(kind) is items for connection, items in listing)


def _same(first: Listing, second: Listing) -> bool:
    return len(first) == len(second) and all(a is c and b is d for (a, b), (c, d) in zip(first, second, strict=True))


def _by_name(listing: Listing) -> dict[str, Item]:
    """Return the definitions by their names for clients."""
    entries = {(connection.name, item.name): (connection, item) for connection, items in listing for item in items}
    names = Names(entries)
    return {names.provider(*pair): Item(*entry, names.provider(*pair)) for pair, entry in entries.items()}


def _joined(server: str, uri: str) -> str:
    """Return `SERVER+URI`; the URI of a view stays one, or hosts would refuse it.

    >>> _joined("one", "file:///a"), _joined("one", "ui://a")
    ('one+file:///a', 'ui://one+a')
    """
    scheme = _VIEW if uri.startswith(_VIEW) else ""
    return f"{scheme}{server}+{uri.removeprefix(scheme)}"


def _split(uri: str) -> tuple[str, str]:
    """Return the server and the URI of what `_joined` has made; "" if there is no server.

    >>> _split("one+file:///a"), _split("ui://one+a"), _split("ui://a")
    (('one', 'file:///a'), ('one', 'ui://a'), ('', 'ui://a'))
    """
    scheme = _VIEW if uri.startswith(_VIEW) else ""
    server, plus, rest = uri.removeprefix(scheme).partition("+")
    return (server, f"{scheme}{rest}") if plus else ("", uri)


def _by_uri(listing: Listing, member: str) -> dict[str, Item]:
    """Return the definitions by their URIs: as they are if no other server has the same, else as `SERVER+URI`.

    One that looks like that gets a server, too, or it could be equal to that of another.
    """
    entries = {
        (connection.name, str(getattr(item, member))): (connection, item)
        for connection, items in listing
        for item in items
    }
    holders = Counter(uri for _, uri in entries)
    servers = {connection.name for connection, _ in listing}
    names = {
        (server, uri): uri if holders[uri] == 1 and _split(uri)[0] not in servers else _joined(server, uri)
        for server, uri in entries
    }
    return {names[pair]: Item(*entry, names[pair]) for pair, entry in entries.items()}
