"""Skills that servers offer: their list, their text and their files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin, urlsplit

from mcp_magic._text import did_you_mean, join_names, plural, repeated_names
from mcp_magic.display.text import one_line
from mcp_magic.errors import InvalidResponseError, NotOfferedError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import ServerCapabilities

    from mcp_magic.results.results import ResourceResult


# The entries of skills: what a server says about a skill before it is read.
# Source: MCP extension `io.modelcontextprotocol/skills` (SEP-2640), "Skill Entries".

MAX_FILES = 512  # most files of a skill; most bytes follow. Every host must accept so many and may refuse more.
MAX_BYTES = 16 * 1024 * 1024

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MANIFEST = "/SKILL.md"


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill: its URI, its digest (`sha256:` and 64 hexadecimal digits) and its size in bytes."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """The entry of a skill. Server and URI together identify it, because two servers may use the same URI."""

    server: str
    uri: str  # of its `SKILL.md`
    # as the server gives it: `name`, `description` and the author's own
    front_matter: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[SkillFile, ...] = ()  # all its files; empty if the server generates them when they are read
    problem: str = ""  # why it cannot be loaded, or ""

    @property
    def name(self) -> str:
        """Its name: a label that need not be unique."""
        return str(self.front_matter.get("name", ""))

    @property
    def description(self) -> str:
        """Its description, which is unverified text."""
        return str(self.front_matter.get("description", ""))

    @property
    def root(self) -> str:
        """The URI of its directory, with a slash at the end."""
        return self.uri[: -len("SKILL.md")]


def read_entry(server: str, entry: Any) -> Skill:
    """Read an entry. Its `problem` says what is wrong with it, because one bad skill must not hide the others."""
    fields = entry if isinstance(entry, dict) else {}
    uri, front = fields.get("uri"), fields.get("frontmatter")
    uri = uri if isinstance(uri, str) else ""
    front = front if isinstance(front, dict) else {}
    files, problem = _read_files(uri, fields.get("resources"))
    if not uri.endswith(_MANIFEST):
        problem = f"its URI {one_line(uri, 100)!r} does not end with {_MANIFEST}"
    elif not all(isinstance(front.get(name), str) for name in ("name", "description")):
        problem = "its front matter has no name or no description"
    elif uri[: -len(_MANIFEST)].rpartition("/")[2] != front["name"]:
        problem = f"its name {one_line(front['name'], 100)!r} is not the last part of its URI"
    return Skill(server, uri, front, files, problem)


def _read_files(uri: str, resources: Any) -> tuple[tuple[SkillFile, ...], str]:
    if resources == "dynamic":
        return (), ""
    if not isinstance(resources, list):
        return (), 'its resources are neither a list nor "dynamic"'
    files = []
    for resource in resources:
        fields = resource if isinstance(resource, dict) else {}
        file = SkillFile(fields.get("uri", ""), fields.get("digest", ""), fields.get("size", -1))
        texts = isinstance(file.uri, str) and isinstance(file.digest, str)
        if not texts or type(file.size) is not int or file.size < 0 or not _DIGEST.fullmatch(file.digest):
            return (), f"one of its files has no uri, digest or size: {one_line(str(resource), 100)}"
        if not file.uri.startswith(uri[: -len("SKILL.md")]):
            return (), f"its file {one_line(file.uri, 100)} is not within the skill"
        files.append(file)
    names = [file.uri for file in files]
    total = sum(file.size for file in files)
    problem = ""
    if uri not in names:
        problem = "its SKILL.md is not among its files"
    elif twice := repeated_names(names):
        problem = f"it has files twice: {join_names(sorted(twice))}"
    elif len(files) > MAX_FILES:
        problem = f"it has {plural(len(files), 'files')}; the limit is {MAX_FILES}"
    elif total > MAX_BYTES:
        problem = f"its files have {total} bytes; the limit is {MAX_BYTES}"
    return tuple(files), problem


# The YAML at the head of a Markdown file, and its comparison with a JSON object.

MAX_CHARACTERS = 20_000  # most characters of front matter; the parser takes seconds for a megabyte
MAX_BRACKETS = 400  # most brackets of front matter; the parser takes quadratic time in the open ones

_HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


class FrontMatterError(ValueError):
    """A file has no front matter, or none that can be read."""


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter of a Markdown text, as YAML, and the rest; FrontMatterError if it has none."""
    match = _HEAD.match(text)
    if match is None:
        raise FrontMatterError("it does not begin with front matter (--- YAML ---)")
    return match[1], text[match.end() :]


def same_front_matter(yaml_text: str, fields: Mapping[str, Any]) -> bool:
    """Whether YAML and a JSON object have the same fields and values; FrontMatterError if it cannot be read.

    Values are compared as they are written, since YAML 1.1 and 1.2 read some differently, and JSON has no dates.
    """
    import yaml

    if len(yaml_text) > MAX_CHARACTERS:
        raise FrontMatterError(f"its front matter is longer than {MAX_CHARACTERS} characters")
    if yaml_text.count("[") + yaml_text.count("{") > MAX_BRACKETS:
        raise FrontMatterError(f"its front matter has more than {MAX_BRACKETS} brackets")
    try:
        events = list(yaml.parse(yaml_text, Loader=yaml.BaseLoader))
        aliases = any(isinstance(event, yaml.AliasEvent) for event in events)  # a few can expand to gigabytes
        read = None if aliases else yaml.load(yaml_text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(f"its front matter is not YAML: {str(error).splitlines()[0]}") from None
    if aliases:
        raise FrontMatterError("its front matter has YAML aliases")
    if not isinstance(read, dict):
        raise FrontMatterError("its front matter is not a YAML mapping")
    return _same(read, dict(fields))


_YAML_WORDS = {True: ("true", "yes", "on"), False: ("false", "no", "off"), None: ("null", "~", "")}
"""Values of JSON -> how YAML writes them, in lower case."""


def _same(read: Any, stated: Any) -> bool:
    """Compare YAML, whose scalars are texts, with JSON."""
    if isinstance(read, dict):
        return (
            isinstance(stated, dict) and read.keys() == stated.keys() and all(_same(read[k], stated[k]) for k in read)
        )
    if isinstance(read, list):
        return isinstance(stated, list) and len(read) == len(stated) and all(map(_same, read, stated))
    if isinstance(stated, bool) or stated is None:
        return read.lower() in _YAML_WORDS[stated]
    if isinstance(stated, int | float):
        try:
            return float(read) == stated
        except ValueError:
            return False
    return bool(read == stated)


# Skills: a skill is a directory with a `SKILL.md`. The entry holds its front matter and lists every file with its size
# and SHA-256. A file is fetched only on demand, and returned only if it matches the entry. The digest comes from the
# same server as the file: it shows that both belong together, not that they can be trusted.
# Source: MCP extension `io.modelcontextprotocol/skills` (SEP-2640), "Integrity and Verification".

EXTENSION = "io.modelcontextprotocol/skills"

MAX_PAGES = 1000  # most pages of a listing; a longer listing counts as endless


class SkillServer(Protocol):
    """The part of a connection that skills need."""

    name: str

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """The capabilities of the server."""

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send any request and return the `result` of its answer."""

    async def read(self, uri: str) -> ResourceResult:
        """Read a resource."""


class Skills:
    """The skills of one server: `connection.skills`."""

    def __init__(self, connection: SkillServer) -> None:
        self._connection = connection

    @property
    def offered(self) -> bool:
        """Whether the server announces skills."""
        capabilities = self._connection.capabilities
        return capabilities is not None and EXTENSION in (capabilities.extensions or {})

    async def list(self) -> list[Skill]:
        """Return the entries of all listed skills; NotOfferedError if the server publishes no skills."""
        skills: list[Skill] = []
        cursor: Any = None
        cursors: set[str] = set()
        for _ in range(MAX_PAGES):
            page = await self._ask("skills/list", {"cursor": cursor} if cursor is not None else {})
            entries = page.get("skills")
            if not isinstance(entries, list):
                raise InvalidResponseError(f"{self._connection.name}: its answer to skills/list has no list of skills")
            skills += [read_entry(self._connection.name, entry) for entry in entries]
            cursor = page.get("nextCursor")
            if cursor in (None, "") or str(cursor) in cursors:  # a list that goes in a circle ends there
                return list({skill.uri: skill for skill in skills}.values())
            cursors.add(str(cursor))
        raise InvalidResponseError(f"{self._connection.name}: its list of skills goes on after {MAX_PAGES} pages")

    async def get(self, uri: str) -> Skill:
        """Return the entry of a skill, listed or not; ProtocolError if the server has no such skill."""
        answer = await self._ask("skills/get", {"uri": uri})
        skill = read_entry(self._connection.name, answer.get("skill"))
        if skill.uri != uri:
            raise InvalidResponseError(f"{self._connection.name}: was asked for {uri} and answered {skill.uri!r}")
        return skill

    async def load(self, skill: Skill | str) -> LoadedSkill:
        """Fetch the `SKILL.md` of a skill or a URI; VerificationError if the file is not the listed one."""
        entry = await self.get(skill) if isinstance(skill, str) else skill
        if entry.problem:
            raise VerificationError(f"{entry.server}: the skill {entry.uri} is not loaded: {entry.problem}")
        loaded = LoadedSkill(entry, self._connection)
        loaded.result = await loaded.read(entry.uri)
        data = loaded.result.bytes
        try:
            loaded.text = data.decode() if isinstance(data, bytes) else "".join(part.decode() for part in data)
            front, loaded.instructions = split_front_matter(loaded.text)
            same = same_front_matter(front, entry.front_matter)
        except ValueError as error:
            why = error if isinstance(error, FrontMatterError) else "it is not UTF-8"
            raise VerificationError(f"{entry.server}: {entry.uri} is not used: {why}") from None
        if not same:
            raise VerificationError(
                f"{entry.server}: {entry.uri} is not used: its front matter is not the one of the skill's entry. "
                "It may have changed since: skills.get(uri) returns the current entry."
            )
        return loaded

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._connection.capabilities is not None and not self.offered:
            raise NotOfferedError(f"{self._connection.name} publishes no skills (it does not name {EXTENSION})")
        return await self._connection.request(method, params)


class LoadedSkill:
    """A skill whose `SKILL.md` matches its entry; `instructions` is unverified text of the server."""

    def __init__(self, skill: Skill, connection: SkillServer) -> None:
        self.skill = skill
        self.result: ResourceResult
        self.text = ""
        self.instructions = ""
        self._connection = connection

    def __repr__(self) -> str:
        return f"<LoadedSkill {self.skill.name!r} of {self.skill.server}: {len(self.text)} characters>"

    async def read(self, path: str) -> ResourceResult:
        """Read a file by its URI, or its path below the directory of `SKILL.md`.

        Raises VerificationError if the skill has no such file (then nothing is fetched), or it is not as in the entry.
        """
        uri = path if urlsplit(path).scheme else _resolved(self.skill.root, path)
        files = {file.uri: file for file in self.skill.files}
        if files and uri not in files:
            near = did_you_mean(uri, files)
            raise VerificationError(f"{self.skill.server}: {uri} is not a file of the skill {self.skill.name!r}.{near}")
        if not files and (not uri.startswith(self.skill.root) or ".." in uri.split("/")):
            raise VerificationError(f"{self.skill.server}: {uri} is not within the skill {self.skill.name!r}")
        result = await self._connection.read(uri)
        if uri in files:
            _verify(self.skill, files[uri], result)
        return result


def _resolved(root: str, path: str) -> str:
    """Resolve a path within a skill, for any URI scheme."""
    scheme, _, rest = root.partition("://")
    return f"{scheme}://{urljoin('http://' + rest, path)[len('http://') :]}"


def _verify(skill: Skill, file: SkillFile, result: ResourceResult) -> None:
    data = result.bytes
    if not isinstance(data, bytes):
        raise VerificationError(f"{skill.server}: {file.uri} is not used: it came in {len(data)} parts")
    if len(data) != file.size:
        wrong = f"{len(data)} bytes instead of {file.size}"
    elif f"sha256:{hashlib.sha256(data).hexdigest()}" != file.digest:
        wrong = "another SHA-256"
    else:
        return
    raise VerificationError(
        f"{skill.server}: {file.uri} is not used: it has {wrong}. "
        "It may have changed since the skill was listed: skills.get(uri) returns the current entry."
    )
