"""What providers refuse is not sent; and what they refuse all the same is taken back, so that the thread goes on."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ImageContent, ListToolsResult, TextContent, Tool

from mcp_magic.agent.conversation import FOLLOWS, for_provider, image_place
from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.models import make_model
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import open_threads
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import ModelError
from tests.pictures import JPEG, png
from tests.support.fake_openai import KEY, FakeOpenAI, Refusal, Turn
from tests.support.fake_providers import FakeMessages, FakeResponses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from langchain_core.language_models import BaseChatModel

    from mcp_magic._host import Host
    from tests.agent.conftest import Shop

THREAD: Any = {"configurable": {"thread_id": "t"}}
IMAGES: Any = {"image_inputs": True, "image_tool_message": True}
PNG = base64.b64encode(png(2, 2)).decode()


def asked(text: str = "go") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


def chat(fake: Any, client: httpx.AsyncClient, **more: Any) -> BaseChatModel:
    from langchain_openai import ChatOpenAI  # takes long

    settings: dict[str, Any] = {"model": "gpt-5", "api_key": KEY, "max_retries": 0, **more}
    return ChatOpenAI(base_url=fake.url, http_async_client=client, **settings)


def responses(fake: Any, client: httpx.AsyncClient) -> BaseChatModel:
    return chat(fake, client, use_responses_api=True, disable_streaming=True)


def local(fake: Any, client: httpx.AsyncClient) -> BaseChatModel:
    return chat(fake, client, model="local", profile=IMAGES)


def messages(fake: Any, client: httpx.AsyncClient) -> BaseChatModel:
    from langchain_anthropic import ChatAnthropic  # takes long

    options: Any = {"disable_streaming": True, "max_retries": 0}
    return ChatAnthropic(model_name="claude-sonnet-5-5", base_url=fake.url, api_key="sk-ant-0", **options)


PROVIDERS: dict[str, Any] = {
    "chat completions": (FakeOpenAI, chat),
    "compatible": (lambda *turns: FakeOpenAI(*turns, strict=True), local),
    "responses": (FakeResponses, responses),
    "messages": (FakeMessages, messages),
}


class Camera:
    """A server whose tool answers with blocks."""

    def __init__(self, *blocks: Any) -> None:
        self.blocks = [*blocks]
        self.server = Server("camera", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="look", input_schema={"type": "object"})])

    async def _call(self, context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=self.blocks)


def image(data: str = PNG, kind: str = "image/png") -> ImageContent:
    return ImageContent(data=data, mime_type=kind)


LOOK = Turn(calls=[("camera__look", {})])

SENT: dict[str, Any] = {
    "chat completions": [
        {"type": "text", "text": "[The images in the answers of camera__look. The user has not sent them.]"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ],
    "responses": [
        {"type": "input_text", "text": "Here:"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ],
    "messages": [
        {"type": "text", "text": "Here:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ],
}
SENT["compatible"] = SENT["chat completions"]


def images_sent(name: str, body: dict[str, Any]) -> Any:
    """Return what stands where a provider reads the images of an answer."""
    if name == "responses":
        return next(item["output"] for item in body["input"] if item.get("type") == "function_call_output")
    if name == "messages":
        [block] = body["messages"][-1]["content"]
        return block["content"]
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][3]["content"] == f"Here:\n{FOLLOWS}"
    return body["messages"][4]["content"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_image_stands_where_the_provider_reads_it(host: Host, client: httpx.AsyncClient, name: str) -> None:
    await host.connect(Camera(TextContent(text="Here:"), image(kind="image/jpeg")).server, name="camera")
    make, model = PROVIDERS[name]
    fake = make(LOOK, Turn("A square."), Turn("Yes."))
    async with fake.running():
        graph = build_graph(model(fake, client), host, checkpointer=InMemorySaver())
        state = await graph.ainvoke(asked(), THREAD)
        assert images_sent(name, fake.requests[-1]) == SENT[name]
        state = await graph.ainvoke(asked("sure?"), THREAD)
    assert fake.refused == []
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert state["messages"][2].content[1]["type"] == "image", "the thread keeps it in the answer"


async def test_images_of_several_calls_follow_all_answers(host: Host, client: httpx.AsyncClient) -> None:
    for name in ("left", "right"):
        await host.connect(Camera(image()).server, name=name)
    fake = FakeOpenAI(Turn(calls=[("left__look", {}), ("right__look", {})]), Turn("Two."), strict=True)
    async with fake.running():
        await build_graph(local(fake, client), host).ainvoke(asked())
    assert fake.refused == []
    sent = fake.requests[-1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [part.get("text", "image") for part in sent[-1]["content"]] == [
        "[The images in the answers of left__look, right__look. The user has not sent them.]",
        "[left__look]",
        "image",
        "[right__look]",
        "image",
    ]


BAD_IMAGES = {
    "another type": (image(base64.b64encode(JPEG).decode(), "image/png"), "image/jpeg"),
    "a type that is none": (image(PNG, "image/*"), "image/png"),
    "cut off": (image(base64.b64encode(png(2, 2)[:-4]).decode()), "it is damaged]"),
    "too large": (image(base64.b64encode(png(2, 2) + bytes(4_000_000)).decode()), "larger than 3.7 MB]"),
    "too wide": (image(base64.b64encode(png(8001, 1)).decode()), "8,001 x 1 pixels, more than 8,000 on a side]"),
    "text": (image("hello"), "not shown: it is not base64]"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
async def test_what_is_no_image_for_a_provider_is_a_line(host: Host, client: httpx.AsyncClient, case: str) -> None:
    block, sent = BAD_IMAGES[case]
    await host.connect(Camera(block).server, name="camera")
    fake = FakeMessages(LOOK, Turn("I see."), Turn("Yes."))
    async with fake.running():
        graph = build_graph(messages(fake, client), host, checkpointer=InMemorySaver())
        await graph.ainvoke(asked(), THREAD)
        await graph.ainvoke(asked("sure?"), THREAD)
    assert fake.refused == []
    [answer] = fake.requests[0 + 1]["messages"][-1]["content"]
    assert sent in json.dumps(answer["content"])


def stored(*content: Any) -> list[Any]:
    """The messages of a thread of which a provider has refused the last answer, as it may be in a file."""
    call: Any = {"name": "camera__look", "args": {}, "id": "call_1", "type": "tool_call"}
    return [HumanMessage("go"), AIMessage("", tool_calls=[call]), ToolMessage([*content], tool_call_id="call_1")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/jpeg"},
        {"type": "image", "base64": PNG[:-20], "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PNG}"}},
        "a half \ud83d",
    ],
    ids=["another type", "cut off", "a data URL", "half a surrogate"],
)
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_thread_that_is_broken_on_the_disk_goes_on(
    host: Host, client: httpx.AsyncClient, name: str, part: Any
) -> None:
    make, model = PROVIDERS[name]
    fake = make(Turn("Now it goes."))
    async with fake.running():
        graph = build_graph(model(fake, client), host, checkpointer=InMemorySaver())
        await graph.aupdate_state(THREAD, {"messages": stored("Here:", part)}, as_node="act")
        state = await graph.ainvoke(asked("and now?"), THREAD)
    assert fake.refused == []
    assert state["messages"][-1].text == "Now it goes."


async def test_a_model_that_reads_no_images_takes_over_a_thread(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn("I cannot see it."), strict=True)
    async with fake.running():
        graph = build_graph(chat(fake, client, model="blind"), host, checkpointer=InMemorySaver())
        picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
        await graph.aupdate_state(THREAD, {"messages": stored("Here:", picture)}, as_node="act")
        await graph.ainvoke(asked("and now?"), THREAD)
    assert fake.refused == []
    line = fake.requests[0]["messages"][3]["content"]
    assert line == "Here:\n[image/png, 68 bytes, not shown: this model reads none]"


# Arguments


BROKEN = {
    "cut off": '{"message": "al',
    "single quotes": "{'item': 'pear'}",
    "a fence": '```json\n{"item": "pear"}\n```',
    "trailing text": '{"item": "pear"} and then',
    "a list": '[{"item": "pear"}]',
    "a text": '"pear"',
    "half a surrogate": '{"item": "a \\ud83d"}',
    "not a number": '{"item": NaN}',
}


async def assert_call_is_refused(graph: Any, shop: Shop) -> None:
    """Ask twice in a thread whose model calls the tool with arguments that cannot be read."""
    state = await graph.ainvoke(asked(), THREAD)
    await graph.ainvoke(asked("sure?"), THREAD)
    assert shop.called == []
    [answer] = [message for message in state["messages"] if message.type == "tool"]
    assert answer.status == "error"


SURROGATE_NAMES = {"outer": '{"\\ud83d": "x"}', "inner": '{"item": "x", "more": {"a": [{"\\ud83d": 1}]}}'}


@pytest.mark.parametrize("case", SURROGATE_NAMES)
async def test_half_a_surrogate_in_a_name_ends_no_run(
    host: Host, shop: Shop, client: httpx.AsyncClient, case: str
) -> None:
    make, model = PROVIDERS["compatible"]
    fake = make(Turn(calls=[("shop__buy", SURROGATE_NAMES[case])]), Turn("Sorry."), Turn("Yes."))
    async with fake.running():
        await assert_call_is_refused(build_graph(model(fake, client), host, checkpointer=InMemorySaver()), shop)
    assert fake.refused == []


@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in ("compatible", "chat completions", "responses")
        for case in BROKEN
        if name != "responses" or case not in ("a list", "a text")  # LangChain makes no message of these
    ],
)
async def test_broken_arguments_are_not_sent_again(
    host: Host, shop: Shop, client: httpx.AsyncClient, name: str, case: str
) -> None:
    make, model = PROVIDERS[name]
    fake = make(Turn(calls=[("shop__buy", BROKEN[case])]), Turn("Sorry."), Turn("Yes."))
    async with fake.running():
        await assert_call_is_refused(build_graph(model(fake, client), host, checkpointer=InMemorySaver()), shop)
    assert fake.refused == []
    for number, body in enumerate(fake.requests[1:]):
        if name == "responses":
            [sent] = [item["arguments"] for item in body["input"] if item.get("type") == "function_call"]
        else:
            [call] = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
            sent = call["function"]["arguments"]
        json.loads(sent, parse_constant=float.fromhex)  # no constant is a number of that form
        assert number or json.loads(sent) == {}


async def test_arguments_of_a_whole_turn_are_read_alike(host: Host, shop: Shop, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Turn(calls=[("shop__buy", BROKEN["cut off"])]), Turn("Sorry."), strict=True)
    async with fake.running():
        await build_graph(chat(fake, client, disable_streaming=True), host).ainvoke(asked())
    assert (shop.called, fake.refused) == ([], [])


async def test_arguments_of_which_langchain_makes_no_message_are_told(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeResponses(Turn(calls=[("shop__buy", BROKEN["a list"])]), Turn("Yes."))
    async with fake.running():
        graph = build_graph(responses(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("again"), THREAD)
    assert str(raised.value) == "gpt-5: it called a tool with arguments that are no object; ask again"
    assert state["messages"][-1].text == "Yes."


def call_of(name: str = "a", **more: Any) -> Any:
    return {"name": name, "args": {"x": 1}, "id": "call_1", "type": "tool_call", **more}


def broken_call(args: str = "{") -> Any:
    return {"name": "a", "args": args, "id": "call_1", "error": None, "type": "invalid_tool_call"}


REPEATED: dict[str, Any] = {
    "tool_use": ({"type": "tool_use", "id": "call_1", "name": "a", "input": {}, "partial_json": "{"}, "input", {}),
    "function_call": ({"type": "function_call", "call_id": "call_1", "name": "a", "arguments": "{"}, "arguments", "{}"),
    "invalid_tool_call": ({"type": "invalid_tool_call", "id": "call_1", "name": "a", "args": "{"}, "args", {}),
}


@pytest.mark.parametrize("kind", REPEATED)
def test_content_that_repeats_a_broken_call_has_none_either(kind: str) -> None:
    block, key, value = REPEATED[kind]
    [sent] = for_provider(None, [AIMessage([block], invalid_tool_calls=[broken_call()])])
    assert isinstance(sent, AIMessage)
    assert [(call["id"], call["args"]) for call in sent.tool_calls] == [("call_1", {})]
    assert sent.invalid_tool_calls == []
    assert sent.content[0][key] == value  # type: ignore[index,call-overload]
    assert "partial_json" not in sent.content[0]


@pytest.mark.parametrize(("name", "sent"), [("functions.a:0", "functions_a_0"), ("", "unknown"), ("é" * 70, "unknown")])
def test_a_name_that_a_model_made_up_is_one_that_providers_take(name: str, sent: str) -> None:
    [turn] = for_provider(None, [AIMessage("", tool_calls=[call_of(name)])])
    assert isinstance(turn, AIMessage)
    assert [call["name"] for call in turn.tool_calls] == [sent]


def test_what_providers_take_is_sent_as_it_is() -> None:
    before = [
        SystemMessage("S é 😀"),
        HumanMessage([{"type": "text", "text": "H"}]),
        AIMessage([{"type": "text", "text": "A"}], tool_calls=[call_of()]),
        ToolMessage("T", tool_call_id="call_1"),
    ]
    assert all(a is b for a, b in zip(for_provider(ScriptedModel([]), before), before, strict=True))


@pytest.mark.parametrize("kind", [SystemMessage, HumanMessage, AIMessage])
def test_half_a_surrogate_is_replaced_in_what_is_sent(kind: Any) -> None:
    [sent] = for_provider(None, [kind([{"type": "text", "text": "a \udc00"}])])
    assert sent.content == [{"type": "text", "text": "a \ufffd"}]


class Mistral(ScriptedModel):
    """Its package is what decides."""

    __module__ = "langchain_mistralai.chat_models"


class Groq(ScriptedModel):
    """Its package is what decides."""

    __module__ = "langchain_groq.chat_models"


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (ScriptedModel([]), ""),
        (ScriptedModel([], profile=IMAGES), "answer"),
        (ScriptedModel([], profile={"image_inputs": True}), "follows"),
        (Groq([], profile=IMAGES), "follows"),
        (Mistral([], profile=IMAGES), ""),
    ],
    ids=["none", "says so", "reads images", "a compatible one", "takes no message of the user there"],
)
def test_where_a_model_reads_images(model: Any, place: str) -> None:
    assert image_place(model) == place


# What is refused all the same


REFUSED = "Invalid 'messages[3]'. The provider does not like it."
TAKEN = "taken back from the thread, which can go on without it: "


async def test_a_refused_turn_is_taken_back(host: Host, shop: Shop, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(
        Turn(calls=[("shop__buy", {"item": "pear"})]), Refusal(400, REFUSED), Turn("Go on."), Refusal(400, REFUSED)
    )
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("and now?"), THREAD)
    refused = f"gpt-5: the provider refused the request (HTTP 400): {REFUSED}"
    assert str(raised.value) == f"{refused}\n{TAKEN}the last turn, with the answers to shop:buy(item=pear)"
    made = "Made: shop:buy(item=pear). The provider refused the answers, so they are not in this conversation."
    assert [message.text for message in state["messages"]] == ["go", made, "and now?", "Go on."]
    assert len(shop.called) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "messages.2: `tool_use` ids were found without `tool_result` blocks"),
        (400, "This model's maximum context length is 8192 tokens. Please reduce the length of the messages."),
        (400, "Expecting ',' delimiter: line 1 column 15 (char 14)"),
        (413, "Request exceeds the maximum size"),
        (422, "Failed to parse tool call arguments as JSON"),
    ],
)
async def test_a_refusal_of_the_conversation_is_known_by_its_words(
    host: Host, client: httpx.AsyncClient, status: int, words: str
) -> None:
    fake = FakeOpenAI(Turn(calls=[("shop__price", {"item": "pear"})]), Refusal(status, words), Turn("Go on."))
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError, match="taken back"):
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("and now?"), THREAD)
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unsupported parameter: 'temperature' is not supported with this model."),
        (400, "Your credit balance is too low to access the Anthropic API."),
        (400, "Invalid schema for function 'a': []"),
        (401, "Invalid messages"),
        (500, "messages: failed"),
    ],
)
async def test_a_refusal_of_a_setting_takes_nothing_back(
    host: Host, client: httpx.AsyncClient, status: int, words: str
) -> None:
    fake = FakeOpenAI(Turn(calls=[("shop__price", {"item": "pear"})]), Refusal(status, words))
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.aget_state(THREAD)
    assert "taken back" not in str(raised.value)
    assert [message.type for message in state.values["messages"]] == ["human", "ai", "tool"]


async def test_each_refusal_takes_back_more_until_it_goes_on(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Refusal(400, REFUSED), Refusal(400, REFUSED), Refusal(400, REFUSED), Turn("Go on."))
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        old = [*stored("odd"), AIMessage("An answer of another model.")]
        await graph.aupdate_state(THREAD, {"messages": old}, as_node="stop")
        left = []
        for number in range(3):
            with pytest.raises(ModelError, match="taken back"):
                await graph.ainvoke(asked(f"try {number}"), THREAD)
            left.append([message.type for message in (await graph.aget_state(THREAD)).values["messages"]])
        state = await graph.ainvoke(asked("now"), THREAD)
    assert left == [["human", "ai", "tool", "ai"], ["human", "ai", "tool"], ["human"]] or left[2] == ["human", "ai"]
    assert state["messages"][-1].text == "Go on."
    assert state["refused"] == ""


@pytest.mark.parametrize("where", ["memory", "file"])
async def test_a_run_says_what_was_taken_back_and_the_thread_goes_on(
    host: Host, client: httpx.AsyncClient, tmp_path: Path, where: str
) -> None:
    place = ":memory:" if where == "memory" else str(tmp_path / "threads.sqlite")
    turns = [Turn(calls=[("shop__price", {"item": "pear"})]), Refusal(400, REFUSED), Turn("Go on.")]
    fake = FakeOpenAI(*turns)
    async with fake.running(), open_threads(place) as saver:
        graph = build_graph(chat(fake, client), host, checkpointer=saver)
        with pytest.raises(ModelError) as raised:
            await run_agent(graph, host, "go", thread="t")
        assert str(raised.value).splitlines()[1:] == [
            f"{TAKEN}the last turn, with the answers to shop:price(item=pear)",
            "`--thread t` goes on from there",
        ]
        run = await run_agent(graph, host, "and now?", thread="t")
    assert run.answer == "Go on."
    roles = [message["role"] for message in fake.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def test_a_request_that_is_refused_at_once_is_taken_back(host: Host, client: httpx.AsyncClient) -> None:
    fake = FakeOpenAI(Refusal(400, "Invalid prompt: flagged as potentially violating our usage policy"), Turn("Hello."))
    async with fake.running():
        graph = build_graph(chat(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError, match="go on without it: your last request"):
            await run_agent(graph, host, "something odd", thread="t")
        run = await run_agent(graph, host, "Hello", thread="t")
    assert run.answer == "Hello."
    assert [message["content"] for message in fake.requests[-1]["messages"][1:]] == ["Hello"]


# Other ways to a model


async def test_create_agent_sends_images_where_they_are_read(host: Host, client: httpx.AsyncClient) -> None:
    from langchain.agents import create_agent

    from mcp_magic import ConversationMiddleware
    from mcp_magic.langchain.tools import langchain_tools

    camera = await host.connect(Camera(image()).server, name="camera")
    await camera.listing("tools")
    broken = Turn(calls=[("camera__look", BROKEN["cut off"])])
    fake = FakeOpenAI(LOOK, broken, Turn("A square."), strict=True)
    async with fake.running():
        tools = langchain_tools(camera, images=True)
        agent: Any = create_agent(local(fake, client), tools, middleware=[ConversationMiddleware()])
        state = await agent.ainvoke(asked())
    assert fake.refused == []
    assert [message["role"] for message in fake.requests[1]["messages"]] == ["user", "assistant", "tool", "user"]
    assert state["messages"][2].content[0]["type"] == "image"


async def test_a_recorded_turn_with_images_is_replayed(host: Host, client: httpx.AsyncClient, tmp_path: Path) -> None:
    await host.connect(Camera(image()).server, name="camera")
    fake = FakeOpenAI(LOOK, Turn("A square."))
    tape = tmp_path / "tape.jsonl"
    async with fake.running():
        with deck.holding(tape, "record"):
            await build_graph(chat(fake, client), host).ainvoke(asked())
    with deck.holding(tape, "replay"):
        state = await build_graph(make_model("nowhere:gpt-5"), host).ainvoke(asked())
    assert state["messages"][-1].text == "A square."
