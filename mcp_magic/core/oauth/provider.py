"""The kinds of log-in: by a person here, without one in `oauth_machine`."""

from __future__ import annotations

import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import validate_authorization_response_iss
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from pydantic import AnyUrl

from mcp_magic.core.linkhost import host_of, why_not_open
from mcp_magic.core.oauth.callback import CallbackServer
from mcp_magic.core.oauth.login import LogIn
from mcp_magic.core.oauth.registered import Registered, Wanted
from mcp_magic.core.oauth.words import host_and_port
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx2

    from mcp_magic.config.auth import AuthOptions
    from mcp_magic.core.oauth.flow import Flow
    from mcp_magic.core.oauth.renewing import Situation

__all__ = ["make_provider"]

SOMEWHERE = "http://127.0.0.1/callback"
"""Stands in for the redirect URI as long as no callback waits."""


def make_provider(at: Situation) -> Flow:
    """Return the log-in of a session, as its spec says."""
    options = at.spec.auth
    scope = " ".join(options.scopes) or None
    provider: Flow
    with warnings.catch_warnings():
        # Without an issuer the credentials go where the server leads; docs/authorization.md says to name one.
        warnings.simplefilter("ignore")
        if options.interactive:
            url = options.client_metadata_url
            provider = _Person(at.spec.url, _metadata(options), at.kept, client_metadata_url=url)
        else:
            from mcp_magic.core.oauth.machine import make_machine

            provider = make_machine(at)
    provider.join(at)
    wanted = Wanted(**provider.context.client_metadata.model_dump())
    wanted._wanted = scope
    provider.context.client_metadata = wanted
    return provider


def _metadata(options: AuthOptions) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="mcp_magic",
        redirect_uris=[AnyUrl(SOMEWHERE)],
        token_endpoint_auth_method=options.token_endpoint_auth_method,  # type: ignore[arg-type]
        scope=" ".join(options.scopes) or None,
    )


class _Person(Registered):
    """A person logs in with a browser (authorization code, PKCE)."""

    _callback: CallbackServer | None = None
    _url = ""

    @asynccontextmanager
    async def _situated(self, response: httpx2.Response) -> AsyncIterator[None]:
        self.context.redirect_handler, self.context.callback_handler = self._shown, self._waited
        async with super()._situated(response):
            if not await self.at.logins.can_ask():
                yield
                return
            callback = self._callback = await self._listening()
            self.context.client_metadata.redirect_uris = [AnyUrl(callback.redirect_uri)]
            try:
                yield
            finally:
                self._callback = None
                callback.close()

    async def _listening(self) -> CallbackServer:
        """Listen where the client is registered to be sent back to, or else anywhere, and register again."""
        options, info = self.at.spec.auth, self.context.client_info
        registered = options.redirect_port or next(
            (uri.port for uri in (info and info.redirect_uris) or [] if uri.port), 0
        )
        try:
            callback = CallbackServer(registered or 0)
        except OSError as error:
            if options.redirect_port is not None:
                problem = (
                    f"{self.parties.server}: port {registered} for the log-in's way back is taken ({error.strerror})."
                )
                raise AuthorizationError(f"{problem} End what listens there.") from None
            callback = CallbackServer()
        uris = [str(uri) for uri in (info and info.redirect_uris) or []]
        if options.client_id is None and callback.redirect_uri not in uris:
            self.context.client_info = None
        return callback

    async def _check_person(self, outgoing: httpx2.Request) -> None:
        if outgoing.method != "POST":
            return
        options, parties = self.at.spec.auth, self.parties
        if self.context.client_info is None and options.client_id is not None:
            raise AuthorizationError(
                f"{parties.server}: {parties.where} leads to {parties.authority}, and the client {options.client_id!r} "
                f"belongs to {options.issuer}: it was not used."
            )
        if self._callback is None:
            raise AuthorizationError(self._nobody())
        if self.context.client_info is None:
            await self._ask_to_register(str(outgoing.url))

    async def _ask_to_register(self, url: str) -> None:
        """Ask the person before this program makes itself known anywhere; once, and with all hosts that are involved.

        Raises:
            AuthorizationError: The answer is no, or there is none.
        """
        metadata, parties = self.context.oauth_metadata, self.parties
        page = str(metadata.authorization_endpoint) if metadata is not None else url
        token = str(metadata.token_endpoint) if metadata is not None else url
        for other in (url, page, token):
            await self._check_reach(other)
        at, shown, giver = (host_of(other) or host_and_port(other) for other in (url, page, token))
        answer = await self.at.logins.permits(
            f"Log in to {parties.server} ({parties.where}) at {shown}?\n"
            f"This program is not known there yet. It would register at {at}, show you the link to a log-in page of "
            f"{shown}, and get its tokens from {giver}.",
            f"{parties.server}: the log-in at {parties.authority} was interrupted.",
        )
        if answer is None:
            raise AuthorizationError(self._nobody())
        if not answer:
            raise AuthorizationError(f"{parties.server}: the log-in at {parties.authority} was not begun: you said no.")

    def _registered(self, options: AuthOptions) -> OAuthClientInformationFull:
        made = super()._registered(options)
        made.issuer = options.issuer
        return made

    def _nobody(self) -> str:
        parties = self.parties
        at = f" at {parties.issuer}" if parties.issuer else ""
        return (
            f"{parties.server}: {parties.where} wants a log-in{at}, and nobody can be asked here. "
            f"Log in once with `%mcp connect {parties.where}` in a notebook or terminal; the token is kept.\n"
            'Without a person: auth = { grant = "client_credentials", ... }, or a header Authorization.'
        )

    async def _shown(self, url: str) -> None:
        if why := why_not_open(url):
            host = f" at {host_of(url)}" if host_of(url) else ""
            raise AuthorizationError(
                f"{self.parties.server}: the address of the log-in page{host} {why}; it was not opened. "
                "Its operator has to mend that."
            )
        await self._check_reach(url)
        self._check_pkce()
        self._url = url

    def _check_pkce(self) -> None:
        """Raise unless the server says that it takes PKCE's S256 (specification, "Authorization Code Protection")."""
        metadata = self.context.oauth_metadata
        if metadata is None or "S256" in (metadata.code_challenge_methods_supported or []):
            return
        raise AuthorizationError(
            f"{self.parties.server}: {self.parties.authority} does not say that it supports PKCE (S256), so the code "
            "of a log-in could be stolen; it was not begun. "
            "Its operator has to mend that (code_challenge_methods_supported)."
        )

    def _comes_from(self, issuer: str | None) -> bool:
        try:
            validate_authorization_response_iss(issuer, self.context.oauth_metadata)
        except OAuthFlowError:
            return False
        return True

    async def _waited(self) -> AuthorizationCodeResult:
        if self._callback is None:
            raise AuthorizationError(self._nobody())
        parties, logins = self.parties, self.at.logins
        back = self._callback.redirect_uri
        login = LogIn(parties.server, parties.where, self._url, back, logins.seconds, self._comes_from)
        answer = await logins.ask(login, self._callback)
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)
