"""How the sessions of a host log in: who shows a log-in, where tokens are kept, and when nobody waits any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_magic.core.oauth.login import LogIn
from mcp_magic.core.oauth.store import Store, make_store
from mcp_magic.core.outcome import current
from mcp_magic.core.underway import current_call, person_asked
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from mcp_magic.core.oauth.callback import CallbackServer
    from mcp_magic.core.oauth.login import Redirected

__all__ = ["Authorizer", "LogIns"]

T = TypeVar("T")

LOGIN_SECONDS = 300.0
"""Seconds a person has to log in."""

GIVEN_UP_SECONDS = 0.1
"""Seconds between two looks at whether anybody waits for the request that wants the log-in."""

FAREWELL_SECONDS = 2.0
"""Seconds the authorizer has to put away what it showed, when the answer is there."""


Authorizer = Callable[[LogIn], Awaitable[None]]
"""Shows a log-in to the person, and stays until it is answered: any `async def (login) -> None`."""


@dataclass
class LogIns:
    """How the sessions of a host log in.

    Attributes:
        authorizer: Shows a log-in to the person; None where nobody can be asked.
        possible: Whether a person can be asked just now.
        confirm: Asks the person for a yes before this program registers at an authorization server: `async def (text)`,
            which returns None where nobody can be asked. A program that sets only `authorizer` is not asked.
        seconds: How long a log-in may take.
        where: Where tokens are kept: auto, keyring, file or memory.
    """

    authorizer: Authorizer | None = None
    possible: Callable[[], Awaitable[bool]] | None = None
    confirm: Callable[[str], Coroutine[Any, Any, bool | None]] | None = None
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
        return await _asked(self._shown(login), f"{login.server}: the log-in at {login.host} was interrupted.")

    async def permits(self, text: str, interrupted: str) -> bool | None:
        """Ask the person for a yes; None where nobody can be asked.

        Args:
            text: What it is for.
            interrupted: The error if nobody waits for the answer any more.

        Raises:
            AuthorizationError: Nobody waits for the answer any more, or nobody answered in time.
        """
        if self.confirm is None:
            return True
        try:
            return await _asked(self.confirm(text), interrupted)
        except TimeoutError:
            late = f"nobody answered in time: {text.partition(chr(10))[0]}"
        raise AuthorizationError(late)

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


async def _asked(question: Coroutine[Any, Any, T], interrupted: str) -> T:
    """Wait for the answer to a question, below the cell that called; the clock of the call stands still."""
    with person_asked():
        call, made = current_call(), current.get()
        asking = asyncio.ensure_future(question) if call is None else call.ask(question)
        try:
            while not asking.done() and not (made is not None and made.given_up):
                await asyncio.wait({asking}, timeout=GIVEN_UP_SECONDS)
        finally:
            asking.cancel()
    if not asking.done() or asking.cancelled():  # in the handshake era its request goes on
        raise AuthorizationError(interrupted)
    return asking.result()
