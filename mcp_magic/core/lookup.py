"""Names: who offers a tool, who serves a URI."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import (
    AmbiguousNameError,
    UnknownPromptError,
    UnknownResourceError,
    UnknownServerError,
    UnknownToolError,
    did_you_mean,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_magic.core.connection import Connection

__all__ = ["OFFERING", "elsewhere", "fits_template", "no_server", "numbered", "offered", "owner_of", "pick"]

OFFERING = ("open", "reconnecting")
"""States of the sessions that count where a name is looked for."""


def numbered(name: str, base: str) -> bool:
    """Whether `name` is `base` with the number that makes it unique.

    >>> numbered("math_2", "math"), numbered("mathematics", "math")
    (True, False)
    """
    return re.fullmatch(re.escape(base) + r"_\d+", name) is not None


def no_server(name: str, connected: Iterable[str]) -> str:
    """Say that no session has this name, and which there are.

    >>> no_server("waether", ["weather"])
    "no server 'waether'. Did you mean 'weather'? Connected: weather"
    """
    names = list(connected)
    if not names:
        return f"no server is connected, so there is no {name!r}; `%mcp connect TARGET` opens one"
    return f"no server {name!r}.{did_you_mean(name, names)} Connected: {listed(names)}"


def pick(
    name: str,
    kind: str,
    offered: Mapping[str, Sequence[Any]],
    servers: Iterable[str],
    elsewhere: str = "",
) -> tuple[str, Any]:
    """Find who offers `name`.

    Args:
        name: As typed, without a server or with one that is not connected.
        kind: `"tools"` or `"prompts"`.
        offered: By server what it lists.
        servers: The names of all servers.
        elsewhere: Who else may have what nobody offers.

    Returns:
        The server's name and the definition.
    """
    found = [(server, item) for server, items in offered.items() for item in items if item.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        choices = listed(f"{server}:{name}" for server, _ in found)
        raise AmbiguousNameError(f"{len(found)} servers have {name!r}; say which: {choices}")
    prefix, colon, rest = name.partition(":")
    what = kind.rstrip("s")
    everything = [f"{server}:{item.name}" for server, items in offered.items() for item in items]
    if colon and not any(prefix == item.partition(":")[0] for item in (i.name for v in offered.values() for i in v)):
        near = did_you_mean(prefix, servers)
        raise UnknownServerError(f"no server {prefix!r} for the {what} {rest!r}.{near} Connected: {listed(servers)}")
    bare = {item.name: f"{server}:{item.name}" for server, items in offered.items() for item in items}
    near = did_you_mean(name, [*bare, *everything])
    error = UnknownToolError if kind == "tools" else UnknownPromptError
    if name in servers:
        raise error(
            f"{name!r} is a server; its {kind} are {name}:NAME: {listed(i.name for i in offered.get(name, ()))}"
        )
    if elsewhere:
        raise error(f"no open session has a {what} {name!r}.{elsewhere}")
    raise error(f"no server has a {what} {name!r}.{near} `%mcp {kind}` lists them.")


async def offered(connections: Iterable[Connection], kind: str, name: str) -> dict[str, Sequence[Any]]:
    """Return by server what it lists, asked once more where nobody lists `name`; who cannot list is left out."""
    asked = list(connections)
    listings = await asyncio.gather(*(one.listing(kind) for one in asked), return_exceptions=True)
    found = {one: items for one, items in zip(asked, listings, strict=True) if isinstance(items, tuple)}
    if not any(item.name == name for items in found.values() for item in items):
        await asyncio.gather(*(one.look_again(kind) for one in found))
        found = {one: one.catalog.cached(kind) for one in found}
    return {one.name: items for one, items in found.items()}


def elsewhere(name: str, kind: str, connections: Iterable[Connection]) -> str:
    """Say which sessions may have a tool (or prompt) that none offers: those that had it, those that cannot list."""
    lost, silent = "", ""
    for one in connections:
        if one.state not in OFFERING:
            has = any(item.name == name for item in one.catalog.cached(kind))
            lost += f" {one.name} ({one.state}) has it: `%mcp reconnect {one.name}`" if has else ""
        elif problem := one.catalog.problems.get(kind):
            why = problem.removeprefix(f"{one.name}: {kind}: ")
            silent += f"\n  {one.name} may have it, but its {kind} could not be listed: {why}"
    return lost + silent


def owner_of(uri: str, connections: Sequence[Connection]) -> Connection:
    """Find the server of a resource: the one that lists it, else the one whose template matches, else the only one.

    Raises:
        UnknownResourceError: No server or more than one could have it.
    """
    listing = [c for c in connections if any(str(r.uri) == uri for r in c.catalog.cached("resources"))]
    matching = [
        c for c in connections if any(fits_template(uri, t.uri_template) for t in c.catalog.cached("templates"))
    ]
    able = [c for c in connections if c.capabilities is not None and c.capabilities.resources is not None]
    near = did_you_mean(uri, [str(r.uri) for c in connections for r in c.catalog.cached("resources")])
    for candidates in (listing, matching, able):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = listed(c.name for c in candidates)
            known = f"{uri!r} may be of {names}" if candidates is not able else f"no server lists {uri!r}.{near} It"
            asked = "" if candidates is not able else f" may be of {names} all the same"
            raise AmbiguousNameError(f"{known}{asked}; say which with --server NAME")
    raise UnknownResourceError(f"no connected server has resources, so {uri!r} cannot be read.{near}")


def fits_template(uri: str, template: str) -> bool:
    """Return whether a URI is one of an RFC 6570 template.

    Where the SDK cannot match a template (`{name:3}`, `{?name*}`, `{a}{b}`), what stands before its variables decides.

    >>> fits_template("math://table/7", "math://table/{n}"), fits_template("math://table/7/8", "math://table/{n}")
    (True, False)
    >>> fits_template("file:///a/b.txt", "file:///{+path}.txt"), fits_template("geo://osl", "geo://{city:3}")
    (True, True)
    """
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    if not uri.startswith(template.partition("{")[0]):
        return False
    try:
        return UriTemplate.parse(template).match(uri) is not None
    except InvalidUriTemplate:
        return True
