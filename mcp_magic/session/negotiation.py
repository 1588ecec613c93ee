"""How a session begins: `server/discover` of 2026-07-28, or the handshake of older versions."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.errors import MCPMagicError
from mcp_magic.flight.retry import says_no_session
from mcp_magic.protocol import has_ended, is_mcp_error, is_transport_error, is_unreachable, leaf
from mcp_magic.stderr import ErrorLog, has_read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import httpx2
    from mcp import Client

    from mcp_magic.config.specs import Spec


# The probe and the fallback to the handshake.
#
# The SDK sends `server/discover` first, the *probe*, and `initialize` if the server refuses it. Servers of older SDKs
# do not refuse: their process or stream ends, or they stay silent (Python's `mcp` up to 1.8.1, Rust's `rmcp`). Such a
# server is restarted and gets `initialize` only. The way that worked is remembered.

SILENT_SECONDS = 0.75
"""Seconds that a process may stay silent after reading the probe, before it gets `initialize`. A late answer does no
harm: the SDK then asks again."""

_WANTS_HANDSHAKE = re.compile(
    r"\b(?:not|un)[ -]?(?:yet )?initiali[sz]ed\b"
    r"|\binitiali[sz](?:e|ed|ation)\b.{0,60}\b(?:required|first|must|missing|expected|before)\b"
    r"|\b(?:required|first|must|missing|expected|before|send)\b.{0,60}\binitiali[sz](?:e|ed|ation)\b",
    re.IGNORECASE,
)

NOISE = re.compile(rb"(?m)^.*(?:Failed to validate request|server/discover)")
"""Beginning of a server's complaints about the probe, on its stderr."""

_UNSUPPORTED = -32022
"""JSON-RPC code of a server that supports none of the requested versions (specification 2026-07-28)."""


def wants_handshake(error: BaseException, status: int | None = None) -> bool:
    """Whether a server answered a request of a discovered session with the wish for the handshake.

    `status` is that of HTTP.

    >>> from mcp import MCPError
    >>> [wants_handshake(MCPError(-32002, text)) for text in ("initialize is required", "Server not initialized", "no")]
    [True, True, False]
    >>> wants_handshake(MCPError(-32000, "Bad Request: No valid session ID provided"), 400)
    True
    """
    failure = leaf(error)
    text = str(failure)[:1000]
    lacks_session = status == 400 and says_no_session(text)
    return is_mcp_error(failure) and (lacks_session or _WANTS_HANDSHAKE.search(text) is not None)


_VERSION = re.compile(r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)")
_LISTS = ("supported", "supportedVersions", "supported_versions", "supportedProtocolVersions")

MAX_VERSIONS = 20  # versions of an error that are read


def versions_in(error: BaseException) -> list[str]:
    """Return the protocol versions that an error names as supported; see `named_versions`."""
    failure = leaf(error)
    return named_versions(str(failure), getattr(failure, "data", None)) if is_mcp_error(failure) else []


def named_versions(message: str, data: Any) -> list[str]:
    """Return the protocol versions that a refusal names as supported, in its data or its words; newest first.

    >>> named_versions("Unsupported protocol version", {"supported": ["2024-11-05", "2025-03-26"]})
    ['2025-03-26', '2024-11-05']
    >>> named_versions("Unsupported protocol version 2025-11-25 (supported: 2025-06-18)", None)
    ['2025-06-18']
    """
    from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

    members, text = data if isinstance(data, dict) else {}, message[:2000]
    supported = next((members[name] for name in _LISTS if isinstance(members.get(name), list)), None)
    if supported is not None:
        versions = [str(version)[:40] for version in supported[:MAX_VERSIONS]]
    elif "version" in text.lower():
        own = (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION)
        versions = [version for version in _VERSION.findall(text)[:MAX_VERSIONS] if version not in own]
    else:
        versions = []
    return sorted(dict.fromkeys(versions), reverse=True)


def older_version(versions: Sequence[str]) -> str:
    """Return the newest of some versions that a handshake can ask for instead of the newest of all, or ""."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

    older = (version for version in versions if version in HANDSHAKE_PROTOCOL_VERSIONS)
    return next((version for version in older if version != LATEST_HANDSHAKE_VERSION), "")


def spoken_versions() -> tuple[str, ...]:
    """Return the protocol versions that this host speaks, newest first."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    return tuple(reversed((*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)))


class Negotiation:
    """Decides in which `way` sessions begin; `handshake_only` are the servers that support only the handshake.

    `version` is what the handshake asks for after it was refused, "" for the newest.
    """

    def __init__(self, spec: Spec, handshake_only: list[Spec]) -> None:
        self._spec = spec
        self._known = handshake_only
        self._free = spec.protocol == "auto"
        self._tries = 0
        self.version = ""
        self.way = "handshake" if self._free and spec in handshake_only else spec.protocol

    def probe(self, errlog: ErrorLog | None) -> Probe:
        """Return the probe of a new session; `errlog` is the stderr of a process that this host started."""
        return Probe(errlog if self.way == "auto" else None)

    def opened(self, client: Client) -> None:
        """Remember how a session was opened."""
        self._tries = 0
        if self._free:
            modern = client.session.discover_result is not None
            self.way = "auto" if modern else "handshake"
            self._remember(handshake=not modern)

    def _remember(self, *, handshake: bool) -> None:
        """Remember whether the server supports only the handshake."""
        if self._spec in self._known:
            self._known.remove(self._spec)
        if handshake:
            self._known.append(self._spec)

    def fall_back(self) -> bool:
        """Begin the next session with the handshake, if the spec leaves that open; return whether that is new."""
        if not self._free or self.way == "handshake":
            return False
        self.way = "handshake"
        return True

    def names_version(self, error: BaseException) -> bool:
        """Whether a refusal names another version that a handshake can ask for; if so, that comes next, once."""
        if self.version or self._spec.protocol not in ("auto", "handshake"):
            return False
        self.version = older_version(versions_in(error))
        if self.version:
            self.way = "handshake"
        return bool(self.version)

    def try_other_way(self, error: BaseException, probe: Probe) -> bool:
        """Decide whether to retry a failed opening the other way; if so, set `way` to it."""
        cause = leaf(error)
        self._tries += 1
        if not self._free or self._tries > 1 or isinstance(cause, MCPMagicError) or is_unreachable(cause):
            return False
        if self.way == "handshake":
            self._remember(handshake=False)
            self.way = "auto"
            return probe.begun and (is_mcp_error(cause) or is_transport_error(cause))
        refused = is_mcp_error(cause) and getattr(cause, "code", None) != _UNSUPPORTED
        if self._spec.transport == "http":  # over HTTP the probe leaves no state behind that could disturb `initialize`
            refused = has_ended(cause)
        if not probe.sent or probe.discovered or not (refused or is_transport_error(cause)):
            return False
        self.way = "handshake"
        return True


class Probe:
    """Watches the first request of a session and whether the server answers it."""

    def __init__(self, errlog: ErrorLog | None = None) -> None:
        self._errlog = errlog
        self._number: Any = None
        self._read_at = 0.0
        self._given_up = False
        self.begun = self.sent = self.discovered = False

    @property
    def unanswered(self) -> bool:
        """Whether nothing was sent yet, or the probe is pending."""
        return not self.begun or self._number is not None

    @property
    def watched(self) -> bool:
        """Whether the server is a process of this host that has not answered yet."""
        return self._errlog is not None and self.unanswered

    def note_sent(self, message: Any) -> None:
        """Note a message to the server."""
        self.begun = True
        fields = message.__dict__
        if fields.get("method") == "server/discover" and not self.sent:
            self.sent = True
            self._number = fields["id"]

    def came(self, message: Any) -> None:
        """Note a message from the server. If it refused the probe, hide its complaints about it on stderr."""
        fields = message.__dict__
        mine = fields.get("id") == self._number and "method" not in fields
        if self._number is None or not (mine or self._given_up):
            return
        self._number = None
        self.discovered = mine and "result" in fields
        if self._errlog is not None and not self.discovered:
            self._errlog.hide(NOISE)

    def refusal(self) -> Any:
        """Return an error in place of an answer, once the server has read the probe and stays silent; else None."""
        if self._errlog is None or self._number is None or self._given_up:
            return None
        if not self._read_at:
            self._read_at = time.monotonic() if has_read(self._errlog.file) else 0.0
        if not self._read_at or time.monotonic() - self._read_at < SILENT_SECONDS:
            return None
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError

        self._given_up = True
        error = ErrorData(code=-32001, message=f"no answer in {SILENT_SECONDS:g} s")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=self._number, error=error))


async def discover_only(client: Client) -> None:
    """Begin a session of a client whose `mode` is a version; the SDK would not ask the server at all.

    Raises:
        MCPError: The server does not support that version.
    """
    from mcp import MCPError
    from mcp.client.session import DISCOVER_TIMEOUT_SECONDS
    from mcp_types import REQUEST_TIMEOUT, DiscoverResult

    session, answer = client.session, None
    while answer is None:
        started = time.monotonic()
        try:
            answer = await session.send_discover(client.protocol_version)
        except MCPError as error:
            # The SDK waits ten seconds, and a program may take longer to start; the session has a deadline of its own.
            if error.code != REQUEST_TIMEOUT or time.monotonic() - started < DISCOVER_TIMEOUT_SECONDS:
                raise
    session.adopt(DiscoverResult.model_validate(answer))


# Detects a program, started as a stdio server, that listens at a URL instead: it names the URL and answers there.

T = TypeVar("T")

OUTPUT_POLL_SECONDS = 0.25  # seconds between two looks at a process's output and at the URLs in it

CONFIRM_SECONDS = 0.5  # seconds that a server which answers at a URL still has to answer over its output

MAX_ADDRESSES = 8  # maximum number of addresses to try

ANSWER_SECONDS = 1.0  # deadline in seconds for an answer at a URL

_URL = re.compile(r"https?://[\w.:\[\]%/~-]{1,200}")
_PORT = re.compile(
    r"(?i:listen|runn|start|serv)\w*\b.{0,60}?(?i:\bport[ :=]+|localhost:|127\.0\.0\.1:|0\.0\.0\.0:)(\d{2,5})\b"
)
_HERE = re.compile(r"https?://(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\])(?=[:/]|$)")
ACCEPT = "application/json, text/event-stream"  # the `Accept` header of a streamable HTTP request

_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_PATHS = ("/mcp", "/sse")  # usual paths, for servers whose log names none


class ListensError(Exception):
    """A program listens at a `url` instead of writing messages to its output."""

    def __init__(self, url: str) -> None:
        super().__init__(f"it listens at {url}")
        self.url = url


async def unless_listening(beginning: Awaitable[T], read_output: Callable[[], str], end: Callable[[], None]) -> T:
    """Await the opening of a stdio session; raise ListensError if the program turns out to listen at a URL instead.

    `read_output` returns its output so far. `end` tells it to end, before `beginning` is cancelled, which waits for it.
    """
    limit = asyncio.timeout(None)
    url = ""

    async def watch() -> None:
        nonlocal url
        url = await _find_url(read_output)
        await asyncio.sleep(CONFIRM_SECONDS)
        limit.reschedule(asyncio.get_running_loop().time())
        end()

    watching = asyncio.create_task(watch(), name="mcp_magic endpoint")
    try:
        async with limit:
            return await beginning
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        watching.cancel()
    raise ListensError(url)


async def _find_url(read_output: Callable[[], str]) -> str:
    """Return the URL at which an MCP server answers, as soon as one does."""
    while not addresses(read_output()):
        await asyncio.sleep(OUTPUT_POLL_SECONDS)
    import httpx2

    async with httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client:  # no proxy
        while True:
            for url in addresses(read_output()):
                with suppress(httpx2.HTTPError, httpx2.InvalidURL, OSError):
                    if await _speaks(client, url):
                        return url
            await asyncio.sleep(OUTPUT_POLL_SECONDS)


def named_url(text: str) -> str:
    """Return the first HTTP URL in a process's output, or "".

    >>> named_url("INFO: Uvicorn running on http://127.0.0.1:8000/mcp (Press CTRL+C to quit)")
    'http://127.0.0.1:8000/mcp'
    """
    match = _URL.search(text)
    return match[0].rstrip(".,;:") if match else ""


def addresses(text: str) -> list[str]:
    r"""Return the URLs on this machine at which a process may listen, from its output.

    >>> addresses("docs: https://a.example/mcp\nUvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)")
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000/mcp', 'http://127.0.0.1:8000/sse']
    >>> addresses("listening on port 3001")[0]
    'http://127.0.0.1:3001'
    """
    bases = [url.rstrip(".,;:/") for url in _URL.findall(text) if _HERE.match(url)]
    bases += [f"http://127.0.0.1:{port}" for port in _PORT.findall(text)]
    urls = []
    for url in bases[:MAX_ADDRESSES]:
        url = url.replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]")
        bare = url.count("/") == 2
        urls += [url, *(f"{url}{path}" for path in _PATHS if bare)]
    return list(dict.fromkeys(urls))


async def _speaks(client: httpx2.AsyncClient, url: str) -> bool:
    """Whether a URL answers a ping with JSON-RPC, asks for a log-in, or opens the event stream of HTTP+SSE."""
    async with client.stream("POST", url, json=_PING, headers={"accept": ACCEPT}) as response:
        kind = response.headers.get("content-type", "")
        if response.status_code == 401:
            return "www-authenticate" in response.headers
        if response.status_code not in (404, 405):
            return "json" in kind and '"jsonrpc"' in (await response.aread()).decode("utf-8", "replace")
    async with client.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
        return response.status_code == 200 and "event-stream" in response.headers.get("content-type", "")
