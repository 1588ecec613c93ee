"""Programs of a model: checked before they call anything, their calls decided and shown like any other."""

from __future__ import annotations

import ast
import asyncio
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.agent.graph import build_graph, cell_of, run_agent
from mcp_magic.agent.modules import as_cell, interface, modules_of, server_module
from mcp_magic.agent.program import MAX_HEAPS, Programs, state_of
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.transcript import Transcript
from mcp_magic.cassette.cassette import deck
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic
from tests.support.telling import html

pytest.importorskip("pydantic_monty")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from mcp_magic.agent.run import AgentRun
    from mcp_magic.consent.consent import PlannedRequest
    from tests.agent.conftest import Shop


def program(code: str) -> list[tuple[str, dict[str, Any]]]:
    return [("run_program", {"code": code})]


class Coder:
    """Runs requests in one thread, whose model writes these programs."""

    def __init__(self, host: Host, *codes: str, programs: Programs | None = None, **options: Any) -> None:
        self.host = host
        self.model = ScriptedModel([*map(program, codes), "done"], repeat_last=True)
        self.saver = InMemorySaver()
        programs = programs or Programs()
        self.graph = build_graph(self.model, host, programs=programs, checkpointer=self.saver, **options)

    async def run(self, request: str = "go", thread: str = "t") -> AgentRun:
        return await run_agent(self.graph, self.host, request, thread=thread)


def answers(run: AgentRun) -> list[str]:
    return [message.text for message in run.messages if message.type == "tool"]


def approve(log: list[Request], *, edited: dict[str, Any] | None = None, but: str = "") -> Any:
    async def approver(request: Request) -> Decision:
        log.append(request)
        if request.tool == but:
            return Decision.deny("too dear")
        return Decision.approve(edited if request.program else None)

    return approver


SUM = """
from shop import price
import asyncio
prices = await asyncio.gather(*[price(item) for item in ["apple", "pear"]])
print("two prices")
sum(prices)
"""


async def test_a_program_calls_tools_and_its_value_stays_here(host: Host, shop: Shop) -> None:
    coder = Coder(host, SUM)
    run = await coder.run()
    assert [call for call, _ in shop.called] == ["price", "price"]
    assert (run.value, run.variables, run.code) == (3.5, {"prices": [1.5, 2.0]}, SUM)
    assert answers(run) == ["two prices\nvalue: 3.5\nvariables: prices (list of 2)"]
    assert run.answer == "done"


async def test_model_gets_one_tool_and_the_server_functions(host: Host) -> None:
    coder = Coder(host)
    await coder.run()
    [seen] = coder.model.seen
    assert [tool["function"]["name"] for tool in seen.tools] == ["run_program"]
    assert "async def buy(item: str, *, count: int = 1) -> str: 'Buys items.'" in seen.messages[0].text


async def test_program_calls_keep_their_order() -> None:
    server, answered = MCPServer("pair", log_level="ERROR"), asyncio.Event()

    @server.tool()
    async def late() -> str:
        """Answers after the other."""
        await answered.wait()
        return "late"

    @server.tool()
    async def early() -> str:
        """Answers at once."""
        answered.set()
        return "early"

    code = "import asyncio, pair\nawait asyncio.gather(pair.late(), pair.early())"
    async with Host() as host:
        host.consent.policy = "auto"
        await host.connect(server, name="pair")
        run = await Coder(host, code).run()
    for transcript in (run.transcript, Transcript.from_messages(run.messages)):
        assert [result and result.data for result in transcript.results][1:] == ["late", "early"]


async def test_program_cards_contain_their_calls_after_a_restart(host: Host) -> None:
    run = await Coder(host, SUM).run()
    for transcript in (run.transcript, Transcript.from_messages(run.messages)):
        assert [(call.name, bool(call.parent)) for call in transcript.calls] == [
            ("run_program", False),
            ("shop:price", True),
            ("shop:price", True),
        ]
        assert [result and result.data for result in transcript.results][1:] == [1.5, 2.0]
        assert html(transcript).count("mcp-inner") >= 2
        assert "prices = await asyncio.gather" in str(transcript)


async def test_program_variables_and_imports_last_in_the_thread(host: Host) -> None:
    coder = Coder(host, SUM, "prices = [await price('pear'), *prices]", "f'{len(prices)} prices'")
    run = await coder.run()
    assert run.value == "3 prices"
    assert run.variables == {"prices": [2.0, 1.5, 2.0]}
    again = await Coder(host, "len(prices)").run(thread="other")
    assert "Name `prices` used when not defined" in answers(again)[0]


async def test_program_with_a_type_error_is_not_asked_about_or_run(host: Host, shop: Shop) -> None:
    host.consent.policy, log = "ask", []
    host.consent.approver = approve(log)
    run = await Coder(host, "from shop import price, buy\nawait buy('x')\nx = 1\nawait price(place='Oslo')").run()
    assert not shop.called
    assert not log
    assert answers(run)[0].splitlines() == [
        "The program was not run, and nothing was called:",
        "line 4: No argument provided for required parameter `item` of function `price`",
        "line 4: Argument `place` does not match any known parameter of function `price`",
    ]
    assert run.transcript.calls[0].status == "error"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("1 +", "SyntaxError: line 1: invalid syntax"),
        ("from shop import *", "`from x import *` is not valid here"),
        ("from shop import cellar", "line 1: Module `shop` has no member `cellar`"),
        (
            "from shop import price\n(await price('apple')).upper()",
            "line 2: Object of type `float` has no attribute `upper`",
        ),
        ("x = 1\nreturn x", "SyntaxError: line 2: 'return' outside function"),
        ("x = 1\n" * 4000, "the program has 24,000 characters; at most 20,000 are valid"),
    ],
)
async def test_what_cannot_run_is_said_in_a_line(host: Host, code: str, problem: str) -> None:
    assert problem in answers(await Coder(host, code).run())[0]


async def test_mixed_types_and_assigned_names_pass_the_type_check(host: Host) -> None:
    code = """
rows = [{"n": 1}]
rows[0]["name"] = "one"
found = None
for row in rows:
    found = row
count = 0
def bump():
    global count
    count += 1
bump()
count, found
"""
    run = await Coder(host, code, "count = 'many'", "bump()\ncount").run()
    assert [bool(program.problem) for program in run.programs] == [False, False, True]
    assert "TypeError" in answers(run)[2]  # which Python raises, and not the check
    assert run.programs[0].value == (1, {"n": 1, "name": "one"})


async def test_exception_returns_its_line_and_the_printed_output(host: Host) -> None:
    code = "from shop import fail\nprint('so far')\nx = 7\nasync def go():\n    await fail('no more')\nawait go()"
    coder = Coder(host, code, "x")
    run = await coder.run()
    assert answers(run)[0] == (
        "line 6, line 5 in go: await fail('no more')\n"
        "RuntimeError: Error executing tool fail: no more\nIt printed:\nso far"
    )
    assert run.value == 7  # what it had assigned is kept


async def test_a_program_and_its_calls_are_each_decided(host: Host, shop: Shop) -> None:
    host.consent.policy, log = "ask", []
    host.consent.approver = approve(log, but="buy")
    code = (
        "from shop import price, buy\nawait price('apple')\ntry: await buy('apple')\nexcept RuntimeError as e: print(e)"
    )
    run = await Coder(host, code).run()
    assert [(each.name, each.program, each.asker) for each in log] == [
        (":run_program", "sandbox", "agent"),
        ("shop:price", "", "agent"),
        ("shop:buy", "", "agent"),
    ]
    assert "shop:buy was not called; denied by the user: too dear" in answers(run)[0]
    assert [record.tool for record in host.consent.audit.records] == ["run_program", "price", "buy"]
    assert [name for name, _ in shop.called] == ["price"]


async def test_an_edited_program_is_checked_again_and_runs(host: Host, shop: Shop) -> None:
    host.consent.policy, log = "ask", []
    for code, expected in (("1 + 2", "value: 3"), ("from shop import price\nprice(1)", "Expected `str`")):
        host.consent.approver = approve(log, edited={"code": code})
        run = await Coder(host, SUM).run(thread=code)
        assert "[the user changed the program to]" in answers(run)[0]
        assert expected in answers(run)[0]
    assert not shop.called


async def test_a_denied_program_does_not_run(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    host.consent.approver = approve([], but="run_program")
    run = await Coder(host, SUM).run()
    assert "the program was not run; denied by the user: too dear" in answers(run)[0]
    assert not shop.called


@pytest.mark.parametrize(
    ("policy", "asked"), [("readonly", ["price"]), ("auto", []), ("ask", ["run_program", "price"])]
)
async def test_sandbox_counts_as_read_only(host: Host, policy: str, asked: list[str]) -> None:
    host.consent.policy, log = policy, []
    host.consent.approver = approve(log)
    await Coder(host, "from shop import price\nawait price('apple')").run()
    assert [request.tool for request in log] == asked


class Planner:
    """Buys no pears, and two apples where one is wanted; keeps what it is asked."""

    def __init__(self) -> None:
        self.plans: list[list[str]] = []
        self.single: list[str] = []

    async def __call__(self, request: Request) -> Decision:
        self.single.append(request.name)
        return Decision.approve()

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        items = [str(call.request.arguments["item"]) for call in calls]
        self.plans.append(items)
        answers = {"pear": Decision.deny("too dear"), "apple": Decision.approve({"item": "apple", "count": 2})}
        return {at: answers.get(item, Decision.approve()) for at, item in enumerate(items)}


async def test_waiting_calls_of_a_program_form_one_plan(host: Host, shop: Shop) -> None:
    host.consent.policy, host.consent.approver = "ask", (planner := Planner())
    code = """
import asyncio
from shop import buy
async def one(item):
    try:
        return await buy(item)
    except RuntimeError as error:
        return str(error)
bought = await asyncio.gather(*[one(item) for item in ["apple", "pear", "plum"]])
later = await buy("apple")
"""
    coder = Coder(host, code, approve="plan")
    run = await coder.run()
    assert planner.plans == [["apple", "pear", "plum"]], (
        "the program itself reaches nothing else, and is not asked about"
    )
    assert planner.single == ["shop:buy"], "the plan approved one apple, and the program wants another"
    assert run.variables["bought"][::2] == ["bought 2 apple", "bought 1 plum"]
    assert "too dear" in run.variables["bought"][1]
    assert run.variables["later"] == "bought 1 apple"
    assert len(shop.called) == 3
    assert [record.decision for record in host.consent.audit.records][1:] == ["edit", "deny", "approve", "approve"]


async def test_stop_ends_a_program_whose_calls_wait_for_a_plan(host: Host, shop: Shop) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    class Absent(Planner):
        async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
            try:
                asked.set()
                await asyncio.Event().wait()
            finally:
                ended.set()
            return {}

    host.consent.policy, host.consent.approver = "plan", Absent()
    code = "import asyncio\nfrom shop import buy\nawait asyncio.gather(buy('apple'), buy('pear'))"
    run = asyncio.ensure_future(Coder(host, code).run())
    await asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set()
    assert shop.called == []


async def test_interrupt_asks_about_the_program_not_its_calls(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    host.consent.add(Rule("allow", "shop:price"))
    code = "from shop import price, buy\nprint(await price('apple'))\nawait buy('apple')"
    coder = Coder(host, code, ask="interrupt")
    config: Any = {"configurable": {"thread_id": "t"}}
    state = await coder.graph.ainvoke({"messages": [("human", "go")]}, config)
    [waiting] = state["__interrupt__"][0].value["calls"]
    state = await coder.graph.ainvoke(Command(resume={waiting["id"]: {"decision": "approve"}}), config)
    assert (waiting["program"], waiting["arguments"]) == ("sandbox", {"code": code})
    assert "an interrupt cannot ask about the calls of a program" in state["messages"][2].text
    assert [name for name, _ in shop.called] == ["price"]


async def test_a_rule_lets_the_programs_of_the_sandbox_run(host: Host) -> None:
    host.consent.policy, log = "ask", []
    host.consent.approver = approve(log)
    host.consent.add(Rule("allow", ":run_program"))
    await Coder(host, "from shop import price\nawait price('apple')").run()
    assert [request.name for request in log] == ["shop:price"]


async def test_program_calls_are_traced_and_replayed_from_a_cassette(shop: Shop, tmp_path: Path) -> None:
    async def ran(model: ScriptedModel) -> AgentRun:
        async with Host() as host:
            host.consent.policy = "auto"
            await host.connect(shop.server, name="shop")
            graph = build_graph(model, host, programs=Programs(), checkpointer=InMemorySaver())
            run = await run_agent(graph, host, "go", thread="t")
            assert [each.method for each in host.trace].count("tools/call") == 4  # two requests, two answers
            return run

    with deck.holding(tmp_path / "tape.jsonl", "record"):
        recorded = await ran(ScriptedModel([program(SUM), "done"]))
    shop.called.clear()
    with deck.holding(tmp_path / "tape.jsonl", "replay", in_process="replay"):
        played = await ran(ScriptedModel([]))
    assert (played.value, answers(played), played.answer) == (recorded.value, answers(recorded), "done")
    assert not shop.called


def test_every_provider_takes_the_tool() -> None:
    tool = Programs().function
    assert not openai_refuses([tool])
    assert not anthropic_refuses(to_anthropic([tool]))


async def test_tables_become_dataframes_and_the_model_reads_the_head(host: Host) -> None:
    code = "rows = [{'city': f'c{n}', 'rain': n} for n in range(200)]\nrows"
    run = await Coder(host, code, programs=Programs(characters=300)).run()
    assert isinstance(run.value, pd.DataFrame)
    assert isinstance(run.variables["rows"], pd.DataFrame)
    assert run.value.shape == (200, 2)
    assert answers(run) == [
        'value: list of 200 rows with city, rain; the first 3: [{"city": "c0", "rain": 0}, {"city": "c1", "rain": 1}, '
        '{"city": "c2", "rain": 2}]\nvariables: rows (list of 200 rows with city, rain)'
    ]


async def test_stop_ends_a_program_and_its_call(host: Host, shop: Shop) -> None:
    running = asyncio.ensure_future(Coder(host, "from shop import wait\nawait wait('a')").run())
    await shop.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(shop.cancelled.wait(), 10)


async def test_an_interrupt_ends_a_program_that_computes(host: Host) -> None:
    shown = asyncio.Event()
    coder = Coder(host, "while True: pass", programs=Programs(seconds=60))

    class Screen:
        def changed(self, transcript: Transcript) -> None:
            if any(call.approved for call in transcript.calls):
                shown.set()

        def flush(self, transcript: Transcript) -> None: ...

    running = asyncio.ensure_future(run_agent(coder.graph, host, "go", thread="t", screen=Screen()))
    await asyncio.wait_for(shown.wait(), 30)
    running.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_model_learns_that_the_variables_of_a_thread_are_lost(host: Host, shop: Shop) -> None:
    coder = Coder(host, "x = 1")
    before = await coder.run()
    other = Coder(host, "2")
    config: Any = {"configurable": {"thread_id": "copy"}}  # as after a restart: the messages, and no variables
    await other.graph.aupdate_state(config, {"messages": before.messages})
    run = await other.run(thread="copy")
    assert answers(run)[0].startswith("[the variables of earlier programs are gone")


async def test_only_so_many_bytes_of_variables_are_kept(host: Host) -> None:
    for name in ("old", "new"):
        state_of(host, name).heap = b"x" * (MAX_HEAPS // 2 + 1)
    assert state_of(host, "new").heap is not None
    assert state_of(host, "old").heap is None


async def test_a_program_becomes_a_cell_that_runs_against_the_session(host: Host, shop: Shop) -> None:
    run = await Coder(host, SUM).run()
    code = cell_of(run.messages)
    assert code.startswith(
        "# A model wrote this program. Here it runs in your kernel, without the sandbox: read it first.\n"
    )
    assert "shop = server_module(host, 'shop')" in code
    assert "price = shop.price" in code
    shop.called.clear()
    namespace: dict[str, Any] = {}
    lines = code.replace("from mcp_magic import host\n", "")  # the test has a host of its own
    namespace["host"] = host
    await eval(compile(lines, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
    assert namespace["prices"] == [1.5, 2.0]
    assert [name for name, _ in shop.called] == ["price", "price"]


def test_server_imports_become_assignments() -> None:
    code = "import json, shop as s; from shop import (\n    price as p,\n    buy,\n)\nx = 'import shop'\nawait p('a')"
    assert as_cell([code], {"shop": "my-shop", "other": "other"}).splitlines()[1:] == [
        "from mcp_magic import host",
        "from mcp_magic.agent.modules import server_module",
        "",
        "shop = server_module(host, 'my-shop')",
        "",
        "import json; s = shop; p = shop.price; buy = shop.buy",
        "",
        "",
        "",
        "x = 'import shop'",
        "await p('a')",
    ]


async def test_a_module_of_a_server_returns_data(host: Host) -> None:
    shop = server_module(host, "shop")
    assert await shop.price("apple") == 1.5
    assert await shop.buy(item="pear", count=2) == "bought 2 pear"


async def test_model_reads_relevant_tools_and_searches_for_the_rest(host: Host) -> None:
    server = MCPServer("many", log_level="ERROR")
    for number in range(100):
        server.add_tool(lambda text: text, f"tool_{number}", description=f"Does thing number {number} with a text")
    server.add_tool(lambda order: order, "refund", description="Refunds an order to the customer")
    await host.connect(server, name="many")
    tools = [(host["many"], tool) for tool in host["many"].catalog.cached("tools")]
    text = interface(modules_of(tools), "give the customer of order 7 the money back")
    assert "async def refund(" in text
    assert "# also: tool_" in text
    assert len(text) < 10_000
    code = "import tools\nfrom many import refund\nprint(tools.find('refund'))\nawait refund('7')"
    run = await Coder(host, code).run()
    assert "# module many\nasync def refund" in answers(run)[0]


# In the kernel.


async def test_program_in_the_kernel_uses_its_variables_and_tools(host: Host, shop: Shop) -> None:
    host.consent.approver = approve([])
    namespace: dict[str, Any] = {"items": ["apple", "pear"]}
    code = "from shop import price\nprint('hello')\nprices = {i: await price(i) for i in items}\nsum(prices.values())"
    run = await Coder(host, code, programs=Programs(namespace=namespace)).run()
    assert run.value == 3.5
    assert namespace["prices"] == {"apple": 1.5, "pear": 2.0}
    assert not any(name.startswith("__mcp") for name in namespace)
    assert answers(run)[0].startswith("hello\nvalue: 3.5")


@pytest.mark.parametrize("how", ["rule", "auto", "run", "interrupt", "nobody"])
async def test_nothing_but_the_user_approves_a_program_in_the_kernel(host: Host, how: str) -> None:
    namespace: dict[str, Any] = {}
    log: list[Request] = []
    host.consent.policy = "auto"
    if how == "rule":
        host.consent.add(Rule("allow", "*"))
        host.consent.add(Rule("allow", ":run_program"))
    if how != "nobody":

        async def once(request: Request) -> Decision:
            log.append(request)
            return Decision.approve(always="run") if len(log) == 1 and how == "run" else Decision.deny("no")

        host.consent.approver = once
    coder = Coder(host, "ran = 1", "ran_again = 1", programs=Programs(namespace=namespace))
    run = await coder.run()
    assert "ran_again" not in namespace
    assert ("ran" in namespace) == (how == "run")
    assert len(log) == (0 if how == "nobody" else 2)
    if how == "nobody":
        assert "you cannot be asked here" in answers(run)[0]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("x = 1\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("from shop import *", "`from x import *` is not valid here"),
        ("from shop import cellar", "has no attribute 'cellar'"),
        ("x = ", "SyntaxError: line 1: invalid syntax"),
    ],
)
async def test_a_program_in_the_kernel_that_fails_says_where(host: Host, code: str, problem: str) -> None:
    host.consent.approver = approve([])
    run = await Coder(host, code, programs=Programs(namespace={})).run()
    assert problem in answers(run)[0]


RENAMED = {
    "a name": ("math", "from math import buy", "from math_server import buy"),
    "an attribute": ("math", "import math\nmath.buy('pear')", "from math_server import buy"),
    "no function": ("math", "from math import sell", "import math_server"),
    "a builtin": ("list", "import list", "import list_server"),
}


@pytest.fixture
async def renamed(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Host, str, str, str]]:
    """Return a host with a server whose module has another name, a program with the wrong one, and the right line."""
    name, code, line = RENAMED[request.param]
    server = MCPServer(name, log_level="ERROR")

    @server.tool()
    def buy(item: str) -> str:
        """Buys."""
        return item

    async with Host() as host:
        host.consent.approver = approve([])
        await host.connect(server, name=name)
        yield host, name, code, line


@pytest.mark.parametrize("where", ["sandbox", "kernel"])
@pytest.mark.parametrize("renamed", ["a name", "an attribute", "no function", "a builtin"], indirect=True)
async def test_an_error_names_the_module_of_a_renamed_server(renamed: Any, where: str) -> None:
    host, name, code, line = renamed
    run = await Coder(host, code, programs=Programs(namespace=None if where == "sandbox" else {})).run()
    assert answers(run)[0].endswith(f"The server {name} is the module {name}_server: `{line}`")


@pytest.mark.parametrize("renamed", ["a name", "a builtin"], indirect=True)
async def test_the_stubs_name_the_module_of_a_renamed_server(renamed: Any) -> None:
    host, name, _, _ = renamed
    coder = Coder(host)
    await coder.run()
    title = f"# module {name}_server (the server {name}: import {name}_server, because {name} is Python's)"
    assert title in coder.model.seen[0].messages[0].text


@pytest.mark.parametrize("renamed", ["a name"], indirect=True)
async def test_pythons_own_module_has_no_hint(renamed: Any) -> None:
    host, *_ = renamed
    run = await Coder(host, "import math\nmath.sqrt(-1)").run()
    assert "The server" not in answers(run)[0]
