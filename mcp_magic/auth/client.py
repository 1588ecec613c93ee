"""The OAuth client of a session: gets tokens and puts them on requests.

`log_in_with` adds the log-in to an HTTP client. `SessionAuth` sends the requests of the session. When the server
refuses a request, it has `OAuthClient` refresh the token or log in: `Discovery`, `Registration`, an authorization
request to the user (or the grant of a program), and the exchange for `Tokens`. These share one `Authority`.

URLs, parsers and checks are the SDK's (`mcp.client.auth`); this module decides the order. The SDK's own client holds a
lock from before a request is sent until its answer begins, so one slow call would delay all others.

Here requests do not wait for each other; a token is renewed under a lock, once for all that wait for it. A log-in uses
the session's HTTP client, but outside the refused request: if it fails, the 401 goes through and the session lives on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urljoin, urlsplit, urlunsplit
from uuid import uuid4

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext, PKCEParameters, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_info_from_metadata_url,
    create_client_registration_request,
    create_oauth_metadata_request,
    credentials_match_issuer,
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    handle_registration_response,
    handle_token_response_scopes,
    issuers_match,
    should_use_client_metadata_url,
    union_scopes,
    validate_authorization_response_iss,
    validate_metadata_issuer,
)
from mcp.shared.auth import (
    JWT_BEARER_GRANT_TYPE,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import AnyUrl, ValidationError

from mcp_magic._sdk import redirect_within_origin
from mcp_magic.auth.addresses import Reach, host_and_port, is_private
from mcp_magic.auth.errors import Parties
from mcp_magic.auth.login import CallbackServer, LogIn, LogIns
from mcp_magic.auth.store import FileStore, KeptTokens, Record, locked, read_model, server_key
from mcp_magic.config.specs import HttpSpec, SseSpec, UrlSpec, tls_context
from mcp_magic.display.text import host_of, why_not_open
from mcp_magic.errors import AuthorizationError
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.schema.secrets import MASK
from mcp_magic.session.wire import LOG_IN
from mcp_magic.trace.trace import being_sent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

    from mcp_magic.config.specs import AuthOptions


ATTEMPTS = 6
"""Most times one request is sent: with a nonce, after a refresh, a log-in, a step-up, another request's log-in."""

IN_VAIN_SECONDS = 60.0
"""Seconds after a useless log-in during which the same refusal starts no further log-in."""

ASK_SECONDS = 15.0  # deadline of a request to an authorization server, in seconds

REDIRECTS = 5

ANY_PORT = "http://127.0.0.1/callback"  # placeholder of the redirect URI while no callback server runs

_BACKGROUND = frozenset(("subscriptions/listen", "ping"))
"""Requests that no user waits for. They may refresh a token but do not start a log-in."""

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}

_UNUSABLE = (OAuthFlowError, ValueError, OverflowError)
"""Errors that an unusable answer of an authorization server raises; `expires_in` may be 10**400 seconds."""

_SECRETS = ("code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion")
"""Secret parameters of a token request. They are masked because an error of the token endpoint may repeat them."""


@dataclass(frozen=True)
class AuthContext:
    """The parts of a session that its log-in needs."""

    server: str
    spec: HttpSpec | SseSpec
    logins: LogIns
    learn: Callable[[Iterable[str]], None]  # gets all tokens and secrets, so that they are masked everywhere
    hide: Callable[[str], str]  # masks all known secrets in a text
    is_open: Callable[[], bool]  # a failed log-in ends a session only while the session opens
    logged_in: Callable[[], None] = lambda: None  # called after each log-in, but not when a token was refreshed
    remark: Callable[[str], None] = lambda text: None  # takes what was odd in an answer that was understood


@dataclass
class _Renewal:
    """A request that needs another token."""

    request: httpx2.Request
    began: float = field(default_factory=time.monotonic)
    token: str | None = None
    response: httpx2.Response | None = None  # the refusal; None if it was not sent because its token has expired
    tried: set[str] = field(default_factory=set)  # nonce, refresh, a log-in after the status 401 or 403


def may_log_in(spec: HttpSpec | SseSpec) -> bool:
    """Whether a session may log in: its spec allows it and, in mode auto, sets no Authorization header."""
    own = any(name.lower() == "authorization" for name in spec.headers)
    return spec.auth.mode != "none" and not (own and spec.auth.mode == "auto")


def log_in_with(http: httpx2.AsyncClient, context: AuthContext) -> None:
    """Let a session's HTTP client log in, if the spec allows it and the client has no other authentication."""
    if may_log_in(context.spec) and http.auth is None:
        http.auth = SessionAuth(http, context)


class SessionAuth(httpx2.Auth):
    """Sends the requests of a session with a token, and gets a new token when the server refuses one.

    Sends requests unchanged until one is refused: most servers never ask for a log-in, and reading the keyring may
    prompt for a password. Requests do not wait for each other. Only getting a new token holds a lock, and one log-in
    serves all requests that wait for it.
    """

    def __init__(self, http: httpx2.AsyncClient, context: AuthContext) -> None:
        self._http = http
        self._context = context
        self._oauth: OAuthClient | None = None
        self._renewing = asyncio.Lock()
        self._logging_in = False
        self._failure: AuthorizationError | None = None
        self._failed_at = 0.0
        self._in_vain: dict[str, float] = {}  # a status and its scopes -> when a log-in for them did not help

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and resend it as long as a better token can be had."""
        refusal: httpx2.Response | None = None
        if self._oauth is None and self._context.spec.auth.mode == "auto":
            refusal = yield request
            if not _is_refusal(refusal):
                return
        renewal = _Renewal(request)
        oauth = self._oauth if self._oauth is not None else await self._open()
        for _ in range(ATTEMPTS):
            renewal.token, renewal.response = oauth.tokens.access_token, None
            if renewal.token is not None or "refresh" in renewal.tried or not oauth.tokens.can_refresh:
                if renewal.token is None and refusal is not None:
                    renewal.response, refusal = refusal, None  # the server's answer to a request without a token
                else:
                    oauth.tokens.prepare(request)
                    renewal.response = yield request
                oauth.observe(renewal.response)
                if not _is_refusal(renewal.response):
                    return
            try:
                again = await self._renew(oauth, renewal)
            except AuthorizationError as error:
                again = self._survive(error)
            if not again:
                if renewal.response is None:
                    yield request  # without a token: the server says what is wrong
                return

    async def _open(self) -> OAuthClient:
        async with self._renewing:
            if self._oauth is None:
                spec = self._context.spec
                store = await asyncio.to_thread(self._context.logins.store)
                tokens = KeptTokens(store, spec.url, spec.auth, self._context.learn)
                oauth = OAuthClient(self._http, self._context, tokens)
                await oauth.load()
                self._oauth = oauth
        return self._oauth

    async def _renew(self, oauth: OAuthClient, renewal: _Renewal) -> bool:
        """Get a token that the server accepts, and return whether to send the request again.

        One request gets it; the others wait and use it.
        """
        response, tried = renewal.response, renewal.tried
        if response is not None and oauth.tokens.wants_nonce(response) and "nonce" not in tried:
            tried.add("nonce")
            return True
        if self._logging_in and not self._may_ask_for(renewal.request):
            return False  # it may tell the server that the call waiting for the log-in was cancelled
        async with self._renewing:
            if oauth.tokens.access_token not in (None, renewal.token):
                return True
            unauthorized = response is None or response.status_code == 401
            if unauthorized and "refresh" not in tried and (response is None or oauth.tokens.can_refresh):
                tried.add("refresh")
                await oauth.tokens.refresh(renewal.token)
                return True
            if response is None or not self._may_ask_for(renewal.request):
                return False
            if _challenge(response) not in ("bearer", "dpop", "") and self._context.spec.auth.mode != "oauth":
                return False
            if self._failure is not None and self._failed_at > renewal.began:
                raise self._failure  # another request has just failed at the same
            return await self._log_in(oauth, renewal.request, response, tried)

    async def _log_in(
        self, oauth: OAuthClient, request: httpx2.Request, response: httpx2.Response, tried: set[str]
    ) -> bool:
        """Log in, once for each status; return whether there is a token."""
        status = str(response.status_code)
        refusal, now = f"{status} {extract_scope_from_www_auth(response)}", time.monotonic()
        if status in tried:
            self._in_vain[refusal] = now
        if now - self._in_vain.get(refusal, -IN_VAIN_SECONDS) < IN_VAIN_SECONDS:
            raise oauth.parties.refused_again(response, oauth.tokens.scope)
        tried.add(status)
        self._logging_in = True
        try:
            again = await oauth.log_in(request, response)
        finally:
            self._logging_in = False
        if again:
            self._failure = None
            self._context.logged_in()
        return again

    def _survive(self, error: AuthorizationError) -> bool:
        """Record a failed log-in. Raises the error while the session opens; later the refusal itself is passed on."""
        self._failure, self._failed_at = error, time.monotonic()
        if (attempt := current_attempt.get()) is not None:
            attempt.error = error
        if not self._context.is_open():
            raise error
        return False

    def _may_ask_for(self, request: httpx2.Request) -> bool:
        """Whether this request may start a log-in: the log-in needs no user, or a user waits for the answer."""
        spec = self._context.spec
        if not spec.auth.interactive:
            return True
        if request.method != "POST":
            return request.method == "GET" and spec.transport == "sse" and not self._context.is_open()
        try:
            message = json.loads(request.content)
        except (ValueError, RecursionError):
            return False
        return isinstance(message, dict) and "id" in message and message.get("method") not in _BACKGROUND


def _is_refusal(response: httpx2.Response) -> bool:
    if response.status_code == 403:
        return extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401


def _challenge(response: httpx2.Response) -> str:
    """Return the scheme that a challenge asks for: "bearer" or "dpop" if listed, else the first one, "" without any."""
    words: list[str] = response.headers.get("www-authenticate", "").lower().split()
    return next((word for word in words if word in ("bearer", "dpop")), words[0] if words else "")


async def _mended(answer: httpx2.Response, kind: Any, remark: Callable[[str], None]) -> httpx2.Response:
    """Return an answer without the optional members that the SDK's model refuses, such as URLs that are empty."""
    if answer.status_code not in (200, 201):
        return answer
    await answer.aread()
    try:
        members = json.loads(answer.content.decode("utf-8-sig"))
        kind.model_validate(members)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    except (ValueError, RecursionError):
        return answer
    else:
        return answer
    for problem in problems:
        name = str(problem["loc"][0]) if problem["loc"] else ""
        field = kind.model_fields.get(name)
        if not isinstance(members, dict) or name not in members or field is None or field.is_required():
            continue
        value = members.pop(name)  # it is not shown, because it may be a token
        why = "is empty" if value in ("", None) else "has a wrong value"
        reading = "it is ignored"
        if problem["type"] == "list_type" and isinstance(value, str) and value:
            members[name], why, reading = value.split(), "is a text, not a list", "it is read as a list of its words"
        remark(f"{answer.request.url.path}: {name} {why}; {reading}")
    return httpx2.Response(answer.status_code, json=members, request=answer.request)


class Authority:
    """What is known of the authorization server of an MCP server, and the requests of a log-in, which go to both.

    The session's HTTP client sends the requests, without the session's token.
    """

    def __init__(self, http: httpx2.AsyncClient, context: AuthContext) -> None:
        self._http = http
        self.context = context
        self.options = options = context.spec.auth
        self.state = OAuthContext(
            server_url=context.spec.url,
            client_metadata=_client_metadata(options),
            storage=cast("Any", None),  # `KeptTokens` is used directly
            redirect_handler=None,
            callback_handler=None,
            client_metadata_url=options.client_metadata_url if options.interactive else None,
        )
        self.reach = Reach(context.spec.url, [options.issuer])
        self._secrets: list[str] = []

    @property
    def parties(self) -> Parties:
        """The servers of the log-in, for messages."""
        metadata, context = self.state.oauth_metadata, self.context
        issuer = str(metadata.issuer) if metadata is not None else self.state.auth_server_url or ""
        return Parties(context.server, context.spec.where, host_and_port(issuer), self._hide)

    def _hide(self, text: str) -> str:
        text = self.context.hide(text)
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def learn(self, form: Mapping[str, Any]) -> None:
        """Remember the secrets of a token request, which messages must not repeat."""
        self._secrets = [form[name] for name in _SECRETS if form.get(name)]

    @property
    def expected_issuer(self) -> str:
        """The issuer that metadata and client must belong to; by default the MCP server's origin."""
        url = httpx2.URL(self.state.server_url)
        return self.state.auth_server_url or f"{url.scheme}://{url.netloc.decode()}"

    def endpoint(self, name: str, path: str) -> str:
        """Return an endpoint of the authorization server; without metadata, a path at the MCP server's origin."""
        if endpoint := getattr(self.state.oauth_metadata, name, None):
            return str(endpoint)
        return urljoin(self.state.get_authorization_base_url(self.state.server_url), path)

    def resource(self) -> dict[str, str]:
        """Return the parameter that names the MCP server (RFC 8707), if the server takes it."""
        state = self.state
        if not state.should_include_resource_param(state.protocol_version):
            return {}
        return {"resource": state.get_resource_url()}

    async def read(self, answer: httpx2.Response, kind: Any) -> httpx2.Response:
        """Return an answer without what the SDK's model refuses."""
        return await _mended(answer, kind, self.context.remark)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the log-in. Follows redirects within its origin.

        Raises:
            AuthorizationError: It would be readable on the way, leads to a forbidden address, or is not answered.
        """
        if request.method == "POST" and not is_private(str(request.url)):
            raise self.parties.error(
                f"{host_and_port(str(request.url))} wants secrets over plain http, where others on the network can "
                "read them; nothing was sent. An authorization server must use https."
            )
        timeout = httpx2.Timeout(ASK_SECONDS).as_dict()
        failure = ""
        try:
            for _ in range(REDIRECTS + 1):
                url = str(request.url)
                await self.check_reach(url)
                watching = self.reach.watching(request, partial(self._astray, url))
                request.extensions |= {LOG_IN: True, "timeout": timeout, "trace": watching}
                answer = await self._http.send(request, auth=None, follow_redirects=False)
                following = redirect_within_origin(answer)
                if following is None:
                    break
                request = following
        except httpx2.TimeoutException:
            failure = f"did not answer within {ASK_SECONDS:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            failure = f"cannot be reached ({type(error).__name__})"
        if failure:
            where = host_and_port(str(request.url))
            raise self.parties.error(f"{where}, which the log-in needs, {failure}; try again when it runs.")
        return answer

    async def check_reach(self, url: str) -> None:
        """Raise if a URL leads into this machine or its network, and the MCP server is outside."""
        if address := await self.reach.refused(url):
            raise self._astray(url, address)

    def _astray(self, url: str, address: str) -> AuthorizationError:
        parties, at = self.parties, host_and_port(url)
        where = at if address in at else f"{at} ({address})"
        return parties.error(
            f"{parties.where} leads its log-in to {where}, an address of this machine or its network; nothing was sent "
            f"there. If that is where you log in, name it: --issuer {urlsplit(url).scheme}://{at}"
        )

    def unattended(self) -> AuthorizationError:
        """Return the error for a log-in that needs a user where none can be asked."""
        parties = self.parties
        at = f" at {parties.issuer}" if parties.issuer else ""
        return parties.error(
            f"{parties.where} wants a log-in{at}, and you cannot be asked here. "
            f"Log in once with `%mcp connect {parties.where}` in a notebook or terminal; the token is kept.\n"
            'Without a user: auth = { grant = "client_credentials", ... }, or a header Authorization.'
        )


class Discovery:
    """Finds the authorization server of an MCP server, and the scopes to ask for."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def discover(self, response: httpx2.Response) -> bool:
        """Find the authorization server that a refusal leads to; return whether it offers tokens bound to a key."""
        state = self._authority.state
        await self._discover_resource(extract_resource_metadata_from_www_auth(response))
        issuer = self._authority.expected_issuer
        if state.client_info is not None and not credentials_match_issuer(
            state.client_info, issuer, state.client_metadata_url
        ):  # the authorization server changed: it must not see the old one's credentials
            state.client_info = state.oauth_metadata = None
            state.clear_tokens()
        for url in build_oauth_authorization_server_metadata_discovery_urls(state.auth_server_url, state.server_url):
            answer = await self._authority.send(create_oauth_metadata_request(url))
            answer = await self._authority.read(answer, OAuthMetadata)
            goes_on, metadata = await handle_auth_metadata_response(answer)
            if metadata is not None:
                if issuers_match(str(metadata.issuer), issuer):  # a root issuer may have its slash or not
                    issuer = str(metadata.issuer)
                validate_metadata_issuer(metadata, issuer)
                state.oauth_metadata = metadata
                algorithms = (await _json(answer)).get("dpop_signing_alg_values_supported")  # not in the SDK's model
                return isinstance(algorithms, list) and ALGORITHM in algorithms
            if not goes_on:
                break
        return False

    async def _discover_resource(self, advertised: str | None) -> None:
        """Read the metadata of the MCP server, if it has any, and choose one of its authorization servers."""
        state, failure = self._authority.state, 0
        for url in build_protected_resource_metadata_discovery_urls(advertised, state.server_url):
            answer = await self._authority.send(create_oauth_metadata_request(url))
            if answer.status_code >= 500 or answer.status_code == 429:
                failure = answer.status_code
            answer = await self._authority.read(answer, ProtectedResourceMetadata)
            metadata = await handle_protected_resource_response(answer)
            if metadata is None:
                continue
            expected, resource = resource_url_from_server_url(state.server_url), str(metadata.resource)
            if not check_resource_allowed(requested_resource=expected, configured_resource=resource):
                raise OAuthFlowError(f"Protected resource {resource} does not match expected {expected}")
            issuers, wish = [str(url) for url in metadata.authorization_servers], self._authority.options.issuer
            state.protected_resource_metadata = metadata
            state.auth_server_url = next((url for url in issuers if wish and issuers_match(url, wish)), issuers[0])
            return
        if failure:
            raise OAuthFlowError(f"Protected resource metadata request failed: HTTP {failure}")

    def check_issuer(self) -> None:
        """Raise unless the credentials of a program belong to the authorization server that was found."""
        state, issuer = self._authority.state, self._authority.options.issuer
        metadata = state.oauth_metadata
        if issuer is None or (metadata is not None and issuers_match(str(metadata.issuer), issuer)):
            return
        state.oauth_metadata = None
        state.clear_tokens()
        parties = self._authority.parties
        raise parties.error(
            f"{parties.where} does not lead to {issuer}, where this client's credentials belong: they were not sent."
        )

    def choose_scope(self, response: httpx2.Response, granted: str | None, *, stepping_up: bool) -> None:
        """Choose the scopes: those the user named, else those the server suggests. A step-up adds to those granted."""
        state, scopes = self._authority.state, " ".join(self._authority.options.scopes)
        metadata = state.client_metadata
        suggested = get_client_metadata_scopes(
            extract_scope_from_www_auth(response),
            state.protected_resource_metadata,
            state.oauth_metadata,
            metadata.grant_types,
        )
        if stepping_up:
            metadata.scope = union_scopes(union_scopes(metadata.scope, granted), suggested)
        elif scopes:
            offline = "offline_access" if "offline_access" in (suggested or "").split() else None
            metadata.scope = union_scopes(scopes, offline)
        else:
            metadata.scope = suggested


class Registration:
    """Registers this program at an authorization server."""

    def __init__(self, authority: Authority, tokens: KeptTokens) -> None:
        self._authority = authority
        self._kept = tokens

    def by_hand(self) -> OAuthClientInformationFull | None:
        """Return the client that the spec names, or None. A `jwt_bearer` client may have no id, and never registers."""
        options = self._authority.options
        if options.client_id is None and options.grant != "jwt_bearer":
            return None
        method = options.token_endpoint_auth_method or ("client_secret_basic" if options.client_secret else "none")
        return OAuthClientInformationFull(
            client_id=options.client_id or "",
            client_secret=options.client_secret,
            token_endpoint_auth_method=method,
            issuer=options.issuer if options.interactive else None,
        )

    def open_callback(self) -> CallbackServer:
        """Listen on the registered redirect port if it is free, else on any port and register again."""
        options, state = self._authority.options, self._authority.state
        uris = (state.client_info.redirect_uris if state.client_info is not None else None) or []
        port = options.redirect_port or next((uri.port for uri in uris if uri.port), 0)
        try:
            callback = CallbackServer(port)
        except OSError as error:
            if options.redirect_port is not None:
                raise self._authority.parties.error(
                    f"port {port}, to which the browser returns after the log-in, is taken ({error.strerror}). "
                    "End the program that listens there."
                ) from None
            callback = CallbackServer()
        if options.client_id is None and callback.redirect_uri not in map(str, uris):
            state.client_info = None
        return callback

    async def register(self) -> None:
        """Register at the authorization server: by the URL of a metadata document, or dynamically (RFC 7591)."""
        authority, state = self._authority, self._authority.state
        metadata = state.client_metadata
        if state.client_info is not None:
            return
        issuer = authority.expected_issuer if state.oauth_metadata is not None else None
        if should_use_client_metadata_url(state.oauth_metadata, state.client_metadata_url):
            assert state.client_metadata_url is not None
            client = create_client_info_from_metadata_url(state.client_metadata_url, metadata.redirect_uris)
            client.issuer = issuer
        else:
            origin = state.get_authorization_base_url(state.server_url)
            request = create_client_registration_request(state.oauth_metadata, metadata, origin)
            await self._ask(str(request.url))
            answer = await authority.send(request)
            if answer.status_code not in (200, 201):
                raise authority.parties.not_registered(answer.status_code, await _body(answer))
            answer = await authority.read(answer, OAuthClientInformationFull)
            client = await handle_registration_response(answer)
            check_registration_usable(client)
            if state.oauth_metadata is not None and issuer is not None:
                at_issuer = state.oauth_metadata.registration_endpoint is not None
                if at_issuer or state.get_authorization_base_url(issuer) == origin:
                    client.issuer = issuer
        state.client_info = client
        await self._kept.save(client=_dumped(client))

    async def _ask(self, url: str) -> None:
        """Ask the user once before this program registers anywhere; AuthorizationError unless the answer is yes."""
        metadata, parties = self._authority.state.oauth_metadata, self._authority.parties
        page = str(metadata.authorization_endpoint) if metadata is not None else url
        token = str(metadata.token_endpoint) if metadata is not None else url
        for address in (url, page, token):
            await self._authority.check_reach(address)
        at, page_host, token_host = (host_of(address) or host_and_port(address) for address in (url, page, token))
        answer = await self._authority.context.logins.permits(
            f"Log in to {parties.server} ({parties.where}) at {page_host}?\n"
            f"This program is not known there yet. It would register at {at}, show you the link to a log-in page of "
            f"{page_host}, and get its tokens from {token_host}.",
            f"{parties.server}: the log-in at {parties.authority} was interrupted.",
        )
        if answer is None:
            raise self._authority.unattended()
        if not answer:
            raise parties.error(f"the log-in at {parties.authority} was not begun: you declined.")


class Tokens:
    """The tokens of a session: exchanges a grant for them, renews them, keeps them, and puts them on requests."""

    def __init__(self, authority: Authority, records: KeptTokens) -> None:
        self._authority = authority
        self._kept = records
        self._state = authority.state
        self._prover: _Prover | None = None
        self._is_bound = False  # to the key of the prover

    @property
    def access_token(self) -> str | None:
        """The access token, or None if there is none or it has expired."""
        tokens = self._state.current_tokens
        return tokens.access_token if tokens is not None and self._state.is_token_valid() else None

    @property
    def scope(self) -> str | None:
        """The scopes of the token."""
        return self._state.current_tokens.scope if self._state.current_tokens is not None else None

    @property
    def can_refresh(self) -> bool:
        """Whether there is a refresh token."""
        return self._state.can_refresh_token()

    async def load(self) -> Record:
        """Read the tokens that this or another kernel saved; return the whole record."""
        record = await self._kept.load()
        if record.get("tokens"):
            self._state.current_tokens = read_model(OAuthToken, record["tokens"])
            self._state.token_expiry_time = record.get("expires_at")
        self._is_bound = bool(record.get("bound") and record.get("dpop_key"))
        if self._is_bound and self._prover is None:
            self._prover = _Prover(record["dpop_key"])
        return record

    def prepare(self, request: httpx2.Request) -> None:
        """Put the token on a request before it is sent, with a proof if the token is bound to a key (RFC 9449)."""
        if (entry := being_sent.get()) is not None:
            entry.status = None  # the trace shows the last answer, not an earlier refusal
        for name in ("Authorization", "DPoP"):
            request.headers.pop(name, None)
        if (token := self.access_token) is None:
            return
        if self._is_bound and self._prover is not None:
            self._prover.sign(request, token)
        else:
            request.headers["Authorization"] = f"Bearer {token}"

    def observe(self, response: httpx2.Response) -> None:
        """Remember the nonce of an answer, which the next proof has to repeat."""
        if self._prover is not None:
            self._prover.remember_nonce(response)

    def wants_nonce(self, response: httpx2.Response) -> bool:
        """Whether a server asks for the same request with its nonce in the proof (RFC 9449, section 9)."""
        return self._is_bound and extract_field_from_www_auth(response, "error") == "use_dpop_nonce"

    async def prepare_exchange(self, *, wants_dpop: bool) -> None:
        """Choose the client authentication and whether to bind tokens to a key; save the state that a refresh needs."""
        state, client = self._state, self._state.client_info
        if client is not None and client.client_secret and self._authority.options.token_endpoint_auth_method is None:
            metadata = state.oauth_metadata
            offered = (metadata.token_endpoint_auth_methods_supported if metadata else None) or ["client_secret_basic"]
            basic = "client_secret_basic" in offered or "client_secret_post" not in offered
            client.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"
        if self._prover is None and wants_dpop:
            self._prover = _Prover()
        await self._kept.save(
            metadata=_dumped(state.oauth_metadata),
            resource=_dumped(state.protected_resource_metadata),
            authority=state.auth_server_url,
            dpop_key=self._prover.pem if self._prover is not None else None,
        )

    async def exchange(self, form: dict[str, Any]) -> None:
        """Exchange a grant for tokens."""
        answer = await self._request_token(form)
        if answer.status_code not in (200, 201):
            raise self._authority.parties.no_token(answer.status_code, await _body(answer))
        answer = await self._authority.read(answer, OAuthToken)
        tokens = await handle_token_response_scopes(answer)
        if tokens.scope is None:
            tokens.scope = self._state.client_metadata.scope  # the requested ones (RFC 6749, section 5.1)
        await self._take(tokens)

    async def _take(self, tokens: OAuthToken) -> None:
        self._state.update_token_expiry(tokens)  # raises if the time is too large for a clock
        self._state.current_tokens = tokens
        await self._kept.set_tokens(tokens)
        await self._kept.save(bound=self._is_bound)

    async def _request_token(self, form: dict[str, Any]) -> httpx2.Response:
        """Send a token request, with a proof if this client has a key (RFC 9449, section 5)."""
        form, headers = self._state.prepare_token_auth(form | self._authority.resource(), dict(_FORM))
        self._authority.learn(form)
        endpoint, prover = self._authority.endpoint("token_endpoint", "/token"), self._prover
        request = httpx2.Request("POST", endpoint, data=form, headers=headers)
        if prover is None:
            return await self._authority.send(request)
        prover.sign(request)
        answer = await self._authority.send(request)
        prover.remember_nonce(answer)
        refused = answer.status_code in (400, 401) and NONCE in answer.headers
        if refused and (await _json(answer)).get("error") == "use_dpop_nonce":
            prover.sign(request)
            answer = await self._authority.send(request)
            prover.remember_nonce(answer)
        if answer.status_code == 200:  # the SDK reads bearer tokens only
            body = await _json(answer)
            self._is_bound = str(body.get("token_type", "")).lower() == "dpop"
            if self._is_bound:
                answer = httpx2.Response(200, json={**body, "token_type": "Bearer"}, request=answer.request)
        return answer

    async def refresh(self, token: str | None) -> None:
        """Use the refresh token, unless another kernel has just replaced this access token.

        A refused refresh forgets the tokens.

        Raises:
            AuthorizationError: The authorization server failed; the tokens are kept.
        """
        lock_file, failure = self._kept.lock_file, None
        try:
            async with nullcontext() if lock_file is None else locked(lock_file):
                if lock_file is not None:
                    await self.load()  # another kernel may have changed them
                if lock_file is None or self.access_token in (None, token):
                    await self._refresh_alone()
        except _UNUSABLE as error:
            failure = self._authority.parties.explained(error)
        if failure is not None:
            raise failure

    async def _refresh_alone(self) -> None:
        state, before = self._state, self._state.current_tokens
        if before is None or state.client_info is None or not state.can_refresh_token():
            state.clear_tokens()
            return
        form = {"grant_type": "refresh_token", "refresh_token": before.refresh_token}
        answer = await self._request_token(form | {"client_id": state.client_info.client_id})
        body = await _body(answer)
        if answer.status_code >= 500 or answer.status_code == 429:
            raise self._authority.parties.no_token(answer.status_code, body, "the log-in could not be renewed: ")
        tokens = read_model(OAuthToken, await _json(answer)) if answer.status_code == 200 else None
        if tokens is not None:
            tokens.scope = tokens.scope if tokens.scope is not None else before.scope
            tokens.refresh_token = tokens.refresh_token or before.refresh_token
            await self._take(tokens)
            return
        state.clear_tokens()
        forgotten: dict[str, Any] = {"tokens": None, "expires_at": None}
        if "invalid_client" in body and self._authority.options.client_id is None:
            state.client_info = None
            forgotten["client"] = None
        await self._kept.save(**forgotten)


class OAuthClient:
    """The OAuth client of one session: runs the steps that get its tokens."""

    def __init__(self, http: httpx2.AsyncClient, context: AuthContext, records: KeptTokens) -> None:
        self._authority = Authority(http, context)
        self._discovery = Discovery(self._authority)
        self._registration = Registration(self._authority, records)
        self._state = self._authority.state
        self._options = context.spec.auth
        self._logins = context.logins
        self.tokens = Tokens(self._authority, records)

    @property
    def parties(self) -> Parties:
        """The servers of the log-in, for messages."""
        return self._authority.parties

    async def load(self) -> None:
        """Read the state that earlier kernels saved."""
        record, state = await self.tokens.load(), self._state
        registered = read_model(OAuthClientInformationFull, record.get("client"))
        state.client_info = self._registration.by_hand() or registered
        state.oauth_metadata = read_model(OAuthMetadata, record.get("metadata"))
        state.protected_resource_metadata = read_model(ProtectedResourceMetadata, record.get("resource"))
        state.auth_server_url = record.get("authority")

    def observe(self, response: httpx2.Response) -> None:
        """Remember what an answer to the session says for later requests."""
        self.tokens.observe(response)
        if _is_refusal(response):
            self._authority.reach.remember_peer(response)

    async def log_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        """Get a token, in the order of the MCP specification ("Authorization Flow"); 403 steps up to more scopes.

        Returns:
            Whether there is a token; False if the server does not seem to support OAuth.

        Raises:
            AuthorizationError: The log-in failed; the message says whose fault that is.
        """
        state, scheme = self._state, _challenge(response)
        guessing = self._options.mode == "auto" and not scheme
        state.protocol_version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        granted, stepping_up, offers_dpop = self.tokens.scope, response.status_code == 403, False
        failure: AuthorizationError | None = None
        try:
            if not stepping_up or state.oauth_metadata is None:
                offers_dpop = await self._discovery.discover(response)
            if guessing and state.oauth_metadata is None:
                return False
            self._discovery.choose_scope(response, granted, stepping_up=stepping_up)
            wants_dpop = self._wants_dpop(offers=offers_dpop, asks=scheme == "dpop")
            if self._options.interactive:
                await self._log_in_person(wants_dpop=wants_dpop)
            else:
                self._discovery.check_issuer()
                await self.tokens.prepare_exchange(wants_dpop=wants_dpop)
                await self.tokens.exchange(await self._grant())
        except _UNUSABLE as error:
            if guessing and state.oauth_metadata is None:
                return False
            failure = self.parties.explained(error)
        if failure is not None:
            raise failure  # outside the `except`, so without context: the SDK's errors quote answers, tokens included
        return True

    def _wants_dpop(self, *, offers: bool, asks: bool) -> bool:
        if self._options.dpop is not None:
            return self._options.dpop
        resource = self._state.protected_resource_metadata
        advertised = resource is not None and (
            resource.dpop_bound_access_tokens_required or resource.dpop_signing_alg_values_supported
        )
        return offers and bool(asks or advertised)

    async def _log_in_person(self, *, wants_dpop: bool) -> None:
        options, parties = self._options, self.parties
        if self._state.client_info is None and options.client_id is not None:  # another authorization server
            raise parties.error(
                f"{parties.where} leads to {parties.authority}, and the client {options.client_id!r} belongs to "
                f"{options.issuer}: it was not used."
            )
        if not await self._logins.can_ask():
            raise self._authority.unattended()
        callback = self._registration.open_callback()
        try:
            self._state.client_metadata.redirect_uris = [AnyUrl(callback.redirect_uri)]
            await self._registration.register()
            await self.tokens.prepare_exchange(wants_dpop=wants_dpop)
            await self.tokens.exchange(await self._ask_person(callback))
        finally:
            callback.close()

    async def _ask_person(self, callback: CallbackServer) -> dict[str, Any]:
        state, parties, logins = self._state, self.parties, self._logins
        assert state.client_info is not None
        assert state.client_metadata.redirect_uris is not None
        client, back = state.client_info.client_id, str(state.client_metadata.redirect_uris[0])
        proof, nonce = PKCEParameters.generate(), secrets.token_urlsafe(32)
        query = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": back,
            "state": nonce,
            "code_challenge": proof.code_challenge,
            "code_challenge_method": "S256",
            **self._authority.resource(),
        }
        if scope := state.client_metadata.scope:
            query["scope"] = scope
            if "offline_access" in scope.split():
                query["prompt"] = "consent"  # OpenID Connect requires it for refresh tokens
        endpoint = self._authority.endpoint("authorization_endpoint", "/authorize")
        url = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"
        await self._check_page(url)
        login = LogIn(parties.server, parties.where, url, callback.redirect_uri, logins.seconds, self._comes_from)
        callback.expect(login.redirected)
        answer = await logins.ask(login)
        if answer.state != nonce:  # a pasted address of the log-in page has another `state`
            raise parties.error("the answer belongs to another log-in (wrong state); try again.")
        validate_authorization_response_iss(answer.issuer, state.oauth_metadata)
        return {
            "grant_type": "authorization_code",
            "code": answer.code,
            "redirect_uri": back,
            "client_id": client,
            "code_verifier": proof.code_verifier,
        }

    async def _check_page(self, url: str) -> None:
        parties, metadata = self.parties, self._state.oauth_metadata
        if why := why_not_open(url):
            host = f" at {host_of(url)}" if host_of(url) else ""
            raise parties.error(
                f"the address of the log-in page{host} {why}; it was not opened. Its operator must fix that."
            )
        await self._authority.check_reach(url)
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or []):
            raise parties.error(
                f"{parties.authority} does not say that it supports PKCE (S256), so the code of a log-in could be "
                "stolen; it was not begun. Its operator must fix that (code_challenge_methods_supported)."
            )

    def _comes_from(self, issuer: str | None) -> bool:
        try:
            validate_authorization_response_iss(issuer, self._state.oauth_metadata)
        except OAuthFlowError:
            return False
        return True

    # Grant of a program: with the client's own credentials, or with an assertion (RFC 7523).

    async def _grant(self) -> dict[str, Any]:
        options, form = self._options, {"grant_type": "client_credentials"}
        if options.grant == "jwt_bearer":
            form = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": str(options.assertion)}
            if options.client_id is not None:
                form["client_id"] = options.client_id
        elif options.client_secret is None:
            form["client_assertion"] = options.assertion or await self._sign_assertion()
            form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        if scope := self._state.client_metadata.scope:
            form["scope"] = scope
        return form

    async def _sign_assertion(self) -> str:
        from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

        client, key, metadata = self._options.client_id, self._options.private_key, self._state.oauth_metadata
        assert client is not None
        assert key is not None
        if metadata is None:
            raise OAuthFlowError("no metadata, so the audience of the assertion is not known")
        algorithm = _algorithm(key)
        signed = SignedJWTParameters(issuer=client, subject=client, signing_key=key, signing_algorithm=algorithm)
        return await signed.create_assertion_provider()(str(metadata.issuer))


def _client_metadata(options: AuthOptions) -> OAuthClientMetadata:
    scope = " ".join(options.scopes) or None
    if options.interactive:
        method: Any = options.token_endpoint_auth_method
        return OAuthClientMetadata(
            client_name="mcp_magic",
            redirect_uris=[AnyUrl(ANY_PORT)],
            token_endpoint_auth_method=method,
            scope=scope,
        )
    grant = JWT_BEARER_GRANT_TYPE if options.grant == "jwt_bearer" else options.grant
    return OAuthClientMetadata(redirect_uris=None, grant_types=[grant], scope=scope)


def _algorithm(pem: str) -> str:
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


async def _body(answer: httpx2.Response) -> str:
    return (await answer.aread()).decode("utf-8", "replace")


async def _json(answer: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of an answer, or {} if it has none."""
    try:
        value = json.loads(await answer.aread())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _dumped(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


# Proofs of possession (DPoP, RFC 9449): a stolen token is worthless without a key of this kernel. The SDK supports
# bearer tokens only, so the proofs on requests, the nonces and the `token_type: DPoP` of a token endpoint are here.

ALGORITHM = "ES256"
NONCE = "DPoP-Nonce"


class _Prover:
    """Signs proofs with its own key (PEM, P-256; a new one by default), and remembers the nonces of servers."""

    def __init__(self, pem: str | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        loaded = load_pem_private_key(pem.encode(), None) if pem else ec.generate_private_key(ec.SECP256R1())
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        numbers = loaded.public_key().public_numbers()
        x, y = (_base64(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        self._jwk = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
        self._nonces: dict[str, str] = {}

    def __repr__(self) -> str:
        return "<Prover>"

    @property
    def pem(self) -> str:
        from cryptography.hazmat.primitives import serialization as s

        return self._key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode()

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


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# Log-out: revokes the tokens of a server if it can (RFC 7009), and deletes them here in any case.

REVOKE_SECONDS = 5.0  # deadline of a revocation, in seconds. The tokens are deleted here even if it is missed.


@dataclass(frozen=True)
class LoggedOut:
    """The result of the log-out of one client."""

    authority: str
    outcome: str  # "revoked", or why the tokens were only deleted here


async def log_out(spec: UrlSpec, logins: LogIns) -> list[LoggedOut]:
    """Revoke and delete all tokens and registrations of a server; return the result for each client."""
    key = server_key(spec.url)
    store = await asyncio.to_thread(logins.store)
    records = await asyncio.to_thread(store.load, key)
    outcomes = [await _revoke(record, spec) for record in records.values() if isinstance(record, dict)]
    await asyncio.to_thread(store.save, key, {})
    if not isinstance(store, FileStore) and logins.where == "auto":
        await asyncio.to_thread(FileStore().save, key, {})
    return outcomes


async def _revoke(record: Record, spec: UrlSpec) -> LoggedOut:
    metadata, tokens = record.get("metadata") or {}, record.get("tokens") or {}
    authority = host_and_port(str(metadata.get("issuer") or record.get("authority") or ""))
    endpoint = str(metadata.get("revocation_endpoint") or "")
    if not tokens:
        return LoggedOut(authority, "forgotten: there was a registration, and no token")
    if not endpoint or not is_private(endpoint):
        return LoggedOut(authority, "forgotten; it has no way to revoke tokens")
    if await Reach(spec.url, [getattr(getattr(spec, "auth", None), "issuer", None)]).refused(endpoint):
        return LoggedOut(
            authority, "forgotten here; not revoked there: the address for that is on this machine or its network"
        )
    options = getattr(spec, "auth", None)
    client: Record = dict(record.get("client") or {})
    if options is not None and options.client_id is not None:
        method = options.token_endpoint_auth_method or "client_secret_basic"
        client = {"client_id": options.client_id, "client_secret": options.client_secret}
        client["token_endpoint_auth_method"] = method
    # the refresh token first: most servers revoke its access tokens with it
    kinds = [kind for kind in ("refresh_token", "access_token") if tokens.get(kind)]
    name = client.get("client_id", "")
    forms = [{"token": tokens[kind], "token_type_hint": kind, "client_id": name} for kind in kinds]
    return LoggedOut(authority, await _post(endpoint, forms, client, spec))


async def _post(endpoint: str, forms: list[dict[str, Any]], client: Record, spec: UrlSpec) -> str:
    secret = client.get("client_secret")
    options: dict[str, Any] = {}
    if secret is not None and client.get("token_endpoint_auth_method") == "client_secret_post":
        forms = [{**form, "client_secret": secret} for form in forms]
    elif secret is not None:
        options["auth"] = httpx2.BasicAuth(quote(client["client_id"], safe=""), quote(secret, safe=""))
    plain = spec.verify is True and spec.cert is None
    try:
        async with httpx2.AsyncClient(timeout=REVOKE_SECONDS, verify=True if plain else tls_context(spec)) as sender:
            answers = [await sender.post(endpoint, data=form, **options) for form in forms]
    except (httpx2.HTTPError, OSError) as error:
        return f"forgotten here; not revoked there: no answer ({type(error).__name__})"
    refused = [answer.status_code for answer in answers if answer.status_code >= 400]
    return f"forgotten; it did not revoke them (HTTP {refused[0]})" if refused else "revoked"
