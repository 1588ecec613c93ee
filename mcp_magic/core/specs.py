"""Where a server is, as small immutable values.

A spec says everything that is needed to open a session and nothing about the session itself. Secrets
(headers, environment, user info in URLs, credentials in queries) never show in `repr`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = [
    "DEFAULT_TIMEOUT",
    "MASK",
    "HttpSpec",
    "InProcessSpec",
    "Spec",
    "SseSpec",
    "StdioSpec",
    "WebSocketSpec",
    "mask_arguments",
    "mask_url",
]

DEFAULT_TIMEOUT = 30.0
"""Seconds a server has to answer the handshake. `npx` and `uvx` may have to install first; a person waits no longer."""

MASK = "***"
_SECRET_NAME = re.compile(r"(?i)(token|secret|passw|api[-_]?key|auth|credential|signature|\bsig\b|\bkey\b)")


def mask_url(url: str) -> str:
    """Return `url` without the secrets that URLs carry.

    >>> mask_url("https://me:pw@example.com/mcp?api_key=1&page=2")
    'https://***@example.com/mcp?api_key=***&page=2'
    """
    parts = urlsplit(url)
    netloc = parts.netloc
    if "@" in netloc:
        netloc = f"{MASK}@{netloc.rpartition('@')[2]}"
    query = parts.query
    if query:
        pairs = [(k, MASK if _SECRET_NAME.search(k) else v) for k, v in parse_qsl(query, keep_blank_values=True)]
        query = urlencode(pairs, safe="*")
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def mask_arguments(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return command line arguments with the values of secret-looking options masked.

    >>> mask_arguments(("--api-key", "abc", "--token=xyz", "--port", "1"))
    ('--api-key', '***', '--token=***', '--port', '1')
    """
    shown: list[str] = []
    hide_next = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        secret = name.startswith("-") and _SECRET_NAME.search(name) is not None
        if hide_next and not arg.startswith("-"):
            shown.append(MASK)
        elif secret and equals:
            shown.append(f"{name}={MASK}")
        else:
            shown.append(mask_url(arg) if "://" in arg else arg)
        hide_next = secret and not equals
    return tuple(shown)


def _long_enough(values: list[str]) -> frozenset[str]:
    """Leave out what is too short to be a secret: masking "1" everywhere would hide the message."""
    return frozenset(value for value in values if len(value) >= 4)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every server description has.

    Attributes:
        timeout: Seconds the handshake may take.
        trust: Whether the person believes this server's annotation hints.
    """

    transport: ClassVar[str]
    timeout: float = DEFAULT_TIMEOUT
    trust: bool = False

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={self._shown(f.name)}" for f in fields(self) if self._said(f))
        return f"{type(self).__name__}({shown})"

    def _said(self, f: Any) -> bool:
        value = getattr(self, f.name)
        return bool(value is not None and value != f.default and value not in ({}, ()))

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        match name:
            case "env" | "headers":
                return repr(dict.fromkeys(value, MASK))
            case "url":
                return repr(mask_url(value))
            case "args":
                return repr(list(mask_arguments(value)))
        return repr(value)

    @property
    def where(self) -> str:
        """The server's place for messages, without secrets."""
        raise NotImplementedError

    @property
    def secrets(self) -> frozenset[str]:
        """The values that must not be shown, wherever they turn up."""
        return frozenset()

    def masked(self, text: str) -> str:
        """Return `text`, which a server or library wrote, with this spec's secrets masked."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text


@dataclass(frozen=True, kw_only=True, repr=False)
class StdioSpec(Spec):
    """A program that speaks MCP over its standard input and output.

    Attributes:
        command: The program, looked up on PATH.
        args: Its arguments.
        env: Variables added to the small safe environment that the SDK hands on.
        cwd: Working directory, or None for the kernel's.
    """

    transport: ClassVar[str] = "stdio"
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | Path | None = None

    @property
    def where(self) -> str:
        """The command line."""
        return shlex.join((self.command, *mask_arguments(self.args)))

    @property
    def secrets(self) -> frozenset[str]:
        """Values of secret-looking variables and options."""
        hidden = [value for name, value in self.env.items() if _SECRET_NAME.search(name)]
        for said, shown in zip(self.args, mask_arguments(self.args), strict=True):
            if said != shown:
                hidden.append(said.partition("=")[2] if shown.endswith(f"={MASK}") else said)
        return _long_enough(hidden)


@dataclass(frozen=True, kw_only=True, repr=False)
class UrlSpec(Spec):
    """What the transports with a URL share.

    Attributes:
        url: The endpoint.
        headers: Sent with every request.
        verify: False to accept any TLS certificate, or the path of a CA bundle.
        cert: Path of a client certificate (PEM with its key), or a pair (certificate, key).
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool | str = True
    cert: str | tuple[str, str] | None = None

    @property
    def where(self) -> str:
        """The URL."""
        return mask_url(self.url)

    @property
    def secrets(self) -> frozenset[str]:
        """Values of secret-looking headers (`Bearer x` also as `x`), user info and secret-looking query values."""
        hidden: list[str] = []
        for name, value in self.headers.items():
            if _SECRET_NAME.search(name) or name.lower() == "cookie":
                hidden += [value, value.rpartition(" ")[2]]
        parts = urlsplit(self.url)
        hidden += [part for part in (parts.password, parts.netloc.rpartition("@")[0]) if part]
        hidden += [value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name)]
        return _long_enough(hidden)


@dataclass(frozen=True, kw_only=True, repr=False)
class HttpSpec(UrlSpec):
    """Streamable HTTP.

    Attributes:
        fallback: Whether a server that does not know streamable HTTP is asked for SSE
            (specification, "Backwards Compatibility" of the transports page).
        client_factory: Makes the `httpx2.AsyncClient`; called with `headers`, `timeout` and `auth`.
    """

    transport: ClassVar[str] = "http"
    fallback: bool = False
    client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SseSpec(UrlSpec):
    """The HTTP+SSE transport of protocol 2024-11-05.

    Attributes:
        client_factory: Makes the `httpx2.AsyncClient`; called with `headers`, `timeout` and `auth`.
    """

    transport: ClassVar[str] = "sse"
    client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class WebSocketSpec(UrlSpec):
    """WebSocket, one JSON-RPC message a frame (not in the specification, but in use)."""

    transport: ClassVar[str] = "ws"


@dataclass(frozen=True, kw_only=True, repr=False)
class InProcessSpec(Spec):
    """A server object in this kernel.

    Attributes:
        server: An `mcp.server.mcpserver.MCPServer` or a low-level `mcp.server.Server`.
    """

    transport: ClassVar[str] = "in-process"
    server: Any

    @property
    def where(self) -> str:
        """The object's class and name."""
        name = getattr(self.server, "name", "") or "unnamed"
        return f"{type(self.server).__name__} {name!r}"
