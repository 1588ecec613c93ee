"""The extension: the magics `%mcp`, `%%mcp_agent`, `%%mcp_eval` and `%%mcp_server`, and how they get into a shell."""

from __future__ import annotations

import re
import sys
import traceback
from asyncio import CancelledError
from collections import ChainMap
from contextlib import suppress
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from traitlets import observe

from mcp_magic import _startup as startup
from mcp_magic._text import clean, did_you_mean
from mcp_magic.config.masking import mask_arguments
from mcp_magic.errors import CommandError, MCPMagicError, ToolError, error_lines, on_one_line
from mcp_magic.ipython.cells import Cells, CommStatus
from mcp_magic.ipython.commandline import Invocation, State, help_for_all, help_for_one, parse
from mcp_magic.ipython.commands import AGENT, COMMANDS, EVALUATION, SERVER, SERVERS
from mcp_magic.ipython.execution import MAGICS, MARK, AwaitMagics, interruptible, run_nested
from mcp_magic.ipython.preload import Preload
from mcp_magic.ipython.settings import Settings
from mcp_magic.ipython.views import Views
from mcp_magic.loops import running_loop
from mcp_magic.schema.commandline import as_command
from mcp_magic.schema.words import split_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.display.listing import Text
    from mcp_magic.ipython.ask import Asking
    from mcp_magic.ipython.commandline import Command


@magics_class
class MCPMagics(Magics, Settings):
    """`%mcp`: this kernel as an MCP host. `%mcp --help` shows what there is."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, **kwargs: Any) -> None:
        super().__init__(shell, parent=shell, **kwargs)
        self.read_environment()
        self.cells = Cells(shell)
        self.state = State()
        self.comm_status = CommStatus(self.cells)
        self.views = Views(shell, self.cells)
        self.awaiting = AwaitMagics(shell)
        self.preload_modules = Preload(self.cells)
        self.asking: Asking | None = None
        self.loop = running_loop()

    def prepare(self) -> None:
        """Give the kernel's new host the settings and what asks the user, unless the user has set other callbacks."""
        from mcp_magic.ipython.ask import Asking
        from mcp_magic.ipython.live import Reporting
        from mcp_magic.notebook import host

        host.loop = host.loop or self.loop
        host.close_at_exit()
        host.values.attach(self.shell.user_ns, self.shell.user_ns_hidden)
        self.pass_on()
        self.asking = Asking(self.cells, self, host)
        self.asking.install(lambda: self.model)
        if host.reports.reporter is None:
            host.reports.reporter = Reporting(self.asking, self.cells)

    @observe(
        *("display_rows", "display_characters", "approval", "approval_timeout", "max_questions", "audit_file"),
        *("trace_messages", "trace_bytes", "cassette_bytes", "telemetry"),
        *("tokens", "login_timeout", "reconnect", "registry"),
        *("show_progress", "show_logs", "max_total_timeout", "strict_output", "spill"),
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
        return self._awaited(None, line, cell, local_ns)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp_agent(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Let a model work on the request below, with the tools of the open sessions.

        %%mcp_agent [AGENT] [--model PROVIDER:NAME | $model] [--servers a,b] [--tools 'a:*'] [--thread NAME]
        the request

        %mcp_agent --help   all options
        """
        return self._awaited(AGENT, line, cell, local_ns)

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def mcp_eval(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Measure whether models use the tools rightly, by the cases below.

        %%mcp_eval [--models $a,$b] [--servers a,b] [--runs N] [--tools-only] [-o NAME]
        What is the weather in Oslo? -> weather:get_weather location=Oslo

        %mcp_eval --help   all options
        """
        return self._awaited(EVALUATION, line, cell, local_ns)

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
        return self._awaited(SERVER, line, cell, local_ns)

    def _awaited(self, command: Command | None, line: str, cell: str | None, local_ns: dict[str, Any] | None) -> Any:
        """Return an awaitable for a top-level line; elsewhere run in a nested loop and return the result."""
        if line.startswith(MARK):
            return interruptible(self.run(command, line.removeprefix(MARK), cell, local_ns))
        return run_nested(self.run(command, line, cell, local_ns))

    async def run(
        self, command: Command | None, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Run a line, with the cell below it, in the scope of the caller's variables, and return its value.

        `command` is the magic, or None for `%mcp`, whose first word names the subcommand.
        """
        __tracebackhide__ = True
        # a `;` at the end silences the output, as everywhere in IPython; it is not part of the last value
        return await self.run_words(command, split_line(line.rstrip().removesuffix(";")), cell, local_ns)

    async def run_words(
        self,
        command: Command | None,
        words: list[str],
        cell: str | None = None,
        local_ns: dict[str, Any] | None = None,
    ) -> Any:
        """Run a line that is split into words already, as `run` does."""
        __tracebackhide__ = True
        if command is None:
            words = [*words]
            name = words.pop(0) if words else SERVERS.name
            if name in ("--help", "-h", "help"):
                return _help_on(words)
            command = SERVERS if name == SERVERS.name else COMMANDS.get(name)
            if command is None:
                raise _no_subcommand(name)
        does = command.implementation
        if (not does.takes_command and ("--help" in words or "-h" in words)) or words[:1] == ["--help"]:
            return help_for_one(command)
        if cell is not None and not does.takes_body:
            raise CommandError(f"%%mcp {command.name} takes no cell below; write %mcp {command.name}")
        arguments, rest = parse(command, words)
        if not does.before_host:
            import mcp_magic.notebook  # noqa: F401 (creates the host)
        return await does.run(self._invocation(cell, rest, local_ns or {}), arguments)

    def _invocation(self, cell: str | None, command: list[str], local_ns: dict[str, Any]) -> Invocation:
        return Invocation(
            settings=self,
            shell=self.shell,
            cells=self.cells,
            state=self.state,
            body=cell,
            command=command,
            variables=ChainMap(local_ns, self.shell.user_ns),
        )


# Help, and suggestions for words that are not subcommands.

EQUIVALENTS = {
    **dict.fromkeys(("add", "open", "start"), "'connect'"),
    **dict.fromkeys(("close", "remove", "rm", "stop"), "'disconnect'"),
    **dict.fromkeys(("describe", "info", "show"), "'tool'"),
    **dict.fromkeys(("exec", "run"), "'call'"),
    **dict.fromkeys(("list", "ls"), "'tools', 'resources' or 'prompts', or `%mcp` alone for the servers"),
    **dict.fromkeys(("servers", "status"), "`%mcp` alone"),
    "inspect": "'ui'",
    "search": "'find'",
    "restart": "'reconnect'",
    "threads": "`%mcp agent --threads`",
}
"""Subcommands of other programs -> the equivalent here."""


def _help_on(words: list[str]) -> Text:
    """Return the help of a subcommand or a magic; without words, the everyday help, and for `all` the whole list."""
    names = [name for word in words if (name := word.lstrip("%")) != "mcp"]
    if not names or names == ["all"]:
        return help_for_all(COMMANDS.values(), everyday=not names)
    command = {**COMMANDS, **{command.name: command for command in (AGENT, EVALUATION, SERVER)}}.get(names[0])
    if command is None:
        raise _no_subcommand(names[0])
    return help_for_one(command)


def _no_subcommand(name: str) -> CommandError:
    if "://" in name:
        near = f" Did you mean `%mcp connect {as_command(mask_arguments((name,)))}`?"
    elif ":" in name:
        near = f" Did you mean `%mcp call {name} ...`?"
    else:
        near = f" Did you mean {EQUIVALENTS[name]}?" if name in EQUIVALENTS else did_you_mean(name, COMMANDS)
    return CommandError(f"%mcp has no subcommand {mask_arguments((name,))[0]!r}.{near} `%mcp --help` lists them.")


# `%mcp call?`: without this, IPython would look for a Python object `call`.

_HELP_REQUEST = re.compile(r"(?P<before>\s*(?:[^\W\d]\w*\s*=\s*)?)%{1,2}mcp\s+(?P<name>[a-z]+)\s*\?{1,2}(?P<end>\s*)")


def help_asked(lines: list[str]) -> list[str]:
    """Turn a cell of `%mcp SUBCOMMAND?` into `%mcp SUBCOMMAND --help`; for `ip.input_transformers_cleanup`."""
    match = _HELP_REQUEST.fullmatch(lines[0]) if len(lines) == 1 else None
    if match is None:
        return lines
    return [f"{match['before']}%mcp {match['name']} --help{match['end']}"] if match["name"] in COMMANDS else lines


TAKE_CELL = ("%%mcp_agent", "%%mcp_eval", "%%mcp_server")


class EmptyCells:
    """Makes an empty cell of a magic that takes one a line, whose error says what to write below it.

    IPython's own error advises to leave out one `%`.
    """

    has_side_effects = True  # or a terminal would run the first line of a cell as soon as it is typed

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines to run; for `ip.input_transformers_cleanup`."""
        if lines and lines[0].startswith(TAKE_CELL) and not "".join(lines[1:]).strip():
            return [lines[0].removeprefix("%")]
        return lines


TRANSFORMERS = (EmptyCells(), help_asked)


# How the extension is loaded into a shell (`%load_ext`) and removed (`%unload_ext`).


def load(shell: InteractiveShell) -> MCPMagics:
    """Register the magics, what awaits them, and the completer; return the magics. Idempotent."""
    if (before := _magics(shell)) is not None:
        return before
    magics = MCPMagics(shell)
    shell.register_magics(magics)
    shell.input_transformers_cleanup.extend(TRANSFORMERS)
    magics.awaiting.install()
    magics.cells.install()
    magics.comm_status.install()
    magics.views.install()
    shell.Completer.custom_matchers.append(completer(shell, magics))
    magics.follow_colours()
    shell.observe(magics.follow_colours, "colors")
    ToolError.show = lambda crash: shell.InteractiveTB.structured_traceback(type(crash), crash, crash.__traceback__)
    _shorten_tracebacks(shell)
    startup.callbacks.append(magics.prepare)
    if magics.preload:
        magics.preload_modules.start()
    if "mcp_magic.notebook" in sys.modules:
        magics.prepare()
    return magics


def _shorten_tracebacks(shell: InteractiveShell) -> None:
    """Show an Interrupt of our code as one line, and no values of our frames, which hold tokens and arguments."""
    tracebacks = shell.InteractiveTB
    format_all = tracebacks.structured_traceback

    def structured_traceback(etype: Any, evalue: Any = None, etb: Any = None, *args: Any, **options: Any) -> Any:
        if isinstance(evalue, CancelledError | KeyboardInterrupt) and any(map(_is_ours, walk_tb(etb))):
            text = str(evalue) or "interrupted"
            return error_lines(on_one_line(evalue, text), text)
        if tracebacks.mode == "Verbose":
            _forget_values(evalue, etb)
        return format_all(etype, evalue, etb, *args, **options)

    vars(tracebacks)["structured_traceback"] = structured_traceback


def _is_ours(step: tuple[FrameType, int]) -> bool:
    return str(step[0].f_globals.get("__name__")).partition(".")[0] == "mcp_magic"


def _forget_values(error: BaseException | None, traceback: TracebackType | None) -> None:
    """Clear the local variables of our frames and of what they called; the user's own cells keep theirs."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        below_ours = False
        for step in walk_tb(traceback):
            below_ours = below_ours or _is_ours(step)
            if below_ours and step[0].f_globals.get("__name__") != "__main__":
                with suppress(RuntimeError):  # it still runs
                    step[0].clear()
        error = error.__cause__ or error.__context__
        traceback = error.__traceback__ if error is not None else None


def unload(shell: InteractiveShell) -> None:
    """Close all sessions and remove everything that `load` added, even if closing fails or is interrupted."""
    magics = _magics(shell)
    if magics is None:
        return
    from mcp_magic.notebook import host

    try:
        magics.telemetry = ""
        for serving in magics.state.served.values():
            run_nested(serving.stop())
        if (kernel := host.serving) is not None:
            again = "`%mcp serve --kernel --code`" if "run_code" in kernel.server.own else "`%mcp serve --kernel`"
            said = kernel.farewell(run_nested(host.stop_serving()))
            print(clean(f"{said} With mcp_magic loaded, {again} serves it again."), flush=True)
        for page in magics.state.pages:
            run_nested(page.stop())
        if len(host):
            run_nested(host.close())
    finally:
        _leave(shell, magics)


def _leave(shell: InteractiveShell, magics: MCPMagics) -> None:
    """Remove our callbacks from the host and the shell; callbacks that the user has set stay."""
    from mcp_magic.ipython.live import Reporting, shown_again
    from mcp_magic.notebook import host

    startup.callbacks.remove(magics.prepare)
    host.consent.magics = False
    if magics.asking is not None:
        magics.asking.uninstall()
    if isinstance(host.reports.reporter, Reporting):
        host.reports.reporter = None
    ToolError.show = traceback.format_exception
    vars(shell.InteractiveTB).pop("structured_traceback", None)
    shell.unobserve(magics.follow_colours, "colors")
    MCPMagicError.coloured = True
    magics.preload_modules.stop()
    magics.views.uninstall()
    magics.comm_status.uninstall()
    magics.cells.uninstall()
    magics.awaiting.uninstall()
    with suppress(ValueError):  # the user has removed one
        for transformer in TRANSFORMERS:
            shell.input_transformers_cleanup.remove(transformer)
    for name in MAGICS:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(MCPMagics.__name__, None)
    shell.configurables.remove(magics)  # type: ignore[arg-type]
    shell.Completer.custom_matchers[:] = [
        matcher
        for matcher in shell.Completer.custom_matchers
        if getattr(matcher, "matcher_identifier", "") != COMPLETER
    ]
    shown_again(shell)


def _magics(shell: InteractiveShell) -> MCPMagics | None:
    magics = shell.magics_manager.registry.get(MCPMagics.__name__)
    return magics if isinstance(magics, MCPMagics) else None


# Tab in `%mcp` lines and in the first line of `%%mcp_agent` and `%%mcp_eval`.

COMPLETER = "mcp_magic"
_LINE = re.compile(
    r"(?:^|[=\s(])%{1,2}(?:mcp\s+(?P<rest>.*)|(?P<magic>mcp_agent|mcp_eval)(?P<words>[ \t]+[^\n]*))$", re.DOTALL
)


def completer(shell: InteractiveShell, magics: MCPMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return the matcher for a shell's completer; it imports the completions when Tab is pressed."""
    from IPython.core.completer import SimpleCompletion, SimpleMatcherResult, context_matcher

    @context_matcher(identifier=COMPLETER, priority=100)  # type: ignore[untyped-decorator]
    def mcp_matcher(context: CompletionContext) -> SimpleMatcherResult:
        match = _LINE.search(context.text_until_cursor)
        if match is None:
            return SimpleMatcherResult(completions=[])
        from mcp_magic.ipython.completion import candidates

        rest = match["rest"] if match["magic"] is None else f"{match['magic']}{match['words']}"
        fragment, texts, kinds = candidates(rest, dict(shell.user_ns), magics, magics.state.agents)
        _, equals, value = fragment.partition("=")
        if not texts and equals and value.lstrip("'\"")[:1] not in ("$", "{", "@"):
            # The value is text. IPython suppresses its other matchers, which offer Python's names, only for a match.
            texts = [fragment]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(text, type=kinds.get(text, "mcp")) for text in texts],
            matched_fragment=fragment,
            ordered=True,
            suppress=bool(texts),
        )

    return mcp_matcher  # type: ignore[no-any-return]
