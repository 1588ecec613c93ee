"""Who decides about the calls of a graph: rules, policies, a person, whoever resumes it; and what a decision covers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.types import Command
from mcp_types import Tool

from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from tests.support.agents import BUY, PRICE, THREAD, Agent, Shop, answers, ask, asked, play
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic._host import Host
    from mcp_magic.consent.consent import PlannedRequest


async def test_defaults_are_filled_in_before_approval(host):
    scale = {"enum": ["css", "px"], "default": "css"}
    schema = {"type": "object", "properties": {"scale": scale}, "required": ["scale"]}
    await host.connect(serving_tools(Tool(name="shot", input_schema=schema)), name="pw")
    host.consent.rules.append(Rule("deny", "pw:shot", {"scale": "css"}, "too small"))
    played = await play(host, [("pw:shot", {})], [("pw:shot", {"scale": "px"})], "ok")
    (status, text), (_, sent) = played.answers
    assert (status, "too small" in text, sent) == ("error", True, "[('scale', 'px')]")
    host.consent.rules.clear()
    assert (await play(host, [("pw:shot", {})], "ok")).answers == [("success", "[('scale', 'css')]")]


async def test_a_denied_call_returns_the_reason_and_is_not_sent(host, shop):
    ask(host, Decision.deny("too dear"))
    played = await play(host, BUY, "Then not.")
    [message] = [message for message in played.messages if isinstance(message, ToolMessage)]
    assert message.text == "shop:buy was not called; denied by the user: too dear. Do not try the same again."
    assert message.artifact["approval"] == {"decision": "deny", "by": "person", "reason": "too dear"}
    assert shop.called == []


async def test_edited_arguments_are_sent_and_told_to_the_model(host, shop):
    ask(host, Decision.approve({"item": "apple", "count": 2}))
    told = "[the user changed the arguments to item=apple, count=2]\nbought 2 apple"
    assert (await play(host, BUY, "ok")).answers == [("success", told)]
    assert shop.called == [("buy", {"item": "apple", "count": 2})]


async def test_calls_of_a_turn_are_asked_about_at_once_and_once(host):
    both = asyncio.Barrier(2)
    requests: list[Request] = []

    async def approver(request: Request) -> Decision:
        requests.append(request)
        await both.wait()
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    await asyncio.wait_for(play(host, [*BUY, *PRICE], "ok"), 60)
    assert [(request.name, request.asker) for request in requests] == [("shop:buy", "agent"), ("shop:price", "agent")]
    assert [record.decision for record in host.consent.audit.records] == ["approve", "approve"]


@pytest.mark.parametrize(
    ("hosts", "own", "rules", "said"),
    [
        pytest.param("deny", "auto", [], "bought 1 pear", id="auto"),
        pytest.param("auto", "deny", [], "denied by approval = 'deny'", id="deny"),
        pytest.param(
            "auto", "auto", [Rule("deny", "shop:buy", reason="closed")], "rule `deny shop:buy`: closed", id="rule"
        ),
    ],
)
async def test_a_rule_wins_over_the_graph_and_it_over_the_host(host, shop, hosts, own, rules, said):
    host.consent.policy, host.consent.rules[:] = hosts, rules
    [(_, text)] = (await play(host, BUY, "ok", approve=own)).answers
    assert said in text
    assert bool(shop.called) is (said == "bought 1 pear")


async def test_an_approval_for_a_run_holds_for_that_run_only(host):
    requests = ask(host, Decision.approve(always="run"))
    agent = Agent(host, BUY, BUY, "ok", BUY, "ok")
    await agent.run("twice")
    assert len(requests) == 1
    await agent.run("once more")
    assert len(requests) == 2
    assert host.consent.rules == []


async def test_an_approved_plan_ends_with_its_turn(host, shop):
    alone: list[Request] = []

    class Person:
        async def __call__(self, request: Request) -> Decision:
            alone.append(request)
            return Decision.approve()

        async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
            assert [planned.decision is None for planned in calls] == [True, True, True, False]
            return {0: Decision.approve(), 1: Decision.deny("too dear"), 2: Decision.approve({"item": "fig"})}

    host.consent.policy, host.consent.approver = "plan", Person()
    host.consent.add(Rule("deny", "shop:buy", {"item": "kiwi"}))
    await play(host, [("shop:buy", {"item": item}) for item in ("pear", "apple", "plum", "kiwi")], BUY, "ok")
    assert [request.arguments["item"] for request in alone] == ["pear"], "the same call in the next turn"
    assert sorted(arguments["item"] for _, arguments in shop.called) == ["fig", "pear", "pear"]
    records = [f"{record.decision}:{record.by.partition(' ')[0]}" for record in host.consent.audit.records]
    assert records == ["approve:person", "deny:person", "edit:person", "deny:rule", "approve:person"]


async def test_cancelling_one_question_ends_the_others(host):
    ended: list[str] = []

    async def approver(request: Request) -> Decision:
        if request.arguments["item"] == "pear":
            raise asyncio.CancelledError  # as Interrupt does where it finds the loop busy
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.arguments["item"])
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    agent = Agent(host, [("shop:buy", {"item": item}) for item in ("apple", "pear", "plum")], "ok")
    with pytest.raises(NodeCancelledError):
        await agent.run()
    assert ended == ["apple", "plum"]


# LangGraph's own interrupt


def interrupting(host: Host, *turns: Any, **options: Any) -> Any:
    """Return a graph that is interrupted where somebody must decide."""
    host.consent.policy = "ask"
    return build_graph(ScriptedModel(list(turns)), host, ask="interrupt", checkpointer=InMemorySaver(), **options)


async def test_whoever_resumes_the_graph_decides(host, shop):
    calls = [("shop:buy", {"item": "pear"}), ("shop:buy", {"item": "apple"}), ("shop:price", {"item": "pear"})]
    graph = interrupting(host, calls, "ok")
    [pause] = (await graph.ainvoke(asked(), THREAD))["__interrupt__"]
    waiting = pause.value["calls"]
    assert [(f"{call['server']}:{call['tool']}", call["arguments"]) for call in waiting] == calls
    assert waiting[2]["annotations"] == {"readOnlyHint": True}
    assert shop.called == []
    decisions = (
        {"decision": "edit", "arguments": {"item": "pear", "count": 3}},
        {"decision": "deny", "reason": "enough"},
        "approve",
    )
    resume = {call["id"]: decision for call, decision in zip(waiting, decisions, strict=True)}
    state = await graph.ainvoke(Command(resume=resume), THREAD)
    assert [status for status, _ in answers(state)] == ["success", "error", "success"]
    assert sorted(shop.called, key=str) == [("buy", {"item": "pear", "count": 3}), ("price", {"item": "pear"})]
    assert [record.decision for record in host.consent.audit.records] == ["edit", "deny", "approve"]


async def test_one_decision_answers_all_and_nonsense_is_a_denial(host):
    graph = interrupting(host, [*PRICE, ("shop:price", {"item": "apple"})], "ok", PRICE, "ok")
    await graph.ainvoke(asked(), THREAD)
    state = await graph.ainvoke(Command(resume=True), THREAD)
    assert [status for status, _ in answers(state)] == ["success", "success"]
    await graph.ainvoke(asked("again"), THREAD)
    status, text = answers(await graph.ainvoke(Command(resume={"decision": "perhaps"}), THREAD))[-1]
    assert (status, "valid are approve, edit (with arguments) and deny" in text) == ("error", True)


async def test_a_call_that_a_rule_decides_does_not_interrupt(host, shop):
    host.consent.add(Rule("allow", "shop:price"))
    assert "__interrupt__" not in await interrupting(host, PRICE, "ok").ainvoke(asked(), THREAD)
    assert shop.called == [("price", {"item": "pear"})]


async def test_an_id_that_reads_like_a_decision_is_none(host, shop):
    calls: Any = [{"name": "shop__buy", "args": {"item": item}, "id": item} for item in ("decision", "pear")]
    graph = interrupting(host, AIMessage("", tool_calls=calls), "ok")
    await graph.ainvoke(asked(), THREAD)
    await graph.ainvoke(Command(resume={"decision": "approve", "pear": "deny"}), THREAD)
    assert shop.called == [("buy", {"item": "decision", "count": 1})]


async def test_a_tool_changed_before_the_resume_is_not_called(host, shop):
    graph = interrupting(host, BUY, "ok")
    await graph.ainvoke(asked(), THREAD)
    changed = (await host["shop"].find_tool("buy")).model_copy(update={"description": "Sells the house."})
    host.consent.definitions.add_tools("shop", [changed])
    state = await graph.ainvoke(Command(resume="approve"), THREAD)
    assert shop.called == []
    assert "the tool has changed since you were asked about it" in answers(state)[0][1]


async def test_a_call_changed_after_approval_is_not_sent(host, shop):
    graph = interrupting(host, BUY, "done")
    await graph.ainvoke(asked(), THREAD)
    await graph.ainvoke(Command(resume="approve"), THREAD, interrupt_before=["act"])
    [turn] = [m for m in (await graph.aget_state(THREAD)).values["messages"] if isinstance(m, AIMessage)]
    changed = turn.model_copy(update={"tool_calls": [{**turn.tool_calls[0], "args": {"item": "apple"}}]})
    await graph.aupdate_state(THREAD, {"messages": [changed]}, as_node="approve")
    state = await graph.ainvoke(None, THREAD)
    assert shop.called == []
    assert "the decision was about another tool or other arguments" in answers(state)[0][1]


# Calls of the same id


def same_ids(*calls: tuple[str, str]) -> AIMessage:
    """Return a turn with calls of a tool for an item, all of the same id."""
    return AIMessage("", tool_calls=[{"name": name, "args": {"item": item}, "id": "call_1"} for name, item in calls])


async def test_a_decision_covers_no_other_call_of_the_same_id(host, shop):
    twin = Shop()
    await host.connect(twin.server, name="live")
    host.consent.rules = [Rule("deny", "live:*"), Rule("allow", "shop:*")]
    turn = same_ids(("live__buy", "pear"), ("shop__buy", "pear"))
    played = await play(host, turn, turn, "done")
    assert (twin.called, shop.called) == ([], [("buy", {"item": "pear", "count": 1})] * 2)
    said = [(m.tool_call_id, m.status) for m in played.messages if isinstance(m, ToolMessage)]
    assert said == [("call_1", "error"), ("call_1_2", "success"), ("call_1_3", "error"), ("call_1_4", "success")]
    calls = [call["id"] for m in played.messages if isinstance(m, AIMessage) for call in m.tool_calls]
    assert calls == [id_ for id_, _ in said]


async def test_one_of_two_calls_of_the_same_id_is_denied(host, shop):
    ask(host, lambda request: Decision.approve() if request.arguments["item"] == "apple" else Decision.deny("no"))
    played = await play(host, same_ids(("shop__buy", "pear"), ("shop__buy", "apple")), "done")
    assert shop.called == [("buy", {"item": "apple", "count": 1})]
    assert [status for status, _ in played.answers] == ["error", "success"]


async def test_duplicate_ids_in_a_written_state_are_not_called(host, shop):
    graph = build_graph(ScriptedModel(["done"]), host, checkpointer=InMemorySaver())
    messages = [HumanMessage("go"), same_ids(("shop__buy", "pear"), ("shop__buy", "apple"))]
    await graph.aupdate_state(THREAD, {"messages": messages}, as_node="think")
    state = await graph.ainvoke(None, THREAD)
    assert shop.called == []
    assert ["another call of this turn has the same id" in text for _, text in answers(state)] == [True, True]


async def test_a_decision_of_an_unfinished_turn_does_not_last(host, shop):
    model = ScriptedModel([same_ids(("shop__buy", "pear")), "done"])
    graph = build_graph(model, host, approve="deny", checkpointer=InMemorySaver())
    left = {"decision": "approve", "arguments": {"item": "pear"}, "by": "person", "reason": ""}
    of = {"turn": "earlier", "tool": "shop:buy", "arguments": {"item": "pear"}}
    await graph.aupdate_state(THREAD, {"approvals": {"call_1": {**left, "of": of}}}, as_node="act")
    await graph.ainvoke(asked(), THREAD)
    assert shop.called == []
