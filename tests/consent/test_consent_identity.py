"""Another server comes under a name that the person knows, with the same tools: consent was for the first one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic._host import Host
from mcp_magic.ask.approval import approval_part
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.rules import Rule, parse_rules, write_rules
from tests.support.calling import allowed
from tests.support.kernel_servers import MATH

MINE = Request("math", "add", {"a": 1, "b": 2}, asker="agent")


@pytest.fixture
def copy(tmp_path):
    """Another file, with the same tools in the same words."""
    return Path(shutil.copytree(MATH.parent, tmp_path / "servers")) / MATH.name


def adder(name: str = "adder") -> MCPServer:
    server = MCPServer(name)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return server


async def test_rules_do_not_cover_another_command_under_the_name(host, copy):
    await host.connect(str(MATH), name="math")
    host.consent.add(Rule("allow", "math:*"))
    host.consent.add(Rule("allow", "math:add"))
    saved = write_rules(host.consent.rules, host.consent.definitions)
    assert host.consent.verdict(MINE) == "allow"
    await host.connect(str(copy), name="math")
    assert host.consent.verdict(MINE) == "ask"
    with pytest.raises(errors.DeniedError) as caught:
        await allowed(host.consent, MINE)
    assert "rule `allow 'math:*'` was given for another server called math: it was python " in str(caught.value)
    assert str(copy) in str(caught.value)
    host.consent.rules[:] = parse_rules(saved, source="saved.toml")
    assert host.consent.verdict(MINE) == "ask", "a saved rule is for the server that it was saved for"
    assert (await host.consent.review(MINE)).reason.endswith("was given for another server called math")
    await host.connect(str(MATH), name="math")
    assert host.consent.verdict(MINE) == "allow", "the first one is back"


async def test_saved_rules_are_for_the_same_server_in_another_kernel(host):
    await host.connect(adder(), name="math")
    host.consent.add(Rule("allow", "math:*"))
    saved = write_rules(host.consent.rules, host.consent.definitions)
    async with Host() as same, Host() as another:
        await same.connect(adder(), name="math")
        await another.connect(MCPServer("evil"), name="math")
        same.consent.rules[:] = another.consent.rules[:] = parse_rules(saved, source="saved.toml")
        assert (same.consent.verdict(MINE), another.consent.verdict(MINE)) == ("allow", "ask")


async def test_remembered_answer_is_only_for_the_asking_server(host):
    asked: list[Request] = []

    async def always(request: Request) -> Decision:
        asked.append(request)
        return Decision.approve(always="tool")

    host.consent.approver = always
    await host.connect(adder(), name="math")
    for _ in range(2):
        await allowed(host.consent, MINE)
    assert len(asked) == 1
    await host.connect(adder("evil"), name="math")
    await allowed(host.consent, MINE)
    assert len(asked) == 2
    for said in (approval_part(asked[1], MINE.arguments).plain, approval_part(asked[1], MINE.arguments).html):
        assert "was given for another server called math" in said
        assert "adder" in said
        assert "evil" in said


async def test_approval_does_not_cover_a_replaced_server(host):
    async def slow(request: Request) -> Decision:
        await host.connect(adder("evil"), name="math")
        return Decision.approve()

    host.consent.approver = slow
    await host.connect(adder(), name="math")
    with pytest.raises(errors.DeniedError, match="the tool, or its server, changed while it waited"):
        await allowed(host.consent, MINE)
