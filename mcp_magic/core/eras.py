"""What differs between the eras of the protocol, where the SDK leaves it to us."""

from __future__ import annotations

from typing import Any, TypeVar

from mcp_magic.results.safe import one_line

__all__ = ["assume_complete", "finished"]

T = TypeVar("T")


def assume_complete(message: Any) -> None:
    """Take a result of a 2026-07-28 session that does not say what it is for a complete one.

    The SDK refuses it. Source: specification 2026-07-28, "Responses": "clients MUST treat an absent `resultType` as
    `complete`".
    """
    result = getattr(message, "result", None)
    if isinstance(result, dict) and "resultType" not in result:
        result["resultType"] = "complete"


def finished(answer: T) -> T:
    """Return an answer of the SDK, which takes results of any kind.

    Source: specification 2026-07-28, "Responses": a `resultType` that is not recognized "MUST be considered invalid".

    Raises:
        ValueError: Nobody knows its kind.
    """
    kind = getattr(answer, "result_type", None)
    if kind not in (None, "complete"):
        raise ValueError(f"its resultType is {one_line(str(kind), 40)!r}, which nobody here knows")
    return answer
