"""One position in a form: a label, the input that its value needs, and what is wrong with it.

An entry knows three states that an input does not: nothing is sent, null is sent, a value is sent. It changes
the input when a value comes that the present one cannot hold, so that every JSON value can be anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.results.safe import one_line
from mcp_magic.schema import MISSING, UNSET
from mcp_magic.widgets.inputs import MAX_NODES, Input, Path, Place, Unread, choose, count_nodes, fallback
from mcp_magic.widgets.inputs_choice import ChoiceInput
from mcp_magic.widgets.look import label_markup, problem_markup

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.schema import Field
    from mcp_magic.widgets.shop import Shop

__all__ = ["Entry"]

_VALUE = object()


class Entry:
    """One value of a form.

    Args:
        field: What the schema expects there.
        shop: Makes its widgets.
        name: Its label; without one, what is around it says what it is.
        spoken: What it is called where it has no label.
        required: Whether it must have a value; items of a list and values of a map always do.
        depth: How many objects and arrays it is in.

    Attributes:
        widget: All of it.
        input: The input that holds its value now.
        touched: Whether the person has changed it, or something in it.
    """

    def __init__(
        self, field: Field, shop: Shop, name: str = "", *, spoken: str = "", required: bool = False, depth: int = 0
    ) -> None:
        self.field = field
        self.touched = False
        self._shop = shop.part()
        self._place = Place(self._shop, name or spoken, required, depth)
        self._listeners: list[Callable[[], None]] = []
        self._state: Any = UNSET
        self._problem: Any = None
        self._ticking = False
        self._send: Any = None
        self._null: Any = None
        self._head: Any = None
        label = label_markup(field, name, required=required)
        self._label = self._shop.make(ipywidgets.HTML, "label", value=label) if name else None
        self.widget = self._shop.make(ipywidgets.VBox, "row")
        self.input = self._fill(choose(field))
        self.restore()

    # Its value

    @property
    def initial(self) -> Any:
        """What it holds at first: a required one its default, or the only value that there is."""
        if not self._place.required:
            return UNSET
        if self.field.default is not MISSING:
            return self.field.default
        if isinstance(self.input, ChoiceInput):
            return self.input.only(self.field)
        return self.input.blank if self.input.blank in ([], {}) else UNSET

    def read(self, path: Path, unread: list[Unread]) -> Any:
        """Return the value, or UNSET; what cannot be read is added to `unread`."""
        if self._state is UNSET or self._state is None:
            return self._state
        return self.input.read(path, unread)

    def get(self) -> Any:
        """Return the JSON value, or UNSET."""
        return self.read((), [])

    def set(self, value: Any) -> None:
        """Show a JSON value, whatever it is; UNSET is none."""
        meant = choose(self.field)
        null = value is None and self.field.nullable and not meant.states
        large = count_nodes(value) > MAX_NODES
        self._use(meant if null else fallback() if large else choose(self.field, value))
        if null:
            self._become(None)
            return
        self.input.set(value)
        self._become(UNSET if value is UNSET else _VALUE)

    def clear(self) -> None:
        """Hold nothing."""
        self.set(UNSET)

    def restore(self) -> None:
        """Hold what it held at first."""
        self._hold(self.initial)

    def give(self) -> None:
        """Hold the default, or an empty value, and show what is in it: somebody asked for the entry."""
        default = self.field.default
        self._hold(self.input.blank if default is MISSING or default is None else default)
        self.input.reveal()

    def _hold(self, value: Any) -> None:
        self.set(value)
        if value == {}:
            self.input.clear()  # an empty object is one that nothing was entered in: with what it must have

    # What it looks like

    def show_problem(self, text: str) -> None:
        """Say what is wrong, below the input; "" if nothing is."""
        markup = problem_markup(text)
        if self._problem is None and markup:
            self._problem = self._shop.make(ipywidgets.HTML, "label")
        if self._problem is not None and self._problem.value != markup:
            self._problem.value = markup
            self._arrange()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` whenever the person changes the value."""
        self._listeners.append(callback)

    def at(self, key: str | int) -> Entry | None:
        """Return the entry inside, if it is drawn."""
        found: Entry | None = self.input.at(key)
        return found

    def close(self) -> None:
        """Close the widgets."""
        self._shop.close()

    def _fill(self, cls: type[Input]) -> Input:
        place = Place(self._shop.part(), self._place.name, self._place.required, self._place.depth)
        made = cls(self.field, place)
        made.on_change(self._edited)
        return made

    def _use(self, cls: type[Input]) -> None:
        """Change the input, unless it is the one that is wanted."""
        if type(self.input) is cls:
            return
        old = self.input
        self.input = self._fill(cls)
        self._arrange()
        old.close()

    def _arrange(self) -> None:
        """Put together what the state asks for."""
        line = [part for part in (self._label, *self._boxes()) if part is not None]
        head = self._shop_line(line)
        body = [] if self._state is None else [self.input.widget]
        problem = [self._problem] if self._problem is not None and self._problem.value else []
        children = (*head, *body, *problem)
        if self.widget.children != children:
            self.widget.children = children

    def _shop_line(self, line: list[Any]) -> list[Any]:
        if len(line) < 2:
            return line
        if self._head is None:
            self._head = self._shop.make(ipywidgets.HBox, "line")
        if self._head.children != tuple(line):
            self._head.children = tuple(line)
        return [self._head]

    def _boxes(self) -> list[Any]:
        """The boxes to tick: whether it is sent, where an empty input would not say so, and whether it is null."""
        boxes = []
        name = one_line(self._place.name, 40) or "it"
        if not self.input.states and self.input.blank is not UNSET and not self._place.required:
            boxes.append(self._box("_send", f"send {name}", "leave it out, or send it even when it is empty"))
        if not self.input.states and self.field.nullable:
            boxes.append(self._box("_null", f"{name} is null", "send null"))
        with_values = ((self._send, self._state is not UNSET), (self._null, self._state is None))
        self._ticking = True
        for box, value in with_values:
            if box is not None and box.value != value:
                box.value = value
        self._ticking = False
        return boxes

    def _box(self, attribute: str, text: str, tooltip: str) -> Any:
        box = getattr(self, attribute)
        if box is None:
            box = self._shop.make(ipywidgets.Checkbox, "check", description=text, tooltip=tooltip, indent=False)
            box.observe(self._sent if attribute == "_send" else self._nulled, "value")
            setattr(self, attribute, box)
        return box

    # What the person does

    def _sent(self, change: Any) -> None:
        if self._ticking:
            return
        if change["new"]:
            self.give()
        else:
            self.clear()
        self._told()

    def _nulled(self, change: Any) -> None:
        if self._ticking:
            return
        if change["new"]:
            self._become(None)
        else:
            self._become(UNSET if self.input.blank is UNSET or not self._place.required else _VALUE)
        self._told()

    def _edited(self) -> None:
        """The input was changed."""
        empty = (self.input.blank is UNSET or self.input.states) and self.input.get() is UNSET
        if empty:
            self._use(choose(self.field))  # JSON may have stood in for a value that is gone now
        self._become(UNSET if empty else _VALUE)
        self._told()

    def _become(self, state: Any) -> None:
        self._state = state
        self._arrange()

    def _told(self) -> None:
        self.touched = True
        for listener in self._listeners:
            listener()
