"""A page for each subcommand, from its parser and its row in `COMMANDS`."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from mcp_magic.ipython.commandline import GROUPS, Command, Parser
from mcp_magic.ipython.commands import AGENT, COMMANDS, EVALUATION, SERVER, SERVERS

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["names", "pages"]

_SPECIAL = re.compile(r"([\\*_<>\[\]|])")
_GUIDES = 3


def all_commands() -> list[Command]:
    """Return everything that has a page, in the order of the help."""
    found = [SERVERS, *COMMANDS.values(), AGENT, EVALUATION, SERVER]
    return sorted(dict.fromkeys(found), key=lambda command: GROUPS.index(command.group))


def names() -> list[str]:
    """Return the names of the pages on the site."""
    return ["commands/index.md", *(_name(command) for command in all_commands())]


def pages(root: Path) -> dict[str, str]:
    """Return name on the site -> Markdown."""
    guides = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "docs").glob("*.md"))}
    made = {_name(command): _page(command, guides) for command in all_commands()}
    return {"commands/index.md": _index(), **made}


def _name(command: Command) -> str:
    return f"commands/{_slug(command)}.md"


def _slug(command: Command) -> str:
    return command.name.strip("%") or "servers"


def typed(command: Command) -> str:
    """Return what is typed, without arguments."""
    return "%mcp" if command is SERVERS else command.typed


def _index() -> str:
    lines = ["# Commands", "", "`%mcp SUBCOMMAND --help` shows the same in the notebook.", ""]
    for group in GROUPS:
        lines += [f"## {group}", "", "| line | does |", "|---|---|"]
        for command in all_commands():
            if command.group == group:
                lines.append(f"| [`{typed(command)}`]({_slug(command)}.md) | {plain(command.summary)} |")
        lines.append("")
    return "\n".join(lines)


def _page(command: Command, guides: dict[str, str]) -> str:
    parser, does = command.parser, command.implementation
    parts = [f"# `{typed(command)}`", f"{plain(command.summary[:1].upper() + command.summary[1:])}.", _usage(command)]
    for text in filter(None, does.details.split("\n\n")):
        parts.append(_fenced(text) if text.startswith("  ") else plain(text))
    parts += [_arguments(parser)]
    if does.examples:
        parts += ["## Examples", _fenced("\n".join(does.examples))]
    found = _guides(command, guides)
    if found:
        parts += ["## More", "\n".join(f"- [{_title(guides[name])}](../{name})" for name in found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _usage(command: Command) -> str:
    parser = Parser(typed(command), command.implementation.arguments)
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=100)
    lines = [parser.format_usage().removeprefix("usage: ").rstrip()]
    if command.implementation.takes_command:
        lines[0] += " [-- COMMAND ARG...]"
    if command.implementation.takes_body and not command.title:
        lines.append(f"%{typed(command)} ...\nthe cell below")
    return _fenced("\n\n".join(lines))


def _arguments(parser: Parser) -> str:
    formatter = argparse.HelpFormatter(parser.prog)
    rows = []
    for action in parser.arguments:
        if action.help == argparse.SUPPRESS:
            continue
        shown = ", ".join(f"`{name}`" for name in _spellings(action))
        choices = action.choices if action.metavar is not None else None
        said = formatter._expand_help(action) if action.help else ""
        given = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
        rows.append(f"| {shown} | {plain(said)}{given} |")
    return "\n".join(["## Arguments", "", "| argument | |", "|---|---|", *rows]) if rows else ""


def _spellings(action: argparse.Action) -> list[str]:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.metavar is None and action.choices:
        metavar = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return [f"{metavar} ..." if action.nargs in ("*", "+") else metavar]
    if action.nargs == 0:
        return list(action.option_strings)
    value = f"[{metavar}]" if action.nargs == "?" else metavar
    return [f"{name} {value}" for name in action.option_strings]


def _guides(command: Command, guides: dict[str, str]) -> list[str]:
    """Return the pages that say most of a command."""
    pattern = re.compile(rf"{re.escape(command.typed)}(?![\w-])" if command is not SERVERS else r"`%mcp`")
    counts = {name: len(pattern.findall(text)) for name, text in guides.items() if name != "architecture.md"}
    found = [name for name in sorted(counts, key=lambda name: (-counts[name], name)) if counts[name]]
    return found[:_GUIDES]


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ").strip()


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def plain(text: str) -> str:
    """Return a text of the help as Markdown: what stands in backticks is code, nothing else means anything."""
    pieces = text.split("`")
    return "`".join(piece if position % 2 else _SPECIAL.sub(r"\\\1", piece) for position, piece in enumerate(pieces))
