"""A form for a JSON Schema: fields, the same as JSON, and what is wrong with what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.html import joined, tag
from mcp_magic.results.safe import one_line, shorten
from mcp_magic.schema import UNSET, root_field
from mcp_magic.schema.messages import together
from mcp_magic.widgets import table
from mcp_magic.widgets.inputs import Unread
from mcp_magic.widgets.jsonface import JsonFace
from mcp_magic.widgets.look import FORM_STYLE, note_markup, problem_markup
from mcp_magic.widgets.problems import Problem, find_problems
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_magic.widgets.entry import Entry
    from mcp_magic.widgets.inputs import Path

__all__ = ["Form"]

_TO_JSON = "Edit as JSON", "all arguments as JSON"
_TO_FIELDS = "Back to the fields", "each argument in its own field"


class Form:
    """A form that a JSON Schema describes.

    Args:
        schema: Of an object, such as a tool's input schema.
        title: A heading.
        description: A line below it.
        shop: Makes the widgets; one of its own if left out. Whoever hands it in puts `toggle` where it belongs.

    Attributes:
        widget: All of it.
        toggle: The button that shows the face of JSON.
        root: The input of the whole object.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        title: str = "",
        description: str = "",
        shop: Shop | None = None,
    ) -> None:
        self.schema = schema
        self._shop = shop.part() if shop is not None else Shop()
        self._listeners: list[Callable[[], None]] = []
        self._submitted: list[Callable[[dict[str, Any]], None]] = []
        self._all_told = False
        self._turned_back = False
        self._marked: list[Entry] = []
        self.root = table.root_input(root_field(schema), self._shop)
        self.root.on_change(self._changed)
        self._json = JsonFace(self._shop)
        self._json.on_change(self._changed)
        text, tooltip = _TO_JSON
        self.toggle = self._shop.make(ipywidgets.ToggleButton, "button", description=text, icon="code", tooltip=tooltip)
        self.toggle.observe(self._turned, "value")
        self._rest = self._shop.make(ipywidgets.HTML, "label")
        self._nothing = self._shop.make(ipywidgets.HTML, "label", value=note_markup("It takes no arguments."))
        self._body = self._shop.make(ipywidgets.VBox, "")
        head = self._shop.make(ipywidgets.HTML, "label", value=_heading(title, description))
        parts = (head, self._body, self._rest, *([self.toggle] if shop is None else []))
        self.widget = self._shop.make(ipywidgets.VBox, "form", children=parts)
        self._show_face()  # and no check: nobody has entered anything, and the first one imports jsonschema

    # Its value

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values.

        Raises:
            ArgumentsError: They do not fit the schema; at most three problems are told.
        """
        value, problems = self._read()
        if problems:
            raise together([problem.text for problem in problems])
        return value

    @property
    def draft(self) -> dict[str, Any]:
        """The arguments as far as they can be read, fitting or not."""
        return self._read()[0]

    @property
    def problems(self) -> list[str]:
        """All that is wrong, a line each, in the words of the command line."""
        return [problem.text for problem in self._read()[1]]

    def set_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Show arguments, fitting or not; what they do not have is left out."""
        value = dict(arguments)
        self.root.set(value)
        self._json.write(value)
        self._show_face()
        self._all_told = True
        self._check()

    def clear(self) -> None:
        """Show what was there at first."""
        self.root.clear()
        self._json.write(self._from_fields())
        self._show_face()
        self._all_told = False
        self._check()

    @property
    def as_json(self) -> bool:
        """Whether the form shows its face of JSON."""
        return bool(self.toggle.value)

    @as_json.setter
    def as_json(self, value: bool) -> None:
        self.toggle.value = value

    # What happens

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the person changes something."""
        self._listeners.append(callback)

    def on_submit(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call `callback(arguments)` when the form is submitted and everything fits."""
        self._submitted.append(callback)

    def submit(self) -> bool:
        """Hand the arguments to whoever wants them; if something is wrong, show all of it and return False."""
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
        unread: list[Unread] = []
        value = self._json.read(unread) if self.as_json else self.root.read((), unread)
        if not isinstance(value, dict):
            unread += [] if value is UNSET or unread else [Unread((), "expected a JSON object")]
            value = {}
        if any(not each.path for each in unread):
            return value, find_problems({}, {}, unread)
        return value, find_problems(value, self.schema, unread)

    def _changed(self) -> None:
        self._check()
        for listener in self._listeners:
            listener()

    def _turned(self, change: Any) -> None:
        """Show the other face; text that is no JSON object has no other face, and stays."""
        if change["new"]:
            if self._turned_back:
                return
            self._json.write(self._from_fields())
        else:
            unread: list[Unread] = []
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
        """Show the fields or the JSON; the button says what the other is."""
        fields = self.root.widget if getattr(self.root.widget, "children", True) else self._nothing
        self._body.children = (self._json.widget if self.as_json else fields,)
        self.toggle.description, self.toggle.tooltip = _TO_FIELDS if self.as_json else _TO_JSON

    # What is wrong

    def _check(self) -> bool:
        """Show what is wrong beside the fields, the rest at the bottom; return whether anything is."""
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
        """The entry at a path, or the one next to it that is drawn."""
        found: Entry | None = None
        place: Any = self.root
        for key in path:
            place = place.at(key)
            if place is None:
                break
            found = place
        return found

    def entries(self) -> Iterator[tuple[Path, Entry]]:
        """Yield every entry that is drawn, with its path."""
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
