"""A server is added to a configuration file: looked up, shown, agreed to, tried, written; or taken out of it.

What is approved is what was shown: the command, with its version and digest, is made before the question, and neither
the registry nor the network is asked again after it. `Addition.code` stands for all of it, so that the same can be
approved where nobody can be asked. Secrets are never written: a file refers to them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mcp_magic._text import clause, did_you_mean, duration, join_names, json_text, plural, sentence
from mcp_magic.ask.question import EDIT, Choice, Form, Outcome, Question
from mcp_magic.config.masking import mask_url
from mcp_magic.config.parsing import (
    LARGEST_DATA,
    FieldError,
    Variables,
    check_name,
    name_of_command,
    name_of_url,
    parse_json,
    read_bytes,
    read_text,
    slug,
)
from mcp_magic.config.programs import source_of
from mcp_magic.config.project import find_declaration, is_trusted, load_declaration, loosened, trust
from mcp_magic.config.references import SERVICE, keyring_reference
from mcp_magic.config.sandbox import Sandbox, make_sandbox, with_preset
from mcp_magic.config.servers import make_spec
from mcp_magic.config.writing import ServerFile, read_file, write_file
from mcp_magic.display.document import Markup, Part, facts, page, parts_text, show_parts, tag
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line
from mcp_magic.display.visible import visible
from mcp_magic.doctor.examine import examine
from mcp_magic.doctor.report import FAILURE
from mcp_magic.errors import (
    ArgumentsError,
    CommandError,
    ConfigError,
    ConnectError,
    ConnectTimeoutError,
    DeniedError,
    MCPMagicError,
    RegistryError,
)
from mcp_magic.flight.request import InFlightRequest
from mcp_magic.registry.bundle import MAX_BUNDLE, Bundle, bundle_recipe, read_bundle, unpack
from mcp_magic.registry.client import OFFICIAL_REGISTRY, RegistryClient
from mcp_magic.registry.download import check_direction, fetch
from mcp_magic.registry.entry import PACKAGE_TYPES, Package, RegistryEntry, Remote, read_entry
from mcp_magic.registry.packages import package_recipe
from mcp_magic.registry.recipe import Recipe, default_values, find_missing, form_schema, read_values, remote_recipe
from mcp_magic.schema.secrets import is_declared_secret
from mcp_magic.session.keyring import KeyringFailedError, forget_secret, read_secret, store_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from mcp_magic._host import Host
    from mcp_magic.ask.question import Reply
    from mcp_magic.config.specs import Spec
    from mcp_magic.doctor.report import DoctorReport
    from mcp_magic.registry.recipe import Slot, Values
    from mcp_magic.session.connection import Connection

MAX_SHOWN = 4_000  # characters of a command; a longer one cannot be read before it is approved
BUNDLE_SECONDS = 300.0  # seconds for the download of a bundle
INSTALL_SECONDS = 180.0  # seconds for the first answer of a program, which may be installed first
KEEP = "`--keep` writes it all the same."
MAX_PROBLEMS = 5  # of the doctor that are shown
DEFAULT_FILE = "mcp_magic.toml"
BUNDLE_SUFFIXES = (".mcpb", ".dxt")
REMOTE = "remote"  # what `--package` calls an endpoint

_PREFIXES = tuple(kind for kind in PACKAGE_TYPES if kind != "mcpb")
_WHOLE_REFERENCE = re.compile(r"\$\{[^{}]+\}")


@dataclass(frozen=True)
class Addition:
    """A server that is to be added, before it is agreed to."""

    name: str  # of the server in the file
    recipe: Recipe
    file: ServerFile
    source: str  # where its description comes from
    entry: RegistryEntry | None = None
    bundle: Bundle | None = None
    notes: tuple[str, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)  # the entry of the keyring for the secret of a slot
    sandbox: Sandbox | None = None  # in which it is tried, and in which the file starts it

    @property
    def slots(self) -> list[Slot]:
        """What is to be filled in."""
        return self.recipe.slots

    def marked(self, values: Values) -> dict[str, Any]:
        """Return the table as it is shown: `<name>` for a value that is missing, `***` for a secret."""
        shown: dict[str, Any] = dict(values)
        for slot in self.slots:
            if slot.key in shown and slot.input.secret:
                shown[slot.key] = "***"
            elif slot.is_needed:
                shown.setdefault(slot.key, f"<{slot.key}>")
        return self._with_sandbox(self.recipe.table(shown))

    def _with_sandbox(self, table: dict[str, Any]) -> dict[str, Any]:
        if self.sandbox is None:
            return table
        rights = self.sandbox.declaration(self.file.path.parent)
        return {**table, "sandbox": rights or {"read": []}}  # an empty one is VS Code's, with which all may be read

    def runs(self, values: Values) -> str:
        """Return the command or URL as it is shown."""
        table = self.marked(values)
        if "url" in table:
            return mask_url(str(table["url"]))
        return shlex.join([table["command"], *table["args"]])

    def rights(self, values: Values) -> str:
        """Return what its program may reach."""
        if self.sandbox is None:
            return "all of yours: not isolated"
        args = self.recipe.table(values).get("args", [])
        return with_preset(self.sandbox, self.recipe.command, args).describe()

    @property
    def code(self) -> str:
        """A short code of all that is approved, but for the values that you fill in."""
        table = self.marked({slot.key: f"<{slot.key}>" for slot in self.slots})
        defaults = default_values(self.slots)  # they are filled in, and somebody else chooses them
        content = [self.name, str(self.file.path), table, defaults, self.recipe.digest, self.recipe.version]
        content.append(dict(self.stored))
        return sha256(json_text(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def rows(self, values: Values) -> list[tuple[str, str]]:
        """Return what is shown before it is agreed to: names and values, in which nothing is invisible."""
        recipe, entry, table = self.recipe, self.entry, self.marked(values)
        rows = [("connects to" if recipe.url else "runs", self.runs(values))]
        if recipe.cwd:
            rows.append(("in", recipe.cwd))
        if recipe.command and recipe.command != "docker":
            rows.append(("rights", self.rights(values)))
        env = [f"{name}={text}" for name, text in table.get("env", {}).items()]
        rows += [("with", ", ".join(env))] if env else []
        sent = [f"{name}: {text}" for name, text in table.get("headers", {}).items()]
        rows += [("headers", ", ".join(sent))] if sent else []
        version = " ".join(filter(None, (recipe.version, recipe.digest)))
        rows += [("version", version)] if version else []
        if recipe.unpinned:
            rows.append(("not pinned", recipe.unpinned))
        elif recipe.command in ("npx", "uvx"):
            rows.append(("not pinned", "what the package itself depends on"))
        rows.append(("from", f"{self.source}; the package from {recipe.place}" if recipe.place else self.source))
        if entry is not None and entry.status != "active":
            rows.append(("status", ": ".join(filter(None, (entry.status.upper(), entry.status_message)))))
        rows += [("it takes", line) for line in map(_about, self.slots)]
        if self.stored:
            kept = join_names(f"{SERVICE}/{entry_name}" for entry_name in self.stored.values())
            rows.append(("secrets", f"are kept in the system's keyring as {kept}; the file only refers to them"))
        claims = [*self.bundle.claims] if self.bundle is not None else []
        if entry is not None:
            pairs = ("source", entry.repository), ("page", entry.website), ("published", entry.published[:10])
            claims += filter(None, (entry.title, entry.description))
            claims += [f"{word} {text}" for word, text in pairs if text]
        if claims:
            rows.append(("claims", f"{one_line('; '.join(claims), 600)} (nobody has checked this)"))
        rows += [("note", note) for note in (*recipe.notes, *self.notes)]
        if self.sandbox is not None and not self.file.is_toml:
            rows.append(("note", f"other programs that read {self.file.path.name} start it without the sandbox"))
        return [(name, visible(text)) for name, text in rows]

    @property
    def title(self) -> str:
        """What is asked."""
        entry = self.entry
        what = f" ({' '.join(filter(None, (entry.name, entry.version)))})" if entry is not None else ""
        return visible(f"Add the server {self.name}{what} to {self.file.path}?")

    def part(self, values: Values) -> Part:
        """Return all that is approved."""
        rows = self.rows(values)
        width = max(len(name) for name, _ in rows)
        plain = "\n".join([self.title, *(f"  {name:<{width}}  {text}" for name, text in rows)])
        html = [tag("p", tag("b", self.title)), facts((name, tag("code", text)) for name, text in rows)]
        return Part(plain, Markup(page(html)))

    # What is written

    def files(self, values: Values) -> tuple[dict[str, Any], list[Any], dict[str, str]]:
        """Return the table to be written, VS Code's inputs, and the variables that the table refers to.

        A value that is a whole reference, `${...}`, stays as it is.
        """
        variables: dict[str, str] = {}
        inputs: list[Any] = []
        filled = dict(values)
        for slot in self.slots:
            value = values.get(slot.key)
            if not slot.input.secret or value is None:
                continue
            texts = [value] if isinstance(value, str) else [*value]
            keys = [slot.key if len(texts) == 1 else f"{slot.key}_{number}" for number in range(1, len(texts) + 1)]
            references = []
            for key, text in zip(keys, texts, strict=True):
                if _WHOLE_REFERENCE.fullmatch(text):
                    references.append(text)
                elif slot.key in self.stored:
                    references.append(keyring_reference(self.stored[slot.key]))
                else:
                    variable = variable_name(key, self.name)
                    variables[variable] = text
                    references.append(f"${{{variable}}}")
                    about = {"description": f"{slot.key} of {self.name}", "password": True}
                    inputs.append({"type": "promptString", "id": f"{slug(self.name)}-{key}", **about})
            filled[slot.key] = references if slot.is_list else references[0]
        table = self._with_sandbox(self.recipe.table(filled))
        return table, inputs if self.file.is_editors else [], variables

    def secrets(self, values: Values) -> dict[str, str]:
        """Return the values that are stored in the keyring, by the names of their entries."""
        pairs = ((entry, values.get(key)) for key, entry in self.stored.items())
        return {e: value for e, value in pairs if isinstance(value, str) and not _WHOLE_REFERENCE.fullmatch(value)}

    def written(self, values: Values) -> tuple[dict[str, Any], list[Any]]:
        """Return the table in the form of the file, and VS Code's inputs."""
        table, inputs, variables = self.files(values)
        if self.file.is_toml:
            return table, []
        kind = table.pop("transport", "stdio")
        if self.file.is_editors:
            ids = dict(zip(variables, (own["id"] for own in inputs), strict=True))
            table = _replaced(table, {f"${{{name}}}": f"${{input:{own}}}" for name, own in ids.items()})
        shape = {"type": kind} if kind != "stdio" or self.file.is_editors else {}
        return {**shape, **table}, inputs

    def spec(self, values: Values) -> Spec:
        """Return how the server is reached with these values. Raises ConfigError if that cannot be."""
        table, _, variables = self.files(values)
        folder = self.file.path.parent
        base = folder.parent if folder.name in (".vscode",) else folder
        try:
            return make_spec(table, variables=Variables({**os.environ, **variables}, base), cwd=base, strict=True)
        except FieldError as error:
            problem = f"{self.name} cannot be run: {error}"
        raise ConfigError(problem)

    @property
    def comment(self) -> str:
        """The line above the table in a TOML file."""
        parts = [self.recipe.origin, self.recipe.version, self.recipe.digest, f"from {self.source}"]
        return one_line(visible(" ".join(filter(None, parts))), 300)


def _about(slot: Slot) -> str:
    own = slot.input
    kinds = [
        "required" if own.required else "optional",
        *(["secret"] if own.secret else []),
        *([own.format] if own.format != "string" else []),
        *([f"one of {join_names(own.choices)}"] if own.choices else []),
        *(["several"] if slot.is_list else []),
        *([f"default {one_line(own.default, 60)}"] if own.default is not None and not own.secret else []),
    ]
    about = one_line(own.description, 200)
    return f"{slot.key} ({', '.join(kinds)}){f': {about}' if about else ''}"


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for old, new in texts.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {key: _replaced(inner, texts) for key, inner in value.items()}
    return [_replaced(inner, texts) for inner in value] if isinstance(value, list) else value


def variable_name(key: str, server: str) -> str:
    """Return the environment variable that holds a secret.

    Its name says that it is one, so that its value is masked wherever it comes from.

    >>> variable_name("API_KEY", "db"), variable_name("token", "my-db"), variable_name("DB_URL", "db")
    ('API_KEY', 'MY_DB_TOKEN', 'DB_URL_SECRET')
    """
    name = key if re.fullmatch(r"[A-Z][A-Z0-9_]*", key) else re.sub(r"\W+", "_", f"{server}_{key}").upper().strip("_")
    return name if is_declared_secret(name) else f"{name}_SECRET"


# Looking up


async def plan_addition(
    what: str,
    *,
    folder: Path,
    name: str | None = None,
    version: str = "",
    package: str = "",
    to: str | Path | None = None,
    registry: str = "",
    sandbox: Any = None,
) -> Addition:
    """Look up what is to be added: a name in a registry, a file, a URL, or `npm:NAME` and its like. Starts nothing.

    Raises:
        CommandError, ConfigError: It names nothing that can be added; the message says why.
        RegistryError: A registry does not have it, or does not answer.
    """
    file = read_file(folder / Path(to or DEFAULT_FILE).expanduser())
    file.servers  # noqa: B018 (a file that cannot be read is known before anything is asked)
    notes = _shadows(folder, file)
    entry, bundle, source = await _described(what, folder, version, registry)
    if bundle is not None:
        recipe = bundle_recipe(bundle)
        own_name = bundle.name
        if version and version != recipe.version:
            raise ConfigError(f"{source} is version {recipe.version or 'unknown'} of {own_name}, not {version}.")
    else:
        assert entry is not None
        if entry.status == "deleted":
            why = clause(one_line(entry.status_message, 200))
            raise ConfigError(f"{entry.name} is deleted from {source}{f': {why}' if why else ''}; it is not added.")
        recipe, bundle, refused = await _chosen(entry, package, folder, urlsplit(f"//{source}").hostname or "")
        notes += [f"not taken: {line}" for line in refused]
        own_name = entry.name.rpartition("/")[2] or recipe.origin.partition(" ")[2]
        if recipe.url is not None and not entry.name:
            own_name = name_of_url(what)
        notes += [f"in its description, {remark}" for remark in entry.remarks[:5]]
    if recipe.command and not shutil.which(recipe.command):
        todo = source_of(recipe.command)
        notes.append(f"there is no {recipe.command} here, so it will not start{f': {todo}' if todo else ''}")
    own_name = check_name(name) if name else name_of_command("npx", [slug(own_name)])
    addition = Addition(own_name, recipe, file, source, entry if entry and entry.name else None, bundle, tuple(notes))
    addition = replace(addition, sandbox=_sandbox_of(addition, sandbox, folder))
    if twin := next((own for own in file.servers if slug(own) == slug(own_name)), None):
        raise ConfigError(f"{file.path} has a server {twin!r}; `--name NAME` gives this one another name.")
    if len(addition.runs(default_values(addition.slots))) > MAX_SHOWN:
        raise ConfigError(
            f"the command of {own_name} is longer than {MAX_SHOWN:,} characters, so that nobody reads it."
        )
    return addition


def _sandbox_of(addition: Addition, value: Any, folder: Path) -> Sandbox | None:
    """Return the sandbox of a line or a table. Raises ConfigError if the server or the file cannot have it."""
    try:
        sandbox = make_sandbox(value, folder) if value is not None else None
    except FieldError as error:
        problem = str(error)
    else:
        if sandbox is None:
            return None
        if addition.recipe.command == "docker":
            problem = "sandbox: a container is isolated by docker, and not by this; leave --sandbox out."
        elif not addition.recipe.command:
            problem = f"sandbox: {addition.name} is reached by its URL; only what is started here runs in a sandbox."
        elif addition.file.is_editors:
            problem = f"sandbox: {addition.file.path.name} of VS Code has no such sandbox; `--to mcp_magic.toml` has."
        else:  # the program of a bundle reads its own files
            own = () if addition.bundle is None else (os.path.realpath(addition.recipe.cwd),)
            return replace(sandbox, read=tuple(dict.fromkeys((*sandbox.read, *own))))
    raise ConfigError(problem)


def _shadows(folder: Path, file: ServerFile) -> list[str]:
    """Say which declaration is no longer read once a new file is there."""
    if file.text or file.path != (folder / DEFAULT_FILE).resolve():
        return []
    try:
        before = find_declaration(folder)
    except ConfigError:
        return []
    return [f"`%mcp up` reads {DEFAULT_FILE} then, and no longer {before.name}; `--to {before.name}` adds it there"]


async def _described(
    what: str, folder: Path, version: str, registry: str
) -> tuple[RegistryEntry | None, Bundle | None, str]:
    """Return what describes the server: an entry or a bundle, and where that comes from."""
    kind, colon, rest = what.partition(":")
    if colon and kind in _PREFIXES and rest:
        identifier, own_version = _split_version(kind, rest)
        return _entry_of(Package(kind, identifier, version or own_version)), None, f"{kind}, as you named it"
    if re.match(r"https?://", what):
        try:
            path_of_url = urlsplit(what).path
        except ValueError:
            raise CommandError(f"{one_line(what, 100)!r} is no URL.") from None
        if path_of_url.endswith(BUNDLE_SUFFIXES):
            return None, await _download(what, ""), mask_url(what)
        return _entry_of(Remote("streamable-http", what)), None, "the URL that you gave"
    path = folder / Path(what).expanduser()
    if path.suffix in BUNDLE_SUFFIXES or (path.suffix == ".json" and path.is_file()):
        if path.suffix == ".json":
            entry = _read_server_json(path)
            packages = (replace(package, version=version or package.version) for package in entry.packages)
            return replace(entry, packages=tuple(packages)), None, str(path)
        try:
            return None, await asyncio.to_thread(read_bundle, read_bytes(path, MAX_BUNDLE), str(path)), str(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    if "/" not in what or what.startswith((".", "/")):
        raise CommandError(
            f"{one_line(what, 100)!r} is no name in a registry, such as io.github.acme/postgres, and no file or URL. "
            f"`%mcp find {one_line(what, 60)}` searches it; `npm:NAME`, `pypi:NAME` and `oci:IMAGE` name packages."
        )
    client = RegistryClient(registry or OFFICIAL_REGISTRY)
    return await client.entry(what, version or "latest"), None, client.place


def _entry_of(part: Package | Remote) -> RegistryEntry:
    return RegistryEntry("", packages=(part,)) if isinstance(part, Package) else RegistryEntry("", remotes=(part,))


def _split_version(kind: str, text: str) -> tuple[str, str]:
    """Split `NAME@VERSION` or `NAME==VERSION`; the reference of an image stays whole."""
    if kind == "oci":
        return text, ""
    match = re.fullmatch(r"(.[^@=]*?)(?:@|==)([^@=]*)", text)
    return (match[1], match[2]) if match else (text, "")


def _read_server_json(path: Path) -> RegistryEntry:
    entry = read_entry(parse_json(read_text(path, LARGEST_DATA), source=str(path)))
    if not entry.packages and not entry.remotes:
        why = f": {'; '.join(entry.remarks[:3])}" if entry.remarks else ""
        raise ConfigError(f"{path} has no package and no remote that can be read{why}.")
    return entry


async def _download(url: str, digest: str) -> Bundle:
    answer = await fetch(url, limit=MAX_BUNDLE, seconds=BUNDLE_SECONDS)
    if answer.status != 200:
        raise RegistryError(f"{one_line(mask_url(url), 200)} answered HTTP {answer.status}.")
    return await asyncio.to_thread(read_bundle, answer.body, one_line(mask_url(url), 200), digest)


async def _chosen(
    entry: RegistryEntry, wanted: str, folder: Path, source: str
) -> tuple[Recipe, Bundle | None, list[str]]:
    """Return the recipe of the first package or remote that can be run here, its bundle, and why others were not."""
    parts: list[Package | Remote] = [*entry.packages, *entry.remotes]
    kinds = [part.registry_type if isinstance(part, Package) else REMOTE for part in parts]
    if wanted:
        parts = [part for part, kind in zip(parts, kinds, strict=True) if kind == wanted]
        if not parts:
            has = join_names(dict.fromkeys(kinds)) or "none"
            raise ConfigError(f"{entry.name or 'it'} has no package of the type {wanted}; it has: {has}.")
    refused: list[str] = []
    absent: list[tuple[Recipe, Bundle | None]] = []
    first: MCPMagicError | None = None
    for part in parts:
        bundle = None
        try:
            if isinstance(part, Remote):
                recipe = remote_recipe(part)
            elif part.registry_type == "mcpb":
                check_direction(source, part.identifier)
                bundle = await _download(part.identifier, part.sha256)
                recipe = bundle_recipe(bundle)
            else:
                recipe = await package_recipe(part, folder)
        except (ConfigError, RegistryError) as error:
            first = first or error
            refused.append(clause(one_line(str(error), 300)))
            continue
        if not recipe.command or shutil.which(recipe.command) or wanted:
            return recipe, bundle, refused
        absent.append((recipe, bundle))
        refused.append(f"{recipe.origin} needs {recipe.command}, which is not installed")
    if absent:  # the doctor says what to install
        return *absent[0], refused[1:]
    if first is not None and len(refused) == 1:
        raise first
    why = "; ".join(refused) if refused else "; ".join(entry.remarks[:3]) or "it has no packages and no remotes"
    raise ConfigError(f"{entry.name or 'it'} cannot be added: {why}.")


# Asking


def addition_question(addition: Addition, values: Values) -> Question:
    """Return the question whether a server is added, with a form for what it takes."""
    slots = addition.slots
    own_schema = form_schema(slots)
    shown = {slot.key: values[slot.key] for slot in slots if slot.key in values and not slot.input.secret}
    for slot in slots:
        if slot.input.secret and slot.key in values:  # it is filled in already
            own_schema["required"] = [key for key in own_schema["required"] if key != slot.key]
        if slot.key in shown and slot.input.format == "boolean" and not slot.input.choices:
            shown[slot.key] = shown[slot.key] == "true"  # type: ignore[assignment]

    def check(typed: Any) -> None:
        filled = read_values(slots, {**values, **_without_empty(typed)})
        if lacking := find_missing(slots, filled):
            raise ArgumentsError(f"still to be filled in: {join_names(lacking)}")

    def outcome(reply: Reply, seconds: float) -> Outcome:
        sign = {"add": "✓ agreed", "no": "✗ no"}.get(reply.choice, "… not answered")
        return Outcome(sign, (f": {addition.title} {duration(seconds)}",))

    has_form = bool(slots)
    form = Form(dict(shown), own_schema, must_open=True, check=check) if has_form else None
    return Question(
        about=lambda typed: addition.part({**values, **_shown_values(typed)}),
        choices=(
            Choice("add", "Add", "check", "start it, and write it into the file", "[a]dd", sends=True),
            *([Choice(EDIT, typed="[f]ill in")] if has_form else []),
            Choice("no", "No", "ban", "start nothing, write nothing", "[n]o"),
        ),
        outcome=outcome,
        late="Refused",
        form=form,
    )


def _shown_values(typed: Any) -> dict[str, Any]:
    values = typed if isinstance(typed, Mapping) else {}
    return {
        key: str(value).lower() if isinstance(value, bool) else value for key, value in _without_empty(values).items()
    }


def _without_empty(typed: Any) -> dict[str, Any]:
    values = typed if isinstance(typed, Mapping) else {}
    return {str(key): value for key, value in values.items() if value not in (None, "", [])}


def start_values(addition: Addition, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are there before anybody is asked. Raises ArgumentsError if one does not fit."""
    return read_values(addition.slots, typed) if typed else default_values(addition.slots)


def lacking_text(addition: Addition, values: Values) -> str:
    """Say which values are missing, and how a line sets them; "" if none is."""
    lacking = find_missing(addition.slots, values)
    words = " ".join(f"--set {key}=VALUE" for key in lacking)
    return f"{addition.name} needs {join_names(lacking)}: {words}" if lacking else ""


# Adding and removing


@dataclass(frozen=True)
class NewServer:
    """A server that was added.

    Attributes:
        name: Its name.
        file: The file that has it now.
        runs: Its command or URL, secrets masked.
        report: What the doctor says of it; None if no session could be opened.
        connection: Its session; None if it could not be opened.
        notes: What is left to do.
    """

    name: str
    file: Path
    runs: str
    report: DoctorReport | None = field(default=None, repr=False)
    connection: Connection | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it works."""
        return self.connection is not None and self.report is not None and self.report.ok

    @property
    def df(self) -> pd.DataFrame:
        """One row: server, file, runs, ok, problems."""
        import pandas as pd

        problems = [] if self.report is None else self.report.problems
        row = {"server": self.name, "file": str(self.file), "runs": self.runs, "ok": self.ok}
        return pd.DataFrame([{**row, "problems": [*problems]}])

    def parts(self) -> list[Part]:
        """Return what is shown."""
        rows = [("server", self.name), ("runs", visible(self.runs)), ("written to", str(self.file))]
        if self.connection is not None:
            row = self.connection.info().row()
            offers = [plural(row[kind], kind) for kind in ("tools", "resources", "prompts") if row.get(kind)]
            rows.append(("session", ", ".join([str(row.get("state") or "open"), *offers])))
            rows += [("rights", rights)] if (rights := self.connection.info().rights) else []
        if self.report is not None:
            rows.append(("doctor", self.report.verdict))
            rows += [("", one_line(problem, 300)) for problem in self.report.problems[:MAX_PROBLEMS]]
        return [Part.facts(rows, width=10), *(Part.note(note) for note in self.notes)]

    _repr_mimebundle_ = show_parts
    __str__ = parts_text


async def add_server(
    host: Host,
    what: str,
    *,
    values: Mapping[str, Any] | None = None,
    ask: Callable[[Question, float], Awaitable[Reply]] | None = None,
    yes: str = "",
    keep: bool = False,
    **options: Any,
) -> NewServer:
    """Look up a server, ask once, try it, write it into a file, and open its session.

    Args:
        host: The host that has the session.
        what: What is added; see `plan_addition`.
        values: What it takes, by name.
        ask: Asks the user; None if nobody can be asked.
        yes: The code of what is approved already, in place of the question.
        keep: Whether it is written even if it does not work.
        **options: The options of `plan_addition`.

    Raises:
        ArgumentsError: A value does not fit, or is missing.
        CommandError, ConfigError, RegistryError: It cannot be added; the message says why.
        ConnectError: It does not work; nothing was written.
        DeniedError: It was not agreed to, or nobody could be asked.
    """
    with InFlightRequest(f"add {one_line(what, 60)}", reports=host.reports):
        addition = await plan_addition(what, **options)
    if addition.name in host:
        raise ConfigError(
            f"a session of the name {addition.name} is open; `--name NAME` gives the new server another, or "
            f"`%mcp disconnect {addition.name}` ends it."
        )
    typed = start_values(addition, values or {})
    addition = replace(addition, stored=await _keyring_entries(addition))
    agreed = await _agreed(addition, typed, ask, yes, host.consent.timeout)
    if addition.bundle is not None:
        await asyncio.to_thread(unpack, addition.bundle)
    added: list[str] = []
    is_written = False
    try:
        for entry_name, secret in addition.secrets(agreed).items():
            await _store(entry_name, secret)
            added.append(entry_name)
        connection, report, problems = await _try(host, addition, agreed, keep=keep)
        notes = _write(addition, agreed)
        is_written = True
    finally:
        if not is_written:
            for entry_name in added:
                with suppress(KeyringFailedError, ConfigError):
                    await forget_secret(SERVICE, entry_name)
            if addition.name in host:
                await host.disconnect(addition.name)
    runs = addition.runs(agreed)
    return NewServer(addition.name, addition.file.path, runs, report, connection, (*problems, *notes))


async def _keyring_entries(addition: Addition) -> dict[str, str]:
    """Return the entry of the keyring for each secret; none where there is no keyring, or the editor asks."""
    entries: dict[str, str] = {}
    if addition.file.is_editors:
        return {}
    for slot in addition.slots:
        if not slot.input.secret or slot.is_list:
            continue
        name = f"{addition.name}-{slot.key}"
        for entry in (name, *(f"{name}-{number}" for number in range(2, 10))):
            try:
                is_free = entry not in entries.values() and not await read_secret(SERVICE, entry)
            except KeyringFailedError:
                return {}
            if is_free:
                entries[slot.key] = entry
                break
    return entries


async def _store(name: str, value: str) -> None:
    try:
        await store_secret(SERVICE, name, value)
        return
    except KeyringFailedError as error:
        problem = f"the secret {name} cannot be stored: {error}"
    raise ConfigError(problem)


async def _try(
    host: Host, addition: Addition, values: Values, *, keep: bool
) -> tuple[Connection | None, DoctorReport | None, list[str]]:
    """Open a session, and let the doctor examine it; return both, and why there is none if `keep` allows that.

    Raises:
        ConnectError: It does not work.
    """
    name, spec = addition.name, addition.spec(values)
    try:
        try:
            connection = await host.connect_spec(spec, name)
        except ConnectTimeoutError:
            if not addition.recipe.command:
                raise
            # the first start may have to install it
            connection = await host.connect_spec(replace(spec, timeout=max(spec.timeout, INSTALL_SECONDS)), name)
    except ConnectError as error:
        if keep:
            return None, None, [f"it does not work: {error}"]
        why = str(error).removeprefix(f"{name}: ")
        space = "\n  " if "\n" in why else " "
        failure = ConnectError(
            f"{name} was not added, because it does not work: {why}{space}{KEEP}", stderr=error.stderr
        )
        failure.details = error.details
    else:
        report = await examine(host, connection, name=name)
        if report.ok or keep:
            return connection, report, []
        failure = _failure(name, report)
    raise failure


def _failure(name: str, report: DoctorReport) -> ConnectError:
    """Return the error of a server that does not work: the first step that failed."""
    failures = ((step.name, remark) for step in report.steps for remark in step.remarks if remark.status == FAILURE)
    place, remark = next(failures)
    advice = f" ({clause(one_line(remark.todo, 300))})" if remark.todo else ""
    why = f"{name} was not added, because it does not work: {place}: {clause(one_line(remark.text, 400))}{advice}"
    return ConnectError(f"{sentence(why)} {KEEP}")


async def _agreed(
    addition: Addition,
    values: dict[str, Any],
    ask: Callable[[Question, float], Awaitable[Reply]] | None,
    yes: str,
    seconds: float,
) -> dict[str, Any]:
    """Return the values, once it was agreed to. Raises DeniedError if it was not."""
    lacking = lacking_text(addition, values)
    if yes:
        if yes != addition.code:
            raise DeniedError(
                f"{addition.name} was not added: --yes {one_line(yes, 40)} approves something else. It would be:\n"
                f"{addition.part(values).plain}\n`--yes {addition.code}` approves this."
            )
        if lacking:
            raise ArgumentsError(f"{lacking}.")
        return values
    reply = None
    if ask is not None:
        try:
            reply = await ask(addition_question(addition, values), seconds)
        except TimeoutError:
            raise DeniedError(f"{addition.name} was not added: you did not answer within {seconds:g} s.") from None
    if reply is None or reply.by == "default":
        more = f" {lacking}." if lacking else ""
        raise DeniedError(
            f"{addition.name} was not added: you cannot be asked here.{more} It would be:\n"
            f"{addition.part(values).plain}\nThe same line with `--yes {addition.code}` approves exactly this."
        )
    if reply.choice != "add":
        raise DeniedError(f"{addition.name} was not added: {reply.why_not or 'you said no'}.")
    agreed = read_values(addition.slots, {**values, **_without_empty(reply.values)})
    if still := lacking_text(addition, agreed):
        raise ArgumentsError(f"{still}.")
    return agreed


def _write(addition: Addition, values: Values) -> list[str]:
    """Write the server into its file, which is read again; return what is left to do."""
    table, inputs = addition.written(values)
    file = read_file(addition.file.path)
    _, _, variables = addition.files(values)
    with _same_trust(file.path, variables):
        write_file(file.path, file.added(addition.name, table, comment=addition.comment, inputs=inputs))
    if not variables:
        return []
    if addition.file.is_editors:
        return ["the file has no secret: VS Code asks for it"]
    names = join_names(variables)
    return [f"the file has no secret: it refers to {names}, to be set in the environment or in .env before `%mcp up`"]


@contextmanager
def _same_trust(path: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Trust a file after a change that the user agreed to, if nothing else in it has to be agreed to."""
    is_clear = not path.is_file()
    with suppress(ConfigError):
        before = None if is_clear else load_declaration(path)
        is_clear = before is None or not loosened(before, {}) or is_trusted(before)
    yield
    if is_clear:
        with suppress(ConfigError, OSError):
            trust(load_declaration(path, environ={**os.environ, **variables}))


REMOVABLE = ("mcp_magic.toml", "pyproject.toml", "mcp.json", ".mcp.json", ".vscode/mcp.json")
"""The files of a folder from which a server is removed, in the order in which they are looked at."""


async def remove_server(host: Host, name: str, *, folder: Path, file: str | Path | None = None) -> Listing:
    """Take a server out of its file, and end its session; return what was done.

    Raises:
        ConfigError: No file has it, or the file cannot be changed without changing something else.
    """
    paths = [folder / Path(file).expanduser()] if file else [folder / own for own in REMOVABLE]
    if file and not paths[0].is_file():
        raise ConfigError(f"{paths[0]} is not there.")
    has: list[str] = []
    for path in filter(Path.is_file, paths):
        try:
            own = read_file(path)
            names = own.servers
        except ConfigError:
            if file:
                raise
            continue
        match = next((key for key in names if key == name), None) or next((k for k in names if slug(k) == name), None)
        has += names
        if match is None:
            continue
        with _same_trust(own.path, {}):
            write_file(own.path, own.removed(match))
        is_open = slug(match) in host
        if is_open:
            await host.disconnect(slug(match))
        row = {"server": match, "removed from": str(own.path), "session": "disconnected" if is_open else "none"}
        entries = re.findall(rf"\$\{{keyring:{SERVICE}/([^}}]*)\}}", json_text(names[match]))
        kept = " ".join(f"`%mcp secret forget {unquote(own)}`" for own in dict.fromkeys(entries))
        note = f"its secrets stay in the keyring; {kept} deletes them" if kept else ""
        return Listing([row], title="Removed", empty="", note=note, kind="removed")
    hint = did_you_mean(name, has) or (f" There is: {join_names(dict.fromkeys(has))}." if has else "")
    where = str(paths[0]) if file else f"no file of {folder} (looked for {', '.join(REMOVABLE)})"
    raise ConfigError(f"{where} has {'no' if file else 'a'} server {name!r}.{hint}")
