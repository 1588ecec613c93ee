"""The magics `%mcp`, `%%mcp_agent` and `%%mcp_server`, and their help."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from traitlets import observe

from mcp_magic._text import did_you_mean
from mcp_magic.errors import CommandError, MCPMagicError
from mcp_magic.ipython.cells import Cells, CommStatus, PlainHistory
from mcp_magic.ipython.commandline import Invocation, State, help_for_all, help_for_one, parse, split_line
from mcp_magic.ipython.commands import AGENT, COMMANDS, SERVER
from mcp_magic.ipython.execution import MARK, interruptible, run_nested
from mcp_magic.ipython.settings import Settings
from mcp_magic.schema.commandline import as_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.display.listing import Text
    from mcp_magic.ipython.ask import Asking
    from mcp_magic.ipython.commandline import Command

__all__ = ["MCPMagics", "help_asked", "help_on", "no_subcommand"]


# The magics class; `loading` registers it in a shell.


@magics_class
class MCPMagics(Magics, Settings):
    """`%mcp`: this kernel as an MCP host. `%mcp --help` lists the subcommands."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, **kwargs: Any) -> None:
        super().__init__(shell, parent=shell, **kwargs)
        self.read_environment()
        self.cells = Cells(shell)
        self.state = State()
        self.comm_status = CommStatus(self.cells)
        self.history = PlainHistory(shell)
        self.asking: Asking | None = None

    def prepare(self) -> None:
        """Pass the settings to the kernel's host and let it ask the user, unless the user has set other callbacks."""
        from mcp_magic.ipython.ask import Asking
        from mcp_magic.ipython.progress import Reporting
        from mcp_magic.notebook import host

        self.pass_on()
        self.asking = Asking(self.cells, self, host)
        self.asking.install(lambda: self.model)
        if host.reports.reporter is None:
            host.reports.reporter = Reporting(self.asking, self.cells)

    @observe(
        *("display_rows", "display_characters", "approval", "approval_timeout", "max_questions", "audit_file"),
        *("trace_messages", "trace_bytes", "telemetry"),
        *("tokens", "login_timeout", "reconnect"),
        *("show_progress", "show_logs", "max_total_timeout"),
    )
    def _setting_changed(self, change: Any) -> None:
        if "mcp_magic.notebook" in sys.modules:
            self.pass_on()

    def follow_colours(self, change: Any = None) -> None:
        """Show errors in red if the shell has colours (`%colors`); also an observer of that setting."""
        MCPMagicError.coloured = str(self.shell.colors).lower() != "nocolor"

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Connect to MCP servers, look at what they offer, call their tools.

        %mcp                              the connected servers
        %mcp connect TARGET               opens a session
        %mcp tools                        the tools to call
        %mcp call SERVER:TOOL name=value  calls a tool; the result is a value
        %mcp --help                       all subcommands
        %mcp call --help                  one of them in full
        """
        return self._awaited(self._run, line, cell, local_ns)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp_agent(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Let a model work on the request below, with the tools of the open sessions.

        %%mcp_agent [AGENT] [--model PROVIDER:NAME | $model] [--servers a,b] [--tools 'a:*'] [--thread NAME]
        the request

        %mcp_agent --help   all options
        """
        return self._awaited(self._run_agent, line, cell, local_ns)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp_server(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Make the functions of the cell below the tools of a server in this kernel, and connect it.

        %%mcp_server NAME
        def price(item: str) -> float:
            "Tells the price of an item."
            return prices[item]

        %mcp_server --help   all options
        """
        return self._awaited(self._run_server, line, cell, local_ns)

    def _awaited(self, run: Callable[..., Any], line: str, *arguments: Any) -> Any:
        """Return an awaitable for a top-level line; elsewhere run in a nested loop and return the result."""
        if line.startswith(MARK):
            return interruptible(run(line.removeprefix(MARK), *arguments))
        return run_nested(run(line, *arguments))

    async def _run_agent(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        from mcp_magic.ipython.commands import AGENT

        return await self._run_cell(AGENT, line, cell, local_ns)

    async def _run_server(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        from mcp_magic.ipython.commands import SERVER

        __tracebackhide__ = True
        return await self._run_cell(SERVER, line, cell, local_ns)

    async def _run_cell(self, command: Command, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        __tracebackhide__ = True
        words = split_line(line.rstrip().removesuffix(";"))
        if any(word in ("--help", "-h") for word in words):
            return help_for_one(command)
        arguments, _ = parse(command, words)
        return await command.implementation.run(self._invocation(cell, [], local_ns or {}), arguments)

    async def _run(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        from mcp_magic.ipython.commands import COMMANDS, SERVERS

        # a `;` at the end silences the output, as everywhere in IPython; it is not part of the last value
        words = split_line(line.rstrip().removesuffix(";"))
        name = words.pop(0) if words else SERVERS.name
        if name in ("--help", "-h", "help"):
            return help_on(words)
        command = SERVERS if name == SERVERS.name else COMMANDS.get(name)
        if command is None:
            raise no_subcommand(name)
        does = command.implementation
        if (not does.takes_command and any(word in ("--help", "-h") for word in words)) or words[:1] == ["--help"]:
            return help_for_one(command)
        if cell is not None and not does.takes_body:
            raise CommandError(f"%%mcp {name} takes no cell below; write %mcp {name}")
        arguments, rest = parse(command, words)
        return await does.run(self._invocation(cell, rest, local_ns or {}), arguments)

    def _invocation(self, cell: str | None, command: list[str], local_ns: Mapping[str, Any]) -> Invocation:
        from mcp_magic.config.targets import is_server
        from mcp_magic.notebook import host

        def evaluate(source: str) -> Any:
            return eval(source, {**self.shell.user_ns, **local_ns})

        def lookup(name: str) -> Any:
            return local_ns.get(name, self.shell.user_ns.get(name))

        host.close_at_exit()
        self.pass_on()
        return Invocation(
            host=host,
            settings=self,
            shell=self.shell,
            cells=self.cells,
            state=self.state,
            body=cell,
            command=command,
            evaluate=evaluate,
            lookup=lookup,
            directory=Path.cwd(),
            variables=lambda: [name for name, value in self.shell.user_ns.items() if is_server(value)],
        )


# Help, and suggestions for words that are not subcommands.

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
"""Subcommands of other programs -> the equivalent here."""


def help_on(words: list[str]) -> Text:
    """Return the help of a subcommand or a magic; without words, the everyday help, and for `all` the whole list.

    Raises:
        CommandError: The words name no subcommand.
    """
    names = [name for word in words if (name := word.lstrip("%")) != "mcp"]
    if not names or names == ["all"]:
        return help_for_all(COMMANDS.values(), everyday=not names)
    command = {**COMMANDS, AGENT.name: AGENT, SERVER.name: SERVER}.get(names[0])
    if command is None:
        raise no_subcommand(names[0])
    return help_for_one(command)


def no_subcommand(name: str) -> CommandError:
    """Return the error for an unknown subcommand, with a suggestion."""
    if "://" in name:
        near = f" Did you mean `%mcp connect {as_command([name])}`?"
    elif ":" in name:
        near = f" Did you mean `%mcp call {name} ...`?"
    else:
        near = f" Did you mean {MEANT[name]}?" if name in MEANT else did_you_mean(name, COMMANDS)
    return CommandError(f"%mcp has no subcommand {name!r}.{near} `%mcp --help` lists them.")


# `%mcp call?`: without this, IPython would look for a Python object `call`.

_ASKED = re.compile(r"(?P<before>\s*(?:[^\W\d]\w*\s*=\s*)?)%{1,2}mcp\s+(?P<name>[a-z]+)\s*\?{1,2}(?P<end>\s*)")


def help_asked(lines: list[str]) -> list[str]:
    """Turn a cell of `%mcp SUBCOMMAND?` into `%mcp SUBCOMMAND --help`; for `ip.input_transformers_cleanup`."""
    found = _ASKED.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        return lines
    from mcp_magic.ipython.commands import COMMANDS

    return [f"{found['before']}%mcp {found['name']} --help{found['end']}"] if found["name"] in COMMANDS else lines
