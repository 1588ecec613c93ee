"""The graph: think, approve, act; with the scripted model over live servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool

from mcp_magic.agent.calls import with_own_ids
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.transcript import Transcript
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from tests.agent.conftest import Shop


def asked(text: str = "go") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def tools_said(state: dict[str, Any]) -> list[tuple[str, str]]:
    return [(m.status, m.text) for m in state["messages"] if isinstance(m, ToolMessage)]


@pytest.mark.lowest
async def test_a_model_calls_a_tool_and_answers_from_the_result(host: Host, shop: Shop) -> None:
    model = ScriptedModel([[("shop:price", {"item": "apple"})], "It costs 1.5."])
    state = await build_graph(model, host).ainvoke(asked())
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert tools_said(state) == [("success", "1.5")]
    assert state["messages"][-1].text == "It costs 1.5."
    assert shop.called == [("price", {"item": "apple"})]


async def test_a_model_without_tools_answers(host: Host) -> None:
    state = await build_graph(ScriptedModel(["Hello."]), host).ainvoke(asked())
    assert state["messages"][-1].text == "Hello."


async def test_calls_of_a_turn_run_together_and_answer_in_order(host: Host, shop: Shop) -> None:
    model = ScriptedModel([[("shop:wait", {"name": n}) for n in ("a", "b", "c")], "done"])
    running = asyncio.ensure_future(build_graph(model, host).ainvoke(asked()))
    async with asyncio.timeout(60):
        while shop.most_together < 3:
            await shop.started.wait()
            await asyncio.sleep(0)
    shop.go_on.set()
    state = await running
    assert tools_said(state) == [("success", f"{n} waited") for n in ("a", "b", "c")]


async def test_steps_carry_on_over_several_servers(host: Host, shop: Shop) -> None:
    other = MCPServer("bank", log_level="ERROR")

    @other.tool()
    def pay(amount: float) -> str:
        return f"paid {amount}"

    await host.connect(other, name="bank")

    def second(messages: list[Any]) -> Any:
        return [("bank:pay", {"amount": float(messages[-1].text)})]

    model = ScriptedModel([[("shop:price", {"item": "pear"})], second, "Paid."])
    state = await build_graph(model, host).ainvoke(asked())
    assert tools_said(state) == [("success", "2.0"), ("success", "paid 2.0")]


async def test_tool_error_becomes_an_error_message(host: Host) -> None:
    model = ScriptedModel([[("shop:fail", {"reason": "no stock"})], "It failed."])
    state = await build_graph(model, host).ainvoke(asked())
    [(status, text)] = tools_said(state)
    assert status == "error"
    assert "no stock" in text
    assert state["messages"][-1].text == "It failed."


async def test_unknown_tool_error_suggests_the_nearest_name(host: Host) -> None:
    model = ScriptedModel([[("shop__prise", {"item": "apple"})], "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    [(status, text)] = tools_said(state)
    assert status == "error"
    assert "there is no tool 'shop__prise'. Did you mean 'shop__price'?" in text
    shown = str(Transcript.from_messages(state["messages"]))
    assert "there is no tool 'shop:prise'. Did you mean 'shop:price'?" in shown
    assert "shop__" not in shown


async def test_misfit_arguments_go_to_the_model_without_a_question(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    model = ScriptedModel([[("shop:price", {"thing": 1})], "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    [(status, text)] = tools_said(state)
    assert status == "error"
    assert "item" in text
    assert shop.called == []
    assert not host.consent.audit.records


async def test_arguments_that_are_no_json_are_told_to_the_model(host: Host) -> None:
    broken = {"name": "shop__price", "args": '{"item": ', "id": "x1", "error": None, "type": "invalid_tool_call"}
    model = ScriptedModel([AIMessage("", invalid_tool_calls=[broken]), "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    [message] = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert message.tool_call_id == "x1"
    assert "the arguments are not a JSON object" in message.text


async def test_defaults_are_filled_in_before_approval(host: Host) -> None:
    scaled = {
        "type": "object",
        "properties": {"scale": {"enum": ["css", "px"], "default": "css"}},
        "required": ["scale"],
    }
    await host.connect(serving_tools(Tool(name="shot", input_schema=scaled)), name="pw")
    host.consent.rules.append(Rule("deny", "pw:shot", {"scale": "css"}, "too small"))
    model = ScriptedModel([[("pw:shot", {})], [("pw:shot", {"scale": "px"})], "ok"])
    state = await build_graph(model, host, approve="auto").ainvoke(asked())
    [(status, text), (_, sent)] = tools_said(state)
    assert (status, "too small" in text) == ("error", True)
    assert sent == "[('scale', 'px')]"
    host.consent.rules.clear()
    state = await build_graph(ScriptedModel([[("pw:shot", {})], "ok"]), host, approve="auto").ainvoke(asked())
    assert tools_said(state) == [("success", "[('scale', 'css')]")]


async def test_a_lone_surrogate_of_a_model_is_told_to_it(host: Host, shop: Shop) -> None:
    model = ScriptedModel([[("shop:buy", {"item": "pe\ud83dar"})], "ok"])
    state = await build_graph(model, host, approve="auto").ainvoke(asked())
    [(status, text)] = tools_said(state)
    assert status == "error"
    assert text.startswith("item: character 3 is '\\ud83d'")
    assert shop.called == []


async def test_denied_call_returns_the_reason_and_is_not_sent(host: Host, shop: Shop) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.deny("too dear")

    host.consent.policy, host.consent.approver = "ask", approver
    model = ScriptedModel([[("shop:buy", {"item": "pear"})], "Then not."])
    state = await build_graph(model, host).ainvoke(asked())
    [message] = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert message.text == "shop:buy was not called; denied by the user: too dear. Do not try the same again."
    assert message.artifact["approval"] == {"decision": "deny", "by": "person", "reason": "too dear"}
    assert shop.called == []


async def test_edited_arguments_are_sent_and_reported_to_the_model(host: Host, shop: Shop) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({"item": "apple", "count": 2})

    host.consent.policy, host.consent.approver = "ask", approver
    model = ScriptedModel([[("shop:buy", {"item": "pear"})], "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    assert shop.called == [("buy", {"item": "apple", "count": 2})]
    [(status, text)] = tools_said(state)
    assert status == "success"
    assert text == "[the user changed the arguments to item=apple, count=2]\nbought 2 apple"


async def test_each_call_is_asked_about_once_and_on_record_once(host: Host) -> None:
    requests: list[Request] = []

    async def approver(request: Request) -> Decision:
        requests.append(request)
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    model = ScriptedModel([[("shop:buy", {"item": "pear"}), ("shop:price", {"item": "pear"})], "ok"])
    await build_graph(model, host).ainvoke(asked())
    assert [(r.name, r.asker) for r in requests] == [("shop:buy", "agent"), ("shop:price", "agent")]
    assert [r.decision for r in host.consent.audit.records] == ["approve", "approve"]


async def test_all_calls_of_a_turn_wait_at_the_same_time(host: Host) -> None:
    waiting: list[str] = []
    both = asyncio.Event()

    async def approver(request: Request) -> Decision:
        waiting.append(request.tool)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return Decision.approve()

    host.consent.policy, host.consent.approver = "ask", approver
    model = ScriptedModel([[("shop:buy", {"item": "pear"}), ("shop:price", {"item": "pear"})], "ok"])
    await asyncio.wait_for(build_graph(model, host).ainvoke(asked()), 60)
    assert sorted(waiting) == ["buy", "price"]


@pytest.mark.parametrize(("policy", "goes_out"), [("auto", True), ("deny", False)])
async def test_a_policy_of_the_graph_wins_over_the_hosts(host: Host, shop: Shop, policy: str, goes_out: bool) -> None:
    host.consent.policy = "deny" if policy == "auto" else "auto"
    model = ScriptedModel([[("shop:buy", {"item": "pear"})], "ok"])
    await build_graph(model, host, approve=policy).ainvoke(asked())
    assert bool(shop.called) is goes_out


async def test_a_rule_wins_over_the_policy_of_the_graph(host: Host, shop: Shop) -> None:
    host.consent.add(Rule("deny", "shop:buy", reason="closed"))
    model = ScriptedModel([[("shop:buy", {"item": "pear"})], "ok"])
    state = await build_graph(model, host, approve="auto").ainvoke(asked())
    assert "denied by rule `deny shop:buy`: closed" in tools_said(state)[0][1]
    assert shop.called == []


# LangGraph's own interrupt


async def test_whoever_resumes_the_graph_decides(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    calls = [("shop:buy", {"item": "pear"}), ("shop:buy", {"item": "apple"}), ("shop:price", {"item": "pear"})]
    graph = build_graph(ScriptedModel([calls, "ok"]), host, ask="interrupt", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    state = await graph.ainvoke(asked(), config)
    [pause] = state["__interrupt__"]
    waiting = pause.value["calls"]
    assert [(c["server"], c["tool"], c["arguments"]) for c in waiting] == [
        ("shop", n.split(":")[1], a) for n, a in calls
    ]
    assert waiting[2]["annotations"] == {"readOnlyHint": True}
    assert shop.called == []
    answers = {
        waiting[0]["id"]: {"decision": "edit", "arguments": {"item": "pear", "count": 3}},
        waiting[1]["id"]: {"decision": "deny", "reason": "enough"},
        waiting[2]["id"]: "approve",
    }
    state = await graph.ainvoke(Command(resume=answers), config)
    assert [status for status, _ in tools_said(state)] == ["success", "error", "success"]
    assert sorted(shop.called, key=str) == [("buy", {"item": "pear", "count": 3}), ("price", {"item": "pear"})]
    assert [r.decision for r in host.consent.audit.records] == ["edit", "deny", "approve"]


async def test_one_decision_answers_all_and_nonsense_is_a_denial(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    calls = [("shop:price", {"item": "pear"}), ("shop:price", {"item": "apple"})]
    model = ScriptedModel([calls, "ok", calls[:1], "ok"])
    graph = build_graph(model, host, ask="interrupt", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(asked(), config)
    state = await graph.ainvoke(Command(resume=True), config)
    assert [status for status, _ in tools_said(state)] == ["success", "success"]
    await graph.ainvoke(asked("again"), config)
    state = await graph.ainvoke(Command(resume={"decision": "perhaps"}), config)
    assert tools_said(state)[-1][0] == "error"
    assert "valid are approve, edit (with arguments) and deny" in tools_said(state)[-1][1]


async def test_what_a_rule_decides_does_not_interrupt(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    host.consent.add(Rule("allow", "shop:price"))
    model = ScriptedModel([[("shop:price", {"item": "pear"})], "ok"])
    graph = build_graph(model, host, ask="interrupt", checkpointer=InMemorySaver())
    state = await graph.ainvoke(asked(), {"configurable": {"thread_id": "t"}})
    assert "__interrupt__" not in state
    assert shop.called == [("price", {"item": "pear"})]


# Calls of the same id


def same_ids(*calls: tuple[str, dict[str, Any]], id: str = "call_1") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id} for name, arguments in calls])


async def test_decision_does_not_cover_another_call_with_the_same_id(host: Host, shop: Shop) -> None:
    twin = type(shop)()
    await host.connect(twin.server, name="live")
    host.consent.rules = [Rule("deny", "live:*"), Rule("allow", "shop:*")]
    turn = same_ids(("live__buy", {"item": "pear"}), ("shop__buy", {"item": "pear"}))
    state = await build_graph(ScriptedModel([turn, "done"]), host).ainvoke(asked())
    assert (twin.called, shop.called) == ([], [("buy", {"item": "pear", "count": 1})])
    said = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    calls = next(m for m in state["messages"] if isinstance(m, AIMessage)).tool_calls
    assert [(m.tool_call_id, m.status) for m in said] == [("call_1", "error"), ("call_1_2", "success")]
    assert [call["id"] for call in calls] == ["call_1", "call_1_2"]


async def test_a_person_denies_one_of_two_calls_of_the_same_id(host: Host, shop: Shop) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve() if request.arguments["item"] == "apple" else Decision.deny("no")

    host.consent.policy, host.consent.approver = "ask", approver
    turn = same_ids(("shop__buy", {"item": "pear"}), ("shop__buy", {"item": "apple"}))
    state = await build_graph(ScriptedModel([turn, "done"]), host).ainvoke(asked())
    assert shop.called == [("buy", {"item": "apple", "count": 1})]
    assert [status for status, _ in tools_said(state)] == ["error", "success"]


async def test_an_id_that_comes_again_in_a_later_turn_becomes_another(host: Host) -> None:
    turn = same_ids(("shop__price", {"item": "pear"}))
    state = await build_graph(ScriptedModel([turn, turn, "done"]), host).ainvoke(asked())
    ids = [m.tool_call_id for m in state["messages"] if isinstance(m, ToolMessage)]
    assert ids == ["call_1", "call_1_2"]


async def test_blocks_of_content_get_the_ids_of_their_calls() -> None:
    turn = same_ids(("a", {}), ("b", {}))
    turn.content = [{"type": "tool_use", "id": "call_1", "name": name, "input": {}} for name in ("a", "b")]
    named = with_own_ids(turn)
    assert [block["id"] for block in named.content if isinstance(block, dict)] == ["call_1", "call_1_2"]
    assert turn.tool_calls[1]["id"] == "call_1"  # a model may hold on to what it gave


async def test_duplicate_ids_in_a_written_state_are_not_called(host: Host, shop: Shop) -> None:
    graph = build_graph(ScriptedModel(["done"]), host, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    turn = same_ids(("shop__buy", {"item": "pear"}), ("shop__buy", {"item": "apple"}))
    await graph.aupdate_state(config, {"messages": [HumanMessage("go"), turn]}, as_node="think")
    state = await graph.ainvoke(None, config)
    assert shop.called == []
    assert all("another call of this turn has the same id" in text for _, text in tools_said(state))


async def test_call_changed_after_approval_is_not_sent(host: Host, shop: Shop) -> None:
    model = ScriptedModel([[("shop:buy", {"item": "pear"})], "done"])
    graph = build_graph(model, host, ask="interrupt", approve="ask", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(asked(), config)
    await graph.ainvoke(Command(resume="approve"), config, interrupt_before=["act"])
    [turn] = [m for m in (await graph.aget_state(config)).values["messages"] if isinstance(m, AIMessage)]
    changed = turn.model_copy(update={"tool_calls": [{**turn.tool_calls[0], "args": {"item": "apple"}}]})
    await graph.aupdate_state(config, {"messages": [changed]}, as_node="approve")
    state = await graph.ainvoke(None, config)
    assert shop.called == []
    assert "the decision was about another tool or other arguments" in tools_said(state)[0][1]


async def test_decision_of_an_unfinished_turn_does_not_last(host: Host, shop: Shop) -> None:
    model = ScriptedModel([same_ids(("shop__buy", {"item": "pear"})), "done"])
    graph = build_graph(model, host, approve="deny", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    left = {"decision": "approve", "arguments": {"item": "pear"}, "by": "person", "reason": ""}
    of = {"turn": "earlier", "tool": "shop:buy", "arguments": {"item": "pear"}}
    await graph.aupdate_state(config, {"approvals": {"call_1": {**left, "of": of}}}, as_node="act")
    await graph.ainvoke(asked(), config)
    assert shop.called == []


async def test_an_id_that_reads_like_a_decision_is_none(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    turn = AIMessage("", tool_calls=[{"name": "shop__buy", "args": {"item": i}, "id": i} for i in ("decision", "pear")])
    graph = build_graph(ScriptedModel([turn, "ok"]), host, ask="interrupt", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(asked(), config)
    await graph.ainvoke(Command(resume={"decision": "approve", "pear": "deny"}), config)
    assert shop.called == [("buy", {"item": "decision", "count": 1})]


async def test_tool_changed_before_the_resume_is_not_called(host: Host, shop: Shop) -> None:
    host.consent.policy = "ask"
    calls = [("shop:buy", {"item": "pear"})]
    graph = build_graph(ScriptedModel([calls, "ok"]), host, ask="interrupt", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(asked(), config)
    changed = (await host["shop"].find_tool("buy")).model_copy(update={"description": "Sells the house."})
    host.consent.definitions.saw("shop", [changed])
    state = await graph.ainvoke(Command(resume="approve"), config)
    assert shop.called == []
    assert "the tool has changed since you were asked about it" in tools_said(state)[0][1]


# The tools


async def test_the_list_of_tools_is_read_at_each_turn(host: Host, shop: Shop) -> None:
    def grow(messages: list[Any]) -> Any:
        @shop.server.tool()
        def sell(item: str) -> str:
            return f"sold {item}"

        return [("shop:price", {"item": "pear"})]

    model = ScriptedModel([grow, [("shop:sell", {"item": "pear"})], "ok"])
    graph = build_graph(model, host)
    async for event in graph.astream(asked(), stream_mode="updates"):
        if "act" in event:
            host["shop"].catalog.changed("tools")
            state = event["act"]
    assert state["messages"][-1].text == "sold pear"
    assert "shop__sell" not in [t["function"]["name"] for t in model.seen[0].tools]
    assert "shop__sell" in [t["function"]["name"] for t in model.seen[1].tools]


async def test_only_the_chosen_tools_are_bound(host: Host) -> None:
    other = MCPServer("bank", log_level="ERROR")

    @other.tool()
    def pay(amount: float) -> str:
        return f"paid {amount}"

    await host.connect(other, name="bank")
    for options, names in (
        ({"servers": ["bank"]}, {"bank__pay"}),
        ({"tools": ["shop:b*", "pay"]}, {"shop__buy", "bank__pay"}),
        ({"servers": ["shop"], "tools": ["*:pay"]}, set()),
    ):
        model = ScriptedModel(["ok"])
        await build_graph(model, host, **options).ainvoke(asked())
        assert {t["function"]["name"] for t in model.seen[0].tools} == names


async def test_names_of_twenty_servers_with_the_same_tool_stay_apart(host: Host) -> None:
    asked_for: list[str] = []

    def server(name: str) -> MCPServer:
        made = MCPServer(name, log_level="ERROR")

        @made.tool()
        def who() -> str:
            asked_for.append(name)
            return name

        return made

    for index in range(20):
        await host.connect(server(f"s{index}"), name=f"s{index}")
    model = ScriptedModel([[(f"s{index}:who", {}) for index in range(20)], "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    assert [text for _, text in tools_said(state)] == [f"s{index}" for index in range(20)]
    assert len({t["function"]["name"] for t in model.seen[0].tools}) == 24


# The end


async def test_a_run_ends_after_its_steps_with_what_is_known(host: Host) -> None:
    model = ScriptedModel([[("shop:price", {"item": "pear"})], [("shop:price", {"item": "apple"})], "never"])
    state = await build_graph(model, host, max_turns=2).ainvoke(asked())
    last = state["messages"][-1]
    assert last.text.startswith("Stopped after 2 turns, before the work was done. Known so far:")
    assert "- shop:price: 2.0" in last.text
    assert tools_said(state) == [("success", "2.0"), ("error", "not called: the run ends after 2 turns")]
    assert "This is the last turn" in model.seen[1].messages[0].text
    assert "This is the last turn" not in model.seen[0].messages[0].text


async def test_a_model_that_answers_in_its_last_turn_is_not_stopped(host: Host) -> None:
    model = ScriptedModel([[("shop:price", {"item": "pear"})], "2.0"])
    state = await build_graph(model, host, max_turns=2).ainvoke(asked())
    assert state["messages"][-1].text == "2.0"


async def test_many_steps_need_no_other_setting(host: Host) -> None:
    model = ScriptedModel([*([[("shop:price", {"item": "pear"})]] * 60), "ok"])
    state = await build_graph(model, host, max_turns=100).ainvoke(asked())
    assert state["messages"][-1].text == "ok"
    assert len(tools_said(state)) == 60


async def test_the_system_prompt_is_given_and_not_kept(host: Host) -> None:
    model = ScriptedModel(["ok"])
    state = await build_graph(model, host, system="Speak Latin.").ainvoke(asked())
    assert model.seen[0].messages[0].type == "system"
    assert model.seen[0].messages[0].text.startswith("Speak Latin.")
    assert [m.type for m in state["messages"]] == ["human", "ai"]


async def test_the_graph_streams_events_as_any_langgraph_does(host: Host) -> None:
    model = ScriptedModel([[("shop:price", {"item": "pear"})], "It costs two."])
    kinds = [event["event"] async for event in build_graph(model, host).astream_events(asked(), version="v2")]
    assert "on_chat_model_stream" in kinds
    assert kinds[-1] == "on_chain_end"


async def test_lost_server_is_reported_to_the_model(host: Host) -> None:
    async def leave() -> None:
        await host["shop"].close()

    model = ScriptedModel([[("shop:price", {"item": "pear"})], [("shop:price", {"item": "apple"})], "It is gone."])
    graph = build_graph(model, host)
    last: Any = None
    first = True
    async for event in graph.astream(asked(), stream_mode="updates"):
        last = event
        if "act" in event and first:
            first = False
            await leave()
        elif "act" in event:
            [message] = event["act"]["messages"]
            assert message.status == "error"
    assert last["think"]["messages"][0].text == "It is gone."


async def test_thirty_digit_integer_reaches_tool_and_thread(host: Host) -> None:
    big = 123456789012345678901234567890
    got: list[Any] = []
    bank = MCPServer("bank", log_level="ERROR")

    @bank.tool()
    def pay(amount: int, note: str) -> str:
        got.append((amount, note))
        return "paid"

    await host.connect(bank, name="bank")
    for policy in ("auto", "ask"):
        host.consent.policy = policy

        async def approver(request: Request) -> Decision:
            return Decision.approve()

        host.consent.approver = approver
        arguments = {"amount": big, "note": str(big)}
        graph = build_graph(ScriptedModel([[("bank:pay", arguments)], "ok"]), host, checkpointer=InMemorySaver())
        state = await graph.ainvoke(asked(), {"configurable": {"thread_id": policy}})
        assert tools_said(state) == [("success", "paid")]
    assert got == [(big, str(big))] * 2


async def test_several_texts_of_a_result_reach_the_model_as_blocks(host: Host) -> None:
    many = MCPServer("many", log_level="ERROR")

    @many.tool()
    def two() -> list[str]:
        return ["one", "two"]

    await host.connect(many, name="many")
    model = ScriptedModel([[("many:two", {})], "ok"])
    state = await build_graph(model, host).ainvoke(asked())
    assert model.seen[1].messages[-1].content == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert state["messages"][2].content == ["one", "two"]


async def test_timeout_is_reported_to_the_model_and_the_server_lives(host: Host, shop: Shop) -> None:
    model = ScriptedModel([[("shop:wait", {"name": "a"}), ("shop:price", {"item": "pear"})], "ok"])
    state = await build_graph(model, host, timeout=2.0).ainvoke(asked())
    (slow, why), price = tools_said(state)
    assert slow == "error"
    assert "2 s" in why
    assert price == ("success", "2.0")
    await asyncio.wait_for(shop.cancelled.wait(), 60)
    assert (await host["shop"].call("price", item="apple")).data == 1.5
