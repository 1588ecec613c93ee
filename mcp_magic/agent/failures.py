"""Errors of providers of models, on one line and without keys; and the names of models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.config.masking import header_secrets, long_enough, mask_url, named_secrets
from mcp_magic.display.text import one_line
from mcp_magic.errors import MCPMagicError, ModelError
from mcp_magic.schema.secrets import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    values = long_enough(value.strip() for value in secrets)
    values |= {value for value in named_secrets(dict(os.environ)) if len(value) >= 8}
    for secret in sorted(values, key=len, reverse=True):
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
    message = one_line(without_secrets(_message(error), _secrets_of(model)), LONGEST)
    message = "" if message.startswith("<") else _CODE.sub("", message)  # an HTML page of a proxy says nothing
    advice = _advice(error, status) if status is not None else _unreached(error)
    if (
        type(error).__name__ == "ValidationError" and "tool_calls" in message
    ):  # pydantic's, where LangChain reads the turn
        advice, message = "it called a tool with arguments that are no object; ask again", ""
    parts = [part for part in (model_name(model), advice, message) if part]
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
    reason = _REFUSED.split(text, maxsplit=1)[1]
    return _ABOUT_MESSAGES.search(reason) is not None or _ABOUT_SETTINGS.search(reason) is None


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
    origin = error
    while error.__cause__ is not None and not isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__
        origin = error if str(error) else origin
    return origin


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
            yield from header_secrets({str(key): text for key, text in value.items() if isinstance(text, str)})


def model_name(model: Any) -> str:
    """Return a model's display name: `"openai:gpt-5"`, `"offline"`, or its kind."""
    if isinstance(model, str):
        return model
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return str(getattr(model, "_llm_type", type(model).__name__))
