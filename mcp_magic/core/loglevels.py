"""Log messages of servers and their levels (specification, "Logging"; RFC 5424, 6.2.1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.errors import ArgumentsError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LEVELS", "LogMessage", "at_least", "checked", "log_text"]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least severe to the most."""


class LogMessage(NamedTuple):
    """A log notification: when it came (`time.time()`), its level, its logger and its data."""

    time: float
    level: str
    logger: str
    data: Any


def at_least(level: str, least: str) -> bool:
    """Whether a level is as severe as another. One that nobody knows is taken to be severe; nothing reaches "off".

    >>> at_least("error", "warning"), at_least("info", "warning"), at_least("loud", "error"), at_least("error", "off")
    (True, False, True, False)
    """
    if least not in LEVELS:
        return False
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


def checked(level: str) -> Any:
    """Return a level.

    Raises:
        ArgumentsError: There is no such level.
    """
    if level not in LEVELS:
        near = did_you_mean(level, LEVELS)
        problem = f"{level!r} is no level of logging.{near} There are: {', '.join(LEVELS)}"
        raise ArgumentsError(problem)
    return level


def log_text(data: Any, masked: Callable[[str], str] = str, limit: int | None = None) -> str:
    """Return what was logged as text.

    Args:
        data: What was logged.
        masked: Takes secrets out of a text.
        limit: The characters that are wanted at most.

    >>> log_text("ready"), log_text({"rows": 3}), log_text("a long story", limit=6)
    ('ready', '{"rows": 3}', 'a long')
    """
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    # twice as much is masked: a secret that the first cut has halved is behind the second
    return masked(text) if limit is None else masked(text[: 2 * limit])[:limit]
