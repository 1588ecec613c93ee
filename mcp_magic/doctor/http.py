"""The doctor's steps for a URL: name, port, certificate, HTTP statuses, redirects and the log-in."""

from __future__ import annotations

import asyncio
import codecs
import datetime
import json
import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import duration, join_names
from mcp_magic.auth.addresses import Reach
from mcp_magic.config.masking import mask_url
from mcp_magic.config.specs import tls_context
from mcp_magic.display.text import LOOPBACK, one_line
from mcp_magic.doctor.stdio import Reply, discover, initialize, is_message
from mcp_magic.errors import AuthorizationError
from mcp_magic.session.failures import no_host, refused_with, tls_failure, unreachable
from mcp_magic.session.negotiation import ACCEPT
from mcp_magic.session.transports import CONNECT_SECONDS
from mcp_magic.trace.trace import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import httpx2

    from mcp_magic.auth.login import LogIn, LogIns
    from mcp_magic.config.specs import HttpSpec, SseSpec, UrlSpec
    from mcp_magic.doctor.report import Step


# The way to a URL: name, connection, TLS.

FEW_DAYS = 14  # a certificate that expires within so many days gets a warning


def why_hidden(spec: UrlSpec) -> str:
    """Return why the way to a URL cannot be seen from here, or ""; the proxy is named without its credentials."""
    if IN_BROWSER:
        return "the browser makes the connection"
    parts = urlsplit(spec.url)
    scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
    proxy = getproxies().get(scheme) or getproxies().get("all")
    return f"it goes over the proxy {mask_url(proxy)}" if proxy and not proxy_bypass(parts.hostname or "") else ""


async def look_at_connection(spec: UrlSpec, step: Step) -> None:
    """Look the name up and connect."""
    host, port = spec.address
    started = time.perf_counter()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise step.stop(*no_host(host)) from None
    looked_up = time.perf_counter()
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in infos))
    if addresses != [host]:
        step.ok(f"{host} is {join_names(addresses, 4)} ({duration(looked_up - started)})")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise step.stop(*unreachable(error, f"{host}:{port}")) from None
    writer.close()
    step.ok(f"{host}:{port} accepts a TCP connection ({duration(time.perf_counter() - looked_up)})")


async def look_at_tls(spec: UrlSpec, step: Step) -> None:
    """Read the certificate without verification, then verify it as a session does."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        version, der = await _handshake(context, spec)
    except OSError as error:
        problem, todo = tls_failure(error)
        raise step.stop(f"no TLS handshake: {problem}", todo) from None
    names = _read_certificate(der, version, step)
    if spec.verify is False:
        step.warn("the certificate is not checked (--insecure)", "--ca FILE names the authority to trust instead")
        return
    try:
        await _handshake(tls_context(spec), spec)
    except OSError as error:
        problem, todo = tls_failure(error, names)
        raise step.stop(f"it is not trusted: {problem}", todo) from None
    step.ok("it is trusted" + (f" by {spec.verify}" if isinstance(spec.verify, str) else ""))


def _read_certificate(der: bytes, version: str, step: Step) -> list[str]:
    """Note for whom a certificate (X.509, DER) is and for how long; return the names that it is for."""
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError:
        return []
    subject, issuer = certificate.subject.rfc4514_string(), certificate.issuer.rfc4514_string()
    names = []
    with suppress(x509.ExtensionNotFound, ValueError):
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += extension.get_values_for_type(x509.DNSName)
        names += map(str, extension.get_values_for_type(x509.IPAddress))
    hosts, by = join_names(names, 4) if names else "no host", "itself" if issuer == subject else issuer
    step.ok(f"{version}; certificate of {subject or 'an unnamed owner'}, for {hosts}, issued by {by}")
    days = (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).total_seconds() / 86_400
    if days < 0:
        step.fail(f"it expired {-days:.0f} days ago", "renew the certificate")
    elif days < FEW_DAYS:
        step.warn(f"it expires in {days:.1f} days", "renew the certificate")
    else:
        step.ok(f"it is valid for another {days:,.0f} days")
    return names


async def _handshake(context: Any, spec: UrlSpec) -> tuple[str, bytes]:
    """Return the version of TLS and the certificate (DER) of a server."""
    host, port = spec.address
    async with asyncio.timeout(CONNECT_SECONDS):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    try:
        tls = writer.get_extra_info("ssl_object")
        return str(tls.version()), tls.getpeercert(binary_form=True) or b""
    finally:
        writer.close()
        transport: Any = writer.transport
        transport.abort()


# Plain HTTP requests, without the SDK, so that statuses, content types and redirects can be seen.

BODY_BYTES = 4 * 1024 * 1024  # bytes of an answer that are read

MAX_REDIRECTS = 5


class HttpProbe:
    """A URL that the doctor queries without a session, each answer within some seconds."""

    def __init__(self, spec: HttpSpec | SseSpec, seconds: float, log_in: LogInProbe | None = None) -> None:
        self._spec = spec
        self.log_in = log_in
        self._seconds = seconds
        self._url = spec.url
        self.redirects: list[str] = []
        self.session = ""

    def _client(self, *, headers: Mapping[str, str] | None = None) -> httpx2.AsyncClient:
        import httpx2

        all_headers = dict(self._spec.headers if headers is None else headers)
        timeout = httpx2.Timeout(min(CONNECT_SECONDS, self._seconds), read=self._seconds)
        factory = self._spec.client_factory
        if factory is not None and headers is None:
            client: httpx2.AsyncClient = factory(headers=all_headers, timeout=timeout, auth=None)
            return client
        plain = self._spec.verify is True and self._spec.cert is None
        return httpx2.AsyncClient(
            headers=all_headers,
            timeout=timeout,
            verify=True if plain else tls_context(self._spec),
            follow_redirects=False,
        )

    async def discover(self, **headers: str) -> Reply:
        """Send `server/discover`."""
        from mcp_types.version import LATEST_MODERN_VERSION

        all_headers = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": "server/discover", **headers}
        return await self._post(discover(), all_headers)

    async def initialize(self) -> Reply:
        """Send `initialize`, and end at once the session that it opens."""
        reply = await self._post(initialize(), {})
        self.session = reply.headers.get("mcp-session-id", "")
        if self.session:
            await self._send("DELETE", self._url, {"mcp-session-id": self.session}, None, 0)
        return reply

    async def get(self, path: str = "") -> Reply:
        """Get the URL, or a path of its server, as a client of the HTTP+SSE transport: only the start of a stream."""
        return await self._send("GET", urljoin(self._url, path), {"accept": "text/event-stream"}, None, 0)

    async def speaks(self, path: str) -> bool:
        """Whether another path of the same server speaks MCP."""
        if path == "/sse":
            return "event-stream" in (await self.get(path)).headers.get("content-type", "")
        reply = await self._send("POST", urljoin(self._url, path), {}, discover(), 1)
        return reply.message is not None or reply.status == 401

    async def document(self, url: str) -> Reply:
        """Get a JSON document without this server's credentials; not from a local address for a remote server."""
        issuer = getattr(getattr(self._spec, "auth", None), "issuer", None)
        if address := await Reach(self._url, [issuer]).refused(url):
            reply = Reply()
            reply.failure = f"{url} leads to {address}, an address of this machine or its network"
            return reply
        return await self._send("GET", url, {"accept": "application/json"}, None, 0, foreign=True)

    async def _post(self, message: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send a request. Follows redirects that keep the POST within the origin, as a session does."""
        while True:
            reply = await self._send("POST", self._url, headers, message, message["id"])
            location = reply.headers.get("location", "")
            if reply.status not in (301, 302, 303, 307, 308) or not location:
                return reply
            target = urljoin(self._url, location)
            self.redirects.append(target)
            same = urlsplit(target)[:2] == urlsplit(self._url)[:2]
            if not same or reply.status not in (307, 308) or len(self.redirects) > MAX_REDIRECTS:
                return reply
            self._url = target

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], message: Any, number: int, *, foreign: bool = False
    ) -> Reply:
        import httpx2

        started = time.perf_counter()
        reply = Reply()
        all_headers = {"accept": ACCEPT, **headers}
        encoded = {name.encode(): value.encode() for name, value in all_headers.items()}  # a session id may be odd
        try:
            async with self._client(headers={} if foreign else None) as client:
                if self.log_in is not None and self.log_in.open and not foreign:
                    self.log_in.apply_to(client)
                content = {"json": message} if message is not None else {}
                async with client.stream(method, url, headers=encoded, **content) as response:
                    reply.status = response.status_code
                    reply.headers = {name.lower(): value for name, value in response.headers.items()}
                    await _read(response, reply, number)
        except httpx2.TimeoutException:
            reply.failure = f"no answer in {self._seconds:g} s"
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            reply.failure = self._spec.masked(str(error) or type(error).__name__)[:200]
        reply.seconds = time.perf_counter() - started
        return reply


async def _read(response: httpx2.Response, reply: Reply, number: int) -> None:
    """Read an answer: a document to its end, an event stream until the answer arrives, whatever its content type."""
    stream = "event-stream" in reply.headers.get("content-type", "")
    data = b""
    async for chunk in response.aiter_bytes():
        data += chunk
        if stream and ((answer := _event(data, number)) or not number):
            reply.message = answer
            break
        if len(data) > BODY_BYTES:
            break
    reply.body = data[:20_000].decode("utf-8", "replace")
    if reply.message is None and number:
        reply.message = is_message(data.removeprefix(codecs.BOM_UTF8), number) or _event(data + b"\n", number)


def _event(data: bytes, number: int) -> dict[str, Any] | None:
    """Return the answer in the part of an event stream that has arrived, or None."""
    for line in data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").split(b"\n")[:-1]:
        if line.startswith(b"data:") and (answer := is_message(line[5:].strip(), number)):
            return answer
    return None


# The log-in that a server asks for: its challenge and the documents that it names. Nothing here logs in.
# Sources: RFC 9110, section 11.6.1; RFC 9728 (protected resource metadata); RFC 8414 (authorization server metadata);
# specification, "Authorization".

_PARAMETER = re.compile(r'([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

MAX_DOCUMENTS = 6  # most documents that are fetched; the specification has up to five places for them


async def read_challenge(reply: Reply, probe: HttpProbe, url: str, step: Step) -> bool:
    """Note the log-in that a 401 asks for; return whether it says how to get a token."""
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls

    header = reply.headers.get("www-authenticate", "")
    scheme = header.split(maxsplit=1)[0].rstrip(",") if header else ""
    parameters = {match[1].lower(): match[2] or match[3] or "" for match in _PARAMETER.finditer(header[:4000])}
    if not header:
        step.warn("its 401 has no WWW-Authenticate header", "RFC 9110 asks for one: it says how to log in")
    elif scheme.lower() not in ("bearer", "dpop"):
        realm = f" for {parameters['realm']!r}" if "realm" in parameters else ""
        step.ok(f"it wants {scheme} authentication{realm}")
    names = [name for name in ("error", "error_description", "scope") if name in parameters]
    if names:
        step.ok("it says: " + ", ".join(f"{name} {parameters[name][:120]!r}" for name in names))
    places = build_protected_resource_metadata_discovery_urls(parameters.get("resource_metadata"), url)
    resource = await _first_document(probe, places)
    if resource is None:
        return False
    issuers = [str(issuer)[:200] for issuer in resource.get("authorization_servers") or ()]
    scopes = resource.get("scopes_supported")
    asked_scopes = f" with the scopes {join_names(map(str, scopes))}" if isinstance(scopes, list) and scopes else ""
    source = join_names(issuers) if issuers else "an authorization server that it does not name"
    step.ok(f"it wants an OAuth token of {source}{asked_scopes}")
    if issuers:
        await _issuer(probe, issuers[0], url, step)
    return True


async def _issuer(probe: HttpProbe, issuer: str, url: str, step: Step) -> None:
    """Note the capabilities of an authorization server."""
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

    metadata = await _first_document(probe, build_oauth_authorization_server_metadata_discovery_urls(issuer, url))
    if metadata is None:
        step.warn(f"the metadata of {issuer} cannot be fetched", "is the authorization server running? (RFC 8414)")
        return
    register = "registers clients" if metadata.get("registration_endpoint") else "registers no clients by itself"
    if metadata.get("client_id_metadata_document_supported"):
        register += ", takes client-id metadata documents"
    grants = [str(grant)[:60] for grant in metadata.get("grant_types_supported") or ()]
    step.ok(f"{issuer} {register}; grants: {join_names(grants) if grants else 'authorization_code'}")
    if "S256" not in (metadata.get("code_challenge_methods_supported") or []):
        step.warn(f"{issuer} does not say that it takes PKCE with S256", "the specification wants it announced")


async def _first_document(probe: HttpProbe, urls: list[str]) -> dict[str, Any] | None:
    """Return the first JSON object at some URLs, fetched without the server's credentials; None if there is none."""
    for url in urls[:MAX_DOCUMENTS]:
        if urlsplit(url).scheme not in ("http", "https"):
            continue
        reply = await probe.document(url)
        with suppress(ValueError, RecursionError):
            document = json.loads(reply.body) if reply.status == 200 else None
            if isinstance(document, dict):
                return document
    return None


# The step HTTP: the answers of a URL and their meaning.

_ELSEWHERE = ("/mcp", "/mcp/", "/sse")
_FOREIGN_PAGE = "http://a-page-somewhere.example"
_FINAL = (401, 403, 407, 408, 413, 429)  # statuses after which no other request is tried; statuses from 500 count too


async def look_at_http(spec: HttpSpec, probe: HttpProbe, step: Step) -> tuple[Reply, Reply] | None:
    """Send both opening requests of a session; return their answers, or None if a session falls back to HTTP+SSE."""
    if spec.url.startswith("http:") and spec.address[0] not in LOOPBACK:
        target = "the credentials in its headers" if spec.secrets else "everything"
        step.warn(f"http:// without TLS: every network on the way can read {target}", "https://, if the server has it")
    first = await probe.discover()
    if probe.redirects:
        last = mask_url(probe.redirects[-1])
        same = urlsplit(probe.redirects[-1])[:2] == urlsplit(spec.url)[:2]
        says = "is followed" if same else "leads to another server, so it is not followed"
        step.warn(f"it redirects to {last}, which {says}", f"connect to {last}")
    if first.status is None and "no answer" in first.failure:
        todo = "look at the server's log; --timeout S waits longer"
        raise step.stop(f"it accepts the request, and gives {first.failure}", todo)
    if first.status is None:
        scheme = "https" if spec.url.startswith("http:") else "http"
        raise step.stop(f"it ends the connection: {first.failure}", f"does it speak HTTP at all? try {scheme}://")
    first = await _with_token(spec, probe, first, probe.discover, step)
    second = await probe.initialize()
    if second.status == 401:  # a handshake server may reject `server/discover` before it checks the token
        second = await _with_token(spec, probe, second, probe.initialize, step)
        first = await probe.discover()
    answers = sorted((reply for reply in (first, second) if reply.message is not None), key=lambda r: r.result is None)
    if not answers:
        if second.status is None:
            raise step.stop(f"it does not answer initialize: {second.failure}", "`%mcp trace` has what a session sees")
        await _no_mcp(spec, probe, second if first.status == 404 else first, step)
        return None
    answer = answers[0]
    kind = answer.headers.get("content-type", "").partition(";")[0] or "no content type"
    software = f", by {one_line(answer.headers['server'], 60)}" if "server" in answer.headers else ""
    step.ok(f"HTTP {answer.status} with {kind} in {duration(answer.seconds)}{software}")
    if probe.session:
        step.ok("it uses sessions (Mcp-Session-Id)")
    await _judge_origin(spec, probe, step)
    return first, second


async def _with_token(
    spec: HttpSpec, probe: HttpProbe, reply: Reply, again: Callable[[], Awaitable[Reply]], step: Step
) -> Reply:
    """Return the answer, after a 401 that to the request with a token; `Stop` for a status that ends the step."""
    log_in = probe.log_in
    if reply.status != 401 or log_in is None or log_in.open or not await log_in.use_token():
        await _check_status(spec, probe, reply, step)
        return reply
    await read_challenge(reply, probe, spec.url, step)
    refused = True
    try:
        refused = (await again()).status == 401
    except AuthorizationError:
        if log_in.asks:
            raise
    if refused and log_in.asks:
        raise step.stop("HTTP 401: the new token is refused", "does it want other scopes? --scope")
    if refused:
        raise step.stop("HTTP 401: the stored token is refused", "`--login` logs in again and goes on")
    step.ok(log_in.how)
    reply = await again()
    await _check_status(spec, probe, reply, step)
    return reply


async def _check_status(spec: HttpSpec, probe: HttpProbe, reply: Reply, step: Step) -> None:
    """Raise `Stop` for a status that ends the step; not for a JSON-RPC error, because that is MCP."""
    status = reply.status or 0
    if status == 401:
        has_token = any(name.lower() == "authorization" for name in spec.headers)
        if not await read_challenge(reply, probe, spec.url, step):
            how = "--header 'Authorization: Bearer TOKEN'" + (": the one that was sent is refused" if has_token else "")
            raise step.stop("HTTP 401: it wants credentials, and does not say how to get them (no OAuth metadata)", how)
        if has_token:
            todo = "`%mcp connect URL` logs in; then `%mcp doctor NAME` looks at the session"
            raise step.stop("HTTP 401: the token that was sent is refused", todo)
        raise step.stop("HTTP 401: you have to log in first", "`--login` logs in and goes on")
    if reply.message is not None or not (status in _FINAL or status >= 500):
        return
    text, todo = refused_with(status)
    body = one_line(reply.body, 120)
    if body and "<" not in body:
        text += f": {spec.masked(body)!r}"
    if "retry-after" in reply.headers:
        text += f"; it says to try again in {one_line(reply.headers['retry-after'], 40)} s"
    raise step.stop(text, todo)


async def _no_mcp(spec: HttpSpec, probe: HttpProbe, reply: Reply, step: Step) -> None:
    """Note what the URL has instead of an MCP endpoint; `Stop` unless it is of the HTTP+SSE transport."""
    kind = reply.headers.get("content-type", "").partition(";")[0] or "nothing"
    text = f"HTTP {reply.status} with {kind}, which is not MCP"
    page = await probe.get()
    if "event-stream" in page.headers.get("content-type", "") and "endpoint" in page.body:
        text += "; it is a server of the old HTTP+SSE transport"
        if not spec.fallback:
            raise step.stop(text, "--transport sse")
        step.warn(text, "--transport sse")
        return
    path = urlsplit(spec.url).path
    for candidate in _ELSEWHERE:
        if candidate.strip("/") != path.strip("/") and await probe.speaks(candidate):
            raise step.stop(f"{text}; but {candidate} of the same server speaks it", f"connect to {candidate}")
    todo = "fix the path (it often ends in /mcp); is this an MCP server?"
    raise step.stop(f"{text}: {spec.masked(one_line(reply.body, 100))!r}" if reply.body.strip() else text, todo)


async def _judge_origin(spec: HttpSpec, probe: HttpProbe, step: Step) -> None:
    """Warn if any web page may use a server on this machine (specification, "Security Warning" of transports)."""
    if IN_BROWSER or spec.address[0] not in LOOPBACK:
        return  # a browser sets the origin to that of its own page
    reply = await probe.discover(origin=_FOREIGN_PAGE)
    if reply.status is not None and reply.status < 400 and reply.message is not None:
        todo = "it must check the Origin header, or any web page can call its tools (DNS rebinding)"
        step.warn("it answers a request that comes from a web page of another site", todo)


# The log-in of an examination: with a stored token, or by the log-in of a session.


class LogInProbe:
    """The log-in of an examination; without an authorizer the user is not asked. `open`: a token is sent."""

    def __init__(self, logins: LogIns, name: str, spec: HttpSpec | SseSpec) -> None:
        self._authorizer = logins.authorizer
        authorizer = self._show if self._authorizer is not None else None
        self._name = name
        self._spec = spec
        self._logins = replace(logins, authorizer=authorizer)
        self._recorder = Recorder(name, spec)
        self._by_person = False
        self.open = False

    async def _show(self, login: LogIn) -> None:
        assert self._authorizer is not None
        self._by_person = True
        await self._authorizer(login)

    async def use_token(self) -> bool:
        """Send a token from now on, if there is one or a log-in may get one; return whether that is so."""
        from mcp_magic.auth.client import may_log_in
        from mcp_magic.auth.store import KeptTokens

        self.open = may_log_in(self._spec)
        if self.open and not self.asks:
            store = await asyncio.to_thread(self._logins.store)  # a keyring may ask for a password
            tokens = KeptTokens(store, self._spec.url, self._spec.auth, self._recorder.know)
            self.open = bool((await tokens.load()).get("tokens"))
        return self.open

    def apply_to(self, client: httpx2.AsyncClient) -> None:
        """Let an HTTP client send the token."""
        from mcp_magic.auth.client import AuthContext, log_in_with

        know, hide = self._recorder.know, self._recorder.hide
        log_in_with(client, AuthContext(self._name, self._spec, self._logins, know, hide, lambda: False))

    @property
    def asks(self) -> bool:
        """Whether the user, or the program itself, logs in if no token is stored."""
        return self._authorizer is not None or not self._spec.auth.interactive

    @property
    def how(self) -> str:
        """How the log-in was done, for a remark."""
        if self._by_person:
            return "you logged in; the token is stored"
        return "the stored token is used" if self._spec.auth.interactive else "the program has logged in"

    def hide(self, text: str) -> str:
        """Return a text with the tokens masked."""
        return self._recorder.hide(text)
