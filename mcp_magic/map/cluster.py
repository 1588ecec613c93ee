"""Maps beyond one machine: on the workers of a Dask cluster, or inside a partition of Dask, Ray or Spark.

Each worker process opens its own sessions, once. Rows go in chunks: a task a row costs four times as much. The rate of
a map is divided among the workers, and each adapts its share to what the server takes.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any

from mcp_magic.auth.login import LogIns
from mcp_magic.auth.session import authenticator
from mcp_magic.calls.caller import Caller
from mcp_magic.config.specs import InProcessSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.errors import ArgumentsError, MCPMagicError, MissingDependencyError, SessionError
from mcp_magic.map.execution import Outcome, outcome_of
from mcp_magic.map.pace import Pace
from mcp_magic.map.plan import MapOptions, Step
from mcp_magic.map.rows import PerRow
from mcp_magic.map.run import map_steps
from mcp_magic.session.connection import Connection
from mcp_magic.session.services import Services
from mcp_magic.session.supervisor import State
from mcp_magic.telemetry.spans import MeasuredCall, span_taps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Mapping, Sequence
    from concurrent.futures import Future

    import pandas as pd

    from mcp_magic.config.specs import Spec

CHUNK = 50  # maximum number of rows of a task

CHUNKS = 3  # tasks that wait at each worker


class _Sessions:
    """The sessions of this process, on an event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._opening = asyncio.Lock()
        self._open: list[tuple[Any, Connection]] = []  # with the targets: the `repr` of specs that differ can be equal
        self.services = Services(
            Caller(observers=lambda call, others: (MeasuredCall(),)),
            authenticate=authenticator(LogIns()),
            taps=span_taps,
        )
        self.services.trace.limit(0, 0)  # nothing here could show it
        self.paces: dict[str, Pace] = {}
        threading.Thread(target=self._loop.run_forever, name="mcp_magic sessions", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start a coroutine on the loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def step(self, target: Any, tool: str, arguments: Any) -> Step:
        """Return a step over the session to a target, which is opened if it is not open."""
        async with self._opening:
            connection = next((connection for place, connection in self._open if place == target), None)
            if connection is None or connection.state not in (State.OPEN, State.RECONNECTING):
                spec, name = resolve_target(target)
                connection = Connection(name, spec, self.services)
                await connection.open()
                self._open = [pair for pair in self._open if pair[0] != target] + [(target, connection)]
        return Step("", connection, await connection.find_tool(tool), arguments)

    def close(self) -> None:
        """Close all sessions and end the servers that were started."""

        async def close() -> None:
            await asyncio.gather(*(connection.close() for _, connection in self._open))

        self.run(close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)


@cache
def _sessions(process: int) -> _Sessions:
    return _Sessions()


def map_partition(
    target: Any, tool: str, frame: pd.DataFrame, arguments: Mapping[str, Any] | None = None, /, **options: Any
) -> pd.DataFrame:
    """Call a tool for each row of a DataFrame, over a session that this process opens once.

    For `DataFrame.map_partitions` of Dask, and `map_batches` or `mapInPandas` of Ray and Spark.

    Args:
        target: What `Host.connect` takes: a URL, a command as a list, a file, a spec.
        tool: The name of the tool on this server.
        frame: The rows.
        arguments: Arguments by name: a value for all rows, or `col(NAME)`; without any, the columns that are named like
            parameters.
        **options: As for `Host.map`.

    Returns:
        The columns of the frame, those of the answers, `error`, `attempts` and `seconds`.
    """
    sessions = _sessions(os.getpid())

    async def run() -> pd.DataFrame:
        step = await sessions.step(target, tool, dict(arguments or {}))
        return (await map_steps([step], frame, sessions.services, **options).run()).df

    table: pd.DataFrame = sessions.run(run()).result()
    return table


async def _run_chunk(
    spec: Spec, tool: str, calls: Sequence[Mapping[str, Any]], options: MapOptions, once: str
) -> list[Outcome] | str | None:
    """Make the calls of a chunk, on a worker.

    A coroutine, because Dask's profiler samples the thread of any other task, which costs a tenth of a row of 5 ms.

    Returns the outcomes, or why nothing was called, or None: Dask starts the chunk again after it lost its worker, and
    its calls may have run.

    Args:
        spec: The server.
        tool: The tool.
        calls: The arguments of each call, checked and approved by the client.
        options: How it runs; the rate is this worker's share.
        once: A name for this chunk; "" if its calls may be made twice.
    """
    if once:
        import distributed

        event: Any = distributed.Event(once)  # type: ignore[no-untyped-call]
        if await event.is_set():
            return None
        await event.set()
    sessions = _sessions(os.getpid())

    async def run() -> list[Outcome]:
        arguments = PerRow("row", lambda row, _: row["arguments"])
        step = await sessions.step(spec, tool, arguments)
        pace = sessions.paces.setdefault(f"{spec!r} {options.rate}", Pace.of(spec, options.rate))
        rows = [{"arguments": call} for call in calls]
        mapped = map_steps([step], rows, sessions.services, pace=pace, **vars(options))
        await mapped.run()
        return [outcome_of(item, mapped.problem) for item in mapped.items]

    try:
        outcomes: list[Outcome] = await asyncio.wrap_future(sessions.run(run()))
    except MCPMagicError as error:
        return str(error)
    return outcomes


class Cluster:
    """The workers of a Dask client, for one map.

    Args:
        client: A `distributed.Client`.

    Attributes:
        waiting: The number of chunks that are sent before one is done.

    Raises:
        ArgumentsError: The object is no Dask client.
        MissingDependencyError: `distributed` is not installed.
    """

    def __init__(self, client: Any) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingDependencyError("--on needs Dask: pip install 'mcp-magic[dask]'") from None
        if not isinstance(client, Client):
            raise ArgumentsError(f"--on takes a distributed.Client, not {type(client).__name__}")
        self._client: Any = client
        self._name = f"mcp-map-{uuid.uuid4().hex[:8]}"
        threads = [worker["nthreads"] for worker in self._client.scheduler_info(n_workers=-1)["workers"].values()]
        self._workers, self._threads = max(len(threads), 1), max(sum(threads), 1)
        self._count = 0
        self.waiting = 1

    async def prepare(self, step: Step, options: MapOptions, *, may_repeat: bool) -> None:
        """Say what the workers call, and let them close their sessions at their end.

        Raises:
            ArgumentsError: The server lives in this kernel, or an option makes no sense with workers.
        """
        from distributed import WorkerPlugin

        if options.sessions > 1:
            raise ArgumentsError("--sessions does not work with --on: each worker has one session")
        spec = step.connection.spec
        if isinstance(spec, InProcessSpec):
            name = step.connection.name
            raise ArgumentsError(
                f"--on: workers cannot reach {name}, a server in this kernel; use a server with a command or a URL"
            )

        class CloseSessions(WorkerPlugin):
            name = "mcp_magic"
            idempotent = True  # a second map on this cluster keeps the sessions of the first

            def teardown(self, worker: Any) -> None:
                _sessions(os.getpid()).close()
                _sessions.cache_clear()

        self._spec, self._tool, self._may_repeat = spec, step.tool.name, may_repeat
        chunks = min(self._threads, self._workers * CHUNKS, options.concurrency)  # that run at the same time
        self.waiting = chunks if chunks == options.concurrency else self._workers * CHUNKS
        self._options = MapOptions(
            concurrency=options.concurrency // chunks, rate=options.rate / self._workers, timeout=options.timeout
        )
        await self._wait(self._client.register_plugin, CloseSessions())

    def size(self, rows: int) -> int:
        """Return how many of so many rows are in a chunk."""
        return min(CHUNK, max(1, rows // (self._workers * 4)))

    async def run(self, calls: Sequence[Mapping[str, Any]]) -> list[Outcome] | None:
        """Return the outcomes of a chunk; None if its worker was lost in the middle.

        Raises:
            SessionError: The worker has no session, and nothing was called.
        """
        from distributed import KilledWorker

        self._count += 1
        once = "" if self._may_repeat else f"{self._name}-{self._count}"
        future = self._client.submit(
            _run_chunk,
            self._spec,
            self._tool,
            list(calls),
            self._options,
            once,
            pure=False,
            key=f"{self._name}-{self._count}",
        )
        event = asyncio.Event()
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(event.set))
        try:
            await event.wait()
            outcomes: list[Outcome] | str | None = await self._wait(future.result)
        except KilledWorker:
            return None
        finally:
            future.cancel()
        if isinstance(outcomes, str):
            raise SessionError(f"a worker called nothing: {outcomes}")
        return outcomes

    async def _wait(self, function: Any, *arguments: Any) -> Any:
        """Call a method of Dask: of an asynchronous client it returns an awaitable, of others it waits."""
        if self._client.asynchronous:
            awaited: Awaitable[Any] = function(*arguments)
            return await awaited
        return await asyncio.to_thread(function, *arguments)
