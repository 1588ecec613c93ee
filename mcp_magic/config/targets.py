"""From what a person writes after `connect` to a spec and a name."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mcp_magic.config.addresses import url_meant
from mcp_magic.config.entries import ServerEntry, make_spec, url_spec
from mcp_magic.config.fields import FieldError
from mcp_magic.config.files import find_server
from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.names import name_of_command, name_of_url, slug, unique_name
from mcp_magic.config.overrides import Overrides, parse_env, parse_header
from mcp_magic.config.serverfiles import is_path, spec_of_file
from mcp_magic.config.specs import InProcessSpec, Spec, StdioSpec, UrlSpec
from mcp_magic.config.variables import Variables
from mcp_magic.errors import ConfigError, TargetError, did_you_mean
from mcp_magic.schema.lines import as_command

__all__ = ["is_server", "means_server", "parse_env", "parse_header", "resolve_target", "unique_name"]

TARGETS = (
    "A target is a URL, `-- COMMAND ARG...`, a server file (.py, .js), a variable that holds an MCPServer, "
    "or a name from a config file."
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SERVER_CLASSES = (("mcp.server.mcpserver.server", "MCPServer"), ("mcp.server.lowlevel.server", "Server"))

Named = tuple[Spec, str]
"""A spec and the name that its session gets by default."""


def resolve_target(
    target: Any = None,
    *,
    command: Sequence[str] = (),
    transport: str | None = None,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float | None = None,
    trust: bool = False,
    verify: bool | str = True,
    cert: str | tuple[str, str] | None = None,
    lookup: Callable[[str], Any] | None = None,
    find_entry: Callable[[str], ServerEntry] | None = None,
    directory: Path | None = None,
    client_factory: Callable[..., Any] | None = None,
    sampling: str | None = None,
    reconnect: bool | None = None,
    protocol: str | None = None,
    auth: Any = None,
    known: Iterable[str] = (),
) -> tuple[Spec, str]:
    """Return the spec that a target means, and the name to give its session (not yet made unique).

    Args:
        target: A URL, the path of a server file, the name of a variable or of a configured server, or a
            value: a server object, a spec, a `ServerEntry`, a table as config files have it, a `Path`.
        command: In place of a target: a program and its arguments.
        transport: "stdio", "http", "sse" or "ws", when the target does not say it or says it wrong.
        headers: Sent with every request, on top of those of the target.
        env: Variables for a command, on top of those of the target.
        cwd: Working directory of a command.
        timeout: Seconds the handshake may take.
        trust: Whether to believe the server's annotation hints.
        verify: False to accept any TLS certificate, or the path of a CA bundle.
        cert: A client certificate.
        lookup: Returns the value of a variable, or None.
        find_entry: Finds a configured server, by default in the config files around `directory`.
        directory: What relative paths are relative to, by default the current one.
        client_factory: Makes the HTTP client.
        reconnect: Whether a session that is lost is opened again by itself; None for what the host's setting says.
        sampling: Whether the server may ask for a model's words: "off", "ask" or "auto".
        protocol: How to begin the session: "auto", "handshake" or "2026-07-28".
        auth: How to log in: "none", "oauth", "client-credentials", or a table (`config.auth.AuthOptions`).
        known: Names of variables that could have been meant.

    Raises:
        TargetError: when it means nothing or is incomplete; the message has what a target can be.
        ConfigError: when the configured server of that name has a problem.
    """
    overrides = Overrides(
        transport=transport,
        headers=headers or {},
        env=env or {},
        cwd=cwd,
        timeout=timeout,
        trust=trust,
        verify=verify,
        cert=cert,
        client_factory=client_factory,
        sampling=sampling,
        reconnect=reconnect,
        protocol=protocol,
        auth=auth,
    )
    if command:
        spec, name = _from_command(target, command)
    elif isinstance(target, str):
        names = _Names(lookup, find_entry or partial(find_server, directory=directory), tuple(known), directory)
        spec, name = names.resolve(target.strip())
    else:
        spec, name = _from_value(target, directory)
    return overrides.applied(spec, directory), name


def is_server(value: Any) -> bool:
    """Tell whether `value` is a server object of the SDK, without importing it.

    >>> is_server("weather")
    False
    """
    classes = (getattr(sys.modules.get(module), name, None) for module, name in _SERVER_CLASSES)
    return any(isinstance(value, found) for found in classes if isinstance(found, type))


def _from_command(target: Any, command: Sequence[str]) -> Named:
    if target not in (None, ""):
        raise TargetError(f"give a target or a command after `--`, not both: {target!r} and {command[0]!r}.")
    program, *args = command
    return StdioSpec(command=program, args=tuple(args)), name_of_command(program, args)


def _from_value(value: Any, directory: Path | None) -> Named:
    """Resolve what is no text: a server, a spec, a configured server, a table, a path."""
    if isinstance(value, Spec):
        return value, _name_of_spec(value)
    if isinstance(value, ServerEntry):
        return _from_entry(value)
    if isinstance(value, Path):
        return spec_of_file(value, directory)
    if isinstance(value, Mapping):
        return _from_table(value, directory)
    if is_server(value):
        return InProcessSpec(server=value), slug(str(value.name or ""))
    what = "nothing" if value is None else f"an object of type {type(value).__name__}"
    raise TargetError(f"{what} is no target. {TARGETS}")


def _from_entry(entry: ServerEntry) -> Named:
    if entry.spec is None:
        raise ConfigError(str(entry.problem) if entry.problem else f"{entry.source}: server {entry.name!r} is empty.")
    return entry.spec, slug(entry.name)


def _from_table(table: Mapping[str, Any], directory: Path | None) -> Named:
    fields = {key: value for key, value in table.items() if key != "name"}
    try:
        spec = make_spec(fields, variables=Variables(os.environ, directory), strict=True)
    except FieldError as error:
        problem = str(error)
    else:
        return spec, slug(str(table["name"])) if table.get("name") else _name_of_spec(spec)
    raise TargetError(f"server table: {problem}")


def _name_of_spec(spec: Spec) -> str:
    if isinstance(spec, UrlSpec):
        return name_of_url(spec.url)
    if isinstance(spec, StdioSpec):
        return name_of_command(spec.command, spec.args)
    return slug(str(getattr(getattr(spec, "server", None), "name", None) or ""))


class _Names:
    """What text can mean, in this order: a URL, a file, a variable, a configured server."""

    def __init__(
        self,
        lookup: Callable[[str], Any] | None,
        find_entry: Callable[[str], ServerEntry],
        known: tuple[str, ...],
        directory: Path | None,
    ) -> None:
        self._lookup = lookup
        self._find_entry = find_entry
        self._known = known
        self._directory = directory

    def resolve(self, text: str) -> Named:
        if not text:
            raise TargetError(f"no target given. {TARGETS}")
        if _URL.match(text):
            return self._url(text)
        if address := url_meant(text, self._directory):
            address = mask_url(address)
            raise TargetError(f"{address.partition('//')[2]!r} is no server file and no URL. Did you mean {address!r}?")
        if is_path(text) and not self._is_command(text):
            return spec_of_file(Path(text), self._directory)
        value = self._variable(text)
        if means_server(value):
            return _from_value(value, self._directory)[0], text
        try:
            entry = self._find_entry(text)
        except ConfigError as error:
            not_configured = str(error)
        else:
            return _from_entry(entry)
        raise TargetError(self._unknown(text, value, not_configured))

    def _is_command(self, text: str) -> bool:
        """Whether a text with the suffix of a file is rather a program with arguments."""
        program, *arguments = text.split()
        there = (self._directory or Path.cwd()) / Path(text).expanduser()
        return bool(arguments) and not there.exists() and shutil.which(program) is not None

    def _url(self, text: str) -> Named:
        try:
            return url_spec(text), name_of_url(text)
        except FieldError as error:
            problem = str(error)
        raise TargetError(problem)

    def _variable(self, text: str) -> Any:
        if self._lookup is None or not text.isidentifier():
            return None
        try:
            return self._lookup(text)
        except (LookupError, NameError):
            return None

    def _unknown(self, text: str, value: Any, not_configured: str) -> str:
        hint = did_you_mean(text, [name for name in self._known if name != text])
        words = mask_arguments(tuple(text.split()))
        text = " ".join(words)
        first = f"{text!r} is no target.{hint}"
        if value is not None:
            first = f"the variable {text} holds no server but an object of type {type(value).__name__}.{hint}"
        if len(words) > 1 or shutil.which(words[0]):
            first = f"{first} For a command: `%mcp connect -- {as_command(words)}`."
        return f"{first} {TARGETS}\n{not_configured}"


def means_server(value: Any) -> bool:
    """Tell whether a variable with this value is a target."""
    if isinstance(value, Mapping):
        return "command" in value or "url" in value
    return isinstance(value, (Spec, ServerEntry, Path)) or is_server(value)
