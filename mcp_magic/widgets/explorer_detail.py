"""What was chosen in an explorer: its card, its form, what reading it gave."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import ipywidgets

from mcp_magic.core.offers import prompt_part, resource_part, template_part, tool_card
from mcp_magic.errors import MCPMagicError
from mcp_magic.results.html import Markup, joined, page, tag
from mcp_magic.results.parts import mimebundle
from mcp_magic.results.safe import shorten
from mcp_magic.widgets.explorer_forms import Forms

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.connection import Connection
    from mcp_magic.results.parts import Part
    from mcp_magic.widgets.doing import Doing
    from mcp_magic.widgets.explorer_forms import MakeForm
    from mcp_magic.widgets.explorer_items import Item
    from mcp_magic.widgets.shop import Shop

__all__ = ["Detail", "make_form"]

FORMS = {"tools": "ToolForm", "templates": "TemplateForm", "prompts": "PromptForm"}
"""Kind -> its form, a class of `widgets.tool_form`; a resource has nothing to fill in."""

_PARTS: dict[str, Callable[[str, Any], Part]] = {
    "resources": resource_part,
    "templates": template_part,
    "prompts": prompt_part,
}


def make_form(connection: Connection, item: Item, timeout: float | None = None) -> Any:
    """Return the form of a tool, template or prompt, which waits for so many seconds; imported only now."""
    forms = importlib.import_module("mcp_magic.widgets.tool_form")
    return getattr(forms, FORMS[item.kind])(connection, item.definition, timeout=timeout)


class Detail:
    """The card of an item with what reading it gave, or its form.

    Args:
        shop: Makes the widgets.
        doing: Runs what takes long.
        form: Makes the form of an item.

    Attributes:
        on_close: Called after the person closed the card.
        item: What is shown, or None.
        form: The form that is open, or None.
    """

    def __init__(self, shop: Shop, doing: Doing, form: MakeForm = make_form) -> None:
        self._shop, self._doing, self._forms = shop, doing, Forms(form)
        self._connection: Connection | None = None
        self._body: Shop | None = None
        self.on_close: Callable[[], None] = lambda: None
        self.item: Item | None = None
        self.form: Any = None
        self.card = shop.make(ipywidgets.HTML, "label", _dom_classes=("mcp-explorer-card",))
        self.note = shop.make(ipywidgets.HTML, "label")
        self.open = self._button("Open form", "fill in the arguments and run it", self.open_form)
        self.read = self._button("Read", "read this resource and show it here", self.read_it)
        self.back = self._button("Close form", "forget what the form holds and go back to the card", self.close_form)
        self.hide = self._button("Close", "close this card", self._closed)
        self.buttons = shop.make(ipywidgets.HBox, "line")
        self.widget = shop.make(ipywidgets.VBox, "", _dom_classes=("mcp-explorer-detail",))

    def _button(self, text: str, tooltip: str, do: Callable[[], None]) -> Any:
        button = self._shop.make(ipywidgets.Button, "button", description=text, tooltip=tooltip)
        button.on_click(lambda _: self._doing.soon(do))
        return button

    def show(self, connection: Connection, item: Item) -> None:
        """Show an item's card, or the form that somebody filled in before."""
        self._empty()
        self._connection, self.item = connection, item
        self.card.value = card(connection, item)
        if item in self._forms:
            self.open_form()
        else:
            self._draw()

    def update(self, connection: Connection | None, item: Item | None) -> None:
        """Take over what the server now says of the item that is shown, or that it is gone."""
        if self.item is None:
            return
        if item is None or connection is None:
            self.say(f"{self.item.label} is not offered any more", error=True)
        elif connection is not self._connection or item.definition != self.item.definition:
            self.say("")
            self._connection, self.item = connection, item
            self.card.value = card(connection, item)
            if self.form is not None:
                self.form = None
                self.open_form()
        else:
            self.say("")

    def clear(self) -> None:
        """Show nothing."""
        self._empty()
        self.item = self._connection = None
        self.widget.children = ()

    def open_form(self) -> None:
        """Show the item's form in place of the card."""
        if self.item is None or self._connection is None or self.form is not None:
            return
        try:
            self.form = self._forms.open(self._connection, self.item)
        except ImportError as error:  # the card has the line to type, so nothing is lost
            self.say(f"there is no form: {error}", error=True)
            return
        # the form says what the card says, with the arguments to be filled in
        self.buttons.children = (self.back, self.hide)
        self.widget.children = (self.buttons, self.note, self.form.widget)

    def close_form(self) -> None:
        """Forget what the form holds, and go back to the card."""
        if self.item is not None:
            self._forms.discard(self.item)
            self._empty()
            self._draw()

    def _closed(self) -> None:
        self.clear()
        self.on_close()

    def read_it(self) -> None:
        """Read the resource, and show it below the card."""
        if self.item is not None and self._connection is not None:
            self.read.disabled = True
            self.say("reading …")
            self._doing.start(self._read(self._connection, self.item))

    async def _read(self, connection: Connection, item: Item) -> None:
        problem, data = "", {}
        try:
            data = mimebundle(await connection.read(item.key))
        except MCPMagicError as error:
            problem = str(error)
        finally:
            self.read.disabled = False
        if self.item is item:  # something else may have been chosen meanwhile
            self.say(problem, error=True)
            self._result(data)

    def _result(self, data: dict[str, Any]) -> None:
        if self._body is not None:
            self._body.close()
        self._body = self._shop.part()
        shown = ({"output_type": "display_data", "data": data, "metadata": {}},) if data else ()
        self._draw(self._body.make(ipywidgets.Output, "", outputs=shown))

    def say(self, text: str, *, error: bool = False) -> None:
        """Show a line below the card."""
        self.note.value = line(text, error=error)

    def _draw(self, *body: Any) -> None:
        resource = self.item is not None and self.item.kind == "resources"
        self.buttons.children = (self.read if resource else self.open, self.hide)
        self.widget.children = (self.card, self.buttons, self.note, *body)

    def _empty(self) -> None:
        self.say("")
        if self.form is not None and self.item is not None:
            self._forms.leave(self.item)
        self.form = None
        if self._body is not None:
            self._body.close()
            self._body = None

    def close(self) -> None:
        """Close the forms and the result; the shop closes the rest."""
        self._empty()
        self._forms.close()


def card(connection: Connection, item: Item) -> str:
    """Return an item's card as markup."""
    if item.kind == "tools":
        tool = item.definition
        shown = tool_card(connection.name, tool, trusted=connection.spec.trust, change=connection.change_of(tool))
        return page([shown.part().html])
    return page([_PARTS[item.kind](connection.name, item.definition).html])


def line(text: str, *, error: bool = False) -> Markup:
    """Return a line that a screen reader says aloud when it changes."""
    shown = "\n".join(shorten(each, 400) for each in text.splitlines()[:4])
    sign = tag("b", "✗ ") if error and shown else ""
    return tag("div", joined([sign, shown]), class_="mcp-explorer-note", role="status")
