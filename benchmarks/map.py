"""`Host.map` against `asyncio.gather` with the best fixed semaphore on the bare SDK, and against limits."""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks import servers
from benchmarks.timing import Pairs, Result, at_most, compared, not_measured
from mcp_magic._host import Host
from mcp_magic.config.specs import StdioSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp import Client

__all__ = ["run"]

SERVER = Path(__file__).with_name("map_server.py")

STDIO = StdioSpec(command=sys.executable, args=(str(SERVER),))

HTTP = ("--transport", "http", "--port", "0")

RATE = 100
"""Calls a second that a server with a limit takes."""

GOAL_STDIO, GOAL_HTTP, GOAL_SESSIONS, GOAL_WORKERS, GOAL_JOURNAL, GOAL_LIMIT = 1.25, 1.25, 1.3, 1.5, 1.4, 1.25
GOAL_MB, GOAL_REFUSED = 15.0, 5.0

REPEATS = 3

FIXED = (4, 16, 64)
"""The numbers of calls in flight among which the best is looked for; 256 was slower everywhere."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure what maps cost."""
    return asyncio.run(_run(quick))


async def _run(quick: bool) -> list[Result]:
    results = [await _stdio(300 if quick else 4_000), await _http(100 if quick else 2_000)]
    results += await _two_processes(20 if quick else 1_000)
    results.append(await _journal(200 if quick else 3_000))
    results.append(await _memory(500 if quick else 20_000))
    rows = 150 if quick else 3_000  # with and without Retry-After at the same time: it is nearly all waiting
    for both in await asyncio.gather(*(_limited(rows, says_when=says) for says in (True, False))):
        results += both
    return results


def _rows(count: int) -> Iterator[dict[str, Any]]:
    return ({"n": n} for n in range(count))


async def _gathered(client: Client, tool: str, count: int, most: int) -> None:
    semaphore = asyncio.Semaphore(most)

    async def call(n: int) -> Any:
        async with semaphore:
            return (await client.call_tool(tool, {"n": n})).structured_content

    answers = await asyncio.gather(*(call(n) for n in range(count)))
    assert answers == [{"result": 2 * n} for n in range(count)]


async def _compared(host: Host, client: Client, tool: str, count: int) -> tuple[Pairs, int]:
    """Time maps and hand-written gathers in turns; the gather with the number in flight that is best on a tenth."""
    best = {most: await _seconds(_gathered(client, tool, count // 10, most)) for most in FIXED}
    most = min(best, key=best.__getitem__)
    taken = await _in_turns(lambda: _mapped(host, tool, count), lambda: _gathered(client, tool, count, most))
    return taken, most


async def _in_turns(ours: Callable[[], Any], theirs: Callable[[], Any]) -> Pairs:
    """Time two that each take many seconds. The garbage collector runs in them: it is part of a map of many rows."""
    taken = Pairs()
    for number in range(REPEATS):
        sides = [(ours, taken.ours), (theirs, taken.theirs)]
        for do, seconds in reversed(sides) if number % 2 else sides:
            seconds.append(await _seconds(do()))
    return taken


async def _mapped(host: Host, tool: str, count: int, **options: Any) -> Any:
    mapped = await host.map(f"m:{tool}", _rows(count), **options)
    assert mapped.stats["done"] == count, mapped
    return mapped


async def _seconds(work: Any) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _stdio(count: int) -> Result:
    async with Host() as host, servers.bare(STDIO) as client:
        await host.connect_spec(STDIO, "m")
        taken, most = await _compared(host, client, "double", count)
    return compared(
        f"map, {count:,} rows, stdio", taken, goal=GOAL_STDIO, unit="s", note=f"gather with {most} in flight"
    )


async def _http(count: int) -> Result:
    with servers.http(SERVER, *HTTP) as spec:
        async with Host() as host, servers.bare(spec) as client:
            await host.connect_spec(spec, "m")
            taken, most = await _compared(host, client, "slow", count)
    return compared(
        f"map, {count:,} rows of 50 ms, http", taken, goal=GOAL_HTTP, unit="s", note=f"gather with {most} in flight"
    )


async def _two_processes(count: int) -> list[Result]:
    """Measure maps over two servers that compute at the same time, against a gather over two bare sessions."""
    results = []
    async with Host() as host, servers.bare(STDIO) as first, servers.bare(STDIO) as other:
        await host.connect_spec(STDIO, "m")

        async def halves(*clients: Client) -> None:
            await asyncio.gather(*(_gathered(client, "busy", count // 2, 16) for client in clients))

        async def with_a_new_one() -> None:
            async with servers.bare(STDIO) as second:
                await halves(first, second)

        async def measure(name: str, goal: float, bare: Callable[[], Any], **options: Any) -> None:
            await _mapped(host, "busy", 101, **options)  # more than a chunk: each worker opens its session
            taken = await _in_turns(lambda: _mapped(host, "busy", count, **options), bare)
            results.append(compared(name, taken, goal=goal, unit="s", note="gather over two bare sessions"))

        name = f"map, {count:,} rows of 5 ms of work, two"
        await measure(f"{name} sessions", GOAL_SESSIONS, with_a_new_one, sessions=2)
        with _dask() as cluster:
            if cluster is None:
                results.append(not_measured(f"{name} Dask workers", "no Dask is installed"))
            else:
                await measure(f"{name} Dask workers", GOAL_WORKERS, lambda: halves(first, other), on=cluster)
    return results


@contextmanager
def _dask() -> Iterator[Any]:
    """Run two workers of Dask and yield a client to them, or None without Dask."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        yield None
        return
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


async def _journal(count: int) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        journals = (Path(folder) / f"{number}.sqlite" for number in itertools.count())
        async with Host() as host:
            await host.connect_spec(STDIO, "m")
            taken = await _in_turns(
                lambda: _mapped(host, "double", count, journal=next(journals)), lambda: _mapped(host, "double", count)
            )
    return compared(f"map, {count:,} rows with a journal", taken, goal=GOAL_JOURNAL, unit="s", note="of without")


async def _memory(count: int) -> Result:
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        async with Host() as host:
            await host.connect_spec(STDIO, "m")
            await _mapped(host, "double", 200)
            before = process.memory_info().rss
            mapped = await _mapped(host, "double", count, journal=Path(folder) / "journal.sqlite", keep=False)
            more = (process.memory_info().rss - before) / 1e6
    rate = mapped.stats["rate"]
    return at_most(f"map, {count:,} rows of a generator, not kept", more, GOAL_MB, "MB", f"{rate:,.0f} calls/s")


async def _limited(rows: int, *, says_when: bool) -> list[Result]:
    """Measure a map against the time that the limit allows, which is the same on every machine."""
    options = ["--rate", str(RATE), *([] if says_when else ["--silent"])]
    with servers.http(SERVER, *HTTP, *options) as spec:
        async with Host() as host:
            await host.connect_spec(spec, "m")
            started = time.perf_counter()
            mapped = await _mapped(host, "double", rows)
            seconds = time.perf_counter() - started
    late = 100 * sum(when > 2 for when in mapped.refusals) / rows
    name = f"map, {rows:,} rows at {RATE}/s, {'with' if says_when else 'without'} Retry-After"
    note = f"against rows/rate; {mapped.stats['refused']} refused"
    return [
        compared(name, Pairs([seconds], [rows / RATE]), goal=GOAL_LIMIT, unit="s", note=note),
        at_most(f"{name}: refused after 2 s", late, GOAL_REFUSED, "%"),
    ]
