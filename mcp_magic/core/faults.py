"""What error codes and HTTP statuses mean, and whose fault each is: the one table of them.

Sources: JSON-RPC 2.0, section 5.1; the specification's "Error Handling", whose code space of 2026-07-28 is
-32020 to -32099; RFC 9110, section 15. What the SDK makes up by itself (-32000, -32001) stands here too.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

__all__ = ["CALLER", "CODES", "HOST", "NETWORK", "SERVER", "STATUSES", "YOU", "Fault", "of_code", "of_status", "who"]

CALLER, HOST, SERVER = "the caller", "mcp_magic", "the server"
NETWORK, YOU = "the network", "you"


class Fault(NamedTuple):
    """An error code or a status.

    Attributes:
        meaning: What it means, in a few words.
        who: Whose fault it is where the server says it to this host: `CALLER` (what was asked for), `HOST` (how it
            was asked), `SERVER`, `NETWORK` or `YOU` (credentials, a page to open).
        help: What to do, without a full stop, `{server}` for its name; "" where the server's own words say it.
    """

    meaning: str
    who: str
    help: str = ""


CODES = {
    -32700: Fault("parse error", HOST, "it could not read what was sent as JSON; `%mcp trace` shows the message"),
    -32600: Fault("invalid request", HOST, "the request has not the form it wants; `%mcp trace` shows it"),
    -32601: Fault("method not found", CALLER, "this server does not have what was asked for"),
    -32602: Fault("invalid params", CALLER),
    -32603: Fault("internal error", SERVER, "its log may say more: `%mcp logs {server}`"),
    -32000: Fault("server error", SERVER),
    -32001: Fault("no answer in time", SERVER),
    -32002: Fault("resource not found", CALLER, "`%mcp resources` lists what there is"),
    -32020: Fault(
        "header mismatch", HOST, "the HTTP headers do not say what the message says; a proxy may have cut them"
    ),
    -32021: Fault("missing client capability", HOST, "it wants something that this host did not announce"),
    -32022: Fault("unsupported protocol version", HOST, "`%mcp doctor` says which versions it takes"),
    -32042: Fault("URL elicitation required", YOU, "a page has to be opened first"),
    -1: Fault("refused by the person", YOU),
}
"""JSON-RPC and MCP error codes."""

STATUSES = {
    400: Fault("", CALLER, "the server did not understand the request; is this its MCP endpoint?"),
    401: Fault("", YOU, "it wants credentials, for example --header 'Authorization: Bearer TOKEN'"),
    403: Fault("", YOU, "it refuses these credentials, or this host name"),
    404: Fault("", CALLER, "nothing is served under this path; it often ends in /mcp or /sse"),
    405: Fault("", CALLER, "this path takes no POST; is it the MCP endpoint?"),
    406: Fault("", HOST, "it answers neither JSON nor event streams"),
    407: Fault("", YOU, "a proxy on the way wants credentials"),
    408: Fault("", NETWORK, "the request took too long to arrive; try again"),
    413: Fault("", CALLER, "what was sent is more than it takes"),
    415: Fault("", CALLER, "it takes no JSON; is this its MCP endpoint?"),
    429: Fault("", CALLER, "it is asked too often; wait and try again"),
    502: Fault("", NETWORK, "a proxy could not reach the server behind it"),
    503: Fault("", SERVER, "the server is not ready; try again"),
    504: Fault("", NETWORK, "a proxy waited in vain for the server behind it"),
}
"""HTTP statuses; their meaning is what RFC 9110 calls them. Of the others those below 500 are the caller's fault."""

_RESERVED = Fault("reserved by the specification", SERVER)
_OWN = Fault("the server's own code", SERVER)


def of_code(code: object) -> Fault:
    """Return what an error code means.

    >>> of_code(-32602).meaning, of_code(-31999).meaning, of_code(-32050).meaning
    ('invalid params', "the server's own code", 'reserved by the specification')
    """
    if not isinstance(code, int):
        return Fault("no code", SERVER)
    reserved = -32099 <= code <= -32020 or -32768 <= code < -32099
    return CODES.get(code) or (_RESERVED if reserved else _OWN)


def of_status(status: int) -> Fault:
    """Return what an HTTP status means.

    >>> of_status(404)[:2], of_status(418)[:2], of_status(599)[:2]
    (('not found', 'the caller'), ("i'm a teapot", 'the caller'), ('an error', 'the server'))
    """
    known = STATUSES.get(status)
    if known is None:
        ours = status < 500
        known = Fault("", CALLER if ours else SERVER, "the server refused" if ours else "the server failed")
    try:
        return known._replace(meaning=HTTPStatus(status).phrase.lower())
    except ValueError:
        return known._replace(meaning="an error")


def who(fault: Fault, *, asked_by_us: bool = True) -> str:
    """Return whose fault it is, seen from here.

    Args:
        fault: What was answered.
        asked_by_us: Whether it answers a request of this host's; else this host answered so to the server.

    >>> who(of_code(-32602)), who(of_code(-32602), asked_by_us=False), who(of_code(-32603), asked_by_us=False)
    ('the caller', 'the server', 'mcp_magic')
    """
    if asked_by_us or fault.who in (NETWORK, YOU):
        return fault.who
    return HOST if fault.who == SERVER else SERVER
