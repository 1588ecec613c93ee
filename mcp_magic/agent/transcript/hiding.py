"""A tool may repeat a secret that it was given: what a call's arguments hide is hidden in what it answers, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.core.calltext import hidden_values
from mcp_magic.core.trace.mask import Masker
from mcp_magic.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_types import Tool

__all__ = ["hidden_in", "hider"]

_AS_THEY_ARE = frozenset({"type", "mime_type", "data", "blob", "meta"})
"""Members of content that are not shown as text."""


def hider(definition: Tool | None, *given: Mapping[str, Any]) -> Callable[[str], str] | None:
    """Return what masks in a text the values that arguments hide; None if they hide none.

    What is so short or so common that it would be masked in other words does not count (`core/trace/mask.py`).

    >>> hider(None, {"password": "sesame", "token": "none"})("none came in with sesame")
    'none came in with ***'
    """
    secrets = [value for arguments in given for value in hidden_values(arguments, definition)]
    if not secrets:
        return None
    masker = Masker(())
    masker.learn(secrets)
    return masker.hide


def hidden_in(result: ToolResult, hide: Callable[[str], str]) -> ToolResult:
    """Return a result with its texts and its structured content masked; pictures and sounds stay as they are."""
    return ToolResult(
        _model(result.raw, hide),
        server=result.server,
        tool=result.tool,
        seconds=result.seconds,
        output_schema=result.output_schema,
    )


def _model(model: Any, hide: Callable[[str], str]) -> Any:
    changed = {name: _value(value, hide) for name, value in model if name not in _AS_THEY_ARE}
    return model.model_copy(update=changed)


def _value(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(str(name)): _value(inner, hide) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, hide) for inner in value]
    return _model(value, hide) if hasattr(value, "model_copy") else value
