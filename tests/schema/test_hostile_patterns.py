"""A server's regular expressions: nothing that looks at, calls or answers a tool runs them without a bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

from mcp_magic import schema as s
from mcp_magic._host import Host
from mcp_magic.errors import ArgumentsError
from mcp_magic.schema.patterns import MAX_STEPPED_TEXT, MAX_TEXT, matches
from mcp_magic.schema.validate import check_answer
from tests.support.pattern_server import BACKTRACKS, EXPLODES, LOOKS_AHEAD, PATTERNS, TEXT, schemas

SECONDS = 3.0
"""CPU time of one attack; the bounds of the engine leave half a second, and the machine may be busy."""


@pytest.fixture(scope="module")
def gave() -> dict[str, tuple[float, str]]:
    """What each attack took, and gave, in a process that has 4 GB; without bounds they take hours and all memory."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.pattern_victim"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = [json.loads(line.removeprefix("ATTACK ")) for line in ran.stdout.splitlines() if line.startswith("ATTACK ")]
    return {name: (seconds, outcome) for name, seconds, outcome in told}


def test_no_attack_takes_long(gave: dict[str, tuple[float, str]]) -> None:
    assert len(gave) == len(PATTERNS) * (3 * len(schemas("")) + 3) + 1
    assert {name: seconds for name, (seconds, _) in gave.items() if seconds > SECONDS and name != "doctor"} == {}


@pytest.mark.parametrize("way", schemas(""))
@pytest.mark.parametrize("name", PATTERNS)
def test_a_call_ends_whatever_its_output_schema_says(gave: dict[str, tuple[float, str]], name: str, way: str) -> None:
    is_refused = name == "backtracks" and way != "unevaluated"
    outcome = gave[f"call answers {name} {way}"][1]
    assert outcome.startswith("ToolResult")
    assert ("does not fit the tool's output schema" in outcome) == is_refused


@pytest.mark.parametrize("way", schemas(""))
@pytest.mark.parametrize("name", PATTERNS)
def test_arguments_are_checked_as_far_as_the_bounds_go(gave: dict[str, tuple[float, str]], name: str, way: str) -> None:
    is_refused = name == "backtracks" and way in ("pattern", "draft")  # names that a server forbids, it may refuse
    assert gave[f"call takes {name} {way}"][1].startswith("ArgumentsError" if is_refused else "ToolResult")


@pytest.mark.parametrize("name", PATTERNS)
def test_hostile_patterns_do_not_hang_cards_forms_and_calls(gave: dict[str, tuple[float, str]], name: str) -> None:
    refused = name == "backtracks"
    assert all(gave[f"look {name} {way}"][1] == "ToolCard" for way in schemas(""))
    assert gave[f"form {name}"][1].startswith('["text: expected' if refused else "[]")
    assert gave[f"line {name}"][1].startswith("ArgumentsError: text: expected" if refused else "ToolResult")
    assert gave[f"elicitation {name}"][1] == "ToolResult"


def test_the_doctor_ends(gave: dict[str, tuple[float, str]]) -> None:
    seconds, outcome = gave["doctor"]
    assert seconds < 30
    assert outcome


def test_what_is_not_checked_is_said_where_the_argument_is_shown() -> None:
    field = s.root_field({"properties": {"a": {"type": "string", "pattern": EXPLODES}}}).at("a")
    assert field is not None
    assert field.constraints_text.endswith("(not checked here)")


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        *(("^[A-Z]{3}$", "ABC", True), ("^[A-Z]{3}$", "ABCD", False)),
        ("b", "abc", True),  # anywhere in the text
        (r"^\d{4}-\d\d$", "2026-11", True),
        (r"^\p{L}+$", "Zoë", True),  # ECMA 262 has it, Python has not
        (r"^(?=.*\d)(?=.*[a-z]).{8,}$", "passw0rd", True),  # lookaheads are tried, with a bound
        *((r"^(?=.*\d)(?=.*[a-z]).{8,}$", "password", False), (r"^(?!-)[a-z-]{1,63}(?<!-)$", "a-b", True)),
        *((r"^(?!-)[a-z-]{1,63}(?<!-)$", "-ab", False), (r"^(.)\1$", "aa", True), ("^.{1,4096}$", "x" * 4096, True)),
        *(("^[a-z]+$", "a" * MAX_TEXT, True), ("(", "x", None), (EXPLODES, "z", None), (BACKTRACKS, TEXT, False)),
        (LOOKS_AHEAD, TEXT, None),  # it gives up
        *(("^[a-z]+$", "a" * (MAX_TEXT + 1), None), ("^(?=a)a+$", "a" * (MAX_STEPPED_TEXT + 1), None)),
        *(("a", "\ud800", None), (7, "x", None)),
    ],
)
def test_ordinary_patterns_are_checked_and_others_are_not(pattern: Any, text: str, fits: bool | None) -> None:
    assert matches(pattern, text) is fits


def test_unchecked_pattern_leaves_the_rest_of_the_schema_checked() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": EXPLODES}, "b": {"type": "integer"}}}
    with pytest.raises(ArgumentsError, match="b: expected integer"):
        s.check_arguments({"a": "x", "b": "y"}, schema)


def test_names_must_match_a_pattern_and_its_schema() -> None:
    schema = {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False}
    check_answer({"n_a": 1}, schema)
    with pytest.raises(ValueError, match=r"^n_a: expected integer, got 'x'$"):
        check_answer({"n_a": "x"}, schema)
    with pytest.raises(ValueError, match=r"^unknown name 'm'\. It takes names that match \^n_$"):
        check_answer({"n_a": 1, "m": 1}, schema)


@pytest.mark.parametrize("name", PATTERNS)
def test_an_answer_of_many_rows_is_checked_in_time(name: str) -> None:
    rows = {"type": "array", "items": {"type": "string", "pattern": PATTERNS[name]}}
    schema = {"type": "object", "properties": {"rows": rows}}
    if name == "backtracks":
        with pytest.raises(ValueError, match=r"^rows\[0\]: expected string, matches "):
            check_answer({"rows": [TEXT]}, schema)
    else:
        check_answer({"rows": [TEXT] * 1_000}, schema)


ROWS = {"type": "object", "properties": {"a": {"type": "string", "pattern": EXPLODES}, "n": {"type": "integer"}}}


async def test_call_notes_an_unchecked_answer_pattern_once() -> None:
    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        nothing = {"type": "object", "properties": {}}
        return ListToolsResult(tools=[Tool(name=name, input_schema=nothing, output_schema=ROWS) for name in "xy"])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": "text", "n": 1})

    host = Host()
    connection = await host.connect(Server("s", on_list_tools=list_tools, on_call_tool=call_tool), name="s")
    try:
        results = [await connection.call(name) for name in "xxy"]
        said = [message.data for message in connection.notices.messages]
    finally:
        await host.close()
    remark = f"the answer was not checked against the pattern {EXPLODES}"
    assert said == [f"x: {remark}", f"y: {remark}"]
    assert [result.unchecked for result in results] == [remark] * 3
    assert all(result.data == {"a": "text", "n": 1} for result in results)
