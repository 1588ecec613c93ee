"""Random values by a seed, which depend on nothing else, and leave nothing behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

from mcp_magic.fuzz.strategies import generate, value_strategy
from mcp_magic.schema.engine import CompiledSchema
from mcp_magic.schema.fields import root_field

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 2},
        "code": {"type": "string", "pattern": "^[a-z]{3}-\\d+$"},
        "count": {"type": "integer", "minimum": 1, "multipleOf": 5},
        "share": {"type": "number", "maximum": 3},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1},
        "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "any": {},
    },
    "required": ["text"],
}


@pytest.mark.lowest
def test_seed_makes_the_same_values_without_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(providers, "is_local_module_file", lambda path: pytest.fail("it reads modules"))
    strategy = value_strategy(root_field(SCHEMA))
    values = generate(strategy, 7, 100)
    assert values == generate(strategy, 7, 100) != generate(strategy, 8, 100)
    assert len(values) == 100
    assert list(tmp_path.iterdir()) == []
    json.dumps(values, allow_nan=False).encode()


def test_many_values_fit_and_some_do_not():
    fits = [CompiledSchema(SCHEMA).fits(value) for value in generate(value_strategy(root_field(SCHEMA)), 1, 200)]
    assert 40 <= sum(fits) <= 160
