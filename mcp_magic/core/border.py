"""The border where foreign errors become ours.

Errors of the SDK, of httpx2, of sockets and of processes arrive wrapped in nested ExceptionGroups
(`foreign.leaf` finds the one that says what happened). `border_connect` says what it means while a session
is opened, this module while it is used, and `faults` what codes and statuses mean. Nothing else in the package
looks at foreign error types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_magic import errors
from mcp_magic.core.backchannel import asked_in_vain, instead
from mcp_magic.core.border_connect import connect_error
from mcp_magic.core.faults import of_code, of_status, who
from mcp_magic.core.foreign import is_closed, is_mcp_error, is_transport_error, leaf, waited_in_vain
from mcp_magic.core.malformed import bad_item, unreadable
from mcp_magic.core.place import Place, not_recorded, text_of
from mcp_magic.core.repeating import BUSY
from mcp_magic.wording import clause, listed, sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.core.outcome import Outcome

__all__ = ["Place", "closed_error", "connect_error", "request_error", "why_closed"]

_INTERNAL_ERROR, _INVALID_REQUEST = -32603, -32600
"""The codes of what the SDK says in the place of a server that answered by an HTTP status alone."""

_TIMED_OUT = -32001
"""The SDK's code for a request that was not answered in time; some servers say "session not found" by it."""

_SDK_TIMED_OUT = re.compile(r"Request .* timed out")


def request_error(
    error: BaseException, place: Place, what: str, seconds: float | None = None, outcome: Outcome | None = None
) -> Exception:
    """Say why a request on an open session failed.

    Args:
        error: What the SDK raised.
        place: The connection.
        what: What was asked, for example `"weather:forecast"`.
        seconds: The time-out that was in force.
        outcome: What became of this request below the session, or None where that is not known.
    """
    found = leaf(error)
    if isinstance(found, errors.MCPMagicError):
        return found
    if not_recorded(found, place):
        return errors.CassetteError(str(found))
    if outcome is not None and outcome.status in BUSY:
        return _protocol_error(found, place, what, outcome)
    if _timed_out(found) or waited_in_vain(found):
        after = f" within {seconds:g} s" if seconds is not None else " in time"
        return errors.RequestTimeoutError(f"{what}: no answer{after}; the server has been told that nobody waits.")
    if is_closed(found):
        return closed_error(place, found)
    broken = unreadable(found) if is_mcp_error(found) else ""
    if is_mcp_error(found) and not broken:
        return _protocol_error(found, place, what, outcome)
    # pydantic's ValidationError, a result that breaks its schema, an answer that is no JSON-RPC
    if isinstance(found, ValueError | RuntimeError) or broken:
        result = outcome.result if outcome is not None else None
        reason = place.masked(broken)[:300] or text_of(found, place) + bad_item(found, result)
        return errors.InvalidResponseError(f"{what}: the server's answer breaks the protocol: {reason}")
    return errors.SessionError(f"{what}: {type(found).__name__}: {text_of(found, place)}")


def closed_error(place: Place, reason: BaseException | None = None) -> errors.SessionClosedError:
    """Say that a session is gone, why if that is known, and how to open it again."""
    again = f"`%mcp reconnect {place.name}` opens it again"
    said = place.said(since=place.quiet)
    text = f"{place.name}: the session has ended{why_closed(place, reason)}; {again}.{said}"
    return errors.SessionClosedError(text, stderr=place.stderr())


def why_closed(place: Place, reason: BaseException | None = None) -> str:
    """Say why a session is gone, as words behind `has ended`; "" if that is not known."""
    status = getattr(getattr(reason, "response", None), "status_code", None)
    if status is not None:
        return f" after HTTP {status}"
    if how := place.ended():
        return how
    return f" ({text_of(reason, place)})" if reason is not None and is_transport_error(reason) else ""


def _timed_out(found: BaseException) -> bool:
    return getattr(found, "code", None) == _TIMED_OUT and _SDK_TIMED_OUT.match(str(found)) is not None


def _protocol_error(found: Any, place: Place, what: str, outcome: Outcome | None) -> errors.ProtocolError:
    status = outcome.status if outcome is not None else None
    wait = outcome.retry_after if outcome is not None and outcome.status in BUSY else None
    code, data = getattr(found, "code", _INTERNAL_ERROR), getattr(found, "data", None)
    said = _status_words(found, place, status, wait) if status in BUSY or _is_made_up(found) else ""
    said = said or _code_words(found, place)
    return errors.ProtocolError(f"{what}: {said}", code, data, status=status, retry_after=wait)


def _is_made_up(found: Any) -> bool:
    """Whether the SDK says it, because HTTP answered with a status alone."""
    made_up = str(found).startswith(("Server returned", "Session term"))
    return is_closed(found) or (made_up and found.code in (_INTERNAL_ERROR, _INVALID_REQUEST))


def _status_words(found: Any, place: Place, status: int | None, wait: float | None) -> str:
    """Name the HTTP status, what it means and whose fault it is; "" where it is no failure."""
    if status is None or status < 400:
        return ""
    own = "" if _is_made_up(found) else clause(text_of(found, place))
    if wait is not None:
        meaning = own or ("it is asked too often" if status == 429 else "the server is not ready")
        return f"HTTP {status}: {meaning}; it asks to wait {wait:.0f} s. It did not run."
    fault = of_status(status)
    return sentence(f"HTTP {status} ({fault.meaning}; fault: {who(fault)})", own or fault.help)


def _code_words(found: Any, place: Place) -> str:
    """Name the code, what it means and whose fault it is; where that says how to go on, on a second line."""
    if method := asked_in_vain(str(found)):
        return instead(method)
    fault = of_code(found.code)
    said = f"{clause(text_of(found, place))} ({found.code}, {fault.meaning}; fault: {who(fault)})"
    todo = fault.help.replace("{server}", place.name)
    more = "; ".join(part for part in (_details(found.data), todo) if part)
    return f"{said}\n  {place.masked(more)}" if more else said


def _details(data: Any) -> str:
    """Return what the `data` of an error of the specification names: versions, capabilities."""
    named = data if isinstance(data, dict) else {}
    supported, required = named.get("supported"), named.get("requiredCapabilities")
    if isinstance(supported, list):
        return f"it takes {_names(supported)}"
    return f"it wants {_names(required)}" if isinstance(required, dict) else ""


def _names(found: Iterable[object]) -> str:
    return listed(str(name)[:40] for name in found)
