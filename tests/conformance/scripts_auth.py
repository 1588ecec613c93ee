"""What is done in the scenarios of authorization; the suite plays MCP server and authorization server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic.errors import AuthorizationError
from mcp_magic.schema.example import example_arguments
from tests.conformance.playing import opened, refused, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from mcp_magic import Connection

__all__ = ["authorize"]


@asynccontextmanager
async def logged_in(url: str, auth: Any = None) -> AsyncIterator[Connection]:
    """Open a session to a server that wants a token, and use it."""
    async with opened(url, auth=auth) as server:
        for tool in await server.listing("tools"):
            await server.call(tool.name, example_arguments(tool.input_schema))
        yield server


async def authorize(url: str, context: Mapping[str, Any]) -> None:
    """What is done in all scenarios of `auth/` but those below."""
    async with logged_in(url):
        pass


@script(
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/scope-retry-limit",
)
async def authorize_in_vain(url: str, context: Mapping[str, Any]) -> None:
    with refused(AuthorizationError):
        async with logged_in(url):
            pass


@script("auth/basic-cimd")
async def with_metadata_document(url: str, context: Mapping[str, Any]) -> None:
    document = "https://conformance-test.local/client-metadata.json"
    async with logged_in(url, {"client_metadata_url": document}):
        pass


@script("auth/pre-registration")
async def registered_before(url: str, context: Mapping[str, Any]) -> None:
    async with logged_in(url, {name: context[name] for name in ("client_id", "client_secret")}):
        pass


@script("auth/client-credentials-basic")
async def by_secret(url: str, context: Mapping[str, Any]) -> None:
    given = {name: context[name] for name in ("client_id", "client_secret")}
    async with logged_in(url, {"grant": "client_credentials", **given}):
        pass


@script("auth/client-credentials-jwt")
async def by_key(url: str, context: Mapping[str, Any]) -> None:
    given = {"client_id": context["client_id"], "private_key": context["private_key_pem"]}
    async with logged_in(url, {"grant": "client_credentials", **given}):
        pass


@script("auth/wif-jwt-bearer")
async def by_workload(url: str, context: Mapping[str, Any]) -> None:
    given = {"client_id": context["client_id"], "assertion": context["valid_jwt"]}
    async with logged_in(url, {"grant": "jwt_bearer", **given}):
        pass


@script("auth/enterprise-managed-authorization")
async def by_enterprise(url: str, context: Mapping[str, Any]) -> None:
    """The enterprise's identity provider gives an assertion for this server (RFC 8693), which is then its log-in."""
    import httpx2

    parts = urlsplit(url)
    resource = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with httpx2.AsyncClient(timeout=60) as web:
        described = (await web.get(resource)).raise_for_status().json()
        issuer = described["authorization_servers"][0]
        exchange = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": context["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": issuer,
            "resource": described["resource"],
            "client_id": context["idp_client_id"],
        }
        answer = await web.post(context["idp_token_endpoint"], data=exchange)
    given = {name: context[name] for name in ("client_id", "client_secret")}
    assertion = answer.raise_for_status().json()["access_token"]
    async with logged_in(url, {"grant": "jwt_bearer", "assertion": assertion, "issuer": issuer, **given}):
        pass
