"""Chat models: choice by name, binding of tools, and the spans of their turns."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.agent.failures import KEY_VARIABLE, model_error, model_name, without_secrets
from mcp_magic.display.text import one_line
from mcp_magic.errors import MCPMagicError, MissingDependencyError, ModelError
from mcp_magic.telemetry.spans import span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable
    from opentelemetry.trace import Span


# Chat models from a name (through LangChain), from an object, or the offline model.

OFFLINE = "offline"  # the name of the model that needs no provider

OFFLINE_NOTE = "The demo model `offline` answers. `%config MCPMagics.model = 'PROVIDER:NAME'` chooses a real one."

_PIP = re.compile(r"pip install (?:-U )?`?([\w.\-\[\]]+)")


def make_model(model: Any) -> BaseChatModel:
    """Return a chat model.

    Args:
        model: `"PROVIDER:NAME"` for LangChain's `init_chat_model` (which knows the provider of well-known names),
            `"offline"` or "" for the model without weights, or a chat model.

    Raises:
        MissingDependencyError: LangChain or the provider's package is not installed; the message has the pip line.
        ModelError: There is no such provider, or its key is not set; the message names the variable.
    """
    from mcp_magic.agent.cassette import stand_in

    if not isinstance(model, str):
        return _checked(model)
    name = model.strip()
    if name in ("", OFFLINE):
        from mcp_magic.agent.offline import OfflineModel

        return OfflineModel()
    problem: MCPMagicError
    try:
        return _provided(name)
    except MCPMagicError as error:
        problem = error
    replayed = stand_in(name)  # a recorded model that cannot be made here is only replayed
    if replayed is None:
        raise problem
    return replayed


def _checked(model: Any) -> BaseChatModel:
    from langchain_core.language_models import BaseChatModel

    if isinstance(model, BaseChatModel):
        return model
    if isinstance(model, type) and issubclass(model, BaseChatModel):
        raise ModelError(f"{model.__name__} is a class of chat models; give an instance: {model.__name__}(...).")
    kind = type(model).__name__
    raise ModelError(
        f"{kind} is not a chat model. Give PROVIDER:NAME, {OFFLINE}, or `--model $name` for a LangChain one."
    )


def _provided(model: str) -> BaseChatModel:
    name = without_secrets(model)  # the user may have put the key in place of the name
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        needs = f"{name} needs LangChain's providers: `pip install 'mcp-magic[models]'`, and the provider's package."
        raise MissingDependencyError(needs) from None
    provider = model.removesuffix(":")
    if provider in _providers():
        raise ModelError(f"{name} is a provider; name one of its models, too: {provider}:NAME")
    problem: Exception | None = None
    try:
        chat_model: BaseChatModel = init_chat_model(model)
        if variable := _missing_key(chat_model):  # some providers complain only at the first request
            # Anthropic's own client reads these two, but not when LangChain's model hands it an empty key
            token = os.environ.get(variable.replace("API_KEY", "AUTH_TOKEN"))
            headers = os.environ.get(variable.replace("API_KEY", "CUSTOM_HEADERS"), "").lower()
            problem = None if token or "authorization:" in headers else ModelError(_not_set(model, variable))
            chat_model = init_chat_model(model, api_key=token) if token else chat_model
    except Exception as error:
        problem = _not_made(name, error)
    if problem is not None:
        raise problem
    return chat_model


def _not_set(name: str, variable: str) -> str:
    return f"{name}: {variable} is not set; set it in the environment before the kernel starts, or in os.environ."


def _not_made(name: str, error: Exception) -> Exception:
    from pydantic import ValidationError

    text = str(error)
    if isinstance(error, ValidationError):  # the first problem, without the values that the whole message quotes
        text = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    text = without_secrets(text)
    package = _PIP.search(text)
    if isinstance(error, ImportError) and package:
        return MissingDependencyError(f"{name}: its package is not installed: `pip install {package[1]}`")
    variables = [variable for variable in KEY_VARIABLE.findall(text) if not os.environ.get(variable)]
    if variables:
        return ModelError(_not_set(name, variables[0]))
    if not isinstance(error, ValueError) or "model provider" not in text:
        return ModelError(f"{name}: {one_line(text, 300) or type(error).__name__}")
    provider, colon, _ = name.partition(":")
    problem = f"there is no provider {provider!r}." if colon and provider else f"{name!r} names no known provider."
    providers = _providers()
    near = did_you_mean(provider.lower(), [*providers, OFFLINE])
    return ModelError(f"{problem}{near} Write PROVIDER:NAME; providers: {join_names(providers, 12)}; or {OFFLINE}")


def _providers() -> list[str]:
    common = ["openai", "anthropic", "google_genai", "mistralai", "ollama"]
    try:
        from langchain.chat_models import base
    except ImportError:
        return common
    # Neither name is public: LangChain 1.2 and newer have the first, older versions the second.
    builtin: Iterable[str] = getattr(base, "_BUILTIN_PROVIDERS", ()) or getattr(base, "_SUPPORTED_PROVIDERS", ())
    return [*common, *sorted(set(builtin) - set(common))]


def _missing_key(model: Any) -> str:
    """Return the environment variable of a model's missing key, or ""."""
    for name, field in type(model).model_fields.items():
        secret = getattr(getattr(model, name, None), "get_secret_value", None)
        if name.endswith("api_key") and "SecretStr" in str(field.annotation) and secret is not None and not secret():
            return str(field.alias or name).upper() if name == "api_key" else name.upper()
    return ""


# Chat models with tools, which not every model of LangChain takes.


def bind_tools(
    model: BaseChatModel, tools: Sequence[dict[str, Any]], *, instead: str = "", **choice: Any
) -> Runnable[Any, Any]:
    """Return a model with tools bound to it; ModelError if its class does not define `bind_tools`."""
    try:
        return model.bind_tools(tools, **choice)
    except NotImplementedError:
        name = type(model).__name__
        problem = f"{name} cannot be given tools (it has no bind_tools); choose a model that can{instead}"
    raise ModelError(problem)


# Spans of an agent: one around a run, one around each turn (OpenTelemetry's conventions for generative AI).
# The calls of a run are its children (`telemetry/spans.py`). Spans hold no text of requests or answers, and no thread
# name, which is made from the request.


def agent_span(asker: str, model: str) -> AbstractContextManager[Span]:
    """Return a span around a run."""
    name = asker.removeprefix("agent").strip()
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": model}
    return span(f"invoke_agent {name}".rstrip(), attributes | ({"gen_ai.agent.name": name} if name else {}))


async def in_turn(model: Any, turn: Callable[[], Awaitable[AIMessage]]) -> AIMessage:
    """Return a turn of a model, in a span with its tokens; ModelError on one line if the provider fails."""
    problem: Exception | None = None
    name = model_name(model)
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}
    try:
        with span(f"chat {name}".rstrip(), attributes, client=True) as chat:
            answer = await turn()
            for kind, count in (answer.usage_metadata or {}).items():
                if kind in ("input_tokens", "output_tokens") and isinstance(count, int):
                    chat.set_attribute(f"gen_ai.usage.{kind}", count)
            return answer
    except Exception as error:
        problem = model_error(error, model)
    raise problem
