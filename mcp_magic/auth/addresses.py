"""Addresses of this machine and its network, and which of them a log-in may query.

A server on the internet must not reach into this machine's network.

The MCP server names its authorization server, which names its endpoints. The log-in queries an address on this machine
or in its network only if the MCP server is there too, or if the user named that host. It queries a link-local address,
where clouds give out credentials, only if the user named it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.display.text import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import httpx2

LOOKUP_SECONDS = 3.0
"""Deadline of a DNS lookup in seconds. A name that is not found is either dead or resolved by a proxy."""

_EMBEDDED = int(ip_address("64:ff9b::"))  # the prefix of IPv6 addresses that embed IPv4 addresses (NAT64, RFC 6052)

_METADATA = ip_address("fd00:ec2::254")  # the address that gives AWS machines their credentials over IPv6

Address = IPv4Address | IPv6Address

_LOCAL_NAMES = (
    *("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa"),
    # public domains all of whose names lead to 127.0.0.1, or to the address that a name has in it
    *("nip.io", "sslip.io", "xip.io", "traefik.me", "backname.io", "localtest.me", "lvh.me", "vcap.me", "fuf.me"),
    *("lacolhost.com", "localho.st", "local.gd", "ulh.us", "yoogle.com"),
)

_WITHIN_NAME = re.compile(r"(?<![\da-z])\d{1,3}(?:\.\d{1,3}){3}(?!\d)|(?<!\d)\d{1,3}(?:-\d{1,3}){3}(?!\d)")

_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")  # a name whose last part is one is an address: `127.1`, `0x7f000001`


def host_and_port(url: str) -> str:
    """Return the host and port of a URL, without user info."""
    return urlsplit(url).netloc.rpartition("@")[2]


def is_private(url: str) -> bool:
    """Whether a request to a URL cannot be read on its way: the URL has TLS or leads to this machine.

    >>> is_private("http://127.0.0.1:9000/token"), is_private("http://auth.example.com/token")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


class Reach:
    """The addresses that the log-in of one server may query."""

    def __init__(self, url: str, allowed: Iterable[str | None] = ()) -> None:
        self._server = _host(url)
        self._named = {self._server, *(_host(address) for address in allowed if address)}
        self._peer: Address | None = None

    def remember_peer(self, response: httpx2.Response) -> None:
        """Remember the address from which the MCP server answered."""
        self._peer = _peer(response.extensions.get("network_stream")) or self._peer

    async def refused(self, url: str) -> str:
        """Return the forbidden address that a URL leads to, or "" if the URL may be queried."""
        host = _host(url)
        if host in self._named:
            return ""
        return await self._refused(await _addresses(host))

    async def _refused(self, addresses: Iterable[Address]) -> str:
        inside = [address for address in addresses if _is_internal(address)]
        local = [address for address in inside if address.is_link_local or address == _METADATA]
        if (
            inside and not local
        ):  # allowed if the MCP server is inside too, by its name and by the address that answered
            server = await _addresses(self._server)
            peers = [*server, self._peer] if self._peer is not None else server
            if server and all(map(_is_internal, peers)):
                return ""
        return str([*local, *inside][0]) if inside else ""

    def watching(self, request: httpx2.Request, refuse: Callable[[str], Exception]) -> Callable[..., Awaitable[None]]:
        """Return the `trace` extension of a request; it closes a connection that leads to a forbidden address.

        A second lookup of a name may return another address (DNS rebinding), so this checks the connection itself.
        """
        host = request.url.raw_host.decode("ascii").strip("[]")
        target = ""

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal target
            if event == "connection.connect_tcp.started":
                target = str(info.get("host", "")).strip("[]")
            elif event == "connection.connect_tcp.complete" and target == host not in self._named:  # a proxy otherwise
                stream = info["return_value"]
                peer = _peer(stream)
                if peer is not None and (address := await self._refused([peer])):
                    await stream.aclose()
                    raise refuse(address)

        return trace


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _peer(stream: Any) -> Address | None:
    try:
        return ip_address(str(stream.get_extra_info("server_addr")[0]).partition("%")[0])
    except (OSError, AttributeError, ValueError, TypeError, IndexError):
        return None


async def _addresses(host: str) -> list[Address]:
    with suppress(ValueError):
        return [ip_address(host.partition("%")[0])]
    if host == "localhost" or host.endswith(".localhost"):
        return [ip_address("127.0.0.1")]
    infos: list[Any] = []
    with suppress(OSError, UnicodeError, TimeoutError, NotImplementedError):
        async with asyncio.timeout(LOOKUP_SECONDS):
            infos = await asyncio.get_running_loop().getaddrinfo(host, None)
    return [ip_address(str(info[4][0]).partition("%")[0]) for info in infos]


def is_internal_host(host: str) -> bool:
    """Whether a host, as it is written, is or names an address outside the public internet.

    >>> hosts = ("2130706433", "0x7f.1", "::ffff:127.0.0.1", "169.254.169.254", "10-1-2-3.example.com", "a.nip.io")
    >>> [is_internal_host(host) for host in hosts]
    [True, True, True, True, True, True]
    >>> [is_internal_host(host) for host in ("example.com", "93.184.216.34", "v1-2-3.example.com", "mylocal.dev")]
    [False, False, False, False]
    """
    host = host.lower().strip("[]").rstrip(".")
    with suppress(ValueError):
        return _is_internal(ip_address(host))
    if _NUMBER.fullmatch(host.rpartition(".")[2]) or any(f".{host}".endswith(f".{name}") for name in _LOCAL_NAMES):
        return True
    for match in _WITHIN_NAME.finditer(host):
        with suppress(ValueError):
            if _is_internal(ip_address(match[0].replace("-", "."))):
                return True
    return False


async def leads_inside(host: str) -> bool:
    """Whether a host leads to an address outside the public internet; asks the DNS for names.

    Of the names that `*.example.com` stands for, one is asked for that a service like nip.io resolves to this machine.
    """
    if is_internal_host(host):
        return True
    rest = host.removeprefix("*.")
    names = (rest,) if rest == host else (rest, f"127.0.0.1.{rest}")
    answers = await asyncio.gather(*map(_addresses, names))
    return any(_is_internal(address) for answer in answers for address in answer)


def _is_internal(address: Address) -> bool:
    """Whether an address is outside the public internet.

    >>> [_is_internal(ip_address(text)) for text in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "0.0.0.0")]
    [True, True, True, True, True]
    >>> [_is_internal(ip_address(text)) for text in ("::ffff:10.0.0.1", "64:ff9b::7f00:1", "93.184.216.34")]
    [True, True, False]
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped or address.sixtofour:
            return _is_internal(address.ipv4_mapped or address.sixtofour or address)
        if int(address) >> 32 == _EMBEDDED >> 32:
            return _is_internal(IPv4Address(int(address) & 0xFFFFFFFF))
    return not address.is_global or address.is_multicast
