"""Subcommands: what one is, how its line is parsed, how its help reads."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mcp_magic.config.masking import mask_arguments
from mcp_magic.errors import ArgumentsError, CommandError, UnknownServerError, did_you_mean
from mcp_magic.results.plain import terminal_width
from mcp_magic.results.text import Text
from mcp_magic.schema.items import REFERENCE, unescape_word
from mcp_magic.schema.lines import as_command
from mcp_magic.wording import listed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from IPython.core.interactiveshell import InteractiveShell
    from mcp_types import Tool

    from mcp_magic.core.connection import Connection
    from mcp_magic.magics.cells import Cells
    from mcp_magic.magics.settings import Settings
    from mcp_magic.notebook import NotebookHost
    from mcp_magic.serving.loopback import Serving

__all__ = [
    "GROUPS",
    "Command",
    "Implementation",
    "Invocation",
    "Parser",
    "State",
    "Word",
    "help_for_all",
    "help_for_one",
    "parse",
]

_PROGRAMS = ("npx", "uvx", "docker")
"""What begins the command of a server, also where it is not installed."""

_INLINE = re.compile(r"\\[${]|\$([^\W\d]\w*)|\{([^{}]+)\}")

COMMANDS_PACKAGE = "mcp_magic.magics.commands"

GROUPS = ("Connect", "Explore", "Call", "Consent", "Debug", "Share")
"""The order in which help shows the subcommands."""

TYPED = {
    "%mcp [SUBCOMMAND ...]": "without one: the connected servers",
    "%%mcp_agent": "lets a model work on the request below, with the tools of the sessions",
    "%%mcp_server NAME": "makes the functions below the tools of a server in this kernel",
}
"""The magics; those with `%%` stand above the rest of their cell."""


@dataclass
class State:
    """What earlier lines of `%mcp` made, for the lines after them.

    Attributes:
        agents: The agents that `%mcp up` declared, by name.
        opened: For each session from a config file, its name -> that file and the server's identity.
        served: The servers that other programs can use, by name.
    """

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    opened: dict[str, tuple[str, str]] = field(default_factory=dict)
    served: dict[str, Serving] = field(default_factory=dict)


@dataclass(frozen=True)
class Invocation:
    """One `%mcp` line (or `%%mcp` cell) and where it stands.

    Attributes:
        host: The kernel's host.
        settings: The settings of the extension.
        shell: The shell that the line was typed in.
        cells: The cells of that shell.
        state: What earlier lines made.
        body: The cell below a `%%mcp` line, or None.
        command: What followed ` -- `.
        evaluate: Evaluates a Python expression in the caller's scope; raises what the expression raises.
        lookup: Returns a variable of the caller's scope, or None.
        directory: Where relative paths start.
        variables: Returns the names of the variables that hold a server.
    """

    host: NotebookHost
    settings: Settings
    shell: InteractiveShell
    cells: Cells
    state: State
    body: str | None = None
    command: Sequence[str] = ()
    evaluate: Callable[[str], Any] = lambda source: None
    lookup: Callable[[str], Any] = lambda name: None
    directory: Path = field(default_factory=Path.cwd)
    variables: Callable[[], Iterable[str]] = tuple

    def connection(self, name: str | None) -> Connection:
        """Return the connection of that name; without one the only connection there is.

        Raises:
            UnknownServerError: None has that name, or there is none at all.
            ArgumentsError: No name is given, and there are several.
        """
        found = self.host.connections
        if name is None and len(found) == 1:
            return next(iter(found.values()))
        if name is not None:
            return self.host[name]
        if not found:
            raise UnknownServerError("no server is connected; `%mcp connect TARGET` opens one")
        raise ArgumentsError(f"which server? Connected: {listed(found)}")

    async def tool(self, name: str, words: Sequence[str]) -> tuple[Connection, Tool]:
        """Find the tool that a line is about; see `Host.resolve`.

        Args:
            name: `"server:tool"`, or a tool's name alone.
            words: What follows on the line.

        Raises:
            ArgumentsError: The name is a server's and the first word the tool's, or nearly.
        """
        tools = await self.host[name].listing("tools") if name in self.host and words else ()
        meant = words[0] if any(tool.name == words[0] for tool in tools) else ""
        if meant:
            raise ArgumentsError(f"a tool is SERVER:TOOL, in one word; did you mean {name}:{meant}?")
        found: tuple[Connection, Tool] = await self.host.resolve(name)
        return found

    def value(self, word: str) -> Any:
        """Return the object that `$name` or `{expression}` stands for, or the word; a backslash keeps one as it is."""
        found = REFERENCE.fullmatch(word)
        return self._evaluated(found[1] or found[2]) if found else unescape_word(word)

    def text(self, word: str) -> str:
        """Return a text with every `$name` and `{expression}` in it replaced; a backslash keeps one as it is."""
        return _INLINE.sub(lambda m: m[0][1:] if m[0][0] == "\\" else str(self._evaluated(m[1] or m[2])), word)

    def _evaluated(self, source: str) -> Any:
        problem = ""
        try:
            return self.evaluate(source)
        except Exception as error:
            problem = f"cannot evaluate {source[:60]!r}: {type(error).__name__}: {error}"
        raise ArgumentsError(problem)


class Word(argparse.Action):
    """An argument that is kept as it is typed.

    Args:
        completer: What Tab offers for it, a name in `COMPLETERS` (`magics/candidates.py`), where its metavar is none.
    """

    def __init__(self, *names: Any, completer: str = "", **options: Any) -> None:
        super().__init__(*names, **options)
        self.completer = completer

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep its value."""
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are ours, in one line."""

    def __init__(self, typed: str) -> None:
        super().__init__(prog=typed, add_help=False, allow_abbrev=False, argument_default=None)
        self.register("action", None, Word)  # what argparse takes where no `action` is given

    @property
    def arguments(self) -> tuple[argparse.Action, ...]:
        """What was added, in its order."""
        return tuple(self._actions)

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The arguments that have a name, by name."""
        return {option: action for action in self.arguments for option in action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Refuse the line."""
        raise CommandError(f"{self.prog}: {message}. {_see_help(self.prog)}")


@dataclass(frozen=True)
class Implementation:
    """What a subcommand does and takes.

    Attributes:
        run: Does it and returns the value that the cell shows.
        options: Adds the arguments to a parser.
        examples: Lines that work, shown by the help.
        details: More for the subcommand's own help.
        takes_body: Whether `%%mcp NAME` with a cell below is meant.
        takes_command: Whether ` -- COMMAND ARG...` may follow.
        left_over: Where words belong that the line has too many.
    """

    run: Callable[[Invocation, argparse.Namespace], Awaitable[Any]]
    options: Callable[[Parser], None] = lambda parser: None
    examples: tuple[str, ...] = ()
    details: str = ""
    takes_body: bool = False
    takes_command: bool = False
    left_over: str = ""


@dataclass(frozen=True)
class Command:
    """A subcommand of `%mcp`, as far as it is known before it is imported.

    Attributes:
        name: What is typed.
        module: The module in `commands` that has its `Implementation`, under the name in capitals.
        group: One of `GROUPS`.
        summary: One line for the list of subcommands, without a full stop.
        everyday: Whether the first screen of the help explains it; the others it names.
        title: What is typed before the arguments, if that is not `%mcp NAME`.
    """

    name: str
    module: str
    group: str
    summary: str
    everyday: bool = False
    title: str = ""

    @property
    def typed(self) -> str:
        """What is typed before the arguments."""
        return self.title or f"%mcp {self.name}"

    @cached_property
    def implementation(self) -> Implementation:
        """What it does; imports its module."""
        found: Implementation = getattr(import_module(f".{self.module}", COMMANDS_PACKAGE), self.name.upper())
        return found

    def parser(self) -> Parser:
        """Return the parser of what follows the subcommand's name."""
        parser = Parser(self.typed)
        self.implementation.options(parser)
        return parser


class _Formatter(argparse.HelpFormatter):
    """A formatter whose usage begins with what is typed, and goes on below that."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, prefix="")


def _see_help(typed: str) -> str:
    return f"`{typed.replace('%%', '%')} --help` shows what it takes."  # with `%%`, IPython wants a cell below


def parse(command: Command, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the words behind a subcommand.

    Returns:
        The arguments, and the command line that followed ` -- `.

    Raises:
        CommandError: They cannot be read.
    """
    words, line = list(words), []
    does = command.implementation
    if does.takes_command and "--" in words:
        position = words.index("--")
        words, line = words[:position], words[position + 1 :]
        if not line:
            example = "for example: -- python server.py"
            raise CommandError(f"{command.typed}: after `--` the command is missing, {example}")
    parser = command.parser()
    arguments, left = parser.parse_known_intermixed_args(words)
    if left:
        taken = getattr(arguments, "target", []) if does.takes_command and not line else []
        raise CommandError(f"{command.typed}: {_left_over(command, parser, left, taken)}")
    return arguments, line


def _left_over(command: Command, parser: Parser, left: list[str], taken: list[str]) -> str:
    """Say what is not understood, and what may be meant: another option, or a command, which begins with `taken`."""
    near = next((did_you_mean(word, parser.options) for word in left if word.startswith("-")), "")
    left_over = command.implementation.left_over
    says = f"unrecognized arguments: {' '.join(mask_arguments(tuple(left)))}."
    if taken and (taken[0] in _PROGRAMS or shutil.which(taken[0])) and (len(taken) > 1 or not near):
        line = as_command(mask_arguments((*taken, *left)))
        return f"{says} A command goes after `--`: {command.typed} -- {line}"
    return f"{says}{near or (left_over and f' {left_over}')} {_see_help(command.typed)}"


def help_for_all(commands: Iterable[Command], *, everyday: bool = False) -> Text:
    """Return the list of subcommands, by group.

    Args:
        commands: All of them.
        everyday: Whether only those of every day have a line of their own; the others are named.
    """
    lines = [*(f"{typed:<23} {says}" for typed, says in TYPED.items()), ""]
    for group in GROUPS:
        members = [command for command in commands if command.group == group]
        shown = [command for command in members if command.everyday or not everyday]
        if members:
            lines.append(group)
            lines += [f"  %mcp {command.name:<12} {command.summary}" for command in shown]
            others = ", ".join(command.name for command in members if command not in shown)
            lines += [f"  and {others}"] if others else []
    lines.append("")
    lines.append("%mcp SUBCOMMAND --help shows arguments and examples. Settings: %config MCPMagics")
    lines += ["%mcp --help all lists every subcommand"] if everyday else []
    return Text("\n".join(lines))


def help_for_one(command: Command) -> Text:
    """Return the help of one subcommand: usage, what it does, its arguments, examples."""
    parser, does = command.parser(), command.implementation
    width = min(terminal_width(), 100)
    parser.formatter_class = lambda prog: _Formatter(prog, max_help_position=28, width=width)
    head, _, arguments = parser.format_help().strip().partition("\n\n")
    if does.takes_command:
        head += " [-- COMMAND ARG...]"
    if does.takes_body and not command.title:
        head += f"\n%%mcp {command.name} ...   with a cell below"
    parts = [head, f"{command.summary}."]
    parts += [textwrap.fill(text, width) for text in does.details.split("\n\n") if text]
    parts += [arguments] if arguments else []
    if does.examples:
        parts.append("examples:\n" + "\n".join(f"  {example}" for example in does.examples))
    return Text("\n\n".join(parts))
