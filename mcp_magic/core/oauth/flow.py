"""The SDK's OAuth client (RFC 6749, 8414, 8707, 9207, 9728) as a part of a session.

The SDK discovers, registers, and exchanges; it holds one lock while it does, and while the request itself waits for
its answer. Here only what renews a token is done under a lock, one log-in serves all requests that wait for it, and
what fails is said in words. This module imports the SDK: it is imported when an HTTP client is made.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth

from mcp_magic.core.oauth.asking import mark_stripped
from mcp_magic.core.oauth.dpop import Prover
from mcp_magic.core.oauth.renewing import Renewing
from mcp_magic.core.oauth.words import in_words, refused_again
from mcp_magic.core.outcome import current
from mcp_magic.core.trace.record import being_sent
from mcp_magic.core.trace.trace import STATUS
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import httpx2

    from mcp_magic.core.oauth.renewing import Situation

__all__ = ["Flow"]

ATTEMPTS = 6
"""Times a request is sent: with a nonce, after a refresh, a log-in, a step-up, another request's log-in."""

_BACKGROUND = frozenset(("subscriptions/listen", "ping"))
"""Requests that no person waits for: they refresh a token, but begin no log-in."""


class Flow(Renewing):
    """What every kind of log-in does: sends with a token, renews it where it is refused.

    Attributes:
        answered: What requests were answered that were sent before there was this log-in, by `id`.
    """

    def join(self, at: Situation) -> None:
        """Become the log-in of a session."""
        super().join(at)
        self.answered: dict[int, httpx2.Response] = {}
        self._renewing = asyncio.Lock()
        self._begun = self._asks_dpop = self._logging_in = False
        self._refusal: AuthorizationError | None = None
        self._refused_at = 0.0
        mark_stripped(logging.getLogger("mcp.client.auth.oauth2"))

    # One request

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        began = time.monotonic()
        await self._begin()
        done: set[str] = set()
        for _ in range(ATTEMPTS):
            token, response = self._token(), None
            if token is not None or "refresh" in done or not self.context.can_refresh_token():
                response = self.answered.pop(id(request), None) if token is None else None
                if response is None:
                    self._put(request, token)
                    response = yield request
                if not self._is_refused(response):
                    return
                self.reach.heard(response)
            try:
                again = await self._renew(request, response, token, done, began)
            except AuthorizationError as error:
                self._note(error)
                if not self.at.wire.open:
                    raise  # there is no session yet that this could end
                again = False
            if not again:
                if response is None:
                    yield request  # without a token; the server says what is wrong
                return
            if (row := being_sent.get()) is not None:
                row[STATUS] = None

    async def _begin(self) -> None:
        if not self._begun:
            async with self._renewing:
                if not self._begun:
                    await self._initialize()
                self._begun = True

    def _note(self, error: AuthorizationError) -> None:
        self._refusal = error
        if (made := current.get()) is not None:
            made.error = error
        self._refused_at = time.monotonic()

    def _put(self, request: httpx2.Request, token: str | None) -> None:
        for name in ("Authorization", "DPoP"):
            request.headers.pop(name, None)
        if token is None:
            return
        if self._bound and self._prover is not None:
            self._prover.sign(request, token)
        else:
            request.headers["Authorization"] = f"Bearer {token}"

    def _is_refused(self, response: httpx2.Response) -> bool:
        if self._prover is not None:
            self._prover.heard(response)
        scope = extract_field_from_www_auth(response, "error") == "insufficient_scope"
        return response.status_code == 401 or (response.status_code == 403 and scope)

    # A new token

    async def _renew(
        self, request: httpx2.Request, response: httpx2.Response | None, token: str | None, done: set[str], began: float
    ) -> bool:
        """Come by a token that the server takes; one request does, and the others that wait use it.

        Args:
            request: What was refused.
            response: The refusal; None if nothing was sent, because the token has expired.
            token: What was sent with it.
            done: What was tried for this request already.
            began: When it began (`time.monotonic()`).

        Returns:
            Whether to send the request again.
        """
        if response is not None and self._wants_nonce(response) and "nonce" not in done:
            done.add("nonce")
            return True
        if self._logging_in and self._is_unasked(request):
            return False  # it may tell the server that nobody waits any more for what wants the log-in
        async with self._renewing:
            if self._token() not in (None, token):
                return True
            unauthorized = response is None or response.status_code == 401
            if unauthorized and "refresh" not in done and (response is None or self.context.can_refresh_token()):
                done.add("refresh")
                await self._refresh(token)
                return True
            if response is None or not self._concerns_us(request, response):
                return False
            if self._refusal is not None and self._refused_at > began:
                raise self._refusal  # asked meanwhile, for another request, and in vain
            step = str(response.status_code)
            if step in done:
                given = self.context.current_tokens.scope if self.context.current_tokens else None
                raise AuthorizationError(refused_again(response, given, self.parties))
            done.add(step)
            self._logging_in = True
            try:
                return await self._log_in(request, response)
            finally:
                self._logging_in = False

    def _wants_nonce(self, response: httpx2.Response) -> bool:
        return self._bound and extract_field_from_www_auth(response, "error") == "use_dpop_nonce"

    def _concerns_us(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Whether a log-in may begin: somebody waits for this request, and the server wants a token."""
        if self._is_unasked(request):
            return False
        return self._scheme(response) in ("bearer", "dpop", "") or self.at.spec.auth.mode == "oauth"

    def _is_unasked(self, request: httpx2.Request) -> bool:
        """Whether a person would be asked for the sake of something that nobody waits for."""
        return self.context.client_metadata.redirect_uris is not None and not self._is_waited_for(request)

    def _is_waited_for(self, request: httpx2.Request) -> bool:
        if request.method == "GET":
            return self.at.spec.transport == "sse" and not self.at.wire.open
        if request.method != "POST":
            return False
        try:
            message = json.loads(request.content)
        except ValueError:
            return False
        return isinstance(message, dict) and "id" in message and message.get("method") not in _BACKGROUND

    def _scheme(self, response: httpx2.Response) -> str:
        words: list[str] = response.headers.get("www-authenticate", "").lower().split()
        return next((word for word in words if word in ("bearer", "dpop")), words[0] if words else "")

    async def _log_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Let the SDK discover, register and exchange.

        Returns:
            Whether there is a token now; False if the server seems to know nothing of OAuth.
        """
        guessing = self.at.spec.auth.mode == "auto" and not self._scheme(response)
        self._offers_dpop, self._asks_dpop = False, self._scheme(response) == "dpop"
        failure: AuthorizationError | None = None
        try:
            async with self._situated(response), self._driving(request) as flow:
                outgoing, answer = await anext(flow), response
                if outgoing is not request:  # a refresh: the token expired in the last moment
                    outgoing = await flow.asend(await self._ask(outgoing))
                while (outgoing := await flow.asend(answer)) is not request:
                    if guessing and outgoing.method == "POST" and self.context.oauth_metadata is None:
                        return False
                    await self._check_person(outgoing)
                    answer = await self._ask(outgoing)
        except (OAuthFlowError, ValueError, OverflowError) as error:  # a token that expires in 10**400 seconds
            if guessing and self.context.oauth_metadata is None:
                return False
            failure = in_words(error, self.parties)
        if failure is not None:
            raise failure
        self._refusal = None
        return True

    @asynccontextmanager
    async def _situated(self, response: httpx2.Response) -> AsyncIterator[None]:
        """Prepare what a log-in needs; nothing for those that take no person."""
        yield

    async def _check_person(self, outgoing: httpx2.Request) -> None:
        """Raise where a log-in needs a person that is not there, before anything is registered."""

    @asynccontextmanager
    async def _driving(self, request: httpx2.Request) -> AsyncIterator[AsyncGenerator[httpx2.Request, httpx2.Response]]:
        flow = OAuthClientProvider._auth_flow(self, request)
        try:
            yield flow
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx2.Request:
        if self._wants_dpop() and self._prover is None:
            self._prover = Prover()
        await self._keep()
        return await super()._perform_authorization()

    def _wants_dpop(self) -> bool:
        wanted, resource = self.at.spec.auth.dpop, self.context.protected_resource_metadata
        if wanted is not None:
            return wanted
        said = resource and (resource.dpop_bound_access_tokens_required or resource.dpop_signing_alg_values_supported)
        return self._offers_dpop and bool(self._asks_dpop or said)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        await self.at.kept.save(bound=self._bound)

    def _add_auth_header(self, request: httpx2.Request) -> None:
        """Leave that to `_put`."""
