"""One log-in of a person: what they are shown, and how their answer comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from mcp_magic.core.elicitation import host_of
from mcp_magic.core.oauth.store import Store, make_store
from mcp_magic.core.underway import current_call, person_asked
from mcp_magic.errors import AuthorizationError
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from mcp_magic.core.oauth.callback import CallbackServer

__all__ = ["CALLBACK_PATH", "Authorizer", "LogIn", "LogIns", "Redirected"]

CALLBACK_PATH = "/callback"
"""The path of the redirect URI."""

LOGIN_SECONDS = 300.0
"""Seconds a person has to log in."""

FAREWELL_SECONDS = 2.0
"""Seconds the authorizer has to put away what it showed, when the answer is there."""


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


Authorizer = Callable[[LogIn], Awaitable[None]]
"""Shows a log-in to the person, and stays until it is answered: any `async def (login) -> None`."""


@dataclass
class LogIns:
    """How the sessions of a host log in.

    Attributes:
        authorizer: Shows a log-in to the person; None where nobody can be asked.
        possible: Whether a person can be asked just now.
        seconds: How long a log-in may take.
        where: Where tokens are kept: auto, keyring, file or memory.
    """

    authorizer: Authorizer | None = None
    possible: Callable[[], Awaitable[bool]] | None = None
    seconds: float = LOGIN_SECONDS
    where: str = "auto"
    _stores: dict[str, Store] = field(default_factory=dict, repr=False)

    def store(self) -> Store:
        """Return the store of tokens.

        Raises:
            MissingDependencyError: A keyring is wanted, and there is none.
        """
        if self.where not in self._stores:
            self._stores[self.where] = make_store(self.where)
        return self._stores[self.where]

    async def can_ask(self) -> bool:
        """Whether a person can be asked."""
        return self.authorizer is not None and (self.possible is None or await self.possible())

    async def ask(self, login: LogIn, callback: CallbackServer) -> Redirected:
        """Let the person log in; the clock of the call that needs it stands still, and its end is the end of this.

        Raises:
            AuthorizationError: They did not, or not in time.
        """
        callback.judge = login.redirected
        with person_asked():
            call = current_call()
            if call is None:
                return await self._shown(login)
            question = call.ask(self._shown(login))  # below the cell that called
            try:
                await asyncio.wait({question})
            finally:
                question.cancel()
        if question.cancelled():  # nobody waits for the call any more; in the handshake era its request goes on
            raise AuthorizationError(f"{login.server}: the log-in at {login.host} was interrupted.")
        return question.result()

    async def _shown(self, login: LogIn) -> Redirected:
        assert self.authorizer is not None
        showing = asyncio.ensure_future(self.authorizer(login))
        answered = asyncio.ensure_future(login.answered())
        try:
            await asyncio.wait({showing, answered}, timeout=login.seconds, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # an answer that the authorizer has just handed over is on its way
            if login.outcome:
                await asyncio.wait({showing}, timeout=FAREWELL_SECONDS)
                return login.result()
            failed = showing.exception() if showing.done() and not showing.cancelled() else None
            if failed is not None and not isinstance(failed, TimeoutError):
                raise failed
            late = not showing.done() or failed is not None
        finally:
            for task in (showing, answered):
                task.cancel()
            await asyncio.wait({showing, answered}, timeout=FAREWELL_SECONDS)
        raise AuthorizationError(self._in_vain(login, late=late))

    def _in_vain(self, login: LogIn, *, late: bool) -> str:
        if not late:
            return f"{login.server}: the log-in at {login.host} was not answered."
        again = f" ({login.stale} answers to other log-ins were not believed)" if login.stale else ""
        return (
            f"{login.server}: nobody logged in at {login.host} within {login.seconds:g} s{again}. "
            "Try again; MCPMagics.login_timeout gives more time."
        )


def _refusal(said: dict[str, str], host: str) -> str:
    """Say what the error of an authorization response means (RFC 6749, section 4.1.2.1)."""
    why = one_line(said.get("error_description", ""), 200)
    code = one_line(said["error"], 40)
    because = f" It says: {why}" if why else ""
    match code:
        case "access_denied":
            return f"{host} did not give access: you, or its rules, refused it (access_denied).{because}"
        case "invalid_scope":
            return f"{host} does not know what was asked for (invalid_scope); --scope names others.{because}"
        case "server_error" | "temporarily_unavailable":
            return f"{host} failed ({code}); it is its fault, try again later.{because}"
    return f"{host} refused the log-in ({code}).{because}"
