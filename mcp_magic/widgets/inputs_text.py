"""Inputs that a person types into: texts, numbers, JSON."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import ipywidgets

from mcp_magic import schema
from mcp_magic.schema import UNSET
from mcp_magic.schema.jsontext import read_json
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, register
from mcp_magic.widgets.look import placeholder

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["AreaInput", "JsonInput", "NumberInput", "PasswordInput", "TextInput", "write_json"]

LONG = 200
"""Characters that need several lines."""

_LONG_FORMATS = frozenset(("code", "html", "json", "markdown", "multiline", "sql", "text", "textarea", "yaml"))
_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def write_json(value: Any, indent: int | None = 2) -> str:
    """Return a value as JSON, small ones on one line.

    >>> write_json([1, None])
    '[1, null]'
    """
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= 60 or indent is None else json.dumps(value, ensure_ascii=False, indent=indent)


class _Typed(Input):
    """What all of them share: one widget, whose value is a text."""

    kind: ClassVar[type[Any]] = ipywidgets.Text
    layout: ClassVar[str] = "field"

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget = self._make()
        self.widget.observe(self._changed, "value")

    def _make(self) -> Any:
        return self.shop.make(self.kind, self.layout, placeholder=placeholder(self.field), tooltip=self.hint)

    def _write(self, text: str) -> None:
        with self._silently():
            self.widget.value = text


@register("string", rank=0)
class AreaInput(_Typed):
    """A text of several lines."""

    blank = ""
    kind = ipywidgets.Textarea
    layout = "area"

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Any text fits."""
        return isinstance(value, str)

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The text as it is; whether it counts is known to whoever ticks the box."""
        return self.widget.value

    def set(self, value: Any) -> None:
        """Show a text."""
        self._write("" if value is UNSET else value)


@register("string", rank=10)
class TextInput(AreaInput):
    """A text of one line; a browser would take line breaks out of it."""

    kind = ipywidgets.Text
    layout = "field"

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether one line is enough, by its longest value, format, media type or default."""
        longest, default = field.schema.get("maxLength"), field.default
        if isinstance(longest, int | float) and longest > LONG:
            return False
        if field.format in _LONG_FORMATS or str(field.schema.get("contentMediaType", "")).startswith("text/"):
            return False
        return not isinstance(default, str) or cls.fits(field, default)

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a value is a text on one line, and not very long."""
        return isinstance(value, str) and len(value) <= LONG and not _BREAKS.search(value)


@register("string", rank=20)
class PasswordInput(TextInput):
    """A secret, shown as dots."""

    kind = ipywidgets.Password

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the name or the format says that it is a secret."""
        return schema.is_secret(field.name, field)


@register("integer", "number", rank=0)
class NumberInput(_Typed):
    """A number, as text: a browser's number has 53 bits, an integer of JSON as many as it likes."""

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a value is a number; of an integer, one that is not written as 5.0."""
        kinds = int if field.kind == "integer" else int | float
        return isinstance(value, kinds) and not isinstance(value, bool)

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The number; what is no number is returned as typed, and the check says what was expected."""
        text = self.widget.value.strip()
        if not text:
            return UNSET
        plain = _plain_number(text)
        try:
            value = read_json(plain)
        except ValueError:
            return text
        if isinstance(value, float) and self.field.kind == "integer":
            return int(Decimal(plain)) if value.is_integer() else value
        return value if self.fits(self.field, value) else text

    def set(self, value: Any) -> None:
        """Show a number, every digit of it."""
        self._write("" if value is UNSET else json.dumps(value))


def _plain_number(text: str) -> str:
    """Write a number as JSON has it: people type `+1`, `.5`, `007` and `1_000`.

    >>> [_plain_number(text) for text in ("+1", ".5", "-007", "1_000", "2.", "1e5")]
    ['1', '0.5', '-7', '1000', '2.0', '1e5']
    """
    found = re.fullmatch(r"([+-]?)(\d[\d_]*)?(\.\d*)?([eE][+-]?\d+)?", text)
    if found is None or not (found[2] or found[3]):
        return text
    whole = (found[2] or "0").replace("_", "").lstrip("0") or "0"
    fraction = f"{found[3]}0" if found[3] == "." else found[3] or ""
    return f"{'-' if found[1] == '-' else ''}{whole}{fraction}{found[4] or ''}"


@register("any", rank=0)
class JsonInput(_Typed):
    """Any value, as JSON. It stands in wherever a value does not fit the input that was meant for it."""

    states = True
    kind = ipywidgets.Textarea
    layout = "area"

    def _make(self) -> Any:
        hint = placeholder(self.field) if self.field.kind != "any" else ""
        return self.shop.make(
            self.kind,
            self.layout,
            placeholder=f'JSON: 1, "text", true, null, […], {{…}}{hint and f" ({hint})"}',
            tooltip=self.hint,
            rows=3,
        )

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The value; a text that is no JSON is returned as it is, and told of."""
        text = self.widget.value
        if not text.strip():
            return UNSET
        try:
            return read_json(text)
        except ValueError as error:
            hint = "; a text needs quotes" if re.fullmatch(r"[\w .,-]+", text.strip()) else ""
            unread.append(Unread(path, f"expected JSON, got a text that is none: {error}{hint}"))
        return text

    def set(self, value: Any) -> None:
        """Show any value."""
        self._write("" if value is UNSET else write_json(value))
