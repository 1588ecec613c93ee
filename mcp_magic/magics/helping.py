"""What help is about, and what was meant by a word that is no subcommand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.errors import CommandError, did_you_mean
from mcp_magic.magics.commands import AGENT, COMMANDS, SERVER
from mcp_magic.magics.parsing import help_for_all, help_for_one
from mcp_magic.schema.lines import as_command

if TYPE_CHECKING:
    from mcp_magic.results.text import Text

__all__ = ["help_on", "no_subcommand"]

MEANT = {
    **dict.fromkeys(("add", "open", "start"), "'connect'"),
    **dict.fromkeys(("close", "remove", "rm", "stop"), "'disconnect'"),
    **dict.fromkeys(("describe", "info", "show"), "'tool'"),
    **dict.fromkeys(("exec", "run"), "'call'"),
    **dict.fromkeys(("list", "ls"), "'tools', 'resources' or 'prompts', or `%mcp` alone for the servers"),
    **dict.fromkeys(("servers", "status"), "`%mcp` alone"),
    "inspect": "'ui'",
    "lint": "'doctor', which looks over the definitions, too",
    "restart": "'reconnect'",
    "threads": "`%mcp agent --threads`",
}
"""Words that people bring along from other programs, and what is meant here."""


def help_on(words: list[str]) -> Text:
    """Return the help of what the words name: a subcommand or a magic, `all`, or nothing for that of every day.

    Raises:
        CommandError: They name no subcommand.
    """
    names = [name for word in words if (name := word.lstrip("%")) != "mcp"]
    if not names or names == ["all"]:
        return help_for_all(COMMANDS.values(), everyday=not names)
    command = {**COMMANDS, AGENT.name: AGENT, SERVER.name: SERVER}.get(names[0])
    if command is None:
        raise no_subcommand(names[0])
    return help_for_one(command)


def no_subcommand(name: str) -> CommandError:
    """Return the error that says so, and what may be meant."""
    if "://" in name:
        near = f" Did you mean `%mcp connect {as_command([name])}`?"
    elif ":" in name:
        near = f" Did you mean `%mcp call {name} ...`?"
    else:
        near = f" Did you mean {MEANT[name]}?" if name in MEANT else did_you_mean(name, COMMANDS)
    return CommandError(f"%mcp has no subcommand {name!r}.{near} `%mcp --help` lists them.")
