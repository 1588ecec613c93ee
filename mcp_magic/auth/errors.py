"""Messages for failed log-ins: whose fault it is, and what to do.

They do not repeat the SDK's messages, because some of those quote the authorization server's answer, tokens included.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_magic._text import sentence
from mcp_magic.display.text import one_line
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

__all__ = ["Parties", "explain", "refused_again", "refused_registration", "token_refusal"]


@dataclass(frozen=True)
class Parties:
    """The servers of a log-in.

    Attributes:
        server: The name of the MCP server.
        where: The URL of the MCP server, without secrets.
        issuer: The host of the authorization server, or "" while it is unknown.
        hide: Masks the known secrets in a text.
    """

    server: str
    where: str
    issuer: str = ""
    hide: Callable[[str], str] = str

    @property
    def authority(self) -> str:
        """The host of the authorization server, or a description of it, for a message."""
        return self.issuer or "the authorization server"


def explain(error: Exception, parties: Parties) -> AuthorizationError:
    """Return the error that explains an error of the SDK's checks."""
    for pattern, words in _WORDS:
        if match := re.match(pattern, str(error), re.DOTALL):
            hosts = [one_line(text, 100) for text in match.groups()]
            problem = words.format(*hosts, at=parties.authority, where=parties.where)
            return AuthorizationError(f"{parties.server}: {problem}")
    return AuthorizationError(
        f"{parties.server}: the log-in at {parties.authority} failed ({type(error).__name__}); "
        "its answers do not fit OAuth 2.1 as MCP uses it."
    )


def token_refusal(status: int, body: str, parties: Parties) -> str:
    """Return what an error of the token endpoint means (RFC 6749, section 5.2)."""
    code, why = _oauth_error(body)
    because = f" {sentence('It says', parties.hide(why))}" if why else ""
    if status >= 500 or status == 429:
        return f"{parties.authority} failed (HTTP {status}); it is its fault, try again later.{because}"
    meaning = TOKEN_ERRORS.get(code, "it gave no token")
    shown = f" ({one_line(code, 40)})" if code else f" (HTTP {status})"
    return f"{parties.authority} refused: {meaning}{shown}.{because}"


def refused_registration(status: int, body: str, parties: Parties) -> str:
    """Return the message that an authorization server does not register this program (RFC 7591, section 3.2.2)."""
    code, why = _oauth_error(body)
    reason = one_line(parties.hide(why or code), 200)
    refused = sentence(f"{parties.authority} does not let new clients register (HTTP {status})", reason)
    return (
        f"{refused} Register one there by hand and say --client-id ID (redirect URI http://127.0.0.1:PORT/callback, "
        "--redirect-port PORT)."
    )


def refused_again(response: httpx2.Response, given: str | None, parties: Parties) -> str:
    """Return the message that a server refuses a token that was just issued for it.

    Args:
        response: The refusal, 401 or 403.
        given: The scopes of the token.
        parties: The servers of the log-in.
    """
    if response.status_code == 403:
        match = re.search(r'scope="([^"]*)"', response.headers.get("www-authenticate", ""))
        wanted = one_line(match[1], 200) if match else "more"
        return (
            f"{parties.server}: {parties.where} wants the scopes {wanted!r}, and {parties.authority} gave "
            f"{given or 'none'!r} (insufficient_scope). Ask whoever grants you access there for more."
        )
    return (
        f"{parties.server}: {parties.where} does not take the token that {parties.authority} has just given "
        "(HTTP 401); one of the two is set up wrong, and their operators have to mend that."
    )


def _oauth_error(body: str) -> tuple[str, str]:
    """Return the code and the description of an OAuth error, "" for each that is missing."""
    try:
        error = json.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("error") or ""), one_line(str(error.get("error_description") or ""), 200)


TOKEN_ERRORS = {
    "invalid_grant": "the log-in is too old, was used already, or belongs to another client; log in again",
    "invalid_client": "it does not know this client, or its secret is wrong; check client_id and client_secret",
    "unauthorized_client": "this client may not use this grant; whoever registered it has to allow it",
    "unsupported_grant_type": "it does not offer this grant",
    "invalid_scope": "it does not give these scopes; --scope names others",
    "invalid_target": "it gives no tokens for this server (resource)",
    "invalid_request": "it did not understand the request",
}
"""Error code of the token endpoint -> its meaning."""

_WORDS = [
    (r"Invalid registration response", "{at} answered the registration with something that is none; its fault."),
    (r"Authorization server registered", "{at} registered this client in a way that it cannot use; its fault."),
    (r"Invalid token response", "{at} answered with something that is no token; its fault."),
    (
        r"Authorization response iss mismatch: (\S+) != (\S+)",
        "the answer came from {0} and not from {1}, where you were sent (wrong issuer): it was not used.",
    ),
    (
        r"Authorization response missing iss",
        "{at} promises to say who it is in its answers (iss) and did not: the answer was not used.",
    ),
    (
        r"Authorization server metadata issuer mismatch: (\S+) != (\S+)",
        "the metadata of {1} is that of {0} (wrong issuer): nothing was sent there. Its operator must mend it.",
    ),
    (
        r"Protected resource (\S+) does not match expected (\S+)",
        "{1} says that it is {0} (wrong resource): no token was asked for. Its operator must mend that.",
    ),
    (
        r"Protected resource metadata request failed: HTTP (\d+)",
        "{where} could not say where to log in (HTTP {0}); its fault, try again later.",
    ),
]
"""Pattern of a message of the SDK -> our message."""
