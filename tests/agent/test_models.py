"""Models by name, with the provider packages themselves; their errors in one line, without keys."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import httpx
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from mcp_types import CallToolResult, TextContent, Tool

from mcp_magic.agent.events import CallEvent
from mcp_magic.agent.failures import model_error, model_name, without_secrets
from mcp_magic.agent.graph import build_graph
from mcp_magic.agent.models import make_model
from mcp_magic.agent.run import usage_of
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import MCPMagicError, MissingDependencyError, ModelError
from tests.support.agents import THREAD, answers, asked
from tests.support.asgi import answer, answering, serving
from tests.support.bundled import load
from tests.support.fake_openai import KEY, FakeOpenAI, Refusal, Turn, chat
from tests.support.lowlevel import serving_tools
from tests.support.processes import free_port

ANTHROPIC_KEY = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvWXYZ"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """Nobody's own keys."""
    for name in os.environ:
        if name.startswith(("OPENAI_", "ANTHROPIC_", "LANGSMITH_", "AZURE_")):
            monkeypatch.delenv(name)


# By name


@pytest.mark.parametrize("name", ["openai:gpt-5", "gpt-5", "anthropic:claude-test-1", "claude-test-1"])
def test_a_model_is_made_by_its_name(monkeypatch, name):
    package, kind = ("openai", "ChatOpenAI") if "gpt" in name else ("anthropic", "ChatAnthropic")
    monkeypatch.setenv(f"{package.upper()}_API_KEY", KEY)
    model = make_model(f" {name} ")
    assert (type(model).__module__.partition(".")[0], type(model).__name__) == (f"langchain_{package}", kind)
    assert model_name(model) == name.rpartition(":")[2]
    assert KEY not in repr(model)


def test_nothing_configured_is_the_model_without_weights():
    assert [model_name(make_model(name)) for name in ("", "offline", " offline ")] == ["offline"] * 3
    model = FakeListChatModel(responses=["hello"])
    assert make_model(model) is model


PLACE = "set it in the environment before the kernel starts, or in os.environ."
NO_MODEL = "is not a chat model. Give PROVIDER:NAME, offline, or `--model $name` for a LangChain one."
CLASS = "FakeListChatModel is a class of chat models; give an instance: FakeListChatModel(...)."


@pytest.mark.parametrize(
    ("model", "variables", "said"),
    [
        ("openai:gpt-5", {}, f"openai:gpt-5: OPENAI_API_KEY is not set; {PLACE}"),
        ("openai:gpt-5", {"OPENAI_API_KEY": ""}, f"openai:gpt-5: OPENAI_API_KEY is not set; {PLACE}"),
        ("anthropic:claude-test-1", {}, f"anthropic:claude-test-1: ANTHROPIC_API_KEY is not set; {PLACE}"),
        ("anthropic:c", {"ANTHROPIC_API_KEY": ""}, f"anthropic:c: ANTHROPIC_API_KEY is not set; {PLACE}"),
        ("azure_openai:gpt-5", {}, f"azure_openai:gpt-5: AZURE_OPENAI_API_KEY is not set; {PLACE}"),
        (
            "opanai:gpt-5",
            {},
            "there is no provider 'opanai'. Did you mean 'openai'? Write PROVIDER:NAME; providers: openai, ...",
        ),
        ("OpenAI:gpt-6", {}, "there is no provider 'OpenAI'. Did you mean 'openai'? ..."),
        ("nosuch", {}, "'nosuch' names no known provider. Write PROVIDER:NAME; ..."),
        ("offlin", {}, "'offlin' names no known provider. Did you mean 'offline'? ..."),
        ("openai", {}, "openai is a provider; name one of its models, too: openai:NAME..."),
        ("anthropic:", {}, "anthropic: is a provider; name one of its models, too: anthropic:NAME..."),
        (3, {}, f"int {NO_MODEL}"),
        (None, {}, f"NoneType {NO_MODEL}"),
        (FakeListChatModel, {}, CLASS),
    ],
)
def test_a_model_that_cannot_be_made_says_why(monkeypatch, model, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError) as raised:
        make_model(model)
    assert raised.value.__context__ is None
    if said.endswith("..."):
        assert str(raised.value).startswith(said[:-3])
        assert "\n" not in str(raised.value)
    else:
        assert str(raised.value) == said


def test_a_key_in_place_of_a_name_is_not_repeated():
    with pytest.raises(ModelError) as raised:
        make_model(KEY)
    assert KEY not in str(raised.value)


def test_missing_packages_are_named_with_their_commands(monkeypatch):
    with pytest.raises(MissingDependencyError) as raised:
        make_model("mistralai:mistral-large-latest")
    install = "`pip install langchain-mistralai`"
    assert str(raised.value) == f"mistralai:mistral-large-latest: its package is not installed: {install}"
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mcp-magic\[models\]'"):
        make_model("openai:gpt-5")


MESSAGE = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-1"},
    **{"content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn", "stop_sequence": None},
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ANTHROPIC_API_KEY", ANTHROPIC_KEY),
        ("ANTHROPIC_AUTH_TOKEN", ANTHROPIC_KEY),
        ("ANTHROPIC_CUSTOM_HEADERS", f"Authorization: Bearer {ANTHROPIC_KEY}"),
    ],
)
async def test_anthropic_is_reached_with_its_own_settings(monkeypatch, variable, value):
    seen: list[dict[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await answer(send, 200, json.dumps(MESSAGE).encode())

    async with serving(app, lifespan="off") as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv(variable, value)
        model: Any = make_model("anthropic:claude-test-1")
        said = await model.ainvoke("hi")
        await model._async_client.close()
    assert said.text == "Hello."
    assert ANTHROPIC_KEY in (seen[0].get("x-api-key"), seen[0].get("authorization", "").removeprefix("Bearer "))
    assert ANTHROPIC_KEY not in repr(model)


# Errors


def claude(**settings: Any) -> Any:
    from langchain_anthropic import ChatAnthropic  # takes seconds

    return ChatAnthropic(model="claude-test-1", max_retries=0, **settings)


async def error_of(key: str, status: int, body: Any, kind: str = "application/json") -> str:
    """Return what is said of the error that a provider's package raises for an answer of the provider."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with serving(answering(status, content, kind)) as url, httpx.AsyncClient() as client:
        anthropic = key.startswith("sk-ant")
        model = claude(base_url=url, api_key=key) if anthropic else _openai(url, client, key)
        try:
            await model.ainvoke("hi")
        except Exception as raised:
            error = model_error(raised, model)
    assert isinstance(error, ModelError)
    return str(error)


def _openai(url: str, client: httpx.AsyncClient, key: str) -> Any:
    fake = FakeOpenAI()
    fake.url = url
    return chat(fake, client, api_key=key)


@pytest.mark.parametrize(
    "quoted", [KEY, f"{KEY[:8]}{'*' * 30}{KEY[-4:]}", f"Bearer {KEY}"], ids=["whole", "cut", "Bearer"]
)
async def test_a_key_that_openai_quotes_is_not_repeated(quoted):
    error = {"message": f"Incorrect API key provided: {quoted}", "type": "invalid_request_error", "code": None}
    said = await error_of(KEY, 401, {"error": error})
    hidden = quoted.replace(quoted.removeprefix("Bearer "), "***")
    assert said == f"gpt-5: the key is not accepted (HTTP 401): Incorrect API key provided: {hidden}"


async def test_errors_of_providers_are_one_line_without_the_key():
    error = {"type": "authentication_error", "message": f"invalid x-api-key\n{ANTHROPIC_KEY}"}
    said = await error_of(ANTHROPIC_KEY, 401, {"type": "error", "error": error})
    assert said == "claude-test-1: the key is not accepted (HTTP 401): invalid x-api-key ***"
    error = {"type": "overloaded_error", "message": "Overloaded"}
    said = await error_of(ANTHROPIC_KEY, 529, {"type": "error", "error": error})
    assert said == "claude-test-1: the provider failed; try again (HTTP 529): Overloaded"
    page = b"<html><body><h1>Bad gateway</h1></body></html>"
    assert await error_of(KEY, 502, page, "text/html") == "gpt-5: the provider failed; try again (HTTP 502)"
    for key in (KEY, ANTHROPIC_KEY):
        said = await error_of(f"{key}\n", 200, b"")
        assert "the key is empty or has a line end or another character that no key has" in said
        assert "0123456789" not in said


def test_which_errors_become_errors_of_the_model():
    missing = TypeError("no API key or credentials were provided. Set the ANTHROPIC_API_KEY environment variable")
    error = model_error(missing, claude())
    assert isinstance(error, ModelError)
    assert "ANTHROPIC_API_KEY" in str(error)
    for kept in (TypeError("unsupported operand"), MCPMagicError("ours")):
        assert model_error(kept, FakeListChatModel(responses=[])) is kept


def test_secrets_in_environment_headers_and_urls_are_hidden(monkeypatch):
    monkeypatch.setenv("COMPANY_TOKEN", "correct horse battery")
    headers = {"Authorization": "Basic dXNlcjpwYXNz", "X-Team": "blue team"}
    model = init_chat_model("openai:gpt-5", api_key="plain-and-odd", default_headers=headers)
    text = "correct horse battery; dXNlcjpwYXNz; plain-and-odd; blue team; https://me:pw@example.com/v1?key=abc"
    error = model_error(ValueError(text), model)
    assert str(error) == "gpt-5: ***; ***; ***; blue team; https://***@example.com/v1?key=***"
    for kept in (
        "key-value pairs are missing",
        "the task-force of sk-learn",
        "a *bold* word and a **very bold** one",
        "MAX_TOKENS",
    ):
        assert without_secrets(kept) == kept, "it only looks like a key"


# The whole path of a provider package, to a server that speaks OpenAI's protocol


@pytest.mark.parametrize("streams", [True, False])
async def test_a_provider_calls_tools_of_servers_and_answers(host, openai, streams):
    for name in ("showcase", "math"):
        await host.connect(load(f"{name}_server").server, name=name)
    fake, model = await openai(
        Turn("I add them now.", [("math__add", {"a": 1234, "b": 5678})]),
        Turn(calls=[("math__multiply", {"a": 7, "b": 5}), ("showcase__choices", {"size": "m"})]),
        Turn("It is **35**."),
        disable_streaming=not streams,
    )
    graph = build_graph(model, host, search_above=None)
    events: dict[str, list[Any]] = {"custom": [], "messages": [], "values": []}
    async for mode, event in graph.astream(asked(), stream_mode=[*events]):
        events[mode].append(event)
    assert fake.refused == []
    assert [bool(request.get("stream")) for request in fake.requests] == [streams] * 3
    texts = [chunk.text for chunk, _ in events["messages"] if chunk.type == "AIMessageChunk" and chunk.text]
    assert ("".join(texts), len(texts) > 8) == ("I add them now.It is **35**." * streams, streams)
    calls = [event for event in events["custom"] if isinstance(event, CallEvent)]
    assert [call.tool for call in calls] == ["add", "multiply", "choices"]
    assert (calls[0].server, calls[0].arguments) == ("math", {"a": 1234, "b": 5678})
    told = fake.requests[2]["messages"]
    assert [message["role"] for message in told] == ["system", "user", *["assistant", "tool"] * 2, "tool"]
    assert told[2]["tool_calls"][0]["function"] == {"name": "math__add", "arguments": '{"a": 1234, "b": 5678}'}
    assert [told[3]["content"], told[5]["content"]] == ["6912", "35"]
    listed = [f"{name}__{tool.name}" for name in host for tool in await host[name].listing("tools")]
    assert len(listed) > 30
    assert [tool["function"]["name"] for tool in fake.requests[0]["tools"]] == listed
    theirs = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
    used = {name: sum(usage[own] for usage in fake.used) for name, own in theirs.items()}
    assert used["total_tokens"] > 100
    assert used.items() <= usage_of(events["values"][-1]["messages"]).items()


FAILURES = {
    "429": (
        Refusal(429, "Rate limit reached for gpt-5", "rate_limit_exceeded", {"retry-after": "20"}),
        "gpt-5: the rate limit or the quota is used up; wait, or choose another model "
        "(HTTP 429, to be tried again in 20 s): Rate limit reached for gpt-5",
    ),
    "500": (Refusal(500, "The server had an error"), "gpt-5: the provider failed; try again (HTTP 500): {}"),
    "400": (Refusal(400, "max_tokens is too large"), "gpt-5: the provider refused the request (HTTP 400): {}"),
    "404": (
        Refusal(404, "The model `gpt-5` does not exist"),
        "gpt-5: there is no such model, or not for this key (HTTP 404): {}",
    ),
    "error in the stream": (Turn("half an answer", cut="event"), "gpt-5: The server had an error"),
    "cut stream": (
        Turn("half an answer", cut="socket"),
        "gpt-5: the connection to the provider at {place} broke off: peer closed connection without sending "
        "complete message body (incomplete chunked read)",
    ),
}


async def test_errors_are_one_line_and_the_thread_goes_on(host, openai):
    fake, model = await openai()
    for failure, expected in FAILURES.values():
        fake.turns = [Turn(calls=[("shop__price", {"item": "pear"})]), failure, Turn("It costs 2.")]
        graph = build_graph(model, host, checkpointer=InMemorySaver())
        with pytest.raises(ModelError) as raised:
            await graph.ainvoke(asked(), THREAD)
        state = await graph.ainvoke(asked("go on"), THREAD)
        place = fake.url.removesuffix("/v1")
        assert str(raised.value) == expected.format(getattr(failure, "message", ""), place=place)
        assert raised.value.__context__ is None
        assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "human", "ai"]
        assert state["messages"][-1].text == "It costs 2."
        assert fake.refused == []


@pytest.mark.parametrize("quote", [False, True])
@pytest.mark.parametrize("key", ["sk-proj-wrong-0123456789abcdefXYZ", "a-key-of-no-known-kind"])
async def test_a_key_that_is_not_accepted_is_not_repeated(host, openai, key, quote):
    _, model = await openai(Turn("never"), quote=quote, api_key=key)
    with pytest.raises(ModelError) as raised:
        await build_graph(model, host).ainvoke(asked())
    said = str(raised.value)
    assert re.fullmatch(
        r"gpt-5: the key is not accepted \(HTTP 401\): Incorrect API key provided: \*\*\*\.? "
        r"You can find your API key at https://example.com/api-keys\.",
        said,
    )
    assert not any(part in said + repr(raised.value) for part in (key, key[:8], key[-4:]))


async def test_a_provider_that_is_not_there_is_named(host, client):
    place = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ModelError) as raised:
        await build_graph(_openai(f"{place}/v1", client, KEY), host).ainvoke(asked())
    assert str(raised.value) == f"gpt-5: the provider cannot be reached at {place}: All connection attempts failed"


@pytest.mark.parametrize(
    ("arrived", "turn"),
    [
        ('{"item": "apple", ', Turn(calls=[("shop__buy", {"item": "apple", "count": 1000})], cut="quiet")),
        ('{"item": "apple", "coun', Turn(calls=[("shop__buy", '{"item": "apple", "coun')], finish="length")),
        ('{"item": "apple", "count": 1', Turn(calls=[("shop__buy", '{"item": "apple", "count": 1')])),
        ("", Turn(calls=[("shop__buy", "")], finish="length")),
    ],
    ids=["ended early", "limit of tokens", "broken JSON", "no arguments"],
)
async def test_a_call_whose_arguments_are_not_whole_is_not_made(host, shop, openai, arrived, turn):
    fake, model = await openai(turn, Turn("I could not."))
    state = await build_graph(model, host).ainvoke(asked())
    assert (shop.called, fake.refused) == ([], [])
    [(status, text)] = answers(state)
    assert status == "error"
    assert text == f"the arguments are not a JSON object: {arrived}"
    assert state["messages"][-1].text == "I could not."


async def test_errors_and_denials_reach_the_provider_as_answers(host, openai):
    host.consent.add(Rule("deny", "shop:price"))
    calls = [("shop__fail", {"reason": "no stock"}), ("shop__nothing", {}), ("shop__buy", {"item": 3})]
    denied, bought = ("shop__price", {"item": "pear"}), ("shop__buy", {"item": "pear"})
    fake, model = await openai(Turn(calls=[*calls, denied]), Turn(calls=[bought]), Turn("Sorry."))
    said = answers(await build_graph(model, host).ainvoke(asked()))
    assert [status for status, _ in said] == ["error"] * 4 + ["success"]
    assert "denied by" in said[3][1]
    told = fake.requests[1]["messages"][3:]
    assert [(message["role"], message["content"]) for message in told] == [("tool", text) for _, text in said[:4]]
    assert fake.refused == []


async def test_an_odd_tool_does_not_take_the_others_with_it(host, openai):
    async def echo(name: str, arguments: dict[str, Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=json.dumps(arguments))])

    properties = {"filter[id]": {"type": "string"}, "tags": {"type": "array"}}
    either = [{"required": ["filter[id]"]}, {"required": ["tags"]}]  # providers refuse alternatives at the root
    tool = Tool(name="find", input_schema={"type": "object", "properties": properties, "anyOf": either})
    await host.connect(serving_tools(tool, handler=echo), name="odd")
    fake, model = await openai(Turn(calls=[("odd__find", {"filter_id": "7"})]), Turn("Found."))
    state = await build_graph(model, host).ainvoke(asked())
    assert fake.refused == []
    assert answers(state) == [("success", '{"filter[id]": "7"}')]
