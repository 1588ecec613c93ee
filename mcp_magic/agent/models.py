"""Chat models: choice by name, binding of tools, and readable errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._text import did_you_mean, listed
from mcp_magic.config.masking import header_secrets, long_enough, mask_url, named_secrets
from mcp_magic.display.text import one_line
from mcp_magic.errors import MCPMagicError, MissingDependencyError, ModelError
from mcp_magic.schema.secrets import MASK
from mcp_magic.telemetry.spans import span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable
    from opentelemetry.trace import Span


# Errors of providers on one line, without keys.
# Their error classes share only the HTTP status, and messages that may quote the key.

LONGEST = 300  # characters of a provider's own message

KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|CREDENTIALS?)\b")
"""The name of an environment variable that holds a key."""

_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.\-]{6,}|\bkey[-_](?=\w*\d)[\w\-]{8,}|\bAIza[\w\-]{20,}"
    r"|(?i:bearer)\s+[\w\-.=+/]{8,}"
    r"|(?<![\w.\-])[\w.\-]*+\*{3,}[\w.*\-]*"  # partly masked by the provider; the rest still shows too much
)
_URL = re.compile(r"https?://[^\s'\"<>]+")

_CODE = re.compile(r"^Error code: \d+(?: - )?")  # how messages of the packages of OpenAI and Anthropic begin

_PROGRAMMING = (TypeError, AttributeError, KeyError, NotImplementedError, AssertionError)

_ADVICE = {
    400: "the provider refused the request",
    401: "the key is not accepted",
    403: "the key may not do this",
    404: "there is no such model, or not for this key",
    408: "the provider did not answer in time",
    413: "the request is too long",
    429: "the rate limit or the quota is used up; wait, or choose another model",
}


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text with masks for texts that look like keys and for the secrets of the environment."""
    known = long_enough(each.strip() for each in secrets)
    known |= {each for each in named_secrets(dict(os.environ)) if len(each) >= 8}
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _KEY.sub(MASK, _URL.sub(lambda match: mask_url(match[0]), text))


def model_error(error: Exception, model: Any) -> Exception:
    """Return the error to raise for an error of a model.

    This package's errors come back as they are. So do programming errors in a model (TypeError and the like): the
    author of the model needs their traceback.
    """
    if isinstance(error, MCPMagicError) or type(error).__module__ == "langgraph.errors":
        return error
    status = _status(error)
    # Anthropic's client raises a TypeError if it has no key.
    if status is None and isinstance(error, _PROGRAMMING) and not KEY_VARIABLE.search(str(error)):
        return error
    said = one_line(without_secrets(_message(error), _secrets_of(model)), LONGEST)
    said = "" if said.startswith("<") else _CODE.sub("", said)  # an HTML page of a proxy says nothing
    what = _advice(error, status) if status is not None else _unreached(error)
    if type(error).__name__ == "ValidationError" and "tool_calls" in said:  # pydantic's, where LangChain reads the turn
        what, said = "it called a tool with arguments that are no object; ask again", ""
    parts = [part for part in (model_name(model), what, said) if part]
    return ModelError(": ".join(parts if len(parts) > 1 else [*parts, type(error).__name__]))


_REFUSED = re.compile(r"\(HTTP (?:400|413|422)[,)]")
_ABOUT_MESSAGES = re.compile(
    r"\bmessages?\b|\binput\[|tool[ _](?:use|call|result|output|message)|\bimages?\b|\bconversation|\bcontext\b"
    r"|\btoo long\b|\bprompt\b|\bJSON\b|surrogate|\butf",
    re.IGNORECASE,
)
_ABOUT_SETTINGS = re.compile(
    r"temperature|top_[pk]\b|max_\w*tokens|reasoning|thinking|tool_choice|\btools\b|function '|\bstop\b|stream|credit"
    r"|billing|quota|\bkey\b|\bmodel\b|\bparameter",
    re.IGNORECASE,
)


def refuses_conversation(error: ModelError) -> bool:
    """Return whether a provider has refused what the conversation holds, and not a setting or the account.

    Providers have no code for it, so their words decide. An error from a cassette has these, too.

    >>> said = "gpt-5: the provider refused the request (HTTP 400): {}"
    >>> refuses_conversation(ModelError(said.format("Invalid 'messages[3]'. Image URLs are only allowed for ...")))
    True
    >>> refuses_conversation(ModelError(said.format("max_tokens is too large")))
    False
    """
    text = str(error)
    if not _REFUSED.search(text):
        return False
    said = _REFUSED.split(text, maxsplit=1)[1]
    return _ABOUT_MESSAGES.search(said) is not None or _ABOUT_SETTINGS.search(said) is None


def _advice(error: Exception, status: int) -> str:
    if "ContextOverflow" in type(error).__name__ or getattr(error, "code", None) == "context_length_exceeded":
        advice = "the thread is too long for this model; begin another with `--thread NAME`"
    else:
        advice = _ADVICE.get(status, "the provider failed; try again" if status >= 500 else "the provider refused")
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    wait = str(headers.get("retry-after") or "")
    after = f", to be tried again in {wait} s" if wait.isdecimal() else ""
    return f"{advice} (HTTP {status}{after})"


def _status(error: Exception) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "code", "status"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None


def _message(error: Exception) -> str:
    """Return the provider's own message; from the `body` of OpenAI and Anthropic the innermost one."""
    body = getattr(error, "body", None)
    while isinstance(body, Mapping):
        inner = body.get("error", body.get("message"))
        if isinstance(inner, Mapping):
            body = inner
            continue
        return str(body.get("message") or inner or error)
    return str(_origin(error))


def _origin(error: BaseException) -> BaseException:
    """Return the deepest cause of an error that has a message: "Connection error." alone explains nothing."""
    found = error
    while error.__cause__ is not None and not isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__
        found = error if str(error) else found
    return found


def _unreached(error: Exception) -> str:
    """Return the kind of a failure without HTTP status, or "" if unknown."""
    origin, where = _origin(error), ""
    with suppress(AttributeError, RuntimeError, ValueError):  # httpx raises a RuntimeError if the error has no request
        parts = urlsplit(str(error.request.url))  # type: ignore[attr-defined]
        where = f" at {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
    names = type(error).__name__, type(origin).__name__
    if "Illegal header value" in str(origin):
        return "the key is empty or has a line end or another character that no key has"
    if any("Timeout" in name for name in names):
        return f"the provider{where} did not answer in time"
    if any("RemoteProtocol" in name or "ReadError" in name for name in names):
        return f"the connection to the provider{where} broke off"
    return f"the provider cannot be reached{where}" if any("Connect" in name for name in names) else ""


def _secrets_of(model: Any) -> Iterator[str]:
    for name in getattr(type(model), "model_fields", ()):
        value = getattr(model, name, None)
        reveal = getattr(value, "get_secret_value", None)
        if reveal is not None:
            yield str(reveal())
        elif isinstance(value, Mapping):
            yield from header_secrets({str(key): each for key, each in value.items() if isinstance(each, str)})


def model_name(model: Any) -> str:
    """Return a model's display name: `"openai:gpt-5"`, `"offline"`, or its kind."""
    if isinstance(model, str):
        return model
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return str(getattr(model, "_llm_type", type(model).__name__))


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
        made: BaseChatModel = init_chat_model(model)
        if variable := _missing_key(made):  # some providers complain only at the first request
            # Anthropic's own client reads these two, but not when LangChain's model hands it an empty key
            token = os.environ.get(variable.replace("API_KEY", "AUTH_TOKEN"))
            headers = os.environ.get(variable.replace("API_KEY", "CUSTOM_HEADERS"), "").lower()
            problem = None if token or "authorization:" in headers else ModelError(_not_set(model, variable))
            made = init_chat_model(model, api_key=token) if token else made
    except Exception as error:
        problem = _not_made(name, error)
    if problem is not None:
        raise problem
    return made


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
    known = _providers()
    near = did_you_mean(provider.lower(), [*known, OFFLINE])
    return ModelError(f"{problem}{near} Write PROVIDER:NAME; providers: {listed(known, 12)}; or {OFFLINE}")


def _providers() -> list[str]:
    common = ["openai", "anthropic", "google_genai", "mistralai", "ollama"]
    try:
        from langchain.chat_models import base
    except ImportError:
        return common
    # Neither name is public: LangChain 1.2 and newer have the first, older versions the second.
    known: Iterable[str] = getattr(base, "_BUILTIN_PROVIDERS", ()) or getattr(base, "_SUPPORTED_PROVIDERS", ())
    return [*common, *sorted(set(known) - set(common))]


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
