"""The doctor's steps for the network: names, ports, proxies and certificates."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import duration, listed
from mcp_magic.config.masking import mask_url
from mcp_magic.config.specs import tls_context

if TYPE_CHECKING:
    from cryptography import x509

    from mcp_magic.config.specs import UrlSpec
    from mcp_magic.doctor.report import Step

__all__ = ["Certificate", "is_local", "look_at_tls", "proxy_of", "reach", "read_certificate"]


# The certificate of a server, read even if it is not trusted.


class Certificate(NamedTuple):
    """The contents of a certificate.

    Attributes:
        subject: The subject, its owner.
        issuer: The issuer, who signed it.
        names: The host names and addresses that it is valid for.
        days: Days until it expires; negative if it has expired.
    """

    subject: str
    issuer: str
    names: tuple[str, ...]
    days: float

    @property
    def self_signed(self) -> bool:
        """Whether it is self-signed."""
        return self.subject == self.issuer


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate (X.509, DER).

    Raises:
        ValueError: The data is not a certificate.
    """
    from cryptography import x509

    found = x509.load_der_x509_certificate(der)
    left = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    names = _names(found)
    return Certificate(
        found.subject.rfc4514_string(), found.issuer.rfc4514_string(), names, left.total_seconds() / 86_400
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    hosts = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*hosts, *(str(address) for address in addresses))


# The way to a URL: name, connection, TLS.

CONNECT_SECONDS = 10.0
"""Deadline in seconds of a name lookup, of a TCP connection and of a TLS handshake."""

_UNSEEN = "the browser makes the connection"

FEW_DAYS = 14
"""A certificate that expires within so many days gets a warning."""


def _place(spec: UrlSpec) -> tuple[SplitResult, str, int]:
    parts = urlsplit(spec.url)
    secure = parts.scheme in ("https", "wss")
    return parts, parts.hostname or "", parts.port or (443 if secure else 80)


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_of(spec: UrlSpec) -> str:
    """Return the proxy that the environment sets for a URL, without its credentials, or "" if there is none."""
    parts, host, _ = _place(spec)
    scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
    found = getproxies().get(scheme) or getproxies().get("all")
    return mask_url(found) if found and not proxy_bypass(host) else ""


async def reach(spec: UrlSpec, step: Step) -> bool:
    """Look the name up and connect.

    Returns:
        Whether the server accepts connections.
    """
    if IN_BROWSER:
        step.skip(_UNSEEN)
        return True
    _, host, port = _place(spec)
    started = time.perf_counter()
    addresses = await _addresses(host, port, step)
    if addresses is None:
        return False
    looked_up = time.perf_counter()
    if addresses != [host]:
        step.ok(f"{host} is {listed(addresses, 4)} ({duration(looked_up - started)})")
    problem, todo = "", ""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        problem, todo = f"no connection in {CONNECT_SECONDS:g} s", "is a firewall between? is the address right?"
    except OSError as error:
        problem, todo = _refused(error, port)
    if problem:
        step.fail(f"{host}:{port}: {problem}", todo)
        return False
    writer.close()
    step.ok(f"{host}:{port} takes a TCP connection ({duration(time.perf_counter() - looked_up)})")
    return True


def _refused(error: OSError, port: int) -> tuple[str, str]:
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "nothing listens there", f"start the server, or mend the port ({port})"
    return str(error.strerror or error), "is this machine on the network?"


async def _addresses(host: str, port: int, step: Step) -> list[str] | None:
    problem = ""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        problem = f"the name {host} is not resolved in {CONNECT_SECONDS:g} s"
    except (OSError, UnicodeError):
        problem = f"there is no host {host}"
    if problem:
        step.fail(problem, "mend the host name; `ping` or `nslookup` from this machine finds no more than this")
        return None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def look_at_tls(spec: UrlSpec, step: Step) -> bool:
    """Read the certificate without verification, then verify it as a session does.

    Returns:
        Whether a session may use the connection.
    """
    if IN_BROWSER:
        step.skip(_UNSEEN)
        return True
    _, host, port = _place(spec)
    seen = await _certificate(host, port, step)
    if seen is None:
        return False
    version, certificate = seen
    if certificate is not None:
        names = f", for {listed(certificate.names, 4)}" if certificate.names else ", for no host at all"
        step.ok(f"{version}; certificate of {certificate.subject or 'nobody'}{names}, issued by {_issuer(certificate)}")
        _judge_days(certificate, step)
    if spec.verify is False:
        step.warn("the certificate is not checked (--insecure)", "--ca FILE names the authority to trust instead")
        return True
    reason = await _verified(spec, host, port)
    if reason:
        step.fail(f"it is not trusted: {reason}", _trust(reason, certificate))
        return False
    step.ok("it is trusted" + (f" by {spec.verify}" if isinstance(spec.verify, str) else ""))
    return True


def _issuer(certificate: Certificate) -> str:
    return "itself" if certificate.self_signed else certificate.issuer


def _judge_days(certificate: Certificate, step: Step) -> None:
    if certificate.days < 0:
        step.fail(f"it expired {-certificate.days:.0f} days ago", "renew the certificate")
    elif certificate.days < FEW_DAYS:
        step.warn(f"it expires in {certificate.days:.1f} days", "renew the certificate")
    else:
        step.ok(f"it is valid for another {certificate.days:,.0f} days")


async def _certificate(host: str, port: int, step: Step) -> tuple[str, Certificate | None] | None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    problem = ""
    try:
        version, der = await _handshake(context, host, port)
    except TimeoutError:
        problem, todo = f"no TLS handshake in {CONNECT_SECONDS:g} s", "does this port speak TLS?"
    except (ssl.SSLError, OSError) as error:
        problem = f"no TLS handshake: {_ssl_reason(error)}"
        todo = (
            "this port speaks no TLS: is it http:// (ws://)?" if _is_plain(error) else "see the server's TLS settings"
        )
    if problem:
        step.fail(problem, todo)
        return None
    with suppress(ValueError):
        return version, read_certificate(der)
    return version, None


async def _verified(spec: UrlSpec, host: str, port: int) -> str:
    """Return why the certificate is not trusted, or "" if it is."""
    try:
        await _handshake(tls_context(spec), host, port)
    except TimeoutError:
        return f"no handshake in {CONNECT_SECONDS:g} s"
    except (ssl.SSLError, OSError) as error:
        return _ssl_reason(error)
    return ""


async def _handshake(context: Any, host: str, port: int) -> tuple[str, bytes]:
    async with asyncio.timeout(CONNECT_SECONDS):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    try:
        found = writer.get_extra_info("ssl_object")
        return str(found.version()), found.getpeercert(binary_form=True) or b""
    finally:
        writer.close()
        transport: Any = writer.transport
        transport.abort()


def _ssl_reason(error: BaseException) -> str:
    text = str(getattr(error, "verify_message", "") or error)
    return text.partition("failed: ")[2].split(" (_ssl")[0] or text.split(" (_ssl")[0]


def _is_plain(error: BaseException) -> bool:
    return "WRONG_VERSION_NUMBER" in str(error) or "RECORD_LAYER" in str(error) or isinstance(error, ConnectionError)


def _trust(reason: str, certificate: Certificate | None) -> str:
    low = reason.lower()
    if "expired" in low:
        return "renew the certificate"
    if "hostname" in low or "ip address" in low:
        names = listed(certificate.names, 4) if certificate else "other names"
        return f"connect by a name that it is for ({names}), or get one for this name"
    return "--ca FILE names the authority to trust; --insecure trusts anybody, for a test"
