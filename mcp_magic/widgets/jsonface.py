"""The other face of a form: all of it as one JSON object, to read, to paste and to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.schema.jsontext import read_json
from mcp_magic.widgets.inputs import Unread
from mcp_magic.widgets.inputs_text import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.widgets.shop import Shop

__all__ = ["JsonFace"]


class JsonFace:
    """A text area that holds the arguments as JSON.

    Attributes:
        widget: The text area.
    """

    def __init__(self, shop: Shop) -> None:
        self.widget = shop.make(ipywidgets.Textarea, "page", tooltip="the arguments as a JSON object", rows=12)
        self.widget.observe(self._edited, "value")
        self._listener: Callable[[], None] | None = None
        self._quiet = False

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the person changes the text."""
        self._listener = callback

    def write(self, arguments: dict[str, Any]) -> None:
        """Show arguments."""
        self._quiet = True
        self.widget.value = write_json(arguments)
        self._quiet = False

    def read(self, unread: list[Unread]) -> dict[str, Any]:
        """Return the arguments that the text says; if it is no JSON object, say why in `unread`."""
        text = self.widget.value
        try:
            value = read_json(text) if text.strip() else {}
        except ValueError as error:
            unread.append(Unread((), f"expected JSON, got a text that is none: {error}"))
            return {}
        if isinstance(value, dict):
            return value
        unread.append(Unread((), f"expected a JSON object, got {write_json(value, None)[:60]}"))
        return {}

    def _edited(self, _: Any) -> None:
        if not self._quiet and self._listener is not None:
            self._listener()
