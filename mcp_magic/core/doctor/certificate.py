"""A server's certificate, read whether it can be trusted or not."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["Certificate", "read_certificate"]


class Certificate(NamedTuple):
    """What a certificate says of itself.

    Attributes:
        subject: Whose it is.
        issuer: Who signed it.
        names: The host names and addresses that it is for.
        days: Days until it expires; negative if it has.
    """

    subject: str
    issuer: str
    names: tuple[str, ...]
    days: float

    @property
    def self_signed(self) -> bool:
        """Whether it is signed by itself."""
        return self.subject == self.issuer


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate (X.509, DER).

    Raises:
        ValueError: It is none.
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
