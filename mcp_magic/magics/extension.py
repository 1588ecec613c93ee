"""The extension: the magics class, and what loading and unloading do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from traitlets import observe

from mcp_magic.core import starting
from mcp_magic.errors import CommandError, did_you_mean
from mcp_magic.magics.asking import Asking
from mcp_magic.magics.awaiting import MAGICS, MARK, AwaitMagics
from mcp_magic.magics.cells import Cells
from mcp_magic.magics.comm_status import CommStatus
from mcp_magic.magics.running import interruptible, run_nested
from mcp_magic.magics.settings import Settings
from mcp_magic.magics.splitting import split_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.magics.parsing import Invocation

__all__ = ["MCPMagics", "load", "unload"]


@magics_class
class MCPMagics(Magics, Settings):
    """`%mcp`: this kernel as an MCP host. `%mcp --help` lists the subcommands."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, **kwargs: Any) -> None:
        super().__init__(shell, parent=shell, **kwargs)
        self.read_environment()
        self.cells = Cells(shell)
        self.agents: dict[str, dict[str, Any]] = {}
        self.comm_status = CommStatus(self.cells)

    def prepare(self) -> None:
        """Make the kernel's host one that follows the settings and asks the person, unless they set who asks."""
        from mcp_magic.magics.eliciting import Eliciting
        from mcp_magic.notebook import host

        self.pass_on()
        if host.approver is None:
            host.approver = Asking(self.cells, self, host.consent)
        if host.elicitor is None:
            host.elicitor = Eliciting(Asking(self.cells, self, host.consent), host.elicitation)

    @observe(
        *("display_rows", "display_characters", "approval", "approval_timeout", "audit_file"),
        *("trace_messages", "trace_bytes"),
    )
    def _setting_changed(self, change: Any) -> None:
        if "mcp_magic.notebook" in sys.modules:
            self.pass_on()

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Connect to MCP servers, look at what they offer, call their tools.

        %mcp                              the connected servers
        %mcp connect TARGET               opens a session
        %mcp tools                        what there is to call
        %mcp call SERVER:TOOL name=value  calls a tool; the result is a value
        %mcp --help                       all subcommands
        %mcp call --help                  one of them in full
        """
        if line.startswith(MARK):
            return interruptible(self._run(line.removeprefix(MARK), cell, local_ns))
        return run_nested(self._run(line, cell, local_ns))

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp_agent(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Let a model work on the request below, with the tools of the open sessions.

        %%mcp_agent [AGENT] [--model PROVIDER:NAME | $model] [--servers a,b] [--tools 'a:*'] [--thread NAME]
        the request

        %mcp_agent --help   all options
        """
        if line.startswith(MARK):
            return interruptible(self._run_agent(line.removeprefix(MARK), cell, local_ns))
        return run_nested(self._run_agent(line, cell, local_ns))

    async def _run_agent(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        from mcp_magic.magics.agent_cell import AGENT
        from mcp_magic.magics.parsing import help_for_one, parse

        words = split_line(line.rstrip().removesuffix(";"))
        if words[:1] in (["--help"], ["-h"]):
            return help_for_one(AGENT)
        arguments, _ = parse(AGENT, words)
        return await AGENT.run(self._invocation(cell, [], local_ns or {}), arguments)

    async def _run(self, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        from mcp_magic.magics.commands import COMMANDS, SERVERS
        from mcp_magic.magics.parsing import help_for_all, help_for_one, parse

        # a `;` at the end silences the output, as everywhere in IPython; it is no part of the last value
        words = split_line(line.rstrip().removesuffix(";"))
        name = words.pop(0) if words else SERVERS.name
        if name in ("--help", "-h", "help"):
            return help_for_all(COMMANDS)
        command = SERVERS if name == SERVERS.name else COMMANDS.get(name)
        if command is None:
            near = did_you_mean(name, COMMANDS)
            raise CommandError(f"%mcp has no subcommand {name!r}.{near} `%mcp --help` lists them.")
        if (not command.takes_command and any(word in ("--help", "-h") for word in words)) or words[:1] == ["--help"]:
            return help_for_one(command)
        if cell is not None and not command.takes_body:
            raise CommandError(f"%%mcp {name} takes no cell below; write %mcp {name}")
        arguments, rest = parse(command, words)
        return await command.run(self._invocation(cell, rest, local_ns or {}), arguments)

    def _invocation(self, cell: str | None, command: list[str], local_ns: Mapping[str, Any]) -> Invocation:
        from mcp_magic.config.targets import is_server
        from mcp_magic.magics.parsing import Invocation
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
            body=cell,
            command=command,
            evaluate=evaluate,
            lookup=lookup,
            directory=Path.cwd(),
            variables=lambda: [name for name, value in self.shell.user_ns.items() if is_server(value)],
        )


def load(shell: InteractiveShell) -> None:
    """Register the magics, the transformer that awaits them, and the completer. Loading twice is fine."""
    if _magics(shell) is not None:
        return
    from mcp_magic.magics.complete import install

    magics = MCPMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_post.append(AwaitMagics(shell))
    magics.cells.install()
    magics.comm_status.install()
    install(shell)
    starting.callbacks.append(magics.prepare)
    if "mcp_magic.notebook" in sys.modules:
        magics.prepare()


def unload(shell: InteractiveShell) -> None:
    """Close all sessions and remove everything that `load` added."""
    from mcp_magic.magics.complete import uninstall
    from mcp_magic.magics.eliciting import Eliciting
    from mcp_magic.notebook import host

    magics = _magics(shell)
    if magics is None:
        return
    if len(host):
        run_nested(host.close())
    if isinstance(host.approver, Asking):
        host.approver = None
    if isinstance(host.elicitor, Eliciting):
        host.elicitor = None
    starting.callbacks.remove(magics.prepare)
    magics.comm_status.uninstall()
    magics.cells.uninstall()
    transformers = shell.input_transformers_post
    transformers[:] = [one for one in transformers if not isinstance(one, AwaitMagics)]
    for name in MAGICS:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(MCPMagics.__name__, None)
    shell.configurables.remove(magics)  # type: ignore[arg-type]
    uninstall(shell)


def _magics(shell: InteractiveShell) -> MCPMagics | None:
    found = shell.magics_manager.registry.get(MCPMagics.__name__)
    return found if isinstance(found, MCPMagics) else None
