"""A prompt's arguments: names and texts, described by the protocol and not by a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic.schema.arguments import parse_arguments
from mcp_magic.schema.check import check_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from mcp_types import PromptArgument

    from mcp_magic.schema.fields import Field

__all__ = ["check_prompt_arguments", "parse_prompt_arguments", "prompt_schema"]


def prompt_schema(arguments: Iterable[PromptArgument]) -> dict[str, Any]:
    """Return the JSON Schema that says what a prompt takes: an object of strings."""
    arguments = list(arguments)
    return {
        "type": "object",
        "properties": {
            a.name: {"type": "string", **({"description": a.description} if a.description else {})} for a in arguments
        },
        "required": [a.name for a in arguments if a.required],
        "additionalProperties": False,
    }


def parse_prompt_arguments(
    items: Sequence[str],
    arguments: Iterable[PromptArgument],
    *,
    evaluate: Callable[[str], Any] | None = None,
    directory: Path | None = None,
) -> dict[str, str]:
    """Turn `name=value` words into a prompt's arguments; Python objects become their text.

    Raises:
        ArgumentsError: A word is no argument of the prompt.
    """
    schema = prompt_schema(arguments)
    return parse_arguments(items, schema, evaluate=evaluate, directory=directory, convert=_as_text)


def _as_text(value: Any, field: Field, path: str) -> Any:
    if field.kind == "object" and isinstance(value, Mapping):  # all arguments at once
        return {str(name): str(each) for name, each in value.items()}
    return str(value)


def check_prompt_arguments(given: Mapping[str, Any], arguments: Iterable[PromptArgument]) -> None:
    """Hold arguments against what the prompt takes.

    Raises:
        ArgumentsError: One is missing, unknown or no text.
    """
    check_arguments(given, prompt_schema(arguments))
