"""What a `connect` line says beside its target: a header here, a time-out there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.auth import make_auth
from mcp_magic.config.entries import spec_type, url_spec
from mcp_magic.config.fields import FieldError, protocol, sampling, seconds
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, UrlSpec
from mcp_magic.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Overrides", "parse_env", "parse_header"]


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Options that add to a spec or replace parts of it; None and empty leave it as it is."""

    transport: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | Path | None = None
    timeout: float | None = None
    trust: bool = False
    verify: bool | str = True
    cert: str | tuple[str, str] | None = None
    client_factory: Callable[..., Any] | None = None
    auth: Any = field(default=None, repr=False)
    sampling: str | None = None
    reconnect: bool | None = None
    protocol: str | None = None

    def applied(self, spec: Spec, directory: Path | None = None) -> Spec:
        """Return `spec` with these options.

        Raises:
            TargetError: for an option that this kind of server does not have.
        """
        try:
            spec = self._with_transport(spec)
            self._check(spec)
            return replace(spec, **self._changes(spec, directory))
        except FieldError as error:
            problem = str(error)
        raise TargetError(problem)

    def _with_transport(self, spec: Spec) -> Spec:
        if self.transport is None:
            return spec
        wanted = spec_type(self.transport)
        if isinstance(spec, UrlSpec):
            names = {f.name for f in fields(wanted)} - {"fallback", "url"}
            same = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name in names}
            return url_spec(spec.url, self.transport, **same)
        if not isinstance(spec, wanted):
            kind = "a command speaks" if isinstance(spec, StdioSpec) else "a server in this kernel speaks"
            raise FieldError(f"the transport {self.transport!r} needs a URL; {kind} {spec.transport}.")
        return spec

    def _check(self, spec: Spec) -> None:
        """Raise FieldError for what only another kind of server has."""
        given = {name for name in ("headers", "env", "cwd", "cert", "client_factory", "auth") if getattr(self, name)}
        given |= {"verify"} if self.verify is not True else set()
        allowed: set[str] = set()
        if isinstance(spec, StdioSpec):
            allowed = {"env", "cwd"}
        elif isinstance(spec, UrlSpec):
            allowed = {"headers", "verify", "cert"}
            allowed |= {"client_factory", "auth"} if isinstance(spec, (HttpSpec, SseSpec)) else set()
        for name in sorted(given - allowed):
            raise FieldError(f"a server {_described(spec)} has no {name}; {_OWNERS[name]} have.")

    def _changes(self, spec: Spec, directory: Path | None) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if self.timeout is not None:
            changes["timeout"] = seconds(self.timeout)
        if self.trust:
            changes["trust"] = True
        if self.sampling is not None:
            changes["sampling"] = sampling(self.sampling)
        if self.reconnect is not None:
            changes["reconnect"] = self.reconnect
        if self.protocol is not None:
            changes["protocol"] = protocol(self.protocol)
        if isinstance(spec, StdioSpec):
            changes |= {"env": {**spec.env, **self.env}} if self.env else {}
            changes |= {"cwd": (directory or Path.cwd()) / Path(self.cwd).expanduser()} if self.cwd else {}
        if isinstance(spec, UrlSpec):
            changes |= {"headers": _merged(spec.headers, self.headers)} if self.headers else {}
            changes |= {"verify": self.verify} if self.verify is not True else {}
            changes |= {"cert": self.cert} if self.cert else {}
        if self.client_factory is not None:
            changes["client_factory"] = self.client_factory
        if self.auth and isinstance(spec, HttpSpec | SseSpec):
            changes["auth"] = make_auth(self.auth, directory, spec.auth)
        return changes


_OWNERS = {
    "headers": "servers with a URL",
    "verify": "servers with a URL",
    "cert": "servers with a URL",
    "client_factory": "HTTP servers",
    "auth": "HTTP servers",
    "env": "commands",
    "cwd": "commands",
}


def _described(spec: Spec) -> str:
    if isinstance(spec, InProcessSpec):
        return "in this kernel"
    return "with a command" if isinstance(spec, StdioSpec) else "with a URL"


def _merged(headers: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Join two sets of headers; the names of headers have no case."""
    replaced = {name.lower() for name in more}
    return {**{name: value for name, value in headers.items() if name.lower() not in replaced}, **more}


def parse_header(text: str) -> tuple[str, str]:
    """Read a header as `curl -H` takes it.

    Raises:
        TargetError: when it has no colon or no name; the message does not repeat it.

    >>> parse_header("Authorization: Bearer abc")
    ('Authorization', 'Bearer abc')
    """
    name, colon, value = text.partition(":")
    name = name.strip()
    if not colon or not name or any(c in name for c in ' "=') or any(c in text for c in "\r\n\0"):
        raise TargetError("a header is written 'Name: value', for example 'Authorization: Bearer abc'.")
    return name, value.strip()


def parse_env(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Read `NAME=value`, or `NAME` alone for the value that it has here.

    Raises:
        TargetError: when it has no name, or is not set here.

    >>> parse_env("PORT=80"), parse_env("HOME", {"HOME": "/root"})
    (('PORT', '80'), ('HOME', '/root'))
    """
    name, equals, value = text.partition("=")
    if not name.isidentifier():
        raise TargetError("a variable is written NAME=value, or NAME for the value that it has here.")
    if equals:
        return name, value
    environ = os.environ if environ is None else environ
    if name not in environ:
        raise TargetError(f"the variable {name} is not set here. Give it a value: --env {name}=VALUE")
    return name, environ[name]
