"""DPoP (RFC 9449): tokens that are worthless without a key of this kernel.

The SDK (2.3) supports bearer tokens only. This module adds the proofs on requests, the nonces, and the
`token_type: DPoP` of a token endpoint.
"""

from __future__ import annotations

import base64
import json
import time
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

if TYPE_CHECKING:
    import httpx2

__all__ = ["ALGORITHM", "Prover", "as_bearer", "wants_nonce"]

ALGORITHM = "ES256"
NONCE = "DPoP-Nonce"


class Prover:
    """Signs proofs with its own key, and remembers the nonces that servers ask for.

    Args:
        pem: The private key (PEM, P-256); None creates one.
    """

    def __init__(self, pem: str | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        loaded = load_pem_private_key(pem.encode(), None) if pem else ec.generate_private_key(ec.SECP256R1())
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        self._nonces: dict[str, str] = {}

    def __repr__(self) -> str:
        return "<Prover>"

    @cached_property
    def pem(self) -> str:
        """The private key (PEM)."""
        from cryptography.hazmat.primitives import serialization as s

        return self._key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode()

    @cached_property
    def _jwk(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        x, y = (_base64(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}

    def sign(self, request: httpx2.Request, token: str | None = None) -> None:
        """Put a new proof on a request. With a token, the proof is bound to the token, which is put on too."""
        import jwt

        parts = urlsplit(str(request.url))
        claims: dict[str, Any] = {
            "jti": str(uuid4()),
            "htm": request.method,
            "htu": urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = _base64(sha256(token.encode()).digest())
            request.headers["Authorization"] = f"DPoP {token}"
        if nonce := self._nonces.get(parts.netloc):
            claims["nonce"] = nonce
        headers = {"typ": "dpop+jwt", "jwk": self._jwk}
        request.headers["DPoP"] = jwt.encode(claims, self._key, algorithm=ALGORITHM, headers=headers)

    def remember_nonce(self, response: httpx2.Response) -> None:
        """Remember the nonce in a server's answer (RFC 9449, section 8)."""
        if nonce := response.headers.get(NONCE):
            self._nonces[urlsplit(str(response.request.url)).netloc] = nonce[:500]


async def wants_nonce(response: httpx2.Response) -> bool:
    """Whether an authorization server asks for the same request with its nonce in the proof."""
    if response.status_code not in (400, 401) or NONCE not in response.headers:
        return False
    try:
        body = json.loads(await response.aread())
    except ValueError:
        return False
    return isinstance(body, dict) and body.get("error") == "use_dpop_nonce"


async def as_bearer(response: httpx2.Response) -> tuple[httpx2.Response, bool]:
    """Return a token endpoint's answer in the form that the SDK reads, and whether its token is bound to the key."""
    import httpx2

    try:
        body = json.loads(await response.aread())
    except ValueError:
        return response, False
    if not isinstance(body, dict) or str(body.get("token_type", "")).lower() != "dpop":
        return response, False
    bearer = httpx2.Response(response.status_code, json={**body, "token_type": "Bearer"}, request=response.request)
    return bearer, True


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
