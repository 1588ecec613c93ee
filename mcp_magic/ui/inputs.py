"""The inputs of a form: one class for each kind of field."""

from __future__ import annotations

import datetime
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import ipywidgets

from mcp_magic import schema
from mcp_magic.display.text import one_line
from mcp_magic.schema.convert import UnfitText, base64_text, from_text, read_json
from mcp_magic.schema.fields import MISSING, UNSET, Field, root_field
from mcp_magic.schema.patterns import measure
from mcp_magic.schema.resolve import json_equal
from mcp_magic.schema.validate import Problem
from mcp_magic.ui.widgets import (
    accessible_name,
    default_text,
    label_markup,
    note_markup,
    on_enter,
    placeholder,
    problem_markup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from mcp_magic.ui.widgets import WidgetScope

    Listener = Callable[[], None]

__all__ = ["COMPLETES", "FIELDS", "Entry", "Input", "Path", "Place", "register", "root_input", "write_json"]


# The base class, and the table `FIELDS`: kind of field -> its inputs, the most specific first.
#
# A new input is a class below a line `@register("string")`. A field gets the first input that draws the field and holds
# the value to be shown; if there is none, the value is edited as JSON.

MAX_NODES = 300
"""Largest number of values in an array or object that get a widget each. Larger ones are edited as JSON: a form
with a thousand fields is of no use, and a frontend with ten thousand widgets does not respond."""

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """The position of an input in the form; `depth` is the number of objects and arrays around it."""

    scope: WidgetScope
    on_change: Listener
    on_enter: Listener
    name: str = ""
    required: bool = False
    depth: int = 0

    def inside(self, scope: WidgetScope, name: str, *, required: bool = True) -> Place:
        """Return the position of a value in this one."""
        return replace(self, scope=scope, name=name, required=required, depth=self.depth + 1)


class Input(ABC):
    """One value that the user enters. Subclasses make `self.widget`, and read and write it.

    Attributes:
        blank: The value of an empty input: "" for a text, [] for a list, UNSET if an empty input has no value.
        rank: How specific the input is; see `register`.
        states: Whether the input itself can show "unset" and null; otherwise there are checkboxes for them.
    """

    blank: ClassVar[Any] = UNSET
    states: ClassVar[bool] = False
    rank: ClassVar[int] = 0

    widget: Any
    control: Any = None  # the widget that takes the value, if one alone does

    def __init__(self, field: Field, place: Place) -> None:
        self.field = field
        self.place = place
        self.scope = place.scope
        self._quiet = False

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether the input can be used for a field of its kind."""
        return True

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether the input returns exactly this value after `set(value)`."""
        return True

    @abstractmethod
    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the value, or UNSET; add input that cannot be read to `unread`, and return a stand-in."""

    def get(self) -> Any:
        """Return the JSON value, or UNSET; for input that cannot be read, its text."""
        return self.read((), [])

    @abstractmethod
    def set(self, value: Any) -> None:
        """Show a value for which `fits` is true; UNSET clears the input."""

    def at(self, key: str | int) -> Entry | None:
        """Return the entry of a property or an item, or None."""
        return dict(self.entries()).get(key)

    def entries(self) -> Iterator[tuple[str | int, Entry]]:
        """Yield the entries inside that have widgets, with their keys."""
        yield from ()

    @property
    def hint(self) -> str:
        """The name for screen readers, because they do not connect an input with its label, another widget."""
        required = self.place.required and self.place.name == self.field.name
        return accessible_name(self.field, self.place.name, required=required)

    def mark(self, problem: str) -> None:
        """Mark the control as invalid, and say so in its name; "" unmarks it."""
        if self.control is not None:
            self.control.description = f"{self.hint}; invalid: {one_line(problem, 200)}" if problem else self.hint
            (self.control.add_class if problem else self.control.remove_class)("mcp-invalid")

    def focus(self) -> None:
        """Let the first control have the focus."""
        if self.control is not None:
            self.scope.focus(self.control)
        else:
            for _, entry in self.entries():
                entry.input.focus()
                return

    @property
    def _within(self) -> Place:
        return replace(self.place, on_change=self._on_input)

    @contextmanager
    def _silently(self) -> Iterator[None]:
        """Change widgets without calling the listener."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _control(self, kind: type[Any], layout: str = "field", **traits: Any) -> Any:
        """Return a widget with its name, whose `value` the user changes."""
        self.control = self.scope.make(kind, layout, name=self.hint, **traits)
        self.control.observe(self._on_input, "value")
        if issubclass(kind, ipywidgets.Text):
            on_enter(self.control, self.place.on_enter)
        return self.control

    def _menu_of(self, labels: Sequence[str]) -> Any:
        """Return a menu with an option for no choice, numbered 0, and one for each label."""
        first = "not sent"
        if self.place.required:
            first = "choose …"
        elif stated := default_text(self.field):
            first = f"not sent ({stated})"
        # Each option has a number as value: labels may repeat, and in Python 1 equals True.
        options = [(one_line(label, 100) or '""', number) for number, label in enumerate([first, *labels])]
        self.control = self.scope.make(ipywidgets.Dropdown, "field", options=options, value=0, name=self.hint)
        return self.control

    def _show_text(self, text: str) -> None:
        with self._silently():
            self.widget.value = text

    def _on_input(self, *_: Any) -> None:
        """Call the listener, unless the change is our own."""
        if not self._quiet:
            self.place.on_change()


FIELDS: dict[str, list[type[Input]]] = {}  # kind of field -> inputs for it, in the order of trial
I = TypeVar("I", bound=type[Input])  # noqa: E741


def register(*kinds: str, rank: int = 100) -> Callable[[I], I]:
    """Register an input for fields of these kinds; higher ranks are tried first, then later registrations.

    The ranks of the inputs here are below 100.
    """

    def add(cls: I) -> I:
        cls.rank = rank
        for kind in kinds:
            FIELDS[kind] = sorted([cls, *FIELDS.get(kind, ())], key=lambda input_class: -input_class.rank)
        return cls

    return add


def choose(field: Field, value: Any = UNSET) -> type[Input]:
    """Return the input class that draws a field and holds a value exactly."""
    for cls in FIELDS.get(field.kind, ()):
        if cls.draws(field) and (value is UNSET or cls.fits(field, value)):
            return cls
    return fallback()


def fallback() -> type[Input]:
    """Return the input class that holds any value: the least specific one for "any"."""
    return FIELDS["any"][-1]


# Inputs for values that the schema lists: booleans, one of several, several of several.

MAX_OPTIONS = 2000
"""Options in a menu; there are 600 time zones. Longer lists are typed, and jsonschema suggests the nearest value."""

MAX_BOXES = 24  # values with a checkbox each; more of them are added to a list one by one


def _find(choices: Sequence[Any], value: Any) -> int | None:
    """Return the position of a value among the choices: of an equal one of its type, else of any equal one (1, 1.0)."""
    equal = [number for number, choice in enumerate(choices) if json_equal(choice, value)]
    same = [number for number in equal if type(choices[number]) is type(value)]
    return next(iter(same or equal), None)


@register("enum", "const", "null", "boolean", rank=0)
class ChoiceInput(Input):
    """A menu of values, including null if it is allowed. A checkbox has no third state for an unset boolean."""

    states = True

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        choices = self._choices(field)
        self._values = [UNSET, *(value for value, _ in choices)]
        self.widget = self._menu_of([label for _, label in choices])
        self.widget.observe(self._on_input, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        return len(field.choices) <= MAX_OPTIONS

    @classmethod
    def _choices(cls, field: Field) -> list[tuple[Any, str]]:
        choices = [(True, "true"), (False, "false")] if field.kind == "boolean" else list(field.choices)
        return [*choices, (None, "null")] if field.nullable or field.kind == "null" else choices

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        choices = [choice for choice, _ in cls._choices(field)]
        position = _find(choices, value)
        # a merely equal number (1.0 for 1) would come back as the other one
        return position is not None and repr(choices[position]) == repr(value)

    @classmethod
    def only(cls, field: Field) -> Any:
        """Return the value if there is exactly one, else UNSET."""
        choices = cls._choices(field)
        return choices[0][0] if len(choices) == 1 else UNSET

    def read(self, path: Path, unread: list[Problem]) -> Any:
        return self._values[self.widget.value]

    def set(self, value: Any) -> None:
        number = None if value is UNSET else _find(self._values[1:], value)
        with self._silently():
            self.widget.value = 0 if number is None else number + 1


@register("array", rank=10)
class SeveralInput(Input):
    """A checkbox for each of several values; the list has them in the order in which they were ticked."""

    blank: ClassVar[Any] = []

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        choices = self._choices(field)
        self._values = [value for value, _ in choices]
        self._ticked: list[int] = []
        self._boxes = [
            self.scope.make(ipywidgets.Checkbox, "check", description=one_line(label, 100), indent=False)
            for _, label in choices
        ]
        for number, box in enumerate(self._boxes):
            box.observe(lambda change, number=number: self._tick(number, change["new"]), "value")
        self.widget = self.scope.make(ipywidgets.HBox, "line", children=self._boxes)

    @staticmethod
    def _choices(field: Field) -> tuple[tuple[Any, str], ...]:
        return field.item.choices if field.item is not None and not field.item.nullable else ()

    @classmethod
    def draws(cls, field: Field) -> bool:
        return not field.prefix and 0 < len(cls._choices(field)) <= MAX_BOXES

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a list holds only such values, each once."""
        if not isinstance(value, list) or field.item is None:
            return False
        positions = [_find([choice for choice, _ in cls._choices(field)], item) for item in value]
        return len(set(positions)) == len(positions) and all(ChoiceInput.fits(field.item, item) for item in value)

    def _tick(self, number: int, ticked: bool) -> None:
        if not self._quiet:
            self._ticked = [before for before in self._ticked if before != number] + [number] * ticked
            self._on_input()

    def read(self, path: Path, unread: list[Problem]) -> Any:
        return [self._values[number] for number in self._ticked]

    def set(self, value: Any) -> None:
        positions = [_find(self._values, item) for item in (() if value is UNSET else value)]
        self._ticked = [number for number in positions if number is not None]
        with self._silently():
            for number, box in enumerate(self._boxes):
                box.value = number in self._ticked


# An entry: a label, an input and a problem.
#
# An entry has three states: nothing is sent, null is sent, a value is sent. It replaces its input when the present one
# cannot hold a value, so that every JSON value can be shown anywhere.

_VALUE = object()


class Entry:
    """One value of a form: its label, its input and its problem.

    The name is its label unless it gets none. Items of a list and values of a map are required. `touched` says whether
    the user has changed anything in it.
    """

    def __init__(self, field: Field, place: Place, *, has_label: bool = True) -> None:
        self.field = field
        self.touched = False
        self._scope = place.scope.part()
        self._on_change = place.on_change
        self._place = replace(place, scope=self._scope, on_change=self._edited)
        self._state: Any = UNSET
        self._problem: Any = None
        self._ticking = False
        self._send: Any = None
        self._null: Any = None
        self._head: Any = None
        self._label: Any = None
        if has_label and place.name:
            label = label_markup(field, place.name, required=place.required)
            self._label = self._scope.make(ipywidgets.HTML, "label", value=label)
        self.widget = self._scope.make(ipywidgets.VBox, "row")
        self.input = self._fill(choose(field))
        self.restore()

    @property
    def initial(self) -> Any:
        """The initial value: for a required entry its default, or the only possible value; else UNSET."""
        if not self._place.required:
            return UNSET
        if self.field.usable_default is not MISSING:
            return self.field.usable_default
        if isinstance(self.input, ChoiceInput):
            return self.input.only(self.field)
        return self.input.blank if self.input.blank in ([], {}) else UNSET

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the value, or UNSET; input that cannot be read is added to `unread`."""
        if self._state is UNSET or self._state is None:
            return self._state
        return self.input.read(path, unread)

    def get(self) -> Any:
        """Return the JSON value, or UNSET."""
        return self.read((), [])

    def set(self, value: Any) -> None:
        """Show any JSON value; UNSET clears the entry."""
        usual = choose(self.field)
        null = value is None and self.field.nullable and not usual.states
        large = measure(value)[0] > MAX_NODES
        self._use(usual if null else fallback() if large else choose(self.field, value))
        if null:
            self._become(None)
            return
        self.input.set(value)
        self._become(UNSET if value is UNSET else _VALUE)

    def restore(self) -> None:
        """Restore the initial value."""
        self._hold(self.initial)

    def give(self) -> None:
        """Set the default, or an empty value, and open the entry, because the user asked for it."""
        default = self.field.usable_default
        self._hold(self.input.blank if default is MISSING or default is None else default)
        if isinstance(self.input, ObjectInput):
            self.input.reveal()

    def _hold(self, value: Any) -> None:
        self.set(value)
        if value == {}:
            self.input.set(UNSET)  # an empty object gets the initial values of its required entries

    def show_problem(self, text: str) -> None:
        """Show a problem below the input; "" removes it."""
        markup = problem_markup(text)
        if self._problem is None and markup:
            self._problem = self._scope.make(ipywidgets.HTML, "label")
        if self._problem is not None and self._problem.value != markup:
            self._problem.value = markup
            self.input.mark(text)
            self._arrange()

    def at(self, key: str | int) -> Entry | None:
        """Return the entry inside, if it has widgets."""
        return self.input.at(key)

    def close(self) -> None:
        """Close the widgets."""
        self._scope.close()

    def _fill(self, cls: type[Input]) -> Input:
        return cls(self.field, replace(self._place, scope=self._scope.part()))

    def _use(self, cls: type[Input]) -> None:
        """Replace the input, unless it is of this class already."""
        if type(self.input) is cls:
            return
        old = self.input
        self.input = self._fill(cls)
        self._arrange()
        old.scope.close()

    def _arrange(self) -> None:
        """Arrange the widgets for the present state."""
        head = [part for part in (self._label, *self._boxes()) if part is not None]
        if len(head) > 1:
            if self._head is None:
                self._head = self._scope.make(ipywidgets.HBox, "line")
            self._head.children = tuple(head)
            head = [self._head]
        body = [] if self._state is None else [self.input.widget]
        problem = [self._problem] if self._problem is not None and self._problem.value else []
        self.widget.children = (*head, *body, *problem)

    def _boxes(self) -> list[Any]:
        """Return the checkboxes: "send", if an empty input does not mean "unset", and "null", if allowed."""
        name = one_line(self._place.name, 40) or "it"
        if self.input.states:
            return []
        if self._send is None and self.input.blank is not UNSET and not self._place.required:
            self._send = self._box(f"send {name}", "leave it out, or send it even when it is empty", self._on_send)
        if self._null is None and self.field.nullable:
            self._null = self._box(f"{name} is null", "send null", self._on_null)
        self._ticking = True
        for box, value in ((self._send, self._state is not UNSET), (self._null, self._state is None)):
            if box is not None:
                box.value = value
        self._ticking = False
        return [self._send if self.input.blank is not UNSET else None, self._null]

    def _box(self, text: str, tooltip: str, on_tick: Callable[[Any], None]) -> Any:
        box = self._scope.make(ipywidgets.Checkbox, "check", description=text, tooltip=tooltip, indent=False)
        box.observe(on_tick, "value")
        return box

    def _on_send(self, change: Any) -> None:
        if self._ticking:
            return
        if change["new"]:
            self.give()
        else:
            self.set(UNSET)
        self._notify()

    def _on_null(self, change: Any) -> None:
        if self._ticking:
            return
        empty = UNSET if self.input.blank is UNSET or not self._place.required else _VALUE
        self._become(None if change["new"] else empty)
        self._notify()

    def _edited(self) -> None:
        """Update the state after a change of the input."""
        empty = (self.input.blank is UNSET or self.input.states) and self.input.get() is UNSET
        if empty:
            self._use(choose(self.field))  # JSON may have stood in for the former value
        self._become(UNSET if empty else _VALUE)
        self._notify()

    def _become(self, state: Any) -> None:
        self._state = state
        self._arrange()

    def _notify(self) -> None:
        self.touched = True
        self._on_change()


# Additional names in an object, as `additionalProperties` and `patternProperties` allow.

_ANYTHING = root_field(True)


class _Row(NamedTuple):
    """A value that can be removed, with its widgets; an item of a list also has its number."""

    entry: Entry
    widget: Any
    scope: WidgetScope
    number: Any = None
    remove: Any = None


class Names:
    """Additional names with a value each, to add and to remove; `taken` are the names that the schema lists."""

    def __init__(self, field: Field, place: Place, reserved: Collection[str]) -> None:
        self.field = field
        self._place = place
        self._scope = scope = place.scope
        self._taken = reserved
        self._rows: dict[str, _Row] = {}
        self._name = scope.make(
            ipywidgets.Text, "", placeholder="another name", name=f"a name to add to {place.name}".removesuffix(" to ")
        )
        on_enter(self._name, self._added)
        add = scope.button("Add", "add this name", self._added, icon="plus")
        self._problem = scope.make(ipywidgets.HTML, "label")
        self._line = scope.make(ipywidgets.HBox, "line", children=(self._name, add, self._problem))
        self.widget = scope.make(ipywidgets.VBox, "", children=(self._line,))
        self._name.observe(lambda _: self._complain(""), "value")

    def entries(self) -> Iterator[tuple[str, Entry]]:
        for name, row in self._rows.items():
            yield name, row.entry

    def set(self, values: Mapping[str, Any]) -> None:
        for name in [name for name in self._rows if name not in values]:
            self._drop(name)
        for name, value in values.items():
            if name not in self._rows:
                self._put(name)
            self._rows[name].entry.set(value)
        self._arrange()

    def _added(self) -> None:
        name = self._name.value
        if not name or name in self._rows or name in self._taken:
            self._complain(f"{name!r} is there already" if name else "write a name first")
            return
        entry = self._put(name)
        entry.give()
        self._name.value = ""
        self._arrange()
        self._place.on_change()
        entry.input.focus()

    def _complain(self, text: str) -> None:
        self._problem.value = problem_markup(text)

    def _put(self, name: str) -> Entry:
        field = self.field.at(name) or Field(name, True, resolver=_ANYTHING.resolver)
        scope = self._scope.part()
        entry = Entry(field, self._place.inside(scope, name or '""'))
        tooltip = f"remove {one_line(name, 60)}"
        remove = scope.button("", tooltip, lambda: self._removed(name), "small", icon="trash")
        widget = scope.make(ipywidgets.HBox, "", children=(remove, entry.widget))
        self._rows[name] = _Row(entry, widget, scope)
        return entry

    def _removed(self, name: str) -> None:
        self._drop(name)
        self._place.on_change()

    def _drop(self, name: str) -> None:
        row = self._rows.pop(name)
        self._arrange()  # first, because a box that holds a closed widget cannot be sent
        row.scope.close()

    def _arrange(self) -> None:
        self.widget.children = (*(row.widget for row in self._rows.values()), self._line)


# Arrays: items to add and remove.


@register("array", rank=0)
class ArrayInput(Input):
    """A list of any items."""

    blank: ClassVar[Any] = []

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._rows: list[_Row] = []
        self._add = self.scope.button("Add", f"add a {self._item}", self._added, icon="plus")
        self._none = self.scope.make(ipywidgets.HTML, "label", value=note_markup("no items"))
        self.widget = self.scope.make(ipywidgets.VBox, "inside", children=(self._none, self._add))

    @property
    def _item(self) -> str:
        return f"{one_line(self.place.name, 40)} item" if self.place.name else "item"

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        return isinstance(value, list)

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the items; an empty item counts as null and is added to `unread`."""
        values = []
        for index, row in enumerate(self._rows):
            value = row.entry.read((*path, index), unread)
            if value is UNSET:
                unread.append(Problem((*path, index), f"expected {row.entry.field.type_text}, got nothing"))
            values.append(None if value is UNSET else value)
        return values

    def set(self, value: Any) -> None:
        values = [] if value is UNSET else value
        dropped, self._rows = self._rows[len(values) :], self._rows[: len(values)]
        for index in range(len(self._rows), len(values)):
            self._rows.append(self._make(index))
        for row, item in zip(self._rows, values, strict=True):
            row.entry.set(item)
        self._arrange()
        for row in dropped:
            row.scope.close()

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for index, row in enumerate(self._rows):
            yield index, row.entry

    def _added(self) -> None:
        row = self._make(len(self._rows))
        row.entry.give()
        self._rows.append(row)
        self._arrange()
        self._on_input()
        row.entry.input.focus()

    def _removed(self, row: _Row) -> None:
        self._rows.remove(row)
        if self.field.prefix:  # the items of a tuple get the fields of their new positions
            self.set([remaining.entry.get() for remaining in self._rows])
        self._arrange()
        row.scope.close()
        self._on_input()

    def _make(self, index: int) -> _Row:
        field = self.field.at(index) or Field("", True, resolver=_ANYTHING.resolver)
        scope = self.scope.part()
        entry = Entry(field, self._within.inside(scope, self._item), has_label=False)
        number = scope.make(ipywidgets.HTML, "label")
        remove = scope.button("", "", lambda: self._removed(row), "small", icon="trash")
        row = _Row(
            entry, scope.make(ipywidgets.HBox, "", children=(number, remove, entry.widget)), scope, number, remove
        )
        return row

    def _arrange(self) -> None:
        for index, row in enumerate(self._rows):
            row.number.value = note_markup(f"{index}")
            row.remove.tooltip = f"remove {self._item} {index}"
        widgets = tuple(row.widget for row in self._rows) or (self._none,)
        self.widget.children = (*widgets, self._add)


# Typed inputs: texts, numbers, JSON.

LONG = 200  # characters from which a text gets several lines

_LONG_FORMATS = frozenset(("code", "html", "json", "markdown", "multiline", "sql", "text", "textarea", "yaml"))
_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def write_json(value: Any, indent: int | None = 2) -> str:
    """Return a value as JSON, on one line if it is short.

    >>> write_json([1, None])
    '[1, null]'
    """
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= 60 or indent is None else json.dumps(value, ensure_ascii=False, indent=indent)


class TextInput(Input):
    """The base of the inputs for texts: one line, without suggestions."""

    blank = ""
    kind: ClassVar[type[Any]] = ipywidgets.Text
    layout: ClassVar[str] = "field"

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget = self._control(self.kind, self.layout, placeholder=placeholder(field))

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a value is a text on one line, and not very long; browsers remove line breaks from it."""
        return isinstance(value, str) and len(value) <= LONG and not _BREAKS.search(value)

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the text as it is; the entry's checkbox decides whether an empty one is sent."""
        return self.widget.value

    def set(self, value: Any) -> None:
        self._show_text("" if value is UNSET else value)


@register("string", rank=0)
class AreaInput(TextInput):
    """A text of several lines."""

    kind = ipywidgets.Textarea
    layout = "area"

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        return isinstance(value, str)


@register("string", rank=10)
class LineInput(TextInput):
    """A text of one line."""

    @classmethod
    def draws(cls, field: Field) -> bool:
        """Whether one line is enough, judging by maximum length, format, media type and default."""
        longest, default = field.schema.get("maxLength"), field.default
        if isinstance(longest, int | float) and longest > LONG:
            return False
        if field.format in _LONG_FORMATS or str(field.schema.get("contentMediaType", "")).startswith("text/"):
            return False
        return not isinstance(default, str) or cls.fits(field, default)


@register("string", rank=20)
class PasswordInput(TextInput):
    """A secret, shown as dots."""

    kind = ipywidgets.Password

    @classmethod
    def draws(cls, field: Field) -> bool:
        return schema.is_secret(field.name, field)


@register("integer", "number", "union", rank=10)
class NumberInput(Input):
    """A number, typed as text: browsers have 53 bits for a number, JSON integers have no limit."""

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget = self._control(ipywidgets.Text, placeholder=placeholder(field))

    @classmethod
    def draws(cls, field: Field) -> bool:
        return is_number(field)

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a value is a number; for an integer field, one that is not written as 5.0."""
        kinds = int if field.kind == "integer" else int | float
        return isinstance(value, kinds) and not isinstance(value, bool)

    def read(self, path: Path, unread: list[Problem]) -> Any:
        text = self.widget.value.strip()
        return read_number(text, self.field) if text else UNSET

    def set(self, value: Any) -> None:
        self._show_text("" if value is UNSET else json.dumps(value))


def is_number(field: Field) -> bool:
    return field.kind in ("integer", "number") or (bool(field.variants) and all(map(is_number, field.variants)))


def read_number(text: str, field: Field) -> Any:
    """Return the number that a text states, read as on a line; other text is returned as it is, for validation."""
    for reading in (field, _NUMBER):
        with suppress(UnfitText):
            return from_text(text, reading)
    return text


_NUMBER = root_field({"type": "number"})


@register("array", rank=20)
class NumbersInput(Input):
    """A list of numbers, typed as `3, 4, 5`."""

    blank: ClassVar[Any] = []

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget = self._control(ipywidgets.Text, placeholder=placeholder(field) or "numbers, as in 3, 4, 5")

    @classmethod
    def draws(cls, field: Field) -> bool:
        item = field.item
        return item is not None and not field.prefix and not item.nullable and is_number(item)

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        return isinstance(value, list) and all(NumberInput.fits(field.item or field, item) for item in value)

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the numbers; a comma at the end is allowed, and so are the brackets of JSON."""
        text = self.widget.value.strip().removeprefix("[").removesuffix("]").strip().removesuffix(",")
        item = self.field.item or self.field
        return [read_number(part.strip(), item) for part in text.split(",")] if text else []

    def set(self, value: Any) -> None:
        self._show_text(", ".join(map(json.dumps, () if value is UNSET else value)))


@register("any", rank=0)
class JsonInput(Input):
    """Any value as JSON. It stands in for an input that cannot hold the value."""

    states = True

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        hint = placeholder(field) if field.kind != "any" else ""
        example = f'JSON: 1, "text", true, null, […], {{…}}{hint and f" ({hint})"}'
        layout = "area" if self.place.depth else "page"
        self.widget = self._control(
            ipywidgets.Textarea, layout, placeholder=example, rows=3 if self.place.depth else 12
        )

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the value; text that is no JSON is returned as it is and added to `unread`."""
        text = self.widget.value
        if not text.strip():
            return UNSET
        try:
            return read_json(text)
        except ValueError as error:
            hint = "; a text needs quotes" if re.fullmatch(r"[\w .,-]+", text.strip()) else ""
            unread.append(Problem(path, f"expected JSON, got other text: {error}{hint}"))
        return text

    def set(self, value: Any) -> None:
        self._show_text("" if value is UNSET else write_json(value))


# Text with completions from the server: arguments of prompts and of resource templates.

COMPLETES = "x-completes"  # the keyword that marks such a text in our own schemas
MAX_OFFERED = 100  # the largest number of values in one completion (specification, "Completion")


@register("string", rank=40)
class CompletingInput(TextInput):
    """A text with suggestions; other texts can be typed too."""

    kind = ipywidgets.Combobox

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self.widget.observe(self._ask, "value")
        self._ask()

    @classmethod
    def draws(cls, field: Field) -> bool:
        return COMPLETES in field.schema

    def _ask(self, *_: Any) -> None:
        if self.scope.complete is not None:
            self.scope.complete(self.field.name, self.widget.value, self._offer)

    def _offer(self, texts: list[str]) -> None:
        offered = tuple(text for text in texts[:MAX_OFFERED] if one_line(text, 500) == text)
        if self.widget.comm is not None and self.widget.options != offered:
            self.widget.options = offered


# Bytes, sent as base64: a file.

MAX_SHOWN = 200  # characters of base64 shown in the text field; for longer ones only their number is shown


@register("string", rank=50)
class FileInput(Input):
    """A file to upload, or base64 to paste."""

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._value: Any = UNSET
        media = field.schema.get("contentMediaType")
        self.upload = self.scope.make(
            ipywidgets.FileUpload, "button", accept=media if isinstance(media, str) else "", multiple=False
        )
        self.control = self.scope.make(ipywidgets.Text, "field", placeholder="or paste base64", name=self.hint)
        self.text = self.control
        self.note = self.scope.make(ipywidgets.HTML, "label")
        self.widget = self.scope.make(ipywidgets.HBox, "line", children=(self.upload, self.text, self.note))
        self.upload.observe(self._uploaded, "value")
        self.text.observe(self._typed, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        return field.is_base64

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether the value is text on one line; base64 in e-mail has line breaks."""
        return isinstance(value, str) and "\n" not in value

    def _uploaded(self, _: Any) -> None:
        if self._quiet or not self.upload.value:
            return
        file = self.upload.value[0]
        data = bytes(file["content"])
        self._value = base64_text(data, self.field)
        self._show("", f"{one_line(str(file['name']), 80)}, {len(data):,} bytes")
        self._on_input()

    def _typed(self, change: Any) -> None:
        if self._quiet:
            return
        self._value = change["new"].strip() or UNSET
        self._show(change["new"], "")
        self._on_input()

    def _show(self, text: str, note: str) -> None:
        with self._silently():
            self.text.value = text
            self.note.value = note_markup(note) if note else ""
            if not note:
                self.upload.value = ()

    def read(self, path: Path, unread: list[Problem]) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        """Show the base64, or its length if it is long."""
        self._value = value
        if value is UNSET or len(value) <= MAX_SHOWN:
            self._show("" if value is UNSET else value, "")
        else:
            self._show("", f"{len(value):,} characters of base64")


# Objects: the properties that the schema lists, and additional names.

MAX_OPEN = 4  # levels of objects that start open: a schema that requires itself is endless


@register("object", rank=0)
class ObjectInput(Input):
    """An object; a nested one starts folded, and is built when it is first opened."""

    blank: ClassVar[Any] = {}

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._entries: dict[str, Entry] = {}
        self._names: Names | None = None
        self._built: Any = None
        self._held: Any = UNSET
        self._toggle: Any = None
        if place.depth == 0:
            self.widget = self._build()
            return
        self._toggle = self.scope.make(
            ipywidgets.ToggleButton, "button", description=self._summary(), icon="caret-right"
        )
        self._toggle.observe(self._toggled, "value")
        self.widget = self.scope.make(ipywidgets.VBox, "", children=(self._toggle,))
        if place.required and place.depth < MAX_OPEN and not self.scope.crowded:
            self.reveal()

    @classmethod
    def draws(cls, field: Field) -> bool:
        return len(field.children) <= MAX_NODES

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        return isinstance(value, dict)

    def _summary(self) -> str:
        count = len(self.field.children)
        inside = f"{count} field{'s' if count != 1 else ''}" if count else "names and values"
        return f"{inside} of {one_line(self.place.name, 60)}" if self.place.name else inside

    def _toggled(self, change: Any) -> None:
        """Show or hide the entries; they are built when first shown."""
        inside = (self._build(),) if change["new"] else ()
        self._toggle.icon = "caret-down" if change["new"] else "caret-right"
        self.widget.children = (self._toggle, *inside)

    def reveal(self) -> None:
        if self._toggle is not None:
            self._toggle.value = True

    def _build(self) -> Any:
        if self._built is not None:
            return self._built
        for child in self.field.children:
            place = self._within.inside(self.scope, child.name, required=child.required)
            self._entries[child.name] = Entry(child, place)
        widgets = [entry.widget for entry in self._entries.values()]
        # The user can add names to the arguments themselves only if the schema explicitly allows it.
        allows = self.field.schema.get("additionalProperties") or self.field.schema.get("patternProperties")
        if self.field.is_open and (self.place.depth or allows):
            widgets.append(self._others().widget)
        layout = "inside" if self.place.depth else ""
        self._built = self.scope.make(ipywidgets.VBox, layout, children=tuple(widgets))
        draft, self._held = self._held, UNSET
        if draft:
            self._write(draft)
        return self._built

    def _others(self) -> Names:
        if self._names is None:
            self._names = Names(self.field, self._within, self._entries)
        return self._names

    def read(self, path: Path, unread: list[Problem]) -> Any:
        if self._built is None:
            return {} if self._held is UNSET else dict(self._held)
        value = {}
        for name, entry in self.entries():
            inner = entry.read((*path, name), unread)
            if inner is not UNSET:
                value[name] = inner
        return value

    def set(self, value: Any) -> None:
        """Show an object; a folded one stays folded if there is nothing to see in it."""
        if self._built is None and (self.scope.crowded or not (value and isinstance(value, dict))):
            self._held = value
            return
        self.reveal()
        self._write({} if value is UNSET else value, fresh=value is UNSET)

    def _write(self, value: dict[str, Any], *, fresh: bool = False) -> None:
        for name, entry in self._entries.items():
            if fresh:
                entry.restore()
            else:
                entry.set(value.get(name, UNSET))
        others = {name: inner for name, inner in value.items() if name not in self._entries}
        if not others and self._names is None:
            return
        names = self._others()
        names.set(others)
        if names.widget not in self._built.children:
            self._built.children = (*self._built.children, names.widget)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        yield from self._entries.items()
        if self._names is not None:
            yield from self._names.entries()


# Values of one of several types.


@register("union", rank=0)
class UnionInput(Input):
    """A menu of variants, and the input for the chosen one."""

    states = True

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._inner: Entry | None = None
        self._menu = self._menu_of([*_labels(field.variants), *(["null"] if field.nullable else [])])
        self._menu.observe(self._on_choice, "value")
        self.widget = self.scope.make(ipywidgets.VBox, "", children=(self._menu,))

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        return (value is None and field.nullable) or _variant(field, value) is not None

    def _on_choice(self, change: Any) -> None:
        if self._quiet:
            return
        self._show(change["new"])
        if self._inner is not None:
            self._inner.restore()
            if self._inner.get() is UNSET:
                self._inner.give()
        self._on_input()

    def _show(self, number: int) -> None:
        """Show the input of a variant; it is built only now, because variants may contain the union itself."""
        old, self._inner = self._inner, None
        if 0 < number <= len(self.field.variants):
            variant = self.field.variants[number - 1]
            place = self._within.inside(self.scope, self.place.name)
            self._inner = Entry(variant, place, has_label=False)
        self.widget.children = (self._menu, *([self._inner.widget] if self._inner else []))
        if old is not None:
            old.close()

    def read(self, path: Path, unread: list[Problem]) -> Any:
        if self._inner is None:
            return UNSET if self._menu.value == 0 else None
        value = self._inner.read(path, unread)
        if value is UNSET:
            unread.append(Problem(path, f"expected {self._inner.field.type_text}, got nothing"))
        return value

    def set(self, value: Any) -> None:
        """Show a value in the first variant that fits it."""
        if value is UNSET or (value is None and self.field.nullable):
            number = 0 if value is UNSET else len(self.field.variants) + 1
        else:
            number = (_variant(self.field, value) or 0) + 1
        if self._inner is None or self._menu.value != number:
            with self._silently():
                self._menu.value = number
            self._show(number)
        if self._inner is not None:
            self._inner.set(value)

    def entries(self) -> Iterator[tuple[str | int, Entry]]:
        if self._inner is not None:
            yield from self._inner.input.entries()


def _variant(field: Field, value: Any) -> int | None:
    """Return the first variant whose shape matches a value, else the first whose input holds it."""
    matches = [number for number, variant in enumerate(field.variants) if variant.takes(value)]
    drawn = (
        number
        for number, variant in enumerate(field.variants)
        if variant.kind == "any" or choose(variant, value) is not fallback()
    )
    return next(iter(matches), next(drawn, None))


def _labels(variants: tuple[Field, ...]) -> list[str]:
    """Return a label for each variant: its title or type; if that repeats, also its constants, properties or type."""
    labels = [one_line(variant.title or variant.type_text, 60) for variant in variants]
    counts = Counter(labels)
    for number, variant in enumerate(variants):
        if counts[labels[number]] > 1:
            fixed = [f"{child.name} {child.choices[0][1]}" for child in variant.children if len(child.choices) == 1]
            details = fixed or [child.name for child in variant.children] or [variant.type_text]
            labels[number] = one_line(f"{labels[number]}: {', '.join(details)}", 80)
    return labels


# Dates and times, with the browser's own pickers.
#
# A picker holds a moment, the schema asks for a text, and one moment has several texts (`12:00` and `12:00:00`). So the
# text is kept until the user picks another moment.


_PICKERS: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "date": (ipywidgets.DatePicker, datetime.date, {}),
    "time": (ipywidgets.TimePicker, datetime.time, {"step": 1}),
    "date-time": (ipywidgets.DatetimePicker, datetime.datetime, {}),
}
"""Format -> its picker, the class of its moments, and the picker's traits."""


@register("string", rank=30)
class DateInput(Input):
    """A date, a time of day without a time zone, or a moment with one, picked in the browser's time zone."""

    def __init__(self, field: Field, place: Place) -> None:
        super().__init__(field, place)
        self._text: Any = UNSET
        kind, _, traits = _PICKERS[field.format]
        self.widget = self.control = self.scope.make(kind, "field", name=self.hint, **traits)
        self.widget.observe(self._picked, "value")

    @classmethod
    def draws(cls, field: Field) -> bool:
        return field.format in _PICKERS

    @classmethod
    def fits(cls, field: Field, value: Any) -> bool:
        """Whether a text is such a moment, and the picker would show the same one."""
        return isinstance(value, str) and _moment(field.format, value) is not None

    def _picked(self, change: Any) -> None:
        if not self._quiet:
            moment = change["new"]
            self._text = UNSET if moment is None else moment.isoformat()
            self._on_input()

    def read(self, path: Path, unread: list[Problem]) -> Any:
        """Return the moment in ISO 8601 (RFC 3339), or UNSET."""
        return self._text

    def set(self, value: Any) -> None:
        self._text = value
        with self._silently():
            self.widget.value = None if value is UNSET else _moment(self.field.format, value)


def _moment(format_: str, text: str) -> Any:
    """Return the moment that a text states, or None if the picker cannot show it."""
    try:
        moment = _PICKERS[format_][1].fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    if format_ == "time" and moment.tzinfo is not None:
        return None
    # RFC 3339 requires a time zone; near the first and the last year a moment in another one may be out of range
    if format_ == "date-time" and (moment.tzinfo is None or not 1 < moment.year < 9999):
        return None
    return moment


# The input for a whole form.


def root_input(field: Field, scope: WidgetScope, on_change: Listener, on_enter: Listener) -> Input:
    """Return the input for the root; a schema that describes no object is edited as JSON."""
    place = Place(scope.part(), on_change, on_enter, required=True)
    if field.kind in ("object", "any") and ObjectInput.draws(field):
        return ObjectInput(field, place)
    if field.kind == "union" and any(variant.kind == "object" for variant in field.variants):
        return UnionInput(field, place)
    return fallback()(field, place)
