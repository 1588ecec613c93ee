"""What an outside agent is told when the person has changed the arguments of its call: their names, and no value.

A model often reads only the structured content of an answer, so that says it as well, where a client that validates it
by the listed output schema takes another member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent

from mcp_magic.display.text import one_line
from mcp_magic.schema.resolve import json_equal

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMBER = "changed_arguments"  # of the structured content of the answer

MAX_NAMES = 20  # names of arguments in a note


def edited_names(asked: Mapping[str, Any], agreed: Mapping[str, Any] | None) -> list[str]:
    """Return the names of the arguments that the person has changed, added or left out; `agreed` is None for none.

    >>> edited_names({"a": 1, "b": 2}, {"a": 1.5, "c": 3}), edited_names({"a": 1}, None)
    (['a', 'b', 'c'], [])
    """
    if agreed is None:
        return []
    names = [
        name
        for name in {**asked, **agreed}
        if name not in asked or name not in agreed or not json_equal(asked[name], agreed[name])
    ]
    shown = [one_line(name, 100) for name in names[:MAX_NAMES]]
    return [*shown, "others"] if len(names) > MAX_NAMES else shown


def edit_note(names: list[str]) -> str:
    """Return the line that says which arguments were changed."""
    return f"[the person changed the arguments before the call: {', '.join(names)}]"


def with_edit(answer: CallToolResult, names: list[str], *, is_open: bool) -> CallToolResult:
    """Return an answer that says first which arguments were changed; as it is if there are none.

    With `is_open`, the listed output schema lets its structured content have further members.
    """
    if not names:
        return answer
    structured = answer.structured_content
    if is_open and isinstance(structured, dict):
        structured = {MEMBER: names, **structured}
    content = [TextContent(text=edit_note(names)), *answer.content]
    return answer.model_copy(update={"content": content, "structured_content": structured})
