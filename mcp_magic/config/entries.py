"""One server as a config file describes it, and the spec that it makes."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.config.auth import foreign_auth, make_auth
from mcp_magic.config.fields import (
    PROTOCOLS,
    FieldError,
    as_text,
    flag,
    kind_of,
    path_of,
    protocol,
    reject_unknown,
    sampling,
    seconds,
    text,
    texts,
)
from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.specs import DEFAULT_TIMEOUT, HttpSpec, Spec, SseSpec, StdioSpec, UrlSpec, WebSocketSpec
from mcp_magic.config.variables import Variables, read_env_file, referenced
from mcp_magic.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mcp_magic.errors import ConfigError

__all__ = ["SPEC_TYPES", "ServerEntry", "make_spec", "ready_entry", "spec_type", "url_spec"]

SPEC_TYPES: dict[str, type[Spec]] = {"stdio": StdioSpec, "http": HttpSpec, "sse": SseSpec, "ws": WebSocketSpec}
"""What `type`, `transport` and `--transport` may say."""

_SPELLINGS = {"streamable-http": "http", "streamablehttp": "http", "websocket": "ws", "local": "stdio"}
_SCHEMES = {HttpSpec: ("http", "https"), SseSpec: ("http", "https"), WebSocketSpec: ("ws", "wss")}
_ALIASES = {"type": "transport", "envFile": "env_file"}
_COMMAND_KEYS = ("command", "args", "env", "cwd", "env_file")
_URL_KEYS = ("url", "headers", "verify", "cert", "auth")
_SHARED_KEYS = ("transport", "timeout", "trust", "sampling", "reconnect", "protocol", "disabled")
SERVER_KEYS = (*_COMMAND_KEYS, *_URL_KEYS, *_SHARED_KEYS)


@dataclass(frozen=True)
class ServerEntry:
    """A server that is configured somewhere; nothing of it has been started.

    Attributes:
        name: As the file has it; empty when `problem` is the whole file's.
        source: The file's path, or "MCP_SERVERS".
        spec: How to reach it, or None when `problem` says why not.
        disabled: Whether the file says not to start it.
        problem: What is wrong with it.
        shadowed_by: The source whose server of the same name is used instead.
        variables: The variables that it is given, by `${VAR}`.
        written: Its whole command line or its URL as the file has it, variables by name, secrets masked.
        sets: The names of the variables and headers that the file sets.
        digest: The hash of what the file says of it, and of what the `env_file` says that it names.
    """

    name: str
    source: str
    spec: Spec | None = None
    disabled: bool = False
    problem: ConfigError | None = None
    shadowed_by: str | None = None
    variables: tuple[str, ...] = ()
    written: str = ""
    sets: tuple[str, ...] = ()
    digest: str = ""


def ready_entry(name: str, source: str, spec: Spec, disabled: bool, fields: Mapping[str, Any]) -> ServerEntry:
    """Make the entry of a server whose table is right."""
    if fields.get("command") is None:
        written = mask_url(fields["url"])
    else:
        written = shlex.join(mask_arguments((fields["command"], *map(str, fields.get("args") or ()))))
    sets = tuple(spec.env if isinstance(spec, StdioSpec) else spec.headers if isinstance(spec, UrlSpec) else ())
    from_file = {}
    if isinstance(spec, StdioSpec) and (fields.get("env_file") or fields.get("envFile")):
        from_file = {name: value for name, value in spec.env.items() if name not in texts(fields, "env")}
    digest = sha256(json.dumps([fields, from_file], sort_keys=True, default=repr).encode()).hexdigest()
    return ServerEntry(
        name, source, spec, disabled, variables=referenced(fields), written=written, sets=sets, digest=digest
    )


def spec_type(transport: Any) -> type[Spec]:
    """Return the spec class that a transport's name stands for.

    Raises:
        FieldError: listing the names there are.

    >>> spec_type("streamableHttp").__name__
    'HttpSpec'
    """
    name = str(transport).lower().replace("_", "-")
    name = _SPELLINGS.get(name, name)
    if name not in SPEC_TYPES:
        valid = "stdio, http (streamable-http), sse, ws (websocket)"
        raise FieldError(f"unknown value {transport!r}.{did_you_mean(name, SPEC_TYPES)} Valid: {valid}.", "transport")
    return SPEC_TYPES[name]


def url_spec(url: str, transport: str | None = None, **rest: Any) -> UrlSpec:
    """Make the spec of a server with a URL; without a transport its scheme decides.

    Raises:
        FieldError: when it is no URL, or its scheme is not the transport's.
    """
    scheme = _checked_scheme(url)
    if "auth" in rest and (transport is None and scheme in ("ws", "wss")):
        raise FieldError("is for HTTP servers; a WebSocket server takes headers.", "auth")
    if transport is None:
        if scheme in ("ws", "wss"):
            return WebSocketSpec(url=url, **rest)
        return HttpSpec(url=url, fallback=True, **rest)
    kind = spec_type(transport)
    if not issubclass(kind, UrlSpec):
        raise FieldError(f"the transport {transport!r} needs a command, not a url.")
    if scheme not in _SCHEMES[kind]:
        schemes = " or ".join(f"{valid}://" for valid in _SCHEMES[kind])
        raise FieldError(f"the transport {transport!r} needs a URL with {schemes}, not {scheme}://.")
    return kind(url=url, **rest)


def _checked_scheme(url: str) -> str:
    try:
        parts = urlsplit(url)
        found, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError:
        found = None
    if not found or any(c.isspace() for c in url):
        raise FieldError("not a URL with a host, for example http://127.0.0.1:8000/mcp.", "url")
    if parts.scheme not in ("http", "https", "ws", "wss"):
        raise FieldError(f"the scheme {parts.scheme!r} is not supported. Valid: http, https, ws, wss.", "url")
    return parts.scheme


def make_spec(
    fields: Mapping[str, Any], *, variables: Variables, cwd: Path | None = None, strict: bool = False
) -> Spec:
    """Make a spec from the table that a config file has for one server.

    Args:
        fields: `command`/`args`/`env`/`cwd`/`envFile` or `url`/`headers`/`verify`/`cert`/`auth`, and
            `type` or `transport`, `timeout` (seconds), `trust`, `sampling`, `reconnect`,
            `protocol`, `disabled`.
        variables: What `${...}` stands for; its `base` is what relative paths are relative to.
        cwd: Working directory of a command whose table has none.
        strict: Whether a key that nobody reads is a mistake. Files of other hosts have their own keys.

    Raises:
        FieldError: naming the key, without its value where that may be a secret.
    """
    if strict:
        reject_unknown(fields, (*SERVER_KEYS, *_ALIASES))
    known = {_ALIASES.get(key, key): value for key, value in fields.items() if value is not None}
    said = {key: variables.expand(known[key]) for key in SERVER_KEYS if key in known}
    has_command = _checked_kind(said)
    if strict:
        _reject_other_kind(said, has_command)
    rest: dict[str, Any] = {"timeout": seconds(said.get("timeout", DEFAULT_TIMEOUT)), "trust": flag(said, "trust")}
    rest["variables"] = variables.values([known[key] for key in SERVER_KEYS if key in known])
    if "sampling" in said and (strict or not isinstance(said["sampling"], dict)):  # a table is another host's
        rest["sampling"] = sampling(said["sampling"])
    rest |= {"reconnect": flag(said, "reconnect")} if "reconnect" in said else {}
    if "protocol" in said and (strict or said["protocol"] in PROTOCOLS):  # elsewhere it may mean anything
        rest["protocol"] = protocol(said["protocol"])
    if has_command:
        return _stdio(said, variables.base, cwd, rest)
    if said.get("verify") is not None or said.get("cert") is not None:
        rest |= _tls(said, variables.base)
    if "auth" in said:
        rest["auth"] = make_auth(said["auth"], variables.base) if strict else foreign_auth(said["auth"])
    return url_spec(text(said, "url"), said.get("transport"), headers=texts(said, "headers"), **rest)


def _checked_kind(said: Mapping[str, Any]) -> bool:
    """Return whether this is a server with a command, after checking that it says which."""
    wants_command = "transport" in said and spec_type(said["transport"]) is StdioSpec
    if "command" in said and "url" in said:
        raise FieldError("has both command and url. Keep one: command (stdio) or url (http, sse, ws).")
    if "command" not in said and "url" not in said:
        needs = "a command" if wants_command else "a url" if "transport" in said else "a command (stdio) or a url"
        raise FieldError(f"needs {needs}.")
    if "command" in said and "transport" in said and not wants_command:
        raise FieldError(f"the transport {said['transport']!r} needs a url, not a command.")
    return "command" in said


def _reject_other_kind(said: Mapping[str, Any], has_command: bool) -> None:
    wrong = [key for key in (_URL_KEYS if has_command else _COMMAND_KEYS) if key in said]
    if wrong:
        which = "with a url, not a command" if has_command else "with a command, not a url"
        raise FieldError(f"is for servers {which}.", wrong[0])


def _stdio(said: Mapping[str, Any], base: Path | None, cwd: Path | None, rest: Mapping[str, Any]) -> StdioSpec:
    args = said.get("args", [])
    if not isinstance(args, list):
        raise FieldError(f"expected a list of strings, got {kind_of(args)}.", "args")
    env: dict[str, str] = {}
    if "env_file" in said:
        env |= read_env_file(path_of(text(said, "env_file"), base))
    env |= texts(said, "env")
    folder = path_of(text(said, "cwd"), base) if said.get("cwd") else cwd
    words = tuple(as_text(arg, "args", number) for number, arg in enumerate(args))
    return StdioSpec(command=text(said, "command"), args=words, env=env, cwd=folder, **rest)


def _tls(said: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    verify, cert = said.get("verify", True), said.get("cert")
    if not isinstance(verify, (bool, str)):
        raise FieldError(f"expected true, false or the path of a CA bundle, got {kind_of(verify)}.", "verify")
    paths = [cert] if isinstance(cert, str) else cert or []
    if not isinstance(paths, list) or len(paths) > 2 or not all(isinstance(path, str) for path in paths):
        raise FieldError("expected the path of a certificate, or [certificate, key].", "cert")
    files = tuple(str(path_of(path, base)) for path in paths)
    return {
        "verify": str(path_of(verify, base)) if isinstance(verify, str) else verify,
        "cert": files[0] if len(files) == 1 else files or None,
    }
