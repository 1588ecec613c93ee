"""What a provider refuses all the same is taken back, so that the thread goes on."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.threads import open_threads
from mcp_magic.errors import ModelError
from tests.support.agents import THREAD, asked
from tests.support.fake_openai import Refusal, Turn

WORDS = "Invalid 'messages[3]'. The provider does not like it."
TAKEN = "taken back from the thread, which can go on without it: "
PRICE = Turn(calls=[("shop__price", {"item": "pear"})])
NO = Refusal(400, WORDS)


def kinds(state: dict[str, Any]) -> list[str]:
    return [message.type for message in state["messages"]]


async def test_a_refused_turn_is_taken_back(host, shop, openai):
    _, model = await openai(Turn(calls=[("shop__buy", {"item": "pear"})]), NO, Turn("Go on."))
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    with pytest.raises(ModelError) as raised:
        await graph.ainvoke(asked(), THREAD)
    state = await graph.ainvoke(asked("and now?"), THREAD)
    refused = f"gpt-5: the provider refused the request (HTTP 400): {WORDS}"
    assert str(raised.value) == f"{refused}\n{TAKEN}the last turn, with the answers to shop:buy(item=pear)"
    made = "Made: shop:buy(item=pear). The provider refused the answers, so they are not in this conversation."
    assert [message.text for message in state["messages"]] == ["go", made, "and now?", "Go on."]
    assert len(shop.called) == 1


ABOUT_THE_CONVERSATION = [
    (400, "messages.2: `tool_use` ids were found without `tool_result` blocks"),
    (400, "This model's maximum context length is 8192 tokens. Please reduce the length of the messages."),
    (400, "Expecting ',' delimiter: line 1 column 15 (char 14)"),
    (413, "Request exceeds the maximum size"),
    (422, "Failed to parse tool call arguments as JSON"),
]
ABOUT_SETTINGS = [
    (400, "Unsupported parameter: 'temperature' is not supported with this model."),
    (400, "Your credit balance is too low to access the Anthropic API."),
    (400, "Invalid schema for function 'a': []"),
    (401, "Invalid messages"),
    (500, "messages: failed"),
]


@pytest.mark.parametrize(
    ("refusals", "taken"), [(ABOUT_THE_CONVERSATION, True), (ABOUT_SETTINGS, False)], ids=["conversation", "settings"]
)
async def test_the_words_of_a_refusal_say_what_it_is_about(host, openai, refusals, taken):
    fake, model = await openai()
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    for number, (status, words) in enumerate(refusals):
        fake.turns = [PRICE, Refusal(status, words), Turn("Go on.")]
        thread: Any = {"configurable": {"thread_id": f"{number}"}}
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), thread)
        assert ("taken back" in str(raised.value)) is taken, words
        left = (await graph.aget_state(thread)).values
        assert kinds(left) == (["human", "ai"] if taken else ["human", "ai", "tool"]), words
        assert kinds(await graph.ainvoke(asked("and now?"), thread)) == [*kinds(left), "human", "ai"]


async def test_each_refusal_takes_back_more(host, openai):
    _, model = await openai(NO, NO, NO, Turn("Go on."))
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    call: Any = {"name": "camera__look", "args": {}, "id": "call_1"}
    old = [AIMessage("", tool_calls=[call]), ToolMessage("odd", tool_call_id="call_1"), AIMessage("An answer.")]
    await graph.aupdate_state(THREAD, {"messages": [HumanMessage("go"), *old]}, as_node="stop")
    left = []
    for number in range(3):
        with pytest.raises(ModelError, match="taken back"):
            await graph.ainvoke(asked(f"try {number}"), THREAD)
        left.append(kinds((await graph.aget_state(THREAD)).values))
    state = await graph.ainvoke(asked("now"), THREAD)
    assert left == [["human", "ai", "tool", "ai"], ["human", "ai", "tool"], ["human", "ai"]]
    assert state["messages"][-1].text == "Go on."
    assert state["refused"] == ""


@pytest.mark.parametrize("where", ["memory", "file"])
async def test_a_run_says_what_was_taken_back(host, openai, tmp_path, where):
    fake, model = await openai(PRICE, NO, Turn("Go on."))
    async with open_threads(":memory:" if where == "memory" else str(tmp_path / "threads.sqlite")) as saver:
        graph = build_graph(model, host, checkpointer=saver)
        with pytest.raises(ModelError) as raised:
            await run_agent(graph, host, AgentRun("go", "t"))
        assert str(raised.value).splitlines()[1:] == [
            f"{TAKEN}the last turn, with the answers to shop:price(item=pear)",
            "`--thread t` goes on from there",
        ]
        assert (await run_agent(graph, host, AgentRun("and now?", "t"))).answer == "Go on."
    assert [message["role"] for message in fake.requests[-1]["messages"]] == ["system", "user", "assistant", "user"]


async def test_a_request_refused_at_once_is_taken_back(host, openai):
    flagged = Refusal(400, "Invalid prompt: flagged as potentially violating our usage policy")
    fake, model = await openai(flagged, Turn("Hello."))
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    with pytest.raises(ModelError, match="go on without it: your last request"):
        await run_agent(graph, host, AgentRun("something odd", "t"))
    assert (await run_agent(graph, host, AgentRun("Hello", "t"))).answer == "Hello."
    assert [message["content"] for message in fake.requests[-1]["messages"][1:]] == ["Hello"]
