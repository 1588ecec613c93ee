"""A page, what is on it, and waiting for what a click brings about."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from mcp_magic.ui.question import Panel

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Page", "handled", "linked", "receive", "until", "widgets"]


async def until(condition: Callable[[], Any], timeout: float = 60.0) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.005)


async def handled() -> None:
    """Let what the handlers posted be done."""
    for _ in range(3):
        await asyncio.sleep(0)


def receive(widget: Any, content: dict[str, Any]) -> None:
    """Do what ipywidgets does with a frontend's custom message."""
    widget._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})


def linked(source: tuple[Any, str], target: tuple[Any, str]) -> Any:
    """Return a link of two widgets, and do what a frontend does with it."""
    from ipywidgets.widgets.widget_link import DirectionalLink

    source[0].observe(lambda change: setattr(*target, change["new"]), source[1])
    return DirectionalLink(source, target)


class Page:
    """What a notebook shows: outputs that can be replaced."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self._panels: list[Panel] = []

    def panel(self) -> Panel:
        """Return a new panel on the page."""
        self._panels.append(Panel(self.show))
        return self._panels[-1]

    def close(self) -> None:
        """Close the panels; no question of theirs waits."""
        for panel in self._panels:
            assert panel.waiting == ()
            panel.close()

    def show(self, bundle: dict[str, Any]) -> Any:
        self.outputs.append(bundle)
        place = len(self.outputs) - 1

        def replace(other: dict[str, Any]) -> None:
            self.outputs[place] = other

        return replace

    @property
    def lines(self) -> list[str]:
        """The lines, with `TIME` for how long something took."""
        shown = [line for output in self.outputs for line in output.get("text/plain", "").splitlines()]
        return [re.sub(r"\b\d+(\.\d)? m?s\b", "TIME", line) for line in shown]


def widgets(root: Any, kind: type[Any]) -> list[Any]:
    """Return the widgets of a kind, in the order in which Tab reaches them."""
    inside = [found for child in getattr(root, "children", ()) for found in widgets(child, kind)]
    return [root, *inside] if isinstance(root, kind) else inside
