"""Secrets in arguments: hidden while a person looks at them, put back where the person left them alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.config.masking import MASK
from mcp_magic.core.calltext import hidden_arguments
from mcp_magic.errors import ArgumentsError
from mcp_magic.results.visible import escaped_json

if TYPE_CHECKING:
    from mcp_magic.core.consent.consent import Request

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


def written_arguments(request: Request, *, indent: int | None = 2) -> str:
    """Return the arguments of a request as JSON to be edited, secrets masked and all characters to be seen."""
    return escaped_json(hidden_arguments(request.arguments, request.definition), indent)


def read_arguments(text: str, request: Request) -> dict[str, Any]:
    """Return the arguments that a person wrote; what is still masked is what it was.

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
    original = dict(request.arguments)
    arguments: dict[str, Any] = restored(edited, hidden_arguments(original, request.definition), original)
    if lost_secret(arguments, original):
        raise ArgumentsError("a hidden value was moved; write it out, or discard the changes")
    if request.definition is not None:
        schema.check_arguments(arguments, request.definition.input_schema)
    return arguments
