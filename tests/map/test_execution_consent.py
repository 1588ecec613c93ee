"""One question for all calls of a map: what it shows, and what it cannot give."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_magic import Rule
from mcp_magic.ask.approval import approval_question
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.errors import DeniedError
from mcp_magic.map.rows import col
from tests.support.mapped import offer, prepared

if TYPE_CHECKING:
    from mcp_magic import Host


def asked_of(host: Host, answer: Decision, tool: str = "s:add") -> list[Request]:
    """Answer questions about a tool, and return them."""
    requests: list[Request] = []

    async def approver(request: Request) -> Decision:
        requests.append(request)
        return answer

    host.consent.approver = approver
    host.consent.add(Rule("ask", tool))
    return requests


async def test_one_question_is_about_all_calls_and_their_values(host, calls):
    requests = asked_of(host, Decision.approve())
    run = await host.map("s:add", [{"a": n} for n in range(40)], a=col("a"), b=7)
    assert [request.calls for request in requests] == [40]
    assert requests[0].arguments["a"] == [0, 1, 2, 3, 4, "… 35 more values"]
    assert requests[0].arguments["b"] == 7
    assert requests[0].arguments["first calls"][0] == {"a": 0, "b": 7}
    assert run.stats["done"] == 40
    [record] = host.consent.audit.records
    assert record.decision == "approve"
    assert record.arguments["number of calls"] == 40
    assert len(record.arguments["digest of all calls"]) == 16
    await host.map("s:add", ({"a": n} for n in range(9)), a=col("a"))  # rows that come one by one
    assert [request.arguments for request in requests[1:]] == [{"a": "{a}"}]
    assert calls["add"] == 49


async def test_batch_approval_cannot_edit_or_allow_for_good(host, calls):
    asked_of(host, Decision.approve({"a": 1, "b": 1}))
    with pytest.raises(DeniedError, match="calls that are made together cannot be edited"):
        await host.map("s:add", [{"a": 1}, {"a": 2}])
    asked_of(host, Decision.approve(always="tool"))
    await host.map("s:add", [{"a": 1}, {"a": 2}])
    assert [rule.action for rule in host.consent.rules] == ["ask"]


async def test_secret_is_masked_in_batch_question_and_displays(host):
    async def login(user: str, password: str) -> str:
        return user

    await offer(host, login)
    requests = asked_of(host, Decision.approve(), "s:login")
    run = await host.map("s:login", [{"user": f"u{n}", "password": f"hunter{n}"} for n in range(9)])
    assert "u1" in str(run.parts()) + str(run.plan().rows)
    assert "hunter" not in str(run.parts()) + str(run.plan().rows)
    assert "hunter" not in json.dumps([requests[0].arguments, host.consent.audit.records[0].arguments])
    question = approval_question(replace(requests[0], asker="agent"))
    assert question.about(question.values).plain.startswith("agent wants to call s:login 9 times")
    [(name, lines)] = question.reveal.cut(question.values) if question.reveal else []
    assert (name, len(lines.splitlines())) == ("the calls", 9)
    assert "hunter" not in f"{question.about(question.values)}{lines}"


async def test_a_map_that_is_denied_calls_nothing_and_says_why(host, calls):
    asked_of(host, Decision.deny("too many"))
    run = await prepared(host, "s:add", [{"a": 1}, {"a": 2}], "a")
    with pytest.raises(DeniedError, match="too many"):
        await run.run()
    assert not calls
    card = "\n".join(part.plain for part in run.parts()).splitlines()
    assert card[0].startswith("✗ s:add: 0 of 2 rows done")
    assert "too many" in card[1]


async def test_a_rule_about_arguments_is_asked_of_every_row(host, calls):
    host.consent.add(Rule("deny", "s:add", arguments={"a": 2}))
    run = await host.map("s:add", [{"a": 1}, {"a": 2}, {"a": 3}])
    assert calls["add"] == 2
    assert run.failed["state"].tolist() == ["denied"]
    assert "denied by rule" in run.failed["error"].iloc[0]
    denied = [record for record in host.consent.audit.records if record.decision == "deny"]
    assert [record.arguments["a"] for record in denied] == [2]
