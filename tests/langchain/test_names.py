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
    ],
)
def test_a_name_that_can_be_read_in_one_way_is_joined(server: str, tool: str, name: str) -> None:
    assert provider_name(server, tool) == name
    assert Names(()).person(name) == f"{server}:{tool}"


@pytest.mark.parametrize(
    ("server", "tool"),
    [("a_", "b"), ("a__b", "c"), ("a.b", "c"), ("a", "b c"), ("a", "prüfen"), ("s", "t" * 62), ("a", ""), ("", "b")],
)
def test_other_names_are_cleaned_and_end_in_a_digest(server: str, tool: str) -> None:
    name = provider_name(server, tool)
    assert VALID.fullmatch(name)
    assert re.search(r"_[0-9a-f]{6}$", name)
    assert Names([(server, tool)]).person(name) == f"{server}:{tool}"


def test_a_name_does_not_depend_on_what_else_there_is() -> None:
    pairs = [("a", "b c"), ("a", "b.c"), ("a", "b_c"), ("a_", "b")]
    for order in itertools.permutations(pairs):
        names = Names(order)
        assert [names.provider(*pair) for pair in pairs] == [provider_name(*pair) for pair in pairs]


def test_twenty_servers_with_the_same_tools_have_different_names() -> None:
    pairs = [(f"server{n}", tool) for n in range(20) for tool in ("get item", "get.item", "get_item", "x" * 80)]
    names = Names(pairs)
    given = [names.provider(*pair) for pair in pairs]
    assert len(set(given)) == len(pairs)
    assert all(VALID.fullmatch(name) for name in given)
    assert [names.person(name) for name in given] == [":".join(pair) for pair in pairs]


def test_name_clash_adds_digits_to_the_name_that_is_not_plain() -> None:
    odd = ("a", "b c")
    plain = ("a", provider_name(*odd).removeprefix("a__"))
    for order in ([odd, plain], [plain, odd]):
        names = Names(order)
        assert names.provider(*plain) == provider_name(*odd)
        assert names.provider(*odd) == provider_name(*odd, digits=10)
        assert names.pair(names.provider(*odd)) == odd


def test_a_name_that_is_nobodys_comes_back_as_it_is() -> None:
    names = Names([("a", "b")])
    assert [names.person(name) for name in ("search", "__x", "a__", "")] == ["search", "__x", "a__", ""]
    assert names.pair("search") is None


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=20))
def test_any_names_are_valid_distinct_and_known_again(pairs: list[tuple[str, str]]) -> None:
    names = Names(pairs)
    given = {pair: names.provider(*pair) for pair in pairs}
    assert all(VALID.fullmatch(name) for name in given.values())
    assert len(set(given.values())) == len(given)
    assert all(names.pair(name) == pair for pair, name in given.items())
