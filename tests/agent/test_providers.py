"""The whole path of a real provider package: langchain-openai, pointed at a server that speaks OpenAI's protocol."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.errors import ModelError
from tests.support.bundled import command, load
from tests.support.fake_openai import KEY, FakeOpenAI, Refusal, Turn
from tests.support.processes import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain_core.language_models import BaseChatModel

    from mcp_magic._host import Host
    from tests.agent.conftest import Shop

TOKENS = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
THREAD: Any = {"configurable": {"thread_id": "t"}}


def asked(text: str = "go") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """One for each test: the package keeps its own for all event loops."""
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
async def servers(host: Host) -> Host:
    """The host with two bundled servers."""
    for name in ("showcase", "math"):
        await host.connect(load(f"{name}_server").server, name=name)
    return host


def chat(fake: FakeOpenAI, client: httpx.AsyncClient, **more: Any) -> BaseChatModel:
    from langchain_openai import ChatOpenAI  # takes long

    settings = {"model": "gpt-5", "api_key": KEY, "max_retries": 0, "stream_usage": True, **more}
    return ChatOpenAI(base_url=fake.url, http_async_client=client, **settings)


def answers(state: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message.status, message.text) for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_model_calls_tools_of_live_servers_and_answers(
    host: Host, client: httpx.AsyncClient, streams: bool
) -> None:
    await host.connect(load("showcase_server").server, name="showcase")
    await host.connect(command("math_server"), name="math")
    fake = FakeOpenAI(
        Turn("I add.", [("math__add", {"a": 3, "b": 4})]),
        Turn(calls=[("math__multiply", {"a": 7, "b": 5}), ("showcase__choices", {"size": "m"})]),
        Turn("It is **35**."),
    )
    async with fake.running():
        model = chat(fake, client, disable_streaming=not streams)
        state = await build_graph(model, host).ainvoke(asked("add 3 and 4, then multiply by 5"))
    assert fake.refused == []
    assert [bool(request.get("stream")) for request in fake.requests] == [streams] * 3
    assert [text for _, text in answers(state)][:2] == ["7", "35"]
    assert state["messages"][-1].text == "It is **35**."
    told = fake.requests[1]["messages"]
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool"]
    assert told[2]["tool_calls"][0]["function"] == {"name": "math__add", "arguments": '{"a": 3, "b": 4}'}
    assert told[3]["content"] == "7"


async def test_offered_tool_names_contain_their_server(servers: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("Hello."))
    async with fake.running():
        await build_graph(chat(fake, client), servers, search_above=None).ainvoke(asked())
    listed = [(name, tool.name) for name in servers for tool in await servers[name].listing("tools")]
    assert len(listed) > 30
    assert [tool["function"]["name"] for tool in fake.requests[0]["tools"]] == [f"{s}__{tool}" for s, tool in listed]


async def test_text_streams_in_pieces_and_calls_arrive_whole(servers: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("I add them now.", [("math__add", {"a": 1234, "b": 5678})]), Turn("The sum is 6912."))
    events: list[dict[str, Any]] = []
    texts: list[str] = []
    async with fake.running():
        graph = build_graph(chat(fake, client), servers)
        async for mode, event in graph.astream(asked(), stream_mode=["custom", "messages"]):
            if mode == "custom":
                events.append(event)
            elif event[0].type == "AIMessageChunk" and event[0].text:
                texts.append(event[0].text)
    assert "".join(texts) == "I add them now.The sum is 6912."
    assert len(texts) > 8
    [wanted] = [event for event in events if event["kind"] == "call"]
    assert (wanted["server"], wanted["tool"], wanted["arguments"]) == ("math", "add", {"a": 1234, "b": 5678})


async def test_calls_of_a_turn_run_together_and_answer_in_order(
    host: Host, shop: Shop, client: httpx.AsyncClient
) -> None:
    names = ["a", "b", "c"]

    def go_on_when_all_wait() -> None:
        if shop.most_together == len(names):
            shop.go_on.set()

    fake = FakeOpenAI(Turn(calls=[("shop__wait", {"name": name}) for name in names]), Turn("done"))
    async with fake.running():
        state = None
        graph = build_graph(chat(fake, client), host)
        async for mode, event in graph.astream(asked(), stream_mode=["custom", "values"]):
            state = event if mode == "values" else state
            go_on_when_all_wait()
    assert state is not None
    assert answers(state) == [("success", f"{name} waited") for name in names]
    assert fake.refused == []


async def test_tokens_of_all_turns_are_summed(servers: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn(calls=[("math__add", {"a": 1, "b": 2})]), Turn("3"))
    async with fake.running():
        graph = build_graph(chat(fake, client), servers, checkpointer=InMemorySaver())
        run = await run_agent(graph, servers, "1 + 2", thread="t", model="openai:gpt-5")
    told = {ours: sum(each[theirs] for each in fake.used) for ours, theirs in TOKENS.items()}
    assert told["total_tokens"] > 100
    assert {name: run.usage[name] for name in TOKENS} == told
    assert run.answer == "3"


FAILURES = {
    "429": (
        Refusal(429, "Rate limit reached for gpt-5", "rate_limit_exceeded", {"retry-after": "20"}),
        "gpt-5: the rate limit or the quota is used up; wait, or choose another model "
        "(HTTP 429, to be tried again in 20 s): Rate limit reached for gpt-5",
    ),
    "500": (
        Refusal(500, "The server had an error while processing your request"),
        "gpt-5: the provider failed; try again (HTTP 500): The server had an error while processing your request",
    ),
    "400": (
        Refusal(400, "max_tokens is too large"),
        "gpt-5: the provider refused the request (HTTP 400): max_tokens is too large",
    ),
    "404": (
        Refusal(404, "The model `gpt-5` does not exist"),
        "gpt-5: there is no such model, or not for this key (HTTP 404): The model `gpt-5` does not exist",
    ),
    "error in the stream": (Turn("half an answer", cut="event"), "gpt-5: The server had an error"),
    "cut stream": (
        Turn("half an answer", cut="socket"),
        "gpt-5: the connection to the provider at {place} broke off: peer closed connection without sending "
        "complete message body (incomplete chunked read)",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_provider_error_is_one_line_and_the_thread_goes_on(
    host: Host, client: httpx.AsyncClient, name: str
) -> None:
    failure, expected = FAILURES[name]
    fake = FakeOpenAI(Turn(calls=[("shop__price", {"item": "pear"})]), failure, Turn("It costs 2."))
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("go on"), THREAD)
    assert str(raised.value) == expected.format(place=fake.url.removesuffix("/v1"))
    assert raised.value.__context__ is None
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert state["messages"][-1].text == "It costs 2."
    assert fake.refused == []


@pytest.mark.parametrize("quote", [False, True])
@pytest.mark.parametrize("key", ["sk-proj-wrong-0123456789abcdefXYZ", "a-key-of-no-known-kind"])
async def test_a_key_that_is_not_accepted_is_not_repeated(
    host: Host, client: httpx.AsyncClient, key: str, quote: bool
) -> None:
    fake = FakeOpenAI(Turn("never"), quote=quote)
    async with fake.running():
        graph = build_graph(chat(fake, client, api_key=key), host)
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked())
    said = str(raised.value)
    assert re.fullmatch(
        r"gpt-5: the key is not accepted \(HTTP 401\): Incorrect API key provided: \*\*\*\.? "
        r"You can find your API key at https://example.com/api-keys\.",
        said,
    )
    assert not any(part in said + repr(raised.value) for part in (key, key[:8], key[-4:]))


async def test_nobody_who_listens_is_one_line_with_the_place(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI()
    fake.url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(ModelError) as raised:
        await build_graph(chat(fake, client), host).ainvoke(asked())
    place = fake.url.removesuffix("/v1")
    assert str(raised.value) == f"gpt-5: the provider cannot be reached at {place}: All connection attempts failed"


@pytest.mark.parametrize(
    "turn",
    [
        Turn(calls=[("shop__buy", {"item": "apple", "count": 1000})], cut="quiet"),
        Turn(calls=[("shop__buy", '{"item": "apple", "coun')], finish="length"),
        Turn(calls=[("shop__buy", '{"item": "apple", "count": 1')]),
    ],
    ids=["a stream that ended early", "the limit of tokens", "broken JSON"],
)
async def test_a_call_whose_arguments_are_not_whole_does_not_go_out(
    host: Host, shop: Shop, client: httpx.AsyncClient, turn: Turn
) -> None:
    fake = FakeOpenAI(turn, Turn("I could not."))
    async with fake.running():
        state = await build_graph(chat(fake, client), host).ainvoke(asked())
    assert shop.called == []
    [(status, text)] = answers(state)
    assert (status, text.startswith("the arguments are not a JSON object")) == ("error", True)
    assert state["messages"][-1].text == "I could not."
    assert fake.refused == []


async def test_a_call_of_no_arguments_that_ended_early_does_not_go_out(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn(calls=[("shop__buy", "")], finish="length"), Turn("I could not."))
    async with fake.running():
        state = await build_graph(chat(fake, client), host).ainvoke(asked())
    assert [status for status, _ in answers(state)] == ["error"]


async def test_tool_error_and_denial_reach_the_provider_as_answers(
    host: Host, shop: Shop, client: httpx.AsyncClient
) -> None:
    calls = [("shop__fail", {"reason": "no stock"}), ("shop__nothing", {}), ("shop__buy", {"item": 3})]
    fake = FakeOpenAI(Turn(calls=calls), Turn(calls=[("shop__buy", {"item": "pear"})]), Turn("Sorry."))
    async with fake.running():
        graph = build_graph(chat(fake, client), host)
        state = await graph.ainvoke(asked())
        fake.turns = [Turn(calls=[("shop__buy", {"item": "pear"})]), Turn("Denied.")]
        denied = await build_graph(chat(fake, client), host, approve="deny").ainvoke(asked())
    assert [status for status, _ in answers(state)] == ["error", "error", "error", "success"]
    assert [message["role"] for message in fake.requests[1]["messages"]][2:] == ["assistant", "tool", "tool", "tool"]
    [(status, text)] = answers(denied)
    assert (status, "denied by" in text) == ("error", True)
    assert fake.refused == []


async def test_an_odd_tool_does_not_take_the_others_with_it(host: Host, client: httpx.AsyncClient) -> None:
    low = odd_server()
    await host.connect(low, name="odd")
    fake = FakeOpenAI(Turn(calls=[("odd__find", {"filter_id": "7"})]), Turn("Found."))
    async with fake.running():
        state = await build_graph(chat(fake, client), host).ainvoke(asked())
    assert fake.refused == []
    assert answers(state) == [("success", '{"filter[id]": "7"}')]
    assert isinstance(state["messages"][-1], AIMessage)


def odd_server() -> Any:
    """A server whose only tool has what providers refuse: alternatives at the root, and brackets in a name."""
    properties = {"filter[id]": {"type": "string"}, "tags": {"type": "array"}}
    schema = {
        "type": "object",
        "properties": properties,
        "anyOf": [{"required": ["filter[id]"]}, {"required": ["tags"]}],
    }

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="find", input_schema=schema)])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=json.dumps(params.arguments))])

    return Server("odd", on_list_tools=list_tools, on_call_tool=call_tool)
