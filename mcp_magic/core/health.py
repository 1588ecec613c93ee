"""Whether a server is there: the question, what its answer means, and what is known of a session's health."""

from __future__ import annotations

import asyncio
import time
from enum import Enum, auto
from typing import TYPE_CHECKING

from mcp_magic.core.foreign import is_closed, waited_in_vain
from mcp_magic.core.outcome import current
from mcp_magic.core.repeating import METHOD_NOT_FOUND, is_forgotten
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp import Client

    from mcp_magic.core.outcome import Outcome

__all__ = ["Answer", "ask", "look", "seen"]

_REFUSED = (401, 403, 407)
_AWAY = (429, 502, 503, 504)


class Answer(Enum):
    """What a server that may be gone has answered."""

    HERE = auto()
    AWAY = auto()
    FORGOTTEN = auto()
    """It is there, and does not have the session."""
    REFUSED = auto()
    """It wants other credentials."""


async def ask(client: Client) -> None:
    """Ask a server whether it is there: `ping`, or since 2026-07-28, which has none, `server/discover`.

    Raises:
        MCPError: It answered with an error; the one for an unknown method shows that it is there.
    """
    from mcp_types import EmptyResult, PingRequest

    session = client.session
    if session.discover_result is None:
        await session.send_request(PingRequest(), EmptyResult)
    else:
        await session.send_discover(client.protocol_version)


async def look(client: Client, seconds: float, made: Outcome) -> tuple[Answer, BaseException | None]:
    """Ask a server that may be gone, and say what its answer means.

    Args:
        client: The session.
        seconds: How long it has to answer.
        made: Notes how HTTP answers.

    Returns:
        The answer, and the error that says so.
    """
    token = current.set(made)
    failure: BaseException
    try:
        async with asyncio.timeout(seconds):
            await ask(client)
    except Exception as error:
        failure = error
    else:
        return Answer.HERE, None
    finally:
        made.over = True
        current.reset(token)
    return _meaning(client, failure, made), made.error or failure


def _meaning(client: Client, failure: BaseException, made: Outcome) -> Answer:
    unknown = getattr(failure, "code", None) == METHOD_NOT_FOUND
    if is_forgotten(failure, made) or (unknown and client.session.discover_result is not None):
        return Answer.FORGOTTEN  # a server that discovered itself before, and now does not, is another one
    if made.status in _REFUSED:
        return Answer.REFUSED
    if waited_in_vain(failure) or is_closed(failure) or made.status in _AWAY:
        return Answer.AWAY
    return Answer.HERE


def seen(when: float | None, now: float | None = None) -> str | None:
    """Say how long ago something was.

    >>> seen(90.0, now=100.0), seen(100.0, now=7300.0), seen(None)
    ('10 s ago', '2 h ago', None)
    """
    if when is None:
        return None
    ago = max(0.0, (time.time() if now is None else now) - when)
    return "now" if ago < 1 else f"{duration(round(ago))} ago"
