"""Whatever a request or a definition is like, the offline model answers, and soon."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_magic.agent.offline import OfflineModel
from tests.agent.offline.definitions import bindable
from tests.agent.offline.tuning import CASES
from tests.schema.strategies import QUICK

MODEL = OfflineModel().bind_tools(bindable("math", "weather", "time", "git", "everything"))

PIECES = [word for case in CASES for word in case.request.split()]
"""Words of real requests: put together at random they get further into the rules than random letters."""

LONG = 10.0
"""Seconds that the longest request may take on a slow machine; more than 4,000 characters are not read at all."""


@QUICK
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
@example("result of step 99 and it")
@example("1. 2. 3.")
@example("{} [] {'a'} [1, {")
@example("then")
@example("and finally, after that")
def test_no_order_of_words_is_too_much(request_: str) -> None:
    said = MODEL.invoke(request_ or "x")
    assert said.tool_calls or said.text


def test_words_that_only_join_steps_are_asked_what_to_do() -> None:
    assert MODEL.invoke("then").text.startswith("What should I do? Say it in a sentence")


@QUICK
@given(st.text(min_size=1, max_size=80))
def test_no_text_is_too_strange(request_: str) -> None:
    said = MODEL.invoke(request_)
    assert said.tool_calls or said.text


@pytest.mark.parametrize(
    "request_",
    [
        "add " + "1 and " * 600 + "2",
        "a" * 4000,
        "(" * 4000,
        "1+" * 1999 + "1",
        "'" * 4000,
        "name: " * 660,
        "Oslo " * 790,
        "x=" * 2000,
        "and " * 1000,
        "/" * 4000,
        "what is " + "9" * 3990,
        "add " + "1 and " * 3000 + "2",
    ],
    ids=lambda text: text[:8],
)
def test_a_long_request_is_answered_in_time(request_: str) -> None:
    started = time.thread_time()  # nothing waits here, and what others do meanwhile does not count
    said = MODEL.invoke(request_)
    assert said.tool_calls or said.text
    assert time.thread_time() - started < LONG


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": True, "b": False, "c": {}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"enum": []}, "b": {"enum": [None, 1, "x", {"y": 1}]}},
            "required": ["b"],
        },
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": "low", "multipleOf": 0}},
            "required": ["a"],
        },
        {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}}},
        {"type": "object", "properties": {"": {"type": "string"}, "__": {"type": "number"}}, "required": ["", "__"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": False, "minItems": "x"}}, "required": ["a"]},
        {"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]},
    ],
)
def test_no_schema_is_too_strange(schema: dict[str, Any]) -> None:
    tool = {"type": "function", "function": {"name": "odd__take", "description": "Take it.", "parameters": schema}}
    model = OfflineModel().bind_tools([tool])
    for request_ in ("take 5 and 'x' from /tmp on 2026-01-01", "odd:take a=1 b=x", 'call take with {"a": 1}'):
        said = model.invoke(request_)
        assert said.tool_calls or said.text
