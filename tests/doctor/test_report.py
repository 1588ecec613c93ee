"""How a report shows."""

from __future__ import annotations

import sys

from mcp_magic.doctor import examine


async def test_the_report_reads_well_and_escapes_what_servers_say(host, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    report = await examine(host, [sys.executable, "-c", "import sys; sys.exit('<img src=x> \\x1b[31mred')"])
    shown = report._repr_mimebundle_()
    assert "<img" not in shown["text/html"]
    assert "&lt;img src=x&gt;" in shown["text/html"]
    assert "\x1b" not in shown["text/plain"]
    lines = shown["text/plain"].splitlines()
    assert lines[0] == "Doctor: python: 1 error in: connect"
    missed = "· not reached: handshake, version, capabilities, lists, schemas, ping, call, close"
    assert " ".join(" ".join(lines[-2:]).split()) == missed
    assert not [line for line in lines if len(line) > 80]
    assert "✗ failed" in shown["text/html"]
    assert "· not reached" in shown["text/html"]
