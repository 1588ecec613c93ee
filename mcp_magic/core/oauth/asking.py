"""What goes to an authorization server: over the session's HTTP client, but in nobody's name, and never unprotected."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared._httpx_utils import next_request_within_origin

from mcp_magic.config.masking import MASK
from mcp_magic.core.oauth.dpop import ALGORITHM, Prover, as_bearer, wants_nonce
from mcp_magic.core.oauth.ondemand import OWN
from mcp_magic.core.oauth.words import Parties, host_and_port, is_private
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2

    from mcp_magic.core.oauth.addresses import Reach

__all__ = ["Asking", "mark_stripped"]

ASK_SECONDS = 15.0
"""Seconds an authorization server has for an answer."""

REDIRECTS = 5

_SECRETS = ("code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion")
"""Parameters of a token request that an error of the token endpoint may repeat, and nobody may see."""


class Asking(OAuthClientProvider):
    """Sends the requests of a log-in.

    Attributes:
        client: The HTTP client of the session.
        reach: Where the log-in may lead.
    """

    client: httpx2.AsyncClient
    reach: Reach
    _prover: Prover | None
    _bound: bool
    _offers_dpop: bool
    _told: Sequence[str] = ()

    @property
    def parties(self) -> Parties:
        """Who the log-in is between."""
        raise NotImplementedError

    async def _ask(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the log-in.

        Raises:
            AuthorizationError: It cannot be sent, or would be readable on the way.
        """
        url = str(request.url)
        if request.method == "POST" and not is_private(url):
            raise AuthorizationError(
                f"{self.parties.server}: {host_and_port(url)} wants secrets over plain http, where anybody on the way "
                "can read them; nothing was sent. An authorization server has to have https."
            )
        if request.method != "POST" or url != self._get_token_endpoint():
            answer = await self._send(request)
            await self._note_offers(answer)
            return answer
        return await self._exchange(request)

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        """Ask for a token, with a proof of our key if we have one."""
        form = parse_qs(request.content.decode())
        self._told = [value for name in _SECRETS for value in form.get(name, ())]
        if self._prover is None:
            return await self._send(request)
        self._prover.sign(request)
        answer = await self._send(request)
        self._prover.heard(answer)
        if await wants_nonce(answer):
            self._prover.sign(request)
            answer = await self._send(request)
            self._prover.heard(answer)
        if answer.status_code == 200:
            answer, self._bound = await as_bearer(answer)
        return answer

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        import httpx2

        timeout = httpx2.Timeout(ASK_SECONDS).as_dict()
        failure = ""
        try:
            for _ in range(REDIRECTS + 1):
                url = str(request.url)
                await self._check_reach(url)
                watching = self.reach.watching(request, partial(self._astray, url))
                request.extensions |= {OWN: True, "timeout": timeout, "trace": watching}
                answer = await self.client.send(request, auth=None, follow_redirects=False)
                following = next_request_within_origin(answer)
                if following is None:
                    break
                request = following
        except httpx2.TimeoutException:
            failure = f"did not answer within {ASK_SECONDS:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            failure = f"cannot be reached ({type(error).__name__})"
        if failure:
            where = host_and_port(str(request.url))
            raise AuthorizationError(
                f"{self.parties.server}: {where}, which the log-in needs, {failure}; try again when it runs."
            )
        return answer

    async def _check_reach(self, url: str) -> None:
        """Raise where a URL leads into this machine or its network, and the MCP server is outside."""
        if address := await self.reach.refused(url):
            raise self._astray(url, address)

    def _astray(self, url: str, address: str) -> AuthorizationError:
        parts, at = self.parties, host_and_port(url)
        where = at if address in at else f"{at} ({address})"
        return AuthorizationError(
            f"{parts.server}: {parts.where} leads its log-in to {where}, an address of this machine or its network; "
            f"nothing was sent there. If that is where you log in, name it: --issuer {urlsplit(url).scheme}://{at}"
        )

    async def _note_offers(self, answer: httpx2.Response) -> None:
        """Note whether metadata offer tokens that are bound to a key (RFC 9449, section 5.1), which the SDK drops."""
        if answer.status_code != 200:
            return
        try:
            found: Any = json.loads(await answer.aread())
        except ValueError:
            return
        algorithms = found.get("dpop_signing_alg_values_supported") if isinstance(found, dict) else None
        if isinstance(algorithms, list) and ALGORITHM in algorithms and "issuer" in found:
            self._offers_dpop = True

    def _hidden(self, text: str) -> str:
        """Return text without what the last token request held."""
        for secret in self._told:
            text = text.replace(secret, MASK)
        return text


class _Stripped(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None  # the errors of the SDK quote answers, with the tokens in them
        return True


def mark_stripped(logger: logging.Logger) -> None:
    """Keep the tracebacks of the SDK's log-in out of the log."""
    if not any(isinstance(each, _Stripped) for each in logger.filters):
        logger.addFilter(_Stripped())
