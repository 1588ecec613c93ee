"""A client that was registered by hand, and the scopes that a person named."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import PrivateAttr

from mcp_magic.core.oauth.flow import Flow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx2

    from mcp_magic.config.auth import AuthOptions

__all__ = ["Registered", "Wanted"]


class Wanted(OAuthClientMetadata):
    """Client metadata in which the scopes that the person named stay, whatever the server suggests."""

    _wanted: str | None = PrivateAttr(None)
    _stepping_up: bool = PrivateAttr(False)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "scope" and self._wanted and not self._stepping_up:
            offline = "offline_access" if "offline_access" in (value or "").split() else None
            value = union_scopes(self._wanted, offline)
        super().__setattr__(name, value)


class Registered(Flow):
    """Knows its client: one that was registered by hand."""

    def _chosen_method(self) -> None:
        """Show who we are in a way that the authorization server knows."""
        info, metadata = self.context.client_info, self.context.oauth_metadata
        options = self.at.spec.auth
        if info is None or info.client_secret is None or options.token_endpoint_auth_method is not None:
            return
        offered = (metadata.token_endpoint_auth_methods_supported if metadata else None) or ["client_secret_basic"]
        basic = "client_secret_basic" in offered or "client_secret_post" not in offered
        info.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"

    async def _initialize(self) -> None:
        await super()._initialize()
        options = self.at.spec.auth
        if options.client_id is not None:
            self.context.client_info = self._registered(options)

    def _registered(self, options: AuthOptions) -> OAuthClientInformationFull:
        method = options.token_endpoint_auth_method or ("client_secret_basic" if options.client_secret else "none")
        return OAuthClientInformationFull(
            client_id=str(options.client_id),
            client_secret=options.client_secret,
            token_endpoint_auth_method=method,
        )

    async def _perform_authorization(self) -> httpx2.Request:
        self._chosen_method()
        return await super()._perform_authorization()

    @asynccontextmanager
    async def _situated(self, response: httpx2.Response) -> AsyncIterator[None]:
        metadata = self.context.client_metadata
        if isinstance(metadata, Wanted):
            metadata._stepping_up = response.status_code == 403
        yield
