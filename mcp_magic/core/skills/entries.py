"""The entries of skills: what a server says of a skill before anything of it is read.

Source: MCP extension `io.modelcontextprotocol/skills` (SEP-2640), "Skill Entries".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import listed
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Skill", "SkillFile", "read_entry"]

MAX_FILES = 512
"""Files of a skill, and below its bytes: the limits that every host must take and may refuse beyond."""
MAX_BYTES = 16 * 1024 * 1024

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MANIFEST = "/SKILL.md"


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill: where it is, its digest (`sha256:` and 64 hexadecimal digits) and its size in bytes."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """The entry of a skill. Two servers may have one of the same URI: server and URI together say which it is.

    Attributes:
        server: The server's name.
        uri: The URI of its `SKILL.md`.
        front_matter: What that begins with, as the server says: `name`, `description` and what the author added.
        files: All its files; empty where the server makes them up as they are read.
        problem: Why it cannot be loaded; "" if nothing speaks against it.
    """

    server: str
    uri: str
    front_matter: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[SkillFile, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name: a label, which need not be unique."""
        return str(self.front_matter.get("name", ""))

    @property
    def description(self) -> str:
        """What it is for: text that nobody has checked."""
        return str(self.front_matter.get("description", ""))

    @property
    def root(self) -> str:
        """The URI of its directory, with a slash at the end."""
        return self.uri[: -len("SKILL.md")]


def read_entry(server: str, entry: Any) -> Skill:
    """Read an entry; what is wrong with it is said in it, because one bad skill must not hide the others."""
    given = entry if isinstance(entry, dict) else {}
    uri, front = given.get("uri"), given.get("frontmatter")
    uri = uri if isinstance(uri, str) else ""
    front = front if isinstance(front, dict) else {}
    files, problem = _read_files(uri, given.get("resources"))
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
    for each in resources:
        given = each if isinstance(each, dict) else {}
        file = SkillFile(given.get("uri", ""), given.get("digest", ""), given.get("size", -1))
        if not _is_whole(file):
            return (), f"one of its files has no uri, digest or size: {one_line(str(each), 100)}"
        if not file.uri.startswith(uri[: -len("SKILL.md")]):
            return (), f"its file {one_line(file.uri, 100)} is not within the skill"
        files.append(file)
    return tuple(files), _problem_of(uri, files)


def _is_whole(file: SkillFile) -> bool:
    """Whether a file has what it must have; a server may have sent anything in its place."""
    texts = isinstance(file.uri, str) and isinstance(file.digest, str)
    return texts and type(file.size) is int and file.size >= 0 and _DIGEST.fullmatch(file.digest) is not None


def _problem_of(uri: str, files: list[SkillFile]) -> str:
    names = [file.uri for file in files]
    if uri not in names:
        return "its SKILL.md is not among its files"
    if len(set(names)) < len(names):
        return f"it has files twice: {listed(sorted({name for name in names if names.count(name) > 1}))}"
    if len(files) > MAX_FILES:
        return f"it has {len(files)} files; the limit is {MAX_FILES}"
    total = sum(file.size for file in files)
    return f"its files have {total} bytes; the limit is {MAX_BYTES}" if total > MAX_BYTES else ""
