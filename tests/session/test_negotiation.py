"""How a session begins with servers that do not survive `server/discover`: once more, at once, by `initialize`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import errors
from mcp_magic.config.servers import load_config
from mcp_magic.config.targets import resolve_target
from mcp_magic.doctor import examine
from tests.environments import sdk_command, sqlite_command
from tests.support import SUPPORT
from tests.support.processes import free_port, listening, start_http

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

SERVER = SUPPORT / "old_server.py"
PROBED = ["started", "server/discover"]
OPENED = ["started", "initialize", "tools/list"]


class Old:
    """An old server, and its diary."""

    def __init__(self, folder: Path, way: str) -> None:
        self.diary = folder / "diary"
        self.command = [sys.executable, "-S", str(SERVER), str(self.diary), way]

    def read(self) -> list[str]:
        """What was noted since it was read last."""
        lines = self.diary.read_text().splitlines()
        self.diary.write_text("")
        return lines


@pytest.mark.parametrize("way", ["dies", "closes", "hangs", "refuses"])
async def test_server_that_dies_of_probe_is_restarted_once(host: Host, tmp_path: Path, way: str) -> None:
    old = Old(tmp_path, way)
    connection = await host.connect(old.command, name="old")
    assert connection.protocol_version == "2025-06-18"
    assert (await connection.call("hello")).text == "Hello"
    noted = old.read()
    assert [line for line in noted if line != "initialize"][:3] == [*PROBED, "started"]
    assert noted.count("started") == 2
    assert connection.stderr().split("\n")[0] == "ready to serve"
    assert "server/discover" not in connection.stderr(), "what was written about the probe is no trouble of the server"
    assert any("server/discover" in str(entry.text) for entry in connection.trace.entries if entry.kind == "line")


async def test_server_that_rejects_probe_gets_handshake_without_stderr(host: Host, tmp_path: Path) -> None:
    old = Old(tmp_path, "answers")
    connection = await host.connect(old.command, name="old")
    assert old.read() == [*PROBED, *OPENED[1:]]
    assert connection.stderr() == "ready to serve\n"


async def test_negotiation_is_remembered_by_spec(host: Host, tmp_path: Path) -> None:
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


async def test_server_is_probed_again_if_remembered_way_fails(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    run = f"import runpy, sys; sys.argv[2] = '{{way}}'; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    program.write_text(run.format(way="dies"))
    diary = tmp_path / "diary"
    connection = await host.connect([sys.executable, "-S", str(program), str(diary), "-"], name="old")
    assert connection.protocol_version == "2025-06-18"
    program.write_text(run.format(way="modern"))
    diary.write_text("")
    await host.reconnect("old")
    assert connection.protocol_version == "2026-07-28"
    assert diary.read_text().split()[:4] == ["started", "initialize", "started", "server/discover"]
    diary.write_text("")
    await host.reconnect("old")
    assert diary.read_text().split()[:2] == ["started", "server/discover"]


SLOW = f"import runpy, sys, time; time.sleep(1); runpy.run_path({str(SERVER)!r}, run_name='__main__')"


async def test_named_version_is_tried_again_on_slow_server(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.3)
    command = [sys.executable, "-S", "-c", SLOW, str(tmp_path / "diary"), "modern"]
    connection = await host.connect(command, name="slow", protocol="2026-07-28")
    assert connection.protocol_version == "2026-07-28"


async def test_named_version_times_out_on_silent_server(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 0.3)
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(errors.ConnectError, match=r"1 s"):
        await host.connect(command, name="silent", protocol="2026-07-28", timeout=1)


async def test_dying_server_is_started_twice_and_quoted_once(host: Host, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    code = f"import sys; open({str(diary)!r}, 'a').write('x'); sys.exit('TOKEN is required')"
    with pytest.raises(errors.ServerExitedError) as caught:
        await host.connect([sys.executable, "-S", "-c", code], name="dead")
    assert str(caught.value).count("TOKEN is required") <= 2  # in the command, and on stderr
    assert str(caught.value).count("stderr:") == 1
    assert diary.read_text() == "xx"


@pytest.mark.parametrize(
    ("protocol", "way", "noted", "version"),
    [
        ("handshake", "dies", OPENED, "2025-06-18"),
        ("2026-07-28", "modern", [*PROBED, "tools/list"], "2026-07-28"),
        ("auto", "modern", [*PROBED, "tools/list"], "2026-07-28"),
    ],
)
async def test_the_way_can_be_chosen_by_hand(
    host: Host, tmp_path: Path, protocol: str, way: str, noted: list[str], version: str
) -> None:
    old = Old(tmp_path, way)
    connection = await host.connect(old.command, name="old", protocol=protocol)
    assert (connection.protocol_version, old.read()) == (version, noted)


@pytest.mark.parametrize(
    ("protocol", "way", "noted", "words"),
    [
        ("2026-07-28", "dies", PROBED, "--protocol 2026-07-28 asks for server/discover only"),
        ("2026-07-28", "answers", PROBED, "--protocol 2026-07-28 asks for server/discover only"),
        ("handshake", "modern", OPENED[:2], "--protocol handshake asks for initialize only"),
    ],
)
async def test_chosen_protocol_is_the_only_one_and_error_says_so(
    host: Host, tmp_path: Path, protocol: str, way: str, noted: list[str], words: str
) -> None:
    old = Old(tmp_path, way)
    with pytest.raises(errors.ConnectError) as caught:
        await host.connect(old.command, name="old", protocol=protocol)
    assert str(caught.value).endswith(f"\n  {words}; --protocol auto tries both.")
    assert old.read() == noted


async def test_the_way_can_be_chosen_for_a_server_in_this_kernel(host: Host) -> None:
    from mcp.server.mcpserver import MCPServer

    for protocol, version in [("handshake", "2025-11-25"), ("2026-07-28", "2026-07-28")]:
        connection = await host.connect(MCPServer("here"), name="here", protocol=protocol)
        assert connection.protocol_version == version


@pytest.mark.parametrize("table", [{"protocol": "handshake"}, {"protocol": "2026-07-28"}])
def test_the_way_is_a_key_of_tables(table: dict[str, Any]) -> None:
    spec, _ = resolve_target({"command": "x", **table})
    assert spec.protocol == table["protocol"]
    with pytest.raises(errors.TargetError, match="protocol: expected auto, handshake or 2026-07-28, got 'handshak'"):
        resolve_target({"command": "x", "protocol": "handshak"})


def test_config_ignores_foreign_meaning_of_protocol_key(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "x", "protocol": "stdio"}, "b": {"command": "x", "protocol": "handshake"}}}'
    )
    assert [entry.spec.protocol for entry in load_config(path) if entry.spec] == ["auto", "handshake"]


async def test_the_doctor_shows_both_tries(host: Host, tmp_path: Path) -> None:
    report = await examine(host, Old(tmp_path, "dies").command)
    text = str(report)
    assert report.ok, text
    words = " ".join(text.split())
    assert "it ended (exit code 3) at server/discover; process" in words
    assert "server/discover: its output ended: an older server, which begins with initialize" in words
    assert "with protocol 2025-06-18" in words
    assert "Failed to validate" not in words


async def test_requests_of_host_are_traced_but_not_counted(host: Host, tmp_path: Path) -> None:
    """The server has resources and no templates, and says so by an error."""
    connection = await host.connect(sqlite_command(tmp_path / "data.db"), name="sqlite")
    assert (connection.calls, connection.failures) == (0, 0)
    assert "failed" not in connection._repr_mimebundle_()["text/plain"]
    assert connection.stderr() == ""
    asked = [entry.method for entry in connection.trace.entries if entry.kind == "error"]
    assert asked == ["server/discover", "resources/templates/list"]
    await connection.listing("templates", refresh=True)
    assert connection.calls == 1


async def test_url_of_old_sse_server_opens_with_handshake(host: Host) -> None:
    port = free_port()
    with start_http(sdk_command("mcp 1.6.0", "sse", port), ready=rf"(?P<port>{port})", path="/sse") as server:
        await listening(port)
        report = await examine(host, server.url)
        assert "server/discover: not supported: an older server, which begins with initialize" in str(report)
