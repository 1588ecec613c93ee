"""Specs, which say how to reach a server (stdio, HTTP, SSE, WebSocket, in-process) and how to log in to it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.masking import (
    Masker,
    argument_secrets,
    header_secrets,
    inner_secrets,
    long_enough,
    mask_arguments,
    mask_url,
    named_secrets,
    stable_arguments,
    url_secrets,
    variable_secrets,
    with_names,
)
from mcp_magic.config.parsing import FieldError, kind_of, path_of, read_bytes, reject_unknown
from mcp_magic.config.references import AUTH_FIELDS, Input, SecretUse, auth_field, fill_references, find_references
from mcp_magic.config.sandbox import Sandbox, script_folder, with_preset
from mcp_magic.schema.secrets import MASK, is_declared_secret

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping


# Log-in: the `auth` of a declaration, and `--auth` and related options of a line.

_SECRETS = ("client_secret", "private_key", "assertion")
_MODES = ("auto", "none", "oauth")
_CHOICES = {
    "mode": _MODES,
    "grant": ("authorization_code", "client_credentials", "jwt_bearer"),
    "token_endpoint_auth_method": ("none", "client_secret_basic", "client_secret_post", "private_key_jwt"),
}
_WORDS = {"client-credentials": {"grant": "client_credentials"}, "jwt-bearer": {"grant": "jwt_bearer"}}


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthOptions:
    """How to get an access token."""

    # "auto": log in if the server asks for it and no Authorization header is given; "oauth": at each 401; "none": never
    mode: Literal["auto", "none", "oauth"] = "auto"
    # the user logs in; this program has credentials of its own; or `assertion` is exchanged for a token (RFC 7523)
    grant: Literal["authorization_code", "client_credentials", "jwt_bearer"] = "authorization_code"
    client_id: str | None = None  # None to register, or to use `client_metadata_url`
    client_secret: str | None = None
    scopes: tuple[str, ...] = ()  # empty for those that the server names
    redirect_port: int | None = None  # loopback port of the redirect URI, if it was registered with one
    client_metadata_url: str | None = None  # an https URL whose document describes this client
    private_key: str | None = None  # PEM text of the key that signs client assertions (`private_key_jwt`)
    assertion: str | None = None  # a JWT signed elsewhere, instead of `private_key` or for the grant `jwt_bearer`
    token_endpoint_auth_method: str | None = None  # None for the one that the authorization server wants
    issuer: str | None = None  # the authorization server of the credentials, which are sent to no other
    dpop: bool | None = None  # whether to bind tokens to a key of this kernel (RFC 9449); None: if the server asks

    def __repr__(self) -> str:
        options = [f for f in fields(self) if getattr(self, f.name) != f.default]
        parts = (f"{f.name}={MASK if f.name in _SECRETS else repr(getattr(self, f.name))}" for f in options)
        return f"AuthOptions({', '.join(parts)})"

    @property
    def interactive(self) -> bool:
        """Whether the user must log in."""
        return self.grant == "authorization_code"

    @property
    def secrets(self) -> frozenset[str]:
        """The values to mask."""
        return long_enough(value for name in _SECRETS if (value := getattr(self, name)))


def make_auth(value: Any, base: Path | None = None, onto: AuthOptions | None = None) -> AuthOptions:
    """Return the log-in options of a declaration or a line, on top of those of `onto`.

    `value` is `"none"`, `"oauth"`, `"client-credentials"`, or a table with the attributes of `AuthOptions`, where
    `private_key` may be the path of a PEM file, relative to `base`.
    """
    onto = onto or AuthOptions()
    if isinstance(value, AuthOptions):
        return value
    if isinstance(value, str):
        value = {"mode": value} if value in _MODES else _WORDS.get(value, value)
    if isinstance(value, str):
        valid = [*_MODES, *_WORDS]
        raise FieldError(f"unknown value {value!r}.{did_you_mean(value, valid)} Valid: {', '.join(valid)}.", "auth")
    if not isinstance(value, dict):
        raise FieldError(f"expected 'oauth', 'none' or a table, got {kind_of(value)}.", "auth")
    reject_unknown(value, [f.name for f in fields(AuthOptions)], "auth")
    values = {name: _read(name, entry, base) for name, entry in value.items() if entry is not None}
    if values and "mode" not in values:
        values["mode"] = "oauth"
    options = replace(onto, **values)
    _check(options)
    return options


def foreign_auth(value: Any) -> tuple[AuthOptions, list[str]]:
    """Return the options in the `auth` of another host's file, and its keys that have no effect here.

    >>> foreign_auth({"CLIENT_ID": "abc", "scopes": ["read"], "other": 1})  # Cursor
    (AuthOptions(mode='oauth', client_id='abc', scopes=('read',)), ['other'])
    >>> foreign_auth({"clientId": "abc", "callbackPort": 8080})  # Claude Code
    (AuthOptions(mode='oauth', client_id='abc', redirect_port=8080), [])
    >>> foreign_auth(False)  # OpenCode
    (AuthOptions(mode='none'), [])
    """
    if value is False:
        return AuthOptions(mode="none"), []
    names = {f.name for f in fields(AuthOptions)}
    values, unused = {}, []
    for key, entry in value.items() if isinstance(value, dict) else ():
        name = auth_field(key)
        name = {"callback_port": "redirect_port", "scope": "scopes"}.get(name, name)
        if name in names:
            values[name] = entry
        else:
            unused.append(key)
    try:
        return make_auth(values), unused
    except FieldError:
        return AuthOptions(), unused


def _read(name: str, value: Any, base: Path | None) -> Any:
    problem = f"expected text, got {kind_of(value)}."
    if name == "scopes":
        words = value.split() if isinstance(value, str) else value
        if isinstance(words, list | tuple) and all(isinstance(word, str) and word for word in words):
            return tuple(part for word in words for part in word.split())
        problem = f"expected a list of scopes, got {kind_of(value)}."
    elif name == "redirect_port":
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536:
            return value
        problem = "expected a port from 1 to 65535."
    elif name == "dpop":
        if isinstance(value, bool):
            return value
        problem = f"expected true or false, got {kind_of(value)}."
    elif isinstance(value, str) and value.strip():
        return _read_text(name, value, base)
    raise FieldError(problem, "auth", name)


def _read_text(name: str, text: str, base: Path | None) -> str:
    problem = ""
    if name in _CHOICES:
        text, valid = text.replace("-", "_") if name == "grant" else text, _CHOICES[name]
        if text not in valid:
            problem = f"unknown value {text!r}.{did_you_mean(text, valid)} Valid: {', '.join(valid)}."
    elif name == "client_metadata_url":
        parts = urlsplit(text)
        if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
            problem = "expected an https URL with a path, for example https://me.example/client.json."
    elif name == "issuer":
        if urlsplit(text).scheme not in ("http", "https"):
            problem = "expected the http(s) URL of the authorization server."
    elif name == "private_key" and "-----BEGIN" not in text and not find_references(text):
        with suppress(OSError, ValueError):
            text = read_bytes(path_of(text, base)).decode("ascii")
        if "PRIVATE KEY-----" not in text:
            problem = "expected a private key in PEM form, or the path of a file that holds one."
    if problem:
        raise FieldError(problem, "auth", name)
    return text


def _check(options: AuthOptions) -> None:
    if options.grant == "client_credentials":
        if options.client_id is None:
            raise FieldError("client credentials need a client_id.", "auth", "client_id")
        if options.client_secret is None and options.private_key is None and options.assertion is None:
            raise FieldError("client credentials need a client_secret, or a private_key.", "auth", "client_secret")
    elif options.private_key is not None:
        raise FieldError("is for the grant client_credentials.", "auth", "private_key")
    if options.grant == "jwt_bearer" and options.assertion is None:
        raise FieldError("the grant jwt_bearer needs an assertion.", "auth", "assertion")
    if options.client_secret is not None and options.client_id is None:
        raise FieldError("a client_secret needs the client_id that it belongs to.", "auth", "client_id")


# Specs hold everything needed to open a session, and nothing about the session itself. Their `repr` shows no secrets
# (headers, environment, user info in URLs, credentials in queries).

DEFAULT_TIMEOUT = 30.0
"""Deadline of the handshake in seconds: `npx` and `uvx` may install first, and people do not wait longer."""


def _short(word: str) -> str:
    """Return a short form of this Python and of paths below the current folder, because notebooks are shared."""
    if word == sys.executable:
        return "python"
    try:
        here = f"{os.getcwd()}{os.sep}"  # noqa: PTH109
    except FileNotFoundError:  # it was deleted
        return word
    return word.removeprefix(here) if len(here) > 1 else word


@dataclass(frozen=True)
class HeadersHelper:
    """A command for a shell that writes headers as a JSON object."""

    command: str
    cwd: str | Path | None = None  # None for the kernel's


SHORTEST_LINE = 12  # characters of the shortest line of a secret that is masked alone: others may be everyday words

MAX_SECRET_LINES = 100  # lines of a secret that are masked alone


class SecretValues:
    """The values of a server's references once they are resolved, which all who mask its texts share."""

    def __init__(self) -> None:
        self.values: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return "<SecretValues>"

    def __reduce__(self) -> tuple[Any, ...]:
        return SecretValues, ()  # a spec that is sent elsewhere takes no values along

    def add(self, values: Iterable[str]) -> None:
        """Mask these values too, the secrets inside them, and the long lines of those that have several.

        A text may have only some of the lines, and only the token of `Bearer TOKEN`.
        """
        for value in values:
            lines = [line.strip() for line in value.splitlines()[:MAX_SECRET_LINES]]
            parts = (*inner_secrets(value.strip()), *(line for line in lines if len(line) >= SHORTEST_LINE))
            self.values |= long_enough((value, *parts))


MAX_WHERE = 160  # characters of a command line that a message shows; `python -c` may hold a whole program


@dataclass(frozen=True, kw_only=True)
class Spec(ABC):
    """How to reach a server; the base class of all specs. Frozen."""

    transport: ClassVar[str]
    timeout: float = DEFAULT_TIMEOUT  # deadline of the handshake in seconds
    trust: bool = False  # whether the user trusts this server's annotation hints
    sampling: str = "ask"  # of the server: "off", "ask" (the user decides) or "auto"
    reconnect: bool | None = None  # whether a lost session is reopened by itself; None for the host's setting
    protocol: str = "auto"  # "auto", "handshake" (`initialize` only) or "2026-07-28" (`server/discover` only)
    # values of the `${VAR}` in its declaration, by name; shown as `${VAR}`
    variables: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    unused: tuple[str, ...] = field(default=(), compare=False, repr=False)  # keys of another host that have no effect
    # the references to secrets in its fields, filled in when it is connected, and what its file says of inputs
    references: tuple[SecretUse, ...] = field(default=(), compare=False, repr=False)
    inputs: Mapping[str, Input] = field(default_factory=dict, compare=False, repr=False)
    secret_values: SecretValues = field(default_factory=SecretValues, compare=False, repr=False)

    def __repr__(self) -> str:
        names = [f.name for f in fields(self) if f.repr and getattr(self, f.name) not in (None, {}, (), f.default)]
        return f"{type(self).__name__}({', '.join(f'{name}={self._field_text(name)}' for name in names)})"

    def _field_text(self, name: str) -> str:
        value = getattr(self, name)
        match name:
            case "env" | "headers":
                texts = {use.reference.text for use in self.references}
                return repr({key: text if text in texts else MASK for key, text in value.items()})
            case "url":
                return repr(mask_url(with_names(value, self.variables)))
            case "args":
                return repr([with_names(word, self.variables) for word in mask_arguments(value)])
        return with_names(repr(value), self.variables) if isinstance(value, str) else repr(value)

    @property
    def unused_note(self) -> str:
        """A remark on the keys that have no effect here, or ""."""
        if not self.unused:
            return ""
        note = f"its configuration has {join_names(self.unused)}, without effect here"
        if any("tools" in key.lower() for key in self.unused):
            note += "; all its tools are offered, and `%mcp deny SERVER:TOOL` refuses one"
        return note

    @property
    @abstractmethod
    def where(self) -> str:
        """The server's command line, URL or object for messages, without secrets."""

    @property
    def secrets(self) -> frozenset[str]:
        """The values to mask wherever they appear, among them those of its references once it was connected."""
        return self._without_references(variable_secrets(self.variables)) | self.secret_values.values

    def _without_references(self, secrets: Iterable[str]) -> frozenset[str]:
        """Return secrets without those in whose place a reference stands, which may be shown."""
        texts = [use.reference.text for use in self.references]
        return frozenset(secret for secret in long_enough(secrets) if not any(text in secret for text in texts))

    @property
    def secret_sources(self) -> list[str]:
        """Where its secrets come from: `TOKEN from keyring acme/db`."""
        return [use.text for use in self.references]

    @property
    def identity(self) -> str:
        """A digest of the server behind the name, which stays the same when its secrets change.

        Consent is bound to it: another command line, folder, URL or kind of server is another server.
        """
        text = json.dumps([*self.identifiers], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def identifiers(self) -> tuple[Any, ...]:
        """What tells the server from others, without secrets."""
        return self.transport, self.where

    def masked(self, text: str) -> str:
        """Return text of a server or a library with this spec's secrets masked."""
        return Masker(self.secrets).hide(text)


@dataclass(frozen=True, kw_only=True, repr=False)
class StdioSpec(Spec):
    """A program that speaks MCP over its standard input and output."""

    transport: ClassVar[str] = "stdio"
    command: str  # searched on PATH
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # added to the small safe environment that the SDK passes on
    cwd: str | Path | None = None  # None for the kernel's
    sandbox: Sandbox | None = None  # None for all rights of the kernel
    observe: bool = False  # whether it is recorded which files, hosts and programs it uses

    @property
    def where(self) -> str:
        """The command line without line ends, at most `MAX_WHERE` characters of it."""
        words = (_short(with_names(word, self.variables)) for word in (self.command, *mask_arguments(self.args)))
        line = " ".join(shlex.join(words).split())
        return line if len(line) <= MAX_WHERE else f"{line[:MAX_WHERE]}…"

    @property
    def secrets(self) -> frozenset[str]:
        """The values of secret-looking variables and options."""
        own = named_secrets(self.env) | argument_secrets(self.args)
        return super().secrets | self._without_references(own)

    @property
    def identifiers(self) -> tuple[Any, ...]:
        """The command line, the folder, the variables and the sandbox, without secrets."""
        env = {name: MASK if is_declared_secret(name) else value for name, value in self.env.items()}
        try:
            folder = os.path.abspath(self.cwd or ".")  # noqa: PTH100
        except FileNotFoundError:  # the kernel's was deleted
            folder = str(self.cwd or "")
        place = self.command, stable_arguments(self.args), folder, env
        # with other rights it is another server, because what was allowed to an isolated one was allowed to that
        return place if self.sandbox is None else (*place, self.sandbox.table)

    @property
    def isolation(self) -> str:
        """What the server may reach, for messages."""
        sandbox, text = self.sandbox, "not isolated"
        if sandbox is not None:
            sandbox = with_preset(sandbox, self.command, self.args)
            script = script_folder(self.args, Path(self.cwd or os.curdir)) if "python" in sandbox.preset else ""
            is_read = any(Path(script).is_relative_to(folder) for folder in (*sandbox.read, *sandbox.write))
            text = sandbox.describe("" if is_read else script)
        return f"{text}, observed" if self.observe else text


@dataclass(frozen=True, kw_only=True, repr=False)
class UrlSpec(Spec):
    """A server with a URL; the base class for HTTP, SSE and WebSocket."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)  # of every request
    headers_helper: HeadersHelper | None = None  # writes further headers each time that it is connected
    verify: bool | str = True  # False to accept any TLS certificate, or the path of a CA bundle
    cert: str | tuple[str, str] | None = None  # path of a client certificate (PEM with its key), or (certificate, key)

    @property
    def where(self) -> str:
        """The URL, with secrets masked."""
        return mask_url(with_names(self.url, self.variables))

    @property
    def address(self) -> tuple[str, int]:
        """The host, or "", and the port, or that of the scheme. Raises ValueError if the URL has none that is legal."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme in ("https", "wss") else 80)

    @property
    def secrets(self) -> frozenset[str]:
        """Log-in secrets, user info, values of secret-looking headers (also `x` of `Bearer x`) and query parameters."""
        auth: frozenset[str] = getattr(self, "auth", AuthOptions()).secrets
        own = header_secrets(self.headers) | url_secrets(self.url) | auth
        return super().secrets | self._without_references(own)

    @property
    def secret_sources(self) -> list[str]:
        """Where its secrets come from, and the command that writes its headers."""
        sources = super().secret_sources
        if self.headers_helper is not None:
            sources.append(f"headers from `{self.headers_helper.command}`")
        return sources

    @property
    def identifiers(self) -> tuple[Any, ...]:
        """The host unmasked and the URL masked."""
        return urlsplit(self.url).netloc.rpartition("@")[2], self.where


def tls_context(spec: UrlSpec) -> ssl.SSLContext:
    """Return the TLS context for `verify` and `cert`. Raises OSError if a certificate file cannot be read."""
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
    """A server with the streamable HTTP transport."""

    transport: ClassVar[str] = "http"
    auth: AuthOptions = field(default=AuthOptions())
    fallback: bool = False  # whether to try SSE (specification, "Backwards Compatibility" of transports)
    # makes the `httpx2.AsyncClient` from `headers`, `timeout` and `auth`
    client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SseSpec(UrlSpec):
    """A server with the HTTP+SSE transport of protocol 2024-11-05."""

    transport: ClassVar[str] = "sse"
    auth: AuthOptions = field(default=AuthOptions())
    client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class WebSocketSpec(UrlSpec):
    """A server with WebSocket, one JSON-RPC message in each frame (in use, though not in the specification)."""

    transport: ClassVar[str] = "ws"


def fill_spec(spec: Spec, values: Mapping[str, str], headers: Mapping[str, str]) -> Spec:
    """Return a spec with the values of its references, given by their text, and with the headers of its helper.

    Raises ValueError if a value cannot stand in its place: a header and a URL are single lines.
    """
    by_name = {text[2:-1]: value for text, value in values.items()}  # shown as references
    changes: dict[str, Any] = {"references": (), "variables": {**spec.variables, **by_name}}

    places = {use.place.lower() for use in spec.references}  # where the configuration has references, and no values

    def fill(text: str, place: str, illegal: str, label: str) -> str:
        value = fill_references(text, values) if place.lower() in places else text
        if value != text and any(character in value for character in illegal):
            raise ValueError(f"{label} has a line break or another character that it cannot have")
        return value

    if isinstance(spec, StdioSpec):
        changes["env"] = {name: fill(text, name, "\0", f"the variable {name}") for name, text in spec.env.items()}
        changes["args"] = tuple(fill(word, "args", "\0", "an argument") for word in spec.args)
    elif isinstance(spec, UrlSpec):
        table = {name: fill(text, name, "\r\n\0", f"the header {name}") for name, text in spec.headers.items()}
        replaced = {name.lower() for name in headers}
        changes["headers"] = {**{n: text for n, text in table.items() if n.lower() not in replaced}, **headers}
        changes["url"] = fill(spec.url, "url", "\r\n\0\t ", "the URL")
        if (auth := getattr(spec, "auth", None)) is not None:
            texts = {name: text for name in AUTH_FIELDS if (text := getattr(auth, name))}
            secrets = {n: fill(text, f"auth.{n}", "\0", f"auth.{n}") for n, text in texts.items()}
            changes["auth"] = replace(auth, **secrets)
    return replace(spec, **changes)


@dataclass(frozen=True, kw_only=True, repr=False)
class InProcessSpec(Spec):
    """A server object in this kernel: an `MCPServer` or a low-level `Server` of the SDK."""

    transport: ClassVar[str] = "in-process"
    server: Any

    @property
    def where(self) -> str:
        """The class and name of the server object."""
        name = getattr(self.server, "name", "") or "unnamed"
        return f"{type(self.server).__name__} {name!r}"
