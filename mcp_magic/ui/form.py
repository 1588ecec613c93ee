"""A form for a JSON Schema: its fields, its JSON, and the problems beside the fields."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.schema.fields import UNSET, input_root, root_field
from mcp_magic.schema.validate import Problem, argument_problems, path_text, together
from mcp_magic.ui import inputs
from mcp_magic.ui.inputs import write_json
from mcp_magic.ui.widgets import WidgetScope, note_markup, problem_markup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_magic.ui.inputs import Entry, Path

__all__ = ["Form"]


def find_problems(arguments: Mapping[str, Any], of: Mapping[str, Any], unread: list[Problem]) -> list[Problem]:
    """Return all problems in arguments, missing values first; errors about stand-ins for `unread` input are dropped.

    Pass the same schema object `of` each time, because its compiled form is cached for it.
    """
    unreadable = {problem.path for problem in unread}
    problems = [
        replace(problem, text=f"{path_text(problem.path) or 'arguments'}: {problem.text}") for problem in unread
    ]
    problems += [problem for problem in argument_problems(arguments, of) if problem.path not in unreadable]
    return sorted(dict.fromkeys(problems), key=lambda problem: not problem.missing)


_TO_JSON = "Edit as JSON", "all arguments as JSON"
_TO_FIELDS = "Back to the fields", "each argument in its own field"


def _invalid_marker() -> type[Any] | None:
    """Return a widget that sets `aria-invalid`, for screen readers, on the inputs of the box that holds it.

    It shows nothing. None as long as anywidget is not installed.
    """
    try:
        from anywidget import AnyWidget
    except ImportError:
        return None
    return _marker_of(AnyWidget)


@cache
def _marker_of(base: type[Any]) -> type[Any]:
    script = File(__file__).with_name("invalid.js").read_text(encoding="utf-8")
    return type("InvalidMarker", (base,), {"_esm": script})


class Form:
    """A form that a JSON Schema describes; a caller that passes a `scope` for the widgets must place `toggle`.

    Attributes:
        toggle: The button that switches to JSON.
        root: The input of the whole object.
    """

    def __init__(self, schema: Mapping[str, Any], *, scope: WidgetScope | None = None) -> None:
        self.schema = schema
        self._scope = scope.part() if scope is not None else WidgetScope()
        self._listeners: list[Callable[[], None]] = []
        self._submitters: list[Callable[[], None]] = []
        self._shows_missing = False
        self._turned_back = False
        self._marked: list[Entry] = []
        self.root = inputs.root_input(input_root(schema), self._scope, self._on_input, self._entered)
        self._json = inputs.JsonInput(
            root_field(True), inputs.Place(self._scope, self._on_input, self._entered, "the arguments")
        )
        text, tooltip = _TO_JSON
        self.toggle = self._scope.make(
            ipywidgets.ToggleButton, "button", description=text, icon="code", tooltip=tooltip
        )
        self.toggle.observe(self._turned, "value")
        self._rest = self._scope.make(ipywidgets.HTML, "label")
        self._nothing = self._scope.make(ipywidgets.HTML, "label", value=note_markup("It takes no arguments."))
        self._body = self._scope.make(ipywidgets.VBox, "")
        parts = (self._body, self._rest, *([self.toggle] if scope is None else []))
        if (marker := _invalid_marker()) is not None:
            parts = (*parts, self._scope.make(marker, _dom_classes=("mcp-unseen",)))
        self.widget = self._scope.make(ipywidgets.VBox, "form", children=parts)
        self._show_face()  # without a check: nothing was entered yet, and the first check imports jsonschema

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values; an ArgumentsError with at most three problems if they do not fit."""
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
        self._json.set(value)
        self._show_face()
        self._shows_missing = True
        self._check()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the user changes something."""
        self._listeners.append(callback)

    def on_enter(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the user presses Enter in a line of text."""
        self._submitters.append(callback)

    def submit(self) -> bool:
        """Return whether the arguments are valid; if not, show all problems, also the values that are missing."""
        self._shows_missing = True
        return not self._check()

    def close(self) -> None:
        """Close all widgets."""
        self._scope.close()

    def _read(self) -> tuple[dict[str, Any], list[Problem]]:
        unread: list[Problem] = []
        value = self._json.read((), unread) if self.toggle.value else self.root.read((), unread)
        if not isinstance(value, dict):
            if value is not UNSET and not unread:
                unread.append(Problem((), f"expected a JSON object, got {write_json(value, None)[:60]}"))
            value = {}
        if any(not problem.path for problem in unread):
            return value, find_problems({}, {}, unread)
        return value, find_problems(value, self.schema, unread)

    def _on_input(self) -> None:
        self._scope.keep_focus()
        self._check()
        for listener in self._listeners:
            listener()

    def _entered(self) -> None:
        for submit in self._submitters:
            submit()

    def _turned(self, change: Any) -> None:
        """Switch between fields and JSON; text that is no JSON object cannot be shown as fields."""
        if change["new"]:
            if self._turned_back:
                return
            self._json.set(self._from_fields())
        else:
            value = self._json.get()
            if value is UNSET:
                value = {}
            if not isinstance(value, dict):
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
        self._body.children = (self._json.widget if self.toggle.value else fields,)
        self.toggle.description, self.toggle.tooltip = _TO_FIELDS if self.toggle.value else _TO_JSON

    def _check(self) -> bool:
        """Show the problems beside their fields, the rest at the bottom; return whether there are any."""
        problems = self._read()[1]
        beside: dict[int, tuple[Entry, list[str]]] = {}
        rest: list[str] = []
        for problem in problems:
            entry = None if self.toggle.value else self._entry(problem.path)
            if entry is None:
                if self._shows_missing or not problem.missing:
                    rest.append(problem.text)
            elif self._shows_missing or (entry.touched and not problem.missing):
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
        entry: Entry | None = None
        place: Any = self.root
        for key in path:
            place = place.at(key)
            if place is None:
                break
            entry = place
        return entry
