"""The tokens of one client at one server: the SDK's `TokenStorage` over a store, and what else outlives a kernel."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import nullcontext
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mcp_magic.core.oauth.lock import locked
from mcp_magic.core.oauth.store import FileStore, KeyringStore, server_key, tokens_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from mcp_magic.config.auth import AuthOptions
    from mcp_magic.core.oauth.store import Store

__all__ = ["KeptTokens", "client_key"]


def client_key(options: AuthOptions) -> str:
    """Return what one client's tokens are found by among those of a server: a hash, and no secret is in it."""
    parts = [options.grant, options.client_id, options.client_metadata_url, options.issuer, *sorted(options.scopes)]
    return sha256(json.dumps(parts).encode()).hexdigest()[:16]


class KeptTokens:
    """What is kept for one client of one server.

    Args:
        store: Where.
        url: The server's URL.
        options: The client's settings.
        learn: Told of every secret that is read or written, so that it is never shown.
    """

    def __init__(self, store: Store, url: str, options: AuthOptions, learn: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._server = server_key(url)
        self._client = client_key(options)
        self._learn = learn
        self._writing = asyncio.Lock()

    @property
    def lock_file(self) -> Path | None:
        """The file whose lock whoever refreshes holds; None where no other kernel sees these tokens."""
        if isinstance(self._store, FileStore):
            return self._store.path(self._server).with_suffix(".lock")
        if isinstance(self._store, KeyringStore):
            return FileStore(tokens_folder()).path(self._server).with_suffix(".lock")
        return None

    async def load(self) -> dict[str, Any]:
        """Return what is kept: `tokens`, `expires_at` (`time.time()`), `client`, `metadata`, `resource`, `dpop_key`."""
        whole = await asyncio.to_thread(self._store.load, self._server)
        record = whole.get(self._client)
        record = record if isinstance(record, dict) else {}
        self._learn(_secrets_of(record))
        return record

    async def save(self, **changes: Any) -> None:
        """Change parts of it; None deletes one."""
        self._learn(_secrets_of(changes))
        async with self._writing, self._alone():
            await asyncio.to_thread(self._change, changes)

    def _alone(self) -> AbstractAsyncContextManager[None]:
        """Keep other kernels from changing the record meanwhile, which has other clients of this server, too."""
        lock_file = self.lock_file  # held by a refresh, which saves
        return nullcontext() if lock_file is None else locked(lock_file.with_suffix(".saving"))

    def _change(self, changes: dict[str, Any]) -> None:
        whole = self._store.load(self._server)
        before = whole.get(self._client)
        record = {**(before if isinstance(before, dict) else {}), **changes}
        whole[self._client] = {name: value for name, value in record.items() if value is not None}
        self._store.save(self._server, {client: kept for client, kept in whole.items() if kept})

    # The SDK's protocol

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; None if there are none, or none that can be read."""
        from mcp.shared.auth import OAuthToken

        found: OAuthToken | None = _model(OAuthToken, (await self.load()).get("tokens"))
        return found

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, and when they expire."""
        expires = None if tokens.expires_in is None else time.time() + int(tokens.expires_in)
        await self.save(tokens=tokens.model_dump(mode="json", exclude_none=True), expires_at=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of this client."""
        from mcp.shared.auth import OAuthClientInformationFull

        found: OAuthClientInformationFull | None = _model(OAuthClientInformationFull, (await self.load()).get("client"))
        return found

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep the registration of this client."""
        await self.save(client=client_info.model_dump(mode="json", exclude_none=True))


def _model(kind: Any, found: Any) -> Any:
    try:
        return kind.model_validate(found) if found else None
    except ValueError:
        return None


def _secrets_of(record: dict[str, Any]) -> list[str]:
    tokens, client = record.get("tokens") or {}, record.get("client") or {}
    found = [tokens.get("access_token"), tokens.get("refresh_token"), client.get("client_secret")]
    return [*(text for text in found if text), *filter(None, [record.get("dpop_key")])]
