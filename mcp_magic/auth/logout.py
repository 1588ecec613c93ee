"""Log-out: revokes the tokens of a server if it can (RFC 7009), and deletes them here in any case."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_magic.auth.addresses import Reach, host_and_port, is_private
from mcp_magic.auth.store import FileStore, server_key
from mcp_magic.config.specs import tls_context

if TYPE_CHECKING:
    from mcp_magic.auth.login import LogIns
    from mcp_magic.auth.store import Record
    from mcp_magic.config.specs import UrlSpec

__all__ = ["LoggedOut", "log_out"]

REVOKE_SECONDS = 5.0
"""Deadline of a revocation, in seconds. The tokens are deleted here even if it is missed."""


@dataclass(frozen=True)
class LoggedOut:
    """The result of the log-out of one client.

    Attributes:
        authority: The host of the authorization server, or "".
        done: `"revoked"`, or why the tokens were only deleted here.
    """

    authority: str
    done: str


async def log_out(spec: UrlSpec, logins: LogIns) -> list[LoggedOut]:
    """Revoke and delete all tokens and registrations of a server.

    Returns:
        The result for each client; empty if nothing was kept.
    """
    key = server_key(spec.url)
    store = await asyncio.to_thread(logins.store)
    records = await asyncio.to_thread(store.load, key)
    done = [await _revoke(record, spec) for record in records.values() if isinstance(record, dict)]
    await asyncio.to_thread(store.save, key, {})
    if not isinstance(store, FileStore) and logins.where == "auto":
        await asyncio.to_thread(FileStore().save, key, {})
    return done


async def _revoke(record: Record, spec: UrlSpec) -> LoggedOut:
    metadata, tokens = record.get("metadata") or {}, record.get("tokens") or {}
    authority = host_and_port(str(metadata.get("issuer") or record.get("authority") or ""))
    endpoint = str(metadata.get("revocation_endpoint") or "")
    if not tokens:
        return LoggedOut(authority, "forgotten: there was a registration, and no token")
    if not endpoint or not is_private(endpoint):
        return LoggedOut(authority, "forgotten; it has no way to revoke tokens")
    if await Reach(spec.url, [getattr(getattr(spec, "auth", None), "issuer", None)]).refused(endpoint):
        return LoggedOut(authority, "forgotten; it wanted that to be told to an address of this machine or its network")
    client, secret = _client(record, spec)
    # the refresh token first: most servers revoke its access tokens with it
    kinds = [kind for kind in ("refresh_token", "access_token") if tokens.get(kind)]
    name = client.get("client_id", "")
    forms = [{"token": tokens[kind], "token_type_hint": kind, "client_id": name} for kind in kinds]
    return LoggedOut(authority, await _sent(endpoint, forms, client, secret, spec))


def _client(record: Record, spec: UrlSpec) -> tuple[Record, str | None]:
    options = getattr(spec, "auth", None)
    client: Record = dict(record.get("client") or {})
    if options is not None and options.client_id is not None:
        method = options.token_endpoint_auth_method or "client_secret_basic"
        client = {"client_id": options.client_id, "token_endpoint_auth_method": method}
        return client, options.client_secret
    return client, client.get("client_secret")


async def _sent(endpoint: str, forms: list[dict[str, Any]], client: Record, secret: str | None, spec: UrlSpec) -> str:
    import httpx2

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
        return f"forgotten; it could not be told ({type(error).__name__})"
    refused = [answer.status_code for answer in answers if answer.status_code >= 400]
    return f"forgotten; it did not revoke them (HTTP {refused[0]})" if refused else "revoked"
