"""How a session begins with servers that do not survive `server/discover`: once more, at once, by `initialize`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.config.servers import load_config
from mcp_magic.config.targets import resolve_target
from mcp_magic.doctor import examine
from tests.environments import sdk_command, sqlite_command
from tests.support import SUPPORT
from tests.support.odd_http import outcome
from tests.support.odd_server import VERSION, remarks
from tests.support.processes import free_port, listening, start_http

if TYPE_CHECKING:
    from pathlib import Path


SERVER = SUPPORT / "old_server.py"
PROBED = ["started", "server/discover"]
OPENED = ["started", "initialize", "tools/list"]


class Old:
    """An old server, and its diary."""

    def __init__(self, folder: Path, way: str, refused: Any = None) -> None:
        self.diary = folder / "diary"
        refusal = [] if refused is None else [json.dumps(refused)]
        self.command = [sys.executable, "-S", str(SERVER), str(self.diary), way, *refusal]

    def read(self) -> list[str]:
        """Return what was noted since it was read last."""
        lines = self.diary.read_text().splitlines()
        self.diary.write_text("")
        return lines


@pytest.mark.parametrize("way", ["dies", "closes", "hangs", "refuses"])
async def test_a_server_that_dies_of_the_probe_is_restarted(host, tmp_path, way):
    old = Old(tmp_path, way)
    connection = await host.connect(old.command, name="old")
    assert connection.protocol_version == VERSION
    assert (await connection.call("hello")).text == "Hello"
    noted = old.read()
    assert [line for line in noted if line != "initialize"][:3] == [*PROBED, "started"]
    assert noted.count("started") == 2
    assert connection.stderr().split("\n")[0] == "ready to serve"
    assert "server/discover" not in connection.stderr(), "what was written about the probe is no trouble of the server"
    assert any("server/discover" in str(entry.text) for entry in connection.trace.entries if entry.kind == "line")


async def test_a_server_that_refuses_the_probe_goes_on(host, tmp_path):
    old = Old(tmp_path, "answers")
    connection = await host.connect(old.command, name="old")
    assert old.read() == [*PROBED, *OPENED[1:]]
    assert connection.stderr() == "ready to serve\n"


async def test_the_negotiated_protocol_is_remembered_by_spec(host, tmp_path):
    old = Old(tmp_path, "dies")
    await host.connect(old.command, name="old")
    assert old.read() == [*PROBED, *OPENED]
    await host.reconnect("old")
    assert old.read() == OPENED
    await host.disconnect("old")
    await host.connect(old.command, name="other")
    assert old.read() == OPENED
    await host.connect(old.command, name="third", env={"A": "b"})
    assert old.read() == [*PROBED, *OPENED]


async def test_a_server_is_probed_again_if_the_way_fails(host, tmp_path):
    program = tmp_path / "server.py"
    run = f"import runpy, sys; sys.argv[2] = '{{way}}'; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    program.write_text(run.format(way="dies"))
    old = Old(tmp_path, "-")
    old.command[2] = str(program)
    connection = await host.connect(old.command, name="old")
    assert connection.protocol_version == VERSION
    program.write_text(run.format(way="modern"))
    old.read()
    await host.reconnect("old")
    assert connection.protocol_version == "2026-07-28"
    assert old.read()[:4] == ["started", "initialize", "started", "server/discover"]
    await host.reconnect("old")
    assert old.read()[:2] == ["started", "server/discover"]


async def test_a_named_version_is_tried_until_the_time_out(host, tmp_path, monkeypatch):
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.01)
    slow = f"import runpy, sys, time; time.sleep(0.2); runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    command = [sys.executable, "-S", "-c", slow, str(tmp_path / "diary"), "modern"]
    connection = await host.connect(command, name="slow", protocol="2026-07-28")
    assert connection.protocol_version == "2026-07-28"
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(errors.ConnectError, match=r"1 s"):
        await host.connect(command, name="silent", protocol="2026-07-28", timeout=1)


async def test_a_dying_server_is_started_twice_and_quoted_once(host, tmp_path):
    diary = tmp_path / "diary"
    code = f"import sys; open({str(diary)!r}, 'a').write('x'); sys.exit('TOKEN is required')"
    with pytest.raises(errors.ServerExitedError) as caught:
        await host.connect([sys.executable, "-S", "-c", code], name="dead")
    assert str(caught.value).count("TOKEN is required") <= 2  # in the command, and on stderr
    assert str(caught.value).count("stderr:") == 1
    assert diary.read_text() == "xx"


# The way that is chosen by hand


@pytest.mark.parametrize(
    ("protocol", "way", "noted", "version"),
    [
        ("handshake", "dies", OPENED, VERSION),
        ("2026-07-28", "modern", [*PROBED, "tools/list"], "2026-07-28"),
        ("auto", "modern", [*PROBED, "tools/list"], "2026-07-28"),
    ],
)
async def test_the_protocol_can_be_chosen(host, tmp_path, protocol, way, noted, version):
    old = Old(tmp_path, way)
    connection = await host.connect(old.command, name="old", protocol=protocol)
    assert (connection.protocol_version, old.read()) == (version, noted)
    here = await host.connect(MCPServer("here"), name="here", protocol=protocol)
    assert here.protocol_version == ("2025-11-25" if protocol == "handshake" else "2026-07-28")


@pytest.mark.parametrize(
    ("protocol", "way", "noted", "words"),
    [
        ("2026-07-28", "dies", PROBED, "--protocol 2026-07-28 asks for server/discover only"),
        ("2026-07-28", "answers", PROBED, "--protocol 2026-07-28 asks for server/discover only"),
        ("handshake", "modern", OPENED[:2], "--protocol handshake asks for initialize only"),
    ],
)
async def test_a_chosen_way_is_the_only_one_and_the_error_says_so(host, tmp_path, protocol, way, noted, words):
    old = Old(tmp_path, way)
    with pytest.raises(errors.ConnectError) as caught:
        await host.connect(old.command, name="old", protocol=protocol)
    assert str(caught.value).endswith(f"\n  {words}; --protocol auto tries both.")
    assert old.read() == noted


def test_protocol_is_a_key_of_tables_and_files(tmp_path):
    for protocol in ("handshake", "2026-07-28"):
        spec, _ = resolve_target({"command": "x", "protocol": protocol})
        assert spec.protocol == protocol
    with pytest.raises(errors.TargetError, match="protocol: expected auto, handshake or 2026-07-28, got 'handshak'"):
        resolve_target({"command": "x", "protocol": "handshak"})
    path = tmp_path / "mcp.json"
    servers = {name: {"command": "x", "protocol": way} for name, way in (("a", "stdio"), ("b", "handshake"))}
    path.write_text(json.dumps({"mcpServers": servers}))
    ways = [entry.spec.protocol for entry in load_config(path) if entry.spec]
    assert ways == ["auto", "handshake"], "other clients mean something else by the key"


# What the doctor and a session show of it


async def test_the_doctor_shows_both_tries(host, tmp_path):
    report = await examine(host, Old(tmp_path, "dies").command)
    assert report.ok, str(report)
    words = " ".join(str(report).split())
    assert "it ended (exit code 3) at server/discover; process" in words
    assert "server/discover: its output ended: an older server, which begins with initialize" in words
    assert f"with protocol {VERSION}" in words
    assert "Failed to validate" not in words


async def test_requests_of_the_host_are_traced_but_not_counted(host, tmp_path):
    """The server has resources and no templates, and says so by an error."""
    connection = await host.connect(sqlite_command(tmp_path / "data.db"), name="sqlite")
    assert (connection.calls, connection.failures) == (0, 0)
    assert "failed" not in connection._repr_mimebundle_()["text/plain"]
    assert connection.stderr() == ""
    asked = [entry.method for entry in connection.trace.entries if entry.kind == "error"]
    assert asked == ["server/discover", "resources/templates/list"]
    await connection.listing("templates", refresh=True)
    assert connection.calls == 1


async def test_an_old_sse_server_is_opened_with_the_handshake(host):
    port = free_port()
    with start_http(sdk_command("mcp 1.6.0", "sse", port), ready=rf"(?P<port>{port})", path="/sse") as server:
        await listening(port)
        report = await examine(host, server.url)
        assert "server/discover: not supported: an older server, which begins with initialize" in str(report)


# Versions that a refused handshake names

NAMED: dict[str, tuple[Any, str]] = {
    "data": ({"code": -32602, "message": "no", "data": {"supported": ["2024-11-05", "2025-03-26"]}}, "2025-03-26"),
    "words": (
        {"code": -32600, "message": "Unsupported protocol version 2025-11-25 (2024-11-05 and 2024-10-07 are)"},
        "2024-11-05",
    ),
    "code": ({"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"], "requested": "x"}}, "2025-06-18"),
}


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
@pytest.mark.parametrize(("refused", "version"), NAMED.values(), ids=NAMED)
async def test_a_version_that_a_refusal_names_is_tried(host, tmp_path, refused, version, protocol):
    old = Old(tmp_path, f"only {version}", refused)
    connection = await host.connect(old.command, name="old", protocol=protocol)
    assert (connection.protocol_version, await outcome(connection, "hello")) == (version, "Hello")
    assert f"{version} was asked for" in remarks(connection)
    if protocol == "auto":
        report = await examine(host, old.command, call="hello")
        assert report.ok
        assert f"it names {version}, which a session then asks for" in "\n".join(report.problems)


@pytest.mark.parametrize("version", ["2099-01-01", "2024-11-05"], ids=["unknown", "refused_again"])
async def test_a_refused_handshake_names_the_versions_of_both(host, tmp_path, version):
    refused = {"code": -32602, "message": "Unsupported protocol version", "data": {"supported": [version]}}
    with pytest.raises(errors.NotAnMCPServerError) as caught:
        await host.connect(Old(tmp_path, "only none", refused).command, name="old")
    both = f"it takes {version}; mcp_magic speaks 2026-07-28, 2025-11-25, {VERSION}, 2025-03-26, 2024-11-05"
    assert str(caught.value).splitlines()[1] == f"  {both}"
