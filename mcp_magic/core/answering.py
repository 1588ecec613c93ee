"""Waiting for whoever answers what a server asks in the course of a call."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mcp_magic.core.underway import CallUnderWay

__all__ = ["EARLY_SECONDS", "Unanswered", "answered"]

T = TypeVar("T")

EARLY_SECONDS = 0.5
"""Seconds by which whoever asks the person may say before us that the time is up."""


@dataclass(frozen=True)
class Unanswered:
    """Why there is no answer.

    Attributes:
        why: `"late"` (nobody answered in time), `"ended"` (the call has) or `"failed"`.
        error: What failed.
    """

    why: Literal["late", "ended", "failed"]
    error: Exception | None = None


async def answered(
    call: CallUnderWay, question: Coroutine[Any, Any, T], seconds: float | None = None
) -> T | Unanswered:
    """Wait for an answer, which is asked for in the context of whoever made the call.

    Args:
        call: Made the server ask; when it ends the question does.
        question: Asks.
        seconds: How long it may take; None for as long as it takes.
    """
    asking = call.ask(question)
    started = time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError as error:
        late = seconds is not None and time.perf_counter() - started >= seconds - EARLY_SECONDS
        return Unanswered("late") if late else Unanswered("failed", error)  # it waited for something else
    except Exception as error:
        return Unanswered("failed", error)
    except asyncio.CancelledError:
        if not call.ended:
            raise
        return Unanswered("ended")
