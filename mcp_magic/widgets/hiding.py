"""Secrets in arguments: hidden while a person looks at them, put back where the person left them alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.calltext import hidden_arguments
from mcp_magic.errors import ArgumentsError
from mcp_magic.results.visible import escaped_json
from mcp_magic.schema.secretnames import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import Tool

__all__ = ["hidden_arguments", "lost_secret", "read_arguments", "restored", "written_arguments"]


def restored(edited: Any, shown: Any, original: Any) -> Any:
    """Return what a person made of `shown`, with what was masked in it as it is in `original`.

    Lists whose length changed are left as they are: nobody knows which item is which.

    >>> restored({"token": "***", "n": 2}, {"token": "***", "n": 1}, {"token": "abc", "n": 1})
    {'token': 'abc', 'n': 2}
    """
    if edited == MASK and shown == MASK:
        return original
    if isinstance(edited, dict) and isinstance(shown, dict) and isinstance(original, dict):
        return {name: restored(value, shown.get(name), original.get(name)) for name, value in edited.items()}
    if isinstance(edited, list) and isinstance(shown, list) and len(edited) == len(shown):
        return [restored(*three) for three in zip(edited, shown, original, strict=True)]
    return edited


def lost_secret(value: Any, original: Any) -> bool:
    """Whether a mask is left in `value` that was no value of `original`: it would be sent as it stands.

    >>> lost_secret([{"token": "***"}], [{"token": "a"}, {"token": "b"}])
    True
    """
    return _has_mask(value) and not _has_mask(original)


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_mask, value.values()))
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return bool(value == MASK)


def written_arguments(arguments: Mapping[str, Any], definition: Tool | None, *, indent: int | None = 2) -> str:
    """Return arguments as JSON to be edited: secrets are masked, and all characters can be seen."""
    return escaped_json(hidden_arguments(arguments, definition), indent)


def read_arguments(text: str, original: Mapping[str, Any], definition: Tool | None) -> dict[str, Any]:
    """Return the arguments that a person wrote; a value that is still masked is the original one.

    Args:
        text: What `written_arguments` returned, edited.
        original: The arguments before.
        definition: The tool, or None.

    Raises:
        ArgumentsError: They are no JSON object, or do not fit the tool's schema.
    """
    problem = ""
    try:
        edited = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"this is no JSON: {error}"
    else:
        if not isinstance(edited, dict):
            problem = f"the arguments are a JSON object, not {type(edited).__name__}"
    if problem:
        raise ArgumentsError(problem)
    original = dict(original)
    arguments: dict[str, Any] = restored(edited, hidden_arguments(original, definition), original)
    if lost_secret(arguments, original):
        raise ArgumentsError("a hidden value was moved; write it out, or discard the changes")
    if definition is not None:
        schema.check_arguments(arguments, definition.input_schema)
    return arguments
