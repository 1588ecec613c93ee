"""Inputs for values that the schema names: yes or no, one of several, several of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import UNSET
from mcp_magic.schema.merge import json_equal
from mcp_magic.widgets.inputs import Input, Path, Place, Unread, register
from mcp_magic.widgets.look import default_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic.schema import Field

__all__ = ["BooleanInput", "ChoiceInput", "SeveralInput", "nothing_label", "option_labels"]

MAX_OPTIONS = 2000
"""Values in a menu; time zones are 600. More are typed, and jsonschema says what is close to them."""

MAX_BOXES = 24
"""Values that get a box to tick each; of more of them, one adds those that one wants to a list."""


def nothing_label(field: Field, place: Place) -> str:
    """Return what a menu says while nothing is chosen."""
    if place.required:
        return "choose …"
    stated = default_text(field)
    return f"not sent ({stated})" if stated else "not sent"


def option_labels(labels: Sequence[str]) -> list[tuple[str, int]]:
    """Return a menu's options, each with its number: labels may repeat, and 1 and true are equal to Python.

    >>> option_labels(["a", "b"])
    [('a', 0), ('b', 1)]
    """
    return [(one_line(label, 100) or '""', number) for number, label in enumerate(labels)]


def _find(choices: Sequence[Any], value: Any) -> int | None:
    """The place of a value among the choices: the same one, before one that is equal (1 and 1.0)."""
    equal = [number for number, choice in enumerate(choices) if json_equal(choice, value)]
    same = [number for number in equal if type(choices[number]) is type(value)]
    return next(iter(same or equal), None)


@register("enum", "const", "null", rank=0)
class ChoiceInput(Input):
    """One of several values, null among them where it is allowed."""

    states = True

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        choices = self._choices(field)
        self._values = [UNSET, *(value for value, _ in choices)]
        labels = [nothing_label(field, place), *(label for _, label in choices)]
        self.widget = self.shop.make(
            ipywidgets.Dropdown, "field", options=option_labels(labels), value=0, tooltip=self.hint
        )
        self.widget.observe(self._changed, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether there are no more values than a menu is good for."""
        return len(field.choices) <= MAX_OPTIONS

    @classmethod
    def _choices(cls, field: Field) -> list[tuple[Any, str]]:
        null = field.nullable or field.kind == "null"
        return [*field.choices, (None, "null")] if null else list(field.choices)

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether the schema names the value."""
        choices = [choice for choice, _ in cls._choices(field)]
        found = _find(choices, value)
        # A number that is only equal (1.0 for 1) would come back as the other one.
        return found is not None and repr(choices[found]) == repr(value)

    @classmethod
    def only(cls, field: Field) -> Any:
        """Return the value if there is just one, else UNSET."""
        choices = cls._choices(field)
        return choices[0][0] if len(choices) == 1 else UNSET

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The value chosen."""
        return self._values[self.widget.value]

    def set(self, value: Any) -> None:
        """Choose a value."""
        number = 0 if value is UNSET else _find(self._values[1:], value)
        with self._silently():
            self.widget.value = 0 if value is UNSET or number is None else number + 1


@register("boolean", rank=0)
class BooleanInput(ChoiceInput):
    """Yes, no, or neither: a box to tick has no third state."""

    @classmethod
    def _choices(cls, field: Field) -> list[tuple[Any, str]]:
        choices = [(True, "true"), (False, "false")]
        return [*choices, (None, "null")] if field.nullable else choices


@register("array", rank=10)
class SeveralInput(Input):
    """Several of several values, each with a box to tick; in the order in which they were ticked."""

    blank: ClassVar[Any] = []

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        choices = self._choices(field)
        self._values = [value for value, _ in choices]
        self._ticked: list[int] = []
        self._boxes = [
            self.shop.make(ipywidgets.Checkbox, "check", description=one_line(label, 100), indent=False)
            for _, label in choices
        ]
        for number, box in enumerate(self._boxes):
            box.observe(lambda change, number=number: self._tick(number, change["new"]), "value")
        self.widget = self.shop.make(ipywidgets.HBox, "line", children=self._boxes)

    @staticmethod
    def _choices(field: Field) -> tuple[tuple[Any, str], ...]:
        return field.item.choices if field.item is not None and not field.item.nullable else ()

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether all items are of the same few values."""
        return not field.prefix and 0 < len(cls._choices(field)) <= MAX_BOXES

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a list holds only such values, each once."""
        if not isinstance(value, list) or field.item is None:
            return False
        found = [_find([choice for choice, _ in cls._choices(field)], item) for item in value]
        return len(set(found)) == len(found) and all(ChoiceInput.fits(field.item, item) for item in value)

    def _tick(self, number: int, ticked: bool) -> None:
        if self._quiet:
            return
        self._ticked = [each for each in self._ticked if each != number] + [number] * ticked
        self._changed()

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """The values ticked."""
        return [self._values[number] for number in self._ticked]

    def set(self, value: Any) -> None:
        """Tick the values of a list."""
        found = [_find(self._values, item) for item in (() if value is UNSET else value)]
        self._ticked = [number for number in found if number is not None]
        with self._silently():
            for number, box in enumerate(self._boxes):
                box.value = number in self._ticked
