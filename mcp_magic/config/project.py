"""Declarations (`mcp_magic.toml`): servers, rules, agents and settings; the plan of `%mcp up`; what needs trust."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp_magic._text import did_you_mean, join_names, json_text
from mcp_magic.config.foreign import is_foreign, project_files, read_document
from mcp_magic.config.masking import Concealed
from mcp_magic.config.parsing import (
    FieldError,
    Variables,
    check_name,
    find_line,
    kind_of,
    parse_json,
    parse_toml,
    read_text,
    reject_unknown,
    slug,
    toml_document,
)
from mcp_magic.config.references import INPUT, check_inputs, parse_inputs
from mcp_magic.config.servers import ServerEntry, is_personal, load_config, make_entry, parse_servers
from mcp_magic.config.specs import StdioSpec, UrlSpec
from mcp_magic.errors import ConfigError, DeniedError, TargetError
from mcp_magic.schema.secrets import is_declared_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_magic.config.specs import Spec


# Tables of a declaration other than servers: consent rules, agents, settings.

_DECISIONS = ("allow", "deny", "ask")
_TYPE_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _one_of(*valid: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value in valid), f"one of {', '.join(valid)}"


_TEXT = (_is_text, "text")
_TEXTS = (_is_texts, "a list of text")
_AGENT_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": _TEXT,
    "servers": _TEXTS,
    **dict.fromkeys(
        ("tools", "pin", "skills"), (lambda value: _is_text(value) or _is_texts(value), "text or a list of text")
    ),
    "approve": _one_of("ask", "plan", "auto", "readonly", "deny"),
    "system": _TEXT,
    "prompt": _TEXT,
    "max_turns": (lambda value: is_a(value, int) and value > 0, "an integer above 0"),
    "max_tokens": (lambda value: is_a(value, int) and value > 0, "an integer above 0"),
    "max_cost": (lambda value: is_a(value, float) and value >= 0, "a number of dollars"),
    "code": (lambda value: isinstance(value, bool), "true or false"),
    "thread": _TEXT,
    "show": _one_of("full", "answer", "none"),
}
_FOR = '"outside" or "outside NAME"'
_RULE_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_DECISIONS, (_is_text, 'a tool or pattern, for example "weather:*"')),
    "arguments": (lambda value: isinstance(value, dict), "a table"),
    "reason": _TEXT,
    "exact": (lambda value: isinstance(value, bool), "true or false"),
    "definition": _TEXT,
    "for": (lambda value: _is_text(value) and (value == "outside" or value.startswith("outside ")), _FOR),
    "servers": _TEXTS,
    "identities": (lambda value: isinstance(value, dict) and all(map(_is_text, value.values())), "a table of text"),
}


def is_a(value: Any, kind: type) -> bool:
    """Return whether a TOML value has a type, in everyday terms: true is no integer, and 1 is also a float."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def check_consent(rule: Any, number: int) -> None:
    """Raise FieldError unless a consent rule is valid."""
    _check(rule, _RULE_KEYS, "consent", number)
    decisions = [key for key in _DECISIONS if key in rule]
    if len(decisions) != 1:
        names = " and ".join(decisions) or "none"
        raise FieldError(f"needs exactly one of allow, deny, ask; it has {names}.", "consent", number)


def check_setting(name: str, value: Any, types: Mapping[str, type] | None) -> None:
    """Raise FieldError unless a setting is known and its value has the right type; None as `types` allows all."""
    if types is None:
        return
    if name not in types:
        hint = did_you_mean(name, types) or f" Valid: {join_names(types)}."
        raise FieldError(f"unknown setting.{hint}", "settings", name)
    if not is_a(value, types[name]):
        expected = _TYPE_NAMES.get(types[name], types[name].__name__)
        raise FieldError(f"expected {expected}, got {_brief_value(value)}.", "settings", name)


def _check(table: Any, keys: Mapping[str, tuple[Callable[[Any], bool], str]], *path: str | int) -> None:
    if not isinstance(table, dict):
        raise FieldError(f"expected a table, got {kind_of(table)}.", *path)
    reject_unknown(table, keys, *path)
    for key, value in table.items():
        fits, expected = keys[key]
        if not fits(value):
            raise FieldError(f"expected {expected}, got {_brief_value(value)}.", *path, key)


def _brief_value(value: Any) -> str:
    value = Concealed(value) if isinstance(value, str) else value
    text = repr(value).replace("True", "true").replace("False", "false") if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# A declaration is parsed and checked here and carried out elsewhere. A mistake in it is an error with its line. But a
# variable or an `env_file` that only this machine lacks is the `problem` of one server, and the others still start.

_FILES = ("mcp_magic.toml", "pyproject.toml", "mcp.json", ".mcp.json")
_SECTIONS = ("servers", "inputs", "consent", "agents", "settings")


@dataclass(frozen=True)
class Declaration:
    """A parsed declaration."""

    servers: dict[str, ServerEntry] = field(default_factory=dict)
    consent: tuple[dict[str, Any], ...] = ()  # rules, each with one of `allow`, `deny` and `ask`
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    source: str = ""  # the file, for messages
    digest: str = ""  # the hash of the content

    @property
    def started(self) -> list[ServerEntry]:
        """The servers to start, which are not disabled and have no problem."""
        return [entry for entry in self.servers.values() if entry.spec and not entry.disabled]


def parse_declaration(
    text: str,
    *,
    source: str,
    environ: Mapping[str, str] | None = None,
    base: Path | None = None,
    settings: Mapping[str, type] | None = None,
) -> Declaration:
    """Parse a declaration: TOML, or the JSON of other hosts, which has servers only.

    Raises ConfigError if the declaration has a mistake.

    Args:
        text: The document. If `source` is a pyproject.toml, its table `tool.mcp_magic` is read.
        source: The file, or a name for a cell.
        environ: The values of `${VAR}`; by default this process's environment.
        base: The declaration's folder, for relative paths, and the working directory of its commands.
        settings: The valid settings and their types; None allows any.
    """
    environ = os.environ if environ is None else environ
    if text.lstrip().startswith("{"):
        data = parse_json(text, source=source)
        entries = parse_servers(data, source=source, environ=environ, base=base, cwd=base)
        return _of_entries(entries, source, data)
    in_pyproject = Path(source).name == "pyproject.toml"
    table, above = _toml_table(text, source, in_pyproject)
    try:
        return _declaration(table, source, Variables(environ, base), settings)
    except FieldError as error:
        line = find_line(text, (*above, *error.path))
        problem = f"{source}:{line}: {error}" if line else f"{source}: {error}"
    raise ConfigError(problem)


def _toml_table(text: str, source: str, in_pyproject: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    data = toml_document(text, source)
    if not in_pyproject:
        return data, ()
    table = _pyproject_table(data)
    if table is None:
        raise ConfigError(f"{source}: no table [tool.mcp_magic] in it.")
    return table, ("tool", "mcp_magic")


def _pyproject_table(data: Mapping[str, Any]) -> dict[str, Any] | None:
    tool = data.get("tool")
    table = tool.get("mcp_magic") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _declaration(
    table: Mapping[str, Any], source: str, variables: Variables, types: Mapping[str, type] | None
) -> Declaration:
    reject_unknown(table, _SECTIONS)
    check_inputs(inputs := table.get("inputs", []))
    variables = replace(variables, inputs=parse_inputs(inputs, source))
    servers = {name: _server(name, fields, source, variables) for name, fields in _section(table, "servers").items()}
    rules = table.get("consent", [])
    if not isinstance(rules, list):
        raise FieldError(f"expected [[consent]] rules, got {kind_of(rules)}.", "consent")
    for number, rule in enumerate(rules):
        check_consent(rule, number)
    agents = _section(table, "agents")
    for name, agent in agents.items():
        _check(agent, _AGENT_KEYS, "agents", name)
    settings = _section(table, "settings")
    for name, value in settings.items():
        check_setting(name, value, types)
    return Declaration(servers, tuple(rules), agents, settings, source, _digest(table, servers))


def _section(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise FieldError(f"expected a table, got {kind_of(section)}.", name)
    return section


def _server(name: str, fields: Any, source: str, variables: Variables) -> ServerEntry:
    """Return the entry of one server; if this machine lacks something for it, an entry with a problem."""
    try:
        return make_entry(check_name(name), fields, source, variables, variables.base)
    except FieldError as error:
        problem = FieldError(error.message, "servers", name, *error.path)
    except TargetError as error:
        problem = FieldError(str(error), "servers", name)
    raise problem


def _digest(document: Any, servers: Mapping[str, ServerEntry]) -> str:
    """Return the hash of a document's content, without its comments, and of each `env_file` that it names."""
    content = [document, {name: entry.digest for name, entry in servers.items()}]
    return sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()


def _of_entries(entries: list[ServerEntry], source: str, document: Any) -> Declaration:
    servers: dict[str, ServerEntry] = {}
    for entry in entries:
        servers.setdefault(entry.name, entry)
    return Declaration(servers=servers, source=source, digest=_digest(document, servers))


def load_declaration(
    path: Path, *, environ: Mapping[str, str] | None = None, settings: Mapping[str, type] | None = None
) -> Declaration:
    """Read a declaration from a file: TOML, pyproject.toml, or the file of another host."""
    path = path.expanduser().absolute()
    if is_foreign(path):
        return _of_entries(load_config(path, environ=environ), str(path), read_document(path))
    return parse_declaration(read_text(path), source=str(path), environ=environ, base=path.parent, settings=settings)


def find_declaration(directory: Path) -> Path:
    """Return the path of a folder's declaration: `mcp_magic.toml`, else another file that can serve as one."""
    for name in _FILES:
        path = directory / name
        if path.is_file() and (name != "pyproject.toml" or _declares(path)):
            return path
    files = "mcp_magic.toml, pyproject.toml with [tool.mcp_magic], mcp.json, .mcp.json"
    problem = f"no declaration in {directory.absolute()}. Looked for {files}."
    others = [path for path in project_files(directory) if path.is_file() and _has_servers(path)]
    if others:
        lines = join_names(f"`%mcp up {path.relative_to(directory).as_posix()}`" for path in others)
        problem += f" Another host's servers: {lines}."
    raise ConfigError(problem)


def _has_servers(path: Path) -> bool:
    try:
        return bool(load_config(path))
    except ConfigError:
        return False


def _declares(path: Path) -> bool:
    """Return whether a pyproject.toml has the table, or names it but has a syntax error, which is then reported."""
    text = read_text(path)
    try:
        return _pyproject_table(parse_toml(text)) is not None
    except tomllib.TOMLDecodeError:
        return "[tool.mcp_magic" in text


# The steps that make the open sessions match the declared servers.

Action = Literal["connect", "keep", "reconnect", "disconnect", "leave"]


@dataclass(frozen=True)
class Step:
    """The action for one server, and its reason."""

    name: str
    action: Action
    reason: str


def plan(declared: Mapping[str, Spec], open_: Mapping[str, Spec], *, prune: bool) -> list[Step]:
    """Plan the steps from the open sessions to the declared servers; reasons name fields, never their values."""
    steps = []
    for name, spec in declared.items():
        current = open_.get(name)
        if current is None:
            steps.append(Step(name, "connect", "not connected"))
        elif changes := _changes(current, spec):
            steps.append(Step(name, "reconnect", f"changed: {changes}"))
        else:
            steps.append(Step(name, "keep", "as declared"))
    for name in open_:
        if name not in declared:
            steps.append(Step(name, "disconnect" if prune else "leave", "not declared"))
    return steps


def _changes(old: Spec, new: Spec) -> str:
    """Return the names of the fields that differ, or ""."""
    if type(old) is not type(new):
        return f"transport ({old.transport} to {new.transport})"
    differ = [f.name for f in fields(new) if f.compare and getattr(old, f.name) != getattr(new, f.name)]
    return join_names(differ) if differ else ""


# Trust in a declaration, which may come with a cloned repository. Servers, denials and display settings need none. A
# line that answers questions in the user's place, stores or sends their data elsewhere, or hands out a secret needs it.
# Trust holds for one file with its current content, and is recorded in the user's own folder.

_HARMLESS = frozenset(
    (
        *("timeout", "call_timeout", "max_total_timeout", "login_timeout", "approval_timeout"),
        *("show_progress", "show_logs", "display_rows", "display_characters"),
        *("ask_with", "max_turns", "result_characters", "spill", "search_above", "reconnect"),
    )
)
"""Settings that a file may change without trust. All others need it, also settings added later."""

_POLICIES = ("deny", "ask", "plan", "readonly", "auto")  # values of the setting `approval`, the strictest first


def loosened(declaration: Declaration, current: Mapping[str, Any]) -> list[str]:
    """Return what a declaration loosens, in words; empty if it needs no trust."""
    lines = []
    for name, value in declaration.settings.items():
        before = current.get(name)
        policies = name == "approval" and value in _POLICIES and before in _POLICIES
        stricter = policies and _POLICIES.index(value) <= _POLICIES.index(before)
        if name not in _HARMLESS and value != before and not stricter:
            lines.append(f"set {name} = {display_value(value)}")
    lines += [
        f"allow {display_value(rule['allow'])} without asking" + (f" for {_line(rule['for'])}" if "for" in rule else "")
        for rule in declaration.consent
        if "allow" in rule
    ]
    lines += [
        f"let the agent {_line(name)} call tools with approve = {display_value(agent['approve'])}"
        for name, agent in declaration.agents.items()
        if agent.get("approve") in ("readonly", "auto")
    ]
    for entry in declaration.started:
        lines += _of_server(entry)
    return lines


def _of_server(entry: ServerEntry) -> list[str]:
    spec, name = entry.spec, _line(entry.name)
    assert spec is not None
    lines = [
        f"give {_line(_origin(variable))} to the server {name}"
        for variable in entry.variables
        if _is_yours(variable, spec)
    ]
    for use in spec.references:
        if use.reference.kind != INPUT:  # an input is asked for
            lines.append(f"give the secret {_line(use.reference.source)} to the server {name}")
    if isinstance(spec, UrlSpec) and spec.headers_helper:
        lines.append(f"run `{_line(spec.headers_helper.command)}` for the headers of the server {name}")
    if spec.trust:
        lines.append(f"believe what the server {name} says of its tools (trust = true)")
    if spec.sampling == "auto":
        lines.append(f"let the server {name} use your model without asking (sampling = 'auto')")
    if isinstance(spec, UrlSpec) and spec.verify is False:
        lines.append(f"accept any certificate from the server {name} (verify = false)")
    return lines


def _is_yours(variable: str, spec: Spec) -> bool:
    """Return whether a variable holds a secret, by its name, its value, where it goes, or because it is a file."""
    return variable.startswith("file:") or is_declared_secret(variable) or spec.variables[variable] in spec.secrets


def _origin(variable: str) -> str:
    kind, _, path = variable.partition(":")
    return f"the text of {path}" if kind == "file" else f"{variable} of your environment or .env"


def runs(entry: ServerEntry) -> str:
    """Return a server's whole command line or URL, secrets masked, and names of the variables or headers it gets."""
    line = _line(entry.launch)
    if isinstance(entry.spec, StdioSpec) and entry.spec.sandbox is not None:
        line += f" ({_line(entry.spec.isolation)})"
    line += f" (gets {', '.join(entry.variables)})" if entry.variables else ""
    sources = entry.spec.secret_sources if entry.spec is not None else []
    line += f" (secrets: {_line(', '.join(sources))})" if sources else ""
    kind = "headers" if isinstance(entry.spec, UrlSpec) else "variables"
    return f"{line} (sets the {kind} {_line(', '.join(entry.sets))})" if entry.sets else line


def display_value(value: Any) -> str:
    """Return a value as a message shows it: on one line, with the secrets in URLs masked."""
    return _line(repr(Concealed(value) if isinstance(value, str) else value))


def _line(text: str) -> str:
    from mcp_magic.display.visible import visible

    return visible(" ".join(text.split()))


def trust_file() -> Path:
    """Return the path of the file of trusted declarations, in Jupyter's data directory. Does not create it."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "mcp_magic" / "trusted"


def is_trusted(declaration: Declaration) -> bool:
    """Return whether the user trusts this file with this content."""
    try:
        lines = trust_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return _key(declaration) in (line.strip() for line in lines)


def alone(entry: ServerEntry) -> Declaration:
    """Return the declaration of one server, which is trusted by itself."""
    return Declaration({entry.name: entry}, source=entry.source, digest=entry.digest)


def check_secrets(entry: ServerEntry) -> ServerEntry:
    """Return an entry of the user's own files, of a trusted file, or without secrets; raise DeniedError for another.

    A program that connects a server by its name asks nobody.
    """
    sources = entry.spec.secret_sources if entry.spec is not None else []
    if not sources or is_personal(entry.source) or is_trusted(alone(entry)):
        return entry
    with suppress(ConfigError):
        if is_trusted(load_declaration(Path(entry.source))):
            return entry
    raise DeniedError(
        f"{entry.source}: the server {entry.name!r} refers to secrets ({_line(', '.join(sources))}), and you have not "
        f"trusted it yet. `%mcp connect {slug(entry.name)}` asks you; this line, typed in a terminal, approves it: "
        f"`{trust_line(alone(entry))}`"
    )


def trust(declaration: Declaration) -> None:
    """Record that the user trusts a declaration.

    Raises OSError if the file of trusted declarations cannot be written.
    """
    path = trust_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{_key(declaration)}\n")


def trust_line(declaration: Declaration) -> str:
    """Return the shell command that records trust where no user can be asked, for example in CI."""
    path = trust_file()
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    return f"mkdir -p {folder} && echo {_key(declaration)} >> {file}"


def _key(declaration: Declaration) -> str:
    """Return the line that records trust: a hash of path and content, because a path may contain a line end.

    The rights of sandboxes count as content: a link, or a file that a `sandbox` names, may say something else later.
    """
    specs = {entry.name: entry.spec for entry in declaration.servers.values()}
    tables = {n: s.sandbox.table for n, s in specs.items() if isinstance(s, StdioSpec) and s.sandbox is not None}
    rights = f"\0{json_text(tables, sort_keys=True)}" if tables else ""
    return sha256(f"{declaration.source}\0{declaration.digest}{rights}".encode("utf-8", "surrogatepass")).hexdigest()
