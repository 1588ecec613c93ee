"""Shows the views of tools below the cells that called them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.display.document import Markup, Part, bundle, joined, mimebundle, tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.apps.app import App
    from mcp_magic.apps.widget import AppWidget
    from mcp_magic.ipython.cells import Cells
    from mcp_magic.results.results import ToolResult

RESULTS = ("mcp_magic.results.results", "ToolResult")
APPS = ("mcp_magic.apps.app", "App")

RESULT = "mcp-app-result"
NO_ERROR = Markup(
    f"<style>.jp-OutputArea-child:has(.{RESULT})+.jp-OutputArea-child .jupyter-widgets:not(:has(*))"
    "{display:none}</style>"
)
"""Hides "Error displaying widget: model not found", which JupyterLab writes below the text once the kernel has gone."""


class Views:
    """Displays a result that has a view with the view below it, where the frontend shows widgets to a person.

    Elsewhere (terminals, consoles, nbclient), and for results without a view, IPython displays the value as usual.
    """

    def __init__(self, shell: InteractiveShell, cells: Cells) -> None:
        self._shell = shell
        self._cells = cells

    def install(self) -> None:
        """Start; imports nothing."""
        self._formatter.for_type_by_name(*RESULTS, _or_as_usual(self.show_result))
        self._formatter.for_type_by_name(*APPS, _or_as_usual(self.show_below))

    def uninstall(self) -> None:
        """Stop."""
        for kind in (RESULTS, APPS):
            self._formatter.pop(".".join(kind), None)

    @property
    def _formatter(self) -> Any:
        return self._shell.display_formatter.ipython_display_formatter  # type: ignore[union-attr]

    def can_show(self) -> bool:
        """Whether the frontend of the running cell shows widgets to a person."""
        from mcp_magic.apps.view import can_show

        where = self._cells.circumstances()
        return where.kernel is not None and where.widgets and where.allow_stdin and can_show()

    def show_result(self, result: ToolResult) -> bool:
        """Display a result folded, with its view below, if it has one that can be shown; return whether."""
        if result.app is None or not self.can_show():
            return False
        from IPython.display import display

        from mcp_magic.apps.app import App

        assert isinstance(result.app, App)
        part = Part.stack(*result.parts(), gap="\n\n")
        folded = part.folded(f"result of {result.server}:{result.tool}")
        html = joined([NO_ERROR, tag("div", folded.html, class_=RESULT)])
        data = bundle([Part(part.plain, html)])
        display(data, raw=True)  # type: ignore[no-untyped-call]
        return self.show_below(result.app)

    def show_below(self, app: App) -> bool:
        """Display the view below the running cell, if it can be shown; return whether."""
        if not self.can_show():
            return False
        from IPython.display import display

        display(self.later().bundle(app), raw=True)  # type: ignore[no-untyped-call]
        return True

    def later(self) -> LaterView:
        """Return a place below the running cell for a view that may come when the cell has ended."""
        return self._cells.keep(LaterView())


class LaterView:
    """A view below a cell: it is made when it is first shown, and never once the cell has run again."""

    def __init__(self) -> None:
        self._widget: AppWidget | None = None
        self._is_closed = False

    def bundle(self, app: App) -> dict[str, Any]:
        """Return the mimebundle that shows a view."""
        from mcp_magic.apps.widget import AppWidget
        from mcp_magic.ui.widgets import widget_view

        if self._is_closed:
            return mimebundle(app)
        self._widget = self._widget or AppWidget(app)
        return {**mimebundle(app), **widget_view(self._widget.widget)}

    def close(self) -> None:
        """End the view. Idempotent."""
        self._is_closed = True
        if self._widget is not None:
            self._widget.close()


def _or_as_usual(show: Callable[[Any], bool]) -> Callable[[Any], None]:
    def display(value: Any) -> None:
        if not show(value):
            raise NotImplementedError  # IPython displays the value by its mimebundle then

    return display
