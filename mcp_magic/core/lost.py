"""What is said about a session that was lost and may come back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mcp_magic.core.border import why_closed
from mcp_magic.core.place import text_of
from mcp_magic.errors import SessionClosedError
from mcp_magic.wording import clause, duration

if TYPE_CHECKING:
    from mcp_magic.core.errlog import Position
    from mcp_magic.core.place import Place
    from mcp_magic.core.reconnection import Backoff

__all__ = ["away", "ended_error", "gave_up", "lost_error", "waited_error"]


def away(backoff: Backoff | None) -> str:
    """Say since when a session is being opened again, and when it is tried next: words for a listing."""
    if backoff is None:
        return "being opened again"
    said = f"lost {duration(round(backoff.away))} ago, tried {_times(backoff.attempts)}"
    if backoff.next is None:
        return f"{said}, being tried now"
    return f"{said}, next in {duration(round(backoff.next - time.monotonic()))}"


def waited_error(server: str, what: str, seconds: float, backoff: Backoff | None, last: str) -> SessionClosedError:
    """Say that a request was not sent, because its session did not come back in time.

    Args:
        server: The connection's name.
        what: What was asked.
        seconds: How long it waited.
        backoff: How often it was tried.
        last: Why the last attempt failed, or "".
    """
    error = SessionClosedError(
        f"{what}: not sent: the session did not come back within {seconds:g} s ({away(backoff)}); "
        f"`%mcp reconnect {server}` tries it at once.{_last(last)}"
    )
    error.sent, error.waited = False, True
    return error


def ended_error(what: str, place: Place, reason: BaseException, begun: Position | None) -> SessionClosedError:
    """Say that a session ended before a request was answered, and what its server said meanwhile.

    Args:
        what: What was asked.
        place: The connection.
        reason: Why the request failed.
        begun: What the server's stderr had when it was asked.
    """
    return SessionClosedError(
        f"{what}: the session has ended{why_closed(place, reason)} before the answer came, so it may have run; "
        f"`%mcp reconnect {place.name}` opens it again.{place.said(since=begun)}",
        stderr=place.stderr(),
    )


def lost_error(server: str, what: str, why: BaseException, place: Place) -> SessionClosedError:
    """Say that the connection was lost before a request was answered, and that it was not sent again."""
    because = clause(text_of(why, place))
    return SessionClosedError(
        f"{what}: the connection was lost before the answer came ({because}), so it may have run; it was not sent "
        f"again. The session of {server} comes back by itself."
    )


def gave_up(closed: SessionClosedError, backoff: Backoff, last: str) -> SessionClosedError:
    """Add to why a session is lost how often it was tried to have it back."""
    tried = f"\n  given up after {duration(round(backoff.away))}, tried {_times(backoff.attempts)}"
    return SessionClosedError(
        f"{closed}{tried}{_last(last).replace(chr(10) + '  last', '; last')}", stderr=closed.stderr
    )


def _last(reason: str) -> str:
    first = reason.partition("\n")[0]
    return f"\n  last: {first[:300]}" if first else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
