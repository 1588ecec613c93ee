"""Runs the coroutines of magics in a kernel's event loop: awaited, nested or from a thread, and interruptible."""

from __future__ import annotations

import _thread
import ast
import asyncio
import inspect
import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from IPython.core.async_helpers import _asyncio_runner, get_asyncio_loop

from mcp_magic._compat import IN_BROWSER
from mcp_magic.errors import CommandError, on_one_line
from mcp_magic.loops import hand_over, running_loop

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from types import FrameType

    from IPython.core.interactiveshell import InteractiveShell


# Magics that their cell awaits.
#
# A magic that nests an event loop works, but ipykernel delivers no widget messages while it runs: a click on an
# approval button arrives only after the magic has timed out. A cell that awaits gets its messages at once.
# IPython turns `%mcp ...` into `get_ipython().run_line_magic('mcp', '...')`. In the tree of the cell, each such call
# becomes `await get_ipython().run_line_magic('mcp', MARK + '...')` wherever a top-level `await` is allowed. A magic
# whose line begins with the mark returns an awaitable. The history has the code as IPython wrote it.
#
# All other calls (in `def`, `lambda`, comprehensions, `%time`, `%%capture`, plain Python code) stay synchronous and
# nest the loop (`run_nested`).

MAGICS = ("mcp", "mcp_agent", "mcp_eval", "mcp_server")  # the magics that can be awaited
MARK = "\x00"  # begins a line that is awaited; a user cannot type it


class AwaitMagics(ast.NodeTransformer):
    """Awaits the magics of a cell: an AST transformer of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._found = 0

    def install(self) -> None:
        """Start."""
        usual = self._shell.should_run_async

        def should_run_async(raw_cell: str, *, transformed_cell: str | None = None, **rest: Any) -> bool:
            is_async = usual(raw_cell, transformed_cell=transformed_cell, **rest)
            return is_async or self._awaits(transformed_cell or "")

        self._shell.ast_transformers.append(self)
        vars(self._shell)["should_run_async"] = should_run_async
        if getattr(self._shell, "kernel", None) is None and self._shell.loop_runner is _asyncio_runner:
            self._shell.loop_runner = run_cell

    def uninstall(self) -> None:
        """Stop."""
        vars(self._shell).pop("should_run_async", None)
        if self._shell.loop_runner is run_cell:
            self._shell.loop_runner = _asyncio_runner
        with suppress(ValueError):  # the user has removed it
            self._shell.ast_transformers.remove(self)

    def _awaits(self, source: str) -> bool:
        before = self._found
        if "_magic(" in source and "mcp" in source:
            with suppress(SyntaxError, ValueError, RecursionError):  # IPython reports them better
                self.visit(ast.parse(source))
        return self._found > before

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """Leave code alone that another magic (`%time`, `%%capture`) runs synchronously."""
        frames = walk_stack(inspect.currentframe())
        if not self._shell.autoawait or any(
            frame.f_code.co_name in ("run_line_magic", "run_cell_magic") for frame, _ in frames
        ):
            return node
        return self.generic_visit(node)

    def _skip(self, node: ast.AST) -> ast.AST:
        """Do not descend: an await is not allowed here, or means something else."""
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _skip
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _skip

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Show no value if the line of a magic ends with `;`, as elsewhere in IPython."""
        line = _line_of(node.value)
        self.generic_visit(node)
        if isinstance(line, ast.Constant) and str(line.value).rstrip().endswith(";"):
            # IPython shows the value of an expression only if it is a statement of its own
            return ast.copy_location(ast.If(ast.copy_location(ast.Constant(True), node), [node], []), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Await a call of one of our magics."""
        self.generic_visit(node)
        line = _line_of(node)
        if line is None:
            return node
        self._found += 1
        marked = ast.BinOp(ast.copy_location(ast.Constant(MARK), line), ast.Add(), line)
        node.args[1] = ast.copy_location(marked, line)
        return ast.copy_location(ast.Await(node), node)


def _line_of(node: ast.AST) -> ast.expr | None:
    """Return the line that a call of one of our magics is given, in the form that IPython generates; else None."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic" | "run_cell_magic"
            ),
            args=[ast.Constant(value=str(name)), line, *_],
        ) if name in MAGICS:
            return line
    return None


# How Interrupt reaches the running magic.
#
# SIGINT cancels the magic's own task with `call_soon_threadsafe`. The kernel's handler schedules a cancellation
# without waking the event loop, which may then sleep for seconds; in terminal IPython, Ctrl-C would leave the task
# pending and print the loop's internals.
#
# A busy loop sees no cancellation: a pattern in a server's schema can take years to match. If the loop has not come
# round after BUSY_SECONDS, or by the next Interrupt, an exception ends the busy code where it is. A system timer
# measures the time: matching a pattern checks for signals, but lets no other thread run.

BUSY_SECONDS = 0.25  # seconds after which a loop that has not come round counts as busy

_ROOMS = (
    "_host ask auth cassette consent display doctor flight lint protocol results schema server session skills stderr "
    "telemetry trace watch"
)
BUSY_ROOMS = (*(f"mcp_magic.{room}" for room in _ROOMS.split()), "jsonschema", "mcp.")
"""Modules whose code may be ended in a task other than the magic's own."""

DRAWING_ROOMS = (
    *("mcp_magic.agent.entries", "mcp_magic.agent.transcript"),
    *("mcp_magic.display", "mcp_magic.results", "mcp_magic.ipython.live"),
)
"""Modules whose code may be ended outside any task: timers draw."""

STARTING_ROOMS = ("asyncio.base_subprocess", "asyncio.unix_events")
"""Modules whose code is not ended: asyncio starts processes there, and nobody would know one that is cut off."""


class Interrupts:
    """The SIGINT handler while magics run: cancels the task of the latest magic.

    Attributes:
        count: How often it has interrupted a magic in this process.
    """

    def __init__(self) -> None:
        self.count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._interrupted: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._unheard: set[asyncio.Task[Any]] = set()
        self._previous: Any = None

    @contextmanager
    def cancelling(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let Interrupt cancel a task within this block."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals reach the main thread only
            return
        # A signal may come between any two of these lines, and none may get lost: a loop of calls would go on.
        self._tasks.append(task)
        if self._tasks == [task]:
            previous = signal.signal(signal.SIGINT, self._handle)
            # a cell that ran while earlier work ended may have put this handler back
            self._previous = self._previous if previous == self._handle else previous
        try:
            yield
        finally:
            if self._tasks == [task] and signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, self._previous)
            self._tasks.remove(task)
            self._note_arrival(task)

    def was_interrupted(self, task: asyncio.Task[Any]) -> bool:
        """Whether the user interrupted the task (as opposed to code that cancelled it). Ask after `cancelling`."""
        return task in self._interrupted

    @property
    def ending(self) -> asyncio.Task[Any] | None:
        """The task of the latest magic, if it was interrupted and has not ended yet."""
        return next((task for task in self._tasks[-1:] if task in self._interrupted), None)

    def forgive(self, task: asyncio.Task[Any]) -> bool:
        """Forget that a task was interrupted; return whether it was. For an Interrupt that ends only part of a task."""
        if task not in self._interrupted:
            return False
        self._interrupted.discard(task)
        return True

    def expire(self, task: asyncio.Task[Any]) -> None:
        """Interrupt a task from another thread, also one that keeps the loop busy; call it again until it ends."""
        is_latest = self._tasks[-1:] == [task] and signal.getsignal(signal.SIGINT) == self._handle
        if not is_latest or (task in self._interrupted and task not in self._unheard):
            task.get_loop().call_soon_threadsafe(self._interrupt, task)
        elif hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def interrupt(self) -> bool:
        """Interrupt the latest magic; return whether a magic runs."""
        for task in self._tasks[-1:]:
            self._interrupt(task)
        return bool(self._tasks)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._tasks:
            if callable(self._previous):
                self._previous(number, frame)
            return
        task = self._tasks[-1]
        if task in self._unheard:
            self._end(task, frame)
        elif task not in self._interrupted:
            self._interrupt(task)
        else:
            self._end(task, frame)
            if callable(self._previous):
                self._previous(number, frame)  # the magic does not end: the second Ctrl-C goes to the shell

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        self.count += 1
        self._interrupted.add(task)
        self._unheard.add(task)
        task.get_loop().call_soon_threadsafe(self._cancel, task)
        if _timer_is_free():
            # The handler stays: with the default one, a late alarm would end the process.
            signal.signal(signal.SIGALRM, self._remind)
            signal.setitimer(signal.ITIMER_REAL, BUSY_SECONDS, BUSY_SECONDS)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._note_arrival(task)
        task.cancel()

    def _note_arrival(self, task: asyncio.Task[Any]) -> None:
        self._unheard.discard(task)
        if not self._unheard and _has_timers and signal.getsignal(signal.SIGALRM) == self._remind:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _remind(self, number: int, frame: FrameType | None) -> None:
        for task in self._tasks[-1:]:
            if task in self._unheard:
                self._end(task, frame)

    def _end(self, task: asyncio.Task[Any], frame: FrameType | None) -> None:
        """Raise CancelledError in code that keeps the loop busy, if it works for the task."""
        if _is_busy_for(task, frame):
            raise asyncio.CancelledError


_has_timers = hasattr(signal, "setitimer")  # Windows has none; there the second Interrupt ends busy code


def _timer_is_free() -> bool:
    if not _has_timers or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGALRM)
    is_own = isinstance(getattr(handler, "__self__", None), Interrupts)
    return is_own or (handler == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0)


def _is_busy_for(task: asyncio.Task[Any], frame: FrameType | None) -> bool:
    """Whether this thread runs the task, or other code that works for it and may be ended."""
    current = asyncio.current_task(task.get_loop())
    frames = walk_stack(frame) if frame is not None else ()
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in frames]
    if any(name in STARTING_ROOMS for name in modules):
        return False
    rooms = DRAWING_ROOMS if current is None else BUSY_ROOMS
    return current is task or any(name.startswith(rooms) for name in modules)


interrupts = Interrupts()

INTERRUPT_SECONDS = 1.0  # seconds that a cancellation needs at most to reach the code that asked a question
ENDING_SECONDS = 10.0  # seconds that a question waits at most for the end of a magic that may wait for its answer


async def interrupt() -> None:
    """End the running magic, as Interrupt does; return if no magic runs, so that only the question is refused.

    For a Ctrl-C during `input()`, which stops the loop and has Python's own SIGINT handler.

    The magic's task gets a CancelledError, and ends with a KeyboardInterrupt.
    """
    if interrupts.interrupt():
        await asyncio.sleep(INTERRUPT_SECONDS)


async def let_end() -> None:
    """Wait for the end of a magic that is being interrupted, so that it asks no more questions.

    Raises CancelledError if the caller ends with the magic.
    """
    if (ending := interrupts.ending) is not None:
        await asyncio.wait([ending], timeout=ENDING_SECONDS)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Let Interrupt end this block and not the magic: for work that runs until the user stops it."""
    task = asyncio.current_task()
    try:
        yield
    except asyncio.CancelledError:
        if task is None or not interrupts.forgive(task):
            raise
        task.uncancel()


# How a magic's coroutine runs: awaited by the cell, nested in it, or for another thread.

T = TypeVar("T")

FORKED = (
    "%mcp works in the process of the kernel; this one is a forked child. Connect in the child: "
    "`async with mcp_magic.Host() as host: await host.connect(...)`, or start it with "
    '`multiprocessing.get_context("spawn")`.'
)

_home: asyncio.AbstractEventLoop | None = None
_process: int | None = None  # the one that runs the home loop


def home_loop(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs the cells, or None while unknown; an argument sets it."""
    global _home, _process
    if loop is not None and loop is not _home:
        _home, _process = loop, os.getpid()
        _wake_on_signals(loop)
    return _home


_wakeups: list[tuple[asyncio.AbstractEventLoop, socket.socket, socket.socket]] = []  # of the home loop, at most one


def _wake_on_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let a signal wake a sleeping loop, so that Interrupt also ends `await connection.call(...)` at once.

    ipykernel's handler schedules the cancellation with `IOLoop.add_callback`, which does not wake the loop when a
    signal handler calls it: the cell would end only when the loop next has work.
    """
    if IN_BROWSER or threading.current_thread() is not threading.main_thread():
        return
    previous = signal.set_wakeup_fd(-1)
    if previous != -1 and previous not in [wakeup.fileno() for _, _, wakeup in _wakeups]:
        signal.set_wakeup_fd(previous)  # belongs to other code, for example asyncio
        return
    while _wakeups:
        former, *ends = _wakeups.pop()
        with suppress(NotImplementedError):
            former.remove_reader(ends[0])
        for end in ends:
            end.close()
    woken, wakeup = socket.socketpair()
    _wakeups.append((loop, woken, wakeup))
    for end in (woken, wakeup):
        end.setblocking(False)
    with suppress(NotImplementedError):  # a loop without readers (Windows' proactor) wakes on its own
        loop.add_reader(woken, woken.recv, 4096)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)


ON_TRIO = "%mcp runs on asyncio, and this cell runs on trio; `%autoawait asyncio` goes back."


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`. Interrupt cancels it and raises KeyboardInterrupt here."""
    __tracebackhide__ = True
    if running_loop() is None:
        work.close()
        raise CommandError(ON_TRIO)
    task = asyncio.ensure_future(work)
    home_loop(task.get_loop())
    with interrupting(task):
        return await task


@contextmanager
def interrupting(task: asyncio.Task[Any]) -> Iterator[None]:
    """Let Interrupt cancel a task within this block, which then raises KeyboardInterrupt."""
    message = ""
    try:
        with interrupts.cancelling(task):
            yield
    except asyncio.CancelledError as error:
        if not interrupts.was_interrupted(task):
            raise
        message = str(error)
    else:  # a signal in the task's last step is too late to cancel it, but must still end the user's loop
        if not interrupts.was_interrupted(task):
            return
    # Not from the context: a nested loop steps its tasks in an except block, which would be it.
    raise on_one_line(KeyboardInterrupt(), message or "interrupted") from None


def run_cell(cell: Coroutine[Any, Any, T]) -> T:
    """Run a cell that awaits, in a terminal. Ctrl-C cancels it; IPython's own runner would leave its calls pending."""
    loop = get_asyncio_loop()  # type: ignore[no-untyped-call]
    task = loop.create_task(cell)
    with interrupts.cancelling(task):
        return loop.run_until_complete(task)  # type: ignore[no-any-return]


def run_nested(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end from synchronous code, on the loop that runs the cells.

    Raises KeyboardInterrupt if the user interrupted; the work is cancelled; CommandError if this browser cannot wait
    within a function.
    """
    try:
        if _process not in (None, os.getpid()):
            raise CommandError(FORKED)
        loop = _loop_of_this_thread()
    except CommandError:
        work.close()
        raise
    if loop is None:
        home = home_loop()
        assert home is not None
        return hand_over(work, home)
    home_loop(loop)
    task = loop.create_task(work)
    with interrupting(task):
        return loop.run_until_complete(task)


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    """Return a loop that this thread can run until a task is done; None if the loop belongs to another thread."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        if threading.current_thread() is not threading.main_thread() and _home is not None and _home.is_running():
            return None
        # terminal IPython between awaits: the sessions live on its persistent loop
        return get_asyncio_loop()  # type: ignore[no-any-return, no-untyped-call]
    if IN_BROWSER:
        from pyodide.ffi import can_run_sync

        if can_run_sync():  # the browser can suspend WebAssembly (JSPI)
            return loop
        raise CommandError(
            "this browser cannot wait within a function or a comprehension. Write the line at the top of a cell, "
            "or `await host[...].call(...)` in an async function."
        )
    import nest_asyncio2

    nest_asyncio2.apply(loop)
    return loop
