"""The tools in `create_agent` of LangChain, in a program: what fails comes back to the model, and the run goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from mcp_magic import Decision, Host, Rule, ScriptedModel
from mcp_magic.errors import ConfigError, DeniedError
from mcp_magic.langchain.content import result_of
from tests.langchain.test_calls import DYING
from tests.support.bundled import load

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.consent.consent import Request
    from mcp_magic.notebook import NotebookHost

ADD = ("math__add", {"a": 1, "b": 2})


async def too_dear(request: Request) -> Decision:
    return Decision.deny("too dear")


async def run(host: NotebookHost, *calls: tuple[str, dict[str, Any]], **settings: Any) -> list[ToolMessage]:
    """Let an agent make these calls in one turn, and return what its model was told."""
    model = ScriptedModel([list(calls), "So be it."])
    agent = create_agent(model, host.langchain_tools(**settings))
    state = await agent.ainvoke({"messages": [("user", "go")]})
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
)
async def test_denial_bad_argument_and_tool_error_reach_the_model(
    host: NotebookHost, call: tuple[str, dict[str, Any]], policy: str, said: str
) -> None:
    await host.connect(load("math_server").server, name="math")
    host.consent.policy, host.approver = policy, too_dear
    failed, added = await run(host, call, ADD)
    assert (failed.status, failed.name) == ("error", call[0])
    assert said in failed.text
    assert failed.artifact["tool"] == call[0].removeprefix("math__")
    assert result_of(failed).is_error
    assert (added.text == "3") is (policy == "auto"), "one that fails does not stop the others"


async def test_a_session_that_ends_comes_back_to_the_model(host: NotebookHost, tmp_path: Path) -> None:
    await host.connect([sys.executable, str(DYING), str(tmp_path / "log")], name="dying")
    [told] = await run(host, ("dying__die", {}))
    assert told.status == "error"
    assert "dying" in told.text


async def test_tools_of_a_spec_answer_the_model_too(host: NotebookHost) -> None:
    tools = await host.langchain_spec_tools(load("math_server").server, name="math")
    model = ScriptedModel([[("math__divide", {"a": 1, "b": 0})], "no"])
    await create_agent(model, tools).ainvoke({"messages": [("user", "go")]})
    told = model.seen[-1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.status == "error"


async def test_direct_tool_call_raises_the_tool_exception(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    [divide] = [tool for tool in host.langchain_tools() if tool.name == "math__divide"]
    with pytest.raises(ToolException, match="Cannot divide by zero"):
        await divide.ainvoke({"a": 1, "b": 0})


async def test_how_a_program_handles_errors_itself_is_left_to_it(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    [divide] = [tool for tool in host.langchain_tools() if tool.name == "math__divide"]
    divide.handle_tool_error = lambda error: f"mine: {error}"
    message = await divide.ainvoke({"type": "tool_call", "id": "1", "name": divide.name, "args": {"a": 1, "b": 0}})
    assert message.content.startswith("mine: ")
    assert message.status == "error"


# Consent in programs


async def test_script_host_offers_tools_and_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MAGIC_APPROVAL", "auto")
    async with Host() as host:
        await host.connect(load("math_server").server, name="math")
        [told] = await run(host, ADD)
    assert (told.text, told.status) == ("3", "success")


def test_invalid_policy_in_the_environment_lists_the_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MAGIC_APPROVAL", "yes")
    with pytest.raises(ConfigError) as caught:
        Host()
    assert str(caught.value) == "MCP_MAGIC_APPROVAL: 'yes' does not fit; valid are ask, plan, auto, readonly, deny"


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
        (
            "auto",
            (Rule("deny", "math:*", reason="no sums"),),
            "denied by rule `deny 'math:*'`: no sums. "
            "`from mcp_magic import Rule; host.consent.add(Rule('allow', 'math:add'), first=True)` would allow it.",
        ),
        (
            "auto",
            (Rule("ask", "math:add"),),
            "denied by default: you cannot be asked here. "
            "`from mcp_magic import Rule; host.consent.add(Rule('allow', 'math:add'), first=True)` would allow it.",
        ),
    ],
)
async def test_a_denial_in_a_program_offers_python_that_works(
    policy: str, rules: tuple[Rule, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
