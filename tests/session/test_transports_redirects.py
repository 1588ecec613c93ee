"""A WebSocket server that redirects elsewhere: the headers of the spec stay with the server that they are for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from websockets.asyncio.server import ServerConnection, serve

from mcp_magic.config.specs import WebSocketSpec
from mcp_magic.errors import ConnectError
from tests.support.no_json_server import serve_no_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.http11 import Request, Response

    from mcp_magic._host import Host

SECONDS = 40.0
HEADERS = {"X-API-Key": "canary-4711", "Authorization": "Bearer canary-4711"}


@asynccontextmanager
async def redirecting(location: str, seen: list[Request]) -> AsyncIterator[str]:
    """Redirect `/` to a location, take note of each request and yield the WebSocket URL."""

    def process(socket: ServerConnection, request: Request) -> Response:
        seen.append(request)
        response = socket.respond(HTTPStatus.FOUND if request.path == "/" else HTTPStatus.NOT_FOUND, "")
        response.headers["Location"] = location
        return response

    async with serve(lambda socket: socket.close(), "127.0.0.1", 0, process_request=process) as listener:
        yield f"ws://127.0.0.1:{next(iter(listener.sockets)).getsockname()[1]}/"


async def refused(host: Host, url: str) -> str:
    with pytest.raises(ConnectError) as caught:
        await host.connect_spec(WebSocketSpec(url=url, headers=HEADERS), "rogue")
    assert "canary" not in str(caught.value)
    return str(caught.value)


async def test_redirect_to_another_origin_is_not_followed(host: Host) -> None:
    other: list[Request] = []
    async with asyncio.timeout(SECONDS), serve_no_json() as there, redirecting("/", other) as away:
        for location in (away, away.replace("127.0.0.1", "localhost"), there):
            first: list[Request] = []
            async with redirecting(location, first) as url:
                assert f"it redirects to {location}" in await refused(host, url)
            assert [request.headers["X-API-Key"] for request in first] == ["canary-4711"]
        assert not other, "nothing was sent there"
        assert (await (await host.connect(there, name="rogue")).call("right")).text == "right"
        await host.close()


async def test_redirect_within_the_server_keeps_the_headers(host: Host) -> None:
    seen: list[Request] = []
    async with asyncio.timeout(SECONDS), redirecting("/mcp", seen) as url:
        await refused(host, url)  # there is nothing at /mcp either
    assert [request.path for request in seen] == ["/", "/mcp"]
    assert [request.headers["X-API-Key"] for request in seen] == ["canary-4711"] * 2
