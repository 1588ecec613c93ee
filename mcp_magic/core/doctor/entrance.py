"""How an examination gets past a 401: with a token that is kept, or by the log-in of a session."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_magic.core.trace.record import Recorder

if TYPE_CHECKING:
    import httpx2

    from mcp_magic.auth.login import LogIn, LogIns
    from mcp_magic.config.specs import HttpSpec, SseSpec

__all__ = ["Entrance"]


class Entrance:
    """The log-in of an examination.

    Args:
        logins: How it is done; without an authorizer nobody is asked.
        name: What the server is called.
        spec: The server.

    Attributes:
        open: Whether requests go out with a token.
    """

    def __init__(self, logins: LogIns, name: str, spec: HttpSpec | SseSpec) -> None:
        self._authorizer = logins.authorizer
        shown = self._shown if self._authorizer is not None else None
        self._name = name
        self._spec = spec
        self._logins = replace(logins, authorizer=shown)
        self._recorder = Recorder(name, spec)
        self._by_person = False
        self.open = False

    async def _shown(self, login: LogIn) -> None:
        assert self._authorizer is not None
        self._by_person = True
        await self._authorizer(login)

    async def try_it(self) -> bool:
        """Send with a token from now on, if there may be one: whether that is of use."""
        from mcp_magic.auth.client import may_log_in

        if may_log_in(self._spec):
            self.open = self.asks or await self._is_kept()
        return self.open

    async def _is_kept(self) -> bool:
        from mcp_magic.auth.store import KeptTokens

        store = await asyncio.to_thread(self._logins.store)  # a keyring may ask for a password
        kept = KeptTokens(store, self._spec.url, self._spec.auth, self._recorder.know)
        return bool((await kept.load()).get("tokens"))

    def put_on(self, client: httpx2.AsyncClient) -> None:
        """Let a client of the examination send with a token, if it is to."""
        if self.open:
            from mcp_magic.auth.client import AuthContext, log_in_with

            know, hide = self._recorder.know, self._recorder.hide
            log_in_with(client, AuthContext(self._name, self._spec, self._logins, know, hide, lambda: False))

    @property
    def asks(self) -> bool:
        """Whether a person, or the program itself, is to log in where no token is kept."""
        return self._authorizer is not None or not self._spec.auth.interactive

    @property
    def how(self) -> str:
        """How it was entered."""
        if self._by_person:
            return "you have logged in; the token is kept"
        return "the token that is kept is taken" if self._spec.auth.interactive else "the program has logged in"

    def hide(self, text: str) -> str:
        """Return a text without the tokens."""
        return self._recorder.hide(text)
