"""Whether somebody can be asked what servers ask for in a session that is replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.cassette.deck import deck
from mcp_magic.magics.asking import how_to_ask

if TYPE_CHECKING:
    from mcp_magic.magics.cells import Cells
    from mcp_magic.magics.settings import Settings

__all__ = ["ask_in_replays", "ask_no_more_in_replays"]


def ask_in_replays(cells: Cells, settings: Settings) -> None:
    """Ask the person where one can be asked; else what was answered when it was recorded is answered again."""
    deck.asks = lambda: how_to_ask(cells.circumstances(), settings.ask_with) != "nobody"


def ask_no_more_in_replays() -> None:
    """Undo that."""
    deck.asks = lambda: False
