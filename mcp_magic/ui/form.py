"""A form for a JSON Schema: its fields, its JSON, and the problems beside the fields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.display.document import joined, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.schema.convert import read_json
from mcp_magic.schema.fields import UNSET, root_field
from mcp_magic.schema.validate import Problem, argument_problems, path_text, together
from mcp_magic.ui import inputs
from mcp_magic.ui.inputs import write_json
from mcp_magic.ui.widgets import FORM_STYLE, WidgetScope, note_markup, problem_markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_magic.ui.inputs import Entry, Path

__all__ = ["Form", "JsonEditor"]


def find_problems(arguments: Mapping[str, Any], of: Mapping[str, Any], unread: list[Problem]) -> list[Problem]:
    """Return all problems in arguments, missing values first, in the words of the command line.

    Args:
        arguments: The arguments as read.
        of: The schema; pass the same object each time, because its compiled form is cached for it.
        unread: Inputs that could not be read; the errors about their stand-ins are dropped.
    """
    unreadable = {each.path for each in unread}
    found = [replace(each, text=f"{path_text(each.path) or 'arguments'}: {each.text}") for each in unread]
    found += [problem for problem in argument_problems(arguments, of) if problem.path not in unreadable]
    return sorted(dict.fromkeys(found), key=lambda problem: not problem.missing)


# The form's JSON view: all arguments as one JSON object, to read, paste and edit.


class JsonEditor:
    """A text area with the arguments as JSON; calls `on_change` whenever the user changes the text."""

    def __init__(self, shop: WidgetScope, on_change: Callable[[], None]) -> None:
        self.widget = shop.make(ipywidgets.Textarea, "page", tooltip="the arguments as a JSON object", rows=12)
        self.widget.observe(self._edited, "value")
        self._on_change = on_change
        self._quiet = False

    def write(self, arguments: dict[str, Any]) -> None:
        """Show arguments as JSON."""
        self._quiet = True
        self.widget.value = write_json(arguments)
        self._quiet = False

    def read(self, unread: list[Problem]) -> dict[str, Any]:
        """Return the arguments in the text; if it is no JSON object, add the problem to `unread`."""
        text = self.widget.value
        try:
            value = read_json(text) if text.strip() else {}
        except ValueError as error:
            unread.append(Problem((), f"expected JSON, got other text: {error}"))
            return {}
        if isinstance(value, dict):
            return value
        unread.append(Problem((), f"expected a JSON object, got {write_json(value, None)[:60]}"))
        return {}

    def _edited(self, _: Any) -> None:
        if not self._quiet:
            self._on_change()


# The form itself.

_TO_JSON = "Edit as JSON", "all arguments as JSON"
_TO_FIELDS = "Back to the fields", "each argument in its own field"


class Form:
    """A form that a JSON Schema describes.

    Args:
        schema: The schema of an object, such as a tool's input schema.
        title: A heading.
        description: A line below the heading.
        shop: Makes the widgets; by default one of its own. A caller that passes one must place `toggle`.

    Attributes:
        widget: The whole form.
        toggle: The button that switches to JSON.
        root: The input of the whole object.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        title: str = "",
        description: str = "",
        shop: WidgetScope | None = None,
    ) -> None:
        self.schema = schema
        self._shop = shop.part() if shop is not None else WidgetScope()
        self._listeners: list[Callable[[], None]] = []
        self._submitted: list[Callable[[dict[str, Any]], None]] = []
        self._all_told = False
        self._turned_back = False
        self._marked: list[Entry] = []
        self.root = inputs.root_input(root_field(schema), self._shop, self._changed)
        self._json = JsonEditor(self._shop, self._changed)
        text, tooltip = _TO_JSON
        self.toggle = self._shop.make(ipywidgets.ToggleButton, "button", description=text, icon="code", tooltip=tooltip)
        self.toggle.observe(self._turned, "value")
        self._rest = self._shop.make(ipywidgets.HTML, "label")
        self._nothing = self._shop.make(ipywidgets.HTML, "label", value=note_markup("It takes no arguments."))
        self._body = self._shop.make(ipywidgets.VBox, "")
        head = self._shop.make(ipywidgets.HTML, "label", value=_heading(title, description))
        parts = (head, self._body, self._rest, *([self.toggle] if shop is None else []))
        self.widget = self._shop.make(ipywidgets.VBox, "form", children=parts)
        self._show_face()  # without a check: nothing was entered yet, and the first check imports jsonschema

    # Value

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values.

        Raises:
            ArgumentsError: They do not fit the schema; the message has at most three problems.
        """
        value, problems = self._read()
        if problems:
            raise together([problem.text for problem in problems])
        return value

    @property
    def draft(self) -> dict[str, Any]:
        """The arguments as far as they can be read, valid or not."""
        return self._read()[0]

    @property
    def problems(self) -> list[str]:
        """All problems, one line each, in the words of the command line."""
        return [problem.text for problem in self._read()[1]]

    def set_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Show arguments, valid or not; fields without an argument become empty."""
        value = dict(arguments)
        self.root.set(value)
        self._json.write(value)
        self._show_face()
        self._all_told = True
        self._check()

    def clear(self) -> None:
        """Restore the initial state."""
        self.root.set(UNSET)
        self._json.write(self._from_fields())
        self._show_face()
        self._all_told = False
        self._check()

    @property
    def as_json(self) -> bool:
        """Whether the form shows its JSON view."""
        return bool(self.toggle.value)

    @as_json.setter
    def as_json(self, value: bool) -> None:
        self.toggle.value = value

    # Events

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the user changes something."""
        self._listeners.append(callback)

    def on_submit(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call `callback(arguments)` when the form is submitted and valid."""
        self._submitted.append(callback)

    def submit(self) -> bool:
        """Pass the arguments to the `on_submit` callbacks; if they are invalid, show all problems and return False."""
        self._all_told = True
        if self._check():
            return False
        arguments = self.arguments
        for callback in self._submitted:
            callback(arguments)
        return True

    def close(self) -> None:
        """Close all widgets."""
        self._shop.close()

    def _read(self) -> tuple[dict[str, Any], list[Problem]]:
        unread: list[Problem] = []
        value = self._json.read(unread) if self.as_json else self.root.read((), unread)
        if not isinstance(value, dict):
            unread += [] if value is UNSET or unread else [Problem((), "expected a JSON object")]
            value = {}
        if any(not each.path for each in unread):
            return value, find_problems({}, {}, unread)
        return value, find_problems(value, self.schema, unread)

    def _changed(self) -> None:
        self._check()
        for listener in self._listeners:
            listener()

    def _turned(self, change: Any) -> None:
        """Switch between fields and JSON; text that is no JSON object cannot be shown as fields."""
        if change["new"]:
            if self._turned_back:
                return
            self._json.write(self._from_fields())
        else:
            unread: list[Problem] = []
            value = self._json.read(unread)
            if unread:
                self._turned_back = True
                self.toggle.value = True
                self._turned_back = False
                return
            if repr(value) != repr(self._from_fields()):
                self.root.set(value)
        self._show_face()
        self._check()

    def _from_fields(self) -> dict[str, Any]:
        value = self.root.get()
        return value if isinstance(value, dict) else {}

    def _show_face(self) -> None:
        """Show the fields or the JSON; the button names the other view."""
        fields = self.root.widget if getattr(self.root.widget, "children", True) else self._nothing
        self._body.children = (self._json.widget if self.as_json else fields,)
        self.toggle.description, self.toggle.tooltip = _TO_FIELDS if self.as_json else _TO_JSON

    # Problems

    def _check(self) -> bool:
        """Show the problems beside their fields, the rest at the bottom; return whether there are any."""
        problems = self._read()[1]
        beside: dict[int, tuple[Entry, list[str]]] = {}
        rest: list[str] = []
        for problem in problems:
            entry = None if self.as_json else self._entry(problem.path)
            if entry is None:
                if self._all_told or not problem.missing:
                    rest.append(problem.text)
            elif self._all_told or (entry.touched and not problem.missing):
                beside.setdefault(id(entry), (entry, []))[1].append(problem.text)
        for entry in self._marked:
            if id(entry) not in beside:
                entry.show_problem("")
        for entry, texts in beside.values():
            entry.show_problem("\n".join(texts))
        self._marked = [entry for entry, _ in beside.values()]
        self._rest.value = problem_markup("\n".join(rest))
        return bool(problems)

    def _entry(self, path: Path) -> Entry | None:
        """Return the entry at a path, or its nearest ancestor that has an entry."""
        found: Entry | None = None
        place: Any = self.root
        for key in path:
            place = place.at(key)
            if place is None:
                break
            found = place
        return found

    def entries(self) -> Iterator[tuple[Path, Entry]]:
        """Yield every entry that has widgets, with its path."""
        pending: list[tuple[Path, Any]] = [((), self.root)]
        while pending:
            path, place = pending.pop(0)
            inside = getattr(place, "input", place).entries()
            for key, entry in inside:
                yield (*path, key), entry
                pending.append(((*path, key), entry))


def _heading(title: str, description: str) -> str:
    parts = [tag("b", one_line(title, 200))] if title else []
    if description:
        parts.append(tag("div", shorten(description, 2000), class_="mcp-hint"))
    return joined([FORM_STYLE, tag("div", joined(parts), class_="mcp-form")])
