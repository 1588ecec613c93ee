"""What providers refuse is not sent: images, arguments and names are made such as each of them takes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from mcp_types import CallToolResult, ImageContent, TextContent, Tool

from mcp_magic.agent.conversation import FOLLOWS, for_provider, image_place
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.models import make_model
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.cassette.cassette import deck
from mcp_magic.errors import ModelError
from tests.pictures import png
from tests.support.agents import THREAD, answers, asked
from tests.support.fake_openai import FakeOpenAI, Turn, chat
from tests.support.fake_providers import FakeMessages, FakeResponses
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    import httpx

    from mcp_magic._host import Host

IMAGES: Any = {"image_inputs": True, "image_tool_message": True}
PNG = base64.b64encode(png(2, 2)).decode()
LOOK = Turn(calls=[("camera__look", {})])


def claude(fake: Any, client: httpx.AsyncClient) -> Any:
    from langchain_anthropic import ChatAnthropic  # takes long

    options: Any = {"disable_streaming": True, "max_retries": 0}
    return ChatAnthropic(model_name="claude-sonnet-5-5", base_url=fake.url, api_key="sk-ant-0", **options)


def responses(fake: Any, client: httpx.AsyncClient) -> Any:
    return chat(fake, client, use_responses_api=True, disable_streaming=True)


PROVIDERS: dict[str, Any] = {
    "chat completions": (FakeOpenAI, chat),
    "compatible": (
        lambda *turns: FakeOpenAI(*turns, strict=True),
        lambda fake, client: chat(fake, client, model="local", profile=IMAGES),
    ),
    "responses": (FakeResponses, responses),
    "messages": (FakeMessages, claude),
}


def image(data: str = PNG, kind: str = "image/png") -> ImageContent:
    return ImageContent(data=data, mime_type=kind)


async def connect_camera(host: Host, *blocks: Any, name: str = "camera") -> Any:
    """Connect a server whose tool answers with blocks."""

    async def answer(name: str, arguments: Any) -> CallToolResult:
        return CallToolResult(content=[*blocks])

    tool = Tool(name="look", input_schema={"type": "object"})
    return await host.connect(serving_tools(tool, handler=answer), name=name)


# Images


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
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][3]["content"] == f"Here:\n{FOLLOWS}"
    return body["messages"][4]["content"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_image_stands_where_the_provider_reads_it(host, client, name):
    await connect_camera(host, TextContent(text="Here:"), image(kind="image/jpeg"))
    make, model = PROVIDERS[name]
    async with make(LOOK, Turn("A square."), Turn("Yes.")).running() as fake:
        graph = build_graph(model(fake, client), host, checkpointer=InMemorySaver())
        state = await graph.ainvoke(asked(), THREAD)
        assert images_sent(name, fake.requests[-1]) == SENT[name]
        state = await graph.ainvoke(asked("sure?"), THREAD)
    assert fake.refused == []
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert state["messages"][2].content[1]["type"] == "image", "the thread keeps it in the answer"


async def test_images_of_several_calls_follow_all_answers(host, openai):
    for name in ("left", "right"):
        await connect_camera(host, image(), name=name)
    look = Turn(calls=[("left__look", {}), ("right__look", {})])
    fake, model = await openai(look, Turn("Two."), strict=True, model="local", profile=IMAGES)
    await build_graph(model, host).ainvoke(asked())
    assert fake.refused == []
    sent = fake.requests[-1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    said = "[The images in the answers of left__look, right__look. The user has not sent them.]"
    parts = [part.get("text", "image") for part in sent[-1]["content"]]
    assert parts == [said, "[left__look]", "image", "[right__look]", "image"]


def stored(*parts: Any) -> list[Any]:
    """Return the messages of a thread of which a provider has refused the answers, as it may be in a file."""
    calls: Any = [{"name": "camera__look", "args": {}, "id": f"c{number}"} for number in range(len(parts))]
    results = [ToolMessage(["Here:", part], tool_call_id=f"c{number}") for number, part in enumerate(parts)]
    return [HumanMessage("go"), AIMessage("", tool_calls=calls), *results]


BROKEN_PARTS = [
    {"type": "image", "base64": PNG, "mime_type": "image/jpeg"},
    {"type": "image", "base64": PNG[:-20], "mime_type": "image/png"},
    {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PNG}"}},
    "a half \ud83d",
]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_thread_that_is_broken_on_disk_goes_on(host, client, name):
    make, model = PROVIDERS[name]
    async with make(Turn("Now it goes.")).running() as fake:
        graph = build_graph(model(fake, client), host, checkpointer=InMemorySaver())
        await graph.aupdate_state(THREAD, {"messages": stored(*BROKEN_PARTS)}, as_node="act")
        state = await graph.ainvoke(asked("and now?"), THREAD)
    assert fake.refused == []
    assert state["messages"][-1].text == "Now it goes."


async def test_a_model_that_reads_no_images_takes_over(host, openai):
    fake, model = await openai(Turn("I cannot see it."), strict=True, model="blind")
    graph = build_graph(model, host, checkpointer=InMemorySaver())
    picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    await graph.aupdate_state(THREAD, {"messages": stored(picture)}, as_node="act")
    await graph.ainvoke(asked("and now?"), THREAD)
    assert fake.refused == []
    line = fake.requests[0]["messages"][3]["content"]
    assert line == "Here:\n[image/png, 68 bytes, not shown: this model reads none]"


async def test_a_recorded_turn_with_images_is_replayed(host, openai, tmp_path):
    await connect_camera(host, image())
    _, model = await openai(LOOK, Turn("A square."))
    with deck.holding(tmp_path / "tape.jsonl", "record"):
        await build_graph(model, host).ainvoke(asked())
    with deck.holding(tmp_path / "tape.jsonl", "replay"):
        state = await build_graph(make_model("nowhere:gpt-5"), host).ainvoke(asked())
    assert state["messages"][-1].text == "A square."


def model_of(package: str) -> Any:
    """Return a model of a package, which is what decides."""
    kind = type("Model", (ScriptedModel,), {"__module__": f"{package}.chat_models"})
    return kind([], profile=IMAGES)


@pytest.mark.parametrize(
    ("model", "place"),
    [
        pytest.param(ScriptedModel([]), "", id="none"),
        pytest.param(ScriptedModel([], profile=IMAGES), "answer", id="says so"),
        pytest.param(ScriptedModel([], profile={"image_inputs": True}), "follows", id="reads images"),
        pytest.param(model_of("langchain_groq"), "follows", id="compatible"),
        pytest.param(model_of("langchain_mistralai"), "", id="takes no user there"),
    ],
)
def test_where_a_model_reads_images(model, place):
    assert image_place(model) == place


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
SURROGATE_NAMES = {"outer": '{"\\ud83d": "x"}', "inner": '{"item": "x", "more": {"a": [{"\\ud83d": 1}]}}'}


@pytest.mark.parametrize("name", ["compatible", "chat completions", "responses"])
async def test_broken_arguments_are_refused_and_not_sent_again(host, shop, client, name):
    make, model = PROVIDERS[name]
    # LangChain makes no message of some; and half a surrogate in a name ends no run
    unread = ("a list", "a text") if name == "responses" else ()
    cases = {case: text for case, text in {**BROKEN, **SURROGATE_NAMES}.items() if case not in unread}
    turns = [turn for text in cases.values() for turn in (Turn(calls=[("shop__buy", text)]), Turn("Sorry."))]
    async with make(*turns).running() as fake:
        graph = build_graph(model(fake, client), host, checkpointer=InMemorySaver())
        for case in cases:
            status, _ = answers(await graph.ainvoke(asked(), THREAD))[-1]
            assert (case, status, shop.called, fake.refused) == (case, "error", [], [])
    readable = {case: text.replace("\\ud83d", "\ufffd") for case, text in SURROGATE_NAMES.items()}
    for number, case in enumerate(cases):
        *_, sent = arguments_sent(name, fake.requests[2 * number + 1])
        assert sent == readable.get(case, "{}"), case
    readable["half a surrogate"] = '{"item": "a ?"}'
    assert arguments_sent(name, fake.requests[-1]) == [readable.get(case, "{}") for case in cases]


def arguments_sent(name: str, body: dict[str, Any]) -> list[str]:
    """Return the arguments of all calls in a request."""
    if name == "responses":
        return [item["arguments"] for item in body["input"] if item.get("type") == "function_call"]
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    return [call["function"]["arguments"] for call in calls]


async def test_arguments_of_a_whole_turn_are_read_alike(host, shop, openai):
    turn = Turn(calls=[("shop__buy", BROKEN["cut off"])])
    fake, model = await openai(turn, Turn("Sorry."), strict=True, disable_streaming=True)
    await build_graph(model, host).ainvoke(asked())
    assert (shop.called, fake.refused) == ([], [])


async def test_arguments_that_make_no_message_are_told(host, client):
    async with FakeResponses(Turn(calls=[("shop__buy", BROKEN["a list"])]), Turn("Yes.")).running() as fake:
        graph = build_graph(responses(fake, client), host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("again"), THREAD)
    assert str(raised.value) == "gpt-5: it called a tool with arguments that are no object; ask again"
    assert state["messages"][-1].text == "Yes."


BROKEN_CALL: Any = {"name": "a", "args": "{", "id": "call_1", "error": None, "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("block", "key", "value"),
    [
        ({"type": "tool_use", "id": "call_1", "name": "a", "input": {}, "partial_json": "{"}, "input", {}),
        ({"type": "function_call", "call_id": "call_1", "name": "a", "arguments": "{"}, "arguments", "{}"),
        ({"type": "invalid_tool_call", "id": "call_1", "name": "a", "args": "{"}, "args", {}),
    ],
    ids=["tool_use", "function_call", "invalid_tool_call"],
)
def test_content_that_repeats_a_broken_call_is_emptied(block, key, value):
    sent: Any = for_provider(None, [AIMessage([block], invalid_tool_calls=[BROKEN_CALL])])[0]
    assert [(call["id"], call["args"]) for call in sent.tool_calls] == [("call_1", {})]
    assert sent.invalid_tool_calls == []
    assert sent.content[0][key] == value
    assert "partial_json" not in sent.content[0]


def call_of(name: str) -> Any:
    return {"name": name, "args": {"x": 1}, "id": "call_1", "type": "tool_call"}


@pytest.mark.parametrize(("name", "sent"), [("functions.a:0", "functions_a_0"), ("", "unknown"), ("é" * 70, "unknown")])
def test_a_name_that_a_model_made_up_is_cleaned(name, sent):
    turn: Any = for_provider(None, [AIMessage("", tool_calls=[call_of(name)])])[0]
    assert [call["name"] for call in turn.tool_calls] == [sent]


def test_only_half_a_surrogate_is_replaced_in_texts():
    before = [
        SystemMessage("S é 😀"),
        HumanMessage([{"type": "text", "text": "H"}]),
        AIMessage([{"type": "text", "text": "A"}], tool_calls=[call_of("a")]),
        ToolMessage("T", tool_call_id="call_1"),
    ]
    assert all(a is b for a, b in zip(for_provider(ScriptedModel([]), before), before, strict=True))
    for kind in (SystemMessage, HumanMessage, AIMessage):
        [sent] = for_provider(None, [kind([{"type": "text", "text": "a \udc00"}])])
        assert sent.content == [{"type": "text", "text": "a \ufffd"}]
