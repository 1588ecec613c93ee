"""Showing the logs of a server live, until Interrupt."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic.core.following import STDERR, LogFollower
from mcp_magic.core.loglevels import at_least
from mcp_magic.core.meter import seconds_text
from mcp_magic.magics.interrupts import until_interrupted
from mcp_magic.magics.live import mimebundle
from mcp_magic.widgets.board_text import message_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_magic.core.loglevels import LogMessage
    from mcp_magic.magics.parsing import Invocation
    from mcp_magic.results import Listing

    MakeListing = Callable[[str, Iterable[LogMessage]], Listing]

__all__ = ["LISTED", "follow"]

LISTED = 50
"""Lines of each kind that are listed where nothing else is said."""

FOLLOWED = 500
"""Lines that are shown while following, and listed at the end; the last ones."""

INTERVAL = 0.2
"""Seconds between two updates at least."""


async def follow(
    invocation: Invocation,
    server: str,
    before: list[LogMessage],
    seconds: float | None,
    listing: MakeListing,
    least: str,
) -> tuple[list[LogMessage], str]:
    """Show what a server logs, as it comes.

    Args:
        invocation: The line.
        server: The server's name.
        before: What is known already.
        seconds: How long; None until Interrupt.
        listing: Makes what is shown.
        least: The least severe level that is shown.

    Returns:
        What there was in the end, and a line about it.
    """
    where = invocation.cells.circumstances()
    if seconds is None and not where.allow_stdin:
        return before, "not followed: nobody could interrupt it here; --seconds S follows for a time"
    shown: deque[LogMessage] = deque(before, maxlen=FOLLOWED)
    screen: _Display | _Printer = _Display(server, listing) if where.widgets else _Printer()
    started, count = time.monotonic(), 0
    screen.show(shown, list(before))
    with until_interrupted(), suppress(TimeoutError), LogFollower(lambda: _found(invocation, server)) as follower:
        async with asyncio.timeout(seconds):
            while (new := await follower.take()) is not None:
                wanted = [message for message in new if message.logger == STDERR or at_least(message.level, least)]
                if wanted:
                    count += len(wanted)
                    shown.extend(wanted)
                    screen.show(shown, wanted)
                    await asyncio.sleep(INTERVAL)
    said = f"followed for {seconds_text(time.monotonic() - started)}: {count:,} new"
    screen.end(said)
    return list(shown), said


def _found(invocation: Invocation, server: str) -> Any:
    return invocation.host.connections.get(server)


class _Display:
    """A display below the cell that is updated."""

    def __init__(self, server: str, listing: MakeListing) -> None:
        self._server = server
        self._listing = listing
        self._replace: Callable[[dict[str, Any]], None] | None = None

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        from mcp_magic.magics.asking import show_below

        table = self._listing(self._server, shown)
        table.note = "following; Interrupt ends it"
        bundle = mimebundle(table[-LISTED:])
        if self._replace is None:
            self._replace = show_below(bundle)
        else:
            self._replace(bundle)

    def end(self, said: str) -> None:
        from mcp_magic.results.html import note, page

        if self._replace is not None:
            self._replace(
                {"text/html": page([note(f"{self._server}: {said}")]), "text/plain": f"{self._server}: {said}"}
            )


class _Printer:
    """Lines in a terminal."""

    def show(self, shown: Iterable[LogMessage], new: list[LogMessage]) -> None:
        for message in new:
            print(message_line(message), flush=True)

    def end(self, said: str) -> None:
        """The listing says the rest."""
