"""`%mcp skills`: the skills that servers publish, as a list or one in full."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, listed
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError, MCPMagicError, UnknownResourceError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.results.results import ResourceResult
    from mcp_magic.skills import Skill, Skills

__all__ = ["SKILLS"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
    parser.add_argument("--load", metavar="SKILL", help="the name or URI of a skill: shows its SKILL.md")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing | ResourceResult:
    """List skills, or show one."""
    host = invocation.host
    if arguments.load:
        if arguments.server is None:
            message = "%mcp skills --load takes the server too: `%mcp skills SERVER --load SKILL`"
            raise CommandError(message)
        return await _load(host[arguments.server].skills, invocation.text(arguments.load))
    connections = host.find(arguments.server)
    asked = [c.skills for c in connections if arguments.server or c.skills.offered]
    found = await asyncio.gather(*(skills.list() for skills in asked), return_exceptions=True)
    rows, problems = [], []
    for answer in found:
        if isinstance(answer, list):
            rows += [_row(skill) for skill in answer]
        elif arguments.server or not isinstance(answer, MCPMagicError):
            raise answer
        else:
            problems.append(str(answer))
    nothing = "no connected server lists skills" if connections else "no server is connected"
    return Listing(rows, title="Skills", empty=nothing, note="\n".join(problems), kind="skills")


def _row(skill: Skill) -> dict[str, Any]:
    return {
        "skill": f"{skill.server}:{skill.name}",
        "description": (skill.description.strip().splitlines() or [""])[0],
        "files": len(skill.files) or None,
        "bytes": sum(file.size for file in skill.files) or None,
        "uri": skill.uri,
        **({"problem": skill.problem} if skill.problem else {}),
    }


async def _load(skills: Skills, wanted: str) -> ResourceResult:
    if "://" in wanted:
        return (await skills.load(wanted)).result
    entries = await skills.list()
    found = [skill for skill in entries if skill.name == wanted]
    if not found:
        names = [skill.name for skill in entries]
        message = f"no skill {wanted!r} is listed.{did_you_mean(wanted, names)} There are: {listed(names)}"
        raise UnknownResourceError(message)
    if len(found) > 1:
        message = f"{len(found)} skills are named {wanted!r}; say which: {listed(skill.uri for skill in found)}"
        raise CommandError(message)
    return (await skills.load(found[0])).result


SKILLS = Implementation(
    run,
    options,
    examples=("%mcp skills", "%mcp skills acme", "%mcp skills acme --load refunds"),
    details="A skill is instructions for models, with files. Nothing of it is fetched before it is loaded, and nothing "
    "is shown that is not what the server had announced. No model is given any of it by that.",
)
