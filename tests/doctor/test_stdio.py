"""Processes that the doctor starts: that die, print, say nothing, or do not end."""

from __future__ import annotations

import asyncio
import sys

import pytest

from mcp_magic.doctor import examine
from tests.support import SUPPORT
from tests.support.doctors import fails, sick, told

PRINTED = "it printed something to stdout that is not an MCP message: "


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


async def test_a_server_that_dies_says_its_last_words_without_secrets(host, tmp_path):
    code = "import os, sys; sys.exit('no licence for ' + os.environ['API_TOKEN'])"
    report = await examine(host, script(code), env={"API_TOKEN": "sesame-123"})
    fails(report, "connect", "it ended before it answered (exit code 1)", "stderr: no licence for ***")
    assert "sesame" not in str(report) + report._repr_mimebundle_()["text/html"] + report.df.to_csv()

    report = await examine(host, script("import sys"))
    fails(report, "connect", "it ended before it answered (exit code 0)", "must call run()")
    server = tmp_path / "server.py"
    server.write_text("name = 1\ndef tool(:\n    pass\n")
    report = await examine(host, str(server))
    fails(report, "connect", f"note: stderr: SyntaxError: invalid syntax ({server}, line 2)")


async def test_a_program_that_is_no_server_is_told_from_one_that_hangs(host):
    says = {
        "echo Welcome!; exec sleep 60": (f"{PRINTED}'Welcome!'", "is this command an MCP server?"),
        "exec sleep 60": ("it runs, and answers nothing in 1 s", "--timeout S waits longer"),
        "echo listening on http://127.0.0.1:8123/mcp >&2; exec sleep 60": ("`%mcp doctor http://127.0.0.1:8123/mcp`",),
        "exec cat": ("it runs, and answers nothing in 1 s",),
    }
    reports = await asyncio.gather(*(examine(host, ["sh", "-c", code], timeout=1) for code in says))
    for report, words in zip(reports, says.values(), strict=True):
        fails(report, "connect", *words)


async def test_doctor_warns_of_stray_line_of_working_server(host):
    server = sick(_banner="Starting up...", tools__list={"tools": []})
    report = await examine(host, server)
    assert report.ok, str(report)
    assert f"warning: {PRINTED}'Starting up...'" in told(report, "connect")
    assert report["connect"].status == "warning"
    await host.connect(server, name="open")
    report = await examine(host, "open")
    assert f"warning: {PRINTED}'Starting up...'" in told(report, "connect")
    assert report.verdict == "healthy, 1 warning"


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
async def test_a_print_that_waits_in_a_buffer_is_a_warning(host, tmp_path, version):
    server = tmp_path / "prints.py"
    server.write_text(
        "import json, os, sys\n"
        f"sys.path.insert(0, {str(SUPPORT)!r})\n"
        "from plain import Plain\n"
        f"server = Plain('prints', {version!r})\n"
        "wire = os.fdopen(os.dup(1), 'w')  # as the SDK does: messages go out beside the buffer of `print`\n"
        "server.say = lambda **message: print(json.dumps({'jsonrpc': '2.0', **message}), file=wire, flush=True)\n"
        "print('Ready')\n"
        "server.run()\n"
    )
    report = await examine(host, [sys.executable, str(server)])
    assert report.ok, str(report)
    assert told(report, "connect").count(f"warning: {PRINTED}'Ready'") == 1


async def test_a_print_in_a_server_of_the_sdk_is_a_warning(host, tmp_path):
    server = tmp_path / "prints.py"
    lines = ("from mcp.server.mcpserver import MCPServer", "server = MCPServer('prints')", "print('Ready')")
    server.write_text("\n".join((*lines, "server.run()")))
    assert f"{PRINTED}'Ready'" in told(await examine(host, str(server)), "connect")


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
async def test_a_server_that_does_not_end_or_leaves_children_is_told(host, soon, monkeypatch):
    report = await examine(host, sick(_child=True, tools__list={"tools": []}))
    assert report.ok
    assert "it leaves processes running that it started" in told(report, "close")
    monkeypatch.setattr("mcp_magic.doctor.stdio.GRACE_SECONDS", 0.2)
    report = await examine(host, sick(_stays=True, tools__list={"tools": []}))
    assert report.ok
    assert "it took SIGKILL" in told(report, "close")


async def test_an_interrupted_examination_leaves_nothing_running(host):
    examining = asyncio.ensure_future(examine(host, sick(_hangs=["tools/list"], _capabilities={"tools": {}})))
    while "tools/list" not in [entry.method for entry in host.trace.entries()]:
        await asyncio.sleep(0.01)
    examining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await examining  # the fixture checks that no process and no task is left


BUSY = """import json, sys, time
ANSWER = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "serverInfo": {{"name": "b", "version": "1"}}}}
for line in sys.stdin:
    request = json.loads(line)
    since = time.process_time()
    discovers = request["method"] == "server/discover"
    while discovers and {busy} and time.process_time() - since < 1:
        pass
    answer = {{"error": {{"code": -32601, "message": "no"}}}} if discovers else {{"result": ANSWER}}
    if "id" in request and (not discovers or {busy}):
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"]}} | answer), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize("busy", [pytest.param(True, id="computes"), pytest.param(False, id="waits")])
async def test_a_server_that_computes_is_not_called_silent(host, monkeypatch, busy):
    monkeypatch.setattr("mcp_magic.doctor.stdio.SILENT_SECONDS", 0.6)
    monkeypatch.setattr("mcp_magic.doctor.stdio.INPUT_POLL_SECONDS", 0.2)
    report = await examine(host, script(BUSY.format(busy=busy)))
    assert ("it does not answer server/discover" in told(report, "connect")) is not busy, str(report)
