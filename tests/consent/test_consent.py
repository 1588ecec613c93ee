"""Consent: rules, policies, approvers, and the record of what was decided."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_magic import errors
from mcp_magic.consent.consent import PERSON, Consent, Decision, Request
from mcp_magic.consent.rules import Rule, parse_rules, write_rules
from tests.support.bundled import load

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

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
        " `from mcp_magic import Rule; host.consent.add(Rule('allow', 'fs:write_file'), first=True)` would allow it."
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


def test_rules_match_nested_arguments_and_require_them() -> None:
    rule = Rule("allow", "*", {"user.name": "Ada"})
    assert rule.matches("a:b", {"user": {"name": "Ada"}})
    assert rule.matches("a:b", {"user.name": "Ada"})
    assert not rule.matches("a:b", {"user": {}})
    assert not rule.matches("a:b", {"user": "Ada"})


def test_patterns_inside_of_objects_are_patterns_of_their_paths() -> None:
    nested = Rule("deny", "fs:*", {"opts": {"path": "/etc/*", "deep": {"n": 1}}})
    table = '[[consent]]\ndeny = "fs:*"\narguments = { opts.path = "/etc/*", opts.deep.n = 1 }'
    (read,) = parse_rules(table, source="")

    assert nested.arguments == read.arguments == {"opts.path": "/etc/*", "opts.deep.n": 1}
    assert nested.matches("fs:read", {"opts": {"path": "/etc/passwd", "deep": {"n": 1}}})
    assert parse_rules(write_rules([nested]), source="") == [nested]
    with pytest.raises(errors.ConfigError, match=r"names the argument 'a\.b' twice"):
        Rule("deny", "*", {"a": {"b": 1}, "a.b": 2})


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [
        ({"o.p": "/etc/*"}, {"o": {"p": "/etc/x"}, "o.p": "/tmp/x"}),
        ({"o.p": "/etc/*"}, {"o": {"p": "/tmp/x"}, "o.p": "/etc/x"}),
        ({"o.p": "/etc/*"}, {"o": [{"p": "/tmp/x"}, {"p": "/etc/x"}]}),
        ({"a.b.c": "/etc/*"}, {"a": {"b.c": "/etc/x", "b": {"c": "/tmp/x"}}}),
        ({"p": "/etc/*"}, {"p": ["/tmp/x", "/etc/x"]}),
        ({"p": "/etc/*"}, {"p": [["/etc/x"]]}),
        ({"p": "/etc/*"}, {"p": '["/etc/x"]'}),
        ({"n": 1}, {"n": [1, 2]}),
    ],
)
def test_deny_matches_any_reading_of_a_call_and_allow_needs_all(
    wanted: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert Rule("deny", "*", wanted).matches("a:b", arguments)
    assert Rule("ask", "*", wanted).matches("a:b", arguments)
    assert Rule("allow", "*", wanted).matches("a:b", arguments) == (arguments in SURE)


SURE: list[dict[str, Any]] = [{"p": [["/etc/x"]]}]
"""All that is in it fits the pattern."""


@pytest.mark.parametrize(
    ("wanted", "value"), [(1, 1.0), (1.0, 1), ("1", 1.0), ("1.0", 1), ("1*", 1e3), ("1e3", 1000), (2**70, 2**70)]
)
@pytest.mark.parametrize("action", ["allow", "deny"])
def test_numbers_are_compared_by_their_value(action: str, wanted: Any, value: Any) -> None:
    assert Rule(action, "*", {"n": wanted}).matches("a:b", {"n": value})


@pytest.mark.parametrize(("wanted", "value"), [(1, True), (True, 1), (1, 2), ("1", True), ("1", 10), (0, False)])
def test_other_values_are_not_the_same_number(wanted: Any, value: Any) -> None:
    assert not Rule("deny", "*", {"n": wanted}).matches("a:b", {"n": value})


def test_deny_matches_text_like_a_value_and_allow_does_not() -> None:
    assert Rule("deny", "*", {"force": True}).matches("a:b", {"force": "true"})
    assert not Rule("allow", "*", {"force": True}).matches("a:b", {"force": "true"})


def test_allow_matches_no_empty_list_and_no_partial_path() -> None:
    allow = Rule("allow", "*", {"o.p": "/tmp/*"})
    assert allow.matches("a:b", {"o": [{"p": "/tmp/x"}, {"p": ["/tmp/y"]}]})
    assert not allow.matches("a:b", {"o": [{"p": "/tmp/x"}, {}]})
    assert not allow.matches("a:b", {"o": []})
    assert not allow.matches("a:b", {"o": {"q": 1}, "o.p": "/tmp/x"})
    assert not Rule("allow", "*", {"p": "/tmp/*"}).matches("a:b", {"p": []})


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
    assert await decided(consent, AGENT) == "fs:write_file was not called; denied by the user: not today."
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


@pytest.mark.parametrize(
    ("approved", "other"),
    [("5", 5), ("true", True), ('{"a": 1}', {"a": 1}), (5, "5"), (1, True), (1, 1.0), (["*"], ["x"]), (None, "x")],
)
async def test_always_for_these_arguments_means_these_values(approved: Any, other: Any) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve(always="arguments")

    consent = Consent(approver=approver)
    request = replace(AGENT, arguments={"x": approved})
    await consent.check(request)
    for rules in (list(consent.rules), parse_rules(write_rules(consent.rules), source="x")):
        saved = Consent(rules=rules)
        assert (await decided(saved, request)).startswith("called")
        assert "denied" in await decided(saved, replace(AGENT, arguments={"x": other}))


async def test_always_for_arguments_does_not_cover_extra_ones() -> None:
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
    assert denial.startswith("fs:write_file was not called; denied by time-out: you did not answer within 0.05 s.")


async def test_an_approver_that_fails_is_a_denial_that_says_so() -> None:
    async def approver(request: Request) -> Decision:
        raise ZeroDivisionError("oops")

    denial = await decided(Consent(approver=approver), AGENT)
    assert "denied by approver: the approver failed: ZeroDivisionError: oops." in denial


async def test_time_out_inside_approver_is_failure_of_approver() -> None:
    async def approver(request: Request) -> Decision:
        raise TimeoutError("the other side is slow")

    denial = await decided(Consent(approver=approver), AGENT)
    assert "denied by approver: the approver failed: TimeoutError: the other side is slow." in denial


@pytest.mark.parametrize("answer", [True, None, "approve", {"approved": True}])
async def test_an_answer_that_is_no_decision_is_a_denial_that_says_so(answer: Any) -> None:
    async def approver(request: Request) -> Any:
        return answer

    denial = await decided(Consent(approver=approver), AGENT)
    assert f"the approver failed: TypeError: it returned {type(answer).__name__}, not a Decision." in denial


async def test_for_this_run_is_for_this_once_where_there_is_no_run() -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve(always="run")

    consent = Consent(approver=approver)
    assert (await decided(consent, AGENT)).startswith("called")
    assert consent.rules == []


async def test_arguments_that_are_changed_in_place_were_not_approved() -> None:
    async def approver(request: Request) -> Decision:
        request.arguments["path"]["to"] = "/etc"
        return Decision.approve()

    consent = Consent(approver=approver)
    denial = await decided(consent, replace(AGENT, arguments={"path": {"to": "/tmp"}}))
    assert "denied by check: the arguments changed while it waited." in denial
    assert consent.audit.records[0].decision == "deny"


async def test_an_edit_does_not_lead_around_a_rule_that_denies() -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({"path": "/etc/passwd"})

    consent = Consent(approver=approver, rules=[Rule("deny", "fs:*", {"path": "/etc/*"}, reason="hands off")])
    assert "denied by rule `deny 'fs:*' 'path=/etc/*'`: hands off." in await decided(consent, AGENT)


async def test_an_edited_call_may_be_allowed_always(host: Host) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({"path": "/tmp/b"}, always="arguments")

    consent = Consent(approver=approver)
    await consent.check(AGENT)
    consent.approver = None
    assert "denied" in await decided(consent, AGENT), "the arguments that were approved are the edited ones"
    assert (await decided(consent, replace(AGENT, arguments={"path": "/tmp/b"}))).startswith("called")


async def test_readonly_policy_believes_only_trusted_servers(host: Host) -> None:
    server = load("showcase_server").server
    host.consent.policy = "readonly"
    tools = await (await host.connect(server, name="plain")).listing("tools")
    reads = next(tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint)
    changes = next(tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint is False)
    trusted = await host.connect(server, name="trusted", trust=True)
    await trusted.call_tool(reads, {}, asker="agent")
    with pytest.raises(errors.DeniedError, match="you cannot be asked here"):
        await host["plain"].call_tool(reads, {}, asker="agent")
    with pytest.raises(errors.DeniedError, match="you cannot be asked here"):
        await trusted.call_tool(changes, {}, asker="agent", validate=False)


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


SECRETS = {"user": "me", "phrase": "open-sesame", "api_key": "hunter-22", "login": {"pin": "998877"}}


def with_secrets() -> Request:
    """A call of a tool whose schema says what its names do not."""
    from mcp_types import Tool

    phrase, pin = {"type": "string", "format": "password"}, {"type": "string", "writeOnly": True}
    login = {"type": "object", "properties": {"pin": pin}}
    properties = {"user": {"type": "string"}, "phrase": phrase, "api_key": {"type": "string"}, "login": login}
    tool = Tool(name="login", input_schema={"type": "object", "properties": properties})
    return Request("fs", "login", SECRETS, asker="agent", definition=tool)


def is_secret_free(text: str) -> bool:
    return not any(secret in text for secret in ("open-sesame", "hunter-22", "998877"))


async def test_what_the_schema_calls_secret_is_masked_too() -> None:
    consent = Consent(policy="auto")
    await consent.check(with_secrets())
    (record,) = consent.audit.records
    assert record.arguments == {"user": "me", "phrase": "***", "api_key": "***", "login": {"pin": "***"}}


async def test_the_record_masks_the_names_that_the_trace_masks() -> None:
    consent = Consent(policy="auto")
    await consent.check(Request("s3", "put", {"accessKey": "AKIA-1", "pwd": "hunter2", "key": "a.txt"}, asker="agent"))
    (record,) = consent.audit.records
    assert record.arguments == {"accessKey": "***", "pwd": "***", "key": "a.txt"}


async def test_a_rule_made_of_secrets_works_and_never_shows_them(tmp_path: Path) -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve(always="arguments")

    consent = Consent(approver=approver)
    consent.audit.file = tmp_path / "audit.jsonl"
    await consent.check(with_secrets())
    consent.approver = None
    assert (await consent.check(with_secrets()))["phrase"] == "open-sesame"
    denial = await decided(consent, replace(with_secrets(), arguments={**SECRETS, "phrase": "wrong"}))
    assert "denied" in denial
    (rule,) = consent.rules
    assert str(rule) == "allow fs:login user=me 'phrase=***' 'api_key=***' 'login=***' (exactly)"
    assert is_secret_free(consent.audit.file.read_text())
    assert write_rules(consent.rules) == "", "it would be a file with secrets"
    consent.rules[:] = [Rule("deny", "fs:login", {"api_key": "hunter-22"})]
    assert is_secret_free(await decided(consent, with_secrets()))
    assert write_rules([Rule("deny", "fs:*", {"password": "*"})]), "any password is no secret"


async def test_what_an_edit_changed_is_on_record_by_its_type_too() -> None:
    async def approver(request: Request) -> Decision:
        return Decision.approve({"n": True, "path": None})

    consent = Consent(approver=approver)
    await consent.check(replace(AGENT, arguments={"n": 1, "left": 0}))
    (record,) = consent.audit.records
    assert set(record.changed) == {"n", "path", "left"}
    assert record.decision == "edit"


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
    assert not host.consent.audit.records, "nothing was called"


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
@example([Rule("allow", "s:a", {"Cookie": "1"}), Rule("deny", "s:b")])
def test_rules_without_secrets_survive_the_way_through_a_file(rules: list[Rule]) -> None:
    kept = [rule for rule in rules if not rule.holds_secret]
    assert [replace(rule, source="") for rule in parse_rules(write_rules(rules), source="x")] == kept


def test_rules_of_one_run_are_not_written() -> None:
    assert write_rules([Rule("allow", "a:b", run="run-1")]) == ""


def test_a_file_that_holds_no_rules_says_what_is_wrong() -> None:
    with pytest.raises(errors.ConfigError, match=r"rules\.toml: .*needs exactly one of allow, deny, ask"):
        parse_rules('[[consent]]\nallow = "a:*"\ndeny = "b:*"', source="rules.toml")
    with pytest.raises(errors.ConfigError, match=r"rules\.toml: "):
        parse_rules("[[consent", source="rules.toml")
