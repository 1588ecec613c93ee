"""Runs coroutines in a kernel's loop: awaiting, cells in order, and interrupts."""

from __future__ import annotations

import ast
import asyncio
import concurrent.futures
import inspect
import signal
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic._compat import IN_BROWSER
from mcp_magic.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import FrameType

    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "MAGICS",
    "MARK",
    "AwaitMagics",
    "Interrupts",
    "home_loop",
    "interrupt",
    "interruptible",
    "interrupts",
    "is_ours",
    "let_end",
    "run_nested",
    "until_interrupted",
]


# Magics that are awaited by their cell.
#
# A magic that nests an event loop works, but ipykernel delivers no widget message while it runs: an approval button
# that is clicked meanwhile is seen only after the magic has timed out. A cell that awaits gets its messages at once.
# So, after IPython has turned `%mcp ...` into `get_ipython().run_line_magic('mcp', '...')`, a transformer rewrites
# each such call that stands where a top-level `await` may stand into `(await get_ipython().run_line_magic('mcp', MARK
# + '...'))`; a magic whose line has the mark returns an awaitable.
#
# Everything else (inside `def`, `lambda`, comprehensions, `%time`, `%%capture`, plain Python code) keeps calling the
# synchronous magic, which nests the loop (`running.run_nested`).

MAGICS = ("mcp", "mcp_agent", "mcp_server")
"""The magics that can be awaited."""

MARK = "\x00"
"""Begins a line that is awaited; nobody can type it."""


class _TopLevelMagics(ast.NodeVisitor):
    """Collects magic calls that a top-level `await` may wrap."""

    def __init__(self) -> None:
        self.calls: list[ast.Call] = []
        self.silent: list[ast.Call] = []

    def _skip(self, node: ast.AST) -> None:
        """Do not descend: an await is not allowed, or means something else, in here."""

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and is_ours(node.value) and _ends_silently(node.value):
            self.silent.append(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if is_ours(node):
            self.calls.append(node)
        self.generic_visit(node)


def is_ours(node: ast.AST) -> bool:
    """Whether a node is a call of one of our magics, as IPython writes it."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic" | "run_cell_magic"
            ),
            args=[ast.Constant(value=str(name)), _, *_],
        ):
            return name in MAGICS
    return False


def _ends_silently(call: ast.Call) -> bool:
    """Whether the line ends with `;`: IPython then shows no value, and looks for it in the code."""
    line = call.args[1]
    return isinstance(line, ast.Constant) and str(line.value).rstrip().endswith(";")


def _inside_a_magic() -> bool:
    """Whether another magic (`%time`, `%%capture`) transforms code that it will run synchronously."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name in ("run_line_magic", "run_cell_magic"):
            return True
        frame = frame.f_back
    return False


class AwaitMagics:
    """An input transformer for `ip.input_transformers_post`.

    Args:
        shell: The shell; with `%autoawait off` nothing is rewritten.
    """

    # IPython tries transformers on incomplete input too; this one has no side effect.
    has_side_effects = False

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Return a cell's lines, its top-level magics awaited."""
        source = "".join(lines)
        if "_magic(" not in source or "mcp" not in source or not self._shell.autoawait or _inside_a_magic():
            return lines
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return lines  # IPython reports it better than we could
        finder = _TopLevelMagics()
        finder.visit(tree)
        return _rewritten(source, finder)


def _rewritten(source: str, found: _TopLevelMagics) -> list[str]:
    # ast offsets count UTF-8 bytes; edits go from the end so that earlier offsets stay valid. The
    # lines are those of ast: only \n ends one, a form feed or U+2028 does not.
    out = [line.encode() + b"\n" for line in source.split("\n")]
    out[-1] = out[-1][:-1]
    for call in sorted(found.calls, key=lambda c: (c.lineno, c.col_offset), reverse=True):
        for line, column, text in _edits(call, b");" if call in found.silent else b")"):
            out[line - 1] = out[line - 1][:column] + text + out[line - 1][column:]
    return [line.decode() for line in out if line]


def _edits(call: ast.Call, closing: bytes) -> list[tuple[Any, Any, bytes]]:
    """Return what to insert: line, byte column, text."""
    line = call.args[1]
    return [
        (call.end_lineno, call.end_col_offset, closing),
        (line.lineno, line.col_offset, f"{MARK!r} + ".encode()),
        (call.lineno, call.col_offset, b"(await "),
    ]


# How Interrupt reaches the magic that runs.
#
# SIGINT cancels the magic's own task, by way of `call_soon_threadsafe`: the kernel's handler schedules a cancellation
# without waking the event loop, which may then sleep for seconds, and in terminal IPython Ctrl-C would leave the task
# pending and print the loop's insides.
#
# A loop that is busy sees no cancellation: a server's schema can have a pattern that takes years to match. If the
# loop has not come round after a moment, or by the next Interrupt, what it is busy with is ended where it stands. A
# timer of the system says when: matching a pattern looks for signals, but lets no other thread run.

BUSY_SECONDS = 0.25
"""Seconds that the loop has to come round before it counts as busy."""

_BUSY_FOR_US = ("mcp_magic.core", "mcp_magic.results", "mcp_magic.schema", "mcp_magic.server", "jsonschema", "mcp.")
"""Modules whose work may be ended in a task that is not the magic's own."""

_DRAWING = ("mcp_magic.agent.transcript", "mcp_magic.results", "mcp_magic.ui.progress_text")
"""Modules whose work may be ended in no task at all: timers draw."""


class Interrupts:
    """The SIGINT handler while magics run: cancels the latest of their tasks."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._unheard: set[asyncio.Task[Any]] = set()
        self._previous: Any = None

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let Interrupt cancel a task as long as this lasts."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals reach the main thread only
            return
        if not self._tasks:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        self._tasks.append(task)
        try:
            yield
        finally:
            self._heard(task)
            self._tasks.remove(task)
            self._interrupted.discard(task)
            if not self._tasks and signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._previous)

    def took(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was interrupted by the person (and not cancelled by code)."""
        return task in self._interrupted

    @property
    def ending(self) -> bool:
        """Whether the latest magic was interrupted, and has not ended yet."""
        return bool(self._tasks) and self._tasks[-1] in self._interrupted

    def forgive(self, task: asyncio.Task[Any]) -> bool:
        """Take back that a task was interrupted, if it was: that was the way to end something in it."""
        if task not in self._interrupted:
            return False
        self._interrupted.discard(task)
        return True

    def interrupt(self) -> bool:
        """Interrupt the latest magic; return whether one runs."""
        for task in self._tasks[-1:]:
            self._interrupt(task)
        return bool(self._tasks)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        task = self._tasks[-1]
        if task in self._unheard:
            self._end(task, frame)
        elif task not in self._interrupted:
            self._interrupt(task)
        else:
            self._end(task, frame)
            if callable(self._previous):
                self._previous(number, frame)  # it does not end: the second Ctrl-C is the shell's own

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        self._interrupted.add(task)
        self._unheard.add(task)
        task.get_loop().call_soon_threadsafe(self._cancel, task)
        if _timer_is_free():
            # It stays: back to the default, an alarm that is on its way would end the process.
            signal.signal(signal.SIGALRM, self._remind)
            signal.setitimer(signal.ITIMER_REAL, BUSY_SECONDS, BUSY_SECONDS)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._heard(task)
        task.cancel()

    def _heard(self, task: asyncio.Task[Any]) -> None:
        self._unheard.discard(task)
        if not self._unheard and _has_timers and signal.getsignal(signal.SIGALRM) == self._remind:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _remind(self, number: int, frame: FrameType | None) -> None:
        for task in self._tasks[-1:]:
            if task in self._unheard:
                self._end(task, frame)

    def _end(self, task: asyncio.Task[Any], frame: FrameType | None) -> None:
        """End what keeps the loop from coming round, if it is for the task."""
        if _is_busy_for(task, frame):
            raise asyncio.CancelledError


_has_timers = hasattr(signal, "setitimer")  # Windows has none; there the second Interrupt does it


def _timer_is_free() -> bool:
    if not _has_timers or threading.current_thread() is not threading.main_thread():
        return False
    known = signal.getsignal(signal.SIGALRM)
    ours = isinstance(getattr(known, "__self__", None), Interrupts)
    return ours or (known == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0)


def _is_busy_for(task: asyncio.Task[Any], frame: FrameType | None) -> bool:
    """Whether this thread is within a step of the task, or of what works for it: it may be ended there."""
    current = asyncio.current_task(task.get_loop())
    if current is task:
        return True
    ours = _DRAWING if current is None else _BUSY_FOR_US
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(ours):
            return True
        frame = frame.f_back
    return False


interrupts = Interrupts()

INTERRUPT_SECONDS = 1.0
"""Seconds that a cancellation needs at most until it is where a question was asked."""


async def interrupt() -> None:
    """End the magic that runs, as Interrupt does; return where none runs: the question alone is answered with no.

    For a Ctrl-C that came while `input()` had stopped the loop, and SIGINT was Python's own.

    Raises:
        CancelledError: By way of the magic's task, which ends with a KeyboardInterrupt.
    """
    if interrupts.interrupt():
        await asyncio.sleep(INTERRUPT_SECONDS)


async def let_end() -> None:
    """Let the magic end that is being interrupted, if one is: what else it was to ask is not asked any more.

    Raises:
        CancelledError: What waits here ends with it.
    """
    if interrupts.ending:
        await asyncio.sleep(INTERRUPT_SECONDS)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Let Interrupt end what is within, and not the magic: for what goes on until somebody stops it."""
    task = asyncio.current_task()
    try:
        yield
    except asyncio.CancelledError:
        if task is None or not interrupts.forgive(task):
            raise
        task.uncancel()


# How a magic's coroutine is run: awaited by the cell, nested in it, or for another thread.

T = TypeVar("T")

BLOCKED_SECONDS = 2.0
"""Seconds after which another thread looks whether the cell's loop still turns."""

BLOCKED = (
    "%mcp in a thread needs the kernel's loop, and the cell waits for threads without letting it turn. "
    "Let the cell await them: `await asyncio.gather(*(asyncio.to_thread(f, x) for x in xs))`."
)

_WAITING = ("threading", "concurrent.futures", "queue", "multiprocessing")

_home: asyncio.AbstractEventLoop | None = None


def home_loop(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.AbstractEventLoop | None:
    """Return the loop on which the cells run, as far as known; with an argument, remember it."""
    global _home
    if loop is not None and loop is not _home:
        _home = loop
        _wake_on_signals(loop)
    return _home


_wakeups: list[socket.socket] = []


def _wake_on_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let a signal wake a sleeping loop, so that Interrupt also ends `await connection.call(...)` at once.

    ipykernel's own handler schedules the cancellation by `IOLoop.add_callback`, which wakes nobody when
    it is called from a signal handler: the cell ends when the loop next has something to do.
    """
    if IN_BROWSER or threading.current_thread() is not threading.main_thread():
        return
    taken = signal.set_wakeup_fd(-1)
    if taken != -1 and taken not in [wakeup.fileno() for wakeup in _wakeups]:
        signal.set_wakeup_fd(taken)  # somebody else's, asyncio's own for example
        return
    woken, wakeup = socket.socketpair()
    _wakeups[:] = [woken, wakeup]
    for end in _wakeups:
        end.setblocking(False)
    with suppress(NotImplementedError):  # a loop without readers (Windows' proactor) wakes by itself
        loop.add_reader(woken, woken.recv, 4096)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; Interrupt cancels it and raises KeyboardInterrupt here."""
    __tracebackhide__ = True
    task = asyncio.ensure_future(work)
    home_loop(task.get_loop())
    with interrupts.cancelling(task):
        try:
            result = await task
        except asyncio.CancelledError:
            if not interrupts.took(task):
                raise
        else:  # the signal may have come in its last step, too late to cancel it: a loop must end all the same
            if not interrupts.took(task):
                return result
    raise KeyboardInterrupt from None  # a nested loop's tasks step in an except block, so there is a context


def run_nested(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end from synchronous code, on the loop that the cells run on.

    Raises:
        KeyboardInterrupt: The person interrupted; the work is cancelled.
        CommandError: In a browser that cannot wait within a function.
    """
    try:
        loop = _loop_of_this_thread()
    except CommandError:
        work.close()
        raise
    if loop is None:
        home = home_loop()
        assert home is not None
        return _wait_for(work, home)
    home_loop(loop)
    task = loop.create_task(work)
    with interrupts.cancelling(task):
        try:
            result = loop.run_until_complete(task)
        except asyncio.CancelledError:
            if not interrupts.took(task):
                raise
        else:
            if not interrupts.took(task):
                return result
    raise KeyboardInterrupt from None  # a nested loop's tasks step in an except block, so there is a context


def _wait_for(work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop) -> T:
    """Wait in another thread for what the cells' loop does.

    Raises:
        CommandError: The cell that has the loop waits itself, for this thread perhaps.
    """
    future = asyncio.run_coroutine_threadsafe(work, home)
    while True:
        came_round = threading.Event()
        home.call_soon_threadsafe(came_round.set)
        if concurrent.futures.wait([future], timeout=BLOCKED_SECONDS).done:
            return future.result()
        if not came_round.is_set() and _main_thread_waits():
            future.cancel()
            raise CommandError(BLOCKED)


def _main_thread_waits() -> bool:
    """Whether the main thread is in `join()`, `result()` or the like; one that computes comes round some time."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_WAITING)


def _browsers(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """Return a browser's loop if it can wait: if the browser can suspend WebAssembly (JSPI)."""
    from pyodide.ffi import can_run_sync

    if can_run_sync():
        return loop
    raise CommandError(
        "this browser cannot wait within a function or a comprehension. Write the line at the top of a cell, "
        "or `await host[...].call(...)` in an async function."
    )


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """Return a loop that this thread can run until something is complete; None if the loop is another thread's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        home = home_loop()
        if threading.current_thread() is not threading.main_thread() and home is not None and home.is_running():
            return None
        # terminal IPython between awaits: its own persistent loop, on which the sessions live
        from IPython.core.async_helpers import get_asyncio_loop

        return get_asyncio_loop()  # type: ignore[no-any-return, no-untyped-call]
    if IN_BROWSER:
        return _browsers(loop)
    import nest_asyncio2

    nest_asyncio2.apply(loop)
    return loop
