"""`python -m mcp_magic LINE...`: one line of `%mcp` without a notebook, for terminals, scripts and CI.

The shell is IPython's core without prompt, history and profile, which starts in 20 ms. Only the value of the line goes
to stdout. What is printed while it runs (questions, progress, log messages) and errors go to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from mcp_magic._text import clean, did_you_mean
from mcp_magic.config.masking import mask_arguments
from mcp_magic.config.parsing import slug, working_directory, working_path
from mcp_magic.config.project import find_declaration, load_declaration
from mcp_magic.config.servers import find_server
from mcp_magic.config.targets import is_path
from mcp_magic.display.document import Badge, Problem
from mcp_magic.display.listing import Listing, Text
from mcp_magic.errors import ArgumentsError, CommandError, ConfigError, NotFoundError, TargetError
from mcp_magic.ipython.commandline import help_for_all, help_for_one, parse
from mcp_magic.ipython.commands import COMMANDS, SERVERS
from mcp_magic.ipython.execution import interrupts, run_nested, until_interrupted
from mcp_magic.ipython.extension import load
from mcp_magic.results.results import CheckFailedError
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Iterable, Sequence

    from mcp_magic.config.project import Declaration
    from mcp_magic.ipython.commandline import Command
    from mcp_magic.ipython.extension import MCPMagics

PROGRAM = "python -m mcp_magic"

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130  # exit statuses

WRONG_LINES = (CommandError, ArgumentsError, ConfigError, TargetError, NotFoundError)
"""Errors of a line that cannot run as it is."""

ALONE = (
    *("agent", "allow", "approvals", "ask", "audit", "deny", "disconnect", "jobs", "last", "logout"),
    *("metrics", "record", "roots", "share", "trace"),
)
"""Subcommands that need no session if their line names no server. Others get all servers that the folder declares."""

LASTING = (
    *("allow", "approvals", "ask", "connect", "deny", "disconnect", "jobs", "last", "logs", "metrics", "reconnect"),
    *("record", "replay", "roots", "share", "trace", "ui", "up", "view"),
)
"""Subcommands about what ends with the program; messages that name their lines mean lines of a notebook."""

AGAIN = "--again"  # with it, `record` does something in one line

CONTENT = ("call", "docs", "last", "logs", "prompt", "raw", "read", "stubs", "trace")
"""Subcommands whose value is what a server wrote, or is for programs: no line in it is changed."""

USAGE = f"""\
{PROGRAM} [--json] [--connect TARGET]... SUBCOMMAND ...

Runs one line of %mcp without a notebook, and ends the sessions that it opened.

  {PROGRAM} doctor servers/math_server.py
  {PROGRAM} --connect servers/math_server.py call math:add a=1 b=2
  {PROGRAM} --json call math:add a=1 b=2     # math is declared in this folder
  {PROGRAM} --connect '-- npx -y @modelcontextprotocol/server-everything' tools
  {PROGRAM} --connect 'https://example.com/mcp --name web --header "Authorization: Bearer $TOKEN"' tools

--connect TARGET  connects a server for the line: what follows %mcp connect, in quotes. It can be repeated.
                  Without it, the line gets the servers that it names, or all that are declared if it names none:
                  in mcp_magic.toml, pyproject.toml or mcp.json of this folder, as for %mcp up.
--json            prints the value as JSON: the data of a result, or its content; the rows of a list or of a report

`{PROGRAM} proxy --help` is about the MCP server that is the running kernel of a folder.
$NAME stands for a variable of the environment. In single quotes, only the program sees its value.
The exit status is 0; 1 if a check fails, a tool reports an error, or a server does not work; 2 if the line is wrong;
130 after Ctrl-C. MCP_MAGIC_CALL_TIMEOUT=10 in the environment sets a setting.
"""


def main(words: Sequence[str]) -> int:
    """Run a line, print its value or its error, and return the exit status."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed: without it, print would write errors to stdout
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115 # until the end
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a server's text may have what no encoding has
    targets: list[str] = []
    try:
        line, targets, as_json = _read(words)
        status = _run(line, targets, as_json, sys.stdout)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads stdout any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        print(_typed_here(f"{type(error).__name__}: {clean(str(error))}", targets), file=sys.stderr)
        is_wrong = isinstance(error, WRONG_LINES) and not isinstance(error, AssertionError)
        return WRONG if is_wrong else FAILED
    return INTERRUPTED if interrupts.count else status


def _typed_here(text: str, targets: Sequence[str] = ()) -> str:
    """Return a text in the words of a terminal: its lines of `%mcp` as they are typed here, but for assignments.

    Lines that need the session of `targets` open it again, except those that need none or only show help.
    """
    unset = r"cannot evaluate '(\w+)': NameError: name '\1' is not defined"
    text = re.sub(unset, rf"the environment has no variable \1; `\1=VALUE {PROGRAM} ...` sets it", text)
    text = text.replace("until --stop or the end of the kernel", "until Ctrl-C")
    connecting = r"`%mcp connect (?!--help)([^`]+)`"
    text = re.sub(connecting, lambda line: f"`{PROGRAM} --connect {shlex.quote(line[1])} ...`", text)
    opening = " ".join([PROGRAM, *(f"--connect {shlex.quote(_shown(target))}" for target in targets)])
    alone = rf"(?:{'|'.join((*TAKE_TARGET, *WITHOUT_SESSION))})\b|--help|has no|[\w-]+(?::| --help)"
    lines = rf"(?<!= )%mcp (?!(?:{'|'.join(LASTING)})\b(?! --help|:))({alone})?"
    return re.sub(lines, lambda line: f"{PROGRAM if line[1] else opening} {line[1] or ''}", text)


def _shown(target: str) -> str:
    """Return a target for a message: "TARGET" in place of one that has a secret."""
    try:
        words = tuple(split_line(target))
    except CommandError:
        return "TARGET"
    return target if mask_arguments(words) == words else "TARGET"


def _help(command: Command) -> str:
    """Return the help of a subcommand, without the examples that are of use in a notebook only."""
    text, title, examples = help_for_one(command).text.partition("\nexamples:\n")
    lines = [line for line in examples.split("\n") if line.startswith("  %mcp ") and not re.search(r"[$`{\[]", line)]
    if command.name == "record":
        lines = [line for line in lines if AGAIN in line]
    lines = [line.replace("%mcp", PROGRAM) for line in lines]
    return "\n".join([_typed_here(text), *([title.strip("\n")] if lines else []), *lines])


def _read(words: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Return the words of the line, the targets of `--connect`, and whether there is `--json`, which may come last."""
    end = words.index("--") if "--" in words else len(words)
    line = [*(word for word in words[:end] if word != "--json"), *words[end:]]
    targets = []
    while line and line[0].partition("=")[0] == "--connect":
        _, equals, target = line.pop(0).partition("=")
        if not equals and not line:
            raise CommandError(f"{PROGRAM}: --connect takes a target: --connect servers/math_server.py")
        targets.append(target if equals else line.pop(0))
    if not line:
        raise CommandError(f"{PROGRAM}: no subcommand. `{PROGRAM} --help` lists them.")
    if line[0].startswith("-") and line[0] not in ("-h", "--help"):
        option = line[0].partition("=")[0]
        raise CommandError(f"{PROGRAM} takes --json and --connect before the subcommand, not {option}.")
    return line, targets, "--json" in words[:end]


def _run(line: list[str], targets: list[str], as_json: bool, out: TextIO) -> int:
    """Run a line in a shell of its own; return the exit status."""
    name, *words = line
    if name == "help" and words:
        name, *words = [*words, "--help"]
    if name in ("-h", "--help", "help"):
        every = help_for_all(COMMANDS.values()).text.removesuffix(" Settings: %config MCPMagics")
        _, _, subcommands = every.replace("  %mcp ", "  ").partition("\n\n")
        print(USAGE, _typed_here(subcommands), sep="\n", file=out)
        return DONE
    command = {**COMMANDS, SERVERS.name: SERVERS}.get(name)
    with redirect_stdout(sys.stderr):
        with TemporaryDirectory(prefix="mcp_magic") as folder:  # needed by its constructor only: we may be killed
            shell = _Shell.instance(config=Config(HistoryManager={"enabled": False}), ipython_dir=folder)
        shell.colors = "nocolor"
        magics = load(shell)
        if command is None:
            return run_nested(magics.run_words(None, line))  # type: ignore[no-any-return] # it raises
        command = replace(command, title=f"{PROGRAM} {name}")
        if {"-h", "--help"} & {*words[: words.index("--") if "--" in words else len(words)]}:
            print(_help(command), file=out)
            return DONE
        return run_nested(_Line(magics, command, words).run(targets, as_json, out))


class _Shell(InteractiveShell):
    """IPython's core, which does not look for packages elsewhere."""

    def init_virtualenv(self) -> None:
        """Stay in the environment of this Python."""


class _Line:
    """A line, split into words, and the magics that run it."""

    def __init__(self, magics: MCPMagics, command: Command, words: list[str]) -> None:
        self._magics = magics
        self._command = command
        self._words = words

    async def run(self, targets: Sequence[str], as_json: bool, out: TextIO) -> int:
        """Connect what the line needs, run it, print its value, and end the sessions; return the exit status."""
        try:
            if problems := await self._connect(targets):
                print(*problems, sep="\n", file=sys.stderr)
                return FAILED
            self._check_place()
            if self._command.name == "serve" and "--stdio" in self._words:
                await self._serve_stdio(out)
                return DONE
            try:
                value = await self._run(self._command, *self._words)
            except CheckFailedError as error:
                if error.result is not None and not hasattr(
                    error.result, "raw"
                ):  # a report, figures or changes, and no answer of a tool
                    print(self._text(error.result, targets, as_json), file=out, flush=True)
                raise
            text = self._text(value, targets, as_json)
            print(text, end="\n" if text else "", file=out, flush=True)
            if self._magics.state.served:
                with until_interrupted():
                    await asyncio.Event().wait()
            return DONE if _is_good(value) else FAILED
        finally:
            for serving in self._magics.state.served.values():
                await serving.stop()
            if "mcp_magic.notebook" in sys.modules:
                from mcp_magic.notebook import host

                await host.close()

    def _check_place(self) -> None:
        """Raise CommandError for a line that needs a notebook."""
        if self._command.name == "record" and AGAIN not in self._words:
            raise CommandError(
                f"{PROGRAM} record: it ends with its line. MCP_MAGIC_CASSETTE=FILE {PROGRAM} call SERVER:TOOL "
                "records one, with MCP_MAGIC_CASSETTE_MODE=auto also several lines."
            )
        if self._command.name == "share":
            raise CommandError(f"{PROGRAM} share: this program has no variables; in a notebook: `%mcp share NAME`")
        if self._command.name == "serve" and "--kernel" in self._words:
            raise CommandError(
                f"{PROGRAM} serve: --kernel is for a notebook, where the person is asked. `{PROGRAM} proxy` is the "
                "server that finds its kernel."
            )

    async def _serve_stdio(self, out: TextIO) -> None:
        """Be the mock whose command line `%mcp serve --cassette FILE --stdio` shows."""
        arguments, _ = parse(self._command, self._words)
        await self._run(self._command, *self._words)  # checks the line and the cassette
        from mcp_magic.server.mock import serve_stdio

        # it has nothing to close, and a thread that waits for stdin would keep the program
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        with redirect_stdout(out):
            await serve_stdio(working_path(arguments.cassette), arguments.server, pauses=arguments.pauses)

    async def _run(self, command: Command, *words: str) -> Any:
        return await self._magics.run_words(command, [*words], local_ns=dict(os.environ))

    def _text(self, value: Any, targets: Sequence[str], as_json: bool) -> str:
        """Return a value as JSON, or what a terminal shows of it: "" if it was shown while the line ran."""
        is_ours = self._command.name not in CONTENT
        if as_json:
            return _json(_typed_here(value.text, targets) if is_ours and isinstance(value, Text) else value)
        if value is None:
            return ""
        formats, _ = self._magics.shell.display_formatter.format(value, {"text/plain"})  # type: ignore[union-attr]
        text = str(formats.get("text/plain", ""))
        return _typed_here(text, targets) if is_ours else text

    async def _connect(self, targets: Sequence[str]) -> list[str]:
        """Connect the targets, or else the servers that the line names; return what went wrong with declared ones."""
        for target in targets:
            words = [target] if os.path.exists(target) else split_line(target)  # noqa: PTH110 # of any length
            if problems := _problems(await self._run(COMMANDS["connect"], *_with_file(words))):
                return problems
        takes_target = self._command.name in TAKE_TARGET and "--all" not in self._words
        if not targets and takes_target:
            self._words = _with_file(self._words)
        if targets or takes_target or self._command.name in CONNECT_NONE:
            return []
        return await self._connect_named()

    async def _connect_named(self) -> list[str]:
        arguments, _ = parse(self._command, self._words)
        declaration = _declaration()
        declared = {} if declaration is None else {slug(name): name for name in declaration.servers}
        names = self._names(arguments, declared)
        for name in names:
            if slug(name) not in declared:
                await self._run(COMMANDS["connect"], _configured(name, declared.values()))
        ours = [name for name in names if slug(name) in declared]
        if not ours and (names or self._command.name in ALONE):
            return []
        if declaration is None:
            raise CommandError(
                f"{self._command.title}: which server? `{PROGRAM} --connect TARGET {self._command.name} ...` connects "
                "one. This folder declares none: mcp_magic.toml, pyproject.toml and mcp.json do."
            )
        only = [word for name in ours for word in ("--only", name)]
        return _problems(await self._run(COMMANDS["up"], *only))

    def _names(self, arguments: Namespace, declared: Collection[str]) -> list[str]:
        """Return the servers that the line names: each SERVER and SERVER:TOOL, and other words that are declared.

        A line about the requests of a cassette means its servers.
        """
        if self._command.name == "verify" or getattr(arguments, "again", False):
            from mcp_magic.cassette.requests import Recording
            from mcp_magic.server.verification import live_names

            return [*live_names(Recording(working_path(arguments.file)), arguments.servers).values()]
        names: list[str] = []
        for action in self._command.parser.arguments:
            typed, metavar = getattr(arguments, action.dest), str(action.metavar)
            for word in map(str, typed if isinstance(typed, list) else [typed or ""]):
                name, colon, rest = word.partition(":")
                fits = metavar.startswith("SERVER") and bool(colon) == (":" in metavar) and not rest.startswith("//")
                if name and (fits or (not action.option_strings and slug(word) in declared)):
                    names.append(name)
        return [*dict.fromkeys(names)]


TAKE_TARGET = ("connect", "doctor")  # the subcommands that connect by themselves
CONNECT_NONE = ("add", "config", "export", "find", "remove", "secret", "serve", "up")
"""Subcommands that need no session of what they name; `up` opens it."""

WITHOUT_SESSION = ("add", "config", "find", "remove", "secret", "serve")
"""Subcommands that no session of --connect helps."""


def _declaration() -> Declaration | None:
    """Return what this folder declares, or None if it declares nothing."""
    try:
        path = find_declaration(working_directory())
    except ConfigError:
        return None
    return load_declaration(path)


def _with_file(words: list[str]) -> list[str]:
    """Return the words of `connect` or `doctor`, with the file of a name that only this folder's TOML declares."""
    if not words or words[0].startswith("-") or "--config" in words or is_path(words[0]) or "://" in words[0]:
        return words
    declaration = _declaration()
    if declaration is None or declaration.source.endswith(".json") or words[0] not in declaration.servers:
        return words
    return [words[0], "--config", declaration.source, *words[1:]]


def _configured(name: str, declared: Iterable[str]) -> str:
    """Return the name of a server that a config file has."""
    try:
        find_server(name)
    except ConfigError as error:
        near = did_you_mean(name, declared)
        raise ConfigError(
            f"{PROGRAM}: this folder declares no server {name!r}.{near} {error}\n"
            f"  `{PROGRAM} --connect 'TARGET --name {name}' ...` connects one."
        ) from None
    return name


def _problems(value: Any) -> list[str]:
    """Return what went wrong with the rows of a listing."""
    rows = value if isinstance(value, Listing) else ()
    return [row["problem"] for row in rows if isinstance(row.get("problem"), Problem)]


def _is_good(value: Any) -> bool:
    """Whether no check failed: a report's `ok`, and the rows of a listing."""
    return getattr(value, "ok", True) and not _problems(value)


# The value as JSON.


def _json(value: Any) -> str:
    try:
        return json.dumps(_data(value), indent=2, default=_plain, allow_nan=False)
    except ValueError:  # NaN and Infinity are no JSON; JavaScript writes null
        text = json.dumps(_data(value), default=_plain)
        return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2)


def _data(value: Any) -> Any:
    """Return what a value has for other programs: data or content, a definition, rows."""
    if isinstance(value, Listing):
        return [dict(row) for row in value]
    if hasattr(value, "raw"):  # a result, a resource, a prompt
        data = getattr(value, "data", None)
        return _dumped(value.raw) if data is None else data
    if hasattr(value, "tool"):  # a tool's card
        return _dumped(value.tool)
    if hasattr(value, "info"):  # a connection
        return value.info().row()
    frame = getattr(value, "df", value)  # a report, a map, or a table itself
    if hasattr(frame, "to_json"):
        return json.loads(frame.to_json(orient="records", date_format="iso", default_handler=str))
    return value


def _dumped(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _plain(value: Any) -> str:
    return value.text if isinstance(value, Badge) else str(value)
