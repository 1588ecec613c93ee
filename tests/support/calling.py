"""Calls as a model makes them, and decisions of consent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.calls.call import Call
from mcp_magic.flight.request import Limits
from mcp_magic.langchain.calls import Breaker, Reading, call_for_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcp_magic.calls.call import CallObserver
    from mcp_magic.consent.consent import Consent, Decision, Request
    from mcp_magic.session.connection import Connection


def model_call(
    connection: Connection,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *observers: CallObserver,
    decision: Decision | None = None,
    timeout: float | None = None,
    run: str | None = None,
    breaker: Breaker | None = None,
    **reading: Any,
) -> Awaitable[tuple[Any, dict[str, Any]]]:
    """Return a call for a model, under way: its content and artifact."""
    limits = Limits(timeout)
    call = Call(connection, tool, arguments or {}, asker="agent", run=run, limits=limits, decision=decision)
    return call_for_model(call, *observers, reading=Reading(**reading), breaker=breaker)


async def allowed(consent: Consent, request: Request) -> Mapping[str, Any]:
    """Return the arguments that consent allows; raise its refusal otherwise."""
    decision = await consent.review(request)
    if not decision.approved:
        raise consent.refusal(request, decision)
    return request.arguments if decision.arguments is None else decision.arguments
