"""Values around a schema, and texts for its patterns."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from mcp_magic.fuzz.values import matching_text, plain_value, variations
from mcp_magic.schema.engine import CompiledSchema
from mcp_magic.schema.fields import root_field
from mcp_magic.schema.patterns import matches


def values_of(schema: dict[str, Any]) -> list[Any]:
    return list(islice(variations(root_field(schema)), 500))


WANTED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "integers": ({"type": "integer"}, [0, -1, 2**31, 2**53, 2**63, -(2**63) - 1, "1", None, 1.5]),
    "limits": ({"type": "integer", "minimum": 3, "exclusiveMaximum": 9}, [2, 3, 4, 8, 9, 10]),
    "texts": ({"type": "string"}, ["", "\x00", "\U0001f600", "\u202eabc", "a" * 100_000, 0, []]),
    "lengths": ({"type": "string", "minLength": 2, "maxLength": 4}, ["a", "aa", "aaaa", "aaaaa"]),
    "choices": ({"enum": ["red", "blue"]}, ["red", "blue", "RED", "not a choice"]),
    "lists": ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, [[], [True] * 3, [None]]),
    "members": (
        {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "boolean"}}, "required": ["a"]},
        [{}, {"a": None}, {"a": None, "unlisted": 1}, {"a": None, "b": False}, {"a": None, "b": None}],
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_values_have_the_limits_and_what_is_just_outside(name):
    schema, wanted = WANTED[name]
    values = values_of(schema)
    assert [value for value in wanted if not any(value == v and type(value) is type(v) for v in values)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]{3}-\\d+$",
        "^(a|b)*c?[^a-y]$",
        "\\w+@\\w+\\.(com|org)",
        "^(?=.*\\d)(?=.*[a-z]).{8,}$",
        "^(?<year>\\d{4})-\\S\\s\\D\\W$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)
def test_text_for_a_pattern_matches_it(pattern):
    for seed in range(5):
        assert matches(pattern, matching_text(pattern, random.Random(seed)))


def test_pattern_that_cannot_be_read_gives_any_text():
    for pattern in ("[", "(a)\\1(?(1)b)", "\\p{L}+", "(" * 5_000):
        assert isinstance(matching_text(pattern, random.Random(0)), str)


def test_plain_value_fits_also_with_patterns_inside():
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]{2}\\d$"},
            "days": {"type": "array", "items": {"enum": ["mon"]}, "minItems": 1},
            "place": {
                "type": "object",
                "properties": {"id": {"pattern": "^x+$", "type": "string"}},
                "required": ["id"],
            },
        },
        "required": ["code", "days", "place"],
    }
    assert CompiledSchema(schema).fits(plain_value(root_field(schema)))
