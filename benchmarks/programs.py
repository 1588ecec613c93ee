"""A program of a model: its input tokens against those of plain calls, over tables of 200 rows; what a step takes."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Pairs, Result, at_most, compared

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic._host import Host

__all__ = ["run"]

ROWS = 200
"""Rows of each table."""

OTHERS = 100
"""Tools beside the five of the task."""

STEPS = ("customers", "orders", "products", "shipments", "refunds")

REQUEST = "Which customer of the north has the largest revenue, without what was refunded or never shipped?"

PROGRAM = """
import asyncio
from sales import customers, orders, products, shipments, refunds

people, bought, goods, sent, back = await asyncio.gather(customers(), orders(), products(), shipments(), refunds())
prices = {row["product"]: row["price"] for row in goods}
shipped = {row["order"] for row in sent if row["shipped"]}
refunded = {row["order"] for row in back if row["refunded"]}
revenue = {row["customer"]: 0 for row in people if row["region"] == "north"}
for row in bought:
    if row["order"] in shipped - refunded and row["customer"] in revenue:
        revenue[row["customer"]] += row["count"] * prices[row["product"]]
best = max(revenue, key=lambda name: (revenue[name], name))
print(best, revenue[best])
"""

GOAL_SHARE, GOAL_SHARE_MANY = 1 / 20, 1 / 10
GOAL_STEP, GOAL_CHECK_MS = 3.0, 250


def run(*, quick: bool = False) -> list[Result]:
    """Measure the tokens, and the steps."""
    return asyncio.run(_measured(5 if quick else 30))


async def _measured(count: int) -> list[Result]:
    steps, checks = await _steps(count)
    return [
        await _tokens(0, GOAL_SHARE),
        await _tokens(OTHERS, GOAL_SHARE_MANY),
        compared("program, run with a call", steps, goal=GOAL_STEP, note="against the call alone"),
        at_most("program, types checked", statistics.median(checks) * 1e3, GOAL_CHECK_MS, "ms"),
    ]


def tables() -> dict[str, list[dict[str, Any]]]:
    """Return five tables that belong together, the same on every machine."""
    regions = ("north", "south", "east", "west")
    return {
        "customers": [{"customer": f"c{n}", "region": regions[n % 4], "city": f"city {n % 17}"} for n in range(ROWS)],
        "orders": [
            {"order": n, "customer": f"c{n * 7 % ROWS}", "product": f"p{n * 3 % ROWS}", "count": n % 5 + 1}
            for n in range(ROWS)
        ],
        "products": [{"product": f"p{n}", "name": f"thing {n}", "price": n * 13 % 97 + 1} for n in range(ROWS)],
        "shipments": [{"order": n, "shipped": n % 3 != 0, "carrier": f"carrier {n % 5}"} for n in range(ROWS)],
        "refunds": [{"order": n, "refunded": n % 11 == 0, "reason": f"reason {n % 7}"} for n in range(ROWS)],
    }


async def _connect(host: Host, others: int) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("sales", log_level="ERROR")
    for name, rows in tables().items():
        server.add_tool(_returning(rows), name, description=f"Returns all {name}, a row each.")
    for number in range(others):
        description = f"Does the job number {number} of the back office with the documents of a department."
        server.add_tool(_job, f"job_{number}", description=description)
    await host.connect(server, name="sales")


def _returning(rows: list[dict[str, Any]]) -> Callable[[], list[dict[str, Any]]]:
    def table():  # type: ignore[no-untyped-def]  # the annotation makes the output schema
        return rows

    from typing_extensions import TypedDict

    row: Any = TypedDict("row", {name: type(value) for name, value in rows[0].items()})  # type: ignore[operator]
    table.__annotations__["return"] = list[row]
    return table


def _job(department: str, document: str, copies: int = 1, urgent: bool = False) -> str:
    return "done"


def answer(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the answer to the request, from the tables."""
    prices = {row["product"]: row["price"] for row in found["products"]}
    shipped = {row["order"] for row in found["shipments"] if row["shipped"]}
    refunded = {row["order"] for row in found["refunds"] if row["refunded"]}
    revenue = {row["customer"]: 0 for row in found["customers"] if row["region"] == "north"}
    for row in found["orders"]:
        if row["order"] in shipped - refunded and row["customer"] in revenue:
            revenue[row["customer"]] += row["count"] * prices[row["product"]]
    best = max(revenue, key=lambda name: (revenue[name], name))
    return f"{best} {revenue[best]}"


async def _tokens(others: int, goal: float) -> Result:
    """Return the share of the input tokens that a program takes; both ways have to give the same answer."""
    from mcp_magic._host import Host
    from mcp_magic.agent.graph import build_graph
    from mcp_magic.agent.program import Programs
    from mcp_magic.agent.scripted import ScriptedModel
    from mcp_magic.langchain.content import result_of

    def from_results(messages: list[Any]) -> str:
        tools = [message for message in messages if message.type == "tool"]
        return answer({name: result_of(message).data for name, message in zip(STEPS, tools, strict=True)})

    def from_program(messages: list[Any]) -> str:
        return str(messages[-1].text).partition("\n")[0]

    plain = ScriptedModel([*([(f"sales:{name}", {})] for name in STEPS), from_results])
    coding = ScriptedModel([[("run_program", {"code": PROGRAM})], from_program])
    said = []
    async with Host() as host:
        host.consent.policy = "auto"
        await _connect(host, others)
        # the model reads the tables whole, as it has to without programs
        whole: dict[str, Any] = {"spill": None, "search_above": None, "result_limit": 1_000_000}
        for model, options in ((plain, whole), (coding, {"programs": Programs()})):
            state = await build_graph(model, host, **options).ainvoke({"messages": [("human", REQUEST)]})
            said.append(state["messages"][-1].text)
    assert said[0] == said[1] == answer(tables()), said
    ours, theirs = input_tokens(coding), input_tokens(plain)
    name = f"input tokens, {len(STEPS) + others} tools"
    note = f"1/{theirs / ours:.0f}; theirs: plain calls; a token is four characters"
    return compared(name, Pairs([ours], [theirs]), goal=goal, unit="tokens", note=note)


def input_tokens(model: Any) -> float:
    """Return the tokens that a scripted model was given in all its turns."""
    from mcp_magic.lint import CHARACTERS_A_TOKEN

    characters = 0
    for seen in model.seen:
        characters += sum(len(message.text) for message in seen.messages)
        calls = [call["args"] for message in seen.messages if message.type == "ai" for call in message.tool_calls]
        characters += len(json.dumps(calls)) + len(json.dumps(seen.tools))
    return characters / CHARACTERS_A_TOKEN


async def _steps(count: int) -> tuple[Pairs, list[float]]:
    """Return the seconds of a program with a call against the call, and those of checking its types."""
    from mcp_magic._host import Host
    from mcp_magic.agent.modules import modules_of
    from mcp_magic.agent.program import Programs, State, check, run_program

    code, programs, steps, checks = "from sales import customers\nlen(await customers())", Programs(), Pairs(), []
    async with Host() as host:
        await _connect(host, OTHERS)
        connection = host["sales"]
        modules = modules_of((connection, tool) for tool in connection.catalog.cached("tools"))

        async def call(function: Any, arguments: dict[str, Any]) -> Any:
            return (await connection.call(function.stub.tool.name, arguments)).data

        for _ in range(count + 2):
            times = [time.perf_counter()]
            await connection.call("customers")
            times.append(time.perf_counter())
            program = await run_program(code, modules, State(), programs, call)
            times.append(time.perf_counter())
            assert program.value == ROWS, program.problem
            assert not await check(code, modules, State(), programs)
            times.append(time.perf_counter())
            for side, (start, end) in zip((steps.theirs, steps.ours, checks), itertools.pairwise(times), strict=True):
                side.append(end - start)
    return Pairs(steps.ours[2:], steps.theirs[2:]), checks[2:]
