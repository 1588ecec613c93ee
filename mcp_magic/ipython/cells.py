"""Cells: where output goes, whether widgets work, and what was run before."""

from __future__ import annotations

import ast
import inspect
import sys
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from inspect import currentframe, signature
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from mcp_magic.ipython.execution import MARK, is_ours
from mcp_magic.ui.lifecycle import Closable, Place, close_previous, keep

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    Handler = Any

__all__ = [
    "Cells",
    "Circumstances",
    "CommStatus",
    "PlainHistory",
    "current_place",
    "keep_here",
    "kernel_version",
    "loops_on_this_stack",
    "without_awaits",
]


# Which cell asks, and what is known of the frontend that runs it.
#
# ipykernel keeps, for each task, the message that caused it (its "parent"). The message of a cell says whether its
# frontend takes input, and frontends with cells name the cell in it: those are the ones that show widgets. A console
# or a script that executes code names none.


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Where a question comes up.

    Attributes:
        kernel: The version of ipykernel; None in a terminal.
        running: Whether the cell that asks is still running. A task that outlives its cell asks as well.
        nested: Whether the cell waits in a nested event loop: called from a function, by `%time`, by plain Python.
        allow_stdin: Whether somebody can be asked with `input()`.
        widgets: Whether the frontend shows widgets.
        subshells: Whether it sends their messages to a subshell.
    """

    kernel: tuple[int, ...] | None = None
    running: bool = True
    nested: bool = False
    allow_stdin: bool = False
    widgets: bool = False
    subshells: bool = False


class Cells:
    """Follows the cells of a shell.

    Attributes:
        latest: The context of the latest cell: what is shown from there appears below it.
        started: Called whenever a cell has begun.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._running: dict[str, dict[str, Any]] = {}
        self._with_widgets: set[str] = set()
        self.latest: Context | None = None
        self.started: list[Callable[[], None]] = []
        self._starts()  # the cell that loads the extension is running already

    def install(self) -> None:
        """Follow the cells from now on."""
        self._shell.events.register("pre_run_cell", self._starts)
        self._shell.events.register("post_run_cell", self._ends)

    def uninstall(self) -> None:
        """Follow them no longer."""
        self._shell.events.unregister("pre_run_cell", self._starts)
        self._shell.events.unregister("post_run_cell", self._ends)

    def _starts(self, *_: Any) -> None:
        parent = self.parent()
        header = parent.get("header", {})
        if header.get("msg_type") != "execute_request":
            return
        self._running[header["msg_id"]] = parent
        self.latest = copy_context()
        if _names_a_cell(parent):
            self._with_widgets.add(header.get("session", ""))
        for told in list(self.started):
            told()

    def _ends(self, *_: Any) -> None:
        self._running.pop(self.parent().get("header", {}).get("msg_id", ""), None)

    @property
    def kernel(self) -> Any:
        """The kernel, or None in a terminal."""
        return getattr(self._shell, "kernel", None)

    @property
    def running(self) -> dict[str, Any]:
        """The message of the cell that is running, or {}."""
        return next(reversed(self._running.values()), {})

    def parent(self) -> dict[str, Any]:
        """Return the message that caused what runs now."""
        get_parent = getattr(self.kernel, "get_parent", None)
        if get_parent is None:
            return {}
        # JupyterLite's kernel has one channel, and does not know their names
        return (get_parent("shell") if signature(get_parent).parameters else get_parent()) or {}

    def asks_from_a_cell(self) -> bool:
        """Whether a cell caused what runs now, and not a click."""
        return bool(self.parent().get("header", {}).get("msg_type") == "execute_request")

    def circumstances(self) -> Circumstances:
        """Return what holds for whoever asks now; whether there are subshells has to be found out, see `asking`."""
        if self.kernel is None:
            return Circumstances(allow_stdin=sys.stdin is not None and sys.stdin.isatty())
        parent = self.parent()
        header = parent.get("header", {})
        allowed = parent.get("content", {}).get("allow_stdin", getattr(self.kernel, "_allow_stdin", False))
        return Circumstances(
            kernel=kernel_version(),
            running=header.get("msg_id") in self._running,
            nested=loops_on_this_stack() > 1,
            allow_stdin=bool(allowed),
            widgets=_names_a_cell(parent) if self.asks_from_a_cell() else self._shows_widgets(header),
        )

    def _shows_widgets(self, header: dict[str, Any]) -> bool:
        """Whether the frontend that sent a message, a click, has named the cells that it ran."""
        return header.get("session", "") in self._with_widgets


def _names_a_cell(parent: dict[str, Any]) -> bool:
    """Whether a message to execute code says which cell it is in (`cellId`: JupyterLab, Notebook, VS Code)."""
    return bool((parent.get("metadata") or {}).get("cellId"))


def kernel_version() -> tuple[int, ...]:
    """Return the version of ipykernel; (0,) for a kernel that is none."""
    version = getattr(sys.modules.get("ipykernel"), "version_info", (0,))
    return tuple(part for part in version if isinstance(part, int))


def loops_on_this_stack() -> int:
    """Return how many event loops are running, one inside the other, on this thread's stack."""
    count = 0
    frame = currentframe()
    while frame is not None:
        count += frame.f_code.co_name == "_run_once"  # what asyncio and nest_asyncio2 call a turn of the loop
        frame = frame.f_back
    return count


# Reports the messages of widgets as done that reach the kernel while a cell awaits.
#
# ipykernel 7.4 hands them to the running cell, but publishes no status for them. In the page, ipywidgets keeps back
# the second change of a field until it hears that the first one is done: of a word that is typed into a field, one
# letter would arrive, and nothing more from that field, also after the cell, until the page is loaded again.

KINDS = ("comm_open", "comm_msg", "comm_close")


class CommStatus:
    """Follows the handlers of a kernel's comm messages.

    Args:
        cells: Knows the kernel, and the cell that is running.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._handlers: dict[str, tuple[Handler, Handler]] = {}

    def install(self) -> None:
        """Report from now on; a kernel that is none of ipykernel's is left alone."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind in set(KINDS) & set(handlers):
            ours = partial(self._handle, handlers[kind])
            self._handlers[kind] = (handlers[kind], ours)
            handlers[kind] = ours

    def uninstall(self) -> None:
        """Report no longer, unless somebody else has put a handler around this one."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind, (before, ours) in self._handlers.items():
            if handlers.get(kind) is ours:
                handlers[kind] = before
        self._handlers.clear()

    def _handle(self, handler: Handler, stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        # how the kernel was asked stands nowhere else; kernels that report everything have no such argument
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        unreported = caller is not None and bool(caller.f_locals.get("concurrent", False))
        try:
            return handler(stream, ident, message)
        finally:
            if unreported:
                self._publish("idle", message)
                self._publish("busy", self._cells.running or message)  # it is, and a page shows what it heard last

    def _publish(self, state: str, parent: dict[str, Any]) -> None:
        kernel = self._cells.kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


# Where a cell shows something: which cell it is, and which run of it.

T = TypeVar("T", bound=Closable)

_followed: WeakSet[InteractiveShell] = WeakSet()


def keep_here(thing: T, shell: InteractiveShell) -> T:
    """Remember that the running cell shows `thing`, and return it; any other run of that cell closes it."""
    place = current_place(shell)
    if place.cell and shell not in _followed:
        _followed.add(shell)
        # also a run that shows nothing any more, and the deletion of the cell
        shell.events.register("pre_run_cell", lambda *_: close_previous(current_place(shell)))
    return keep(thing, place)


def current_place(shell: InteractiveShell) -> Place:
    """Return the cell that is running and which run of it this is, as the frontend says in its request.

    JupyterLab, Notebook 7 and VS Code send `metadata.cellId`, the first two also `metadata.deletedCells`.
    Where nobody says it (a terminal, nbclient) the place is nowhere.
    """
    get_parent = getattr(shell, "get_parent", None)  # terminal IPython has none
    request = (get_parent() if get_parent is not None else None) or {}
    metadata, header = request.get("metadata") or {}, request.get("header") or {}
    deleted = metadata.get("deletedCells")
    return Place(
        cell=str(metadata.get("cellId") or ""),
        run=str(header.get("msg_id") or ""),
        deleted=tuple(map(str, deleted)) if isinstance(deleted, list) else (),
    )


# The history of the shell, as IPython alone would write it.
#
# `%save`, `%macro`, `In[n]` and `%history -t` take the code that was run. In a program that they make of it a
# top-level `await` is a syntax error, and the mark of an awaited line (`awaiting.MARK`) is nothing that anybody wants
# to read.

_BEFORE = b"(await "
_MARKED = f"{MARK!r} + ".encode()


def without_awaits(source: str) -> str:
    r"""Take back what `AwaitMagics` has written into a cell.

    >>> without_awaits(r"r = (await get_ipython().run_line_magic('mcp', '\x00' + 'tools'))")
    "r = get_ipython().run_line_magic('mcp', 'tools')"
    """
    if _MARKED.decode() not in source:
        return source
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    lines = [line.encode() for line in source.split("\n")]  # offsets of ast count bytes, and only \n ends a line
    calls = [node.value for node in ast.walk(tree) if isinstance(node, ast.Await) and is_ours(node.value)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset), reverse=True):
        _unwrap(lines, call)
    return b"\n".join(lines).decode()


def _unwrap(lines: list[bytes], call: Any) -> None:
    """Remove what stands around a call and before its line, from the end, so that earlier offsets stay valid."""
    argument = call.args[1]
    pieces = [
        (call.end_lineno, call.end_col_offset, b")"),
        (argument.lineno, argument.col_offset, _MARKED),
        (call.lineno, call.col_offset - len(_BEFORE), _BEFORE),
    ]
    if not all(lines[line - 1][at:].startswith(text) for line, at, text in pieces if at >= 0):
        return  # an await that the person wrote
    for line, at, text in pieces:
        lines[line - 1] = lines[line - 1][:at] + lines[line - 1][at + len(text) :]


class PlainHistory:
    """Follows what a shell puts into its history.

    Args:
        shell: The shell; one without a history is left alone.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._manager: Any = shell.history_manager

    def install(self) -> None:
        """Keep our awaits out of it from now on."""
        if self._manager is not None:
            self._manager.store_inputs = self._store

    def uninstall(self) -> None:
        """Leave it to IPython again."""
        vars(self._manager or self).pop("store_inputs", None)

    def _store(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        raw = source if source_raw is None else source_raw
        type(self._manager).store_inputs(self._manager, line_num, without_awaits(source), raw)
