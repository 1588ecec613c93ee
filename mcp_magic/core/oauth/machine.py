"""Log-ins without a person: by the client's own secret, by its key, by somebody else's assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
    static_assertion_provider,
)
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthClientMetadata

from mcp_magic.core.oauth.registered import Registered
from mcp_magic.errors import AuthorizationError

if TYPE_CHECKING:
    from mcp_magic.config.auth import AuthOptions
    from mcp_magic.core.oauth.flow import Flow
    from mcp_magic.core.oauth.renewing import Situation

__all__ = ["make_machine"]


def make_machine(at: Situation) -> Flow:
    """Return the log-in of a session that takes no person."""
    options, url = at.spec.auth, at.spec.url
    scope = " ".join(options.scopes) or None
    if options.grant == "jwt_bearer":
        metadata = OAuthClientMetadata(redirect_uris=None, grant_types=[JWT_BEARER_GRANT_TYPE], scope=scope)
        return _Bearer(url, metadata, at.kept)
    client = str(options.client_id)
    if options.client_secret is not None:
        method: Any = options.token_endpoint_auth_method or "client_secret_basic"
        return _Secret(url, at.kept, client, options.client_secret, method, scope, options.issuer)
    return _Key(url, at.kept, client, _assertions(options), scope, options.issuer)


def _assertions(options: AuthOptions) -> Any:
    if options.assertion is not None:
        return static_assertion_provider(options.assertion)
    assert options.private_key is not None
    assert options.client_id is not None
    return SignedJWTParameters(
        issuer=options.client_id,
        subject=options.client_id,
        signing_key=options.private_key,
        signing_algorithm=_algorithm(options.private_key),
    ).create_assertion_provider()


def _algorithm(pem: str) -> str:
    """Return the algorithm that goes with a key (RFC 7518, RFC 8037)."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        raise AuthorizationError(
            "auth.private_key: no private key that can be read (PEM, without a password)."
        ) from None
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {256: "ES256", 384: "ES384", 521: "ES512"}.get(key.key_size, "ES256")
    return "EdDSA" if isinstance(key, ed25519.Ed25519PrivateKey) else "RS256"


class _Secret(Registered, ClientCredentialsOAuthProvider):
    """The client itself is known, by a secret (client credentials)."""


class _Key(Registered, PrivateKeyJWTOAuthProvider):
    """The client itself is known, by a key (client credentials, `private_key_jwt`)."""

    def _registered(self, options: AuthOptions) -> OAuthClientInformationFull:
        return self._fixed_client_info


class _Bearer(Registered):
    """Somebody else's assertion is exchanged for a token (RFC 7523), once: it is not asked for again."""

    def _select_authorization_server(self, advertised: list[str]) -> str:
        issuer = self.at.spec.auth.issuer
        return next((each for each in advertised if issuer and issuers_match(each, issuer)), advertised[0])

    async def _initialize(self) -> None:
        await super()._initialize()
        if self.context.client_info is None:  # a client without a name; it must not register
            self.context.client_info = OAuthClientInformationFull(client_id="", token_endpoint_auth_method="none")

    async def _perform_authorization(self) -> httpx2.Request:
        self._chosen_method()
        self._check_issuer()
        await self._keep()
        data = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": str(self.at.spec.auth.assertion)}
        if self.at.spec.auth.client_id is not None:
            data["client_id"] = self.at.spec.auth.client_id
        if self.context.should_include_resource_param(self.context.protocol_version):
            data["resource"] = self.context.get_resource_url()
        if self.context.client_metadata.scope:
            data["scope"] = self.context.client_metadata.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        data, headers = self.context.prepare_token_auth(data, headers)
        return httpx2.Request("POST", self._get_token_endpoint(), data=data, headers=headers)

    def _check_issuer(self) -> None:
        metadata, issuer = self.context.oauth_metadata, self.at.spec.auth.issuer
        if issuer is not None and (metadata is None or not issuers_match(str(metadata.issuer), issuer)):
            raise OAuthFlowError(f"No authorization server metadata discovered for configured issuer {issuer}")
