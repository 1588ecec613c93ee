"""Jobs: calls that go on in the background, as tasks of a server or in this kernel.

A job is a call that a task of the kernel awaits, with or without a task of the server, so consent, questions and
results are those of any call. Ending the wait leaves a task of the server running; only `cancel()` tells the server.

A file keeps the ids of the servers' tasks, so that jobs can be resumed after a restart of the kernel. It has no
arguments and no results. It names a server by its identity, as consent does: another server under the same name must
not learn the ids of tasks.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcp_magic._text import duration, join_names, plural
from mcp_magic.calls.call import Call, CallObserver
from mcp_magic.calls.task import FINAL
from mcp_magic.display.document import Bold, Part, error_label, joined, parts_text, show_parts, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import (
    ArgumentsError,
    CallCancelledError,
    ConnectError,
    MCPMagicError,
    ProtocolError,
    SessionClosedError,
)
from mcp_magic.flight.progress import ProgressMeter, Stopwatch
from mcp_magic.loops import on_own_loop, on_own_loop_unless_closed, soon_on, together
from mcp_magic.protocol import without_context
from mcp_magic.session.calls import UNKNOWN
from mcp_magic.session.connection import Connection

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Coroutine, Generator, Iterator

    from mcp_magic.calls.call import Server
    from mcp_magic.calls.task import TaskState
    from mcp_magic.results.results import ToolResult
    from mcp_magic.session.services import HoldsConnections

JobStatus = Literal["working", "input_required", "completed", "failed", "cancelled", "lost"]

EVENTS = 200  # latest changes of a job that are kept

MAX_ENDED = 100  # jobs that are kept after their end, with their results

START_SECONDS = 1.0  # seconds that the start of a job waits until the server has answered

MESSAGE = 200  # characters shown of a status message

HERE = "the server does not make it a task: it ends with the session or the kernel"

_SESSION_ERRORS = (SessionClosedError, ConnectError)  # errors after which a task goes on at its server

SIGNS = {"working": "●", "input_required": "●", "completed": "✓", "failed": "✗", "cancelled": "✗", "lost": "○"}


class JobEvent(NamedTuple):
    """A change of a job."""

    time: float  # of `time.time()`
    status: JobStatus
    message: str  # what the server says, secrets masked


class _Start:
    """The start of a job: its call is sent, and the server answers for the first time."""

    def __init__(self) -> None:
        self.call, self.answer = asyncio.Event(), asyncio.Event()

    async def wait(self, event: asyncio.Event, work: asyncio.Task[Any]) -> None:
        """Wait for one of the two, or for the end of the work."""
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()


class Job:
    """A call that goes on in the background: `await job` gives its result, `job.cancel()` ends it.

    It has more attributes than other classes: what a person reads of a job, and the work that follows it.

    Attributes:
        number: Its number in this kernel.
        tool: The name of its tool.
        task: The id of the server's task; "" if the call runs in this kernel.
        status: `"working"`, `"input_required"`, `"completed"`, `"failed"`, `"cancelled"`, or `"lost"`. A lost job may
            still run at the server, but nothing follows it (`%mcp jobs --resume`).
        message: What the server says about it.
        events: The changes of `status` and `message`, the latest 200.
        result: The `ToolResult`, also of a tool that reports an error; None before the end.
        error: Why there is no result, or None.
        note: A remark, or "".
    """

    def __init__(
        self,
        number: int,
        connection: Connection,
        tool: str,
        journal: Journal,
        *,
        task: str = "",
        began: float | None = None,
    ) -> None:
        self.number = number
        self.tool = tool
        self.task = task
        self.result: ToolResult | None = None
        self.error: BaseException | None = None
        self.note = ""
        self.is_cancelling = False
        self.status: JobStatus = "working"
        self.message = ""
        self.events: deque[JobEvent] = deque(maxlen=EVENTS)
        self._meter = ProgressMeter()
        self._stopwatch = Stopwatch(began)
        self._task_state: TaskState | None = None
        self._connection = connection
        self._journal = journal
        self._work: asyncio.Task[ToolResult] | None = None
        self._start = _Start()
        self._watchers: list[Callable[[], None]] = []

    @property
    def server(self) -> str:
        """The name of its server."""
        return self._connection.name

    @property
    def began(self) -> float:
        """When it began (`time.time()`)."""
        return self._stopwatch.began

    # What happens to it

    def run(self, call: Coroutine[Any, Any, ToolResult]) -> None:
        """Run the call, or the wait for its task, in the background."""
        self.error, self._task_state = None, None
        self._stopwatch.go_on()
        self._work = asyncio.create_task(call, name=f"mcp_magic job {self.number}")
        self._work.add_done_callback(self._conclude)
        self._change("working")

    async def started(self) -> None:
        """Wait until the call has been sent, and then a moment for the first answer. Interrupting it cancels the job.

        Raises:
            MCPMagicError: The call failed in that time.
        """
        try:
            assert self._work is not None
            await self._start.wait(self._start.call, self._work)
            await self.answered()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.error is not None:
            with without_context:
                raise self.error

    async def answered(self) -> None:
        """Wait a moment for what the server says first."""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                assert self._work is not None
                await self._start.wait(self._start.answer, self._work)

    def call_sent(self) -> None:
        """Note that the call goes out."""
        self._start.call.set()

    def task_changed(self, state: TaskState) -> None:
        """Update the job by the state of the server's task."""
        if not self._start.answer.is_set():
            self.task = state.id
            self.note = self._journal.add(self._connection, self.tool, self.task, self.began)
        self._start.answer.set()
        self._task_state = state
        message = one_line(self._connection.place.masked(state.message), MESSAGE)
        if state.status in ("working", "input_required") and (state.status, message) != (self.status, self.message):
            self._change(state.status, message)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Take the progress of a call that is no task."""
        self._meter.note(progress, total, message, time.monotonic())
        if message is not None:
            self.message = one_line(self._connection.place.masked(message), MESSAGE)
        self._tell()

    def _conclude(self, work: asyncio.Task[ToolResult]) -> None:
        self._stopwatch.stop()
        status: JobStatus
        if work.cancelled():
            goes_on = bool(self.task) and not self.is_cancelling
            status = "lost" if goes_on else "cancelled"
            words = "no longer followed; `%mcp jobs --resume` takes it up again" if goes_on else "cancelled"
            self.error = CallCancelledError(f"{self.title}: {words}.")
        elif (error := work.exception()) is None:
            status, self.result = "completed", work.result()
        else:
            self.error = error
            status = "cancelled" if isinstance(error, CallCancelledError) else "failed"
            is_final = self._task_state is not None and self._task_state.status in FINAL
            if self.task and not is_final and _may_go_on(error):
                status = "lost"
        if self.task and status != "lost":
            self._journal.forget(self.task, self._connection.spec.identity)
        self._change(status)

    def _change(self, status: JobStatus, message: str | None = None) -> None:
        self.status = status
        if message is not None:
            self.message = message
        self.events.append(JobEvent(time.time(), status, self.message))
        text = " · ".join(filter(None, (self.status.replace("_", " "), self.message)))
        self._connection.publish("job", f"{self.number}: {self.tool}", text, ended=self.ended)
        self._tell()

    def _tell(self) -> None:
        for callback in self._watchers:
            callback()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` with each change."""
        self._watchers.append(callback)

    # What you do with it

    @property
    def title(self) -> str:
        """`"server:tool"`."""
        return f"{self.server}:{self.tool}"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that runs it, or None after its end."""
        return None if self._work is None or self.ended else self._work.get_loop()

    @property
    def ended(self) -> bool:
        """Whether it has ended, or nothing follows it."""
        return self._work is None or self._work.done()

    @property
    def seconds(self) -> float:
        """How long it has taken so far, or in all."""
        return self._stopwatch.seconds

    def cancel(self) -> None:
        """Cancel it, and tell the server. Idempotent. A server may still finish what it has begun."""
        if not self.ended and not self.is_cancelling:
            assert self._work is not None
            self.is_cancelling = True
            soon_on(self.loop, self._work.cancel)

    def leave(self) -> None:
        """Stop following it. A task goes on at the server; any other call is cancelled."""
        if self._work is not None:
            soon_on(self.loop, self._work.cancel)

    @on_own_loop
    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most some seconds; return whether it has ended."""
        assert self._work is not None
        if not self.ended:  # the loop may have stopped after its end
            await asyncio.wait({self._work}, timeout=seconds)
        return self.ended

    def __await__(self) -> Generator[Any, None, ToolResult]:
        """Wait for the result. Interrupting the wait leaves the job going.

        Raises:
            ToolError: The tool reported an error.
            CallCancelledError: It was cancelled.
            SessionError: It failed, or the session has ended.
        """
        yield from self.wait().__await__()
        if self.error is not None:
            with without_context:
                raise self.error
        assert self.result is not None
        return self.result.raise_for_error()

    def __repr__(self) -> str:
        return f"<Job {self.number} {self.title}: {self._words()}>"

    def _words(self) -> str:
        status = self.status.replace("_", " ")
        if self.result is not None and self.result.is_error:
            status = "completed with an error"
        figures = self._meter.figures(running=not self.ended)
        message = "" if self.ended else self.message
        return " · ".join(filter(None, (status, duration(self.seconds), *figures, message)))

    _repr_mimebundle_ = bundle = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: a line, a bar while it runs, and the result."""
        sign = "✗" if self.result is not None and self.result.is_error else SIGNS[self.status]
        line = Part.line(f"{sign} ", Bold(one_line(self.title, 120)), f" · job {self.number} · {self._words()}")
        lines = [line]
        if not self.ended:
            share = self._meter.share
            value = {} if share is None else {"value": f"{share:.3f}"}
            label = {"aria-label": one_line(self.title, 120)}
            lines.append(Part("", tag("progress", "", max="1", style="width:16em", **value, **label)))
            where = HERE
            if self.task:
                ttl = None if self._task_state is None else self._task_state.ttl
                where = "a task of the server" + (f", which keeps it for {duration(ttl)}" if ttl else "")
            lines.append(Part.note(where))
        lines.append(Part.note(self.note))
        if self.error is not None and self.status != "cancelled":
            text = shorten(str(self.error), 500)
            lines.append(Part(text, tag("p", joined([error_label(self.status), " ", text]))))
        parts = [Part.stack(*lines)]
        return parts if self.result is None else parts + self.result.parts()


def _may_go_on(error: BaseException) -> bool:
    """Whether a task may go on at its server although following it has failed."""
    if isinstance(error, ProtocolError):
        return error.code != UNKNOWN
    return isinstance(error, _SESSION_ERRORS)


class Following(CallObserver):
    """Tells a job what happens to its call, whose task goes on at the server when the job is left."""

    shows_progress = True

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def leaves_task(self) -> bool:
        """Whether the task goes on: you have not cancelled the job."""
        return not self._job.is_cancelling

    def sent(self, call: Call) -> None:
        """Tell the job."""
        self._job.call_sent()

    def task_changed(self, call: Call, state: TaskState) -> None:
        """Tell the job."""
        self._job.task_changed(state)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell the job."""
        await self._job.progressed(progress, total, message)


class KeptTask(CallObserver):
    """Keeps the task that the server makes of a call for as long as the call waits for it."""

    def __init__(self, jobs: Callable[[], Jobs]) -> None:
        self._jobs = jobs
        self._task = ""

    def task_changed(self, call: Call, state: TaskState) -> None:
        """Keep a new task."""
        if not self._task:
            self._task = state.id
            self._jobs().keep(call, state.id)

    def ended(self, call: Call, outcome: object) -> None:
        """Drop the task."""
        if self._task:
            self._jobs().let_go(call, self._task, outcome)


class Jobs:
    """The jobs of a host: `host.jobs[1]`, iteration, `len(host.jobs)`.

    Args:
        host: The host.
        file: The file that keeps the ids of tasks; by default one in Jupyter's data directory.
    """

    def __init__(self, host: HoldsConnections, file: Path | None = None) -> None:
        self._held = host
        self._journal = Journal(file)
        self._jobs: dict[int, Job] = {}
        self._latest = 0
        self._waited: set[tuple[str, str]] = set()  # the server and the id of each task that a call waits for

    def __getitem__(self, number: int) -> Job:
        if number in self._jobs:
            return self._jobs[number]
        numbers = f"There are: {join_names(map(str, self._jobs), 20)}" if self._jobs else ""
        raise ArgumentsError(f"no job {number}. {numbers or '`%mcp call SERVER:TOOL --background` starts one.'}")

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def __repr__(self) -> str:
        return f"<Jobs: {join_names(f'{job.number} {job.title} ({job.status})' for job in self)}>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the sessions."""
        return self._held.loop

    @on_own_loop_unless_closed
    async def start(self, call: Call, *observers: CallObserver) -> Job:
        """Start a call in the background, and return once the server has it.

        Raises:
            ArgumentsError: The arguments do not fit the tool's schema; nothing was sent.
            DeniedError: Consent refused the call; nothing was sent.
            SessionError: The session failed.
        """
        assert isinstance(call.connection, Connection)
        job = self._add(call.connection, call.tool)
        job.run(call.connection.caller.call(replace(call, is_shown=False), *observers, Following(job)))
        try:
            await job.started()
        except MCPMagicError:
            self._drop(job)
            raise
        return job

    async def call(self, call: Call, seconds: float, *observers: CallObserver) -> ToolResult | Job:
        """Call a tool and return its result, or the job, once the server has made a task of it and `seconds` are over.

        Interrupting it cancels the call. Raises like `start`.
        """
        job = await self.start(call, *observers)
        try:
            while not await job.wait(seconds):
                if job.task:
                    return job
        except asyncio.CancelledError:
            job.cancel()
            raise
        self._drop(job)  # it has ended like any other call
        if job.error is not None:
            with without_context:
                raise job.error
        assert job.result is not None
        return job.result

    def keep(self, call: Call, task: str) -> None:
        """Keep the task of a call that waits for it, to resume it if the kernel or the session ends first."""
        server = call.connection
        self._journal.add(server, call.tool, task, time.time())
        self._waited.add((server.name, task))

    def let_go(self, call: Call, task: str, outcome: object) -> None:
        """Forget the task of a call that has ended, unless the session was lost."""
        self._waited.discard((call.connection.name, task))
        if not isinstance(outcome, _SESSION_ERRORS):
            self._journal.forget(task, call.connection.spec.identity)

    @on_own_loop_unless_closed
    async def resume(self) -> list[str]:
        """Follow the tasks in the file that nothing follows; return remarks about those that cannot be followed."""
        notes: list[str] = []
        followed = {(job.server, job.task): job for job in self if job.task}
        resumed: list[Job] = []
        elsewhere = 0
        for entry in self._journal.entries():
            job = followed.get((entry.server, entry.task))
            if (job is not None and not job.ended) or (entry.server, entry.task) in self._waited:
                continue
            if _is_elsewhere(entry):
                elsewhere += 1
                continue
            connection = self._held.connections.get(entry.server)
            title = f"{entry.server}:{entry.tool}"
            if not isinstance(connection, Connection):
                notes.append(f"{title}: connect {entry.server} first, then `%mcp jobs --resume`")
                continue
            if entry.place != connection.spec.identity:
                notes.append(f"{title}: {entry.server} is another server now; its job belongs to the one before")
                continue
            job = job or self._add(connection, entry.tool, task=entry.task, began=entry.began)
            call = Call(connection, entry.tool, {}, is_shown=False)
            job.run(connection.caller.resume(call, entry.task, Following(job)))
            resumed.append(job)
        await together(job.answered() for job in resumed)
        if elsewhere:
            notes.append(f"{plural(elsewhere, 'jobs')} of another kernel that is running")
        return notes

    @property
    def unfollowed(self) -> int:
        """How many tasks the file has that no job of this kernel follows, nor another running kernel."""
        followed = self._waited | {(job.server, job.task) for job in self if not job.ended}
        rest = [entry for entry in self._journal.entries() if (entry.server, entry.task) not in followed]
        return sum(not _is_elsewhere(entry) for entry in rest)

    def leave(self) -> None:
        """Stop following all jobs."""
        for job in self:
            job.leave()
        self._journal.close()

    def _drop(self, job: Job) -> None:
        """Remove a job that has failed to start or was awaited; its number is free again if it is the last."""
        del self._jobs[job.number]
        self._latest -= job.number == self._latest

    def _add(self, connection: Connection, tool: str, **options: Any) -> Job:
        ended_jobs = [job.number for job in self if job.ended]
        for number in ended_jobs[: max(0, len(ended_jobs) - MAX_ENDED + 1)]:
            del self._jobs[number]
        self._latest += 1
        self._jobs[self._latest] = job = Job(self._latest, connection, tool, self._journal, **options)
        return job


# The file with the ids of tasks: no arguments, no results, no addresses.

_OLD_DAYS = 30  # days after which an entry is dropped


class Entry(NamedTuple):
    """A task in the file; `place` is the identity of its server, a digest, and `process` the kernel that follows it."""

    task: str
    server: str
    place: str
    tool: str
    began: float
    process: int


def _is_elsewhere(entry: Entry) -> bool:
    """Whether another running kernel follows a task; False where that cannot be found out safely."""
    if os.name != "posix" or entry.process == os.getpid():
        return False
    try:
        os.kill(entry.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def default_file() -> Path:
    """Return the default file, in Jupyter's data directory. Raises OSError where Jupyter has none, as in a browser."""
    try:
        from jupyter_core.paths import jupyter_data_dir
    except ImportError:
        raise OSError("there is no data directory of Jupyter") from None

    return Path(jupyter_data_dir()) / "mcp_magic" / "jobs.sqlite"


class Journal:
    """The tasks of all kernels of this user that have not ended, in a SQLite file that only the user can read.

    Where the file cannot be written, jobs run all the same, and cannot be taken up later.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._path = file
        self._opened: sqlite3.Connection | None = None

    def add(self, server: Server, tool: str, task: str, began: float) -> str:
        """Add a task that this kernel follows; return why that failed, or ""."""
        entry = Entry(task, server.name, server.spec.identity, tool, began, os.getpid())
        try:
            self._run("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)", entry)
        except OSError as error:
            return f"it cannot be taken up after a restart of the kernel: {error}"
        return ""

    def forget(self, task: str, place: str) -> None:
        """Drop a task of a server that has ended."""
        with suppress(OSError):
            self._run("DELETE FROM jobs WHERE task = ? AND place = ?", (task, place))

    def entries(self) -> list[Entry]:
        """Return the tasks, the oldest first."""
        try:
            if self._opened is None and not (self._path or default_file()).exists():
                return []
            return [Entry(*row) for row in self._run("SELECT * FROM jobs ORDER BY began")]
        except OSError:
            return []

    def close(self) -> None:
        """Close the file, until it is used again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Run a statement. Raises OSError if that fails for whatever reason."""
        try:
            import sqlite3
        except ImportError:  # in a browser it is a package of its own
            raise OSError("this Python has no SQLite") from None
        try:
            if self._opened is None:
                self._opened = self._open(sqlite3.connect)
            return self._opened.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise OSError(f"{type(error).__name__}: {error}") from None

    def _open(self, connect: Callable[..., sqlite3.Connection]) -> sqlite3.Connection:
        from mcp_magic.sqlite import BoundedConnection, only_stores

        path = self._path or default_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with ExitStack() as opening:
            opened = connect(path, isolation_level=None, timeout=0.5, factory=BoundedConnection)
            opening.callback(opened.close)
            if not only_stores(opened, ("jobs",)):
                raise OSError(f"{path} has more than plain tables; move it away, and a new one is made")
            opened.execute("PRAGMA journal_mode=WAL")
            opened.execute("PRAGMA synchronous=NORMAL")  # outlives a killed kernel; a map may write for each row
            opened.execute(
                "CREATE TABLE IF NOT EXISTS jobs (task TEXT, server TEXT, place TEXT, tool TEXT, began REAL, "
                "process INTEGER, PRIMARY KEY (task, place))"
            )
            opened.execute("DELETE FROM jobs WHERE began < ?", (time.time() - _OLD_DAYS * 86_400,))
            opening.pop_all()
        return opened
