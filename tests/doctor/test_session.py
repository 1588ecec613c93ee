"""What the doctor finds once a server answers: its handshake, capabilities, lists, schemas and a call."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.consent.rules import Rule
from mcp_magic.doctor import examine
from tests.support.doctors import TOOL, fails, sick, told

LISTED = {"tools": [TOOL]}
BAD_SCHEMA = {"type": "object", "properties": {"a": {"type": "int"}}}
PAGES = [{"tools": [TOOL], "nextCursor": "1"}, {"tools": [TOOL, {**TOOL, "name": "other"}], "nextCursor": "0"}]
ODD = "the tool `bare` has no inputSchema; it is taken as an object without properties -> fix it in the server"
DONE: dict[str, Any] = {"content": []}
STRUCTURED = {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": 1}}
WIPE = {
    "tools": [{"name": "wipe", "inputSchema": {"type": "object", "required": ["disk"], "properties": {"disk": {}}}}]
}


@pytest.mark.parametrize(
    ("server", "step", "failed", "words"),
    [
        pytest.param(
            {"_version": "1999-01-01"},
            *("handshake", True, ["protocol '1999-01-01', which is not a known version"]),
            id="unknown version",
        ),
        pytest.param(
            {"_version": "2024-11-05", "tools/list": {"tools": []}},
            *("version", False, ["warning: 2024-11-05 has no structured results"]),
            id="old version",
        ),
        pytest.param(
            {
                **{"_capabilities": {"resources": {}}, "resources/list": {"resources": []}},
                **{"tools/list": LISTED, "prompts/list": {"prompts": []}},
            },
            *("capabilities", False, ["warning: tools/list answers with 1 tools, which are not announced"]),
            id="not announced",
        ),
        pytest.param(
            {"_capabilities": {"prompts": {}}},
            *("capabilities", True, ["failed: prompts are announced, but prompts/list is unknown"]),
            id="announced",
        ),
        pytest.param(
            {
                **{"_capabilities": {"tools": {}, "prompts": {}}, "tools/list": {"error": -32603}},
                "prompts/list": {"prompts": [{"name": "p", "description": "Says p."}]},
            },
            *("lists", True, ["tools/list: I am ill (-32603, internal error; fault: the server)", "1 prompt in"]),
            id="failing list",
        ),
        pytest.param(
            {"tools/list": PAGES},
            *("lists", True, ["tools: the cursor '1' came twice: the list never ends"]),
            id="circle",
        ),
        pytest.param({"tools/list": PAGES}, "lists", True, ["tools: listed more than once: look"], id="duplicates"),
        pytest.param(
            {"tools/list": {"tools": [TOOL, {"name": "bare"}]}}, "lists", False, [f"warning: {ODD}"], id="odd item"
        ),
        pytest.param(
            {"tools/list": {"items": []}}, "lists", False, ["warning: tools is null, not a list"], id="odd page"
        ),
        pytest.param(
            {"tools/list": {"tools": [{"name": "bad", "description": "Bad.", "inputSchema": BAD_SCHEMA}]}},
            *("schemas", True, ["tool bad: not valid JSON Schema at properties/a/type"]),
            id="bad schema",
        ),
    ],
)
async def test_the_doctor_names_what_is_wrong_with_a_server(host, server, step, failed, words):
    report = await examine(host, sick(**server))
    assert (report.failed_at == step) is failed, str(report)
    for word in words:
        assert word in told(report, step)
    if step == "handshake":
        fails(report, step)
    else:
        assert report["ping"].status == "ok"  # what does not stand on the list is looked at all the same
    assert ("prompts" in told(report, "capabilities")) is ("prompts" in server.get("_capabilities", {}))
    if step == "schemas":
        assert report.findings is not None
        assert "schema-invalid" in report.findings.codes


async def test_doctor_lints_broken_list_entries_with_the_rest(host):
    bad = [TOOL, {"name": "bare"}, {**TOOL, "name": "text", "inputSchema": {"type": "string"}}]
    report = await examine(host, sick(tools__list={"tools": bad}))
    why = 'its inputSchema is of type "string"; the arguments of a tool are an object'
    assert f"the tool `text` cannot be used: {why}" in told(report, "lists")
    assert f"tool text: not a valid definition: {why} [definition-invalid]" in told(report, "schemas")
    assert report.findings is not None
    assert "checked 2 tools" in report.findings.note


async def test_a_list_that_hangs_is_given_up(host, monkeypatch):
    monkeypatch.setattr("mcp_magic.doctor.session.PAGE_SECONDS", 0.3)
    report = await examine(host, sick(_hangs=["tools/list"]))
    assert "failed: tools/list: timed out: no answer within 0.3 s" in told(report, "lists")


@pytest.mark.parametrize(
    ("server", "call", "words"),
    [
        pytest.param({"tools/list": LISTED, "tools/call": DONE}, "", "look() answered in", id="read-only"),
        pytest.param(
            {"tools/list": LISTED, "tools/call": STRUCTURED},
            *("", "answers with structured content and has no outputSchema"),
            id="structured",
        ),
        pytest.param(
            {"tools/list": WIPE},
            *("wipe", "wipe needs disk, and is not marked read-only, so it was not called -> %mcp call"),
            id="changing",
        ),
        pytest.param({"tools/list": WIPE}, "wype", "there is no tool 'wype'. Did you mean 'wipe'?", id="unknown"),
        pytest.param({"tools/list": WIPE}, "", "not needed: no read-only tool works without", id="none to call"),
    ],
)
async def test_a_tool_is_called_if_that_changes_nothing(host, server, call, words):
    report = await examine(host, sick(**server), call=call)
    assert words in told(report, "call")


async def test_a_call_goes_through_consent_and_its_error_is_told(host):
    host.consent.rules.append(Rule("deny", "sick:*"))
    report = await examine(host, sick(tools__list=LISTED, tools__call=DONE), call="look")
    assert report.ok
    assert "warning: look() was not called" in told(report, "call")

    server = MCPServer("half")

    @server.tool()
    def bad() -> int:
        """Fails."""
        raise KeyError("no ink")

    report = await examine(host, server, call="bad")
    assert "bad() reports an error" in told(report, "call")
    assert "example arguments" not in told(report, "call")
