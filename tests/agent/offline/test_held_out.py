"""The offline model on requests that its rules were not made for; what fails is told by numbers only."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jsonschema import FormatChecker
from jsonschema.validators import validator_for

from tests.agent.offline.definitions import bindable, definitions
from tests.agent.offline.held_out import HELD_OUT
from tests.agent.offline.judging import first_call, is_right

GOAL = 0.85
"""Share of the first calls, tool and arguments, that must be right."""

FEWEST_REQUESTS = 35
FEWEST_OF_A_SERVER = 5


def schema_of(tool: str) -> dict[str, Any] | None:
    server, name = tool.split(":", 1)
    return next((found["inputSchema"] for found in definitions()[server] if found["name"] == name), None)


def fits(tool: str, arguments: dict[str, Any]) -> bool:
    """Whether a tool exists and takes these arguments; names that its schema does not know do not fit."""
    schema = schema_of(tool)
    if schema is None or set(arguments) - set(schema.get("properties", {})):
        return False
    return bool(validator_for(schema)(schema, format_checker=FormatChecker()).is_valid(arguments))


def judge(model: Any) -> Counter[str]:
    """Return how many first calls were "right", of a "wrong tool", with "wrong arguments", or "raised".

    Errors are counted, too: a traceback would show the request.
    """
    verdicts: Counter[str] = Counter()
    for case in HELD_OUT:
        try:
            call = first_call(model, case.request)
        except Exception as error:
            verdicts[f"raised {type(error).__name__}"] += 1
            continue
        if call is None or call[0] != case.tool:
            verdicts["wrong tool"] += 1
        else:
            verdicts["right" if is_right(case, call) else "wrong arguments"] += 1
    return verdicts


def test_every_expected_call_is_one_that_the_tool_takes() -> None:
    calls = [(case.tool, arguments) for case in HELD_OUT for arguments in (case.arguments, *case.also)]

    assert [tool for tool, arguments in calls if not fits(tool, arguments)] == []


def test_the_requests_are_spread_over_all_servers() -> None:
    counts = Counter(case.tool.split(":")[0] for case in HELD_OUT)

    assert set(counts) == set(definitions())
    assert min(counts.values()) >= FEWEST_OF_A_SERVER
    assert len({case.request for case in HELD_OUT}) == sum(counts.values()) >= FEWEST_REQUESTS


def test_at_least_85_percent_of_the_first_calls_are_right_with_all_tools_bound() -> None:
    from mcp_magic.agent.offline import OfflineModel

    verdicts = judge(OfflineModel().bind_tools(bindable()))
    share = verdicts["right"] / len(HELD_OUT)

    assert share >= GOAL, f"{share:.0%} of {len(HELD_OUT)} requests: {dict(verdicts)}"
