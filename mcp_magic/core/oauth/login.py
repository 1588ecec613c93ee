"""One log-in of a person: what they are shown, and how their answer comes back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from mcp_magic.core.linkhost import host_of
from mcp_magic.errors import AuthorizationError
from mcp_magic.results.safe import one_line
from mcp_magic.wording import sentence

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CALLBACK_PATH", "LogIn", "Redirected"]

CALLBACK_PATH = "/callback"
"""The path of the redirect URI."""


@dataclass(frozen=True)
class Redirected:
    """What the authorization server sent back with the browser (RFC 6749, section 4.1.2; RFC 9207)."""

    code: str = field(repr=False)
    state: str = field(repr=False)
    issuer: str | None = None


class LogIn:
    """A log-in that waits for a person.

    Args:
        server: The MCP server's name.
        where: Its URL, without secrets.
        url: The page to open, at the authorization server.
        redirect_uri: Where the browser is sent from there.
        seconds: How long it waits.
        comes_from: Whether an answer with this issuer (RFC 9207), or with none, is one of that server's. A code is
            checked where it is exchanged; the words of an error are not even shown if this says no.

    Attributes:
        stale: Answers that belonged to another log-in.
        outcome: `""` while it waits, then `"done"`, `"refused"` or `"cancelled"`.
    """

    def __init__(
        self,
        server: str,
        where: str,
        url: str,
        redirect_uri: str,
        seconds: float,
        comes_from: Callable[[str | None], bool] = lambda issuer: True,
    ) -> None:
        self.server = server
        self.where = where
        self.url = url
        self.redirect_uri = redirect_uri
        self.seconds = seconds
        self._comes_from = comes_from
        self.stale = 0
        self.outcome = ""
        asked = parse_qs(urlsplit(url).query)
        self._state = asked.get("state", [""])[0]
        self._scope = asked.get("scope", [""])[0]
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Redirected] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<LogIn to {self.server!r} at {self.host} {self.outcome or 'waits'}>"

    @property
    def host(self) -> str:
        """The host (and port) of the authorization server."""
        return host_of(self.url)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are asked for."""
        return tuple(self._scope.split())

    def pasted(self, text: str) -> str:
        """Take the address to which the browser was sent, as a person copied it.

        Returns:
            `""` if it is the answer to this log-in, or else what is wrong with it. From any thread.
        """
        text = text.strip().strip("'\"<>")
        query = parse_qs(urlsplit(text).query) if "?" in text else {}
        if urlsplit(text).path != CALLBACK_PATH or not ("code" in query or "error" in query):
            return f"this is not the address that the browser was sent to; it begins with {self.redirect_uri}?"
        if self._take(query) == "stale":
            return "this address belongs to another log-in; open the link that is shown here"
        return ""

    def redirected(self, url: str) -> str:
        """Take the URL that the browser asked the callback for. From any thread.

        Returns:
            `"done"`, `"refused"`, or `"stale"` if it is no answer to this log-in.
        """
        return self._take(parse_qs(urlsplit(url).query))

    def cancel(self) -> None:
        """End it; the person does not want to. From any thread."""
        self._settle("cancelled", AuthorizationError(f"{self.server}: the log-in at {self.host} was cancelled."))

    async def answered(self) -> None:
        """Wait until there is an answer, of whatever kind."""
        await asyncio.wait({self._answer})

    def _take(self, query: dict[str, list[str]]) -> str:
        said = {name: values[0] for name, values in query.items()}
        foreign = "error" in said and not self._comes_from(said.get("iss"))
        if not self._state or said.get("state") != self._state or foreign:
            self.stale += 1
            return "stale"
        if "error" in said:
            self._settle("refused", AuthorizationError(f"{self.server}: {_refusal(said, self.host)}"))
            return "refused"
        if "code" not in said:
            return "stale"
        self._settle("done", Redirected(said["code"], said["state"], said.get("iss")))
        return "done"

    def _settle(self, outcome: str, answer: Redirected | AuthorizationError) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._settled, outcome, answer)

    def _settled(self, outcome: str, answer: Redirected | AuthorizationError) -> None:
        if self._answer.done():
            return
        self.outcome = outcome
        if isinstance(answer, Redirected):
            self._answer.set_result(answer)
        else:
            self._answer.set_exception(answer)
            self._answer.exception()  # seen, should nobody wait for it any more

    def result(self) -> Redirected:
        """Return the answer.

        Raises:
            AuthorizationError: It was refused or cancelled.
        """
        return self._answer.result()


def _refusal(said: dict[str, str], host: str) -> str:
    """Say what the error of an authorization response means (RFC 6749, section 4.1.2.1)."""
    why = one_line(said.get("error_description", ""), 200)
    code = one_line(said["error"], 40)
    because = f" {sentence('It says', why)}" if why else ""
    match code:
        case "access_denied":
            return f"{host} did not give access: you, or its rules, refused it (access_denied).{because}"
        case "invalid_scope":
            return f"{host} does not know what was asked for (invalid_scope); --scope names others.{because}"
        case "server_error" | "temporarily_unavailable":
            return f"{host} failed ({code}); it is its fault, try again later.{because}"
    return f"{host} refused the log-in ({code}).{because}"
