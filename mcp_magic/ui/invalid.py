"""Marks the inputs of a form that do not fit for screen readers: a script of ours sets `aria-invalid` in the page.

Forms need none of it, so without anywidget they are the same but for the attribute.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_magic.ui.widgets import WidgetScope

__all__ = ["invalid_marker"]


def invalid_marker(scope: WidgetScope) -> list[Any]:
    """Return the widget that does it for the box that holds it, and shows nothing; [] without anywidget."""
    try:
        from anywidget import AnyWidget
    except ImportError:
        return []
    return [scope.make(_marker_of(AnyWidget), _dom_classes=("mcp-unseen",))]


@cache
def _marker_of(base: type[Any]) -> type[Any]:
    script = Path(__file__).with_name("invalid.js").read_text(encoding="utf-8")
    return type("InvalidMarker", (base,), {"_esm": script})
