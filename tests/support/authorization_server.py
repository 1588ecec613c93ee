"""An OAuth 2.1 authorization server, on real HTTP, that can misbehave on demand."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

import jwt
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

SUPPORTED = ["read", "write", "admin", "offline_access"]


@dataclass
class Token:
    """An access token."""

    client: str
    scopes: list[str]
    resource: str
    expires: float
    key: str = ""


@dataclass
class Behaviour:
    """What the server does, and what it does wrong."""

    registers: bool = True  # whether clients may register by themselves
    registration: tuple[int, str] | None = None  # status and error code of a registration, or None for what is right
    methods: list[str] = field(default_factory=lambda: ["none", "client_secret_basic", "client_secret_post"])
    error: str = ""  # the error that the browser comes back with
    state: str = ""  # what the browser comes back with in place of the state
    issuer_sent: str | None = ""  # what it comes back with as `iss`: "" for the issuer itself, None for nothing
    metadata_issuer: str = ""  # what the metadata claim to be, or "" for the truth
    has_metadata: bool = True
    status: int = 0  # what the token endpoint answers, 0 for what is right
    token_error: dict[str, str] = field(default_factory=dict)  # the error of a token request, by grant
    expires_in: int = 3600  # seconds of an access token
    gives: list[str] | None = None  # the scopes that it gives; None for what is asked for
    endpoints: dict[str, Any] = field(default_factory=dict)  # in place of its own, by their name in the metadata
    dpop: str = ""  # whether tokens are bound to keys; with a nonce if it is "nonce"
    garbled: bool = False  # whether a token is answered as something else, with the token in it
    cimd: bool = False  # whether a URL may be a client's id


class AuthorizationServer:
    """The server, and all that it knows.

    Attributes:
        behaves: What it does wrong.
        url: Its issuer.
        tokens: The access tokens that are valid.
        refresh: The refresh tokens that are valid: client and scopes.
        clients: The registered clients.
        keys: Public keys (PEM) of clients that sign assertions.
        seen: What was asked of it: the endpoint's name and the parameters.
        secrets: Every token, code and client secret that it gave, and every verifier and assertion that it got.
    """

    def __init__(self, url: str, behaves: Behaviour | None = None) -> None:
        self.behaves = behaves or Behaviour()
        self.url = url
        self.tokens: dict[str, Token] = {}
        self.refresh: dict[str, tuple[str, list[str]]] = {}
        self.clients: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.secrets: set[str] = set()
        self._codes: dict[str, dict[str, str]] = {}

    def asked(self, endpoint: str) -> list[dict[str, str]]:
        """Return the parameters of each request to an endpoint."""
        return [parameters for name, parameters in self.seen if name == endpoint]

    def forget(self) -> None:
        """Take no token any more that was given until now."""
        self.tokens.clear()
        self.refresh.clear()

    def app(self) -> Starlette:
        """Return the ASGI app."""
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/revoke", self._revoke, methods=["POST"]),
            ]
        )

    async def _metadata(self, request: Request) -> Response:
        self.seen.append(("metadata", {}))
        if not self.behaves.has_metadata:
            return Response(status_code=404)
        entry: dict[str, Any] = {
            "issuer": self.behaves.metadata_issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "registration_endpoint": f"{self.url}/register",
            "scopes_supported": SUPPORTED,
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": self.behaves.methods,
            "client_id_metadata_document_supported": self.behaves.cimd,
            "authorization_response_iss_parameter_supported": self.behaves.issuer_sent is not None,
        }
        if self.behaves.dpop:
            entry["dpop_signing_alg_values_supported"] = ["ES256"]
        return JSONResponse(entry | self.behaves.endpoints)

    async def _register(self, request: Request) -> Response:
        body = await request.json()
        self.seen.append(("register", body))
        if self.behaves.registration is not None:
            status, code = self.behaves.registration
            return JSONResponse({"error": code} if code else {}, status_code=status)
        if not self.behaves.registers:
            said = {"error": "invalid_client_metadata", "error_description": "ask <b>the</b> administrator"}
            return JSONResponse(said, status_code=403)
        client = {**body, "client_id": f"client-{len(self.clients) + 1}"}
        if self.behaves.methods[0] != "none":
            client |= {"token_endpoint_auth_method": self.behaves.methods[0], "client_secret": self._secret("secret")}
        self.clients[client["client_id"]] = client
        return JSONResponse(client, status_code=201)

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.seen.append(("authorize", asked))
        client = self.clients.get(asked["client_id"])
        if client is None and not self.behaves.cimd:
            return Response("unknown client", status_code=400)
        if client is not None and asked["redirect_uri"] not in client["redirect_uris"]:
            return Response("unknown redirect URI", status_code=400)
        back = {"state": self.behaves.state or asked["state"]}
        if self.behaves.issuer_sent is not None:
            back["iss"] = self.behaves.issuer_sent or self.url
        if self.behaves.error:
            back |= {"error": self.behaves.error, "error_description": "the person said <no>"}
        else:
            back["code"] = self._secret("code")
            self._codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.seen.append(("token", {**form, "authorization": request.headers.get("authorization", "")}))
        self.secrets |= {form[name] for name in ("code_verifier", "client_assertion") if name in form}
        if self.behaves.status:
            return Response("out of order", status_code=self.behaves.status)
        grant = form["grant_type"]
        problem = self.behaves.token_error.get(grant) or self._client_problem(request, form)
        key = ""
        if not problem and self.behaves.dpop:
            key, problem = self._proven(request)
            if problem == "use_dpop_nonce":
                return JSONResponse({"error": problem}, status_code=400, headers={"DPoP-Nonce": "nonce-of-the-issuer"})
        if problem:
            echoed = next((form[name] for name in ("code", "refresh_token", "client_secret") if name in form), "")
            return JSONResponse({"error": problem, "error_description": f"not with {echoed}"}, status_code=400)
        client, scopes = self._granted(grant, form)
        if client is None:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return self._given(client, scopes, form, key, refreshable=grant != "client_credentials")

    def _granted(self, grant: str, form: dict[str, str]) -> tuple[str | None, list[str]]:
        """Return the client and the scopes of a grant; None for a grant that is not valid (any more)."""
        if grant == "client_credentials":
            return form.get("client_id", "machine"), form.get("scope", "").split()
        if grant == "refresh_token":
            entry = self.refresh.pop(form["refresh_token"], None)
            return entry or (None, [])
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return None, []
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None, []
        return asked["client_id"], asked.get("scope", "").split()

    def _given(self, client: str, scopes: list[str], form: dict[str, str], key: str, *, refreshable: bool) -> Response:
        scopes = scopes if self.behaves.gives is None else self.behaves.gives
        access = self._secret("access")
        expires = time.time() + min(self.behaves.expires_in, 10**9)
        self.tokens[access] = Token(client, scopes, form.get("resource", ""), expires, key)
        said: dict[str, Any] = {
            "access_token": access,
            "token_type": "DPoP" if key else "Bearer",
            "expires_in": self.behaves.expires_in,
            "scope": " ".join(scopes),
        }
        if refreshable:
            said["refresh_token"] = self._secret("refresh")
            self.refresh[said["refresh_token"]] = (client, scopes)
        return JSONResponse({"tokens": [said]} if self.behaves.garbled else said)

    async def _revoke(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.seen.append(("revoke", form))
        self.tokens.pop(form["token"], None)
        self.refresh.pop(form["token"], None)
        return Response()

    def _client_problem(self, request: Request, form: dict[str, str]) -> str:
        """Return the error of a client that does not show who it is as it should."""
        if "client_assertion" in form:
            subject = jwt.decode(form["client_assertion"], options={"verify_signature": False})["sub"]
            algorithms = ["ES256", "RS256"]
            jwt.decode(form["client_assertion"], self.keys[subject], algorithms=algorithms, audience=self.url)
            return ""
        name, secret = form.get("client_id", ""), form.get("client_secret")
        if (header := request.headers.get("authorization", "")).startswith("Basic "):
            name, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        client = self.clients.get(name, {})
        if client.get("client_secret") != secret or (not client and not self.behaves.cimd):
            return "invalid_client"
        return ""

    def _proven(self, request: Request) -> tuple[str, str]:
        """Return the key of a DPoP proof, and what is wrong with it."""
        proof = request.headers.get("dpop", "")
        if not proof:
            return "", ""
        key, claims = read_proof(proof)
        if claims["htm"] != "POST" or claims["htu"] != f"{self.url}/token":
            return "", "invalid_dpop_proof"
        if self.behaves.dpop == "nonce" and claims.get("nonce") != "nonce-of-the-issuer":
            return "", "use_dpop_nonce"
        return key, ""

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_urlsafe(16)}"
        self.secrets.add(made)
        return made


def read_proof(proof: str) -> tuple[str, dict[str, Any]]:
    """Check a proof's signature and return its key and its claims."""
    header = jwt.get_unverified_header(proof)
    assert header["typ"] == "dpop+jwt"
    assert set(header["jwk"]) == {"kty", "crv", "x", "y"}
    key = jwt.PyJWK(header["jwk"], algorithm="ES256")
    return json.dumps(header["jwk"], sort_keys=True), jwt.decode(proof, key, algorithms=["ES256"])
