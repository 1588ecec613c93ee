"""Resolves the target of `%mcp connect`: a URL, a command, a file, a configured server or a variable."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean
from mcp_magic.config.foreign import SUFFIXES, is_foreign
from mcp_magic.config.masking import mask_arguments, mask_url
from mcp_magic.config.parsing import (
    PROTOCOLS,
    SAMPLING_MODES,
    SERVER_FILES,
    FieldError,
    Variables,
    choice,
    flag,
    kind_of,
    name_of_command,
    name_of_url,
    seconds,
    slug,
    texts,
    working_directory,
)
from mcp_magic.config.project import check_secrets
from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.config.servers import ServerEntry, find_server, make_spec, spec_type, url_spec
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, UrlSpec, make_auth
from mcp_magic.errors import ArgumentsError, ConfigError, TargetError
from mcp_magic.schema.commandline import as_command

if TYPE_CHECKING:
    from mcp_magic.config.references import SecretUse

# Options of a `connect` line.


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Options that add to a spec or replace parts of it; None and empty values change nothing."""

    transport: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
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
    sandbox: Any = None
    references: tuple[SecretUse, ...] = ()  # those in `headers`, `env` and `auth`, as a line has them
    observe: bool = False

    def applied(self, spec: Spec, directory: Path | None = None) -> Spec:
        """Return `spec` with these options."""
        try:
            spec = self._with_transport(spec)
            kinds = {StdioSpec: "with a command", InProcessSpec: "in this kernel"}
            for name in sorted(self._options().keys() - {f.name for f in fields(spec)}):
                kind = kinds.get(type(spec), "with a URL")
                if name == "observe":
                    raise FieldError(f"a server {kind} cannot be observed; one with a command can.")
                raise FieldError(f"a server {kind} has no {name}; {_OWNERS[name]} have.")
            return replace(spec, **self._changes(spec, directory))
        except FieldError as error:
            problem = str(error)
        raise TargetError(problem)

    def _with_transport(self, spec: Spec) -> Spec:
        if self.transport is None:
            return spec
        spec_class = spec_type(self.transport)
        if isinstance(spec, UrlSpec):
            names = {f.name for f in fields(spec_class)} - {"fallback", "url"}
            same = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name in names}
            return url_spec(spec.url, self.transport, **same)
        if not isinstance(spec, spec_class):
            kind = "a command speaks" if isinstance(spec, StdioSpec) else "a server in this kernel speaks"
            raise FieldError(f"the transport {self.transport!r} needs a URL; {kind} {spec.transport}.")
        return spec

    def _options(self) -> dict[str, Any]:
        """Return the options that change something."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self) if f.name != "transport"}
        return {name: value for name, (value, default) in values.items() if value != default and value not in ("", {})}

    def _changes(self, spec: Spec, directory: Path | None) -> dict[str, Any]:
        changes = self._checked()
        if "env" in changes and isinstance(spec, StdioSpec):
            changes["env"] = {**spec.env, **changes["env"]}
        if "cwd" in changes:
            changes["cwd"] = (directory or working_directory()) / Path(changes["cwd"]).expanduser()
        if "headers" in changes and isinstance(spec, UrlSpec):
            replaced = {name.lower() for name in changes["headers"]}
            rest = {name: value for name, value in spec.headers.items() if name.lower() not in replaced}
            changes["headers"] = {**rest, **changes["headers"]}
        if "sandbox" in changes:
            changes["sandbox"] = make_sandbox(changes["sandbox"], directory)
        if "references" in changes:
            replaced = {use.place.lower() for use in self.references}
            rest_of_file = [use for use in spec.references if use.place.lower() not in replaced]
            changes["references"] = (*rest_of_file, *self.references)
        if "auth" in changes and isinstance(spec, HttpSpec | SseSpec):
            changes["auth"] = make_auth(changes["auth"], directory, spec.auth)
        return changes

    def _checked(self) -> dict[str, Any]:
        """Return the options that change something; raise FieldError if a value has the wrong type."""
        changes = self._options()
        for name, valid in (("sampling", SAMPLING_MODES), ("protocol", PROTOCOLS)):
            if name in changes:
                changes[name] = choice(name, changes[name], valid)
        if "timeout" in changes:
            changes["timeout"] = seconds(changes["timeout"])
        for name in changes.keys() & {"env", "headers"}:
            value = changes[name]
            changes[name] = texts({name: dict(value) if isinstance(value, Mapping) else value}, name)
        for name in changes.keys() & {"trust", "reconnect", "observe"}:
            flag(changes, name)
        if not isinstance(changes.get("cwd", ""), str | os.PathLike):
            raise FieldError(f"expected a folder, got {kind_of(changes['cwd'])}.", "cwd")
        return changes


_OWNERS = {
    **dict.fromkeys(("headers", "verify", "cert"), "servers with a URL"),
    **dict.fromkeys(("client_factory", "auth"), "HTTP servers"),
    **dict.fromkeys(("env", "cwd", "sandbox", "observe"), "commands"),
}


def parse_header(text: str) -> tuple[str, str]:
    """Parse a header as `curl -H` takes it. Raises TargetError if the header has no colon or no valid name."""
    name, colon, value = text.partition(":")
    name = name.strip()
    if not colon or not name or any(c in name for c in ' "=') or any(c in text for c in "\r\n\0"):
        raise TargetError("a header is written 'Name: value', for example 'Authorization: Bearer $token'.")
    return name, value.strip()


def parse_env(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Parse `NAME=value`, or `NAME` alone for its value in this environment.

    Raises TargetError if the text has no valid name, or the variable is not set.
    """
    name, equals, value = text.partition("=")
    if not name.isidentifier():
        raise TargetError("a variable is written NAME=value, or NAME for the value that it has here.")
    if equals:
        return name, value
    environ = os.environ if environ is None else environ
    if name not in environ:
        raise TargetError(
            f"the variable {name} is not set here. Set it in the environment, or keep its value in a Python variable, "
            f"which no notebook saves: --env {name}=$value"
        )
    return name, environ[name]


# Server files, given by path instead of a command.


def spec_of_file(path: Path, directory: Path | None) -> tuple[StdioSpec, str]:
    """Return the spec and name of a server file, which runs with this kernel's Python or with node."""
    path = ((directory or working_directory()) / path.expanduser()).absolute()
    if not path.is_file():
        candidates = [] if path.is_dir() else [file for file in path.parent.glob("*") if is_server_file(file.name)]
        close = get_close_matches(path.name, [file.name for file in candidates], n=1)
        todo = "`%mcp connect --help` shows what can be connected."
        if close:
            todo = f"Did you mean {_as_typed(path.with_name(close[0]), directory)!r}?"
        raise TargetError(f"no server file at {path}{' (it is a folder)' if path.is_dir() else ''}. {todo}")
    suffix = path.suffix.lower()
    if suffix not in SERVER_FILES:
        raise TargetError(f"{path} is not a server file (.py, .js, .mjs, .cjs). {_how_to_use(path, directory)}")
    program = sys.executable if suffix == ".py" else SERVER_FILES[suffix]
    return StdioSpec(command=program, args=(str(path),)), name_of_command(program, [str(path)])


def _as_typed(path: Path, directory: Path | None) -> str:
    here = directory or working_directory()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _how_to_use(path: Path, directory: Path | None) -> str:
    name = _as_typed(path, directory)
    if path.suffix.lower() in SUFFIXES:
        if is_foreign(path):
            return f"For the servers of a config file: %mcp connect --config {as_command([name])}"
        return f"For a declaration: %mcp up {as_command([name])}"
    program = as_command([name if os.path.dirname(name) else f"{os.curdir}{os.sep}{name}"])  # noqa: PTH120
    return f"Run it as a command: %mcp connect -- {program}"


def is_server_file(text: str) -> bool:
    """Return whether a name has the suffix of a server file or a config file."""
    return Path(text).suffix.lower() in (".ts", ".mts", *SUFFIXES, *SERVER_FILES)


def is_path(text: str) -> bool:
    """Return whether a text is a path, not a name: it contains a folder or has the suffix of a server file."""
    return is_server_file(text) or text.startswith((".", "~")) or (("/" in text or "\\" in text) and " " not in text)


# Addresses without a scheme, such as `localhost:8000/mcp`.

_ADDRESS = re.compile(r"(?P<host>localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d))(?P<port>:\d+)?(?P<path>/.*)?")


def url_meant(text: str, directory: Path | None = None) -> str:
    """Return the URL of an address without a scheme; "" if the text is no address or begins with an existing file.

    >>> url_meant("localhost:8000/mcp"), url_meant("mcp.example.com/mcp"), url_meant("weather"), url_meant("a/b.py")
    ('http://localhost:8000/mcp', 'https://mcp.example.com/mcp', '', '')
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or is_server_file(text) or (directory or Path()).joinpath(text.partition("/")[0]).exists():
        return ""
    if not (match["port"] or match["path"]):
        return ""
    near = match["port"] or match["host"] == "localhost" or match["host"].replace(".", "").isdecimal()
    return f"{'http' if near else 'https'}://{text}"


# From a target to a spec and a name.

TARGETS = (
    "A target is a URL, `-- COMMAND ARG...`, a server file (.py, .js), a variable that holds an MCPServer, "
    "or a name from a config file."
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SERVER_CLASSES = (("mcp.server.mcpserver.server", "MCPServer"), ("mcp.server.lowlevel.server", "Server"))

Target = tuple[Spec, str]  # A spec, and the default name of its session


def resolve_target(
    target: Any = None,
    *,
    lookup: Callable[[str], Any] | None = None,
    find_entry: Callable[[str], ServerEntry] | None = None,
    directory: Path | None = None,
    variables: Iterable[str] = (),
    **options: Any,
) -> tuple[Spec, str]:
    """Return the spec of a target, and the name for its session (not yet unique).

    `lookup` returns the value of a variable, or None; `variables` are the names to suggest. `options` are those of
    `Overrides`. Raises TargetError if the target is unknown or incomplete; ConfigError if the configured server has a
    problem.
    """
    if strange := options.keys() - (names := [option.name for option in fields(Overrides)]):
        near = did_you_mean(name := sorted(strange)[0], names)
        raise ArgumentsError(f"connect has no option {name!r}.{near} It has: {', '.join(names)}")
    overrides = Overrides(**options)
    if isinstance(target, str):
        find_entry = find_entry or (lambda name: check_secrets(find_server(name, directory)))
        spec, name = _from_name(target.strip(), lookup, find_entry, variables, directory)
    else:
        spec, name = _from_value(target, directory)
    return overrides.applied(spec, directory), name


def is_server(value: Any) -> bool:
    """Return whether `value` is a server object of the MCP SDK, without importing the SDK."""
    classes = (getattr(sys.modules.get(module), name, None) for module, name in _SERVER_CLASSES)
    return any(isinstance(value, server_class) for server_class in classes if isinstance(server_class, type))


def _from_value(value: Any, directory: Path | None) -> Target:
    if isinstance(value, Spec):
        return value, _name_of_spec(value)
    if isinstance(value, ServerEntry):
        return _from_entry(value)
    if isinstance(value, Path):
        return spec_of_file(value, directory)
    if isinstance(value, Mapping):
        return _from_table(value, directory)
    if isinstance(value, list | tuple) and value:
        return StdioSpec(command=value[0], args=tuple(value[1:])), name_of_command(value[0], value[1:])
    if is_server(value):
        return InProcessSpec(server=value), slug(str(value.name or ""))
    kind = "nothing" if value is None else f"an object of type {type(value).__name__}"
    raise TargetError(f"{kind} is not a target. {TARGETS}")


def _from_entry(entry: ServerEntry) -> Target:
    if entry.spec is None:
        raise ConfigError(str(entry.problem) if entry.problem else f"{entry.source}: server {entry.name!r} is empty.")
    return entry.spec, slug(entry.name)


def _from_table(table: Mapping[str, Any], directory: Path | None) -> Target:
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


def _from_name(
    text: str,
    lookup: Callable[[str], Any] | None,
    find_entry: Callable[[str], ServerEntry],
    variables: Iterable[str],
    directory: Path | None,
) -> Target:
    """Resolve a text, tried in this order: a URL, a file, a variable, a configured server."""
    if not text:
        raise TargetError(f"no target given. {TARGETS}")
    if _URL.match(text):
        try:
            return url_spec(text), name_of_url(text)
        except FieldError as error:
            problem = str(error)
        raise TargetError(problem)
    if address := url_meant(text, directory):
        address = mask_url(address)
        raise TargetError(
            f"{address.partition('//')[2]!r} is neither a server file nor a URL. Did you mean {address!r}?"
        )
    program, *arguments = text.split()
    there = (directory or working_directory()) / Path(text).expanduser()
    if is_path(text) and not (arguments and not there.exists() and shutil.which(program)):
        return spec_of_file(Path(text), directory)
    value = None
    if lookup is not None and text.isidentifier():
        with suppress(LookupError, NameError):
            value = lookup(text)
    if means_server(value):
        return _from_value(value, directory)[0], text
    try:
        entry = find_entry(text)
    except ConfigError as error:
        not_configured = str(error)
    else:
        return _from_entry(entry)
    raise TargetError(f"{_unknown(text, value, variables)}\n{not_configured}")


def _unknown(text: str, value: Any, variables: Iterable[str]) -> str:
    hint = did_you_mean(text, [name for name in variables if name != text])
    words = mask_arguments(tuple(text.split()))
    text = " ".join(words)
    first = f"{text!r} is not a file, URL, variable or configured name.{hint}"
    if value is not None:
        first = f"the variable {text} holds an object of type {type(value).__name__}, not a server.{hint}"
    if len(words) > 1 or shutil.which(words[0]):
        first = f"{first} To run it as a command: `%mcp connect -- {as_command(words)}`."
    return first


def means_server(value: Any) -> bool:
    """Return whether a variable with this value is a target."""
    if isinstance(value, Mapping):
        return "command" in value or "url" in value
    return isinstance(value, (Spec, ServerEntry, Path)) or is_server(value)
