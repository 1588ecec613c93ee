"""TLS connections that end in the middle, or before they begin."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from mcp_magic.errors import ConnectError, SessionClosedError
from tests.support.certificates import self_signed
from tests.support.checking import ERAS, LOST, assert_clear, outcome
from tests.support.hosts import bystander
from tests.support.rogue_http import rogue_http


@pytest.fixture
def host(spotless):
    return spotless


@ERAS
async def test_tls_that_ends_in_the_middle_is_one_clear_error(host, tmp_path, version):
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with bystander(host), rogue_http(version, tls=context) as rogue:
        connection = await host.connect(rogue.url, name="rogue", verify=str(certificate))
        assert await outcome(connection, "right") == "right"
        for tool in ("truncated", "cut_stream", "reset"):
            assert_clear(await outcome(connection, tool), SessionClosedError, LOST)
            assert await outcome(connection, "right") == "right"
            assert rogue.calls[tool] == 1
        await host.disconnect("rogue")


async def test_a_tls_handshake_without_an_answer_times_out(host, monkeypatch):
    monkeypatch.setattr("mcp_magic.session.transports.CONNECT_SECONDS", 0.5)
    async with rogue_http() as rogue:
        with pytest.raises(ConnectError, match=r"no connection to https://127.0.0.1") as caught:
            await host.connect(rogue.url.replace("http://", "https://"), name="rogue")
        assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize("ends", ["server", "host"])
async def test_an_interrupted_tls_handshake_leaves_no_socket(host, ends):
    arrived = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        arrived.set()
        if ends == "server":
            writer.transport.abort()
        while await reader.read(1000):
            pass
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        connecting = asyncio.create_task(host.connect(url, name="rogue"))
        await arrived.wait()
        if ends == "host":
            connecting.cancel()
            await asyncio.wait({connecting})
        else:
            with pytest.raises(ConnectError) as caught:
                await connecting
            assert len(str(caught.value).splitlines()) <= 2
        await host.close()
