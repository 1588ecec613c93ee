"""Skills that a server publishes: instructions and files, read when they are needed and held against their entry.

A skill is a directory with a `SKILL.md`. Its entry says what its front matter is and lists every file with its size
and SHA-256; nothing of it is fetched before it is asked for, and nothing that is not as the entry says is given out.
A digest comes from the same server as the file: it shows that both belong together, not that they can be trusted.

Source: MCP extension `io.modelcontextprotocol/skills` (SEP-2640), "Integrity and Verification".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin, urlsplit

from mcp_magic.core.skills.entries import Skill, SkillFile, read_entry
from mcp_magic.core.skills.frontmatter import FrontMatterError, same_front_matter, split_front_matter
from mcp_magic.errors import InvalidResponseError, NotOfferedError, VerificationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import ServerCapabilities

    from mcp_magic.results import ResourceResult

__all__ = ["EXTENSION", "LoadedSkill", "Skill", "SkillFile", "Skills"]

EXTENSION = "io.modelcontextprotocol/skills"

MAX_PAGES = 1000
"""Pages of a listing; a server that goes on longer never ends."""


class SkillServer(Protocol):
    """A connection, as far as it is used here."""

    name: str

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do."""

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
        """Whether the server says that it publishes skills."""
        capabilities = self._connection.capabilities
        return capabilities is not None and EXTENSION in (capabilities.extensions or {})

    async def list(self) -> list[Skill]:
        """Return the entries of all skills that the server lists; it may have others.

        Raises:
            NotOfferedError: The server publishes no skills.
        """
        found: list[Skill] = []
        cursor: Any = None
        for _ in range(MAX_PAGES):
            page = await self._ask("skills/list", {"cursor": cursor} if cursor is not None else {})
            entries = page.get("skills")
            if not isinstance(entries, list):
                raise InvalidResponseError(f"{self._connection.name}: its answer to skills/list has no list of skills")
            found += [read_entry(self._connection.name, entry) for entry in entries]
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
        raise InvalidResponseError(f"{self._connection.name}: its list of skills goes on after {MAX_PAGES} pages")

    async def get(self, uri: str) -> Skill:
        """Return the entry of a skill, whether it is listed or not.

        Raises:
            NotOfferedError: The server publishes no skills.
            ProtocolError: It has no such skill.
        """
        answer = await self._ask("skills/get", {"uri": uri})
        skill = read_entry(self._connection.name, answer.get("skill"))
        if skill.uri != uri:
            raise InvalidResponseError(f"{self._connection.name}: was asked for {uri} and answered {skill.uri!r}")
        return skill

    async def load(self, skill: Skill | str) -> LoadedSkill:
        """Fetch the `SKILL.md` of a skill, and nothing else of it.

        Args:
            skill: Its entry, or its URI.

        Raises:
            VerificationError: The entry is not valid, or the file is not what the entry says.
        """
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
                "It may have changed since: skills.get(uri) has the entry of now."
            )
        return loaded

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._connection.capabilities is not None and not self.offered:
            raise NotOfferedError(f"{self._connection.name} publishes no skills (it does not name {EXTENSION})")
        return await self._connection.request(method, params)


class LoadedSkill:
    """A skill whose `SKILL.md` is what its entry says.

    Attributes:
        skill: The entry it is held against, as long as it is used.
        result: `SKILL.md` as it was read.
        text: The whole of `SKILL.md`.
        instructions: What comes after the front matter: text of the server, which nobody has checked.
    """

    def __init__(self, skill: Skill, connection: SkillServer) -> None:
        self.skill = skill
        self.result: ResourceResult
        self.text = ""
        self.instructions = ""
        self._connection = connection

    def __repr__(self) -> str:
        return f"<LoadedSkill {self.skill.name!r} of {self.skill.server}: {len(self.text)} characters>"

    async def read(self, path: str) -> ResourceResult:
        """Read a file of the skill from the server that has the skill.

        Args:
            path: Its URI, or its path below the directory of `SKILL.md`.

        Raises:
            VerificationError: The skill has no such file (then nothing is fetched), or it is not what the entry says.
        """
        uri = path if urlsplit(path).scheme else _resolved(self.skill.root, path)
        known = {file.uri: file for file in self.skill.files}
        if known and uri not in known:
            near = did_you_mean(uri, known)
            raise VerificationError(f"{self.skill.server}: {uri} is no file of the skill {self.skill.name!r}.{near}")
        if not known and (not uri.startswith(self.skill.root) or ".." in uri.split("/")):
            raise VerificationError(f"{self.skill.server}: {uri} is not within the skill {self.skill.name!r}")
        result = await self._connection.read(uri)
        if uri in known:
            _verify(self.skill, known[uri], result)
        return result


def _resolved(root: str, path: str) -> str:
    """Resolve a path within a skill, whatever its scheme.

    >>> _resolved("skill://acme/refunds/", "examples/email.md")
    'skill://acme/refunds/examples/email.md'
    """
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
        "It may have changed since the skill was listed: skills.get(uri) has the entry of now."
    )
