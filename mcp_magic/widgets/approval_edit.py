"""The arguments of a call that waits, to be changed: in the tool's form, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import ipywidgets

from mcp_magic.widgets.form import Form
from mcp_magic.widgets.hiding import hidden_arguments, read_arguments, written_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.core.consent.consent import Request
    from mcp_magic.widgets.shop import Shop

__all__ = ["Editor", "editor_for"]


class Editor(Protocol):
    """Something to change arguments with."""

    @property
    def widget(self) -> Any:
        """What is shown."""

    def read(self) -> dict[str, Any]:
        """Return the arguments as they are now.

        Raises:
            ArgumentsError: They cannot be sent like this.
        """

    def close(self) -> None:
        """Close the widgets."""


def editor_for(request: Request, shop: Shop, on_change: Callable[[], None]) -> Editor:
    """Return an editor for the arguments of a request.

    Arguments with secrets are edited as JSON with the secrets masked: a field may not take a mask for a value.

    Args:
        request: What waits.
        shop: Makes the widgets.
        on_change: Called for each change, on whichever thread the frontend's message is handled.
    """
    secret = hidden_arguments(request.arguments, request.definition) != request.arguments
    if request.definition is None or secret:
        return _JsonEditor(request, shop, on_change)
    return _FormEditor(request, request.definition.input_schema, shop, on_change)


class _FormEditor:
    def __init__(self, request: Request, schema: dict[str, Any], shop: Shop, on_change: Callable[[], None]) -> None:
        self._form = Form(schema, shop=shop)
        self._form.set_arguments(request.arguments)
        self._form.on_change(on_change)
        self._box = shop.part()
        self.widget = self._box.make(ipywidgets.VBox, "row", children=[self._form.widget, self._form.toggle])

    def read(self) -> dict[str, Any]:
        return self._form.arguments

    def close(self) -> None:
        self._form.close()
        self._box.close()


class _JsonEditor:
    def __init__(self, request: Request, shop: Shop, on_change: Callable[[], None]) -> None:
        self._request = request
        self._box = shop.part()
        self.widget = self._box.make(
            ipywidgets.Textarea,
            "area",
            value=written_arguments(request.arguments, request.definition),
            tooltip=f"arguments of {request.name} as JSON; *** stands for a hidden value",
        )
        self.widget.observe(lambda _: on_change(), "value")

    def read(self) -> dict[str, Any]:
        return read_arguments(self.widget.value, self._request.arguments, self._request.definition)

    def close(self) -> None:
        self._box.close()
