"""An examination as a whole: healthy servers of each kind, targets that mean nothing, and open sessions."""

from __future__ import annotations

import sys

import psutil
from mcp.server.mcpserver import MCPServer

from mcp_magic.doctor import examine
from tests.support.asgi import serving
from tests.support.bundled import load
from tests.support.doctors import TOOL, fails, sick, told
from tests.support.websockets_server import serve_websocket


async def test_a_healthy_server_passes_all_steps_and_is_ended(host):
    report = await examine(host, sick(tools__list={"tools": [TOOL]}, tools__call={"content": []}), call="")
    assert report.ok, str(report)
    assert report.problems == []
    assert repr(report) == "<DoctorReport of sick: healthy>"
    assert [step.name for step in report.steps] == [
        *("resolve", "connect", "TLS", "HTTP", "handshake", "version", "capabilities", "lists", "schemas"),
        *("ping", "call", "close"),
    ]
    older = "refused, Method not found (-32601, method not found): an older server, which begins with initialize"
    assert older in told(report, "handshake")
    assert "initialize: answered in" in told(report, "handshake")
    assert "1 tool in" in told(report, "lists")
    assert "after its stdin was closed" in told(report, "close")
    assert len(host) == 0  # and the fixture checks that no process is left
    assert list(report.df.columns) == ["step", "status", "what", "todo", "ms"]


async def test_servers_of_each_transport_are_healthy(host):
    async with serving(MCPServer("web").streamable_http_app(), lifespan="on") as url:
        report = await examine(host, f"{url}/mcp")
    assert report.ok, str(report)
    assert "server/discover: answered in" in told(report, "handshake"), "2026-07-28 takes both beginnings"
    assert "it takes 2026-07-28" in told(report, "handshake")
    assert "initialize: answered in" in told(report, "handshake")
    assert "HTTP 200 with" in told(report, "HTTP")
    assert "it uses sessions" in told(report, "HTTP")
    assert "it is left" not in told(report, "close")

    report = await examine(host, load("math_server").server)
    assert report.ok, str(report)
    assert report["connect"].status == "not needed"
    assert "8 tools" in told(report, "lists")
    assert "server/discover: " in told(report, "ping")

    async with serve_websocket(MCPServer("socket")) as url:
        report = await examine(host, url)
    assert report.ok, str(report)
    assert report["HTTP"].status == "not needed"
    assert "the session speaks protocol" in told(report, "version")


async def test_secrets_that_a_server_repeats_are_masked(host):
    report = await examine(host, sick(tools__list={"error": -32500}), env={"API_TOKEN": "I am ill"})
    assert "*** (-32500" in told(report, "lists")
    assert "I am ill" not in str(report)


async def test_an_open_session_is_looked_at_and_left_as_it_is(host):
    connection = await host.connect(sick(tools__list={"tools": [TOOL]}), name="mine")
    before = (connection.calls, connection.failures, connection.client)
    processes = set(psutil.Process().children(recursive=True))
    report = await examine(host, "mine")
    assert report.ok, str(report)
    assert "the session 'mine', stdio" in told(report, "resolve")
    assert report["close"].remarks[0].text == "the session is left open"
    assert (connection.calls, connection.failures, connection.client) == before
    assert connection.state == "open"
    assert set(psutil.Process().children(recursive=True)) == processes


async def test_a_target_or_command_that_means_nothing_fails_at_resolve(host, tmp_path):
    plain = tmp_path / "server.sh"
    plain.write_text("echo")
    fails(await examine(host, "nowhere"), "resolve", "'nowhere' is not a file, URL, variable or configured name")
    fails(await examine(host, ["nothing-of-the-kind"]), "resolve", "is not found -> is it installed and on PATH?")
    fails(await examine(host, [str(plain)]), "resolve", "cannot be started: Permission denied -> `chmod +x")
    report = await examine(host, [sys.executable], cwd=tmp_path / "gone")
    fails(report, "resolve", "the working directory", "does not exist")
