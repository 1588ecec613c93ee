"""`%mcp doctor` and `%mcp lint` as lines."""

from __future__ import annotations

import json
import sys

from mcp.server.mcpserver import MCPServer

from mcp_magic.auth.login import LogIns
from mcp_magic.errors import CommandError, ConfigError
from mcp_magic.notebook import host
from tests.support.doctors import SICK, TOOL
from tests.support.persons import logging_in
from tests.support.protected_server import protected_server

LIST = json.dumps({"tools/list": {"tools": [TOOL]}, "tools/call": {"content": []}})


async def test_doctor_takes_sessions_commands_urls_and_variables(magic):
    report = await magic("doctor math")
    assert report.ok
    assert report["close"].remarks[0].text == "the session is left open"
    line = f"doctor --name ill --timeout 5 --call -- $python {SICK} $told"
    report = await magic(line, python=sys.executable, told=LIST)
    assert report.ok, str(report)
    assert report.target == "ill"
    assert report["call"].status == "ok"
    report = await magic("doctor $url --header 'Authorization: Bearer sesame-1'", url="http://127.0.0.1:9/mcp")
    assert report.failed_at == "connect"
    assert "sesame" not in str(report)
    report = await magic("doctor mine", mine=MCPServer("mine"))
    assert report.ok
    assert "in this kernel, the variable mine" in report["resolve"].remarks[0].text
    for line, says in (
        ("doctor", "%mcp doctor: no target given"),
        ("doctor a b", "%mcp doctor: one target at a time"),
        ("doctor math -- python x.py", "before `--`"),
        ("doctor math --cal", "Did you mean '--call'?"),
    ):
        assert says in await magic.error(CommandError, line)


async def test_doctor_takes_a_server_of_a_config_file(magic):
    servers = {"one": {"command": sys.executable, "args": [str(SICK), LIST]}, "two": {"command": "gone"}}
    file = magic.folder / "mine.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    report = await magic("doctor one --config mine.json")
    assert report.ok, str(report)
    assert f"server 'one' of {file}: stdio: " in report["resolve"].remarks[0].text
    assert (await magic("doctor two --config mine.json")).failed_at == "resolve"
    assert "Did you mean 'two'?" in str(await magic("doctor tow --config mine.json"))
    await magic.error(ConfigError, "doctor one --config missing.json")


async def test_doctor_logs_in_only_where_the_line_says_so(magic, monkeypatch):
    monkeypatch.setattr(host, "logins", LogIns())
    person = logging_in(host)
    async with protected_server() as protected:
        report = await magic("doctor $url", url=protected.url)
        assert (report.failed_at, person.shown) == ("HTTP", [])
        assert "`--login` logs in and goes on" in str(report)
        for option in (" --login", ""):
            report = await magic(f"doctor $url{option}", url=protected.url)
            assert report.ok, str(report)
        assert len(person.shown) == 1


async def test_lint_gives_the_findings_of_the_doctor(magic):
    findings = await magic("lint math")
    assert findings.of("error") == findings.of("warning") == []
    assert "8 tools" in findings.note + findings.empty
    bad = [{**TOOL, "description": ""}, {**TOOL, "name": "text", "inputSchema": {"type": "string"}}]
    told = json.dumps({"tools/list": {"tools": bad}, "tools/call": {"error": -32603}})
    await magic(f"connect --name ill -- $python {SICK} $told", python=sys.executable, told=told)
    findings = await magic("lint ill")
    assert {"description-missing", "definition-invalid"} <= findings.codes
    assert findings.findings == (await magic("doctor ill")).findings.findings
    assert "checked 1 tool: " in str(findings.note)
