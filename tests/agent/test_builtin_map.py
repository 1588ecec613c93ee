"""The agent's tool `map`: a call for each row of a table, approved together."""

from __future__ import annotations

import asyncio
import json
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mcp_magic import ArgumentsError, Decision, Rule, build_graph
from mcp_magic.agent.events import TurnEvent
from mcp_magic.agent.graph import RunContext
from mcp_magic.agent.program import Programs
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.langchain.content import result_of
from mcp_magic.map.plan import Origin, Step
from mcp_magic.map.rows import col
from mcp_magic.map.run import map_steps
from tests.support.agents import BUY, THREAD, add_server, answers, ask, asked, play
from tests.support.provider_rules import refusals
from tests.support.telling import call, html, result, told, turn

if TYPE_CHECKING:
    from mcp_magic._host import Host

BASKET = pd.DataFrame({"what": ["apple", "pear", "apple"], "n": [1, 2, 3]})
MAP = {"tool": "shop__buy", "table": "basket", "arguments": {"item": "{what}", "count": "{n}"}}


async def mapped(host: Host, call: dict[str, Any] = MAP, tables: Any = None, **options: Any) -> Any:
    """Let a model make one call of `map`, and return the answer to it."""
    tables = {"basket": BASKET} if tables is None else tables
    played = await play(host, [("map", call)], "Done.", tables=tables, **{"approve": "auto", **options})
    return next(message for message in played.messages if message.type == "tool")


async def test_a_map_asks_once_and_returns_one_table(host, shop):
    requests = ask(host)
    message = await mapped(host, approve="ask")
    assert [(request.name, request.calls, request.asker) for request in requests] == [("shop:buy", 3, "agent")]
    assert requests[0].arguments["first calls"][1] == {"item": "pear", "count": 2}
    assert sorted(arguments["count"] for _, arguments in shop.called) == [1, 2, 3]
    assert message.text.startswith("3 of 3 rows done")
    table = result_of(message).df
    assert table.columns.tolist() == ["what", "n", "result"]
    assert table["result"].tolist() == ["bought 1 apple", "bought 2 pear", "bought 3 apple"]
    [record] = host.consent.audit.records
    assert (record.tool, record.decision, record.arguments["number of calls"]) == ("buy", "approve", 3)


async def test_a_denied_map_calls_nothing_and_says_why(host, shop):
    ask(host, Decision.deny("too dear"))
    message = await mapped(host, approve="ask")
    assert (message.status, message.text) == ("error", "shop:buy was not called; denied by the user: too dear.")
    assert "denied by approval = 'deny'" in (await mapped(host, approve="deny")).text
    assert not shop.called
    host.consent.add(Rule("deny", "shop:buy", arguments={"item": "pear"}))
    message = await mapped(host)
    assert len(shop.called) == 2, "a rule denies single rows"
    assert [bool(row.get("error")) for row in result_of(message).data["rows"]] == [False, True, False]


async def test_a_model_may_write_the_rows_itself(host):
    rows = [{"item": "apple"}, {"item": "pear"}]
    message = await mapped(host, {"tool": "shop:price", "rows": rows}, {})
    assert result_of(message).df["result"].tolist() == [1.5, 2.0]


WRONG = {
    "no such tool": ({"tool": "shop__sell", "table": "basket"}, "there is no tool 'shop:sell'. Did you mean"),
    "no such column": (MAP | {"arguments": {"item": "{wat}"}}, "there is no column 'wat'. Columns: what, n"),
    "both": (MAP | {"rows": []}, "map takes either `rows` or one `table` of: basket"),
    "neither": ({"tool": "shop__buy"}, "map takes either `rows` or one `table` of: basket"),
    "no such table": (MAP | {"table": "cart"}, "table: expected 'basket', got 'cart'"),
    "misfit": (MAP | {"arguments": {"item": "{n}"}}, "3 rows of 3 do not fit shop:buy"),
    "no match": ({"tool": "shop__buy", "table": "basket"}, "no column is named like a parameter"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_map_that_cannot_be_made_says_why(host, shop, case):
    call, text = WRONG[case]
    message = await mapped(host, call)
    assert text in message.text
    assert message.status == "error"
    assert not shop.called


async def test_an_interrupted_graph_does_not_ask_about_a_map(host, shop):
    model = ScriptedModel([[("map", MAP), *BUY], "Done."])
    options: Any = {"approve": "ask", "ask": "interrupt", "checkpointer": InMemorySaver()}
    graph = build_graph(model, host, tables={"basket": BASKET}, **options)
    await graph.ainvoke(asked(), THREAD)
    (_, text), _ = answers(await graph.ainvoke(Command(resume={"decision": "approve"}), THREAD))
    assert "the calls of a map are not asked about by interrupt; a rule can allow them" in text
    assert shop.called == [("buy", {"item": "pear", "count": 1})]


async def test_an_interrupted_map_keeps_its_answers(host):
    waits = asyncio.Event()

    async def work(n: int) -> int:
        if n == 2:
            waits.set()
            await asyncio.Event().wait()
        return n

    await add_server(host, "slow", work)
    model = ScriptedModel([[("map", {"tool": "slow:work", "rows": [{"n": n} for n in range(3)]})], "Done."])
    run: Any = RunContext()
    task = asyncio.ensure_future(build_graph(model, host, tables={}).ainvoke(asked(), context=run))
    await waits.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    [message] = run.answers.values()
    assert message.text.startswith("2 of 3 rows done, 1 unknown")
    assert "It stopped: interrupted" in message.text
    assert result_of(message).df["result"].tolist()[:2] == [0, 1]


NO = "work failed: ValueError: <b>no</b>"


@pytest.mark.parametrize(
    ("status", "numbers", "sign", "reason"),
    [
        ("partly failed", [1, 3], "! partly failed", f"1 of 2 rows done, 1 failed: {NO} (1 row)"),
        ("error", [3, 6], "✗ error", f"0 of 2 rows done, 2 failed: {NO} (2 rows)"),
    ],
    ids=["some", "all"],
)
async def test_a_map_with_failures_has_no_tick(host, status, numbers, sign, reason):
    async def work(n: int) -> int:
        if n % 3 == 0:
            raise ValueError("<b>no</b>")
        return n

    await add_server(host, "slow", work)
    rows = [{"n": n} for n in numbers]
    message = await mapped(host, {"tool": "slow:work", "rows": rows}, {})
    counts, _, error = reason.partition(": ")
    assert message.text.startswith(counts)
    assert message.text.splitlines()[0].endswith(f"; {error}")
    said = TurnEvent(turn("I map.", "1=map", id="a"))
    run = told(said, call("1", server="", tool="map"), result("1", message))
    assert run.calls[0].status == status
    assert f"{sign} slow:work()" in str(run)
    assert f"    {reason}" in str(run)
    assert sign in html(run)
    assert escape(reason) in html(run)
    remarks: list[Any] = []

    async def on_progress(*remark: Any) -> None:
        remarks.append(remark)

    steps = [Step("", host["slow"], await host["slow"].find_tool("work"), {"n": col("n")})]
    await map_steps(steps, rows, host.services, origin=Origin(on_progress=on_progress), concurrency=1).run()
    _, failed, how = reason.replace(": ", ", ", 1).split(", ")
    assert remarks[-1] == (2, 2, f"{failed} · 0 in flight · {how}")


async def test_a_map_is_offered_only_with_tables(host):
    for tables in (None, {"basket": BASKET}):
        model = (await play(host, "Hello.", tables=tables)).model
        names = [tool["function"]["name"] for tool in model.seen[0].tools]
        assert ("map" in names) is (tables is not None)
    [function] = [tool for tool in model.seen[0].tools if tool["function"]["name"] == "map"]
    first = json.dumps({"what": "apple", "n": 1})
    assert f"basket: 3 rows, the first is {first}" in function["function"]["description"]
    assert refusals([function]) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": {"basket": iter([{"a": 1}])}}, "the table 'basket' is an iterator"),
        ({"tables": {}, "programs": Programs(namespace={})}, "a model that writes programs gets no `map`"),
    ],
    ids=["iterator", "programs"],
)
def test_a_map_that_cannot_be_offered_is_an_error(host, options, said):
    with pytest.raises(ArgumentsError, match=said):
        build_graph(ScriptedModel(["x"]), host, **options)
