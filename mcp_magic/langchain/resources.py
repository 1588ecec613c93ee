"""Resources as LangChain blobs, which its loaders and parsers take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp_magic.core import lookup
from mcp_magic.errors import UnknownServerError
from mcp_magic.results.media import Media

if TYPE_CHECKING:
    from langchain_core.documents.base import Blob

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.host import Host
    from mcp_magic.results import ResourceResult

__all__ = ["langchain_resources", "to_blobs"]

PARALLEL = 8
"""Resources read at the same time."""


async def langchain_resources(host: Host, *wanted: str) -> list[Blob]:
    """Read resources and return their contents as blobs, in the order asked for.

    Args:
        host: Whose servers.
        *wanted: URIs, and names of servers for all that they list; without any, all of all open sessions.

    Returns:
        One blob for each content (a resource may have several): text as `str`, other data as `bytes`, `mimetype`, and
        `metadata` with `server`, `uri`, `name` and `source`, which is the URI again: LangChain's own name for it.

    Raises:
        UnknownServerError: A name is neither a URI nor a server.
        UnknownResourceError, AmbiguousNameError: No server, or several could have a URI.
        SessionError: One could not be read.
    """
    asked: list[tuple[Connection, str, str]] = []
    for each in wanted or [connection.name for connection in host.find()]:
        asked += await _asked(host, each)
    free = asyncio.Semaphore(PARALLEL)

    async def read(connection: Connection, uri: str, name: str) -> list[Blob]:
        async with free:
            return to_blobs(await connection.read(uri), name)

    reading = [asyncio.ensure_future(read(*resource)) for resource in asked]
    try:
        found = await asyncio.gather(*reading)
    finally:
        for task in reading:
            task.cancel()
    return [blob for blobs in found for blob in blobs]


async def _asked(host: Host, wanted: str) -> list[tuple[Connection, str, str]]:
    """Return the connection, URI and name of each resource that a URI or the name of a server stands for."""
    if wanted in host:
        connection = host[wanted]
        return [(connection, str(each.uri), each.name) for each in await connection.listing("resources")]
    if ":" not in wanted:
        raise UnknownServerError(lookup.no_server(wanted, host))
    connection = lookup.owner_of(wanted, host.find())
    listed = {str(each.uri): each.name for each in await connection.listing("resources")}
    return [(connection, wanted, listed.get(wanted, wanted))]


def to_blobs(result: ResourceResult, name: str = "") -> list[Blob]:
    """Return the contents of a resource as blobs.

    Args:
        result: What was read.
        name: The resource's name.

    Raises:
        InvalidResponseError: The server's data is not base64.
    """
    from langchain_core.documents.base import Blob

    blobs = []
    for content in result.contents:
        uri = str(content.uri)
        metadata: dict[str, Any] = {"server": result.server, "uri": uri, "name": name or uri, "source": uri}
        blob = getattr(content, "blob", None)
        data = getattr(content, "text", "") if blob is None else Media(blob, content.mime_type, uri).bytes
        default = "text/plain" if blob is None else "application/octet-stream"
        blobs.append(Blob.from_data(data, mime_type=content.mime_type or default, metadata=metadata))
    return blobs
