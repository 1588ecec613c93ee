"""Skills of servers for an agent: it is told what there is, and loads the text of one when it needs it."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.builtin import BuiltinTool
from mcp_magic.agent.tools import as_patterns
from mcp_magic.display.text import one_line
from mcp_magic.errors import MCPMagicError, UnknownResourceError
from mcp_magic.langchain.content import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic._host import Host
    from mcp_magic.agent.builtin import BuiltinCall
    from mcp_magic.langchain.content import Content
    from mcp_magic.skills import Skill

LOAD_SKILL = "load_skill"

DESCRIPTION = 300  # characters of a skill's description that the model gets at each turn

MOST_SKILLS, MOST_FILES = 50, 50
"""Most skills that a model is told of, and most files of one."""

INTRODUCTION = (
    "Skills are instructions for certain tasks, written by the authors of servers. If one is for the task at hand, "
    f"read it with {LOAD_SKILL} before you begin:"
)


class AgentSkills:
    """The skills that an agent was given; nothing of them is fetched but their list until the model loads one.

    Args:
        host: The host of the sessions.
        patterns: Patterns for `server:skill`.
        servers: The servers of the agent; empty: all.
        limit: Characters of a file that the model reads.
    """

    def __init__(self, host: Host, patterns: Iterable[str], *, servers: Iterable[str] = (), limit: int) -> None:
        self._host = host
        self._patterns = as_patterns(patterns)
        self._servers = tuple(servers)
        self._limit = limit
        self._skills: dict[str, Skill] | None = None

    async def check(self) -> None:
        """Raise UnknownResourceError if no skill matches."""
        if self._patterns and not await self.list():
            raise UnknownResourceError(f"no skill matches {join_names(self._patterns)}; `%mcp skills` lists them")

    async def list(self) -> dict[str, Skill]:
        """Return the skills by `server:name`; of equal names in a server, the later ones by `server:URI`.

        The servers are asked once. A server that fails is left out, and so is a skill that cannot be loaded.
        """
        if self._skills is not None:
            return self._skills
        matches: dict[str, Skill] = {}
        for connection in self._host.find() if self._patterns else ():
            if not connection.skills.offered or (self._servers and connection.name not in self._servers):
                continue
            try:
                skills = await connection.skills.list()
            except MCPMagicError:
                continue
            names: Counter[str] = Counter()
            for skill in skills:
                name = f"{skill.server}:{skill.name}"
                if not skill.problem and any(fnmatchcase(name, pattern) for pattern in self._patterns):
                    names[name] += 1
                    matches[name if names[name] == 1 else f"{skill.server}:{skill.uri}"] = skill
        self._skills = matches
        return matches

    async def prompt(self) -> str:
        """Return what the model is told of the skills at each turn; "" without any."""
        skills = list((await self.list()).items())[:MOST_SKILLS]
        lines = [f"- {one_line(name, 200)}: {one_line(skill.description, DESCRIPTION)}" for name, skill in skills]
        return "\n".join([INTRODUCTION, *lines]) if lines else ""

    def tool(self) -> BuiltinTool:
        """Return `load_skill`."""
        text = {"type": "string"}
        parameters = {
            "type": "object",
            "properties": {"skill": text, "file": {**text, "description": "one of its files instead of its text"}},
            "required": ["skill"],
        }
        function = {"name": LOAD_SKILL, "description": "Reads a skill, or a file of it.", "parameters": parameters}
        return BuiltinTool(function, self._answer, when=lambda _: bool(self._skills))

    async def _answer(
        self, arguments: Mapping[str, Any], _: Sequence[BaseMessage], __: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        skills = await self.list()
        name, file = str(arguments["skill"]), arguments.get("file")
        if name not in skills:
            near = did_you_mean(name, skills)
            raise UnknownResourceError(f"no skill {one_line(name, 100)!r}.{near} There are: {join_names(skills, 20)}")
        skill = skills[name]
        loaded = await self._host[skill.server].skills.load(skill)
        reader = Reader(images=False, limit=self._limit)
        if file:
            result = await loaded.read(str(file))
            reader.add_text("\n".join(result.texts) or "[a file that is not text]")
        else:
            reader.add_text(loaded.instructions.strip())
            others = [item.uri.removeprefix(skill.root) for item in skill.files if item.uri != skill.uri]
            if others:
                reader.add_text(f"[files of this skill: {join_names(others, MOST_FILES)}]")
        return "\n\n".join(str(item) for item in reader.finish()), {}
