"""What a result must be: checks, and what differs where one fails."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentsError, MCPMagicError
from ..schema import check_arguments
from ..schema.merge import json_equal
from .safe import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .tool import ToolResult

__all__ = ["CheckFailedError", "contains", "equals", "fails", "fits", "succeeds", "within"]

DIFFERENCE = 20
"""Lines of a difference that are shown."""


class CheckFailedError(MCPMagicError, AssertionError):
    """A result is not what it must be; the message has the difference."""


def succeeds(result: ToolResult) -> str:
    """Return "" if a tool reported no error, else what it said."""
    return f"the tool reported an error: {_text(result)}" if result.is_error else ""


def fails(result: ToolResult, text: str) -> str:
    """Return "" if a tool reported an error that has a text in it, else what it did."""
    if not result.is_error:
        return f"no error, it answered {_text(result)}"
    return "" if text in _joined(result) else f"the error has no {text!r} in it: {_text(result)}"


def equals(result: ToolResult, value: Any) -> str:
    """Return "" if a result's data, or its text, is a value, else how they differ."""
    found = value_of(result)
    if json_equal(found, value):
        return ""
    lines = difflib.unified_diff(_pretty(value), _pretty(found), "expected", "got", lineterm="", n=2)
    shown = list(lines)[:DIFFERENCE]
    return "it differs:\n" + "\n".join(f"  {line}" for line in shown)


def contains(result: ToolResult, text: str) -> str:
    """Return "" if a text stands in what a tool said, else what it said."""
    return "" if text in _joined(result) else f"no {text!r} in {_text(result)}"


def fits(result: ToolResult, schema: Mapping[str, Any]) -> str:
    """Return "" if a result's data fits a JSON Schema, else what does not."""
    boxed = {"type": "object", "properties": {"data": schema}, "required": ["data"]}
    if "$defs" in schema or "definitions" in schema:
        boxed |= {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    try:
        check_arguments({"data": value_of(result)}, boxed)
    except ArgumentsError as error:
        return f"it does not fit the schema: {error}"
    return ""


def within(result: ToolResult, milliseconds: float) -> str:
    """Return "" if the call took less than that."""
    taken = result.seconds * 1000
    return "" if taken < milliseconds else f"it took {taken:.0f} ms, and may take {milliseconds:g}"


def value_of(result: ToolResult) -> Any:
    """Return a result's data, or its text where it has none."""
    return result.text if result.data is None else result.data


def _joined(result: ToolResult) -> str:
    return "\n".join(result.texts) or json.dumps(result.data, ensure_ascii=False)


def _text(result: ToolResult) -> str:
    return repr(one_line(_joined(result), 200))


def _pretty(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=repr).splitlines()
