"""The panel in which a person answers what agents, servers and apps want to call."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets

from mcp_magic.results.html import note, page
from mcp_magic.widgets.approval_card import Card
from mcp_magic.widgets.approval_text import Outcome, outcomes_bundle, question_html, question_text
from mcp_magic.widgets.shop import Shop

if TYPE_CHECKING:
    from mcp_magic.core.consent.consent import Decision, Request
    from mcp_magic.widgets.approval_card import Work

__all__ = ["ApprovalPanel", "Replace", "Show"]

Replace = Callable[[dict[str, Any]], None]
"""Puts another mimebundle in the place of one that is shown."""

Show = Callable[[dict[str, Any]], Replace]
"""Shows a mimebundle, and returns what replaces it."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


MAX_CARDS = 20
"""Calls that are shown at a time; the next come when one of these is decided."""


class All(NamedTuple):
    """The buttons Approve all and Deny all.

    Attributes:
        cards: What they decide about.
        shop: Has made them.
        widget: Both.
    """

    cards: tuple[Card, ...]
    shop: Shop
    widget: Any


class ApprovalPanel:
    """An approver: one panel for all the requests that wait, shown by `show`. It shows the first twenty of them.

    What was decided becomes one line in it. When nothing waits any more the whole panel is replaced by
    those lines as plain HTML and text, which stay in the saved notebook, and all its widgets are closed. The next
    request opens it anew, below.

    Approve all and Deny all decide what was there to be seen when they were clicked on, and nothing that has come
    since: with each request that is added they are made anew.

    Args:
        show: Shows the panel where the person is looking.
        seconds: Returns how long a request waits at most.
    """

    def __init__(self, show: Show, *, seconds: Callable[[], float] | None = None) -> None:
        self._show = show
        self._seconds = seconds
        self._cards: list[Card] = []
        self._later: deque[tuple[Request, asyncio.Future[Card]]] = deque()
        self._done: list[Card] = []
        self._outcomes: list[Outcome] = []
        self._all: list[All] = []
        self._shop: Shop | None = None
        self._replace: Replace = lambda _: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self._root: Any = None
        self._is_drawn_soon = False

    @property
    def waiting(self) -> tuple[Request, ...]:
        """The requests that nobody has answered yet, those that are shown first."""
        return (*(card.request for card in self._cards), *(request for request, _ in self._later))

    @property
    def cards(self) -> tuple[Card, ...]:
        """What is shown of them."""
        return tuple(self._cards)

    @property
    def widget(self) -> Any:
        """The live panel; None while nothing waits."""
        return self._root

    async def ask(self, request: Request, *, until: float | None = None) -> Decision:
        """Show a request and wait for the answer; whoever cancels the wait leaves a line that says so.

        Args:
            request: What waits.
            until: The time of the loop at which the wait ends; None: as long from now as `seconds` says.

        Raises:
            TimeoutError: Nobody answered.
        """
        if until is None and self._seconds is not None:
            until = asyncio.get_running_loop().time() + self._seconds()
        place: asyncio.Future[Card] = asyncio.get_running_loop().create_future()
        self._later.append((request, place))
        if len(self._cards) < MAX_CARDS:
            self._fill()
        else:
            self._draw_soon()
        started = time.monotonic()
        verdict, decision = "interrupted", None
        try:
            async with asyncio.timeout_at(until):
                decision = await (await asyncio.shield(place)).answer
            verdict = "approved" if decision.approved else "denied"
        except TimeoutError:
            verdict = "not answered"
            raise
        finally:
            self._settle(request, place, Outcome(request, verdict, time.monotonic() - started, decision))
        return decision

    __call__ = ask

    def _fill(self) -> None:
        """Show requests that wait, as long as there is room for them."""
        opened = self._shop is None
        if self._shop is None:
            self._open()
        assert self._shop is not None
        before = len(self._cards)
        while self._later and len(self._cards) < MAX_CARDS:
            request, place = self._later.popleft()
            self._cards.append(Card(request, self._shop.part(), self._post))
            place.set_result(self._cards[-1])
        if len(self._cards) > max(before, 1):
            self._all.append(self._buttons_for(self.cards, self._shop.part()))
        self._refresh()
        if opened:
            self._replace = self._show(self._live_bundle(self._cards[0].request))

    def _open(self) -> None:
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._shop = shop = Shop()
        self._heading = shop.make(ipywidgets.HTML, "label")
        self._lines = shop.make(ipywidgets.HTML, "label")
        self._root = shop.make(ipywidgets.VBox, "row")

    def _buttons_for(self, cards: tuple[Card, ...], shop: Shop) -> All:
        """Make the buttons that decide about these cards."""

        def decide(taken: Callable[[Card], Work]) -> None:
            for card in cards:
                self._post(taken(card))

        def button(text: str, icon: str, tooltip: str, taken: Callable[[Card], Work]) -> Any:
            made = shop.make(ipywidgets.Button, "button", description=text, icon=icon, tooltip=tooltip)
            made.on_click(lambda _: decide(taken))
            return made

        approve = button("Approve all", "check", "let all of them go out as shown", Card.approval)
        deny = button("Deny all", "ban", "call none of them", Card.denial)
        return All(cards, shop, shop.make(ipywidgets.HBox, "line", children=[approve, deny]))

    def _post(self, work: Callable[[], None]) -> None:
        """Run something on the loop that waits, from whichever thread a frontend's message is handled on.

        The context is that of the cell: what is sent from the context of a frontend's message would
        make ipykernel deliver the answers to another shell.
        """
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work, context=self._context)

    def _refresh(self) -> None:
        count = len(self._cards) + len(self._later)
        limit = f"; what nobody answers within {self._seconds():g} s is denied" if self._seconds else ""
        calls = "1 call waits" if count == 1 else f"{count:,} calls wait"
        limit += f"; the first {MAX_CARDS} are shown" if self._later else ""
        self._heading.value = page([note(f"{calls} for your answer{limit}")])
        self._lines.value = outcomes_bundle(self._outcomes)["text/html"] if self._outcomes else ""
        several = [self._all[-1].widget] if len(self._cards) > 1 else []
        self._root.children = (self._lines, self._heading, *several, *(card.widget for card in self._cards))

    def _settle(self, request: Request, place: asyncio.Future[Card], outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if place.done():
            card = place.result()
            self._cards.remove(card)
            self._done.append(card)
        else:
            self._later.remove((request, place))
            place.cancel()
        if self._cards or self._later:
            self._draw_soon()
            return
        # First the lines, then the end of the widgets: a frontend would show them as lost for a moment.
        self._replace(outcomes_bundle(self._outcomes))
        assert self._shop is not None
        self._shop.close()
        self._shop = self._root = None
        self._outcomes.clear()
        self._all.clear()
        self._done.clear()

    def _draw_soon(self) -> None:
        """Draw what is left and what comes next, once for all that is decided at the same time."""
        if not self._is_drawn_soon:
            self._is_drawn_soon = True
            self._post(self._draw)

    def _draw(self) -> None:
        self._is_drawn_soon = False
        if self._shop is None:
            return
        self._fill()
        for card in self._done:
            card.close()
        self._done.clear()
        self._close_done()

    def _close_done(self) -> None:
        """Close the buttons that have nothing left to decide."""
        for each in [each for each in self._all if not set(each.cards) & set(self._cards)]:
            self._all.remove(each)
            each.shop.close()

    def _live_bundle(self, request: Request) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self._root.model_id}
        return {
            WIDGET_VIEW: view,
            "text/html": question_html(request, request.arguments),
            "text/plain": question_text(request, request.arguments),
        }
