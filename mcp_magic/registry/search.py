"""A search of a registry: what matches, in a useful order, as a table.

A registry searches names, newer ones descriptions too, and by one text only. So it is asked for the longest word, and
all words and filters are applied here. Pages are read until there are as many matches as asked for: of ten thousand
servers, those that are shown.
"""

from __future__ import annotations

import re
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean, duration, plural
from mcp_magic.config.masking import mask_url
from mcp_magic.display.document import Problem, Whole
from mcp_magic.display.listing import LazyRows, Listing
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError, ConfigError, RegistryError
from mcp_magic.flight.request import InFlightRequest, Look
from mcp_magic.registry.cache import names_in
from mcp_magic.registry.client import MAX_PAGES, OFFICIAL_REGISTRY, PAGE, RegistryClient, registry_address
from mcp_magic.registry.entry import STATUSES, read_entry
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.flight.progress import Reports
    from mcp_magic.registry.entry import RegistryEntry

LIMIT = 100  # matches without another limit
MAX_LIMIT = MAX_PAGES * PAGE

TRANSPORT_TYPES = {"stdio": "stdio", "http": "streamable-http", "sse": "sse"}
"""The transports, as they are typed, and their types in `server.json`."""
SHORT = {kind: name for name, kind in TRANSPORT_TYPES.items()}

_CACHED = 10_000  # most entries of the cache that are searched
_DESCRIPTION = 300  # characters; the official registry has 100
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.+~-]*(?:/[\w.+~-]+)*", re.ASCII)
_NOTED = 3  # entries that a note names
_COLUMNS = ("name", "version", "offers", "updated", "status", "description")


@dataclass(frozen=True)
class Query:
    """What is searched for.

    Attributes:
        words: All of them must be in the name, the title or the description.
        transport: One of TRANSPORT_TYPES that a package or a remote must have, or "".
        package: The type of a package that it must have, or "".
        every: Whether deleted entries and older versions count, too.
        limit: The most matches.

    Raises:
        ArgumentsError: A filter is unknown.
    """

    words: tuple[str, ...] = ()
    transport: str = ""
    package: str = ""
    every: bool = False
    limit: int = LIMIT

    def __post_init__(self) -> None:
        if self.transport and self.transport not in TRANSPORT_TYPES:
            raise ArgumentsError(f"transport={self.transport!r}: one of {', '.join(TRANSPORT_TYPES)} is expected")
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ArgumentsError(f"limit={self.limit}: 1 to {MAX_LIMIT:,} are expected")

    @property
    def text(self) -> str:
        """The words, in quotes; "" without any."""
        return repr(" ".join(self.words)) if self.words else ""

    @property
    def parameters(self) -> dict[str, str]:
        """What the registry is asked for."""
        parameters = {"limit": str(PAGE)}  # also for fewer: the best of a page are shown
        if self.words:
            parameters["search"] = max(self.words, key=len)
        return parameters | ({"include_deleted": "true"} if self.every else {"version": "latest"})

    def matches(self, entry: RegistryEntry) -> bool:
        """Whether an entry has all words, and what is asked for."""
        text = f"{entry.name}\n{entry.title}\n{entry.description}".casefold()
        return all(word.casefold() in text for word in self.words) and self._fits(entry)

    def _fits(self, entry: RegistryEntry) -> bool:
        kind = TRANSPORT_TYPES.get(self.transport)
        packages = [package for package in entry.packages if self.package in ("", package.registry_type)]
        if self.package:
            return any(kind in (None, package.transport.type) for package in packages)
        return kind is None or any(kind == part.type for part in (*entry.remotes, *(p.transport for p in packages)))

    def rank(self, entry: RegistryEntry) -> int:
        """Return how well an entry matches; 0 is best."""
        last = entry.name.casefold().rpartition("/")[2]
        words = [word.casefold() for word in self.words]
        places = (
            last in words,
            any(last.startswith(word) for word in words),
            any(word in last for word in words),
            any(word in entry.name.casefold() for word in words),
        )
        return next((number for number, is_there in enumerate(places) if is_there), len(places))


@dataclass
class _Matches:
    """The entries that match so far, by name and version."""

    query: Query
    entries: dict[tuple[str, str], RegistryEntry] = field(default_factory=dict)
    deleted: int = 0  # that are left out
    read: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        self.read += 1
        entry = read_entry(value)
        if not entry.name:
            self.problems.append(f"entry {self.read}: {_plain('; '.join(entry.remarks), 200)}")
            return
        if not self.query.matches(entry):
            return
        if entry.status == "deleted" and not self.query.every:
            self.deleted += 1
            return
        if entry.remarks:
            self.problems.append(f"{_plain(entry.name, 80)}: {_plain('; '.join(entry.remarks), 200)}")
        key = (entry.name, entry.version if self.query.every else "")
        if key not in self.entries or _is_newer(entry, self.entries[key]):
            self.entries[key] = entry

    def sorted(self) -> list[RegistryEntry]:
        """Return the entries, the best first."""
        entries = sorted(self.entries.values(), key=lambda entry: entry.name)
        entries.sort(key=lambda entry: entry.updated or entry.published, reverse=True)
        if self.query.every:
            entries.sort(key=lambda entry: entry.name)
        ranks = {status: rank for rank, status in enumerate(STATUSES)}
        entries.sort(key=lambda entry: (ranks.get(entry.status, 0), self.query.rank(entry)))
        return entries[: self.query.limit]


def _is_newer(entry: RegistryEntry, other: RegistryEntry) -> bool:
    if entry.latest is not None and other.latest is not None and entry.latest != other.latest:
        return entry.latest
    return (entry.published or entry.updated) > (other.published or other.updated)


async def search_registry(
    query: Query,
    registry: str = OFFICIAL_REGISTRY,
    *,
    usual: str = "",
    refresh: bool = False,
    timeout: float | None = None,
    reports: Reports | None = None,
) -> Listing:
    """Search a registry, and return a row for each server that matches.

    Where the registry cannot be reached, what the cache has is searched.

    Args:
        query: What is searched for.
        registry: The address of the registry.
        usual: The address that lines without one ask; by default this one.
        refresh: Whether the registry is asked also where the cache has a fresh answer.
        timeout: Seconds for each answer.
        reports: Where it is shown while it runs.

    Raises:
        ConfigError: The address cannot be used.
        RegistryError: The registry does not answer, and nothing of it is in the cache.
    """
    client = RegistryClient(registry, refresh=refresh, timeout=timeout)
    matches = _Matches(query)

    def under_way() -> str:
        return f"{plural(matches.read, 'entries')} read" if matches.read else ""

    with InFlightRequest(f"find at {client.place}", client.place, reports, look=Look(detail=under_way)):
        try:
            more = await _read_pages(client, query, matches)
        except RegistryError as error:
            more = False
            client.notes.append(_read_cache(client, query, matches, error))
    return _listing(client, query, matches, more, _option(client.address, usual))


async def _read_pages(client: RegistryClient, query: Query, matches: _Matches) -> bool:
    """Read pages until there are enough matches; return whether there may be more."""
    async with aclosing(client.pages(**query.parameters)) as pages:
        async for page in pages:
            for value in page.servers[: MAX_LIMIT - matches.read]:
                matches.add(value)
            if matches.read >= MAX_LIMIT:
                client.notes.append(f"only the first {MAX_LIMIT:,} entries were read")
                return False
            if len(matches.entries) >= query.limit:
                return bool(page.cursor) or len(matches.entries) > query.limit
    return False


def _read_cache(client: RegistryClient, query: Query, matches: _Matches, error: RegistryError) -> str:
    """Search all that the cache has; return what is to be said about it. Raises the error if it has nothing."""
    oldest = 0.0
    for value, age in client.cached():
        oldest = max(oldest, age)
        matches.add(value)
        if matches.read >= _CACHED:
            break
    if not matches.read:
        raise RegistryError(
            f"{error} Nothing of it is in the cache; `--registry URL` asks another, and "
            "`%mcp connect -- COMMAND` needs none.",
            error.status,
            error.retry_after,
        ) from None
    return f"only from the cache, up to {duration(round(oldest))} old: {error}"


def _option(address: str, usual: str) -> str:
    """Return the option that names a registry, if lines need one; its credentials are not written out."""
    with suppress(ConfigError):
        if not usual or registry_address(usual) == address:
            return ""
    return f" --registry {as_word(address) if mask_url(address) == address else 'URL'}"


def _listing(client: RegistryClient, query: Query, matches: _Matches, more: bool, option: str) -> Listing:
    entries = matches.sorted()
    title = f"Servers of {client.place}" + (f" with {query.text}" if query.words else "")
    notes = []
    if entries:
        name = next((entry.name for entry in entries[:1] if is_plain_name(entry.name)), "NAME")
        notes.append(f"`%mcp add {name}{option}` shows what would run, and asks before it does; nothing was started")
    if more:
        notes.append(f"there are more: `--limit {min(2 * query.limit, MAX_LIMIT)}`, or another word")
    if matches.deleted:
        notes.append(f"{plural(matches.deleted, 'deleted servers')} left out: `--all` has deleted and older ones")
    messages = [entry for entry in entries if entry.status_message]
    notes += [
        f"{_plain(e.name, 80)} is {_plain(e.status, 40)}: {_plain(e.status_message, 200)}" for e in messages[:_NOTED]
    ]
    notes += client.notes
    if matches.problems:
        rest = len(matches.problems) - _NOTED
        odd = "; ".join(matches.problems[:_NOTED]) + (f"; {rest:,} more" if rest > 0 else "")
        notes.append(f"{plural(len(matches.problems), 'odd entries')}: {odd}")
    filters = [f"--{name} {value}" for name in ("transport", "package") if (value := getattr(query, name))]
    empty = f"{client.place} has no server"
    empty += f" with {query.text} in name, title or description" if query.words else ""
    empty += f" and {' '.join(filters)}" if filters else ""
    rows = LazyRows([(_row, entries)])
    return Listing(rows, title=title, columns=_COLUMNS, empty=empty, note="\n".join(notes), kind="servers")


def _plain(text: str, limit: int) -> str:
    """Return a publisher's text for a note, without backticks: what stands between them is a line to type."""
    return one_line(text, limit).replace("`", "'")


def is_plain_name(name: str) -> bool:
    """Whether a name of a server can be proposed as a word to type.

    >>> is_plain_name("io.github.acme/postgres"), is_plain_name("x; rm"), is_plain_name("--help")
    (True, False, False)
    """
    return _PLAIN_NAME.fullmatch(name) is not None


def _row(entry: RegistryEntry) -> dict[str, Any]:
    status = one_line(entry.status, 40)
    return {
        "name": clean(entry.name),  # pandas takes no lone surrogates
        "version": clean(entry.version),
        "offers": _offers(entry),
        "updated": clean((entry.updated or entry.published)[:10]),
        "status": status if status == "active" else Problem(status),
        "description": Whole(one_line(entry.description or entry.title, _DESCRIPTION)),
    }


def _offers(entry: RegistryEntry) -> str:
    """Return the types of an entry's packages, with their transport if that is not stdio, and those of its remotes.

    >>> _offers(read_entry({"remotes": [{"type": "sse", "url": "https://example.com/sse"}]}))
    'sse'
    """
    packages = [
        package.registry_type + ("" if package.transport.type == "stdio" else f" ({SHORT[package.transport.type]})")
        for package in entry.packages
    ]
    remotes = [SHORT[remote.type] for remote in entry.remotes]
    return one_line(", ".join(dict.fromkeys([*packages, *remotes])), 120)


def cached_names(registry: str, limit: int) -> Iterator[str]:
    """Yield plain names of the servers of a registry that are in the cache, from its newest `limit` pages."""
    client = RegistryClient(registry)
    for answer in client.cache.pages(limit):
        yield from filter(is_plain_name, names_in(answer.value))
