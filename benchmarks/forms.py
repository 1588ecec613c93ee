"""How long a form of a hundred fields takes to be made."""

from __future__ import annotations

from typing import Any

from benchmarks.kernels import bare_widgets, widget_types
from benchmarks.timing import Result, compared, pairs

__all__ = ["run"]

GOAL = 1.5

KINDS: tuple[dict[str, Any], ...] = (
    {"type": "string", "description": "Some text", "minLength": 1},
    {"type": "integer", "minimum": 0, "maximum": 100},
    {"type": "number", "default": 0.5},
    {"type": "boolean"},
    {"enum": ["red", "green", "blue"]},
    {"type": "array", "items": {"type": "string"}},
)


def run(*, quick: bool = False) -> list[Result]:
    """Measure from the schema to the last widget, against as many widgets of the same classes."""
    from ipywidgets import Widget

    from mcp_magic.ui.form import Form

    form = Form(hundred_fields())
    types, fields = widget_types(), count(form.root)
    form.close()
    try:
        taken = pairs(
            lambda: Form(hundred_fields()),
            lambda: bare_widgets(types),
            2 if quick else 20,
            settle=Widget.close_all,
        )
    finally:
        Widget.close_all()
    note = f"{fields} fields; against {len(types)} bare widgets"
    return [compared("form of 100 fields in three levels", taken, goal=GOAL, note=note)]


def count(place: Any) -> int:
    """Return the number of values that have a field."""
    inside = [entry.input for _, entry in place.entries()]
    return sum(map(count, inside)) if inside else 1


def hundred_fields() -> dict[str, Any]:
    """Return a schema of 100 values in three levels: 20, in 4 objects 8 each, and in those again 12; all required.

    >>> def count(schema): return sum(count(p) if "properties" in p else 1 for p in schema["properties"].values())
    >>> count(hundred_fields())
    100
    """
    inner = [_object(_values(12)) for _ in range(4)]
    middle = [_object({**_values(8), "more": each}) for each in inner]
    return _object({**_values(20), **{f"part_{number}": each for number, each in enumerate(middle)}})


def _values(count: int) -> dict[str, Any]:
    return {f"value_{number}": KINDS[number % len(KINDS)] for number in range(count)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
