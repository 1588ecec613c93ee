"""Plans in agents of LangChain's `create_agent`: one question about all calls of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from mcp_magic import Decision, PlanMiddleware, Rule, ScriptedModel
from tests.support.bundled import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_magic import Request
    from mcp_magic.consent.consent import PlannedRequest
    from mcp_magic.notebook import NotebookHost


class Planner:
    """Approves a = 1, denies a = 2, makes 30 of 3; keeps what it is asked."""

    def __init__(self) -> None:
        self.plans: list[list[bool]] = []
        self.single: list[Any] = []

    async def __call__(self, request: Request) -> Decision:
        self.single.append(request.arguments["a"])
        return Decision.deny("alone")

    async def plan(self, calls: Sequence[PlannedRequest]) -> dict[int, Decision]:
        self.plans.append([call.decision is None for call in calls])
        answers = {1: Decision.approve(), 2: Decision.deny("not that"), 3: Decision.approve({"a": 30, "b": 0})}
        return {at: answers[call.request.arguments["a"]] for at, call in enumerate(calls) if call.decision is None}


async def test_calls_of_a_turn_are_one_plan_and_decisions_end_with_it(host: NotebookHost) -> None:
    await host.connect(load("math_server").server, name="math")
    host.consent.policy = "ask"
    host.consent.add(Rule("deny", "math:add", {"a": 4}))
    host.approver = planner = Planner()
    turn = [("math__add", {"a": a, "b": 0}) for a in (1, 2, 3, 4)]
    model = ScriptedModel([[*turn, ("math__add", {"a": "one"})], turn[:1], "Done."])
    tools = host.langchain_tools()
    agent = create_agent(model, tools, middleware=[PlanMiddleware(host, tools)])
    state = await agent.ainvoke({"messages": [("user", "go")]})
    texts = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert [text.partition("\n")[0].partition(" `from")[0] for text in texts] == [
        "1",
        "math:add was not called; denied by the user: not that.",
        "30",
        "math:add was not called; denied by rule `deny math:add a:=4`.",
        "missing: b (integer or number)",
        "math:add was not called; denied by the user: alone.",
    ]
    assert planner.plans == [[True, True, True, False]]
    assert planner.single == [1], "the same call in the next turn is asked about again"
    assert [record.decision for record in host.consent.audit.records] == ["approve", "deny", "edit", "deny", "deny"]
