from __future__ import annotations

import hashlib
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
        *((server, tool, "") for server, tool in (("a", "prüfen"), ("s", "t" * 62), ("a", ""), ("a", "\ud800"))),
        *((server, tool, "") for server, tool in (("a", "b_c0ffee"), ("a", "123456"), ("a", "b_0123456789"))),
        *(("a", tool, f"a__{tool}") for tool in ("b_c0ffe", "b_12345678", "b_c0ffeX", "bc0ffee", "b_C0FFEE")),
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


def test_no_plain_name_takes_the_one_of_another_tool():
    held = provider_name("my__store", "store")
    thief = ("my", held.removeprefix("my__"))
    names = Names([thief, ("my__store", "store")])
    assert names.pair(held) == ("my__store", "store")
    assert names.pair(names.provider(*thief)) == thief
    assert names.person(provider_name("my", "other_c0ffee")) == provider_name("my", "other_c0ffee"), "not read back"


def test_of_equal_made_names_nobody_has_one(monkeypatch):
    monkeypatch.setattr(hashlib, "sha1", lambda text, **options: Digest(text))
    pairs = [("a", "b c"), ("a", "b.c")]
    for order in (pairs, pairs[::-1]):
        names = Names(order)
        assert [names.provider(*pair) for pair in pairs] == ["a__b_c_0000001111", "a__b_c_0000002222"]
        assert names.pair("a__b_c_000000") is None
    assert Names(pairs[:1]).provider(*pairs[0]) == "a__b_c_000000"


class Digest:
    """A digest whose first digits are those of all others."""

    def __init__(self, text):
        self.text = text

    def hexdigest(self):
        return f"000000{'2' if b'.' in self.text else '1'}".ljust(40, "2" if b"." in self.text else "1")


def test_names_that_are_nobodys_stay():
    names = Names([("a", "b")])
    assert [names.person(name) for name in ("search", "__x", "a__", "")] == ["search", "__x", "a__", ""]
    assert names.pair("search") is None


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=20))
def test_any_names_are_valid_distinct_and_lead_back(pairs):
    names = Names(pairs)
    made = {pair: names.provider(*pair) for pair in pairs}
    assert all(VALID.fullmatch(name) for name in made.values())
    assert len(set(made.values())) == len(made)
    assert all(names.pair(name) == pair for pair, name in made.items())
