"""The tables of a declaration that are not servers: consent rules, agents, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.config.fields import FieldError, kind_of, reject_unknown
from mcp_magic.config.masking import Concealed
from mcp_magic.errors import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["check_agent", "check_consent", "check_setting"]

_DECISIONS = ("allow", "deny", "ask")
_TYPE_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _one_of(*valid: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value in valid), f"one of {', '.join(valid)}"


_TEXT = (_is_text, "text")
_TEXTS = (_is_texts, "a list of text")
_AGENT_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": _TEXT,
    "servers": _TEXTS,
    "tools": (lambda value: _is_text(value) or _is_texts(value), "text or a list of text"),
    "approve": _one_of("ask", "auto", "readonly", "deny"),
    "system": _TEXT,
    "prompt": _TEXT,
    "max_steps": (lambda value: is_a(value, int) and value > 0, "an integer above 0"),
    "thread": _TEXT,
    "show": _one_of("full", "answer", "none"),
}
_RULE_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_DECISIONS, (_is_text, 'a tool or pattern, for example "weather:*"')),
    "arguments": (lambda value: isinstance(value, dict), "a table"),
    "reason": _TEXT,
    "exact": (lambda value: isinstance(value, bool), "true or false"),
    "definition": _TEXT,
    "servers": _TEXTS,
    "identities": (lambda value: isinstance(value, dict) and all(map(_is_text, value.values())), "a table of text"),
}


def is_a(value: Any, wanted: type) -> bool:
    """Tell whether a TOML value is of a type, as people mean it: true is no integer, 1 is a number.

    >>> is_a(True, int), is_a(1, float), is_a(1, int)
    (False, True, True)
    """
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)


def check_consent(rule: Any, number: int) -> None:
    """Raise FieldError unless a consent rule is one."""
    _check(rule, _RULE_KEYS, "consent", number)
    decisions = [key for key in _DECISIONS if key in rule]
    if len(decisions) != 1:
        got = " and ".join(decisions) or "none"
        raise FieldError(f"needs exactly one of allow, deny, ask; it has {got}.", "consent", number)


def check_agent(agent: Any, name: str) -> None:
    """Raise FieldError unless an agent's table is one."""
    _check(agent, _AGENT_KEYS, "agents", name)


def check_setting(name: str, value: Any, known: Mapping[str, type] | None) -> None:
    """Raise FieldError unless a setting exists and has its type."""
    if known is None:
        return
    if name not in known:
        hint = did_you_mean(name, known) or f" Valid: {listed(known)}."
        raise FieldError(f"unknown setting.{hint}", "settings", name)
    if not is_a(value, known[name]):
        wanted = _TYPE_NAMES.get(known[name], known[name].__name__)
        raise FieldError(f"expected {wanted}, got {_shown(value)}.", "settings", name)


def _check(table: Any, keys: Mapping[str, tuple[Callable[[Any], bool], str]], *path: str | int) -> None:
    if not isinstance(table, dict):
        raise FieldError(f"expected a table, got {kind_of(table)}.", *path)
    reject_unknown(table, keys, *path)
    for key, value in table.items():
        fits, wanted = keys[key]
        if not fits(value):
            raise FieldError(f"expected {wanted}, got {_shown(value)}.", *path, key)


def _shown(value: Any) -> str:
    """Show a value in a message."""
    value = Concealed(value) if isinstance(value, str) else value
    text = repr(value).replace("True", "true").replace("False", "false") if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
