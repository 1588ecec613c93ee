"""The tools in `create_agent` of LangChain, in a program: failures come back to the model, and the run goes on."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from mcp_magic import Decision, Host, Rule, ScriptedModel
from mcp_magic.errors import ConfigError, DeniedError
from mcp_magic.langchain.content import result_of
from tests.support.agents import ask
from tests.support.bundled import load
from tests.support.dying_server import DYING

ADD = ("math__add", {"a": 1, "b": 2})


async def run(tools: list[Any], *calls: tuple[str, dict[str, Any]]) -> list[ToolMessage]:
    """Let an agent make these calls in one turn, and return what its model was told."""
    model = ScriptedModel([list(calls), "So be it."])
    state = await create_agent(model, tools).ainvoke({"messages": [("user", "go")]})
    assert state["messages"][-1].text == "So be it.", "the run went on"
    return [message for message in model.seen[-1].messages if isinstance(message, ToolMessage)]


@pytest.mark.parametrize(
    ("call", "policy", "said"),
    [
        (ADD, "deny", "math:add was not called; denied by approval = 'deny'."),
        (ADD, "ask", "math:add was not called; denied by the user: too dear."),
        (
            ("math__add", {"a": "one"}),
            "auto",
            "missing: b (integer or number)\na: expected integer or number, got 'one'",
        ),
        (("math__divide", {"a": 1, "b": 0}), "auto", "Cannot divide by zero."),
    ],
    ids=["policy", "person", "misfit", "error"],
)
async def test_denials_misfits_and_errors_reach_the_model(host, math, call, policy, said):
    ask(host, Decision.deny("too dear"))
    host.consent.policy = policy
    failed, added = await run(host.langchain_tools(), call, ADD)
    assert (failed.status, failed.name) == ("error", call[0])
    assert said in failed.text
    assert failed.artifact["tool"] == call[0].removeprefix("math__")
    assert result_of(failed).is_error
    assert (added.text == "3") is (policy == "auto"), "one that fails does not stop the others"


async def test_ended_sessions_and_specs_answer_the_model_too(host, tmp_path):
    await host.connect([sys.executable, str(DYING), str(tmp_path / "log")], name="dying")
    [told] = await run(host.langchain_tools(), ("dying__die", {}))
    assert (told.status, "dying" in told.text) == ("error", True)
    tools = await host.langchain_spec_tools(load("math_server").server, name="math")
    [told] = await run(tools, ("math__divide", {"a": 1, "b": 0}))
    assert told.status == "error"


# Consent in programs


async def test_a_host_of_a_program_follows_the_environment(monkeypatch):
    monkeypatch.setenv("MCP_MAGIC_APPROVAL", "auto")
    async with Host() as host:
        await host.connect(load("math_server").server, name="math")
        [told] = await run(host.langchain_tools(), ADD)
    assert (told.text, told.status) == ("3", "success")
    monkeypatch.setenv("MCP_MAGIC_APPROVAL", "yes")
    with pytest.raises(ConfigError) as caught:
        Host()
    assert str(caught.value) == "MCP_MAGIC_APPROVAL: 'yes' does not fit; valid are ask, plan, auto, readonly, deny"


FIRST = "`from mcp_magic import Rule; host.consent.add(Rule('allow', 'math:add'), first=True)` would allow it."


@pytest.mark.parametrize(
    ("policy", "rules", "said"),
    [
        (
            "ask",
            (),
            'denied by default: you cannot be asked here; host.consent.policy = "auto" or MCP_MAGIC_APPROVAL=auto '
            "allows what no rule asks about.",
        ),
        ("deny", (), "denied by approval = 'deny'. `host.consent.policy = \"auto\"` would allow it."),
        ("auto", (Rule("deny", "math:*", reason="no sums"),), f"denied by rule `deny 'math:*'`: no sums. {FIRST}"),
        ("auto", (Rule("ask", "math:add"),), f"denied by default: you cannot be asked here. {FIRST}"),
    ],
    ids=["ask", "deny", "deny rule", "ask rule"],
)
async def test_a_denial_in_a_program_offers_python_that_works(policy, rules, said, monkeypatch):
    monkeypatch.delenv("MCP_MAGIC_APPROVAL", raising=False)
    async with Host() as host:
        math = await host.connect(load("math_server").server, name="math")
        host.consent.policy, host.consent.rules[:] = policy, rules
        with pytest.raises(DeniedError) as caught:
            await math.call_tool("add", {"a": 1, "b": 2}, asker="agent")
        assert str(caught.value) == f"math:add was not called; {said}"
        line = said.rpartition(" `")[2].removesuffix("` would allow it.")
        exec(line if "would allow" in said else 'host.consent.policy = "auto"', {"host": host})
        assert (await math.call_tool("add", {"a": 1, "b": 2}, asker="agent")).data == 3
