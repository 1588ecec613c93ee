"""Which cell runs, what its frontend supports, and what earlier runs of it showed."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from inspect import currentframe, signature
from shutil import get_terminal_size
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcp_magic._text import clean
from mcp_magic.display.document import width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.interactiveshell import InteractiveShell


T = TypeVar("T")

CONTEXTS = (7, 0)  # the first version of ipykernel whose output goes by the context
MAX_PAGES = 8  # pages whose latest cells are remembered; a page that is loaded again is another one

# Which cell asks, and what its frontend supports.
#
# ipykernel keeps, for each task, the message that caused it (its "parent"). The parent of a cell says whether the
# frontend takes input. Only frontends that show widgets name the cell in it; a console or a script does not.


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The conditions where a question is asked."""

    kernel: tuple[int, ...] | None = None  # the version of ipykernel; None in a terminal
    running: bool = True  # whether the cell that asks still runs; a task can outlive its cell and ask
    nested: bool = False  # whether the cell waits in a nested event loop: in a function, `%time` or plain Python
    allow_stdin: bool = False  # whether `input()` can ask the user
    widgets: bool = False  # whether the frontend shows widgets
    subshells: bool = False  # whether the frontend sends widget messages to a subshell


class LatestCell(NamedTuple):
    """The latest cell of a page: output from its context appears below it."""

    context: Context
    request: dict[str, Any]


class Cells:
    """Follows the cells of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._running: dict[str, dict[str, Any]] = {}
        self._with_widgets: set[str] = set()
        self.latest: Context | None = None  # output from the context of the latest cell appears below it
        self.pages: dict[str, LatestCell] = {}  # the latest cell of each page, by its session, the latest last
        self.started: list[Callable[[], None]] = []  # callbacks that run when a cell begins
        self.ended: list[Callable[[], None]] = []  # callbacks that run when a cell has ended
        self._ended_at = 0.0
        self._starts()  # the cell that loads the extension is running already

    def install(self) -> None:
        """Start following."""
        self._shell.events.register("pre_run_cell", self._starts)
        self._shell.events.register("post_run_cell", self._ends)

    def uninstall(self) -> None:
        """Stop following."""
        self._shell.events.unregister("pre_run_cell", self._starts)
        self._shell.events.unregister("post_run_cell", self._ends)

    def _starts(self, *_: Any) -> None:
        close_previous(self.run())  # also where this run shows nothing, or a cell was deleted
        parent = self.parent()
        header = parent.get("header", {})
        if header.get("msg_type") != "execute_request":
            return
        self._running[header["msg_id"]] = parent
        self.latest = copy_context()
        if _names_a_cell(parent):
            session = header.get("session", "")
            self._with_widgets.add(session)
            self.pages.pop(session, None)
            self.pages[session] = LatestCell(self.latest, parent)
            if len(self.pages) > MAX_PAGES:
                del self.pages[next(iter(self.pages))]
        for callback in list(self.started):
            callback()

    def _ends(self, *_: Any) -> None:
        self._running.pop(self.parent().get("header", {}).get("msg_id", ""), None)
        self._ended_at = time.monotonic()
        for tell in list(self.ended):
            tell()

    def is_running(self, message: str) -> bool:
        """Whether the cell of this message still runs."""
        return message in self._running

    @property
    def kernel(self) -> Any:
        """The kernel, or None in a terminal."""
        return getattr(self._shell, "kernel", None)

    @property
    def running(self) -> dict[str, Any]:
        """The message of the running cell, or {}."""
        return next(reversed(self._running.values()), {})

    @property
    def idle_at(self) -> float:
        """The time (of `time.monotonic()`) since when no cell runs; infinite while one does."""
        return math.inf if self._running else self._ended_at

    @property
    def takes_input(self) -> bool:
        """Whether the frontend that ran the latest cell takes input."""
        parent = self.latest.run(self.parent) if self.latest is not None else {}
        return bool(parent.get("content", {}).get("allow_stdin", False))

    @property
    def has_subshell(self) -> bool:
        """Whether a frontend uses a subshell."""
        manager = getattr(getattr(self.kernel, "shell_channel_thread", None), "manager", None)
        return manager is not None and bool(manager.list_subshell())

    @property
    def things(self) -> list[tuple[str, Any]]:
        """What cells show and has to be closed, the latest last, each with its cell."""
        return [(cell, thing) for cell, (_, things) in _things.items() for thing in things]

    async def free(self) -> None:
        """Wait until no cell runs."""
        while self._running:
            end = asyncio.get_running_loop().create_future()

            def tell(end: asyncio.Future[None] = end) -> None:
                if not end.done():
                    end.set_result(None)

            self.ended.append(tell)
            try:
                await end
            finally:
                self.ended.remove(tell)

    def parent(self) -> dict[str, Any]:
        """Return the message that caused the current task."""
        get_parent = getattr(self.kernel, "get_parent", None)
        if get_parent is None:
            return {}
        # JupyterLite's kernel has a single channel and takes no channel name
        return (get_parent("shell") if signature(get_parent).parameters else get_parent()) or {}

    @contextmanager
    def below(self, cell: LatestCell) -> Iterator[None]:
        """Let output of this block appear below a cell.

        ipykernel 7 goes by the context. Before it, output belongs to the message that was handled last, also of a page.
        """
        publisher = getattr(self._shell, "display_pub", None)
        if self.kernel is None or kernel_version() >= CONTEXTS or publisher is None:
            yield
            return
        before = publisher.parent_header
        publisher.set_parent(cell.request)
        try:
            yield
        finally:
            publisher.parent_header = before

    def run(self, request: dict[str, Any] | None = None) -> CellRun:
        """Return the running cell and its run, as the frontend's request names them; or those of another request.

        JupyterLab, Notebook 7 and VS Code send `metadata.cellId`; JupyterLab and Notebook 7 also send
        `metadata.deletedCells`. A terminal and nbclient name no cell.
        """
        request = self.parent() if request is None else request
        metadata, header = request.get("metadata") or {}, request.get("header") or {}
        deleted = metadata.get("deletedCells")
        return CellRun(
            cell=str(metadata.get("cellId") or ""),
            run=str(header.get("msg_id") or ""),
            deleted=tuple(map(str, deleted)) if isinstance(deleted, list) else (),
        )

    def keep(self, thing: T) -> T:
        """Register `thing` as shown by the running cell and return it. The next run of that cell closes it."""
        return keep(thing, self.run())

    def asks_from_a_cell(self) -> bool:
        """Whether a cell caused the current task, and not a click."""
        return bool(self.parent().get("header", {}).get("msg_type") == "execute_request")

    def circumstances(self) -> Circumstances:
        """Return the conditions here. `Asking` finds out later whether there are subshells."""
        if self.kernel is None:
            return Circumstances(allow_stdin=sys.stdin is not None and sys.stdin.isatty())
        parent = self.parent()
        header = parent.get("header", {})
        # a click names no cell; its frontend has named those that it ran
        widgets = _names_a_cell(parent) if self.asks_from_a_cell() else header.get("session", "") in self._with_widgets
        allowed = parent.get("content", {}).get("allow_stdin", getattr(self.kernel, "_allow_stdin", False))
        return Circumstances(
            kernel=kernel_version(),
            running=header.get("msg_id") in self._running,
            nested=loops_on_this_stack() > 1,
            allow_stdin=bool(allowed),
            widgets=widgets,
        )


def _names_a_cell(parent: dict[str, Any]) -> bool:
    """Whether an execute request names its cell (`cellId`: JupyterLab, Notebook, VS Code)."""
    return bool((parent.get("metadata") or {}).get("cellId"))


def kernel_version() -> tuple[int, ...]:
    """Return the version of ipykernel; (0,) for another kernel."""
    version = getattr(sys.modules.get("ipykernel"), "version_info", (0,))
    return tuple(part for part in version if isinstance(part, int))


def loops_on_this_stack() -> int:
    """Return how many nested event loops run on this thread's stack."""
    # `_run_once` is one iteration of the loop, in asyncio and nest_asyncio2
    return sum(frame.f_code.co_name == "_run_once" for frame, _ in walk_stack(currentframe()))


class StatusLine:
    """The last line of a terminal while something waits: replaced in place, and erased at the end."""

    def __init__(self) -> None:
        self._width = 0  # columns
        self._hidden = 0

    def show(self, text: str) -> None:
        """Replace the line; "" erases it. Does nothing where output is no terminal, or while a question is asked."""
        if not (text or self._width) or self._hidden or sys.stderr is None or not sys.stderr.isatty():
            return
        text = clean(text)
        while width(text) >= get_terminal_size().columns:
            text = text[:-1]
        sys.stderr.write("\r" + " " * self._width + f"\r{text}")  # not every terminal knows how to erase
        sys.stderr.flush()
        self._width = width(text)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line erased while a question is asked."""
        self.show("")
        self._hidden += 1
        try:
            yield
        finally:
            self._hidden -= 1


status = StatusLine()  # of this process's terminal


# Reports widget messages as done that reach the kernel while a cell awaits.
#
# ipykernel 7.4 delivers them to the running cell, but publishes no status for them. ipywidgets in the page holds back
# the second change of a field until the first is reported done. Without the report, a field would send one letter and
# then nothing, even after the cell, until the page is reloaded.

KINDS = ("comm_open", "comm_msg", "comm_close")


class CommStatus:
    """Wraps the kernel's handlers of comm messages."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._handlers: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    def install(self) -> None:
        """Start reporting; does nothing for a kernel other than ipykernel."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind in set(KINDS) & set(handlers):
            wrapper = partial(self._handle, handlers[kind])
            self._handlers[kind] = (handlers[kind], wrapper)
            handlers[kind] = wrapper

    def uninstall(self) -> None:
        """Stop reporting; a handler that other code has wrapped stays."""
        handlers = getattr(self._cells.kernel, "shell_handlers", {})
        for kind, (before, wrapper) in self._handlers.items():
            if handlers.get(kind) is wrapper:
                handlers[kind] = before
        self._handlers.clear()

    def _handle(self, handler: Callable[..., Any], stream: Any, ident: Any, message: dict[str, Any]) -> Any:
        # only the caller's `concurrent` tells; kernels that report every message have no such argument
        frame = currentframe()
        caller = frame.f_back if frame is not None else None
        unreported = caller is not None and bool(caller.f_locals.get("concurrent", False))
        try:
            return handler(stream, ident, message)
        finally:
            if unreported:
                self._publish("idle", message)
                self._publish("busy", self._cells.running or message)  # it still runs; a page shows the last status

    def _publish(self, state: str, parent: dict[str, Any]) -> None:
        kernel = self._cells.kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


# Which cell and which run of it show something, so that running the cell again closes it.
#
# A widget lives in the kernel until it is closed: a cell that is run two hundred times would leave two hundred
# explorers behind. The frontend reports which cell it runs and which it has deleted.


class CellRun(NamedTuple):
    """A run of a cell."""

    cell: str = ""  # its id, or "" if the frontend does not report it; then nothing is replaced
    run: str = ""
    deleted: tuple[str, ...] = ()  # ids of deleted cells


_things: dict[str, tuple[str, list[Any]]] = {}  # cell -> its last run that showed something, and what that run showed


def keep(thing: T, at: CellRun) -> T:
    """Remember that `thing` is shown by a run, close what earlier runs of the cell showed, and return `thing`."""
    close_previous(at)
    if at.cell:
        _things.setdefault(at.cell, (at.run, []))[1].append(thing)
    return thing


def close_previous(at: CellRun) -> None:
    """Close what earlier runs of this cell and deleted cells showed."""
    for cell in (*at.deleted, at.cell):
        run, things = _things.get(cell, ("", []))
        if (cell, run) == (at.cell, at.run):
            continue
        _things.pop(cell, None)
        for thing in things:
            thing.close()
