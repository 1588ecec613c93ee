"""A client of the API by which registries of MCP servers are read: lists in pages, the versions of a server.

Source: modelcontextprotocol/registry, `docs/reference/api/openapi.yaml` (v0.1; v0 is the same under another path).
Other registries speak the same, more or less: one that refuses a parameter is asked without it, and what it does not
sort out is sorted out in `search.py`.

Only `https` is spoken, except with this machine: what a registry names is run later, so nobody on the way may change
it. A redirect to another origin is not followed, but named: it could lead into this machine's network, and would get
what the address has as credentials.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit

from mcp_magic._text import MAX_COMPARED, did_you_mean, duration, sentence
from mcp_magic.config.masking import mask_url
from mcp_magic.display.json import NOT_JSON, loads
from mcp_magic.display.text import LOOPBACK, one_line
from mcp_magic.errors import ConfigError, RegistryError
from mcp_magic.flight.attempt import retry_after
from mcp_magic.protocol import BUSY, of_status
from mcp_magic.registry.cache import AnswerCache, StoredAnswer, names_in
from mcp_magic.registry.download import MAX_REDIRECTS, REDIRECTS, Answer, http_client, request
from mcp_magic.registry.entry import RegistryEntry, read_entry
from mcp_magic.results.reasons import MAX_LINE, of_body
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping

    import httpx2

OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"

PAGE = 100  # servers of one page, the most that the official registry gives
MAX_PAGES = 200
MAX_BYTES = 16_000_000  # of one answer: some registries are a file with all of their servers
MAX_ALL_BYTES = 64_000_000  # of the answers to one search
MAX_CURSOR = 2_000  # characters
MAX_ETAG = 200  # characters

ANSWER_SECONDS = 20.0  # seconds within which one answer must be complete
ALL_SECONDS = 120.0  # seconds for all answers to one search
MAX_PAUSE = 5.0  # seconds of `Retry-After` that are waited for, once

FRESH_SECONDS = 600.0  # seconds for which a search is answered from the cache alone

_APIS = ("v0.1", "v0")  # the first that has the path is used
_PAGES = 20  # most pages in the cache among which a similar name is looked for
_ETAG = re.compile(r"[!-~]+")  # what can be sent back
_NARROWING = ("version", "include_deleted", "limit")  # parameters that a registry may not know


def registry_address(text: str) -> str:
    """Return the address of a registry as it is used: with a scheme, without the path of the API and a final slash.

    >>> registry_address("registry.example.com/mcp/"), registry_address("http://127.0.0.1:8080/v0.1/servers")
    ('https://registry.example.com/mcp', 'http://127.0.0.1:8080')

    Raises:
        ConfigError: It is no http(s) address, or would be read without TLS by others.
    """
    address = text.strip()
    if "://" not in address:
        address = f"https://{address}"
    shown = one_line(mask_url(address), MAX_LINE)
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    strange = any(ord(char) <= 32 or ord(char) == 127 for char in address) or "\\" in address
    if not host or strange or parts.scheme not in ("http", "https"):
        example = OFFICIAL_REGISTRY if not text.strip() else "https://registry.example.com"
        raise ConfigError(f"{shown} is not the address of a registry; for example {example}")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ConfigError(
            f"{shown} has no https: others on the network could change what it names, and that is what you run. "
            "http is for registries on this machine."
        )
    path = parts.path.rstrip("/").removesuffix("/servers").rstrip("/")
    for api in _APIS:
        path = path.removesuffix(f"/{api}")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}{query}"


def place_of(address: str) -> str:
    """Return the host and path of a registry's address, without what may be a secret.

    >>> place_of("https://me:pw@registry.example.com/mcp?key=1")
    'registry.example.com/mcp'
    """
    parts = urlsplit(address)
    return parts.netloc.rpartition("@")[2] + parts.path


@dataclass(frozen=True)
class Page:
    """A page of a list of servers: the objects as they came, and the cursor of the next page, or ""."""

    servers: list[Any]
    cursor: str
    remark: str = ""


class RegistryClient:
    """Reads one registry.

    Args:
        address: Its address, as a person writes it.
        refresh: Whether it is asked also where the cache has a fresh answer.
        timeout: Seconds for each answer.

    Attributes:
        address: The address as it is used; may hold a secret.
        place: Its host and path, to be shown.
        notes: What is to be said about the answers so far: their age, and why the registry did not give them.
        requests: How many requests were sent.

    Raises:
        ConfigError: The address cannot be used.
    """

    def __init__(
        self, address: str = OFFICIAL_REGISTRY, *, refresh: bool = False, timeout: float | None = None
    ) -> None:
        self.address = registry_address(address)
        self.place = place_of(self.address)
        self.notes: list[str] = []
        self.requests = 0
        self.cache = AnswerCache(self.address)
        self._refresh = refresh
        self._timeout = ANSWER_SECONDS if timeout is None else timeout
        self._bytes = 0
        self._http: httpx2.AsyncClient | None = None
        self._oldest = 0.0  # the age of the oldest answer that came from the cache

    # Lists and entries

    async def pages(self, **query: str) -> AsyncGenerator[Page, None]:
        """Yield the pages of a list of servers, to the last, or to a limit or a failure after the first.

        Args:
            **query: `search`, `version`, `include_deleted`, `limit`, `updated_since`.

        Raises:
            RegistryError: There is no first page, neither of the registry nor in the cache.
        """
        cursors = {""}
        cursor, until = "", time.monotonic() + ALL_SECONDS
        async with self._open():
            for number in range(MAX_PAGES):
                try:
                    value = await self._answer("servers", query | ({"cursor": cursor} if cursor else {}))
                    page = _page(value, self.place)
                except RegistryError as error:
                    if not number:
                        raise
                    self._note(f"the list ends early: {error}")
                    return
                yield page
                if page.remark:
                    self._note(page.remark)
                if not page.cursor:
                    return
                cursor = page.cursor
                if cursor in cursors:
                    self._note(f"{self.place} repeats a cursor, so the list ends there")
                    return
                cursors.add(cursor)
                if self._bytes > MAX_ALL_BYTES or time.monotonic() > until:
                    why = "bytes" if self._bytes > MAX_ALL_BYTES else "seconds"
                    most = MAX_ALL_BYTES if why == "bytes" else ALL_SECONDS
                    self._note(f"the list ends early, after {most:,.0f} {why}")
                    return
        self._note(f"the list ends early, after {MAX_PAGES} pages")

    async def versions(self, name: str) -> list[RegistryEntry]:
        """Return the versions of a server, as the registry sorts them.

        Raises:
            RegistryError: There is no such server, or no answer.
        """
        async with self._open():
            value = await self._answer(f"servers/{_quoted(name)}/versions", {})
            return [read_entry(item) for item in _page(value, self.place).servers]

    async def entry(self, name: str, version: str = "latest") -> RegistryEntry:
        """Return one version of a server. The registry is asked each time: a version may have been withdrawn.

        Raises:
            RegistryError: There is no such server or version, or no answer.
        """
        path = f"servers/{_quoted(name)}/versions/{_quoted(version)}"
        async with self._open():
            entry = read_entry(await self._answer(path, {}, is_list=False))
        if entry.name != name:
            other = one_line(entry.name, 60) or "no name"
            raise RegistryError(f"{self.place} was asked for {name} and answered with {other!r}.")
        return entry

    def cached(self) -> Iterator[tuple[Any, float]]:
        """Yield the objects of servers that the cache has, the newest first, each with its age in seconds."""
        for answer in self.cache.pages():
            try:
                page = _page(answer.value, self.place)
            except RegistryError:
                continue
            for server in page.servers:
                yield server, answer.age

    # Answers, from the cache or the registry

    async def _answer(self, path: str, query: Mapping[str, str], *, is_list: bool = True) -> Any:
        request = f"{path}?{_encoded(sorted(query.items()))}"
        stored = self.cache.load(request)
        if stored is not None and is_list and not self._refresh and stored.is_younger(FRESH_SECONDS):
            self._note_age(stored)
            return stored.value
        try:
            answer = await self._ask(path, query, stored)
        except RegistryError as error:
            if stored is None or error.status in (404, 410):
                raise
            self._note_age(stored, str(error))
            return stored.value
        try:
            self.cache.save(request, replace(answer, is_list=is_list))
        except OSError as error:
            self._note(f"the answer is not cached: {error.strerror or error}")
        return answer.value

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _note_age(self, stored: StoredAnswer, why: str = "") -> None:
        """Note that an answer is from the cache; once, with the age of the oldest."""
        self._oldest = max(self._oldest, stored.age)
        self.notes = [note for note in self.notes if not note.startswith("from the cache")]
        ending = f": {why}" if why else "; `--refresh` asks the registry"
        self._note(f"from the cache, {duration(round(self._oldest))} old{ending}")

    async def _ask(self, path: str, query: Mapping[str, str], stored: StoredAnswer | None) -> StoredAnswer:
        """Ask the registry; return its answer, or the stored one with a new time if that is still right."""
        headers = {"accept": "application/json"}
        if stored is not None and stored.etag:
            headers["if-none-match"] = stored.etag
        reply = await self._first_path(path, query, headers)
        if reply.status == 304 and stored is not None:
            return replace(stored, time=time.time())
        value = loads(reply.body.decode("utf-8", "replace"), nan=True)
        if value is NOT_JSON:
            kind = one_line(reply.headers.get("content-type", "").partition(";")[0], 60) or "no type"
            raise RegistryError(f"{self.place} answered with {kind} that is not JSON; is it the address of a registry?")
        etag = reply.headers.get("etag", "")
        return StoredAnswer(value, time.time(), etag if len(etag) <= MAX_ETAG and _ETAG.fullmatch(etag) else "")

    async def _first_path(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Ask by the first version of the API that has the path, if need be with fewer parameters."""
        reply = None
        for api in _APIS:
            reply = await self._get(f"{api}/{path}", query, headers)
            if reply.status in (400, 422) and query.keys() & set(_NARROWING):
                fewer = {name: value for name, value in query.items() if name not in _NARROWING}
                reply = await self._get(f"{api}/{path}", fewer, headers)
            if reply.status not in (404, 405):
                break
        assert reply is not None
        if reply.status in (200, 304):
            return reply
        raise self._refusal(reply, path)

    def _refusal(self, reply: Answer, path: str) -> RegistryError:
        fault = of_status(reply.status)
        wait = retry_after(reply.headers.get("retry-after"))
        # without backticks, in which a message has lines to type
        reason = one_line(of_body(reply.body[:20_000].decode("utf-8", "replace")), MAX_LINE).replace("`", "'")
        if reply.status in (404, 410) and path != "servers":
            name = one_line(unquote(path.split("/")[1]), 200)
            names = (other for answer in self.cache.pages(_PAGES) for other in names_in(answer.value) if other != name)
            text = f"{self.place} has no server {name}.{did_you_mean(name, islice(names, MAX_COMPARED))}"
            text += " `%mcp find WORDS` searches it"
        elif reply.status == 404:
            text = f"{self.place} has no registry: nothing is at /v0.1/servers there"
        elif reply.status in (401, 403):
            text = f"{self.place} wants credentials (HTTP {reply.status}); `https://USER:TOKEN@HOST` has some"
        elif reply.status in BUSY and wait is not None:
            text = f"{self.place} asks to wait {duration(round(wait))} (HTTP {reply.status})"
        else:
            text = f"{self.place} answered HTTP {reply.status} ({fault.meaning})"
        return RegistryError(sentence(text, "" if reply.status in (404, 410) else reason), reply.status, wait)

    # HTTP

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Have an HTTP client for some requests."""
        if self._http is not None:
            yield
            return
        async with http_client(urlsplit(self.address).hostname or "") as client:
            self._http = client
            try:
                yield
            finally:
                self._http = None

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        base, _, own = self.address.partition("?")
        pairs = [*parse_qsl(own, keep_blank_values=True), *query.items()]
        return f"{base}/{path}{'?' if pairs else ''}{_encoded(pairs)}"

    async def _get(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Return the reply to a request, after at most one short pause that the registry asks for."""
        reply = await self._follow(self._url(path, query), headers)
        wait = retry_after(reply.headers.get("retry-after"))
        if reply.status in BUSY and wait is not None and wait <= MAX_PAUSE:
            await asyncio.sleep(wait)
            reply = await self._follow(self._url(path, query), headers)
        return reply

    async def _follow(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Return the reply to a request, after redirects within the origin."""
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._send(url, headers)
            location = reply.headers.get("location", "")
            if reply.status not in REDIRECTS or not location:
                return reply
            target = location
            try:
                target = urljoin(url, location)
                same = _origin(target) == _origin(url)
            except ValueError:  # it is not a URL
                same = False
            if not same:
                shown = one_line(mask_url(target).partition("?")[0], MAX_LINE)
                raise RegistryError(
                    f"{self.place} redirects to {shown}, which is another host and is not asked; if that is the "
                    "registry that you mean, `--registry URL` names it.",
                    reply.status,
                )
            user, at, _ = urlsplit(url).netloc.rpartition("@")
            place = urlsplit(target)
            url = place._replace(netloc=user + at + place.netloc.rpartition("@")[2], fragment="").geturl()
        raise RegistryError(f"{self.place} redirects in a circle.", reply.status)

    async def _send(self, url: str, headers: Mapping[str, str]) -> Answer:
        assert self._http is not None
        self.requests += 1
        body = bytearray()
        try:
            return await request(
                self._http, "GET", url, headers, place=self.place, limit=MAX_BYTES, seconds=self._timeout, body=body
            )
        finally:
            self._bytes += len(body)


def _encoded(pairs: Iterable[tuple[str, str]]) -> str:
    return urlencode(list(pairs), errors="replace")  # a lone surrogate has no bytes


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _page(value: Any, place: str) -> Page:
    """Read a list of servers: `{"servers": [...], "metadata": {"nextCursor": ...}}`, and what others make of it."""
    fields = object_of(value)
    servers = value if isinstance(value, list) else fields.get("servers")
    if servers is None and "servers" in fields:
        servers = []  # Go's empty list
    if not isinstance(servers, list):
        raise RegistryError(f"{place} answered with JSON that lists no servers; is it the address of a registry?")
    metadata = object_of(fields.get("metadata"))
    cursor = next(
        (part[key] for part in (metadata, fields) for key in ("nextCursor", "next_cursor") if part.get(key)), ""
    )
    if isinstance(cursor, int) and not isinstance(cursor, bool):
        cursor = str(cursor)
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
        return Page(servers, "", f"{place} gives a cursor that is not text, so the list ends there")
    return Page(servers, cursor)
