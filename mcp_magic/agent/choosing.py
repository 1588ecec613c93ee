"""Which model answers a server: the configured one, unless a hint of the server names another that can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.agent.models import OFFLINE, make_model, model_name
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.language_models import BaseChatModel
    from mcp_types import ModelPreferences

__all__ = ["Choice", "Choosing"]

PROVIDERS = ("openai", "anthropic", "google_genai", "google_vertexai", "mistralai", "groq", "xai", "deepseek", "cohere")
"""Providers that a server may name. Of others a name may be that of a program or of weights to be downloaded."""

PRIORITIES = ("cost", "speed", "intelligence")


class Choice(NamedTuple):
    """What answers.

    Attributes:
        model: The model.
        name: What to call it.
        notes: Which preferences were not followed, and why.
    """

    model: BaseChatModel
    name: str
    notes: tuple[str, ...] = ()


class Choosing:
    """Chooses the model.

    Args:
        configured: Returns the setting: a name or a chat model.
    """

    def __init__(self, configured: Callable[[], Any]) -> None:
        self._configured = configured
        self._made: tuple[Any, BaseChatModel] | None = None
        self._hinted: dict[str, BaseChatModel] = {}

    @property
    def takes_tools(self) -> bool:
        """Whether the configured model can be given tools; of one that is only named it is taken for granted."""
        setting = self._configured()
        if isinstance(setting, str):
            return True
        from langchain_core.language_models import BaseChatModel

        profile = getattr(setting, "profile", None) or {}
        bind = getattr(type(setting), "bind_tools", None)
        return bind not in (None, BaseChatModel.bind_tools) and profile.get("tool_calling") is not False

    def choose(self, preferences: ModelPreferences | None, *, configured_only: bool = False) -> Choice:
        """Return the model that answers.

        Args:
            preferences: What the server would like; of its hints the first that fits counts.
            configured_only: Whether no other model may answer, because nobody is asked.

        Raises:
            ModelError: The configured model cannot be made.
        """
        hints = [hint.name.strip() for hint in (preferences.hints if preferences else None) or () if hint.name]
        notes = _unweighed(preferences)
        setting = self._configured()
        name = _name(setting)
        for hint in filter(None, hints):
            if hint.casefold() in name.casefold():
                return Choice(self._model(setting), name, notes)
            other = None if configured_only else self._other(hint, name)
            if other is not None:
                return Choice(other, one_line(hint, 80), notes)
        shown = ", ".join(repr(one_line(hint, 60)) for hint in hints[:5])
        why = (
            "without asking, only the configured model answers" if configured_only else "no such model can be made here"
        )
        missed = (f"the model it would like ({shown}) does not answer: {why}",) if hints else ()
        return Choice(self._model(setting), name, missed + notes)

    def _model(self, setting: Any) -> BaseChatModel:
        if self._made is None or self._made[0] is not setting:
            self._made = (setting, make_model(setting))
        return _recorded(self._made[1])

    def _other(self, hint: str, configured: str) -> BaseChatModel | None:
        """Return the model that a hint names, if it can be made."""
        provider, colon, _ = hint.partition(":")
        if hint == OFFLINE or (colon and provider not in (*PROVIDERS, configured.partition(":")[0])):
            return None
        try:
            if hint not in self._hinted:
                self._hinted[hint] = make_model(hint)
        except MCPMagicError:
            return None
        return _recorded(self._hinted[hint])


def _recorded(model: BaseChatModel) -> BaseChatModel:
    """Return a model as `make_model` makes it now: a cassette may have come in since it was made."""
    from mcp_magic.agent.cassette import recorded

    return recorded(model)


def _name(setting: Any) -> str:
    return (setting.strip() or OFFLINE) if isinstance(setting, str) else model_name(setting)


def _unweighed(preferences: ModelPreferences | None) -> tuple[str, ...]:
    """Return that priorities choose nothing, if there are any."""
    given = {name: getattr(preferences, f"{name}_priority", None) for name in PRIORITIES}
    said = ", ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)
    return (f"its priorities ({said}) choose nothing: one model is configured",) if said else ()
