"""The way of a call: prepared, authorized, sent; no way leads around consent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

import mcp_magic
from mcp_magic import Host, errors
from mcp_magic.calls.call import Call, CallObserver
from mcp_magic.calls.caller import Caller
from mcp_magic.consent.consent import Consent, Decision, Request
from mcp_magic.consent.rules import Rule

PACKAGE = Path(mcp_magic.__file__).parent


def adder(plus=0):
    server = MCPServer("math")

    @server.tool()
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b + plus

    return server


@pytest.fixture
async def math(host):
    return await host.connect(adder(), name="math")


def approving(host, decision):
    asked = []

    async def approver(request):
        asked.append(request)
        return decision

    host.consent.approver = approver
    return asked


async def test_prepared_call_has_definition_and_json(math):
    call = await math.caller.prepare(Call(math, "add", {"a": 1}))
    assert (call.definition.name, dict(call.arguments), call.decision) == ("add", {"a": 1}, None)
    raw = await math.caller.prepare(Call(math, "add", {"z": (1, 2)}), validate=False)
    assert raw.arguments == {"z": [1, 2]}
    with pytest.raises(errors.ArgumentsError):
        await math.caller.prepare(Call(math, "add", {"z": 1}))
    with pytest.raises(errors.UnknownToolError):
        await math.caller.prepare(Call(math, "subtract", {}))


async def test_authorized_call_has_the_arguments_that_were_approved(host, math):
    asked = approving(host, Decision.approve({"a": 5, "b": 5}))
    prepared = await math.caller.prepare(Call(math, "add", {"a": 1}, asker="agent"))
    call = await math.caller.authorize(prepared)
    assert (dict(call.arguments), call.decision.approved, dict(call.filled)) == ({"a": 5, "b": 5}, True, {})
    assert (await math.caller.send(call)).data == 10
    assert [request.arguments for request in asked] == [prepared.arguments]


async def test_denied_call_is_not_sent(host, math):
    approving(host, Decision.deny("not now"))
    calls = math.calls
    with pytest.raises(errors.DeniedError, match="not now"):
        await math.caller.call(Call(math, "add", {"a": 1}, asker="agent"))
    denied = Call(math, "add", {"a": 1}, decision=Decision.deny("never"))
    for caller in (math.caller, Caller()):
        for send in (caller.call, caller.send):
            with pytest.raises(errors.DeniedError, match="never"):
                await send(denied)
    assert math.calls == calls


async def test_sent_call_has_the_arguments_of_its_decision(math):
    prepared = await math.caller.prepare(Call(math, "add", {"a": 1}))
    decided = replace(prepared, decision=Decision.approve({"a": 5, "b": 5}))
    assert (await math.caller.send(decided)).data == 10


async def test_arguments_that_change_after_the_approval_are_not_sent(host):
    server = MCPServer("sums")

    @server.tool()
    def total(numbers: list[int]) -> int:
        """Add."""
        return sum(numbers)

    sums = await host.connect(server, name="sums")
    approving(host, Decision.approve())
    numbers = [1]
    call = await sums.caller.authorize(
        await sums.caller.prepare(Call(sums, "total", {"numbers": numbers}, asker="agent"))
    )
    numbers.append(666)
    assert (await sums.caller.send(call)).data == 1


async def test_approval_is_for_one_tool(host):
    server = MCPServer("files")

    def once(path: str) -> str:
        """Remove."""
        return path

    server.add_tool(once, name="trash")
    server.add_tool(once, name="erase")
    files = await host.connect(server, name="files")
    approving(host, Decision.approve())
    approved = await files.caller.authorize(
        await files.caller.prepare(Call(files, "trash", {"path": "a"}, asker="agent"))
    )
    with pytest.raises(errors.DeniedError, match="has changed since it was approved"):
        await files.caller.send(replace(approved, tool="erase"))


@pytest.mark.parametrize(
    ("tool", "arguments"), [(None, {}), ("add", "abc"), ("add", None)], ids=["tool", "text", "none"]
)
async def test_call_of_what_is_no_call_is_refused(math, tool, arguments):
    with pytest.raises(errors.ArgumentsError, match="expected a tool's name and a dict of arguments"):
        await math.caller.call(Call(math, tool, arguments), validate=False)
    with pytest.raises((errors.ArgumentsError, errors.UnknownToolError)):
        await math.caller.call(Call(math, tool, arguments))


@pytest.mark.parametrize(
    ("asker", "rule"),
    [pytest.param("agent", None, id="agent"), pytest.param("person", Rule("ask", "math:*"), id="person with rules")],
)
async def test_call_that_nobody_decided_about_is_not_sent(host, math, asker, rule):
    host.consent.rules += [rule] if rule else []
    prepared = await math.caller.prepare(Call(math, "add", {"a": 1}, asker=asker))
    with pytest.raises(errors.DeniedError, match="nobody was asked about it"):
        await math.caller.send(prepared)


async def test_approval_ends_when_a_rule_denies_the_call(host, math):
    approving(host, Decision.approve())
    call = await math.caller.authorize(await math.caller.prepare(Call(math, "add", {"a": 1}, asker="agent")))
    host.consent.rules.append(Rule("deny", "math:*"))
    with pytest.raises(errors.DeniedError, match="a rule denies it that came after the approval"):
        await math.caller.send(call)


async def test_approval_ends_when_the_tool_changes(host, math):
    approving(host, Decision.approve())
    call = await math.caller.authorize(await math.caller.prepare(Call(math, "add", {"a": 1}, asker="agent")))
    changed = MCPServer("math")

    @changed.tool()
    def add(a: int, b: int = 2, path: str = "/") -> int:
        """Add, and write a file."""
        return a + b

    other = await host.connect(changed, name="math")
    await other.listing("tools")
    with pytest.raises(errors.DeniedError, match="has changed since it was approved"):
        await other.caller.send(replace(call, connection=other))


async def test_decided_call_is_checked_again_only_by_another_schema(host, math):
    asked = approving(host, Decision.approve())
    prepared = await math.caller.prepare(Call(math, "add", {"a": 1}, asker="agent"))
    decided = replace(prepared, decision=Decision.approve())
    assert await math.caller.prepare(decided) == decided
    with pytest.raises(errors.ArgumentsError):
        await math.caller.prepare(replace(decided, definition=None, arguments={"a": "x"}))
    with pytest.raises(errors.ArgumentsError):
        await math.caller.prepare(replace(decided, decision=Decision.approve({"a": "x"})))
    assert not asked


async def test_plan_is_one_question_and_a_set_one_decision(host, math):
    host.consent.rules.append(Rule("deny", "math:none"))
    asked = approving(host, Decision.approve())
    requests = [Call(math, "add", {"a": number}, asker="agent").request for number in range(3)]
    decisions = await host.caller.decide(requests, is_plan=True)
    assert [decision.approved for decision in decisions] == [True] * 3
    del asked[:]
    assert (await host.caller.decide_set(requests)).approved
    assert (len(asked), asked[0].calls) == (1, 3)


@pytest.mark.parametrize("made", ["here", "there"])
async def test_caller_works_from_another_loop(math, made):
    loops = []

    class Seeing(CallObserver):
        def sent(self, call):
            loops.append(asyncio.get_running_loop())

    def call():
        return math.caller.call(Call(math, "add", {"a": 1}), Seeing())

    work = call() if made == "here" else None
    assert (await asyncio.to_thread(lambda: asyncio.run(work or call()))).data == 3
    assert loops == [asyncio.get_running_loop()]


async def test_connection_without_a_host_needs_no_approval():
    async with Host(Consent(policy="deny")) as host:
        math = await host.connect(adder(), name="math")
        with pytest.raises(errors.DeniedError):
            await host.caller.call(Call(math, "add", {"a": 1}, asker="agent"))
        assert (await Caller().call(Call(math, "add", {"a": 1}, asker="agent"))).data == 3


def test_consent_is_asked_and_calls_are_sent_in_one_place():
    places = {".review(": set(), ".review_set(": set(), ".review_plan(": set(), ".send_call(": set()}
    for path in PACKAGE.rglob("*.py"):
        for word in places:
            if word in path.read_text():
                places[word].add(path.relative_to(PACKAGE).as_posix())
    own = {"consent/consent.py"}
    assert {file for files in places.values() for file in files} - own == {"calls/caller.py"}, places


def test_request_of_a_call_is_what_consent_knows(math):
    request = Call(math, "add", {"a": 1}, asker="agent", run="r").request
    assert request == Request("math", "add", {"a": 1}, "agent", None, False, "r")
