"""Errors of providers in one line, without keys.

Providers have no errors in common, but their HTTP status, and that their messages may quote the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.config.masking import header_secrets, long_enough, mask_url, named_secrets
from mcp_magic.errors import MCPMagicError, ModelError
from mcp_magic.results.safe import one_line
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["KEY_VARIABLE", "model_error", "model_name", "without_secrets"]

LONGEST = 300
"""Characters of a provider's own message."""

KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|CREDENTIALS?)\b")
"""The name of an environment variable that holds a key."""

_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf)[-_][\w*.\-]{6,}|\bkey[-_](?=\w*\d)[\w\-]{8,}|\bAIza[\w\-]{20,}"
    r"|(?i:bearer)\s+[\w\-.=+/]{8,}"
    r"|(?<![\w.\-])[\w.\-]*+\*{3,}[\w.*\-]*"  # partly hidden by the provider; what it leaves is still too much
)
_URL = re.compile(r"https?://[^\s'\"<>]+")

_CODE = re.compile(r"^Error code: \d+(?: - )?")
"""How the packages of OpenAI and Anthropic begin."""

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
    """Return a text without what looks like a key, and without the secrets of the environment.

    Args:
        text: What a provider said.
        secrets: More that must not show.

    >>> without_secrets("Incorrect API key provided: sk-abc***************xyz.")
    'Incorrect API key provided: ***'
    >>> without_secrets("GET https://example.com/v1?key=abc failed")
    'GET https://example.com/v1?key=*** failed'
    """
    known = long_enough(each.strip() for each in secrets)
    known |= {each for each in named_secrets(dict(os.environ)) if len(each) >= 8}
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _KEY.sub(MASK, _URL.sub(lambda match: mask_url(match[0]), text))


def model_error(error: Exception, model: Any) -> Exception:
    """Return what to raise for an error of a model.

    Ours come back as they are, and so do errors of programming in a model (TypeError and the like): their
    traceback helps whoever writes the model.
    """
    if isinstance(error, MCPMagicError) or type(error).__module__ == "langgraph.errors":
        return error
    status = _status(error)
    # Anthropic's client says with a TypeError that it has no key.
    if status is None and isinstance(error, _PROGRAMMING) and not KEY_VARIABLE.search(str(error)):
        return error
    said = one_line(without_secrets(_message(error), _secrets_of(model)), LONGEST)
    said = "" if said.startswith("<") else _CODE.sub("", said)  # the page of a proxy says nothing either
    what = _advice(error, status) if status is not None else _unreached(error)
    parts = [part for part in (model_name(model), what, said) if part]
    return ModelError(": ".join(parts if len(parts) > 1 else [*parts, type(error).__name__]))


def _advice(error: Exception, status: int) -> str:
    if "ContextOverflow" in type(error).__name__ or getattr(error, "code", None) == "context_length_exceeded":
        advice = "the conversation is too long for this model; begin another with `--thread NAME`"
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
    """Return the provider's own words, of OpenAI's and Anthropic's `body` the innermost message."""
    body = getattr(error, "body", None)
    while isinstance(body, Mapping):
        inner = body.get("error", body.get("message"))
        if isinstance(inner, Mapping):
            body = inner
            continue
        return str(body.get("message") or inner or error)
    return str(_origin(error))


def _origin(error: BaseException) -> BaseException:
    """Return what an error came from, as long as that says something: "Connection error." does not."""
    found = error
    while error.__cause__ is not None and not isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__
        found = error if str(error) else found
    return found


def _unreached(error: Exception) -> str:
    """Return what kind of failure it is that has no HTTP status; "" if nobody knows."""
    origin, where = _origin(error), _place(error)
    names = type(error).__name__, type(origin).__name__
    if "Illegal header value" in str(origin):
        return "the key is empty or has a line end or another character that no key has"
    if any("Timeout" in name for name in names):
        return f"the provider{where} did not answer in time"
    if any("RemoteProtocol" in name or "ReadError" in name for name in names):
        return f"the connection to the provider{where} broke off"
    return f"the provider cannot be reached{where}" if any("Connect" in name for name in names) else ""


def _place(error: Exception) -> str:
    """Return " at http://127.0.0.1:8000" for the request that failed, or ""."""
    try:
        parts = urlsplit(str(error.request.url))  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError, ValueError):  # httpx raises a RuntimeError where it knows no request
        return ""
    return f" at {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def _secrets_of(model: Any) -> Iterator[str]:
    """Yield the keys that a model holds."""
    for name in getattr(type(model), "model_fields", ()):
        value = getattr(model, name, None)
        reveal = getattr(value, "get_secret_value", None)
        if reveal is not None:
            yield str(reveal())
        elif isinstance(value, Mapping):
            yield from header_secrets({str(key): each for key, each in value.items() if isinstance(each, str)})


def model_name(model: Any) -> str:
    """Return what to call a model: `"openai:gpt-5"`, `"offline"`, or its kind.

    >>> model_name("openai:gpt-5")
    'openai:gpt-5'
    """
    if isinstance(model, str):
        return model
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return str(getattr(model, "_llm_type", type(model).__name__))
