"""Models by name, with the provider packages themselves; their errors in one line, without keys."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import FakeListChatModel

from mcp_magic.agent.models import make_model, model_error, model_name, without_secrets
from mcp_magic.errors import MCPMagicError, MissingDependencyError, ModelError
from tests.support.asgi import answer, answering, serving

if TYPE_CHECKING:
    from collections.abc import Callable

OPENAI_KEY = "sk-proj-0123456789abcdefghijklmnopqrstuvWXYZ"
ANTHROPIC_KEY = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvWXYZ"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own keys."""
    for name in os.environ:
        if name.startswith(("OPENAI_", "ANTHROPIC_", "LANGSMITH_", "AZURE_")):
            monkeypatch.delenv(name)


def refusal(model: Any) -> str:
    with pytest.raises(ModelError) as raised:
        make_model(model)
    assert raised.value.__context__ is None
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "kind", "variable"),
    [
        ("openai:gpt-5", ("langchain_openai", "ChatOpenAI"), "OPENAI_API_KEY"),
        ("anthropic:claude-test-1", ("langchain_anthropic", "ChatAnthropic"), "ANTHROPIC_API_KEY"),
        ("gpt-5", ("langchain_openai", "ChatOpenAI"), "OPENAI_API_KEY"),
        ("claude-test-1", ("langchain_anthropic", "ChatAnthropic"), "ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_is_made_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: tuple[str, str], variable: str
) -> None:
    monkeypatch.setenv(variable, OPENAI_KEY)
    model = make_model(f" {name} ")
    assert (type(model).__module__.partition(".")[0], type(model).__name__) == kind
    assert model_name(model) == name.rpartition(":")[2]
    assert OPENAI_KEY not in repr(model)


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY", None),
        ("openai:gpt-5", "OPENAI_API_KEY", ""),
        ("anthropic:claude-test-1", "ANTHROPIC_API_KEY", None),
        ("anthropic:claude-test-1", "ANTHROPIC_API_KEY", ""),
        ("azure_openai:gpt-5", "AZURE_OPENAI_API_KEY", None),
    ],
)
def test_a_key_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv(variable, value)
    assert refusal(name) == (
        f"{name}: {variable} is not set; set it in the environment before the kernel starts, or in os.environ."
    )


def test_missing_package_error_names_its_install_command() -> None:
    with pytest.raises(MissingDependencyError) as raised:
        make_model("mistralai:mistral-large-latest")
    assert str(raised.value) == (
        "mistralai:mistral-large-latest: its package is not installed: `pip install langchain-mistralai`"
    )


def test_missing_langchain_error_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mcp-magic\[models\]'"):
        make_model("openai:gpt-5")


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        (
            "opanai:gpt-5",
            "there is no provider 'opanai'. Did you mean 'openai'? Write PROVIDER:NAME; providers: openai, ",
        ),
        ("OpenAI:gpt-6", "there is no provider 'OpenAI'. Did you mean 'openai'? "),
        ("nosuch", "'nosuch' names no known provider. Write PROVIDER:NAME; "),
        ("offlin", "'offlin' names no known provider. Did you mean 'offline'? "),
        ("openai", "openai is a provider; name one of its models, too: openai:NAME"),
        ("anthropic:", "anthropic: is a provider; name one of its models, too: anthropic:NAME"),
    ],
)
def test_unknown_provider_error_lists_the_valid_ones(name: str, begin: str) -> None:
    said = refusal(name)
    assert said.startswith(begin)
    assert "\n" not in said


def test_a_key_in_place_of_a_name_is_not_repeated() -> None:
    assert OPENAI_KEY not in refusal(OPENAI_KEY)


@pytest.mark.parametrize("name", ["", "offline", " offline "])
def test_nothing_configured_is_the_model_without_weights(name: str) -> None:
    assert model_name(make_model(name)) == "offline"


def test_a_chat_model_is_taken_as_it_is() -> None:
    model = FakeListChatModel(responses=["hello"])
    assert make_model(model) is model


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (3, "int is not a chat model. Give PROVIDER:NAME, offline, or `--model $name` for a LangChain one."),
        (None, "NoneType is not a chat model. Give PROVIDER:NAME, offline, or `--model $name` for a LangChain one."),
        (FakeListChatModel, "FakeListChatModel is a class of chat models; give an instance: FakeListChatModel(...)."),
    ],
)
def test_what_is_no_chat_model_is_refused(thing: Any, said: str) -> None:
    assert refusal(thing) == said


@pytest.mark.parametrize(
    "variables",
    [
        {"ANTHROPIC_API_KEY": ANTHROPIC_KEY},
        {"ANTHROPIC_AUTH_TOKEN": ANTHROPIC_KEY},
        {"ANTHROPIC_CUSTOM_HEADERS": f"Authorization: Bearer {ANTHROPIC_KEY}"},
    ],
    ids=lambda variables: next(iter(variables)),
)
async def test_anthropic_is_reached_with_each_of_its_own_settings(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    seen: list[dict[str, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
            await answer(send, 200, json.dumps(MESSAGE).encode())

    async with serving(app, lifespan="off") as url:
        for name, value in {"ANTHROPIC_BASE_URL": url, **variables}.items():
            monkeypatch.setenv(name, value)
        model = make_model("anthropic:claude-test-1")
        said = await model.ainvoke("hi")
        await model._async_client.close()  # type: ignore[attr-defined]
    assert said.text == "Hello."
    assert ANTHROPIC_KEY in (seen[0].get("x-api-key"), seen[0].get("authorization", "").removeprefix("Bearer "))
    assert ANTHROPIC_KEY not in repr(model)


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test-1",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def openai_model(url: str, client: httpx.AsyncClient) -> Any:
    from langchain_openai import ChatOpenAI  # takes long

    return ChatOpenAI(model="gpt-5", base_url=url, api_key=OPENAI_KEY, max_retries=0, http_async_client=client)


def anthropic_model(url: str, client: httpx.AsyncClient) -> Any:
    return claude(base_url=url, api_key=ANTHROPIC_KEY)


def claude(**settings: Any) -> Any:
    from langchain_anthropic import ChatAnthropic  # takes seconds

    return ChatAnthropic(model="claude-test-1", max_retries=0, **settings)


async def error_of(make: Callable[..., Any], status: int, body: bytes, kind: str = "application/json") -> str:
    """Return what is said of the error that a provider's package raises for an answer of the provider."""
    async with serving(answering(status, body, kind)) as url, httpx.AsyncClient() as client:
        model = make(url, client)
        try:
            await model.ainvoke("hi")
        except Exception as error:
            found = model_error(error, model)
    assert isinstance(found, ModelError)
    return str(found)


@pytest.mark.parametrize("quoted", [OPENAI_KEY, f"{OPENAI_KEY[:8]}{'*' * 30}{OPENAI_KEY[-4:]}", f"Bearer {OPENAI_KEY}"])
async def test_a_key_that_openai_quotes_is_not_repeated(quoted: str) -> None:
    error = {"message": f"Incorrect API key provided: {quoted}", "type": "invalid_request_error", "code": None}
    said = await error_of(openai_model, 401, json.dumps({"error": error}).encode())
    hidden = quoted.replace(quoted.removeprefix("Bearer "), "***")
    assert said == f"gpt-5: the key is not accepted (HTTP 401): Incorrect API key provided: {hidden}"


async def test_errors_of_anthropic_are_one_line_without_the_key() -> None:
    error = {"type": "authentication_error", "message": f"invalid x-api-key\n{ANTHROPIC_KEY}"}
    said = await error_of(anthropic_model, 401, json.dumps({"type": "error", "error": error}).encode())
    assert said == "claude-test-1: the key is not accepted (HTTP 401): invalid x-api-key ***"
    error = {"type": "overloaded_error", "message": "Overloaded"}
    said = await error_of(anthropic_model, 529, json.dumps({"type": "error", "error": error}).encode())
    assert said == "claude-test-1: the provider failed; try again (HTTP 529): Overloaded"


async def test_the_page_of_a_proxy_is_not_shown() -> None:
    said = await error_of(openai_model, 502, b"<html><body><h1>Bad gateway</h1></body></html>", "text/html")
    assert said == "gpt-5: the provider failed; try again (HTTP 502)"


@pytest.mark.parametrize("make", [openai_model, anthropic_model])
async def test_a_key_with_a_line_end_is_named_as_the_mistake(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    monkeypatch.setitem(globals(), "OPENAI_KEY", f"{OPENAI_KEY}\n")
    monkeypatch.setitem(globals(), "ANTHROPIC_KEY", f"{ANTHROPIC_KEY}\n")
    said = await error_of(make, 200, b"")
    assert "the key is empty or has a line end or another character that no key has" in said
    assert "0123456789" not in said


def test_anthropic_without_any_key_says_which_variable() -> None:
    model = claude()
    error = TypeError("no API key or credentials were provided. Set the ANTHROPIC_API_KEY environment variable")
    assert "ANTHROPIC_API_KEY" in str(model_error(error, model))
    assert isinstance(model_error(error, model), ModelError)


def test_an_error_of_programming_in_a_model_keeps_its_traceback() -> None:
    error = TypeError("unsupported operand")
    assert model_error(error, FakeListChatModel(responses=[])) is error


def test_an_error_of_ours_comes_back_as_it_is() -> None:
    error = MCPMagicError("known")
    assert model_error(error, "m") is error


def test_secrets_in_environment_headers_and_urls_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_TOKEN", "correct horse battery")
    headers = {"Authorization": "Basic dXNlcjpwYXNz", "X-Team": "blue team"}
    model = init_chat_model("openai:gpt-5", api_key="plain-and-odd", default_headers=headers)
    text = "correct horse battery; dXNlcjpwYXNz; plain-and-odd; blue team; https://me:pw@example.com/v1?key=abc"
    found = model_error(ValueError(text), model)
    assert str(found) == "gpt-5: ***; ***; ***; blue team; https://***@example.com/v1?key=***"


@pytest.mark.parametrize(
    "text",
    [
        "key-value pairs are missing",
        "the task-force of sk-learn",
        "a *bold* word and a **very bold** one",
        "MAX_TOKENS",
    ],
)
def test_words_that_only_look_like_keys_stay(text: str) -> None:
    assert without_secrets(text) == text
