"""Requests on an open session that leave no trace in its counters, and failures in words."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.core.border import request_error
from mcp_magic.core.foreign import leaf
from mcp_magic.core.outcome import Outcome, current

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.core.connection import Connection

__all__ = ["Asked", "ask"]


class Asked(NamedTuple):
    """What came of a request.

    Attributes:
        result: The result, or None.
        seconds: How long it took.
        problem: Why there is none, in words.
        code: The JSON-RPC error code, or None.
        unread: The result that breaks the protocol, as it came, or None.
    """

    result: dict[str, Any] | None
    seconds: float
    problem: str = ""
    code: int | None = None
    unread: Any = None


async def ask(connection: Connection, method: str, params: Mapping[str, Any] | None = None, *, seconds: float) -> Asked:
    """Send a request as it is and return the `result` of its answer, nothing checked.

    Health, retries and renewal of the session are left out: an examination must not change what it looks at.
    """
    from mcp_types import Request
    from pydantic import TypeAdapter

    request: Any = Request[Any, str](method=method, params=dict(params or {}))
    answer: Any = TypeAdapter(dict[str, Any])
    started = time.perf_counter()
    failure: Exception
    outcome = Outcome()
    token = current.set(outcome)
    try:
        async with asyncio.timeout(seconds):
            result = await connection.client.session.send_request(request, answer)
        return Asked(result, time.perf_counter() - started)
    except Exception as error:
        failure = error
    finally:
        outcome.over = True
        current.reset(token)
    explained = request_error(failure, connection.place, method, seconds, outcome)
    code = getattr(leaf(failure), "code", None)
    return Asked(None, time.perf_counter() - started, str(explained).splitlines()[0], code, outcome.result)
