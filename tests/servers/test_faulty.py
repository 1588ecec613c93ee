"""The server that `notebooks/debug_a_server.ipynb` mends is as sick as it says, and no sicker."""

import pytest

from mcp_magic.errors import ProtocolError, RequestTimeoutError, ToolError
from tests.support import bundled


async def test_faulty_server_has_the_planted_faults_and_keeps_going(host):
    library = await host.connect(bundled.command("faulty_server"), name="library")
    findings = await library.lint()
    assert {(finding.code, finding.where) for finding in findings.findings} == {
        ("schema-invalid", "tool count"),
        ("hidden-unicode", "tool return book"),
        ("schema-required", "tool find"),
        ("name-provider", "tool return book"),
        ("hints-contradict", "tool return book"),
        ("description-missing", "tool inventory"),
    }
    with pytest.raises(ProtocolError, match="KeyError: 'titel'"):
        await library.call_tool("find", {"title": "Emma"}, validate=False)
    with pytest.raises(RequestTimeoutError):
        await library.call_tool("inventory", {}, timeout=0.5)
    with pytest.raises(ToolError, match="Nobody is at the desk"):
        await library.call("return book", title="Emma")
    assert (await library.call_tool("find", {"titel": "Emma"}, validate=False)).text == "Jane Austen"
    assert "DEBUG call_tool inventory" in library.stderr()
