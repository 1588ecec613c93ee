"""A server's regular expressions: nothing that looks at, calls or answers a tool runs them without a bound."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

from mcp_magic import schema as s
from mcp_magic._host import Host
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.patterns import MAX_CHARACTERS, MAX_STEPPED_CHARACTERS, matches
from mcp_magic.schema.validate import check_answer
from tests.environments import ROOT
from tests.support.pattern_victim import BACKTRACKS, EXPLODES, LOOKS_AHEAD, PATTERNS, TRIED, schemas
from tests.support.schemas import INTEGER, TEXT, listed, of


@pytest.fixture(scope="module")
def gave():
    """What each attack gave in a process that has 4 GB; without bounds they take hours and all memory."""
    victim = [sys.executable, "-m", "tests.support.pattern_victim"]
    ran = subprocess.run(victim, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = [json.loads(line.removeprefix("ATTACK ")) for line in ran.stdout.splitlines() if line.startswith("ATTACK ")]
    assert len(told) == len(PATTERNS) * (3 * len(schemas("")) + 3) + 1
    assert [name for name, seconds, _ in told if seconds > 30] == []
    return {name: outcome for name, _, outcome in told}


@pytest.mark.parametrize("name", PATTERNS)
def test_hostile_patterns_do_not_hang_cards_forms_and_calls(gave, name):
    refused = name == "backtracks"
    for way in schemas(""):
        answers, takes = gave[f"call answers {name} {way}"], gave[f"call takes {name} {way}"]
        assert answers.startswith("ToolResult")
        assert ("does not fit the tool's output schema" in answers) is refused
        # a name that no pattern allows is left to the server where the schema may allow others
        assert takes.startswith("ArgumentsError" if refused and way != "names" else "ToolResult")
        assert gave[f"look {name} {way}"] == "ToolCard"
    assert gave[f"form {name}"].startswith('["text: expected' if refused else "[]")
    assert gave[f"line {name}"].startswith("ArgumentsError: text: expected" if refused else "ToolResult")
    assert gave[f"elicitation {name}"] == "ToolResult"
    assert gave["doctor"]


@pytest.mark.parametrize(
    ("pattern", "fitting", "unfit", "unchecked"),
    [
        pytest.param("^[A-Z]{3}$", "ABC", "ABCD", None, id="text"),
        pytest.param("b", "abc", "ac", "\ud800", id="anywhere"),
        pytest.param(r"^\d{4}-\d\d$", "2026-11", "2026", None, id="digits"),
        pytest.param(r"^\p{L}+$", "Zoë", "Z1", None, id="ecma"),  # Python has not
        pytest.param(r"^(?=.*\d)(?=.*[a-z]).{8,}$", "passw0rd", "password", None, id="ahead"),  # tried, with a bound
        pytest.param(r"^(?!-)[a-z-]{1,63}(?<!-)$", "a-b", "-ab", None, id="behind"),
        pytest.param(r"^(.)\1$", "aa", "ab", None, id="again"),
        pytest.param("^.{1,4096}$", "x" * 4096, "x" * 4097, None, id="count"),
        pytest.param("^[a-z]+$", "a" * MAX_CHARACTERS, "A" * MAX_CHARACTERS, "a" * (MAX_CHARACTERS + 1), id="long"),
        pytest.param("^(?=a)a+$", "a" * MAX_STEPPED_CHARACTERS, "b", "a" * (MAX_STEPPED_CHARACTERS + 1), id="stepped"),
        pytest.param("(", None, None, "x", id="broken"),
        pytest.param(7, None, None, "x", id="number"),
        pytest.param(EXPLODES, None, None, "z", id="explodes"),
        pytest.param(BACKTRACKS, "a", TRIED, None, id="backtracks"),
        pytest.param(LOOKS_AHEAD, None, None, TRIED, id="looks ahead"),
    ],
)
def test_ordinary_patterns_are_checked_and_others_not(pattern, fitting, unfit, unchecked):
    for text, fits in ((fitting, True), (unfit, False), (unchecked, None)):
        assert text is None or matches(pattern, text) is fits


def test_what_is_not_checked_is_said_and_the_rest_is_checked():
    schema = of(a={**TEXT, "pattern": EXPLODES}, b=INTEGER)
    assert s.root_field(schema).children[0].constraints_text.endswith("(not checked here)")
    with pytest.raises(ArgumentsError, match="b: expected integer"):
        s.check_arguments({"a": "x", "b": "y"}, schema)


def test_names_must_match_a_pattern_and_its_schema():
    schema = {"patternProperties": {"^n_": INTEGER}, "additionalProperties": False}
    check_answer({"n_a": 1}, schema)
    with pytest.raises(ValueError, match=r"^n_a: expected integer, got 'x'$"):
        check_answer({"n_a": "x"}, schema)
    with pytest.raises(ValueError, match=r"^unknown name 'm'\. It takes names that match \^n_$"):
        check_answer({"n_a": 1, "m": 1}, schema)


@pytest.mark.parametrize("name", PATTERNS)
def test_an_answer_of_many_rows_is_checked_in_time(name):
    schema = of(rows=listed({**TEXT, "pattern": PATTERNS[name]}))
    if name == "backtracks":
        with pytest.raises(ValueError, match=r"^rows\[0\]: expected string, matches "):
            check_answer({"rows": [TRIED]}, schema)
    else:
        check_answer({"rows": [TRIED] * 1_000}, schema)


async def test_a_call_notes_an_unchecked_answer_once_a_tool():
    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        rows = of(a={**TEXT, "pattern": EXPLODES}, n=INTEGER)
        return ListToolsResult(tools=[Tool(name=name, input_schema=of(), output_schema=rows) for name in "xy"])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": "text", "n": 1})

    host = Host()
    connection = await host.connect(Server("s", on_list_tools=list_tools, on_call_tool=call_tool), name="s")
    try:
        results = [await connection.call(name) for name in "xxy"]
        told = [message.data for message in connection.notices.messages]
    finally:
        await host.close()
    remark = f"the answer was not checked against the pattern {EXPLODES}"
    assert told == [f"x: {remark}", f"y: {remark}"]
    assert [result.unchecked for result in results] == [remark] * 3
    assert all(result.data == {"a": "text", "n": 1} for result in results)
