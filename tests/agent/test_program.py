"""Programs of a model: checked before they call anything, their calls decided and shown like any other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from mcp_magic._host import Host
from mcp_magic.agent.program import MAX_HEAPS, Programs, state_of
from mcp_magic.agent.transcript import Transcript
from mcp_magic.ask.approval import approval_question
from mcp_magic.cassette.cassette import deck
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from tests.support.agents import THREAD, add_server, answers, ask, bound, coder, interrupt
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic
from tests.support.telling import html

pytest.importorskip("pydantic_monty")

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.agent.run import AgentRun
    from mcp_magic.consent.consent import PlannedRequest

SUM = """
from shop import price
import asyncio
prices = await asyncio.gather(*[price(item) for item in ["apple", "pear"]])
print("two prices")
sum(prices)
"""
PRICE = "from shop import price\nawait price('apple')"


def said(run: AgentRun) -> list[str]:
    return [text for _, text in answers(run)]


def asking(host: Host, *, edited: dict[str, Any] | None = None, but: str = "") -> list[Request]:
    """Let a person edit programs, and deny the calls of one tool."""

    def answer(request: Request) -> Decision:
        denied = request.tool == but
        return Decision.deny("too dear") if denied else Decision.approve(edited if request.program else None)

    return ask(host, answer)


async def test_a_program_calls_tools_and_its_value_stays_here(host, shop):
    agent = coder(host, SUM)
    run = await agent.run()
    assert [call for call, _ in shop.called] == ["price", "price"]
    assert (run.value, run.variables, run.code) == (3.5, {"prices": [1.5, 2.0]}, SUM)
    assert said(run) == ["two prices\nvalue: 3.5\nvariables: prices (list of 2)"]
    assert run.answer == "done"
    assert bound(agent.model)[0] == ["run_program"]
    assert "async def buy(item: str, *, count: int = 1) -> str: 'Buys items.'" in agent.model.seen[0].messages[0].text
    for transcript in (run.transcript, Transcript.from_messages(run.messages)):
        calls = [(call.name, bool(call.parent)) for call in transcript.calls]
        assert calls == [("run_program", False), ("shop:price", True), ("shop:price", True)]
        assert [result and result.data for result in transcript.results][1:] == [1.5, 2.0]
        assert html(transcript).count("mcp-inner") >= 2
        assert "prices = await asyncio.gather" in str(transcript)


async def test_calls_of_a_program_keep_their_order(host):
    answered = asyncio.Event()

    async def late() -> str:
        await answered.wait()
        return "late"

    async def early() -> str:
        answered.set()
        return "early"

    await add_server(host, "pair", late, early)
    run = await coder(host, "import asyncio, pair\nawait asyncio.gather(pair.late(), pair.early())").run()
    for transcript in (run.transcript, Transcript.from_messages(run.messages)):
        assert [result and result.data for result in transcript.results][1:] == ["late", "early"]


async def test_variables_and_imports_last_in_the_thread(host):
    run = await coder(host, SUM, "prices = [await price('pear'), *prices]", "f'{len(prices)} prices'").run()
    assert run.value == "3 prices"
    assert run.variables == {"prices": [2.0, 1.5, 2.0]}
    again = await coder(host, "len(prices)").run(thread="other")
    assert "Name `prices` used when not defined" in said(again)[0]


async def test_the_model_learns_that_variables_are_lost(host):
    before, other = await coder(host, "x = 1").run(), coder(host, "2")
    place: Any = {"configurable": {"thread_id": "copy"}}  # as after a restart: the messages, and no variables
    await other.graph.aupdate_state(place, {"messages": before.messages})
    assert said(await other.run(thread="copy"))[0].startswith("[the variables of earlier programs are gone")
    for name in ("old", "new"):
        state_of(host, name).heap = b"x" * (MAX_HEAPS // 2 + 1)
    assert state_of(host, "new").heap is not None
    assert state_of(host, "old").heap is None, "only so many bytes are kept"


async def test_tables_become_dataframes_and_the_model_reads_the_head(host):
    code = "rows = [{'city': f'c{n}', 'rain': n} for n in range(200)]\nrows"
    run = await coder(host, code, programs=Programs(characters=300)).run()
    assert isinstance(run.value, pd.DataFrame)
    assert isinstance(run.variables["rows"], pd.DataFrame)
    assert run.value.shape == (200, 2)
    assert said(run) == [
        'value: list of 200 rows with city, rain; the first 3: [{"city": "c0", "rain": 0}, {"city": "c1", "rain": 1}, '
        '{"city": "c2", "rain": 2}]\nvariables: rows (list of 200 rows with city, rain)'
    ]


# What is wrong with a program


async def test_a_type_error_is_told_before_anything_is_asked(host, shop):
    requests = asking(host)
    run = await coder(host, "from shop import price, buy\nawait buy('x')\nx = 1\nawait price(place='Oslo')").run()
    assert (shop.called, requests) == ([], [])
    assert said(run)[0].splitlines() == [
        "The program was not run, and nothing was called:",
        "line 4: No argument provided for required parameter `item` of function `price`",
        "line 4: Argument `place` does not match any known parameter of function `price`",
    ]
    assert run.transcript.calls[0].status == "error"


UPPER = "from shop import price\n(await price('apple')).upper()"
WRONG = [
    ("sandbox", "1 +", "SyntaxError: line 1: invalid syntax"),
    ("sandbox", "from shop import *", "`from x import *` is not valid here"),
    ("sandbox", "from shop import cellar", "line 1: Module `shop` has no member `cellar`"),
    ("sandbox", UPPER, "line 2: Object of type `float` has no attribute `upper`"),
    ("sandbox", "x = 1\nreturn x", "SyntaxError: line 2: 'return' outside function"),
    ("sandbox", "x = 1\n" * 4000, "the program has 24,000 characters; at most 20,000 are valid"),
    ("kernel", "x = 1\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
    ("kernel", "import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
    ("kernel", "from shop import *", "`from x import *` is not valid here"),
    ("kernel", "from shop import cellar", "has no attribute 'cellar'"),
    ("kernel", "x = ", "SyntaxError: line 1: invalid syntax"),
]


async def test_a_program_that_cannot_run_says_why_in_a_line(host):
    asking(host)
    for where, code, problem in WRONG:
        programs = Programs(namespace=None if where == "sandbox" else {})
        assert problem in said(await coder(host, code, programs=programs).run(thread=code[:20] + where))[0]


async def test_mixed_types_and_assigned_names_pass_the_check(host):
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
    run = await coder(host, code, "count = 'many'", "bump()\ncount").run()
    assert [bool(program.problem) for program in run.programs] == [False, False, True]
    assert "TypeError" in said(run)[2]  # which Python raises, and not the check
    assert run.programs[0].value == (1, {"n": 1, "name": "one"})


async def test_an_exception_returns_its_line_and_the_output(host):
    code = "from shop import fail\nprint('so far')\nx = 7\nasync def go():\n    await fail('no more')\nawait go()"
    run = await coder(host, code, "x").run()
    assert said(run)[0] == (
        "line 6, line 5 in go: await fail('no more')\n"
        "RuntimeError: Error executing tool fail: no more\nIt printed:\nso far"
    )
    assert run.value == 7, "what it had assigned is kept"


# Decisions


async def test_a_program_and_its_calls_are_decided_one_by_one(host, shop):
    requests = asking(host, but="buy")
    run = await coder(
        host, f"{PRICE}\nfrom shop import buy\ntry: await buy('a')\nexcept RuntimeError as e: print(e)"
    ).run()
    assert [(request.name, request.program, request.asker) for request in requests] == [
        (":run_program", "sandbox", "agent"),
        ("shop:price", "", "agent"),
        ("shop:buy", "", "agent"),
    ]
    assert "shop:buy was not called; denied by the user: too dear" in said(run)[0]
    assert [record.tool for record in host.consent.audit.records] == ["run_program", "price", "buy"]
    assert [name for name, _ in shop.called] == ["price"]


async def test_an_edited_program_is_checked_again_and_runs(host, shop):
    for code, expected in (("1 + 2", "value: 3"), ("from shop import price\nprice(1)", "Expected `str`")):
        asking(host, edited={"code": code})
        [text] = said(await coder(host, SUM).run(thread=code))
        assert "[the user changed the program to]" in text
        assert expected in text
    asking(host, but="run_program")
    [text] = said(await coder(host, SUM).run())
    assert "the program was not run; denied by the user: too dear" in text
    assert not shop.called


@pytest.mark.parametrize(
    ("policy", "rule", "tools"),
    [
        ("readonly", "", ["price"]),
        ("auto", "", []),
        ("ask", "", ["run_program", "price"]),
        ("ask", ":run_program", ["price"]),
    ],
)
async def test_the_sandbox_counts_as_read_only(host, policy, rule, tools):
    requests = asking(host)
    host.consent.policy = policy
    host.consent.rules[:] = [Rule("allow", rule)] if rule else []
    await coder(host, PRICE).run()
    assert [request.tool for request in requests] == tools


async def test_a_rule_that_denies_holds_for_calls_of_programs(host, shop):
    host.consent.add(Rule("deny", "shop:price", reason="never"))
    assert "denied by rule" in said(await coder(host, PRICE).run())[0]
    assert not shop.called


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
        decisions = {"pear": Decision.deny("too dear"), "apple": Decision.approve({"item": "apple", "count": 2})}
        return {at: decisions.get(item, Decision.approve()) for at, item in enumerate(items)}


async def test_waiting_calls_of_a_program_form_one_plan(host, shop):
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
    run = await coder(host, code, approve="plan").run()
    assert planner.plans == [["apple", "pear", "plum"]], "and no question about the program: it reaches nothing else"
    assert planner.single == ["shop:buy"], "the plan approved one apple, and the program wants another"
    assert run.variables["bought"][::2] == ["bought 2 apple", "bought 1 plum"]
    assert "too dear" in run.variables["bought"][1]
    assert run.variables["later"] == "bought 1 apple"
    assert len(shop.called) == 3
    assert [record.decision for record in host.consent.audit.records][1:] == ["edit", "deny", "approve", "approve"]


async def test_an_interrupt_asks_about_the_program_not_its_calls(host, shop):
    host.consent.policy = "ask"
    host.consent.add(Rule("allow", "shop:price"))
    code = "from shop import price, buy\nprint(await price('apple'))\nawait buy('apple')"
    graph = coder(host, code, ask="interrupt").graph
    state = await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    [waiting] = state["__interrupt__"][0].value["calls"]
    state = await graph.ainvoke(Command(resume={waiting["id"]: {"decision": "approve"}}), THREAD)
    assert (waiting["program"], waiting["arguments"]) == ("sandbox", {"code": code})
    assert "an interrupt cannot ask about the calls of a program" in state["messages"][2].text
    assert [name for name, _ in shop.called] == ["price"]


@pytest.mark.parametrize("where", ["sandbox", "kernel"])
def test_the_question_shows_the_whole_program(where):
    code = "x = 1\n" + "# filler\n" * 500 + "from bank import send\nawait send('\u202emine')" + " " * 500 + "; evil = 1"
    tool = Programs(namespace=None if where == "sandbox" else {}).tool
    question = approval_question(Request("", "run_program", {"code": code}, "agent", tool, program=where))
    part = question.about({"code": code})
    assert all(text in part.plain for text in ("x = 1", "from bank import send", "\\u202e", "⟨␣\u00d7500⟩", "evil"))
    assert "\u202e" not in part.html
    assert "evil" in part.html
    scopes = next(extra for extra in question.extra if extra.name == "scope").options
    assert len(scopes) == (3 if where == "sandbox" else 1)
    always = any("lways" in choice.typed and choice.name == "approve" for choice in question.choices)
    assert always == (where == "sandbox")


# How it ends


@pytest.mark.parametrize("waits_for", ["a plan", "a call"])
async def test_stop_ends_a_program_that_waits(host, shop, waits_for):
    class Absent(Planner):
        async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
            shop.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                shop.cancelled.set()
            return {}

    codes = {
        "a plan": "import asyncio\nfrom shop import buy\nawait asyncio.gather(buy('apple'), buy('pear'))",
        "a call": "from shop import wait\nawait wait('a')",
    }
    if waits_for == "a plan":
        host.consent.policy, host.consent.approver = "plan", Absent()
    running = asyncio.ensure_future(coder(host, codes[waits_for]).run())
    await shop.started.wait()
    await interrupt(running)
    await asyncio.wait_for(shop.cancelled.wait(), 10)
    assert shop.called == []


async def test_an_interrupt_ends_a_program_that_computes(host):
    approved = asyncio.Event()
    agent = coder(host, "while True: pass", programs=Programs(seconds=60))

    class Screen:
        def update(self, transcript: Transcript) -> None:
            if any(call.decision for call in transcript.calls):
                approved.set()

        def flush(self, transcript: Transcript) -> None: ...

    agent.screen = Screen()
    running = asyncio.ensure_future(agent.run())
    await asyncio.wait_for(approved.wait(), 30)
    async with asyncio.timeout(10):
        await interrupt(running)


async def test_programs_are_traced_and_replayed_from_a_cassette(shop, tmp_path):
    async def ran(*codes: str) -> AgentRun:
        async with Host() as host:
            host.consent.policy = "auto"
            await host.connect(shop.server, name="shop")
            run = await coder(host, *codes).run()
            assert [line.method for line in host.trace].count("tools/call") == 4  # two requests, two answers
            return run

    with deck.holding(tmp_path / "tape.jsonl", "record"):
        recorded = await ran(SUM)
    shop.called.clear()
    with deck.holding(tmp_path / "tape.jsonl", "replay", in_process="replay"):
        played = await ran()
    assert (played.value, said(played), played.answer) == (recorded.value, said(recorded), "done")
    assert not shop.called


def test_every_provider_takes_the_tool():
    tool = Programs().function
    assert not openai_refuses([tool])
    assert not anthropic_refuses(to_anthropic([tool]))


# In the kernel


async def test_a_program_in_the_kernel_uses_its_variables_and_tools(host):
    asking(host)
    host.consent.policy = "auto"
    namespace: dict[str, Any] = {"items": ["apple", "pear"]}
    code = "from shop import price\nprint('hello')\nprices = {i: await price(i) for i in items}\nsum(prices.values())"
    run = await coder(host, code, programs=Programs(namespace=namespace)).run()
    assert run.value == 3.5
    assert namespace["prices"] == {"apple": 1.5, "pear": 2.0}
    assert not any(name.startswith("__mcp") for name in namespace)
    assert said(run)[0].startswith("hello\nvalue: 3.5")


@pytest.mark.parametrize("how", ["rule", "auto", "run", "nobody"])
async def test_only_the_user_approves_a_program_in_the_kernel(host, how):
    namespace: dict[str, Any] = {}
    first = Decision.approve(always="run") if how == "run" else Decision.deny("no")
    requests = ask(host, lambda _: first if len(requests) == 1 else Decision.deny("no"))
    host.consent.policy = "auto"
    if how == "rule":
        host.consent.rules[:] = [Rule("allow", "*"), Rule("allow", ":run_program")]
    if how == "nobody":
        host.consent.approver = None
    run = await coder(host, "ran = 1", "ran_again = 1", programs=Programs(namespace=namespace)).run()
    assert {"ran", "ran_again"} & set(namespace) == ({"ran"} if how == "run" else set())
    assert len(requests) == (0 if how == "nobody" else 2)
    assert ("you cannot be asked here" in said(run)[0]) == (how == "nobody")
