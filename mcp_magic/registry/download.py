"""Bounded requests to registries, of servers and of packages, and downloads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcp_magic._text import plural, sentence
from mcp_magic.config.masking import mask_url
from mcp_magic.display.text import LOOPBACK, one_line
from mcp_magic.errors import RegistryError
from mcp_magic.session.failures import unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

MAX_ANSWER = 32_000_000  # bytes of an answer; the list of all files of a package may have several million
MAX_REDIRECTS = 5
ANSWER_SECONDS = 30.0

REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP, with the names of its headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def check_address(url: str) -> str:
    """Return a URL that may be asked: `https`, or `http` on this machine. Raises RegistryError for any other."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host and not any(char.isspace() for char in url):
        if parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK):
            return url
        why = "it is not https, so that others on the network could change what is downloaded"
    else:
        why = "it is not a URL with a host"
    raise RegistryError(f"{one_line(mask_url(url), 200)} is not asked: {why}.")


def check_direction(source: str, url: str) -> None:
    """Raise RegistryError if a URL may not be asked, or another machine leads to a program of this one."""
    host = urlsplit(check_address(url)).hostname
    if host in LOOPBACK and source not in LOOPBACK:
        raise RegistryError(f"{source or 'the file'} leads to {host}, which is this machine; that is not asked.")


def target_of(url: str, reference: str) -> str:
    """Return the URL to which the answer of another leads. Raises RegistryError if it may not be asked."""
    try:
        target = urljoin(url, reference)
    except ValueError:  # which is no URL
        target = reference
    check_direction(urlsplit(url).hostname or "", target)
    return target


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    limit: int = MAX_ANSWER,
    seconds: float = ANSWER_SECONDS,
) -> Answer:
    """Ask for a URL, follow redirects, and return the answer, whatever its status.

    From another machine no redirect leads to this one, and credentials are not sent to another host.

    Raises:
        RegistryError: There is no answer, it is too large, or it redirects where it may not.
    """
    fields = dict(headers or {})
    for _ in range(MAX_REDIRECTS + 1):
        host = urlsplit(check_address(url)).hostname or ""
        async with http_client(host) as http:
            answer = await request(http, method, url, fields, place=host, limit=limit, seconds=seconds)
        location = answer.headers.get("location", "")
        if answer.status not in REDIRECTS or not location:
            return answer
        target = target_of(url, location)
        here, there = urlsplit(url), urlsplit(target)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            fields = {name: value for name, value in fields.items() if name.lower() != "authorization"}
        url = target
    raise RegistryError(f"{urlsplit(url).hostname} redirects more than {plural(MAX_REDIRECTS, 'times')}.")


def http_client(host: str) -> httpx2.AsyncClient:
    """Return a client for requests to a host; a proxy is not asked for what this machine has."""
    import httpx2

    return httpx2.AsyncClient(trust_env=host not in LOOPBACK, headers={"user-agent": "mcp_magic"})


async def request(
    http: httpx2.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    place: str,
    limit: int,
    seconds: float,
    body: bytearray | None = None,
) -> Answer:
    """Send one request, and return the answer, whatever its status.

    Args:
        http: The client.
        method: The method.
        url: The address; may hold a secret.
        headers: The headers.
        place: What messages call the address.
        limit: Bytes of the answer.
        seconds: Seconds within which it must be complete.
        body: Takes the bytes that came, of an answer that is too large too.

    Raises:
        RegistryError: There is no answer, or it is too large.
    """
    import httpx2

    body = bytearray() if body is None else body
    try:
        async with (
            asyncio.timeout(seconds),
            http.stream(method, url, headers=dict(headers), timeout=seconds, follow_redirects=False) as response,
        ):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > limit:
                    raise RegistryError(f"{place} answered with more than {limit:,} bytes.")
            lowered = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, lowered, bytes(body))
    except (TimeoutError, httpx2.TimeoutException):
        problem = f"{place} did not answer within {seconds:g} s"
    except (httpx2.ConnectError, httpx2.ProxyError, OSError) as error:
        problem = unreachable(error, place).text
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        reason = one_line(str(error).replace(url, place) or type(error).__name__, 200)
        problem = f"{place} broke off: {reason}"
    raise RegistryError(sentence(problem))
