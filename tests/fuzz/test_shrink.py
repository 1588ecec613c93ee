"""Smaller arguments that still fail."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_magic.fuzz.shrink import smaller_arguments

PLAIN = {"text": "text", "count": 1}

CASES: dict[str, tuple[Any, Any, Any]] = {
    "limit": ({"text": "é\x00", "count": 2**70}, lambda a: a["count"] > 50, {"text": "text", "count": 51}),
    "sign": ({"text": "", "count": -(2**40)}, lambda a: a["count"] < -5, {"text": "text", "count": -6}),
    "length": ({"text": "é" * 9_000, "count": 1}, lambda a: len(a["text"]) >= 300, {"text": "a" * 300, "count": 1}),
    "character": ({"text": "ab\x00cd", "count": 7}, lambda a: "\x00" in a["text"], {"text": "\x00", "count": 1}),
    "member": (
        {"text": "x", "count": 3, "a": {"b": [1, {"c": None, "d": 2}], "e": 4}, "f": 1},
        lambda a: "c" in str(a.get("a")),
        {"text": "text", "count": 1, "a": {"b": [{"c": None}]}},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_arguments_get_small_and_still_fail(name):
    arguments, fails, smallest = CASES[name]
    calls = []

    async def judge(candidate: dict[str, Any]) -> bool:
        calls.append(candidate)
        return bool(fails(candidate))

    assert await smaller_arguments(arguments, PLAIN, judge, 200) == smallest
    assert len(calls) < 100


async def test_attempts_are_bounded():
    calls = []

    async def judge(candidate: dict[str, Any]) -> bool:
        calls.append(candidate)
        return len(candidate["text"]) > 10

    smaller = await smaller_arguments({"text": "b" * 10_000, "count": 1}, PLAIN, judge, 5)
    assert len(calls) == 5
    assert 10 < len(smaller["text"]) < 10_000
