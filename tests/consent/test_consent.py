"""Consent: rules, policies, approvers, and the record of what was decided."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import Tool, ToolAnnotations

from mcp_magic.consent.consent import PERSON, Consent, Decision, Request
from mcp_magic.consent.rules import Rule, parse_rules, write_rules
from mcp_magic.errors import ConfigError, DeniedError
from tests.support.bundled import load
from tests.support.calling import allowed
from tests.support.persons import Approver

AGENT = Request("fs", "write_file", {"path": "/tmp/a", "api_key": "sesame-123"}, asker="agent")


async def decided(consent: Consent, request: Request = AGENT, **changes: Any) -> str:
    """Return "called" with the arguments, or the denial."""
    try:
        arguments = await allowed(consent, replace(request, **changes))
    except DeniedError as error:
        return str(error)
    return f"called with {dict(arguments)}"


def approving(*decisions: Decision | Exception, **settings: Any) -> Consent:
    return Consent(approver=Approver(*decisions), **settings)


# Rules and policies


async def test_person_needs_no_second_yes_but_rules_hold():
    consent = Consent(policy="deny")
    assert (await decided(consent, asker=PERSON)).startswith("called")
    assert not consent.audit.records, "nothing was decided"
    consent.rules.append(Rule("deny", "fs:write_*", reason="the disk is full"))
    assert await decided(consent, asker=PERSON) == (
        "fs:write_file was not called; denied by rule `deny 'fs:write_*'`: the disk is full."
        " `from mcp_magic import Rule; host.consent.add(Rule('allow', 'fs:write_file'), first=True)` would allow it."
    )


async def test_first_rule_that_matches_decides():
    consent = Consent(rules=[Rule("allow", "fs:write_file"), Rule("deny", "fs:*")])
    assert (await decided(consent)).startswith("called")
    assert "denied" in await decided(consent, tool="delete")


@pytest.mark.parametrize(
    ("policy", "trusted", "read_only", "outcome"),
    [
        ("auto", False, None, "called"),
        ("deny", False, None, "denied by approval = 'deny'"),
        ("ask", True, True, "denied by default: you cannot be asked here"),
        ("readonly", True, True, "called"),
        ("readonly", False, True, "denied by default"),
        ("readonly", True, False, "denied by default"),
        ("readonly", True, None, "denied by default"),
    ],
)
async def test_policies_decide_where_no_rule_does(policy, trusted, read_only, outcome):
    hints = None if read_only is None else ToolAnnotations(read_only_hint=read_only)
    definition = Tool(name="write_file", input_schema={"type": "object"}, annotations=hints)
    assert outcome in await decided(Consent(policy=policy), definition=definition, trusted=trusted)


async def test_readonly_policy_believes_only_trusted_servers(host):
    server = load("showcase_server").server
    host.consent.policy = "readonly"
    tools = await (await host.connect(server, name="plain")).listing("tools")
    hints = {tool.annotations.read_only_hint: tool.name for tool in tools if tool.annotations}
    trusted = await host.connect(server, name="trusted", trust=True)
    await trusted.call_tool(hints[True], {}, asker="agent", validate=False)
    with pytest.raises(DeniedError, match="you cannot be asked here"):
        await host["plain"].call_tool(hints[True], {}, asker="agent", validate=False)
    with pytest.raises(DeniedError, match="you cannot be asked here"):
        await trusted.call_tool(hints[False], {}, asker="agent", validate=False)


async def test_policy_that_asks_where_nobody_can_be_asked_denies():
    decision = await Consent(magics=True).review(AGENT)
    assert decision == Decision.deny("you cannot be asked here", by="default")


# Approvers


async def test_approver_may_approve_deny_or_edit():
    consent = approving(Decision.approve(), Decision.deny("not today"), Decision.approve({"path": "/tmp/b"}))
    assert "/tmp/a" in await decided(consent)
    assert await decided(consent) == "fs:write_file was not called; denied by the user: not today."
    assert await decided(consent) == "called with {'path': '/tmp/b'}"
    assert consent.approver.asked == [AGENT] * 3  # type: ignore[union-attr]
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
async def test_always_covers_only_the_chosen_scope(always, same, other_arguments, other_run):
    approver = Approver(Decision.approve(always=always))
    consent = Consent(approver=approver, rules=[Rule("ask", "fs:*")])
    request = replace(AGENT, run="run-1", arguments={"path": "/tmp/[a]*"})
    await allowed(consent, request)
    rules = list(consent.rules)
    for again, covered in (
        (request, same),
        (replace(request, arguments={"path": "/tmp/ax"}), other_arguments),
        (replace(request, run="run-2"), other_run),
    ):
        consent.rules[:] = rules
        before = len(approver.asked)
        await allowed(consent, again)
        assert (len(approver.asked) == before) == covered
    consent.forget_run("run-1")
    consent.forget_run("run-2")
    assert all(rule.run is None for rule in consent.rules)


@pytest.mark.parametrize(
    ("approved", "other"),
    [("5", 5), ("true", True), ('{"a": 1}', {"a": 1}), (5, "5"), (1, True), (1, 1.0), (["*"], ["x"]), (None, "x")],
)
async def test_always_for_these_arguments_means_these_values(approved, other):
    consent = approving(Decision.approve(always="arguments"))
    request = replace(AGENT, arguments={"x": approved})
    await allowed(consent, request)
    for rules in (list(consent.rules), parse_rules(write_rules(consent.rules), source="x")):
        saved = Consent(rules=rules)
        assert (await decided(saved, request)).startswith("called")
        assert "denied" in await decided(saved, arguments={"x": other})
        assert "denied" in await decided(saved, arguments={"x": approved, "force": True})


async def test_always_covers_the_edited_call_and_not_the_first():
    consent = approving(Decision.approve({"path": "/tmp/b"}, always="arguments"))
    await allowed(consent, AGENT)
    consent.approver = None
    assert "denied" in await decided(consent), "the arguments that were approved are the edited ones"
    assert (await decided(consent, arguments={"path": "/tmp/b"})).startswith("called")


async def test_approval_for_a_run_adds_no_rule_outside_a_run():
    consent = approving(Decision.approve(always="run"))
    assert (await decided(consent)).startswith("called")
    assert consent.rules == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops."),
        (TimeoutError("the other side is slow"), "TimeoutError: the other side is slow."),
        (True, "TypeError: it returned bool, not a Decision."),
        (None, "TypeError: it returned NoneType, not a Decision."),
        ("approve", "TypeError: it returned str, not a Decision."),
        ({"approved": True}, "TypeError: it returned dict, not a Decision."),
    ],
    ids=["error", "time-out", "bool", "None", "text", "dict"],
)
async def test_approver_that_fails_is_a_denial_that_says_so(answer, why):
    assert f"denied by approver: the approver failed: {why}" in await decided(approving(answer))


async def test_nobody_who_answers_in_time_is_a_denial():
    async def approver(request: Request) -> Decision:
        await asyncio.Event().wait()
        raise AssertionError

    denial = await decided(Consent(approver=approver, timeout=0.05))
    assert denial.startswith("fs:write_file was not called; denied by time-out: you did not answer within 0.05 s.")


async def test_arguments_that_are_changed_in_place_were_not_approved():
    async def approver(request: Request) -> Decision:
        request.arguments["path"]["to"] = "/etc"
        return Decision.approve()

    consent = Consent(approver=approver)
    denial = await decided(consent, arguments={"path": {"to": "/tmp"}})
    assert "denied by check: the arguments changed while it waited." in denial
    assert consent.audit.records[0].decision == "deny"


async def test_edit_does_not_lead_around_a_rule_that_denies():
    rule = Rule("deny", "fs:*", {"path": "/etc/*"}, reason="hands off")
    consent = approving(Decision.approve({"path": "/etc/passwd"}), rules=[rule])
    assert "denied by rule `deny 'fs:*' 'path=/etc/*'`: hands off." in await decided(consent)


# Calls


async def test_only_what_was_approved_is_sent_and_only_if_it_fits(host):
    connection = await host.connect(load("math_server").server, name="math")
    host.consent.approver = Approver(Decision.approve({"a": "many", "b": 1}), Decision.approve({"a": 2, "b": 40}))
    host.consent.add(Rule("deny", "math:divide"))
    sent = connection.calls
    with pytest.raises(DeniedError, match="denied by check: the changed arguments do not fit: a: expected"):
        await connection.call_tool("add", {"a": 1, "b": 1}, asker="agent")
    with pytest.raises(DeniedError):
        await connection.call("divide", a=1, b=1)
    assert connection.calls == sent
    assert (await connection.call_tool("add", {"a": 2, "b": 2}, asker="agent")).data == 42
    assert (await connection.call("add", a=1, b=1)).data == 2


# The record


async def test_every_decision_is_a_record_with_secrets_masked():
    consent = Consent(rules=[Rule("allow", "fs:*")], policy="auto")
    await allowed(consent, AGENT)
    await allowed(
        consent, Request("s3", "put", {"accessKey": "AKIA-1", "pwd": "hunter2", "key": "a.txt"}, asker="agent")
    )
    record, other = consent.audit.records
    assert record.arguments == {"path": "/tmp/a", "api_key": "***"}
    assert (record.asker, record.server, record.tool, record.decision) == ("agent", "fs", "write_file", "approve")
    assert record.by == "rule `allow 'fs:*'`"
    assert other.arguments == {"accessKey": "***", "pwd": "***", "key": "a.txt"}


async def test_record_tells_what_an_edit_changed_by_type_too():
    consent = approving(Decision.approve({"n": True, "path": None}))
    await decided(consent, arguments={"n": 1, "left": 0})
    (record,) = consent.audit.records
    assert set(record.changed) == {"n", "path", "left"}
    assert record.decision == "edit"


SECRETS = {"user": "me", "phrase": "open-sesame", "api_key": "hunter-22", "login": {"pin": "998877"}}
LOGIN = Tool(
    name="login",
    input_schema={
        "type": "object",
        "properties": {
            "user": {"type": "string"},
            "phrase": {"type": "string", "format": "password"},
            "api_key": {"type": "string"},
            "login": {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}},
        },
    },
)
"""A tool whose schema says what its names do not."""


def is_secret_free(text: str) -> bool:
    return not any(secret in text for secret in ("open-sesame", "hunter-22", "998877"))


async def test_rule_made_of_secrets_works_and_never_shows_them(tmp_path):
    request = Request("fs", "login", SECRETS, asker="agent", definition=LOGIN)
    consent = approving(Decision.approve(always="arguments"))
    consent.audit.file = tmp_path / "audit.jsonl"
    await allowed(consent, request)
    (record,) = consent.audit.records
    assert record.arguments == {"user": "me", "phrase": "***", "api_key": "***", "login": {"pin": "***"}}
    consent.approver = None
    assert (await allowed(consent, request))["phrase"] == "open-sesame"
    assert "denied" in await decided(consent, request, arguments={**SECRETS, "phrase": "wrong"})
    (rule,) = consent.rules
    assert str(rule) == "allow fs:login user=me 'phrase=***' 'api_key=***' 'login=***' (exactly)"
    assert is_secret_free(consent.audit.file.read_text())
    assert write_rules(consent.rules) == "", "it would be a file with secrets"
    consent.rules[:] = [Rule("deny", "fs:login", {"api_key": "hunter-22"})]
    assert is_secret_free(await decided(consent, request))


async def test_audit_file_is_written_before_the_call_or_stops_it(host, tmp_path):
    file = tmp_path / "audit.jsonl"
    server = MCPServer("look")

    @server.tool()
    def look(password: str) -> int:
        """Count the lines of the audit file."""
        return len(file.read_text().splitlines())

    connection = await host.connect(server)
    host.consent.audit.file, host.consent.policy = file, "auto"
    assert (await connection.call_tool("look", {"password": "sesame-123"}, asker="agent")).data == 1
    (line,) = file.read_text().splitlines()
    assert "sesame" not in line
    assert json.loads(line)["by"] == "approval = 'auto'"
    host.consent.audit.file = tmp_path / "nowhere" / "audit.jsonl"
    sent = connection.calls
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory; nothing was called"):
        await connection.call_tool("look", {"password": "x"}, asker="agent")
    assert connection.calls == sent
    assert len(host.consent.audit.records) == 1, "nothing was called"
