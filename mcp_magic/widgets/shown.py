"""How a live widget is shown, and what of it stays in a saved notebook.

A frontend with a kernel shows the widget; GitHub, nbconvert and a terminal show the text and the HTML beside it.
Those are written when the cell is shown, and what comes of the widget happens later: so whoever displays it (the
magics) may hand in a `publish` that writes them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.results.parts import Part, bundle, only

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Publish = Callable[[dict[str, Any], bool], None]

__all__ = ["VIEW", "Shown"]

VIEW = "application/vnd.jupyter.widget-view+json"
"""The MIME type that stands for a widget."""


class Shown:
    """Something with a widget, and with words for those who cannot see it.

    Attributes:
        widget: The ipywidget.
        publish: Called with a mimebundle and whether it replaces the one that was shown; None where nothing can
            be replaced.
    """

    widget: Any
    publish: Publish | None = None
    _closed = False
    _published = False

    def _parts(self) -> list[Part]:
        """Return what it was and what came of it."""
        raise NotImplementedError

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        words = bundle(self._parts())
        if not self._closed:
            words[VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return only(words, include, exclude)

    def _ipython_display_(self) -> None:
        """Show it so that it can be replaced; without `publish`, IPython shows the mimebundle."""
        if self.publish is None:
            raise NotImplementedError
        self._published = True
        self.publish(self._repr_mimebundle_(), False)

    def _settled(self) -> None:
        """Write the words again: something came of it."""
        if self.publish is not None and self._published:
            self.publish(self._repr_mimebundle_(), True)
