"""What differs between the eras of the protocol, where the SDK leaves it to us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["assume_complete", "finished", "ping"]

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


async def ping(client: Client) -> None:
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
