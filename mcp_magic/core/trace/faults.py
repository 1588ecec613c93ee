"""What a failed message says, and whose fault that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.backchannel import asked_in_vain
from mcp_magic.core.faults import SERVER, of_code, of_status, who
from mcp_magic.core.trace.trace import IN, OUT

if TYPE_CHECKING:
    from mcp_magic.core.trace.trace import Entry

__all__ = ["fault", "meaning"]


def meaning(code: object) -> str:
    """Return an error code in words.

    >>> meaning(-32602)
    'invalid params'
    """
    return of_code(code).meaning


def fault(entry: Entry) -> str | None:
    """Return whose fault a failed message is, by the table of `core.faults`; None of others.

    A tool's own error has no such: whether the arguments or the tool are to blame its text has to say.
    """
    if entry.kind in ("answer", "error") and entry.pair is None and entry.direction == IN:
        return SERVER  # nobody asked
    if not entry.failed or entry.kind == "line":
        return None
    if entry.kind == "garbage":
        return SERVER
    if entry.status is not None and entry.status >= 400:
        return who(of_status(entry.status))
    error = entry.message.get("error")
    if not isinstance(error, dict):
        return None
    if asked_in_vain(error.get("message")):
        return SERVER
    # the answer to what this host asked comes in; what goes out answers the server
    return who(of_code(error.get("code")), asked_by_us=entry.direction != OUT)
