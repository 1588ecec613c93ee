"""What a map gives back: while it runs, when it is stopped, and as a table."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import ArgumentsError, Host, UnknownToolError, col
from mcp_magic.map.run import Step, map_steps
from tests.support.processes import children
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_magic.inflight import Report


def command(folder: Path, tool: str, start: str = "") -> list[str]:
    """Write a server with one tool, which runs in this folder, and return its command."""
    (folder / "server.py").write_text(
        f"import asyncio, os, time\nfrom mcp.server import MCPServer\nos.chdir({str(folder)!r})\n"
        f"server = MCPServer('s')\n{start}@server.tool()\n{tool}server.run()\n"
    )
    return [sys.executable, str(folder / "server.py")]


async def test_rows_come_as_they_end_and_not_far_ahead(host: Host, calls: Counter[str]) -> None:
    numbers = []
    async for item in host.map_iter("s:add", ({"a": n} for n in range(500)), concurrency=4):
        assert item.result is not None
        assert item.result.data == item.row["a"] + 10
        numbers.append(item.number)
        assert calls["add"] <= len(numbers) + 2 * 4
    assert sorted(numbers) == list(range(500))


async def test_leaving_the_loop_cancels_the_rest(host: Host, calls: Counter[str]) -> None:
    async for item in host.map_iter("s:add", ({"a": n} for n in range(10**9)), concurrency=2):
        if item.number > 5:
            break
    await host.call("s:weather", city="Oslo")
    sent = calls["add"]
    await host.call("s:weather", city="Rome")
    assert calls["add"] == sent < 20


async def test_rows_that_do_not_fit_are_given_too(host: Host, calls: Counter[str]) -> None:
    rows = iter([{"a": 1}, {"a": "x"}])
    states = {item.number: item.state async for item in host.map_iter("s:add", rows)}
    assert states == {0: "done", 1: "invalid"}


async def test_the_types_of_the_input_are_kept(host: Host, calls: Counter[str]) -> None:
    frame = pd.DataFrame(
        {"a": [1, 2], "kind": pd.Categorical(["x", "y"]), "when": pd.to_datetime(["2026-01-01", "2026-01-02"])},
        index=pd.MultiIndex.from_tuples([("p", 1), ("q", 2)], names=["letter", "number"]),
    )
    result = (await host.map("s:add", frame)).df
    pd.testing.assert_frame_equal(result[["a", "kind", "when"]], frame)
    assert result["result"].tolist() == [11, 12]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NaT, pd.NA], ids=["None", "NaN", "NaT", "NA"])
async def test_missing_value_is_omitted_for_optional_parameter(host: Host, calls: Counter[str], missing: Any) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Series([5, missing], dtype=object)})
    assert (await host.map("s:add", frame)).df["result"].tolist() == [6, 12]
    with pytest.raises(ArgumentsError, match=r"row 1: a: expected integer, got (null|nan)"):
        await host.map("s:add", frame, a=col("b"))


async def test_columns_with_the_names_of_ours_are_kept(host: Host, calls: Counter[str]) -> None:
    frame = pd.DataFrame({"a": [1], "error": ["mine"], "result": [7]})
    result = (await host.map("s:add", frame)).df
    assert list(result.columns) == ["a", "error", "result", "add.result", "add.error", "attempts", "seconds"]
    assert result.iloc[0].tolist()[:5] == [1, "mine", 7, 11, None]


async def test_cancelled_map_keeps_answers_and_retry_goes_on(host: Host) -> None:
    server, waiting, go = MCPServer("s"), [], asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        if n >= 10 and not go.is_set():
            waiting.append(n)
            await go.wait()
        return n

    await host.connect(server, name="s", trust=True)
    given: list[Any] = []

    async def mapping() -> None:
        given.append(await host.map("s:work", [{"n": n} for n in range(40)], concurrency=4))

    host.services.reports.reporter = lambda report: given.insert(0, report)
    task = asyncio.create_task(mapping())
    while len(waiting) < 4:
        await asyncio.sleep(0)
    given[0].cancel()
    async with asyncio.timeout(0.5):
        await task
    run = given[-1]
    assert run.problem == "cancelled"
    assert [run.stats[state] for state in ("done", "unknown")] == [10, 4]
    go.set()
    await run.retry()
    assert [run.stats[state] for state in ("done", "unknown")] == [36, 4]
    await run.retry(repeat_unknown=True)
    assert [run.stats[state] for state in ("done", "unknown")] == [40, 0]
    assert run.df["result"].tolist() == list(range(40))


async def test_a_map_is_shown_and_not_each_of_its_calls(host: Host) -> None:
    server, titles = MCPServer("s"), []

    @server.tool()
    async def work(n: int, ctx: Context) -> int:
        await ctx.report_progress(1, 2, "half")
        await ctx.log("warning", "careful")
        return n

    def reporter(report: Report) -> Callable[[], None]:
        titles.append(report.title)
        return lambda: None

    await host.connect(server, name="s")
    host.services.reports.reporter = reporter
    await host.map("s:work", [{"n": n} for n in range(9)])
    assert titles == ["map s:work"]


async def test_lost_server_stops_map_and_keeps_answers(host: Host, tmp_path: Path) -> None:
    work = "async def work(n: int) -> int:\n    if n == 7:\n        os._exit(3)\n    return n\n"
    await host.connect(command(tmp_path, work), name="d", reconnect=False)
    run = await host.map("d:work", [{"n": n} for n in range(50)], concurrency=1)
    assert run.stats["done"] == 7
    assert run.stats["unknown"] == 1
    assert "d" in run.problem
    assert "exit code 3" in run.problem
    assert run.failed["state"].tolist() == ["unknown", *["waiting"] * 42]


async def test_unreadable_row_stops_map_and_keeps_answers(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    def rows() -> Any:
        yield from ({"a": n} for n in range(5))
        raise OSError("the disk is gone")

    run = await host.map("s:add", rows(), concurrency=2)
    assert run.problem == "the rows cannot be read: row 5 raised OSError: the disk is gone"
    assert run.df["result"].tolist() == [10, 11, 12, 13, 14]
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\nnonsense\n')
    run = await host.map("s:add", tmp_path / "rows.jsonl")
    assert run.problem.startswith(f"{tmp_path / 'rows.jsonl'}, line 2: not JSON: ")
    assert run.stats["done"] == 1


async def test_a_first_row_that_cannot_be_read_is_an_error(host: Host, calls: Counter[str]) -> None:
    def rows() -> Any:
        yield {"a": {}["city"]}

    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", rows())
    assert str(raised.value) == "the rows cannot be read: row 0 raised KeyError: 'city'"


async def test_a_loop_over_rows_raises_what_stops_the_map(host: Host, calls: Counter[str]) -> None:
    rows = host.map_iter("s:add", iter([{"a": 1}, {"a": 2}, 3]))
    assert {(await anext(rows)).number, (await anext(rows)).number} == {0, 1}
    with pytest.raises(ArgumentsError, match="row 2 is int, not a dict: 3"):
        await anext(rows)


async def test_retry_goes_on_with_rows_that_were_not_read(host: Host) -> None:
    server, started, go = MCPServer("s"), asyncio.Event(), asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        started.set()
        await go.wait()
        return n

    await host.connect(server, name="s")
    steps = [Step("", host["s"], await host["s"].find_tool("work"), {"n": col("n")})]
    run = map_steps(steps, ({"n": n} for n in range(30)), host.services, concurrency=3)
    task = asyncio.create_task(run.run())
    await started.wait()
    run.cancel()
    await task
    assert run.problem == "cancelled"
    assert 0 < len(run.items) <= 3
    go.set()
    await run.retry(repeat_unknown=True)
    assert run.problem == ""
    assert run.df["result"].tolist() == list(range(30))


SECOND = "second = os.path.exists('first')\nos.path.exists('first') or os.mkdir('first')\n"
"""Tells the processes of two sessions apart."""


async def test_an_extra_session_that_ends_is_left_out(host: Host, tmp_path: Path) -> None:
    work = (
        "async def work(n: int) -> int:\n"
        "    if second:\n        os.mkdir('ended')\n        os._exit(3)\n"
        "    while not os.path.exists('second'):\n        await asyncio.sleep(0.01)\n"
        "    if not os.path.exists('ended'):\n        await asyncio.sleep(0.02)\n"
        "    return os.getpid()\n"
    )
    await host.connect(command(tmp_path, work, SECOND + "second and os.mkdir('second')\n"), name="f")
    run = await host.map("f:work", [{"n": n} for n in range(200)], sessions=2, concurrency=1)
    assert [run.stats[state] for state in ("done", "unknown")] == [199, 1]
    assert len({item.result.data for item in run.items if item.result}) == 1


async def test_the_first_rows_do_not_wait_for_extra_sessions(host: Host, tmp_path: Path) -> None:
    start = (
        f"{SECOND}while second and not os.path.exists('called'):\n    time.sleep(0.01)\nsecond and os.mkdir('second')\n"
    )
    work = (
        "async def work(n: int) -> bool:\n"
        "    n or os.mkdir('called')\n"
        "    while n and not os.path.exists('second'):\n        await asyncio.sleep(0.01)\n"
        "    await asyncio.sleep(0.02)\n    return second\n"
    )
    await host.connect(command(tmp_path, work, start), name="f")
    run = await host.map("f:work", [{"n": n} for n in range(300)], sessions=2, concurrency=2)
    took = Counter(item.result.data for item in run.items if item.result)
    assert took.total() == 300
    assert run.items[0].result is not None
    assert run.items[0].result.data is False
    assert took[True] > 0


async def test_unopened_extra_session_is_noted_and_left_out(host: Host, tmp_path: Path) -> None:
    work = (
        "async def work(n: int) -> None:\n    while not os.path.exists('noted'):\n        await asyncio.sleep(0.01)\n"
    )
    await host.connect(command(tmp_path, work, f"{SECOND}second and os._exit(3)\n"), name="f")
    steps = [Step("", host["f"], await host["f"].find_tool("work"), {"n": col("n")})]
    run = map_steps(steps, [{"n": n} for n in range(10)], host.services, sessions=2, concurrency=2)
    task = asyncio.create_task(run.run())
    await until(lambda: bool(run.note))
    assert run.note.startswith("1 further session did not open: f: ")
    assert "\n" not in run.note
    (tmp_path / "noted").touch()
    await task
    assert run.stats["done"] == 10


async def test_a_map_that_ends_first_does_not_wait_for_extra_sessions(host: Host, tmp_path: Path) -> None:
    start = f"{SECOND}while second and not os.path.exists('never'):\n    time.sleep(0.01)\n"
    await host.connect(command(tmp_path, "async def work(n: int) -> int:\n    return n\n", start), name="f")
    run = await host.map("f:work", [{"n": n} for n in range(10)], sessions=2, concurrency=4)
    assert run.stats["done"] == 10
    assert "did not open" not in run.note
    assert len(children(str(tmp_path))) == 1


async def test_a_faster_session_gets_more_rows(host: Host, tmp_path: Path) -> None:
    """The first session answers once the second one has answered 150 rows: half of them each would never come."""
    start = "try:\n    os.mkdir('first')\n    slow = True\nexcept FileExistsError:\n    slow = False\nanswered = 0\n"
    work = (
        "async def work(n: int) -> bool:\n    global answered\n    answered += 1\n"
        "    if not slow and answered == 150:\n        os.mkdir('enough')\n"
        "    while slow and not os.path.exists('enough'):\n        await asyncio.sleep(0.01)\n    return slow\n"
    )
    await host.connect(command(tmp_path, work, start), name="u")
    run = await host.map("u:work", [{"n": n} for n in range(200)], sessions=2, concurrency=8)
    took = Counter(item.result.data for item in run.items if item.result)
    assert took[False] >= 150
    assert took[True] > 0
    assert took.total() == 200


async def test_an_unknown_tool_is_an_error_before_anything_is_read(host: Host, calls: Counter[str]) -> None:
    with pytest.raises(UnknownToolError, match="add"):
        await host.map("s:addd", iter([]))


async def test_answers_are_plotted_over_time(host: Host, calls: Counter[str]) -> None:
    pytest.importorskip("matplotlib")
    run = await host.map("s:add", [{"a": n} for n in range(30)])
    axes = run.plot().axes[0]
    assert axes.get_title() == "s:add"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["answers"]
    assert axes.patches[0].get_xy()[:, 1].max() == pytest.approx(30 / 0.25)


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
@pytest.mark.usefixtures("calls")
async def test_rows_in_a_pipe_are_not_waited_for(host: Host, tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"rows.{ending}")
    async with asyncio.timeout(10):
        with pytest.raises(ArgumentsError, match="it is not a regular file"):
            await host.map("s:add", tmp_path / f"rows.{ending}")


@pytest.mark.usefixtures("calls")
async def test_rows_of_any_size_are_not_read(host: Host, tmp_path: Path) -> None:
    with (tmp_path / "rows.json").open("wb") as file:
        file.truncate(300_000_000)
    with pytest.raises(ArgumentsError, match="it has 300,000,000 bytes, and at most 256,000,000 are read"):
        await host.map("s:add", tmp_path / "rows.json")


@pytest.mark.usefixtures("calls")
async def test_a_line_of_any_length_is_not_read(host: Host, tmp_path: Path) -> None:
    with (tmp_path / "rows.jsonl").open("wb") as file:
        file.truncate(70_000_000)
    with pytest.raises(ArgumentsError, match="line 1: not JSON: a line has more than 64,000,000 characters"):
        await host.map("s:add", tmp_path / "rows.jsonl")
