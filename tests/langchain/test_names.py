from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic.langchain.names import Names, provider_name

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("weather", "forecast", "weather__forecast"),
        ("a", "_b", "a___b"),
        ("a_b", "c__d", "a_b__c__d"),
        ("s", "t" * 61, "s__" + "t" * 61),
        *((server, tool, "") for server, tool in (("a_", "b"), ("a__b", "c"), ("a.b", "c"), ("a", "b c"), ("", "b"))),
        *((server, tool, "") for server, tool in (("a", "prüfen"), ("s", "t" * 62), ("a", ""))),
    ],
)
def test_a_name_is_joined_or_cleaned_with_a_digest(server, tool, name):
    made = provider_name(server, tool)
    assert VALID.fullmatch(made)
    assert re.fullmatch(name or r".*_[0-9a-f]{6}", made)
    assert Names([] if name else [(server, tool)]).person(made) == f"{server}:{tool}"


def test_a_name_does_not_depend_on_other_names():
    pairs = [("a", "b c"), ("a", "b.c"), ("a", "b_c"), ("a_", "b")]
    for order in itertools.permutations(pairs):
        names = Names(order)
        assert [names.provider(*pair) for pair in pairs] == [provider_name(*pair) for pair in pairs]


def test_a_clash_adds_digits_to_the_name_that_is_not_plain():
    odd = ("a", "b c")
    plain = ("a", provider_name(*odd).removeprefix("a__"))
    for order in ([odd, plain], [plain, odd]):
        names = Names(order)
        assert names.provider(*plain) == provider_name(*odd)
        assert names.provider(*odd) == provider_name(*odd, digits=10)
        assert names.pair(names.provider(*odd)) == odd
    names = Names([("a", "b")])
    assert [names.person(name) for name in ("search", "__x", "a__", "")] == ["search", "__x", "a__", ""], "nobody's"
    assert names.pair("search") is None


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=20))
def test_any_names_are_valid_distinct_and_lead_back(pairs):
    names = Names(pairs)
    made = {pair: names.provider(*pair) for pair in pairs}
    assert all(VALID.fullmatch(name) for name in made.values())
    assert len(set(made.values())) == len(made)
    assert all(names.pair(name) == pair for pair, name in made.items())
