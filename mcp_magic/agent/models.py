"""Chat models: by name through LangChain, an object as it is, or the one that needs no weights."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.modelerrors import KEY_VARIABLE, model_name, without_secrets
from mcp_magic.errors import MCPMagicError, MissingDependencyError, ModelError, did_you_mean, listed
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_core.language_models import BaseChatModel

__all__ = ["OFFLINE", "OFFLINE_NOTE", "make_model", "model_name"]

OFFLINE = "offline"
"""The name of the model that needs no provider."""

OFFLINE_NOTE = (
    "answered by `offline`, a model without weights made for tutorials and tests: it understands requests that name or "
    "clearly describe a tool. `%config MCPMagics.model = 'PROVIDER:NAME'` chooses another."
)

_PIP = re.compile(r"pip install (?:-U )?`?([\w.\-\[\]]+)")


def make_model(model: Any) -> BaseChatModel:
    """Return a chat model.

    Args:
        model: `"PROVIDER:NAME"` for LangChain's `init_chat_model` (which knows the provider of well-known names),
            `"offline"` or "" for the model without weights, or a chat model. With a cassette in, it is recorded or
            replayed.

    Raises:
        MissingDependencyError: LangChain or the provider's package is not installed; the message has the pip line.
        ModelError: There is no such provider, or its key is not set; the message names the variable.
    """
    from mcp_magic.agent.cassette import recorded

    if not isinstance(model, str):
        return recorded(_checked(model))
    if model.strip() in ("", OFFLINE):
        from mcp_magic.agent.offline import OfflineModel

        return recorded(OfflineModel())
    return recorded(_provided_or_replayed(model.strip()))


def _checked(model: Any) -> BaseChatModel:
    from langchain_core.language_models import BaseChatModel

    if isinstance(model, BaseChatModel):
        return model
    if isinstance(model, type) and issubclass(model, BaseChatModel):
        raise ModelError(f"{model.__name__} is a class of chat models; give one that is made: {model.__name__}(...).")
    kind = type(model).__name__
    raise ModelError(f"{kind} is no chat model. Give PROVIDER:NAME, {OFFLINE}, or `--model $name` for a LangChain one.")


def _provided_or_replayed(model: str) -> BaseChatModel:
    """Make a model; one that cannot be made, but was recorded, is only replayed."""
    problem: MCPMagicError
    try:
        return _provided(model)
    except MCPMagicError as error:
        problem = error
    from mcp_magic.agent.cassette import stand_in

    if (replayed := stand_in(model)) is None:
        raise problem
    return replayed


def _provided(model: str) -> BaseChatModel:
    name = without_secrets(model)  # somebody may have put the key where the name should be
    init_chat_model = _initializer()
    if init_chat_model is None:
        raise MissingDependencyError(
            f"{name} needs LangChain's providers: `pip install 'mcp-magic[models]'`, and the provider's package."
        )
    provider = model.removesuffix(":")
    if provider in _providers():
        raise ModelError(f"{name} is a provider; name one of its models, too: {provider}:NAME")
    problem: Exception
    try:
        return _with_key(init_chat_model, model)
    except ModelError as error:
        problem = error
    except Exception as error:
        problem = _not_made(name, error)
    raise problem


def _initializer() -> Callable[..., Any] | None:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        return None
    return init_chat_model


def _with_key(init_chat_model: Callable[..., Any], model: str) -> BaseChatModel:
    """Make a model, and see to it that it has a key: some providers complain at the first request only.

    Raises:
        ModelError: It has none.
    """
    made: BaseChatModel = init_chat_model(model)
    variable = _missing_key(made)
    if not variable:
        return made
    # Anthropic's own client reads these two; LangChain's model, which hands it an empty key, keeps it from that.
    token = os.environ.get(variable.replace("API_KEY", "AUTH_TOKEN"))
    if token:
        authorized: BaseChatModel = init_chat_model(model, api_key=token)
        return authorized
    if "authorization:" in os.environ.get(variable.replace("API_KEY", "CUSTOM_HEADERS"), "").lower():
        return made
    raise ModelError(_not_set(model, variable))


def _not_set(name: str, variable: str) -> str:
    return f"{name}: {variable} is not set; set it in the environment before the kernel starts, or in os.environ."


def _not_made(name: str, error: Exception) -> Exception:
    text = without_secrets(_words(error))
    package = _PIP.search(text)
    if isinstance(error, ImportError) and package:
        return MissingDependencyError(f"{name}: its package is not installed: `pip install {package[1]}`")
    variables = [variable for variable in KEY_VARIABLE.findall(text) if not os.environ.get(variable)]
    if variables:
        return ModelError(_not_set(name, variables[0]))
    if isinstance(error, ValueError) and "model provider" in text:
        return ModelError(_no_provider(name))
    return ModelError(f"{name}: {one_line(text, 300) or type(error).__name__}")


def _no_provider(name: str) -> str:
    provider, colon, _ = name.partition(":")
    known = [*_providers(), OFFLINE]
    wanted = f"there is no provider {provider!r}." if colon and provider else f"{name!r} names no known provider."
    near = did_you_mean(provider.lower(), known)
    return f"{wanted}{near} Write PROVIDER:NAME; providers: {listed(known[:-1], 12)}; or {OFFLINE}"


def _words(error: Exception) -> str:
    """Return an error's words; of a validation error the first complaint, without the values that it quotes."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return str(error)


def _providers() -> list[str]:
    """Return the providers that LangChain knows, the common ones first."""
    common = ["openai", "anthropic", "google_genai", "mistralai", "ollama"]
    try:
        from langchain.chat_models import base
    except ImportError:
        return common
    # Neither is a public name: the first is that of LangChain 1.2 and newer, the second that of before.
    known: Iterable[str] = getattr(base, "_BUILTIN_PROVIDERS", ()) or getattr(base, "_SUPPORTED_PROVIDERS", ())
    return [*common, *sorted(set(known) - set(common))]


def _missing_key(model: Any) -> str:
    """Return the variable of a key that a model has not got, or ""."""
    for name, field in type(model).model_fields.items():
        secret = getattr(getattr(model, name, None), "get_secret_value", None)
        if name.endswith("api_key") and "SecretStr" in str(field.annotation) and secret is not None and not secret():
            return str(field.alias or name).upper() if name == "api_key" else name.upper()
    return ""
