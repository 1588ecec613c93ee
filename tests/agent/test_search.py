from __future__ import annotations

from typing import Any

from mcp_types import Tool

from mcp_magic.agent.search import Index, stems, words_of_tool
from tests.support.clocks import assert_linear
from tests.support.lowlevel import tool


def test_words_of_parameters_and_choices_count():
    counts = words_of_tool(tool("convert", "Converts money.", to={"enum": ["krona"], "description": "the currency"}))
    assert counts["convert"] == 4
    assert {*stems("money krona currency")} <= set(counts)


def test_rare_words_score_higher_and_ties_keep_their_order():
    index = Index([{"read": 1, "file": 1}, {"read": 1, "mail": 1}, {"read": 1, "page": 1}])
    assert index.best("read mail", 3) == [1, 0, 2]
    assert index.best("nothing", 3) == []
    assert Index([]).best("read", 3) == []


def test_a_search_among_many_tools_takes_a_moment():
    tools = [tool(f"register_{number}", f"Reads the register {number} of a device.") for number in range(150)]
    few, many = (Index([words_of_tool(one) for _ in range(times) for one in tools]) for times in (2, 32))
    assert_linear(
        lambda index: index.best("the weather of the next days and the register of each device", 10), few, many
    )


def test_a_schema_of_a_stranger_is_read_within_limits():
    deep: dict[str, Any] = {"description": "end"}
    for _ in range(3000):
        deep = {"properties": {"a": deep, "b": {"enum": [1, None, {"x": 2}]}}, "enum": ["c"]}
    assert words_of_tool(Tool(name="x", input_schema={"type": "object", **deep}))
