"""`%mcp` lines: how they are split into words, parsed and explained by help."""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import textwrap
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from mcp_magic._text import did_you_mean, is_identifier, join_names
from mcp_magic.config.masking import mask_arguments
from mcp_magic.config.parsing import command_words, working_directory, working_path
from mcp_magic.display.document import terminal_width
from mcp_magic.display.listing import Text
from mcp_magic.errors import ArgumentsError, CommandError, ConfigError, UnknownServerError
from mcp_magic.schema.commandline import REFERENCE, as_command, parse_arguments, unescape_word

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from mcp_types import Tool

    from mcp_magic.apps.page import AppPage
    from mcp_magic.ipython.cells import Cells
    from mcp_magic.ipython.settings import Settings
    from mcp_magic.notebook import NotebookHost
    from mcp_magic.server.http import Serving
    from mcp_magic.session.connection import Connection

    Completer = Callable[["Tab"], list[str] | dict[str, str]]


# Subcommands: their definition, parser and help.

_PROGRAMS = ("npx", "uvx", "docker")  # begin a server's command, even where they are not installed
_INLINE = re.compile(r"\\(?:\$\{env:[^{}]*\}|[${])|\$\{env:([^{}]*)\}|\$([^\W\d]\w*)|\{([^{}]+)\}")
ENVIRONMENT_REFERENCE = re.compile(r"\$\{env:[^{}]*\}")

COMMANDS_PACKAGE = "mcp_magic.ipython.commands"
GROUPS = ("Connect", "Explore", "Call", "Consent", "Debug", "Share")  # of subcommands, in the order of the help

TYPED = {
    "%mcp [SUBCOMMAND ...]": "without a subcommand: lists the connected servers",
    "%%mcp_agent": "lets a model work on the request below, with the tools of the sessions",
    "%%mcp_eval": "measures whether models use the tools rightly, by the cases below",
    "%%mcp_server NAME": "makes the functions below the tools of a server in this kernel",
}
"""The magics. A `%%` magic takes the rest of its cell."""


@dataclass
class State:
    """Objects that earlier `%mcp` lines made for later ones."""

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    opened: dict[str, tuple[str, str]] = field(default_factory=dict)
    served: dict[str, Serving] = field(default_factory=dict)
    pages: list[AppPage] = field(default_factory=list)


@dataclass(frozen=True)
class Invocation:
    """One `%mcp` line (or `%%mcp` cell) and its surroundings."""

    settings: Settings
    shell: InteractiveShell
    cells: Cells
    state: State
    body: str | None = None  # the cell below a `%%mcp` line
    command: Sequence[str] = ()  # the words after ` -- `
    variables: Mapping[str, Any] = field(default_factory=dict)  # of the caller's scope

    @property
    def directory(self) -> Path:
        """The base of relative paths. Raises ConfigError if it was deleted."""
        return working_directory()

    @property
    def host(self) -> NotebookHost:
        """The kernel's host; created if it does not exist."""
        from mcp_magic.notebook import host

        return host

    def connection(self, name: str | None) -> Connection:
        """Return the connection of that name; without a name, the only connection."""
        connections = self.host.connections
        if name is None and len(connections) == 1:
            return next(iter(connections.values()))
        if name is not None:
            return self.host[name]
        if not connections:
            raise UnknownServerError("no server is connected; `%mcp connect TARGET` opens one")
        raise ArgumentsError(f"which server? Connected: {join_names(connections)}")

    async def tool(self, name: str, words: Sequence[str]) -> tuple[Connection, Tool]:
        """Find the tool that a line names, as `Host.resolve` does; `words` are what follows on the line."""
        if words and name in self.host:
            for tool in await self.host[name].listing("tools"):
                if tool.name == words[0]:
                    raise ArgumentsError(f"a tool is SERVER:TOOL, in one word; did you mean {name}:{tool.name}?")
        match: tuple[Connection, Tool] = await self.host.resolve(name)
        return match

    def value(self, word: str) -> Any:
        """Return the object for `$name` or `{expression}`, or else the word; a backslash keeps either as text.

        `${env:NAME}` is a variable of the environment.
        """
        if ENVIRONMENT_REFERENCE.fullmatch(word):
            return self.text(word)
        match = REFERENCE.fullmatch(word)
        return self._evaluated(match[1] or match[2]) if match else unescape_word(word)

    def text(self, word: str) -> str:
        """Return a text with each `$name`, `{expression}` and `${env:NAME}` replaced; a backslash keeps any as text."""

        def replacement(match: re.Match[str]) -> str:
            variable, *sources = match.groups()
            if variable is not None:
                return _of_environment(variable)
            return match[0][1:] if match[0][0] == "\\" else str(self._evaluated(sources[0] or sources[1]))

        return _INLINE.sub(replacement, word)

    def evaluate(self, source: str) -> Any:
        """Return the value of a Python expression in the caller's scope; raises what the expression raises.

        The NameError of a name that does not exist names the nearest variable.
        """
        try:
            return eval(source, dict(self.variables))
        except NameError as error:
            sign = "$" if error.name == source else ""
            names = [f"{sign}{name}" for name in self.variables if not name.startswith("_")]
            if error.name not in self.variables and (near := did_you_mean(f"{sign}{error.name}", names)):
                raise NameError(f"{error}.{near}", name=error.name) from None
            raise

    def _evaluated(self, source: str) -> Any:
        try:
            return self.evaluate(source)
        except Exception as error:
            raise ArgumentsError(f"cannot evaluate {source[:60]!r}: {type(error).__name__}: {error}") from None

    def arguments(
        self,
        words: Sequence[str],
        schema: Mapping[str, Any],
        *,
        cell: str | None = None,
        notes: list[str] | None = None,
    ) -> dict[str, Any]:
        """Return the arguments in `name=value` words, by a JSON Schema; `cell` is the value of `@cell`.

        `notes` gets a line for each text that could also be read in another way.
        """
        return parse_arguments(words, schema, evaluate=self.evaluate, cell=cell, notes=notes)

    def show(self, value: Any) -> None:
        """Show what a failed check is about, in a notebook: an error has no table. A program prints it itself."""
        if self.cells.kernel is not None:
            from IPython.display import display

            display(value)  # type: ignore[no-untyped-call]

    def path(self, word: str) -> Path:
        """Return a typed path; a relative one is below the directory of the line."""
        return working_path(word)

    def near(self, path: Path) -> str:
        """Return a path for display, without the kernel's folder if it is inside."""
        folder = self.directory
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def new_file(self, word: str | None) -> Path | None:
        """Return the path of a file that is to be written at the end, or None; ConfigError where it has no place."""
        if word is None:
            return None
        path = self.path(self.text(word))
        if path.is_dir() or not path.parent.is_dir():
            why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise ConfigError(f"{path} cannot be written: {why}; nothing was sent")
        return path


def _of_environment(reference: str) -> str:
    """Return the value of a variable of the environment: `NAME`, or `NAME:-default` as in a configuration."""
    name, colon, default = reference.partition(":-")
    value = os.environ.get(name)
    if value is None and not colon:
        raise ArgumentsError(f"the environment has no variable {name}.{did_you_mean(name, os.environ)}")
    return value or default


@dataclass(frozen=True)
class Tab:
    """The position where Tab was pressed."""

    fragment: str  # the typed part of the word
    positional: Sequence[str] = ()  # the words before it, without options and their values
    namespace: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings | None = None
    agents: Iterable[str] = ()


class Argument:
    """An argument of a subcommand: what `argparse.ArgumentParser.add_argument` takes, and what completes it.

    Without `complete`, the metavar selects one in `COMPLETERS` (`ipython/completion.py`). Choices need neither.
    """

    def __init__(self, *names: str, complete: Completer | None = None, **options: Any) -> None:
        self.names = names
        self.complete = complete
        if options.get("nargs") == "*":
            options.setdefault("default", [])  # else argparse calls it required
        self.options = options


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are `CommandError`s of one line."""

    def __init__(self, typed: str, arguments: Iterable[Argument | tuple[Argument, ...]]) -> None:
        super().__init__(prog=typed, add_help=False, allow_abbrev=False)
        self.completers: dict[str, Completer] = {}
        for item in arguments:
            group = self.add_mutually_exclusive_group() if isinstance(item, tuple) else self
            for argument in item if isinstance(item, tuple) else (item,):
                action = group.add_argument(*argument.names, **argument.options)
                if argument.complete is not None:
                    self.completers[action.dest] = argument.complete

    @property
    def arguments(self) -> tuple[argparse.Action, ...]:
        """The arguments, in the order in which they were added."""
        return tuple(self._actions)

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The options, by each of their names."""
        return {option: action for action in self.arguments for option in action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Refuse the line."""
        for kind, expected in (("int", "a whole number"), ("float", "a number")):
            message = message.replace(f"invalid {kind} value: ", f"expected {expected}, got ")
        raise CommandError(f"{self.prog}: {message}. {_see_help(self.prog)}")


@dataclass(frozen=True)
class Implementation:
    """A subcommand's behaviour and arguments."""

    run: Callable[[Invocation, argparse.Namespace], Awaitable[Any]]  # returns the value that the cell shows
    arguments: tuple[Argument | tuple[Argument, ...], ...] = ()  # of those in an inner tuple, one may be given
    examples: tuple[str, ...] = ()
    details: str = ""
    takes_body: bool = False  # whether `%%mcp NAME` with a cell below is allowed
    takes_command: bool = False  # whether ` -- COMMAND ARG...` may follow
    before_host: bool = False  # whether it begins before the kernel's host is created, which imports much
    left_over: str = ""  # where surplus words belong, for the error


@dataclass(frozen=True)
class Command:
    """A subcommand of `%mcp`, as known before its module is imported."""

    name: str
    module: str  # in `commands`; it has the `Implementation`, under the name in capitals
    group: str  # one of `GROUPS`
    summary: str  # one line, without a full stop
    everyday: bool = False  # whether the first screen of the help explains it; the others are only named there
    title: str = ""  # the words before the arguments, if not `%mcp NAME`

    @property
    def typed(self) -> str:
        """The words before the arguments."""
        return self.title or f"%mcp {self.name}"

    @property
    def implementation(self) -> Implementation:
        """Its implementation; imports its module."""
        implementation: Implementation = getattr(import_module(f".{self.module}", COMMANDS_PACKAGE), self.name.upper())
        return implementation

    @property
    def parser(self) -> Parser:
        """A parser of its arguments."""
        return Parser(self.typed, self.implementation.arguments)


class _Formatter(argparse.HelpFormatter):
    """A formatter whose usage starts with the subcommand instead of "usage:"."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, prefix="")


def _see_help(typed: str) -> str:
    return f"`{typed.replace('%%', '%')} --help` shows what it takes."  # with `%%`, IPython expects a cell below


def parse(command: Command, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the words after a subcommand. Raises CommandError if the words do not fit the arguments."""
    words, line = list(words), []
    does = command.implementation
    if does.takes_command and "--" in words:
        position = words.index("--")
        words, line = words[:position], words[position + 1 :]
        if not line:
            example = "for example: -- python server.py"
            raise CommandError(f"{command.typed}: after `--` the command is missing, {example}")
    arguments, surplus = command.parser.parse_known_intermixed_args(words)
    if surplus:
        targets = getattr(arguments, "target", []) if does.takes_command and not line else []
        raise CommandError(f"{command.typed}: {_left_over(command, surplus, targets)}")
    return arguments, line


_AS_DATA = "`x.df` or `list(x)` of a listing, `x.data` of a result; `%mcp raw SERVER tools/list` returns JSON."


def _left_over(command: Command, surplus: list[str], targets: list[str]) -> str:
    """Name the words that do not fit, and suggest an option, or a command line that begins with `targets`."""
    if "--json" in surplus:
        return f"there is no --json. The value of a line is an object: `x = {command.typed} ...` and then {_AS_DATA}"
    near = next((did_you_mean(word, command.parser.options) for word in surplus if word.startswith("-")), "")
    left_over = command.implementation.left_over
    says = f"unrecognized arguments: {' '.join(mask_arguments(tuple(surplus)))}."
    command_line = command_words((*targets, *surplus))
    if targets and (command_line[0] in _PROGRAMS or shutil.which(command_line[0])) and (len(targets) > 1 or not near):
        line = as_command(mask_arguments(command_line))
        return f"{says} A command goes after `--`: {command.typed} -- {line}"
    return f"{says}{near or (left_over and f' {left_over}')} {_see_help(command.typed)}"


def help_for_all(commands: Iterable[Command], *, everyday: bool = False) -> Text:
    """Return the list of subcommands, by group; with `everyday`, others than those are only named."""
    lines = [*(f"{typed:<23} {says}" for typed, says in TYPED.items()), ""]
    for group in GROUPS:
        members = [command for command in commands if command.group == group]
        explained = [command for command in members if command.everyday or not everyday]
        if members:
            lines.append(group)
            lines += [f"  %mcp {command.name:<12} {command.summary}" for command in explained]
            others = ", ".join(command.name for command in members if command not in explained)
            lines += [f"  and {others}"] if others else []
    lines.append("")
    lines.append("%mcp SUBCOMMAND --help shows arguments and examples. Settings: %config MCPMagics")
    lines += ["%mcp --help all lists every subcommand"] if everyday else []
    return Text("\n".join(lines))


def help_for_one(command: Command) -> Text:
    """Return the help of one subcommand: usage, summary, arguments, examples."""
    does = command.implementation
    parser = Parser(command.typed, does.arguments)
    width = min(terminal_width(), 100)
    parser.formatter_class = lambda prog: _Formatter(prog, max_help_position=28, width=width)
    head, _, arguments = parser.format_help().strip().partition("\n\n")
    if does.takes_command:
        head += " [-- COMMAND ARG...]"
    if does.takes_body and not command.title:
        head += f"\n%%mcp {command.name} ...   with a cell below"
    parts = [head, f"{command.summary}."]
    for text in filter(None, does.details.split("\n\n")):
        parts.append("\n".join(textwrap.fill(line, width) for line in text.split("\n")))
    parts += [arguments] if arguments else []
    if does.examples:
        parts.append("examples:\n" + "\n".join(f"  {example}" for example in does.examples))
    return Text("\n\n".join(parts))


# `--timeout` and `--max-total-timeout`: how long a subcommand waits for an answer.


def timeouts(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return both options by their names; the setting replaces a missing `--timeout`."""
    timeout = arguments.timeout if arguments.timeout is not None else invocation.settings.call_timeout
    return {"timeout": timeout, "max_total_timeout": arguments.max_total_timeout}


def option_text(name: str) -> str:
    """Return how the option with this attribute is written on a line.

    >>> option_text("max_cost")
    '--max-cost'
    """
    return f"--{name.replace('_', '-')}"


def variable_typed(word: str) -> str:
    """Read the name of a variable. Raises ArgumentTypeError for any other word.

    >>> variable_typed("scores")
    'scores'
    """
    if is_identifier(word):
        return word
    raise argparse.ArgumentTypeError(f"expected a variable's name, got {word[:40]!r}")


def seconds_typed(word: str) -> float:
    """Read a number of seconds. Raises ArgumentTypeError if the word is not a number above 0.

    >>> seconds_typed("1.5"), seconds_typed("1e3")
    (1.5, 1000.0)
    """
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds
    raise argparse.ArgumentTypeError(f"expected seconds above 0, for example 2.5, got {word[:40]!r}")


TIMEOUTS = (
    Argument("--timeout", type=seconds_typed, metavar="S", help="seconds to wait for the answer"),
    Argument(
        "--max-total-timeout", type=seconds_typed, metavar="S", help="seconds in total, even while it reports progress"
    ),
)
"""Both options."""


# Arguments of several subcommands.

ANY_SERVER = Argument("server", nargs="?", metavar="SERVER", help="one server instead of all")
ONE_SERVER = Argument("server", nargs="?", metavar="SERVER", help="a connected server (default: the only one)")
ONE_TOOL = Argument("tool", metavar="SERVER:TOOL", help="you can leave out the server while the name is unique")
