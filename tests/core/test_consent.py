"""Consent: rules, policies, approvers, and the record of what was decided."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic import errors
from mcp_magic.core.consent import PERSON, Consent, Decision, Request
from mcp_magic.core.rules import Rule, parse_rules, write_rules
from tests.servers.bundled import load

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.core.connection import Connection
    from mcp_magic.core.host import Host

AGENT = Request("fs", "write_file", {"path": "/tmp/a", "api_key": "sesame-123"}, asker="agent")


async def decided(consent: Consent, request: Request) -> str:
    """Return "called" with the arguments, or the denial."""
    try:
        arguments = await consent.check(request)
    except errors.DeniedError as error:
        return str(error)
    return f"called with {dict(arguments)}"


async def test_a_call_of_the_person_needs_no_second_yes() -> None:
    consent = Consent(policy="deny")
    assert (await decided(consent, replace(AGENT, asker=PERSON))).startswith("called")
    assert not consent.audit.records, "nothing was decided"


async def test_a_rule_holds_for_the_person_too() -> None:
    consent = Consent(rules=[Rule("deny", "fs:write_*", reason="the disk is full")])
    assert await decided(consent, replace(AGENT, asker=PERSON)) == (
        "fs:write_file was not called; denied by rule `deny 'fs:write_*'`: the disk is full."
        " `%mcp allow fs:write_file --first` would allow it."
    )


async def test_the_first_rule_that_matches_decides() -> None:
    consent = Consent(rules=[Rule("allow", "fs:write_file"), Rule("deny", "fs:*")])
    assert (await decided(consent, AGENT)).startswith("called")
    assert "denied" in await decided(consent, replace(AGENT, tool="delete"))


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("NYC", "NYC", True),
        ("N*", "NYC", True),
        ("N*", "Oslo", False),
        ("5", 5, True),
        ("[1-3]", 2, True),
        (5, 5, True),
        (5, 5.5, False),
        (True, True, True),
        ("true", True, True),
        ("*", None, True),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_rules_compare_the_text_of_arguments(pattern: Any, value: Any, matches: bool) -> None:
    assert Rule("allow", "*", {"x": pattern}).matches("a:b", {"x": value}) == matches


def test_rules_reach_into_nested_arguments_and_need_them_to_be_there() -> None:
    rule = Rule("allow", "*", {"user.name": "Ada"})
    assert rule.matches("a:b", {"user": {"name": "Ada"}})
    assert rule.matches("a:b", {"user.name": "Ada"})
    assert not rule.matches("a:b", {"user": {}})
    assert not rule.matches("a:b", {"user": "Ada"})


@pytest.mark.parametrize(
    ("policy", "trusted", "read_only", "outcome"),
    [
        ("auto", False, None, "called"),
        ("deny", False, None, "denied by approval = 'deny'"),
        ("ask", True, True, "denied by nobody: nobody can be asked here"),
        ("readonly", True, True, "called"),
        ("readonly", False, True, "denied by nobody"),
        ("readonly", True, False, "denied by nobody"),
        ("readonly", True, None, "denied by nobody"),
    ],
)
async def test_policies_decide_where_no_rule_does(
    policy: str, trusted: bool, read_only: bool | None, outcome: str
) -> None:
    from mcp_types import Tool, ToolAnnotations

    hints = None if read_only is None else ToolAnnotations(read_only_hint=read_only)
    definition = Tool(name="write_file", input_schema={"type": "object"}, annotations=hints)
    request = replace(AGENT, definition=definition, trusted=trusted)
    assert outcome in await decided(Consent(policy=policy), request)


async def test_the_approver_is_asked_and_may_approve_deny_or_edit() -> None:
    asked: list[Request] = []
    answers = [Decision.approve(), Decision.deny("not today"), Decision.approve({"path": "/tmp/b"})]

    async def approver(request: Request) -> Decision:
        asked.append(request)
        return answers[len(asked) - 1]

    consent = Consent(approver=approver)
    assert "/tmp/a" in await decided(consent, AGENT)
    assert await decided(consent, AGENT) == "fs:write_file was not called; denied by person: not today."
    assert await decided(consent, AGENT) == "called with {'path': '/tmp/b'}"
    assert asked == [AGENT] * 3
    assert [record.decision for record in consent.audit.records] == ["approve", "deny", "edit"]
    assert set(consent.audit.records[2].changed) == {"path", "api_key"}


@pytest.mark.parametrize(
    ("always", "same", "other_arguments", "other_run"),
    [
        ("tool", True, True, True),
        ("arguments", True, False, True),
        ("run", True, True, False),
        ("", False, False, False),
    ],
)
async def test_always_means_what_it_says(always: str, same: bool, other_arguments: bool, other_run: bool) -> None:
    asked = 0

    async def approver(request: Request) -> Decision:
        nonlocal asked
        asked += 1
        return Decision.approve(always=always)

    consent = Consent(approver=approver, rules=[Rule("ask", "fs:*")])
    request = replace(AGENT, run="run-1", arguments={"path": "/tmp/[a]*"})

    async def was_asked_again(again: Request) -> bool:
        before = asked
        await consent.check(again)
        return asked > before

    await consent.check(request)
    rules = list(consent.rules)
    assert await was_asked_again(request) != same
    consent.rules[:] = rules
    assert await was_asked_again(replace(request, arguments={"path": "/tmp/ax"})) != other_arguments
    consent.rules[:] = rules
    assert await was_asked_again(replace(request, run="run-2")) != other_run
    consent.forget_run("run-1")
    consent.forget_run("run-2")
    assert all(rule.run is None for rule in consent.rules)


async def test_always_for_these_arguments_covers_no_call_with_more_of_them() -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve(always="arguments")

    consent = Consent(approver=approver)
    await consent.check(replace(AGENT, arguments={"path": "/tmp/a"}))
    consent.approver = None
    assert (await decided(consent, replace(AGENT, arguments={"path": "/tmp/a"}))).startswith("called")
    assert "denied" in await decided(consent, replace(AGENT, arguments={"path": "/tmp/a", "force": True}))


async def test_nobody_who_answers_in_time_is_a_denial_that_says_so() -> None:
    async def approver(request: Request) -> Decision:
        await asyncio.Event().wait()
        raise AssertionError

    denial = await decided(Consent(approver=approver, timeout=0.05), AGENT)
    assert denial.startswith("fs:write_file was not called; denied by time-out: nobody answered within 0.05 s.")


async def test_an_approver_that_fails_is_a_denial_that_says_so() -> None:
    async def approver(request: Request) -> Decision:
        raise ZeroDivisionError("oops")

    denial = await decided(Consent(approver=approver), AGENT)
    assert "denied by approver: the approver failed: ZeroDivisionError: oops." in denial


async def test_changed_arguments_must_fit_the_schema(host: Host) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({"a": "many", "b": 1})

    connection = await host.connect(load("math_server").server, name="math")
    host.consent.approver = approver
    sent = connection.calls
    with pytest.raises(errors.DeniedError, match="denied by check: the changed arguments do not fit: a: expected"):
        await connection.call_tool("add", {"a": 1, "b": 1}, asker="agent")
    assert connection.calls == sent


async def test_an_edited_call_goes_out_with_the_changed_arguments(host: Host) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({**request.arguments, "b": 40})

    connection = await host.connect(load("math_server").server, name="math")
    host.consent.approver = approver
    assert (await connection.call_tool("add", {"a": 2, "b": 2}, asker="agent")).data == 42


async def test_a_denied_call_is_never_sent(host: Host) -> None:
    connection: Connection = await host.connect(load("math_server").server, name="math")
    host.consent.add(Rule("deny", "math:divide"))
    sent = connection.calls
    with pytest.raises(errors.DeniedError):
        await connection.call("divide", a=1, b=1)
    assert connection.calls == sent
    assert (await connection.call("add", a=1, b=1)).data == 2


# The record


async def test_every_decision_is_a_record_with_secrets_masked() -> None:
    consent = Consent(rules=[Rule("allow", "fs:*")])
    await consent.check(AGENT)
    (record,) = consent.audit.records
    assert record.arguments == {"path": "/tmp/a", "api_key": "***"}
    assert (record.asker, record.server, record.tool, record.decision) == ("agent", "fs", "write_file", "approve")
    assert record.by == "rule `allow 'fs:*'`"


async def test_the_audit_file_has_the_record_before_the_call_goes_out(host: Host, tmp_path: Path) -> None:
    from mcp.server.mcpserver import MCPServer

    file = tmp_path / "audit.jsonl"
    server = MCPServer("look")

    @server.tool()
    def look(password: str) -> int:
        """Count the lines of the audit file."""
        return len(file.read_text().splitlines())

    connection = await host.connect(server)
    host.consent.audit.file = file
    host.consent.policy = "auto"
    assert (await connection.call_tool("look", {"password": "sesame-123"}, asker="agent")).data == 1
    (line,) = file.read_text().splitlines()
    assert "sesame" not in line
    assert json.loads(line)["by"] == "approval = 'auto'"


async def test_an_audit_file_that_cannot_be_written_stops_the_call(host: Host, tmp_path: Path) -> None:
    connection = await host.connect(load("math_server").server, name="math")
    host.consent.policy = "auto"
    host.consent.audit.file = tmp_path / "nowhere" / "audit.jsonl"
    sent = connection.calls
    with pytest.raises(errors.ConfigError, match="cannot be written: No such file or directory; nothing was called"):
        await connection.call_tool("add", {"a": 1, "b": 1}, asker="agent")
    assert connection.calls == sent


# Rules in files

NAMES = st.text(alphabet=st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=12)
VALUES = st.one_of(NAMES, st.integers(-(2**40), 2**40), st.booleans(), st.lists(NAMES, max_size=2))


@given(
    st.lists(
        st.builds(
            Rule,
            action=st.sampled_from(["allow", "deny", "ask"]),
            tool=NAMES.filter(str.strip),
            arguments=st.dictionaries(NAMES, VALUES, max_size=3),
            reason=st.one_of(st.just(""), NAMES.filter(str.strip)),
            exact=st.booleans(),
        ),
        max_size=4,
    )
)
def test_rules_survive_the_way_through_a_file(rules: list[Rule]) -> None:
    assert [replace(rule, source="") for rule in parse_rules(write_rules(rules), source="x")] == rules


def test_rules_of_one_run_are_not_written() -> None:
    assert write_rules([Rule("allow", "a:b", run="run-1")]) == ""


def test_a_file_that_holds_no_rules_says_what_is_wrong() -> None:
    with pytest.raises(errors.ConfigError, match=r"rules\.toml: .*needs exactly one of allow, deny, ask"):
        parse_rules('[[consent]]\nallow = "a:*"\ndeny = "b:*"', source="rules.toml")
    with pytest.raises(errors.ConfigError, match=r"rules\.toml: "):
        parse_rules("[[consent", source="rules.toml")
