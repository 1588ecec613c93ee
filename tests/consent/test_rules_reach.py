"""Consent rules that never decide, because one before them does."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

import pytest

from mcp_magic.consent.rules import Rule, pattern_covers, unreached

RULES = {
    "all of a server": (Rule("allow", "math:*"), Rule("deny", "math:multiply"), True),
    "all": (Rule("allow", "*"), Rule("ask", "math:*"), True),
    "a narrower pattern": (Rule("deny", "fs:write_*"), Rule("allow", "fs:write_*_log"), True),
    "another server": (Rule("allow", "math:*"), Rule("deny", "maths:add"), False),
    "outside clients, after all": (Rule("deny", "math:*"), Rule("allow", "math:add", asker="outside a"), True),
    "outside clients, which no plain permission covers": (
        Rule("allow", "math:*"),
        Rule("deny", "math:add", asker="outside"),
        False,
    ),
    "one client, after all of them": (
        Rule("ask", "*", asker="outside"),
        Rule("deny", "*", asker="outside a"),
        True,
    ),
    "all clients, after one": (Rule("ask", "*", asker="outside a"), Rule("deny", "*", asker="outside"), False),
    "a broader pattern": (Rule("allow", "math:add"), Rule("deny", "math:*"), False),
    "patterns that overlap": (Rule("allow", "*:add"), Rule("deny", "math:*"), False),
    "one for some arguments": (Rule("allow", "math:*", {"a": "1"}), Rule("deny", "math:add"), False),
    "values of arguments": (Rule("deny", "fs:*", {"path": "/*"}), Rule("allow", "fs:read", {"path": "/"}), False),
    "one run": (Rule("allow", "math:*", run="r1"), Rule("deny", "math:add"), False),
    "one run of all": (Rule("allow", "math:*"), Rule("deny", "math:add", run="r1"), True),
    "these arguments alone": (Rule("allow", "a:b", {"x": "1"}, exact=True), Rule("deny", "a:b", {"x": "1"}), False),
}


@pytest.mark.parametrize(("earlier", "later", "never"), RULES.values(), ids=RULES)
def test_a_rule_is_never_reached_where_one_before_it_covers_it(earlier, later, never):
    assert unreached([earlier, later]) == ({1: 0} if never else {})


def test_a_permission_that_is_given_again_is_not_reported():
    assert unreached([Rule("allow", "math:*"), Rule("allow", "math:add"), Rule("deny", "math:add")]) == {2: 0}


def texts(letters: str, size: int) -> list[str]:
    return ["".join(word) for length in range(size + 1) for word in product(letters, repeat=length)]


SETS = [
    "[]a]",
    "[!]",
    "[!]]",
    "[!a]",
    "[[]",
    "[*]a",
    "[?]*",
    "*[ab]",
    "?[!b]",
    "[]",
    "[[]]",
    "[[]a]*",
    "[b-a]",
    "a[*",
    "!",
]


def test_what_a_pattern_matches_is_matched_by_one_that_covers_it():
    names = texts("ab[]!", 3)
    matched = {p: {name for name in names if fnmatchcase(name, p)} for p in [*texts("a*?[]", 3), *SETS]}
    covering = [(wide, narrow) for wide, narrow in product(matched, repeat=2) if pattern_covers(wide, narrow)]
    assert len(covering) > 500
    assert [(wide, narrow) for wide, narrow in covering if not matched[narrow] <= matched[wide]] == []
