"""The log-in of a session, made when a server asks for one: most never do, and a keyring may ask for a password."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp_magic.config.specs import HttpSpec, SseSpec
    from mcp_magic.core.oauth.flow import Flow
    from mcp_magic.core.wire import Wire

__all__ = ["OWN", "OnDemand", "log_in_with"]

OWN = "mcp_magic_oauth"
"""Extension of requests that belong to a log-in: they are not traced, and are no requests of the session."""


def log_in_with(client: httpx2.AsyncClient, spec: HttpSpec | SseSpec, wire: Wire) -> None:
    """Let a session's HTTP client log in, unless its spec says not to or has credentials of its own."""
    own = any(name.lower() == "authorization" for name in spec.headers)
    if spec.auth.mode != "none" and client.auth is None and not (own and spec.auth.mode == "auto"):
        client.auth = OnDemand(client, spec, wire)


class OnDemand(httpx2.Auth):
    """Sends as if there were no log-in, until one is wanted.

    Args:
        client: Sends the requests of the log-in as well.
        spec: The server.
        wire: The session's wire.
    """

    def __init__(self, client: httpx2.AsyncClient, spec: HttpSpec | SseSpec, wire: Wire) -> None:
        self._client = client
        self._spec = spec
        self._wire = wire
        self._flow: Flow | None = None
        self._making = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, with a token where one is needed."""
        response = None
        if self._flow is None and self._spec.auth.mode == "auto":
            response = yield request
            wants_more = "insufficient_scope" in response.headers.get("www-authenticate", "")
            if response.status_code != 401 and not (response.status_code == 403 and wants_more):
                return
        flow = await self._made()
        if response is not None:
            flow.answered[id(request)] = response
        sending = flow.async_auth_flow(request)
        try:
            outgoing = await anext(sending)
            while True:
                answer = yield outgoing
                outgoing = await sending.asend(answer)
        except StopAsyncIteration:
            return
        finally:
            flow.answered.pop(id(request), None)
            await sending.aclose()

    async def _made(self) -> Flow:
        async with self._making:
            if self._flow is None:
                from mcp_magic.core.oauth.provider import make_provider
                from mcp_magic.core.oauth.renewing import Situation
                from mcp_magic.core.oauth.tokens import KeptTokens

                store = await asyncio.to_thread(self._wire.logins.store)
                kept = KeptTokens(store, self._spec.url, self._spec.auth, self._wire.recorder.know)
                flow = make_provider(Situation(self._spec, self._wire, self._wire.logins, kept))
                flow.client = self._client
                self._flow = flow
        return self._flow
