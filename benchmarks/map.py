"""`Host.map` against `asyncio.gather` with the best fixed semaphore on the bare SDK, and against limits."""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks import servers
from benchmarks.timing import Pairs, Result, at_most, compared
from mcp_magic._host import Host
from mcp_magic.config.specs import StdioSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp import Client

__all__ = ["run"]

SERVER = Path(__file__).with_name("map_server.py")

STDIO = StdioSpec(command=sys.executable, args=(str(SERVER),))

HTTP = ("--transport", "http", "--port", "0")

FIXED = (4, 16, 64)
"""The numbers of calls in flight among which the best is looked for; 256 was slower everywhere."""


def run(*, quick: bool = False) -> list[Result]:
    """Measure what maps cost."""
    return asyncio.run(_run(quick))


async def _run(quick: bool) -> list[Result]:
    results = [await _stdio(300 if quick else 10_000), await _http(100 if quick else 4_000)]
    results.append(await _two_sessions(20 if quick else 3_000))
    results += await _two_workers(20 if quick else 3_000)
    results.append(await _journal(200 if quick else 5_000))
    results.append(await _memory(500 if quick else 50_000))
    limits = [(150, 5.0)] if quick else [(1_000, 12.5), (10_000, 107.0)]
    for rows, goal in limits:  # with and without Retry-After at the same time: it is nearly all waiting
        for both in await asyncio.gather(*(_limited(rows, goal, says_when=says) for says in (True, False))):
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


async def _compared(host: Host, client: Client, tool: str, count: int, repeats: int) -> tuple[Pairs, int]:
    """Time maps and hand-written gathers in turns; the gather with the number in flight that is best on a tenth."""
    best = {most: await _seconds(_gathered(client, tool, count // 10, most)) for most in FIXED}
    most = min(best, key=best.__getitem__)
    taken = await _in_turns(lambda: _mapped(host, tool, count), lambda: _gathered(client, tool, count, most), repeats)
    return taken, most


async def _in_turns(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int = 3) -> Pairs:
    """Time two that each take many seconds. The garbage collector runs in them: it is part of a map of many rows."""
    taken = Pairs()
    for number in range(repeats):
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
        taken, most = await _compared(host, client, "double", count, 3)
    return compared(f"map, {count:,} rows, stdio", taken, goal=1.15, unit="s", note=f"gather with {most} in flight")


async def _http(count: int) -> Result:
    with servers.http(SERVER, *HTTP) as spec:
        async with Host() as host, servers.bare(spec) as client:
            await host.connect_spec(spec, "m")
            taken, most = await _compared(host, client, "slow", count, 2)
    return compared(
        f"map, {count:,} rows of 50 ms, http", taken, goal=1 / 0.9, unit="s", note=f"gather with {most} in flight"
    )


async def _two_sessions(count: int) -> Result:
    async with Host() as host:
        await host.connect_spec(STDIO, "m")
        taken = await _in_turns(lambda: _mapped(host, "busy", count, sessions=2), lambda: _mapped(host, "busy", count))
    return compared(f"map, {count:,} rows of 5 ms of work, two sessions", taken, goal=1 / 1.75, unit="s", note="of one")


async def _two_workers(count: int) -> list[Result]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("map: no Dask, so nothing about its workers", file=sys.stderr)
        return []
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        async with Host() as host:
            await host.connect_spec(STDIO, "m")
            await _mapped(host, "busy", 101, on=client)  # more than a chunk: both workers open their sessions
            taken = await _in_turns(
                lambda: _mapped(host, "busy", count, on=client), lambda: _mapped(host, "busy", count)
            )
    name = f"map, {count:,} rows of 5 ms of work, two Dask workers"
    return [compared(name, taken, goal=1 / 1.7, unit="s", note="of one session")]


async def _journal(count: int) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        journals = (Path(folder) / f"{number}.sqlite" for number in itertools.count())
        async with Host() as host:
            await host.connect_spec(STDIO, "m")
            taken = await _in_turns(
                lambda: _mapped(host, "double", count, journal=next(journals)), lambda: _mapped(host, "double", count)
            )
    return compared(f"map, {count:,} rows with a journal", taken, goal=1.25, unit="s", note="of without")


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
    return at_most(f"map, {count:,} rows of a generator, not kept", more, 15.0, "MB", f"{rate:,.0f} calls/s")


async def _limited(rows: int, goal: float, *, says_when: bool) -> list[Result]:
    options = ["--rate", "100", *([] if says_when else ["--silent"])]
    with servers.http(SERVER, *HTTP, *options) as spec:
        async with Host() as host:
            await host.connect_spec(spec, "m")
            started = time.perf_counter()
            mapped = await _mapped(host, "double", rows)
            seconds = time.perf_counter() - started
    late = sum(when > 2 for when in mapped.refusals)
    name = f"map, {rows:,} rows at 100/s, {'with' if says_when else 'without'} Retry-After"
    share = 100 * late / rows
    return [
        at_most(name, seconds, goal, "s", f"{mapped.stats['refused']} refused"),
        at_most(f"{name}: refused after 2 s", share, 5.0, "%"),
    ]
