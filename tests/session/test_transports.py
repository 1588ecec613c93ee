"""Each transport: a server is listed and called over it, and gets the headers, variables and keys of its spec."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from websockets.asyncio.server import ServerConnection, serve

from mcp_magic.config.specs import HttpSpec, StdioSpec, WebSocketSpec
from mcp_magic.errors import ConnectError, HTTPStatusError, MissingDependencyError, UnreachableError
from tests.environments import everything_command
from tests.support.asgi import answering, serving
from tests.support.bundled import command, load
from tests.support.certificates import self_signed
from tests.support.no_json_server import serve_no_json
from tests.support.processes import PLAIN, start_http
from tests.support.websockets_server import serve_websocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.http11 import Request, Response

    from mcp_magic._host import Host


@pytest.mark.lowest
async def test_a_python_server_over_stdio_is_listed_and_called(host):
    connection = await host.connect(command("math_server"))
    assert (connection.spec.transport, connection.state) == ("stdio", "open")
    assert "add" in connection.tools
    assert (await connection.call("add", a=2**70, b=1)).data == 2**70 + 1


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
async def test_a_node_server_over_stdio_is_listed_and_called(host):
    connection = await host.connect([*everything_command(), "stdio"])
    assert (await connection.call("echo", message="hi")).text == "Echo: hi"
    assert (await connection.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."


@pytest.mark.lowest
async def test_a_server_over_streamable_http_is_listed_and_called(host):
    with start_http(command("weather_server", "--transport", "http", "--port", "0")) as server:
        connection = await host.connect(server.url, name="weather")
        assert connection.spec.transport == "http"
        assert len((await connection.call("forecast", location="London", days=3)).df) == 3


async def test_url_falls_back_to_sse_where_allowed(host):
    async with serving(load("weather_server").server.sse_app()) as url:
        connection = await host.connect(f"{url}/sse", name="weather")
        assert connection.spec.transport == "sse"
        assert not (await connection.call("get_weather", location="London")).is_error
        assert await host.connect(f"{url}/sse", name="weather") is connection
        at_once = await host.connect(f"{url}/sse", name="sse", transport="sse")
        assert at_once.spec.transport == "sse"
        with pytest.raises(HTTPStatusError, match="answered HTTP 405"):
            await host.connect_spec(HttpSpec(url=f"{url}/sse"), "new")
        await host.disconnect("weather", "sse")


async def test_a_url_without_any_transport_reports_the_first_answer(host):
    async with serving(answering(404)) as url:
        with pytest.raises(HTTPStatusError) as caught:
            await host.connect(f"{url}/mcp", name="web")
    assert str(caught.value) == (
        f"web: {url}/mcp answered HTTP 404 (not found; fault: the caller): "
        "nothing is served under this path; it often ends in /mcp or /sse."
    )


@pytest.mark.lowest
async def test_a_websocket_server_is_listed_and_called(host):
    async with serve_websocket(load("math_server").server) as url:
        connection = await host.connect(url, name="ws")
        assert connection.spec.transport == "ws"
        assert (await connection.call("add", a=1, b=2)).data == 3


async def test_missing_websockets_package_says_install_line(host, monkeypatch):
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    with pytest.raises(MissingDependencyError) as caught:
        await host.connect("ws://127.0.0.1:1/", name="ws")
    assert str(caught.value) == "WebSocket servers need the package websockets: pip install 'mcp-magic[ws]'"


async def test_server_object_shares_its_state_with_the_notebook(host):
    seen: list[str] = []
    server = MCPServer("notes")

    @server.tool()
    def note(text: str) -> int:
        """Keep a note."""
        seen.append(text)
        return len(seen)

    connection = await host.connect(server)
    assert connection.name == "notes"
    assert (await connection.call("note", text="hi")).data == 1
    assert seen == ["hi"]


async def test_server_object_with_an_invalid_schema_is_connected(host):
    server = MCPServer("outputs", log_level="ERROR")
    server.add_tool(lambda: {"a": 1}, name="tool0")
    server._tool_manager.get_tool("tool0").fn_metadata.output_schema = {"type": "no such type"}  # type: ignore[union-attr]
    assert (await host.connect(server, name="outputs")).state == "open"


@pytest.fixture
async def echoing():
    """The URL of a server that tells the headers it gets."""
    server = MCPServer("echoing", log_level="ERROR")

    @server.tool()
    def headers(ctx: Context) -> dict[str, str]:
        return dict(ctx.headers or {})

    async with serving(server.streamable_http_app()) as url:
        yield f"{url}/mcp"


async def test_headers_reach_the_server_and_no_output(host, echoing):
    made: list[httpx2.AsyncClient] = []

    def factory(**options: object) -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient(**options))  # type: ignore[arg-type]
        return made[-1]

    connection = await host.connect(echoing, name="show", headers={"Authorization": "Bearer sesame-123"})
    assert (await connection.call("headers")).data["authorization"] == "Bearer sesame-123"
    assert "sesame" not in repr(connection) + repr(connection.spec) + str(connection._repr_mimebundle_())
    own = await host.connect(echoing, name="own", headers={"X-Team": "blue"}, client_factory=factory)
    assert (await own.call("headers")).data["x-team"] == "blue"
    await host.disconnect("show", "own")
    assert [client.is_closed for client in made] == [True]


async def test_environment_and_working_directory_reach_a_stdio_server(host, tmp_path):
    spec = StdioSpec(command=PLAIN[0], args=tuple(PLAIN[1:]), env={"PLAIN_TOKEN": "sesame-123"}, cwd=tmp_path)
    connection = await host.connect_spec(spec, "plain")
    assert (await connection.call("where")).text == f"{tmp_path} sesame-123"
    assert "sesame" not in repr(connection)


async def test_tls_is_verified_against_the_authority_that_is_named(host, tmp_path):
    certificate, key = self_signed(tmp_path)
    app = MCPServer("secure").streamable_http_app()
    async with serving(app, ssl_certfile=str(certificate), ssl_keyfile=str(key)) as url:
        with pytest.raises(UnreachableError, match=r"TLS to https://127.0.0.1:.* failed: self-signed certificate"):
            await host.connect(f"{url}/mcp", name="secure")
        assert (await host.connect(f"{url}/mcp", name="secure", verify=str(certificate))).state == "open"
        assert (await host.connect(f"{url}/mcp", name="any", verify=False)).state == "open"
        await host.disconnect("secure", "any")


# WebSocket servers that redirect: the headers of the spec stay with the server that they are for

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


async def test_redirect_to_another_origin_is_not_followed(host):
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


async def test_redirect_within_the_server_keeps_the_headers(host):
    seen: list[Request] = []
    async with asyncio.timeout(SECONDS), redirecting("/mcp", seen) as url:
        await refused(host, url)  # there is nothing at /mcp either
    assert [request.path for request in seen] == ["/", "/mcp"]
    assert [request.headers["X-API-Key"] for request in seen] == ["canary-4711"] * 2
