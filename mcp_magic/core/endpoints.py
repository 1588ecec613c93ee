"""A server that was started to speak over its output, and listens at a URL instead: it says so, and answers there."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2

__all__ = ["ListensError", "named_url", "unless_listening"]

T = TypeVar("T")

LOOK_SECONDS = 0.1
"""Seconds between two looks at what a process has said."""

LOOKS = 20
"""How often a URL is asked that does not answer: a server may name it before it listens there."""

CONFIRM_SECONDS = 0.5
"""Seconds that a server which answers at a URL has to answer over its output as well."""

NAMED = 8
"""Addresses that are asked."""

ANSWER_SECONDS = 1.0
"""Seconds that an answer at a URL may take."""

_URL = re.compile(r"https?://[\w.:\[\]%/~-]{1,200}")
_PORT = re.compile(
    r"(?i:listen|runn|start|serv)\w*\b.{0,60}?(?i:\bport[ :=]+|localhost:|127\.0\.0\.1:|0\.0\.0\.0:)(\d{2,5})\b"
)
_HERE = re.compile(r"https?://(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\])(?=[:/]|$)")
_ACCEPT = "application/json, text/event-stream"
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_PATHS = ("/mcp", "/sse")
"""Where servers mostly are whose log names no path."""


class ListensError(Exception):
    """A program speaks HTTP instead of writing messages to its output.

    Args:
        url: Where it answers.
    """

    def __init__(self, url: str) -> None:
        super().__init__(f"it listens at {url}")
        self.url = url


async def unless_listening(beginning: Awaitable[T], heard: Callable[[], str], end: Callable[[], None]) -> T:
    """Await the beginning of a session over a program's output.

    Args:
        beginning: Begins it.
        heard: Returns what the program has said.
        end: Tells the program to end; called before the beginning is cancelled, which waits for that.

    Raises:
        ListensError: It is an MCP server at a URL that it names, and says nothing over its output.
    """
    limit = asyncio.timeout(None)
    found = ""

    async def watch() -> None:
        nonlocal found
        found = await _found(heard)
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
    raise ListensError(found)


async def _found(heard: Callable[[], str]) -> str:
    """Return where an MCP server answers, as soon as one does."""
    asked: list[str] = []
    looks = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if (named := addresses(heard())) != asked:
            asked, looks = named, LOOKS
        if named and looks:
            looks -= 1
            if url := await _answering(named):
                return url


def named_url(text: str) -> str:
    """Return the first HTTP URL in what a process says, or "": a server that listens there names it.

    >>> named_url("INFO: Uvicorn running on http://127.0.0.1:8000/mcp (Press CTRL+C to quit)")
    'http://127.0.0.1:8000/mcp'
    """
    found = _URL.search(text)
    return found[0].rstrip(".,;:") if found else ""


def addresses(text: str) -> list[str]:
    r"""Return the URLs of this machine at which a process may listen, by what it says.

    >>> addresses("docs: https://a.example/mcp\nUvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)")
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000/mcp', 'http://127.0.0.1:8000/sse']
    >>> addresses("listening on port 3001")[0]
    'http://127.0.0.1:3001'
    """
    named = [url.rstrip(".,;:/") for url in _URL.findall(text) if _HERE.match(url)]
    named += [f"http://127.0.0.1:{port}" for port in _PORT.findall(text)]
    found = []
    for url in named[:NAMED]:
        url = url.replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]")
        bare = url.count("/") == 2
        found += [url, *(f"{url}{path}" for path in _PATHS if bare)]
    return list(dict.fromkeys(found))


async def _answering(urls: list[str]) -> str:
    """Return the first URL at which an MCP server answers, or "". No proxy is asked, and no redirect followed."""
    import httpx2

    async with httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client:
        for url in urls:
            with suppress(httpx2.HTTPError, httpx2.InvalidURL, OSError):
                if await _speaks(client, url):
                    return url
    return ""


async def _speaks(client: httpx2.AsyncClient, url: str) -> bool:
    """Whether a URL answers a ping by JSON-RPC, wants a log-in, or opens the event stream of the older transport."""
    async with client.stream("POST", url, json=_PING, headers={"accept": _ACCEPT}) as response:
        kind = response.headers.get("content-type", "")
        if response.status_code == 401:
            return "www-authenticate" in response.headers
        if response.status_code not in (404, 405):
            return "json" in kind and '"jsonrpc"' in (await response.aread()).decode("utf-8", "replace")
    async with client.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
        return response.status_code == 200 and "event-stream" in response.headers.get("content-type", "")
