"""What log-in a server wants: its challenge and the documents that it names, read out; nobody is logged in.

Sources: RFC 9110, section 11.6.1; RFC 9728 (protected resource metadata); RFC 8414 (authorization server metadata);
specification, "Authorization".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.errors import listed

if TYPE_CHECKING:
    from mcp_magic.core.doctor.http import HttpPatient
    from mcp_magic.core.doctor.report import Step
    from mcp_magic.core.doctor.wire import Reply

__all__ = ["read_challenge"]

_PARAMETER = re.compile(r'([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

MAX_DOCUMENTS = 6
"""Documents that are asked for; the specification has up to five places for them."""


async def read_challenge(
    reply: Reply, patient: HttpPatient, url: str, step: Step, *, sent: bool, last: bool = True
) -> None:
    """Note what log-in a 401 asks for.

    Args:
        reply: The answer with status 401.
        patient: Fetches the documents.
        url: The server's.
        step: Where it is noted.
        sent: Whether credentials were sent.
        last: Whether it is the last word: then the step has failed.
    """
    header = reply.headers.get("www-authenticate", "")
    scheme = header.split(maxsplit=1)[0].rstrip(",") if header else ""
    said = dict(_parameters(header))
    if not header:
        step.warn("its 401 has no WWW-Authenticate header", "RFC 9110 asks for one: it says how to log in")
    elif scheme.lower() not in ("bearer", "dpop"):
        step.ok(f"it wants {scheme} authentication" + (f" for {said['realm']!r}" if "realm" in said else ""))
    told = [f"{name} {said[name][:120]!r}" for name in ("error", "error_description", "scope") if name in said]
    if told:
        step.ok(f"it says: {', '.join(told)}")
    resource = await _resource(patient, said.get("resource_metadata"), url)
    if resource is None and not last:
        return
    if resource is None:
        how = "--header 'Authorization: Bearer TOKEN'" + (": the one that was sent is refused" if sent else "")
        step.fail("HTTP 401: it wants credentials, and says nowhere how to come by them (no OAuth metadata)", how)
        return
    issuers = [str(issuer)[:200] for issuer in resource.get("authorization_servers") or ()]
    scopes = resource.get("scopes_supported")
    wanted = f" with the scopes {listed(map(str, scopes))}" if isinstance(scopes, list) and scopes else ""
    whose = listed(issuers) if issuers else "an authorization server that it does not name"
    step.ok(f"it wants an OAuth token of {whose}{wanted}")
    for issuer in issuers[:1]:
        await _issuer(patient, issuer, url, step)
    if last and sent:
        todo = "`%mcp connect URL` logs in; then `%mcp doctor NAME` looks at the session"
        step.fail("HTTP 401: the token that was sent is refused", todo)
    elif last:
        step.fail("HTTP 401: one has to log in first", "`--login` logs in and goes on")


def _parameters(header: str) -> list[tuple[str, str]]:
    """Return the parameters of a challenge.

    >>> _parameters('Bearer error="invalid_token", scope=read')
    [('error', 'invalid_token'), ('scope', 'read')]
    """
    return [(found[1].lower(), found[2] or found[3] or "") for found in _PARAMETER.finditer(header[:4000])]


async def _resource(patient: HttpPatient, named: str | None, url: str) -> dict[str, Any] | None:
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls

    for place in build_protected_resource_metadata_discovery_urls(named, url)[:MAX_DOCUMENTS]:
        found = await _document(patient, place)
        if found is not None:
            return found
    return None


async def _issuer(patient: HttpPatient, issuer: str, url: str, step: Step) -> None:
    """Note what an authorization server says it can do."""
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer, url)[:MAX_DOCUMENTS]:
        found = await _document(patient, place)
        if found is None:
            continue
        register = "registers clients" if found.get("registration_endpoint") else "registers no clients by itself"
        if found.get("client_id_metadata_document_supported"):
            register += ", takes client-id metadata documents"
        methods = found.get("code_challenge_methods_supported") or []
        grants = [str(grant)[:60] for grant in found.get("grant_types_supported") or ()]
        step.ok(f"{issuer} {register}; grants: {listed(grants) if grants else 'authorization_code'}")
        if "S256" not in methods:
            step.warn(f"{issuer} does not say that it takes PKCE with S256", "the specification wants it announced")
        return
    step.warn(f"the metadata of {issuer} cannot be had", "is the authorization server running? (RFC 8414)")


async def _document(patient: HttpPatient, url: str) -> dict[str, Any] | None:
    """Return a JSON object, or None; only http(s), with none of the server's credentials."""
    if urlsplit(url).scheme not in ("http", "https"):
        return None
    reply = await patient.document(url)
    if reply.status != 200:
        return None
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
