"""The notebook's approver: asks where a person can answer.

- By a panel with buttons, if clicks reach the kernel while the cell waits. ipykernel 7.4 delivers them to a cell that
  awaits; 7.0 to 7.3 only through a subshell, which the frontend has to use (JupyterLab 4.4 does); older ones when
  the cell is done. A nested event loop gets none, except that a task that outlived its cell gets them all.
- By `input()`, if the frontend takes input and the cell is running: consoles, terminals, older kernels, nested runs.
- Else nobody can answer. nbclient, nbval and papermill execute cells that allow no input: they would show a panel,
  too (they keep widget states), so it is `allow_stdin` that tells them from a frontend with a person in front of it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_magic.magics.asking_input import InputAsker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcp_magic.core.consent.consent import Consent, Decision, Request
    from mcp_magic.magics.cells import Cells, Circumstances
    from mcp_magic.magics.settings import Settings
    from mcp_magic.widgets.approval import ApprovalPanel, Replace

__all__ = ["Asking", "Way", "how_to_ask", "show_below"]

T = TypeVar("T")

Way = Literal["panel", "input", "nobody"]

AWAITED_CLICKS = (7, 4)
"""The ipykernel from which on a cell that awaits gets the messages of widgets."""

SUBSHELL_CLICKS = (7, 0)
"""The ipykernel from which on a subshell gets them."""

SUBSHELL_SECONDS = 2.0
"""Seconds a frontend has to make a subshell when it is shown a widget; JupyterLab needs a tenth of one."""

POLL_SECONDS = 0.02

EARLIER = 0.05
"""Seconds by which a panel ends its wait before `Consent` does: it can then tell a time-out from Interrupt."""

NOBODY = "nobody can be asked here, where no input is allowed; MCP_MAGIC_APPROVAL=auto allows what no rule asks about"


def how_to_ask(where: Circumstances, ask_with: str = "auto") -> Way:
    """Return how a person can be asked.

    Args:
        where: Where the question comes up.
        ask_with: The setting: `"auto"`, or `"panel"` or `"input"` where that is known to work better.

    >>> from mcp_magic.magics.cells import Circumstances
    >>> how_to_ask(Circumstances(kernel=(7, 4), allow_stdin=True, widgets=True))
    'panel'
    >>> how_to_ask(Circumstances(kernel=(6, 30), allow_stdin=True, widgets=True))
    'input'
    >>> how_to_ask(Circumstances(kernel=(7, 4), allow_stdin=False, widgets=True))
    'nobody'
    """
    if ask_with == "panel" and where.kernel is not None:
        return "panel"
    if not where.allow_stdin:
        return "nobody"
    if where.kernel is None:
        return "input"
    if ask_with != "input" and where.widgets and _gets_clicks(where):
        return "panel"
    # input() of a cell that has ended is shown nowhere, and would stop the kernel for ever
    return "input" if where.running else "nobody"


def _gets_clicks(where: Circumstances) -> bool:
    """Whether a click arrives before the time is up."""
    assert where.kernel is not None
    if not where.running:
        return True  # the kernel is idle, or will be
    if where.nested:
        return False
    return where.kernel >= AWAITED_CLICKS or (where.kernel >= SUBSHELL_CLICKS and where.subshells)


class Asking:
    """The approver.

    Args:
        cells: Knows the cell that asks.
        settings: The settings.
        consent: Whose time-out holds.
    """

    def __init__(self, cells: Cells, settings: Settings, consent: Consent) -> None:
        self._cells = cells
        self._settings = settings
        self._consent = consent
        self._panels: dict[str, ApprovalPanel] = {}
        self._without_subshells: set[str] = set()

    async def __call__(self, request: Request) -> Decision:
        """Ask for a decision.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        until = asyncio.get_running_loop().time() + self._consent.timeout - EARLIER
        way = await self.way()
        if way == "input":
            seconds = until - asyncio.get_running_loop().time()
            reveal = _show_for_now if self._cells.kernel is not None else None
            return await InputAsker(seconds=seconds, reveal=reveal).ask(request)
        if way == "panel":
            return await self.below_a_cell(lambda: self._in_panel(request, until))
        from mcp_magic.core.consent.consent import Decision

        return Decision.deny(NOBODY, by="nobody")

    async def confirm(self, text: str) -> bool | None:
        """Ask for a yes to what a text says; None where nobody can be asked.

        Raises:
            TimeoutError: Nobody answered in time.
        """
        way = await self.way()
        if way == "nobody":
            return None
        if way == "input":
            return await InputAsker(seconds=self._consent.timeout).confirm(text)
        from mcp_magic.widgets.confirmation import ConfirmationPanel

        async with asyncio.timeout(self._consent.timeout):
            return await self.below_a_cell(lambda: ConfirmationPanel(show_below).ask(text))

    async def way(self) -> Way:
        """Return how the person can be asked now."""
        return how_to_ask(await self._circumstances(), self._settings.ask_with)

    async def below_a_cell(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something that shows a panel: below the cell that asks, or the latest if it is none that asks.

        What a click shows is lost in the frontend's log.
        """
        if self._cells.asks_from_a_cell() or self._cells.latest is None:
            return await work()
        context = self._cells.latest.run(copy_context)
        return await asyncio.create_task(work(), context=context)

    async def _circumstances(self) -> Circumstances:
        where = self._cells.circumstances()
        trying = replace(where, subshells=True)
        if how_to_ask(trying) == how_to_ask(where):
            return where
        return trying if await self._finds_a_subshell() else where

    async def _finds_a_subshell(self) -> bool:
        """Whether the frontend uses subshells for widgets: show it one, and see whether a subshell turns up."""
        session = self._cells.parent().get("header", {}).get("session", "")
        manager = getattr(getattr(self._cells.kernel, "shell_channel_thread", None), "manager", None)
        if manager is None or session in self._without_subshells:
            return False
        if manager.list_subshell():
            return True
        import ipywidgets

        probe = ipywidgets.Layout()  # has no view: nothing is seen of it
        until = time.monotonic() + SUBSHELL_SECONDS
        while not (found := bool(manager.list_subshell())) and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)
        probe.close()
        if not found:
            self._without_subshells.add(session)
        return found

    async def _in_panel(self, request: Request, until: float) -> Decision:
        """Ask in the panel of the cell: all that wait in one cell wait in one panel."""
        from mcp_magic.widgets.approval import ApprovalPanel

        cell = self._cells.parent().get("header", {}).get("msg_id", "")
        if cell not in self._panels:
            self._panels[cell] = ApprovalPanel(show_below, seconds=lambda: self._consent.timeout)
        panel = self._panels[cell]
        try:
            return await panel.ask(request, until=until)
        finally:
            if not panel.waiting:
                self._panels.pop(cell, None)


def _show_for_now(text: str) -> Callable[[], None]:
    """Show text below the cell; what is returned takes it away, so that it is not saved with the notebook."""
    replace_it = show_below({"text/plain": text})
    return lambda: replace_it({"text/plain": "hidden again"})


def show_below(bundle: dict[str, Any]) -> Replace:
    """Show a mimebundle below the cell; what is returned replaces it."""
    from IPython.display import display, update_display

    name = uuid.uuid4().hex
    display(bundle, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    def replacement(other: dict[str, Any]) -> None:
        update_display(other, raw=True, display_id=name)  # type: ignore[no-untyped-call]

    return replacement
