"""What a map gives back: while it runs, when it is stopped, and as a table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import ArgumentsError, UnknownToolError
from tests.support.mapped import offer, prepared
from tests.support.waiting import until
from tests.support.walks import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.flight.progress import Report


async def test_rows_come_as_they_end_and_not_far_ahead(host, calls):
    numbers = []
    async for item in host.map_iter("s:add", ({"a": n} for n in range(200)), concurrency=4):
        assert item.result is not None
        assert item.result.data == item.row["a"] + 10
        numbers.append(item.number)
        assert calls["add"] <= len(numbers) + 2 * 4
    assert sorted(numbers) == list(range(200))


async def test_one_row_enters_few_functions(host, calls):
    await host.map("s:add", [{"a": 1}])
    lengths = []
    for count in (50, 250):
        with walk() as entries:
            await host.map("s:add", [{"a": n} for n in range(count)])
        lengths.append(len(entries))
    assert lengths[1] - lengths[0] <= 200 * 160


async def test_breaking_out_of_map_iter_cancels_the_rest(host, calls):
    async for item in host.map_iter("s:add", ({"a": n} for n in range(10**9)), concurrency=2):
        if item.number > 5:
            break
    await host.call("s:weather", city="Oslo")
    sent = calls["add"]
    await host.call("s:weather", city="Rome")
    assert calls["add"] == sent < 20


async def test_a_loop_gives_misfits_and_raises_what_stops_it(host, calls):
    rows = iter([{"a": 1}, {"a": "x"}])
    states = {item.number: item.state async for item in host.map_iter("s:add", rows)}
    assert states == {0: "done", 1: "invalid"}
    items = host.map_iter("s:add", iter([{"a": 1}, {"a": 2}, 3]))
    assert {(await anext(items)).number, (await anext(items)).number} == {0, 1}
    with pytest.raises(ArgumentsError, match="row 2 is int, not a dict: 3"):
        await anext(items)
    items = host.map_iter("s:days", iter([{"days": 1}] * 2), n=lambda row: row.dayz)
    assert [(await anext(items)).state, (await anext(items)).state] == ["invalid"] * 2
    with pytest.raises(ArgumentsError, match="No row fits s:days"):
        await anext(items)
    with pytest.raises(UnknownToolError, match="add"):
        await host.map("s:addd", iter([]))


async def test_tool_error_belongs_to_its_row_and_can_be_retried(host, calls):
    run = await host.map("s:weather", [{"city": "Oslo"}, *[{"city": "Atlantis"}] * 9])
    assert [run.stats["done"], run.stats["failed"], calls["weather"]] == [1, 9, 2]  # equal read-only calls are one
    assert run.failed["error"].nunique() == 1
    assert "no such city" in run.failed["error"].iloc[0]
    assert run.df["degrees"].isna().tolist() == [False, *[True] * 9]
    assert await run.retry() is run
    assert [run.stats["done"], run.stats["failed"], calls["weather"]] == [1, 9, 3]  # only the failed ones


async def test_answers_that_are_lists_explode_if_asked(host, calls):
    hint = "Answers are lists: `%mcp map --resume $out --explode` makes each item a row of .df."
    rows = pd.DataFrame({"n": [2, 0, 1]}, index=list("abc"))
    run = await host.map("s:days", rows)
    assert run.df["result"].tolist() == [[{"day": 0}, {"day": 1}], [], [{"day": 0}]]
    assert run.parts()[-1].plain == hint
    await run.retry(explode=True)
    assert hint not in str(run.parts())
    assert list(run.df.index) == ["a", "a", "b", "c"]
    assert run.df["day"].fillna(-1).tolist() == [0, 1, -1, 0]
    assert calls["days"] == 3
    assert (await host.map("s:days", rows, explode=True)).df["day"].fillna(-1).tolist() == [0, 1, -1, 0]
    assert "explode" not in str((await host.map("s:add", [{"a": 1}])).parts())


async def test_cancelled_map_keeps_answers_and_retry_goes_on(host):
    waiting, go, runs = list[int](), asyncio.Event(), list[Any]()

    async def work(n: int) -> int:
        if n >= 10 and not go.is_set():
            waiting.append(n)
            await go.wait()
        return n

    await offer(host, work)

    async def mapping() -> None:
        runs.append(await host.map("s:work", [{"n": n} for n in range(40)], concurrency=4))

    host.services.reports.reporter = lambda report: runs.insert(0, report)
    task = asyncio.create_task(mapping())
    await until(lambda: len(waiting) == 4)
    runs[0].cancel()
    async with asyncio.timeout(5):
        await task
    run = runs[-1]
    assert run.problem == "cancelled"
    assert [run.stats[state] for state in ("done", "unknown")] == [10, 4]
    go.set()
    await run.retry()
    assert [run.stats[state] for state in ("done", "unknown")] == [36, 4]
    await run.retry(repeat_unknown=True)
    assert [run.stats[state] for state in ("done", "unknown")] == [40, 0]
    assert run.df["result"].tolist() == list(range(40))


async def test_a_retry_goes_on_with_unread_rows_but_not_at_once(host):
    started, go = asyncio.Event(), asyncio.Event()

    async def work(n: int) -> int:
        started.set()
        await go.wait()
        return n

    await offer(host, work)
    run = await prepared(host, "s:work", ({"n": n} for n in range(30)), "n", concurrency=3)
    task = asyncio.create_task(run.run())
    await started.wait()
    with pytest.raises(ArgumentsError, match="s:work still runs"):
        await run.retry()
    run.cancel()
    await task
    assert run.problem == "cancelled"
    assert 0 < len(run.items) <= 3
    go.set()
    await run.retry(repeat_unknown=True)
    assert run.problem == ""
    assert run.df["result"].tolist() == list(range(30))


async def test_a_map_is_shown_and_not_each_of_its_calls(host):
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


async def test_answers_are_plotted_over_time(host, calls):
    pytest.importorskip("matplotlib")
    run = await host.map("s:add", [{"a": n} for n in range(30)])
    axes = run.plot().axes[0]
    assert axes.get_title() == "s:add"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["answers"]
    x, y = (*zip(*axes.patches[0].get_xy(), strict=True),)
    area = sum(x[n - 1] * y[n] - x[n] * y[n - 1] for n in range(len(x))) / 2
    assert abs(area) == pytest.approx(30)
