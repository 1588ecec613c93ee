"""What a failed message says, and whose fault that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.border import CODES
from mcp_magic.core.trace import OUT

if TYPE_CHECKING:
    from mcp_magic.core.trace import Entry

__all__ = ["ASKER", "CODE_FAULTS", "STATUS_FAULTS", "fault", "meaning"]

ASKER, ANSWERER, PERSON, BETWEEN = "who asked", "who answered", "you", "the way between"

CODE_FAULTS = {
    -32700: ASKER,
    -32600: ASKER,
    -32601: ASKER,
    -32602: ASKER,
    -32603: ANSWERER,
    -32000: BETWEEN,
    -32001: ANSWERER,
    -32002: ASKER,
    -32020: ASKER,
    -32021: ASKER,
    -32022: ASKER,
    -32042: PERSON,
}
"""JSON-RPC and MCP error code -> whose fault it is: the specification says who may send it when."""

STATUS_FAULTS = {
    401: PERSON,
    403: PERSON,
    404: ASKER,
    407: PERSON,
    408: BETWEEN,
    429: ASKER,
    502: BETWEEN,
    504: BETWEEN,
}
"""HTTP status -> whose fault it is; of the others those below 500 are the asker's, the rest the answerer's."""

_SDK = {-32000: "connection closed", -32001: "request timeout"}


def meaning(code: object) -> str:
    """Return an error code in words.

    >>> meaning(-32602), meaning(-31999), meaning(-32050)
    ('invalid params', "the server's own code", 'reserved by the specification')
    """
    if not isinstance(code, int):
        return "no code"
    if code in CODES or code in _SDK:
        return CODES.get(code) or _SDK[code]
    if -32099 <= code <= -32020 or -32768 <= code < -32099:
        return "reserved by the specification"
    return "the server's own code"


def fault(entry: Entry) -> str | None:
    """Return whose fault a failed message is: `"server"`, `"this host"`, `"you"`, `"the way between"`; None of others.

    A tool's own error has no such: whether the arguments or the tool are to blame its text has to say.
    """
    if not entry.failed or entry.kind == "line":
        return None
    if entry.kind == "garbage":
        return "server"
    if entry.status is not None and entry.status >= 400:
        return _who(STATUS_FAULTS.get(entry.status, ASKER if entry.status < 500 else ANSWERER), asked_by_us=True)
    error = entry.message.get("error")
    if not isinstance(error, dict):
        return None
    # the answer to what this host asked comes in; what goes out answers the server
    return _who(CODE_FAULTS.get(error.get("code", 0), ANSWERER), asked_by_us=entry.direction != OUT)


def _who(who: str, *, asked_by_us: bool) -> str:
    if who in (PERSON, BETWEEN):
        return who
    return "this host" if (who == ASKER) == asked_by_us else "server"
