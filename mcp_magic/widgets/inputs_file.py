"""Input for bytes that travel as base64: a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET
from mcp_magic.schema.binary import base64_text
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, register
from mcp_magic.widgets.look import note_markup

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["FileInput"]

MAX_SHOWN = 200
"""Characters of base64 that are shown in the text field; more of them are only counted."""


@register("string", rank=50)
class FileInput(Input):
    """A file to upload, or its base64 to paste."""

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._value: Any = UNSET
        media = field.schema.get("contentMediaType")
        self.upload = self.shop.make(
            ipywidgets.FileUpload, "button", accept=media if isinstance(media, str) else "", multiple=False
        )
        self.text = self.shop.make(ipywidgets.Text, "field", placeholder="or paste base64", tooltip=self.hint)
        self.note = self.shop.make(ipywidgets.HTML, "label")
        self.widget = self.shop.make(ipywidgets.HBox, "line", children=(self.upload, self.text, self.note))
        self.upload.observe(self._uploaded, "value")
        self.text.observe(self._typed, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the text is base64."""
        return field.is_base64

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether the value is text on one line (base64 of e-mails has breaks)."""
        return isinstance(value, str) and "\n" not in value

    def _uploaded(self, _: Any) -> None:
        if self._quiet or not self.upload.value:
            return
        file = self.upload.value[0]
        data = bytes(file["content"])
        self._value = base64_text(data, self.field)
        self._show("", f"{one_line(str(file['name']), 80)}, {len(data):,} bytes")
        self._changed()

    def _typed(self, change: Any) -> None:
        if self._quiet:
            return
        self._value = change["new"].strip() or UNSET
        self._show(change["new"], "")
        self._changed()

    def _show(self, text: str, note: str) -> None:
        with self._silently():
            self.text.value = text
            self.note.value = note_markup(note) if note else ""
            if not note:
                self.upload.value = ()

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The base64."""
        return self._value

    def set(self, value: Any) -> None:
        """Show base64, or how much of it there is."""
        self._value = value
        if value is UNSET or len(value) <= MAX_SHOWN:
            self._show("" if value is UNSET else value, "")
        else:
            self._show("", f"{len(value):,} characters of base64")
