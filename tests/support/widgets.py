"""A page, what is on it, and waiting for what a click brings about."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import ipywidgets
from ipywidgets.widgets.widget_link import DirectionalLink

from mcp_magic.ask.approval import approval_question, decision_of, plan_decisions, plan_question
from mcp_magic.ui.question import Panel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from mcp_magic.ask.question import Question, Reply
    from mcp_magic.consent.consent import Decision, PlannedRequest, Request


async def handled() -> None:
    """Let what the handlers posted be done."""
    for _ in range(3):
        await asyncio.sleep(0)


def receive(widget: Any, content: dict[str, Any]) -> None:
    """Do what ipywidgets does with a frontend's custom message."""
    widget._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})


def linked(source: tuple[Any, str], target: tuple[Any, str]) -> Any:
    """Return a link of two widgets, and do what a frontend does with it."""
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


class PanelUser:
    """Who reads a panel of a page and clicks in it, as a frontend lets a person do it; an approver, of plans too.

    Args:
        page: Where the panel is shown.
        seconds: The deadline of each question, or None.
    """

    def __init__(self, page: Page, seconds: float | None = None) -> None:
        self.page = page
        self.panel = page.panel()
        self._seconds = seconds
        self._asked = 0

    async def reply(self, question: Question) -> Reply:
        """Ask, and return what was chosen."""
        until = None if self._seconds is None else asyncio.get_running_loop().time() + self._seconds
        self._asked += 1
        return await self.panel.ask(question, until)

    async def __call__(self, request: Request) -> Decision:
        return decision_of(request, await self.reply(approval_question(request)))

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        return plan_decisions(calls, await self.reply(plan_question(calls)))

    async def asked(self, *answers: Awaitable[Any]) -> list[asyncio.Future[Any]]:
        """Begin what asks, and wait until its questions are shown."""
        number = self._asked + len(answers)
        tasks = [asyncio.ensure_future(answer) for answer in answers]
        while self._asked < number or len(self.panel.waiting) < len(answers):
            await asyncio.sleep(0)
        return tasks

    async def decides(self, *requests: Request) -> list[asyncio.Future[Any]]:
        """Ask about calls, and wait until the questions are shown."""
        return await self.asked(*map(self, requests))

    def of(self, kind: Any) -> list[Any]:
        """Return the panel's widgets of a kind."""
        return widgets(self.panel.widget, kind)

    def button(self, description: str, number: int = 0) -> Any:
        return [each for each in self.of(ipywidgets.Button) if each.description == description][number]

    async def click(self, description: str, number: int = 0) -> None:
        """Click, and let what the click posted be done."""
        self.button(description, number).click()
        await handled()

    async def set(self, widget: Any, value: Any) -> None:
        """Enter a value, and let what this posted be done."""
        widget.value = value
        await handled()

    async def edit(self, number: int = 0) -> Any:
        """Open the editor of a call's arguments, and return its text field of JSON."""
        await self.click("Edit", number)
        for face in self.of(ipywidgets.ToggleButton)[:1]:
            face.value = True
        return self.of(ipywidgets.Textarea)[0]

    @property
    def text(self) -> str:
        """The markup of all that the panel says."""
        return "".join(each.value for each in self.of(ipywidgets.HTML))
