"""Calls that a model still writes: their views show what there is of the arguments, before the calls go out.

Only where consent would let a call run whatever its arguments are. Source: MCP Apps (2026-01-26),
`ui/notifications/tool-input-partial`.

A model streams its arguments, and the specification lets a host pass them on. But before the user has approved a call
they are none of the server's business. So a view gets them while they are written only where no answer of the user can
be needed (`Consent.allows_any`); else whole, once the call goes out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from mcp_magic.apps.calls import draft_view
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.functions import own_arguments
from mcp_magic.schema import json_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_magic.agent.tools import Offer
    from mcp_magic.apps.app import App

INTERVAL = 0.1  # least seconds between two messages to a view

MAX_DRAFT = 20_000  # characters of arguments above which a view waits for the whole

NOT_MADE = "the call was not made"


def healed(text: str) -> dict[str, Any] | None:
    """Return the object that JSON begins: what is open is closed. None if it begins none.

    >>> healed('{"region": "E'), healed('{"region": "EU", "year'), healed(""), healed("[1")
    ({'region': 'E'}, {'region': 'EU'}, {}, None)
    """
    try:  # LangChain's `parse_partial_json` takes quadratic time where the text is no JSON
        value = from_json(text.lstrip() or "{", allow_inf_nan=False, allow_partial="trailing-strings")
        return json_arguments(value) if isinstance(value, dict) else None
    except (ValueError, ArgumentsError):  # 1e999 is too large a number to be sent
        return None


class Drafts:
    """The views of one run that are shown before their calls go out.

    Attributes:
        apps: By tool call id.
    """

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}

    def end(self, calls: Iterable[str]) -> None:
        """Tell the views of calls that have an answer, or will have none, if the calls did not go out."""
        for each in list(calls):
            app = self.apps.pop(each, None)
            if app is not None and not app.is_whole:
                app.cancel(NOT_MADE)


@dataclass(eq=False)
class _PartialCall:
    """A call, as far as it is written; `app` is its view, if that is shown."""

    id: str
    text: str = ""
    app: App | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    shown_at: float = 0.0
    waiting: asyncio.TimerHandle | None = None

    def add(self, piece: str) -> None:
        """Add to the arguments, and show them soon."""
        if self.app is None:
            return
        self.text += piece
        if len(self.text) > MAX_DRAFT:
            self.app = None
        elif self.waiting is None:
            loop = asyncio.get_running_loop()
            self.waiting = loop.call_at(self.shown_at + INTERVAL, self._show)

    def _show(self) -> None:
        self.waiting, self.shown_at = None, asyncio.get_running_loop().time()
        arguments = healed(self.text)
        if self.app is not None and arguments is not None:
            self.app.draft(own_arguments(arguments, self.renamed))


class DraftingTurn:
    """One turn of a model, which shows the views of its calls while their arguments stream in.

    Args:
        drafts: Takes the views.
        taken: Ids that no call of this turn keeps.
        offer_of: Returns the tool with this name, if its view may be shown now.
        announce: Shows the card of a call, by the id of the turn, its own, and its name.
        show: Shows a view.
    """

    def __init__(
        self,
        drafts: Drafts,
        taken: Iterable[str],
        offer_of: Callable[[str], Offer | None],
        announce: Callable[[str | None, str, str], None],
        show: Callable[[App], None],
    ) -> None:
        self._drafts = drafts
        self._taken = set(taken)
        self._offer_of, self._announce, self._show = offer_of, announce, show
        self._calls: dict[Any, _PartialCall] = {}
        self._unannounced: list[tuple[str, str]] = []  # cards stand in the order of the calls
        self._is_clear = True  # whether each call so far has an id that stays its own

    def add(self, part: Any) -> None:
        """Take the next part of the turn."""
        for chunk in getattr(part, "tool_call_chunks", ()):
            at, id_, name = chunk.get("index"), chunk["id"], chunk["name"]
            known = self._calls.get(at)
            if known is None or at is None or (id_ and id_ != known.id):
                known = self._calls[at] = self._begun(part.id, id_ or "", name or "")
            elif name:  # a name in pieces
                known.app = None
            known.add(chunk["args"] or "")

    def _begun(self, turn: str | None, id_: str, name: str) -> _PartialCall:
        """Return a new call; show its view if that may be."""
        call = _PartialCall(id_)
        self._is_clear &= bool(id_) and id_ not in self._taken
        if not self._is_clear:
            return call
        self._taken.add(id_)
        self._unannounced.append((id_, name))
        if (offer := self._offer_of(name)) is None:
            return call
        for each in self._unannounced:
            self._announce(turn, *each)
        self._unannounced.clear()
        call.app = self._drafts.apps[id_] = draft_view(offer.connection, offer.tool)
        call.renamed = offer.renamed
        self._show(call.app)
        return call
