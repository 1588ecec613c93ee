"""Where a server is, as small immutable values.

A spec says everything that is needed to open a session and nothing about the session itself. Secrets
(headers, environment, user info in URLs, credentials in queries) never show in `repr`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from mcp_magic.config.auth import AuthOptions
from mcp_magic.config.masking import (
    argument_secrets,
    header_secrets,
    hidden_in,
    long_enough,
    mask_arguments,
    mask_url,
    named_secrets,
    stable_arguments,
    url_secrets,
    variable_secrets,
    with_names,
)
from mcp_magic.schema.secretnames import MASK, is_declared_secret

if TYPE_CHECKING:
    import ssl
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
    "tls_context",
]

DEFAULT_TIMEOUT = 30.0
"""Seconds a server has to answer the handshake. `npx` and `uvx` may have to install first; a person waits no longer."""


def _short(word: str) -> str:
    """Write this Python and files below the current folder as a person would: notebooks are shared."""
    if word == sys.executable:
        return "python"
    here = f"{os.getcwd()}{os.sep}"  # noqa: PTH109
    return word.removeprefix(here) if len(here) > 1 else word


MAX_WHERE = 160
"""Characters of a command line in a message; `python -c` may hold a whole program."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every server description has.

    Attributes:
        timeout: Seconds the handshake may take.
        trust: Whether the person believes this server's annotation hints.
        reconnect: Whether a session that is lost is opened again by itself; None for what the host's setting says.
        sampling: Whether the server may ask for a model's words: `"off"`, `"ask"` (the person is asked) or `"auto"`.
        protocol: How a session is begun: `"auto"`, `"handshake"` (`initialize` only) or `"2026-07-28"`
            (`server/discover` only).
        variables: What the `${VAR}` of its declaration stood for, by name; it is shown by name.
    """

    transport: ClassVar[str]
    timeout: float = DEFAULT_TIMEOUT
    trust: bool = False
    sampling: str = "ask"
    reconnect: bool | None = None
    protocol: str = "auto"
    variables: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={self._shown(f.name)}" for f in fields(self) if f.repr and self._said(f))
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
                return repr(mask_url(with_names(value, self.variables)))
            case "args":
                return repr([with_names(shown, self.variables) for shown in mask_arguments(value)])
        return with_names(repr(value), self.variables) if isinstance(value, str) else repr(value)

    @property
    def where(self) -> str:
        """The server's place for messages, without secrets."""
        raise NotImplementedError

    @property
    def secrets(self) -> frozenset[str]:
        """The values that must not be shown, wherever they turn up."""
        return long_enough(variable_secrets(self.variables))

    @property
    def identity(self) -> str:
        """A digest of what is behind the name: the same for the same server, whatever its secrets are just now.

        Consent is for this server: another command line, folder, URL or kind of server is another one.
        """
        text = json.dumps([*self._identified_by()], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _identified_by(self) -> tuple[Any, ...]:
        return self.transport, self.where

    def masked(self, text: str) -> str:
        """Return `text`, which a server or library wrote, with this spec's secrets masked."""
        return hidden_in(text, self.secrets)


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
        """The command line, on one line."""
        shown = (with_names(word, self.variables) for word in (self.command, *mask_arguments(self.args)))
        words = (_short(word) for word in shown)
        line = " ".join(shlex.join(words).split())
        return line if len(line) <= MAX_WHERE else f"{line[:MAX_WHERE]}…"

    @property
    def secrets(self) -> frozenset[str]:
        """Values of secret-looking variables and options."""
        return super().secrets | long_enough(named_secrets(self.env) | argument_secrets(self.args))

    def _identified_by(self) -> tuple[Any, ...]:
        env = {name: MASK if is_declared_secret(name) else value for name, value in self.env.items()}
        return self.command, stable_arguments(self.args), os.path.abspath(self.cwd or "."), env  # noqa: PTH100


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
        return mask_url(with_names(self.url, self.variables))

    @property
    def secrets(self) -> frozenset[str]:
        """Values of secret-looking headers (`Bearer x` also as `x`), user info, secret-looking query values, keys."""
        auth: frozenset[str] = getattr(self, "auth", AuthOptions()).secrets
        return super().secrets | long_enough(header_secrets(self.headers) | url_secrets(self.url)) | auth

    def _identified_by(self) -> tuple[Any, ...]:
        """Its host as it is, and the rest as it is shown."""
        return urlsplit(self.url).netloc.rpartition("@")[2], self.where


def tls_context(spec: UrlSpec) -> ssl.SSLContext:
    """Return the TLS context that a spec's `verify` and `cert` ask for.

    Raises:
        OSError: A certificate file cannot be read.
    """
    import ssl

    context = ssl.create_default_context(cafile=spec.verify if isinstance(spec.verify, str) else None)
    if spec.verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if spec.cert is not None:
        certificate, key = (spec.cert, None) if isinstance(spec.cert, str) else spec.cert
        context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True, kw_only=True, repr=False)
class HttpSpec(UrlSpec):
    """Streamable HTTP.

    Attributes:
        auth: How a token is come by, where the server wants one.
        fallback: Whether a server that does not know streamable HTTP is asked for SSE
            (specification, "Backwards Compatibility" of the transports page).
        client_factory: Makes the `httpx2.AsyncClient`; called with `headers`, `timeout` and `auth`.
    """

    transport: ClassVar[str] = "http"
    auth: AuthOptions = field(default=AuthOptions())
    fallback: bool = False
    client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SseSpec(UrlSpec):
    """The HTTP+SSE transport of protocol 2024-11-05.

    Attributes:
        auth: How a token is come by, where the server wants one.
        client_factory: Makes the `httpx2.AsyncClient`; called with `headers`, `timeout` and `auth`.
    """

    transport: ClassVar[str] = "sse"
    auth: AuthOptions = field(default=AuthOptions())
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
