"""A host that is served to outside agents, from Python."""

from __future__ import annotations

import logging
import socket

import httpx2
import pytest

from mcp_magic import Host
from mcp_magic.errors import CommandError, ConfigError
from mcp_magic.loopback import HOST
from mcp_magic.outside.runtime import running_kernels
from mcp_magic.outside.serving import kernel_id


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the runtime files."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runtime" / "mcp_magic"


async def test_host_is_served_until_it_is_stopped(folder, tmp_path):
    async with Host() as host:
        assert host.serving is None
        serving = await host.serve()
        assert await host.serve() is serving
        assert await host.serve(port=serving.kernel.port) is serving
        with pytest.raises(
            CommandError, match=f"served at port {serving.kernel.port}; `%mcp serve --kernel --stop` ends that"
        ):
            await host.serve(port=1)
        assert (host.serving, running_kernels()) == (serving, [serving.kernel])
        assert (serving.kernel.folder, serving.kernel.notebook) == (str(tmp_path), "")
        token = serving.token_file.read_text()
        assert token not in f"{serving} {serving!r} {serving.entries} {serving.kernel} {serving._repr_mimebundle_()}"
        await host.stop_serving()
        await host.stop_serving()
        assert (host.serving, running_kernels(), [*folder.iterdir()]) == (None, [], [])
        assert "not served" in str(serving)
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(serving.url)
        again = await host.serve()
        assert again.token_file.read_text() != token
        await host.stop_serving()


async def test_entries_name_the_notebook_where_a_folder_has_several(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    async with Host() as one, Host() as other:
        first = await one.serve()
        assert "--kernel" not in str(first)
        monkeypatch.setenv("JPY_SESSION_NAME", "b.ipynb")
        second = await other.serve()
        assert '"a.ipynb"' in first.entries[0].text
        assert '"b.ipynb"' in second.entries[0].text
        await one.stop_serving()
        await other.stop_serving()


async def test_folder_that_cannot_be_used_serves_nothing(folder):
    folder.parent.write_text("a file")
    async with Host() as host:
        with pytest.raises(ConfigError, match=r"Not a directory|File exists"):
            await host.serve()
        assert host.serving is None


async def test_notebook_has_the_name_that_its_frontend_tells(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/work/a b.ipynb")
    async with Host() as host:
        assert (await host.serve()).kernel.notebook == "a b.ipynb"
        await host.stop_serving()
        assert (await host.serve(notebook="/home/me/other.ipynb")).kernel.notebook == "other.ipynb"
        await host.stop_serving()
    assert kernel_id() == ""


async def test_clients_write_nothing_into_the_notebook(caplog):
    """What the SDK logs of odd messages, and of bodies that end in the middle, would be on stderr."""
    async with Host() as host:
        serving = await host.serve()
        headers = {
            "Authorization": f"Bearer {serving.token_file.read_text()}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        about = {"name": "odd", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
        async with httpx2.AsyncClient(trust_env=False, headers=headers) as client:

            async def post(**message):
                response = await client.post(serving.url, json={"jsonrpc": "2.0", **message})
                return client.headers.setdefault("mcp-session-id", response.headers.get("mcp-session-id", ""))

            session = await post(id=1, method="initialize", params=params)
            await post(method="notifications/initialized")
            await post(method="notifications/progress", params={"progressToken": []})
            lines = [f"{name}: {value}" for name, value in headers.items()] + [f"mcp-session-id: {session}"]
            head = ["POST /mcp HTTP/1.1", f"Host: {HOST}:{serving.kernel.port}", *lines, "Content-Length: 9", "", "{"]
            with socket.create_connection((HOST, serving.kernel.port)) as connection:
                connection.sendall("\r\n".join(head).encode())
            for number in range(20):  # by then it has noticed that the connection is closed
                await post(id=10 + number, method="ping")
        logging.getLogger("mcp.server.runner").warning("of a server of the person")
        await host.stop_serving()
    assert [record.getMessage() for record in caplog.records] == ["of a server of the person"]
