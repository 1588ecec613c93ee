"""Inputs for dates and times: the browser's own pickers.

A picker holds a moment and a schema asks for a text, and one moment has many texts (`12:00` and `12:00:00`). So
the text is kept until the person picks another moment.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import ipywidgets

from mcp_magic.schema import UNSET
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, register

if TYPE_CHECKING:
    from mcp_magic.schema import Field

__all__ = ["DateInput", "DateTimeInput", "TimeInput"]


class _When(Input):
    """A moment of one format."""

    format: ClassVar[str]
    kind: ClassVar[type[Any]]
    moment: ClassVar[type[Any]]
    traits: ClassVar[dict[str, Any]] = {}

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._text: Any = UNSET
        self.widget = self.shop.make(self.kind, "field", tooltip=self.hint, **self.traits)
        self.widget.observe(self._picked, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the field has the format."""
        return field.format == cls.format

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a text is such a moment, and the picker would show the same one."""
        return isinstance(value, str) and cls._moment(value) is not None

    @classmethod
    def _moment(cls, text: str) -> Any:
        try:
            return cls._shown(cls.moment.fromisoformat(text))
        except (ValueError, OverflowError):
            return None

    @classmethod
    def _shown(cls, moment: Any) -> Any:
        """The moment as the picker shows it, or None if it cannot."""
        return moment

    def _picked(self, change: Any) -> None:
        if not self._quiet:
            moment = change["new"]
            self._text = UNSET if moment is None else moment.isoformat()
            self._changed()

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The moment as ISO 8601 (RFC 3339) writes it."""
        return self._text

    def set(self, value: Any) -> None:
        """Show the moment that a text stands for."""
        self._text = value
        with self._silently():
            self.widget.value = None if value is UNSET else self._moment(value)


@register("string", rank=30)
class DateInput(_When):
    """A day."""

    format = "date"
    kind = ipywidgets.DatePicker
    moment = datetime.date


@register("string", rank=30)
class TimeInput(_When):
    """A time of day, without a time zone."""

    format = "time"
    kind = ipywidgets.TimePicker
    moment = datetime.time
    traits: ClassVar[dict[str, Any]] = {"step": 1}

    @classmethod
    def _shown(cls, moment: Any) -> Any:
        return moment if moment.tzinfo is None else None


@register("string", rank=30)
class DateTimeInput(_When):
    """A moment with its time zone, as RFC 3339 asks for; picked in the zone of the browser."""

    format = "date-time"
    kind = ipywidgets.DatetimePicker
    moment = datetime.datetime

    @classmethod
    def _shown(cls, moment: Any) -> Any:
        # Near the first and the last year, the moment in another zone is no date any more.
        return moment if moment.tzinfo is not None and 1 < moment.year < 9999 else None
