"""What the doctor finds of a server behind a URL: its port, its certificate, and what it answers to HTTP."""

from __future__ import annotations

import datetime
import ipaddress
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from mcp_magic.doctor import DoctorReport, examine
from tests.support.asgi import answer, answering, never, serving
from tests.support.certificates import self_signed
from tests.support.doctors import fails, told
from tests.support.processes import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host


async def test_a_port_without_a_server_and_a_host_that_is_none(host):
    port = free_port()
    report = await examine(host, f"http://127.0.0.1:{port}/mcp")
    fails(report, "connect", f"nothing listens at 127.0.0.1:{port} -> is the server running?")
    report = await examine(host, "http://no-such-host.invalid/mcp")
    fails(report, "connect", "no such host: no-such-host.invalid")


# TLS


async def test_doctor_reads_untrusted_certificate_and_fails_at_tls(host, tmp_path):
    certificate, key = self_signed(tmp_path)
    app = MCPServer("web").streamable_http_app()
    async with serving(app, lifespan="on", ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        report = await examine(host, f"{url}/mcp")
        trusted = await examine(host, f"{url}/mcp", verify=str(certificate))
        loose = await examine(host, f"{url}/mcp", verify=False)
        named = f"https://localhost:{url.rpartition(':')[2]}/mcp"
        other = await examine(host, named, verify=str(certificate))
    fails(report, "TLS", "certificate of CN=127.0.0.1, for 127.0.0.1, issued by itself", "--ca FILE")
    assert "TLSv1.3" in told(report, "TLS")
    assert "it is not trusted: self-signed certificate" in told(report, "TLS")
    assert trusted.ok, str(trusted)
    assert "warning: it expires in 2.0 days" in told(trusted, "TLS")
    assert "it is trusted by " in told(trusted, "TLS")
    assert "the certificate is not checked" in told(loose, "TLS")
    fails(other, "TLS", "Hostname mismatch", "connect by a name that it is for (127.0.0.1)")


async def test_a_certificate_that_has_expired_and_a_port_without_tls(host, tmp_path):
    certificate, key = expired(tmp_path)
    async with serving(answering(200), ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        report = await examine(host, f"{url}/mcp", verify=str(certificate))
    fails(report, "TLS", "it expired 10 days ago -> renew the certificate", "certificate has expired")
    async with serving(answering(200)) as url:
        report = await examine(host, f"{url.replace('http', 'https')}/mcp")
    fails(report, "TLS", "no TLS handshake", "is it http:// (ws://)?")


def expired(folder: Path) -> tuple[Path, Path]:
    """Return the paths of a self-signed certificate that expired ten days ago, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    end = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=10)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, end - datetime.timedelta(days=1), end)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, secret


# HTTP


async def redirecting(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, 308, location="https://elsewhere.example/mcp")


HTML = answering(200, b"<html>hi</html>", "text/html")


@pytest.mark.parametrize(
    ("app", "says"),
    [
        pytest.param(answering(403, b"no"), "HTTP 403 (forbidden; fault: you)", id="403"),
        pytest.param(answering(429, b"no"), "HTTP 429 (too many requests; fault: the caller)", id="429"),
        pytest.param(
            answering(500, b"out of order"),
            "HTTP 500 (internal server error; fault: the server): 'out of order' -> the server failed",
            id="500",
        ),
        pytest.param(answering(502, b"no"), "HTTP 502 (bad gateway; fault: the network)", id="502"),
        pytest.param(HTML, "HTTP 200 with text/html, which is not MCP: '<html>hi</html>'", id="html"),
        pytest.param(
            answering(200, b'{"hello": "world"}', "application/json"),
            "with application/json, which is not MCP",
            id="json",
        ),
        pytest.param(never, "it accepts the request, and gives no answer in 0.5 s", id="silent"),
        pytest.param(
            redirecting, "it redirects to https://elsewhere.example/mcp, which leads to another server", id="redirect"
        ),
    ],
)
async def test_an_answer_says_what_it_means_and_whose_fault_it_is(host, app, says):
    async with serving(app, lifespan="off") as url:
        report = await examine(host, f"{url}/mcp", timeout=0.5 if app is never else 30)
    fails(report, "HTTP", says)


async def test_a_server_that_wants_basic_authentication_says_no_more(host):
    report = await locked(host, 'Basic realm="the vault"', {})
    fails(report, "HTTP", "it wants Basic authentication for 'the vault'", "no OAuth metadata", "--header 'Auth")


async def test_a_challenge_is_read_out_and_nobody_is_logged_in(host):
    asked: list[tuple[str, bytes]] = []
    documents = {
        "/.well-known/oauth-protected-resource/mcp": {
            **{"resource": "URL/mcp", "authorization_servers": ["URL/as"]},
            "scopes_supported": ["read", "write"],
        },
        "/.well-known/oauth-authorization-server/as": {
            **{"issuer": "URL/as", "registration_endpoint": "URL/as/register"},
            "code_challenge_methods_supported": ["plain"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
        },
    }
    report = await locked(host, 'Bearer error="invalid_token", scope="read"', documents, asked, bearer="sesame-123")
    fails(report, "HTTP", "it says: error 'invalid_token', scope 'read'", "with the scopes read, write")
    assert "registers clients; grants: authorization_code, refresh_token" in told(report, "HTTP")
    assert "does not say that it takes PKCE with S256" in told(report, "HTTP")
    assert "the token that was sent is refused -> `%mcp connect URL` logs in" in told(report, "HTTP")
    assert "sesame" not in str(report)
    assert not [path for path, credentials in asked if "well-known" in path and credentials]
    assert not [path for path, _ in asked if "register" in path or "authorize" in path]


async def locked(
    host: Host, challenge: str, documents: Any, asked: list[tuple[str, bytes]] | None = None, bearer: str = ""
) -> DoctorReport:
    base = ""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if asked is not None:
            asked.append((path, dict(scope["headers"]).get(b"authorization", b"")))
        if path in documents:
            await answer(send, 200, json.dumps(documents[path]).replace("URL", base).encode())
        elif "well-known" in path:
            await answer(send, 404)
        else:
            await answer(send, 401, www_authenticate=challenge)

    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with serving(app, lifespan="off") as url:
        base = url
        return await examine(host, f"{url}/mcp", headers=headers)


async def test_a_wrong_path_is_told_where_the_server_is(host):
    async with serving(MCPServer("web").streamable_http_app(), lifespan="on") as url:
        report = await examine(host, f"{url}/")
    fails(report, "HTTP", "HTTP 404", "but /mcp of the same server speaks it -> connect to /mcp")


async def test_a_server_of_the_old_transport_is_recognised(host):
    async with serving(MCPServer("web").sse_app(), lifespan="on") as url:
        fallen_back = await examine(host, f"{url}/sse")
        asked_for = await examine(host, f"{url}/sse", transport="sse")
        report = await examine(host, f"{url}/sse", transport="http")
    assert fallen_back.ok, str(fallen_back)
    assert "warning: HTTP 405 with text/plain, which is not MCP; it is a server of the old" in told(fallen_back, "HTTP")
    assert asked_for.ok, str(asked_for)
    fails(report, "HTTP", "a server of the old HTTP+SSE transport -> --transport sse")


async def test_a_local_server_that_any_web_page_may_use_is_warned_of(host):
    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = MCPServer("web").streamable_http_app(transport_security=open_to_all)
    async with serving(app, lifespan="on") as url:
        report = await examine(host, f"{url}/mcp")
    assert report.ok, str(report)
    assert "warning: it answers a request that comes from a web page of another site" in told(report, "HTTP")
