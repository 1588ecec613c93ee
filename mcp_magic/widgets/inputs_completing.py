"""Input for a text that the server knows how to go on with: arguments of prompts and of resource templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.widgets.inputs import Place, register
from mcp_magic.widgets.inputs_text import TextInput

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["COMPLETES", "CompletingInput"]

COMPLETES = "x-completes"
"""The keyword of our own schemas for a text that the server completes."""

MAX_OFFERED = 100
"""The specification's limit of values in one completion."""


@register("string", rank=40)
class CompletingInput(TextInput):
    """A text with suggestions; others can be typed as well."""

    kind = ipywidgets.Combobox

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget.observe(self._ask, "value")
        self._ask()

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the schema is one of ours."""
        return COMPLETES in field.schema

    def _ask(self, *_: Any) -> None:
        if self.shop.complete is not None:
            self.shop.complete(self.field.name, self.widget.value, self._offer)

    def _offer(self, texts: list[str]) -> None:
        offered = tuple(text for text in texts[:MAX_OFFERED] if one_line(text, 500) == text)
        if self.widget.comm is not None and self.widget.options != offered:
            self.widget.options = offered
