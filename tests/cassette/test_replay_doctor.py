"""Reports of the doctor that are replayed, and servers that the notebook itself serves."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic._host import Host
from mcp_magic.doctor import DoctorReport, examine
from mcp_magic.errors import CassetteError
from tests.support.asgi import serving
from tests.support.cassettes import GONE, hosting, lines, replayed
from tests.support.doctors import TOOL, sick

BROKEN = {"name": "count", "description": "", "inputSchema": {"type": "object", "properties": {"a": {"type": "char"}}}}


def whole(report: DoctorReport) -> tuple[Any, ...]:
    """Return all that a report holds and shows, times too."""
    findings = report.findings
    shown = (str(report), report._repr_mimebundle_()["text/html"], report.df.to_csv())
    return (*shown, report.ok, report.failed_at, findings and (findings.findings, str(findings)))


def notes(text: str = "kept") -> MCPServer:
    server = MCPServer("notes", log_level="ERROR")

    @server.tool()
    def keep() -> str:
        """Keep a note."""
        return text

    return server


async def test_cassette_replays_doctor_report_without_starting_servers(tape):
    async def seen(host: Host, ill: Any, well: Any, url: str) -> list[Any]:
        reports = [
            await examine(host, ill, name="ill"),
            await examine(host, well, name="well", call=""),
            await examine(host, ["pythn3-nowhere"], name="missing"),
            await examine(host, url, name="web"),
            await examine(host, "nothing_of_the_kind"),
        ]
        return [whole(report) for report in reports]

    ill = sick(_banner="loading", tools__list={"tools": [TOOL, BROKEN]})
    well = sick(tools__list={"tools": [TOOL]}, tools__call={"content": [{"type": "text", "text": "seen"}]})
    async with serving(notes().streamable_http_app()) as base, hosting(tape, "record") as host:
        recorded = await seen(host, ill, well, f"{base}/mcp")
    assert [one[4] for one in recorded] == ["schemas", None, "resolve", None, "resolve"]
    assert "its first answer came after" in recorded[0][0]

    async with hosting(tape, "replay") as host:
        assert await seen(host, GONE, GONE, f"{base}/mcp") == recorded
        assert host.connections == {}
        said = r"a doctor's report of other is not in the cassette .* those of ill, well"
        with pytest.raises(CassetteError, match=said):
            await examine(host, GONE, name="other")


async def test_cassette_separates_doctor_sessions_from_later_ones(tape):
    async def seen(host: Host, target: list[str]) -> list[Any]:
        first = whole(await examine(host, target, name="sick"))
        connection = await host.connect(target, name="sick")
        tools = [tool.name for tool in await connection.listing("tools")]
        return [first, tools, whole(await examine(host, "sick"))]

    await replayed(tape, seen, sick(tools__list={"tools": [TOOL]}))
    assert len([line for line in lines(tape) if "server" in line]) == 1


async def test_cassette_doctor_shows_recorded_report_for_kernel_server(tape):
    async with hosting(tape, "record") as host:
        recorded = whole(await examine(host, notes(), name="notes", call="keep"))
    async with hosting(tape, "replay") as host:
        assert whole(await examine(host, notes(), name="notes", call="keep")) == recorded
        sent = [entry.method for entry in host.trace.entries("notes") if entry.direction == "→"]
        assert sent.count("tools/call") == 1
    async with hosting(tape, "replay", in_process="replay") as host:
        assert whole(await examine(host, notes(), name="notes", call="keep")) == recorded


async def test_a_report_says_no_secret_and_can_be_read(tape):
    command = [sys.executable, "-c", "import os, sys; sys.exit('bad ' + os.environ['API_TOKEN'])"]
    async with hosting(tape, "record") as host:
        await examine(host, command, name="bad", env={"API_TOKEN": "sesame-4711"})
    (report,) = [line for line in lines(tape) if "steps" in line]
    assert (report["title"], report["call"]) == ("bad", None)
    assert "bad ***" in json.dumps(report)
    assert "sesame" not in tape.read_text("utf-8")


async def test_cassette_replays_url_server_beside_live_namesake(tape):
    async def seen(host: Host, other: Host, server: MCPServer, url: str) -> list[str]:
        await host.connect(server, name="notes")
        mine = (await host["notes"].call("keep")).text
        client = await other.connect(url, name="notes", headers={"Authorization": "Bearer canary-4711"})
        return [mine, (await client.call("keep")).text, client.spec.transport]

    # the second host is that of a client of what the notebook serves
    async with serving(notes().streamable_http_app()) as base, hosting(tape, "record") as host, Host() as other:
        assert await seen(host, other, notes(), f"{base}/mcp") == ["kept", "kept", "http"]
    assert "canary" not in tape.read_text("utf-8")
    async with hosting(tape, "replay") as host, Host() as other:
        assert await seen(host, other, notes("live"), "http://127.0.0.1:9/mcp") == ["live", "kept", "http"]
