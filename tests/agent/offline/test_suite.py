"""The offline model's first calls on the requests that it was tuned on, and the definitions that they are about."""

from __future__ import annotations

import pytest

from mcp_magic.agent.offline import OfflineModel
from tests.agent.offline.definitions import ask_servers, bindable, definitions
from tests.agent.offline.judging import Call, first_call, is_right
from tests.agent.offline.tuning import CASES
from tests.environments import needs_node

GOAL = 0.95
"""The share of first calls that must be right on requests that were tuned on; for unseen ones the goal is 85 %."""


def test_nearly_all_first_calls_are_right() -> None:
    model = OfflineModel().bind_tools(bindable())
    calls: list[tuple[str, Call | None]] = []
    for case in CASES:
        call = first_call(model, case.request)
        if not is_right(case, call):
            calls.append((case.request, call))
    assert len(CASES) >= 60
    assert 1 - len(calls) / len(CASES) >= GOAL, calls


def test_the_same_request_gives_the_same_message() -> None:
    model = OfflineModel().bind_tools(bindable())
    for case in CASES[::10]:
        one, other = model.invoke(case.request), model.invoke(case.request)
        assert one.model_dump(exclude={"id"}) == other.model_dump(exclude={"id"})


@pytest.mark.parametrize("server", ["math", "weather", "time", "git"])
def test_a_server_alone_is_understood_as_well_as_among_all(server: str) -> None:
    model = OfflineModel().bind_tools(bindable(server))
    cases = [case for case in CASES if case.tool.startswith(f"{server}:")]
    wrong = [case.request for case in cases if not is_right(case, first_call(model, case.request))]
    assert len(wrong) <= 0.1 * len(cases), wrong


def test_every_bundled_tool_can_be_called_by_its_name() -> None:
    model = OfflineModel().bind_tools(bindable())
    for server, tools in definitions().items():
        for tool in tools:
            if not tool["inputSchema"].get("required"):
                assert first_call(model, f"{server}:{tool['name']}") == (f"{server}:{tool['name']}", {})


@needs_node
@pytest.mark.slow
async def test_the_definitions_are_still_what_the_servers_list() -> None:
    again = "python -m tests.agent.offline.definitions writes them anew"
    assert await ask_servers() == definitions(), again
