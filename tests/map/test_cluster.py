"""A map on the workers of a Dask cluster, and inside of a partition."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from mcp_magic import ArgumentsError, Host
from mcp_magic.config.specs import StdioSpec
from mcp_magic.map.cluster import map_partition
from mcp_magic.map.rows import col
from tests.environments import ROOT
from tests.support import SUPPORT
from tests.support.waiting import until

distributed = pytest.importorskip("distributed")

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 4, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


TELLS = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server = Plain("tells")

@server.tool
def look(name: str) -> str:
    return os.environ.get(name, "")

server.run()
"""


def counting(log: Path) -> list[str]:
    return [sys.executable, "-m", "tests.support.counting_server", str(log)]


async def test_rows_are_called_once_each_by_the_workers_of_a_cluster(client, tmp_path):
    async with Host() as host:
        await host.connect(counting(tmp_path / "log"), name="c")
        rows = [{"n": n} for n in range(200)]
        run = await host.map("c:count", rows, on=client, journal=tmp_path / "j")
        assert run.df["result"].tolist() == [2 * n for n in range(200)]
        called = Counter((tmp_path / "log").read_text().split())
        assert len(called) == 200
        assert set(called.values()) == {1}
        again = await host.map("c:count", rows, on=client, journal=tmp_path / "j")
        assert [again.stats[key] for key in ("done", "resumed", "calls")] == [200, 200, 0]


async def test_a_worker_that_is_killed_loses_and_doubles_nothing(client, tmp_path):
    log = tmp_path / "log"
    async with Host() as host:
        await host.connect(counting(log), name="c")
        rows = [{"n": n} for n in range(800)]
        mapping = asyncio.create_task(host.map("c:count", rows, on=client, journal=tmp_path / "j"))
        await until(lambda: mapping.done() or (log.exists() and len(log.read_text().split()) >= 100))
        assert not mapping.done()
        worker = (await asyncio.to_thread(client.run, os.getpid)).popitem()[1]
        os.kill(worker, signal.SIGKILL)
        run = await mapping
    called = Counter(log.read_text().split())
    assert max(called.values()) == 1
    assert run.stats["done"] + run.stats["unknown"] == 800
    assert 0 < run.stats["unknown"] <= 4 * 50


async def test_unstartable_worker_server_fails_and_rows_retry(client, tmp_path):
    program, log = tmp_path / "counting_server.py", tmp_path / "log"
    text = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    text += (SUPPORT / "counting_server.py").read_text().replace("from __future__ import annotations\n", "")
    program.write_text(text)
    rows = [{"n": n} for n in range(30)]
    async with Host() as host:
        await host.connect([sys.executable, str(program), str(log)], name="c")
        program.unlink()
        run = await host.map("c:count", rows, on=client, journal=tmp_path / "j")
        assert run.problem.startswith("a worker called nothing: counting: ")
        assert [run.stats[key] for key in ("done", "unknown", "calls")] == [0, 0, 0]
        program.write_text(text)
        await run.retry()
    assert run.stats["done"] == 30
    assert sorted(map(int, log.read_text().split())) == list(range(30))


async def test_rate_and_concurrency_hold_for_all_workers(client, tmp_path):
    async with Host() as host:
        await host.connect(counting(tmp_path / "log"), name="c")
        run = await host.map("c:count", [{"n": n} for n in range(60)], on=client, rate="30/s", concurrency=2)
        assert run.stats["done"] == 60
        assert run.stats["seconds"] >= 1.5
        with pytest.raises(ArgumentsError, match="each worker has one session"):
            await host.map("c:count", [{"n": 1}], on=client, sessions=2)


async def test_a_server_of_this_kernel_is_refused(client, host, calls):
    with pytest.raises(ArgumentsError, match="--on: workers cannot reach s, a server in this kernel"):
        await host.map("s:add", [{"a": 1}], on=client)
    with pytest.raises(ArgumentsError, match=r"--on takes a distributed.Client, not int"):
        await host.map("s:add", [{"a": 1}], on=3)
    assert not calls


def test_a_partition_is_a_function_of_a_dataframe_to_a_dataframe(tmp_path):
    frame = pd.DataFrame({"n": [1, 2], "x": [3, 4]}, index=["a", "b"])
    for _ in range(2):  # the second time over the same session
        mapped = map_partition(counting(tmp_path / "log"), "count", frame, {"n": col("x")})
        assert mapped["result"].tolist() == [6, 8]
        assert list(mapped.index) == ["a", "b"]


def test_a_partition_has_a_session_for_each_secret(tmp_path):
    program = tmp_path / "tells.py"
    program.write_text(TELLS, encoding="utf-8")
    frame = pd.DataFrame({"name": ["TOKEN"]})
    tokens = ("first-4711", "second-4711")
    specs = [StdioSpec(command=sys.executable, args=(str(program),), env={"TOKEN": token}) for token in tokens]
    assert repr(specs[0]) == repr(specs[1])
    assert [map_partition(spec, "look", frame)["result"].tolist() for spec in specs] == [[token] for token in tokens]
