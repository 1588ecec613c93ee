"""What went wrong in a log-in, in words: whose fault it is, and what to do.

The SDK's own texts are not repeated: some of them hold what the authorization server answered, tokens included.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_magic.errors import AuthorizationError
from mcp_magic.results.safe import one_line
from mcp_magic.wording import sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

__all__ = ["Parties", "host_and_port", "in_words", "is_private", "refused_again", "token_refusal"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Parties:
    """Who a log-in is between.

    Attributes:
        server: The MCP server's name.
        where: Its URL, without secrets.
        issuer: The host of the authorization server, or "" as long as it is not known.
        hide: Masks the secrets that are known.
    """

    server: str
    where: str
    issuer: str = ""
    hide: Callable[[str], str] = str

    @property
    def authority(self) -> str:
        """The authorization server, for a message."""
        return self.issuer or "the authorization server"


def host_and_port(url: str) -> str:
    """Return a URL's host and port, without user info."""
    return urlsplit(url).netloc.rpartition("@")[2]


def is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent to a URL: TLS, or this machine.

    >>> is_private("http://127.0.0.1:9000/token"), is_private("http://auth.example.com/token")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def in_words(error: Exception, parties: Parties) -> AuthorizationError:
    """Return what an error of the SDK's log-in means."""
    if isinstance(error, AuthorizationError):
        return error
    text = str(error)
    for pattern, words in _WORDS:
        if found := re.match(pattern, text, re.DOTALL):
            return AuthorizationError(f"{parties.server}: {words(found, parties)}")
    return AuthorizationError(
        f"{parties.server}: the log-in at {parties.authority} failed ({type(error).__name__}); "
        "its answers do not fit OAuth 2.1 as MCP uses it."
    )


def token_refusal(status: int, body: str, parties: Parties) -> str:
    """Say what an error of the token endpoint means (RFC 6749, section 5.2)."""
    code, why = _oauth_error(body)
    because = f" {sentence('It says', parties.hide(why))}" if why else ""
    if status >= 500 or status == 429:
        return f"{parties.authority} failed (HTTP {status}); it is its fault, try again later.{because}"
    meaning = _TOKEN_ERRORS.get(code, "it gave no token")
    shown = f" ({one_line(code, 40)})" if code else f" (HTTP {status})"
    return f"{parties.authority} refused: {meaning}{shown}.{because}"


def refused_again(response: httpx2.Response, given: str | None, parties: Parties) -> str:
    """Say that a server does not take a token that was got for it.

    Args:
        response: The refusal, 401 or 403.
        given: The scopes of the token.
        parties: Who the log-in was between.
    """
    if response.status_code == 403:
        found = re.search(r'scope="([^"]*)"', response.headers.get("www-authenticate", ""))
        wanted = one_line(found[1], 200) if found else "more"
        return (
            f"{parties.server}: {parties.where} wants the scopes {wanted!r}, and {parties.authority} gave "
            f"{given or 'none'!r} (insufficient_scope). Ask whoever grants you access there for more."
        )
    return (
        f"{parties.server}: {parties.where} does not take the token that {parties.authority} has just given "
        "(HTTP 401); one of the two is set up wrong, and their operators have to mend that."
    )


_TOKEN_ERRORS = {
    "invalid_grant": "the log-in is too old, was used already, or belongs to another client; log in again",
    "invalid_client": "it does not know this client, or its secret is wrong; check client_id and client_secret",
    "unauthorized_client": "this client may not use this grant; whoever registered it has to allow it",
    "unsupported_grant_type": "it does not offer this grant",
    "invalid_scope": "it does not give these scopes; --scope names others",
    "invalid_target": "it gives no tokens for this server (resource)",
    "invalid_request": "it did not understand the request",
}


def _oauth_error(body: str) -> tuple[str, str]:
    try:
        found = json.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(found, dict):
        return "", ""
    return str(found.get("error") or ""), one_line(str(found.get("error_description") or ""), 200)


def _refused_registration(found: re.Match[str], parties: Parties) -> str:
    code, why = _oauth_error(found[2].strip().removeprefix(" "))
    said = one_line(parties.hide(why or code), 200)
    refused = sentence(f"{parties.authority} does not let new clients register (HTTP {found[1]})", said)
    return (
        f"{refused} Register one there by hand and say --client-id ID (redirect URI http://127.0.0.1:PORT/callback, "
        "--redirect-port PORT)."
    )


def _refused_token(found: re.Match[str], parties: Parties) -> str:
    return token_refusal(int(found[1]), found[2].strip(), parties)


def _says(text: str) -> Callable[[re.Match[str], Parties], str]:
    return lambda found, parties: text.format(*map(_host, found.groups()), at=parties.authority, where=parties.where)


def _host(text: str) -> str:
    return one_line(text, 100)


_WORDS: list[tuple[str, Callable[[re.Match[str], Parties], str]]] = [
    (r"Registration failed: (\d+)(?: \([^)]*\))?(.*)", _refused_registration),
    (r"Token exchange failed \((\d+)\)(?: \([^)]*\))?:?(.*)", _refused_token),
    (r"Invalid registration response", _says("{at} answered the registration with something that is none; its fault.")),
    (r"Authorization server registered", _says("{at} registered this client in a way that it cannot use; its fault.")),
    (r"Invalid token response", _says("{at} answered with something that is no token; its fault.")),
    (
        r"State parameter mismatch",
        _says("the answer belongs to another log-in (wrong state); try again."),
    ),
    (
        r"Authorization response iss mismatch: (\S+) != (\S+)",
        _says("the answer came from {0} and not from {1}, where you were sent (wrong issuer): it was not used."),
    ),
    (
        r"Authorization response missing iss",
        _says("{at} promises to say who it is in its answers (iss) and did not: the answer was not used."),
    ),
    (
        r"Authorization server metadata issuer mismatch: (\S+) != (\S+)",
        _says("the metadata of {1} is that of {0} (wrong issuer): nothing was sent there. Its operator must mend it."),
    ),
    (
        r"Protected resource (\S+) does not match expected (\S+)",
        _says("{1} says that it is {0} (wrong resource): no token was asked for. Its operator must mend that."),
    ),
    (
        r"Protected resource metadata request failed: HTTP (\d+)",
        _says("{where} could not say where to log in (HTTP {0}); its fault, try again later."),
    ),
    (
        r"No authorization server metadata discovered for configured issuer (\S+)",
        _says("{where} does not lead to {0}, where this client's credentials belong: they were not sent."),
    ),
]
"""The SDK's texts -> ours."""
