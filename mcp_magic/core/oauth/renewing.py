"""What a log-in keeps between requests and between kernels, and how a token is renewed without a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

from mcp_magic.core.oauth.addresses import Reach
from mcp_magic.core.oauth.asking import Asking
from mcp_magic.core.oauth.dpop import Prover
from mcp_magic.core.oauth.lock import locked
from mcp_magic.core.oauth.words import Parties, host_and_port, token_refusal
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from mcp_magic.config.specs import HttpSpec, SseSpec
    from mcp_magic.core.oauth.logins import LogIns
    from mcp_magic.core.oauth.tokens import KeptTokens
    from mcp_magic.core.wire import Wire

__all__ = ["Renewing", "Situation"]


@dataclass
class Situation:
    """Whose log-in it is.

    Attributes:
        spec: The server.
        wire: The session's wire; knows whether the session is open.
        logins: How a person is asked.
        kept: What is kept of this client.
    """

    spec: HttpSpec | SseSpec
    wire: Wire
    logins: LogIns
    kept: KeptTokens


class Renewing(Asking):
    """The tokens of a session: kept, refreshed, never lost to another kernel.

    Attributes:
        at: The situation.
    """

    at: Situation

    def join(self, at: Situation) -> None:
        """Become the log-in of a session."""
        self.at = at
        self.reach = Reach(at.spec.url, [at.spec.auth.issuer])
        self._prover: Prover | None = None
        self._bound = self._offers_dpop = False

    @property
    def parties(self) -> Parties:
        """Who it is between, for messages."""
        metadata = self.context.oauth_metadata
        issuer = str(metadata.issuer) if metadata is not None else self.context.auth_server_url or ""
        wire = self.at.wire
        hide = lambda text: self._hidden(wire.recorder.hide(text))  # noqa: E731
        return Parties(wire.recorder.server, self.at.spec.where, host_and_port(issuer), hide)

    def _token(self) -> str | None:
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None and self.context.is_token_valid() else None

    async def _refresh(self, token: str | None) -> None:
        """Use the refresh token, unless another kernel has done so; if it is refused there is no token any more.

        Args:
            token: The access token that was refused, or None.

        Raises:
            AuthorizationError: The authorization server failed; what is kept stays.
        """
        lock_file = self.at.kept.lock_file
        if lock_file is None:
            await self._refresh_alone()
            return
        async with locked(lock_file):
            await self._load()
            if self._token() in (None, token):
                await self._refresh_alone()

    async def _refresh_alone(self) -> None:
        if not self.context.can_refresh_token():
            self.context.clear_tokens()
            return
        answer = await self._ask(await self._refresh_token())
        if answer.status_code == 200 and await self._handle_refresh_response(answer):
            await self.at.kept.save(bound=self._bound)
            return
        body = (await answer.aread()).decode("utf-8", "replace")
        if answer.status_code >= 500 or answer.status_code == 429:
            said = token_refusal(answer.status_code, body, self.parties)
            raise AuthorizationError(f"{self.parties.server}: the log-in could not be renewed: {said}")
        self.context.clear_tokens()
        forgotten: dict[str, Any] = {"tokens": None, "expires_at": None}
        if "invalid_client" in body and self.at.spec.auth.client_id is None:
            self.context.client_info = None
            forgotten["client"] = None
        await self.at.kept.save(**forgotten)

    # What is kept

    async def _initialize(self) -> None:
        await super()._initialize()
        await self._load()

    async def _load(self) -> None:
        """Take over what is kept, perhaps by another kernel."""
        record = await self.at.kept.load()
        context = self.context
        if record.get("tokens"):
            context.current_tokens = _valid(OAuthToken, record["tokens"])
            context.token_expiry_time = record.get("expires_at")
        if context.oauth_metadata is None:
            context.oauth_metadata = _valid(OAuthMetadata, record.get("metadata"))
            context.protected_resource_metadata = _valid(ProtectedResourceMetadata, record.get("resource"))
            context.auth_server_url = record.get("authority")
        self._bound = bool(record.get("bound") and record.get("dpop_key"))
        if self._bound and self._prover is None:
            self._prover = Prover(record["dpop_key"])

    async def _keep(self) -> None:
        """Keep what a refresh after a restart needs."""
        context = self.context
        await self.at.kept.save(
            metadata=_dumped(context.oauth_metadata),
            resource=_dumped(context.protected_resource_metadata),
            authority=context.auth_server_url,
            dpop_key=self._prover.pem if self._prover is not None else None,
        )


def _valid(model: Any, found: Any) -> Any:
    try:
        return model.model_validate(found) if found else None
    except ValueError:
        return None


def _dumped(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)
