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


@dataclass(frozen=True)
class Parties:
    """The servers of a log-in, and the errors that name them."""

    server: str
    where: str  # the URL of the MCP server, without secrets
    issuer: str = ""
    hide: Callable[[str], str] = str  # masks the known secrets in a text

    @property
    def authority(self) -> str:
        """The host of the authorization server, or a description of it, for a message."""
        return self.issuer or "the authorization server"

    def error(self, problem: str) -> AuthorizationError:
        """Return an error of this log-in."""
        return AuthorizationError(f"{self.server}: {problem}")

    def explained(self, error: Exception) -> AuthorizationError:
        """Return the error that explains an error of the SDK's checks."""
        for pattern, words in _EXPLANATIONS:
            if match := re.match(pattern, str(error), re.DOTALL):
                hosts = [one_line(text, 100) for text in match.groups()]
                return self.error(words.format(*hosts, at=self.authority, where=self.where))
        kind = type(error).__name__
        return self.error(
            f"the log-in at {self.authority} failed ({kind}); its answers do not fit OAuth 2.1 as MCP uses it."
        )

    def no_token(self, status: int, body: str, lead: str = "") -> AuthorizationError:
        """Return the error for an answer of the token endpoint (RFC 6749, section 5.2)."""
        code, why = _oauth_error(body)
        return self.error(lead + refusal(self.authority, code, self.hide(why), status))

    def not_registered(self, status: int, body: str) -> AuthorizationError:
        """Return the error for an authorization server that registers no program (RFC 7591, section 3.2.2)."""
        code, why = _oauth_error(body)
        reason = one_line(self.hide(why or (code if status != 400 else "")), 200)
        if status == 429:
            refused = f"{self.authority} got too many registrations (HTTP 429)"
        elif status >= 500:
            refused = f"{self.authority} failed to register this client (HTTP {status}; fault: the server)"
        elif status == 400 and code in _METADATA_ERRORS:
            refused = f"{self.authority} does not accept the metadata of this client (HTTP {status}, {code})"
        elif status in (404, 405):
            refused = f"{self.authority} has no registration for new clients (HTTP {status})"
        else:
            refused = f"{self.authority} does not let new clients register (HTTP {status})"
        again = "Try again later, or register" if status == 429 or status >= 500 else "Register"
        return self.error(
            f"{sentence(refused, reason)} {again} one there by hand and give --client-id ID (redirect URI "
            "http://127.0.0.1:PORT/callback, --redirect-port PORT)."
        )

    def refused_again(self, response: httpx2.Response, granted: str | None) -> AuthorizationError:
        """Return the error for a server that refuses a token that was just issued for it, with these scopes."""
        if response.status_code == 403:
            match = re.search(r'scope="([^"]*)"', response.headers.get("www-authenticate", ""))
            scopes = one_line(match[1], 200) if match else "more"
            return self.error(
                f"{self.where} wants the scopes {scopes!r}, and {self.authority} gave {granted or 'none'!r} "
                "(insufficient_scope). Ask its operator for more."
            )
        return self.error(
            f"{self.where} does not take the token that {self.authority} has just given (HTTP 401); one of the two is "
            "set up wrong, and their operators must fix that."
        )


def refusal(at: str, code: str, why: str, status: int = 0) -> str:
    """Return what an OAuth error means: its code, description and HTTP status (0 if it came to the log-in page)."""
    because = f" {sentence('It says', why)}" if why else ""
    is_failure = status >= 500 or status == 429
    label = one_line(code, 40) if code and not is_failure else f"HTTP {status}"
    if is_failure or code in ("server_error", "temporarily_unavailable"):
        return f"{at} failed ({label}); the fault is on its side, try again later.{because}"
    return f"{at} {OAUTH_ERRORS.get(code, 'refused the log-in')} ({label}).{because}"


_METADATA_ERRORS = ("invalid_redirect_uri", "invalid_client_metadata")
"""Error codes of a registration that is refused because of what the client says of itself (RFC 7591, section 3.2.2)."""


def _oauth_error(body: str) -> tuple[str, str]:
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("error") or ""), one_line(str(error.get("error_description") or ""), 200)


OAUTH_ERRORS = {
    "access_denied": "did not give access: you, or its rules, refused it",
    "invalid_scope": "refused: it does not give these scopes; --scope names others",
    "invalid_grant": "refused: the log-in is too old, was used already, or belongs to another client; log in again",
    "invalid_client": "refused: the client is unknown there, or its secret is wrong; check client_id and client_secret",
    "unauthorized_client": "refused: this client is not allowed to use this grant; its operator must allow it",
    "unsupported_grant_type": "refused: it does not offer this grant",
    "invalid_target": "refused: it gives no tokens for this server (resource)",
    "invalid_request": "refused: it did not understand the request",
}
"""Error code of an authorization server -> its meaning, after the server's name (RFC 6749, 4.1.2.1 and 5.2)."""

_EXPLANATIONS = [
    (r"Invalid registration response", "{at} answered the registration with something else; the fault is on its side."),
    (
        r"Authorization server registered",
        "{at} registered this client in a way that it cannot use; the fault is on its side.",
    ),
    (r"Invalid token response", "{at} answered with something that is not a token; the fault is on its side."),
    (
        r"Authorization response iss mismatch: (\S+) != (\S+)",
        "the answer came from {0} and not from {1}, where you were sent (wrong issuer): it was not used.",
    ),
    (
        r"Authorization response missing iss",
        "{at} promises to name the issuer in its answers (iss) and did not: the answer was not used.",
    ),
    (
        r"Authorization server metadata issuer mismatch: (\S+) != (\S+)",
        "the metadata of {1} is that of {0} (wrong issuer): nothing was sent there. Its operator must fix it.",
    ),
    (
        r"Protected resource (\S+) does not match expected (\S+)",
        "{1} says that it is {0} (wrong resource): no token was asked for. Its operator must fix that.",
    ),
    (
        r"Protected resource metadata request failed: HTTP (\d+)",
        "{where} could not say where to log in (HTTP {0}); the fault is on its side, try again later.",
    ),
]
"""Pattern of a message of the SDK -> our message."""
