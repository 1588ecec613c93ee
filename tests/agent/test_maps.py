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
from mcp.server import MCPServer

from mcp_magic import ArgumentsError, Decision, Rule, build_graph
from mcp_magic.agent.graph import RunContext
from mcp_magic.agent.program import Programs
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.langchain.content import result_of
from mcp_magic.map.rows import col
from mcp_magic.map.run import Step, map_steps
from tests.agent.test_functions import refusals
from tests.support.telling import call, html, result, told, turn

if TYPE_CHECKING:
    from mcp_magic import Request
    from mcp_magic._host import Host
    from tests.support.agents import Shop

BASKET = pd.DataFrame({"what": ["apple", "pear", "apple"], "n": [1, 2, 3]})

MAP = {"tool": "shop__buy", "table": "basket", "arguments": {"item": "{what}", "count": "{n}"}}


async def mapped(host: Host, call: dict[str, Any] = MAP, tables: Any = None, **options: Any) -> Any:
    """Let a model make one call of `map`, and return the answer to it."""
    model = ScriptedModel([[("map", call)], "Done."])
    graph = build_graph(model, host, tables={"basket": BASKET} if tables is None else tables, **options)
    state = await graph.ainvoke({"messages": [("user", "buy all")]})
    return next(message for message in state["messages"] if message.type == "tool")


def answering(host: Host, answer: Decision) -> list[Request]:
    asked: list[Request] = []

    async def approver(request: Request) -> Decision:
        asked.append(request)
        return answer

    host.consent.approver = approver
    return asked


async def test_map_asks_one_approval_and_returns_one_table(host: Host, shop: Shop) -> None:
    asked = answering(host, Decision.approve())
    message = await mapped(host, approve="ask")
    assert [(request.name, request.calls, request.asker) for request in asked] == [("shop:buy", 3, "agent")]
    assert asked[0].arguments["first calls"][1] == {"item": "pear", "count": 2}
    assert sorted(arguments["count"] for _, arguments in shop.called) == [1, 2, 3]
    assert message.text.startswith("3 of 3 rows done")
    table = result_of(message).df
    assert table.columns.tolist() == ["what", "n", "result"]
    assert table["result"].tolist() == ["bought 1 apple", "bought 2 pear", "bought 3 apple"]
    [record] = host.consent.audit.records
    assert (record.tool, record.decision, record.arguments["number of calls"]) == ("buy", "approve", 3)


async def test_a_denied_map_calls_nothing_and_the_model_reads_why(host: Host, shop: Shop) -> None:
    answering(host, Decision.deny("too dear"))
    message = await mapped(host, approve="ask")
    assert not shop.called
    assert message.status == "error"
    assert message.text == "shop:buy was not called; denied by the user: too dear."


async def test_a_rule_denies_single_rows_of_a_map(host: Host, shop: Shop) -> None:
    host.consent.add(Rule("deny", "shop:buy", arguments={"item": "pear"}))
    message = await mapped(host, approve="auto")
    assert len(shop.called) == 2
    assert [bool(row.get("error")) for row in result_of(message).data["rows"]] == [False, True, False]


async def test_the_policy_of_the_run_decides_about_a_map(host: Host, shop: Shop) -> None:
    message = await mapped(host, approve="deny")
    assert "denied by approval = 'deny'" in message.text
    assert not shop.called


async def test_a_model_may_write_the_rows_itself(host: Host, shop: Shop) -> None:
    rows = [{"item": "apple"}, {"item": "pear"}]
    message = await mapped(host, {"tool": "shop:price", "rows": rows}, {}, approve="auto")
    assert result_of(message).df["result"].tolist() == [1.5, 2.0]


WRONG = {
    "no such tool": ({"tool": "shop__sell", "table": "basket"}, "there is no tool 'shop:sell'. Did you mean"),
    "no such column": (MAP | {"arguments": {"item": "{wat}"}}, "there is no column 'wat'. Columns: what, n"),
    "both": (MAP | {"rows": []}, "map takes either `rows` or one `table` of: basket"),
    "neither": ({"tool": "shop__buy"}, "map takes either `rows` or one `table` of: basket"),
    "no such table": (MAP | {"table": "cart"}, "table: expected 'basket', got 'cart'"),
    "rows that do not fit": (MAP | {"arguments": {"item": "{n}"}}, "3 rows of 3 do not fit shop:buy"),
    "nothing matches": ({"tool": "shop__buy", "table": "basket"}, "no column is named like a parameter"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_map_that_cannot_be_made_tells_the_model_why(host: Host, shop: Shop, case: str) -> None:
    call, text = WRONG[case]
    message = await mapped(host, call, approve="auto")
    assert text in message.text
    assert message.status == "error"
    assert not shop.called


async def test_an_interrupted_graph_does_not_ask_about_a_map(host: Host, shop: Shop) -> None:
    thread: Any = {"configurable": {"thread_id": "1"}}
    model = ScriptedModel([[("map", MAP), ("shop:buy", {"item": "pear"})], "Done."])
    saver = InMemorySaver()
    graph = build_graph(model, host, tables={"basket": BASKET}, approve="ask", ask="interrupt", checkpointer=saver)
    await graph.ainvoke({"messages": [("user", "buy")]}, thread)
    state = await graph.ainvoke(Command(resume={"decision": "approve"}), thread)
    answers = [message.text for message in state["messages"] if message.type == "tool"]
    assert "the calls of a map are not asked about by interrupt; a rule can allow them" in answers[0]
    assert shop.called == [("buy", {"item": "pear", "count": 1})]


async def test_an_interrupted_map_keeps_its_answers_for_the_thread(host: Host) -> None:
    server, waits = MCPServer("slow"), asyncio.Event()

    @server.tool()
    async def work(n: int) -> int:
        if n == 2:
            waits.set()
            await asyncio.Event().wait()
        return n

    await host.connect(server, name="slow")
    model = ScriptedModel([[("map", {"tool": "slow:work", "rows": [{"n": n} for n in range(3)]})], "Done."])
    run: Any = RunContext()
    working = build_graph(model, host, tables={}).ainvoke({"messages": [("user", "go")]}, context=run)
    task = asyncio.ensure_future(working)
    await waits.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    [message] = run.done.values()
    assert message.text.startswith("2 of 3 rows done, 1 unknown")
    assert "It stopped: interrupted" in message.text
    assert result_of(message).df["result"].tolist()[:2] == [0, 1]


ENDS = {
    "partly failed": (
        [1, 3],
        "! partly failed",
        "1 of 2 rows done, 1 failed: work failed: ValueError: <b>no</b> (1 row)",
    ),
    "error": ([3, 6], "✗ error", "0 of 2 rows done, 2 failed: work failed: ValueError: <b>no</b> (2 rows)"),
}


@pytest.mark.parametrize("status", ENDS)
async def test_a_map_with_failures_has_no_tick_in_its_card(host: Host, status: str) -> None:
    server = MCPServer("slow")

    @server.tool()
    async def work(n: int) -> int:
        if n % 3 == 0:
            raise ValueError("<b>no</b>")
        return n

    await host.connect(server, name="slow")
    numbers, sign, reason = ENDS[status]
    message = await mapped(host, {"tool": "slow:work", "rows": [{"n": n} for n in numbers]}, {}, approve="auto")
    counts, _, error = reason.partition(": ")
    assert message.text.startswith(counts)
    assert message.text.splitlines()[0].endswith(f"; {error}")
    said = turn("I map.", "1=map", id="a")
    run = told({"kind": "said", "message": said}, call("1", server="", tool="map"), result("1", message))
    assert run.calls[0].status == status
    assert f"{sign} slow:work()" in str(run)
    assert f"    {reason}" in str(run)
    assert sign in html(run)
    assert escape(reason) in html(run)


async def test_a_running_map_tells_of_failures(host: Host) -> None:
    server, remarks = MCPServer("slow"), []

    @server.tool()
    async def work(n: int) -> int:
        raise ValueError("no station")

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        remarks.append((progress, total, message))

    await host.connect(server, name="slow")
    steps = [Step("", host["slow"], await host["slow"].find_tool("work"), {"n": col("n")})]
    rows = [{"n": 1}, {"n": 2}]
    await map_steps(steps, rows, host.services, concurrency=1, on_progress=on_progress).run()
    assert remarks[-1] == (2, 2, "2 failed · 0 in flight · work failed: ValueError: no station (2 rows)")


async def test_map_is_offered_only_with_tables(host: Host, shop: Shop) -> None:
    given: list[list[dict[str, Any]]] = []

    class Watched(ScriptedModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            given.append(list(tools))
            return super().bind_tools(tools, **options)

    for tables in (None, {"basket": BASKET}):
        await build_graph(Watched(["Hello."]), host, tables=tables).ainvoke({"messages": [("user", "hello")]})
    assert "map" not in [tool["function"]["name"] for tool in given[0]]
    bound = given[1][-1]
    assert bound["function"]["name"] == "map"
    assert "basket: 3 rows, the first is " + json.dumps({"what": "apple", "n": 1}) in bound["function"]["description"]
    assert refusals([bound]) == []


def test_a_table_that_is_an_iterator_is_refused(host: Host) -> None:
    with pytest.raises(ArgumentsError, match="the table 'basket' is an iterator"):
        build_graph(ScriptedModel(["x"]), host, tables={"basket": iter([{"a": 1}])})


def test_a_model_that_writes_programs_gets_no_map(host: Host) -> None:
    with pytest.raises(ArgumentsError, match="a model that writes programs gets no `map`"):
        build_graph(ScriptedModel(["x"]), host, tables={}, programs=Programs(namespace={}))
