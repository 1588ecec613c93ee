"""Consent rules that never decide, because one before them does."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

import pytest
from mcp_types import Tool

from mcp_magic.consent.definitions import Definitions
from mcp_magic.consent.rules import Rule, pattern_covers, unreached

RULES = {
    "all of a server": (Rule("allow", "math:*"), Rule("deny", "math:multiply"), True),
    "all": (Rule("allow", "*"), Rule("ask", "math:*"), True),
    "a narrower pattern": (Rule("deny", "fs:write_*"), Rule("allow", "fs:write_*_log"), True),
    "another server": (Rule("allow", "math:*"), Rule("deny", "maths:add"), False),
    "a broader pattern": (Rule("allow", "math:add"), Rule("deny", "math:*"), False),
    "patterns that overlap": (Rule("allow", "*:add"), Rule("deny", "math:*"), False),
    "one for some arguments": (Rule("allow", "math:*", {"a": "1"}), Rule("deny", "math:add"), False),
    "the same arguments": (Rule("deny", "math:*", {"a": "1"}), Rule("allow", "math:add", {"a": "1"}), True),
    "one reading of several": (Rule("allow", "math:*", {"a": "1"}), Rule("deny", "math:add", {"a": "1"}), False),
    "broader values": (Rule("deny", "fs:*", {"path": "/tmp/*"}), Rule("allow", "fs:read", {"path": "/*"}), False),
    "a list for a text": (Rule("deny", "math:add", {"a": "1"}), Rule("allow", "math:add", {"a": [1]}), False),
    "one run": (Rule("allow", "math:*", run="r1"), Rule("deny", "math:add"), False),
    "one run of all": (Rule("allow", "math:*"), Rule("deny", "math:add", run="r1"), True),
    "these arguments alone": (Rule("allow", "a:b", {"x": "1"}, exact=True), Rule("deny", "a:b", {"x": "1"}), False),
}


@pytest.mark.parametrize(("earlier", "later", "never"), RULES.values(), ids=RULES)
def test_a_rule_is_never_reached_where_one_before_it_covers_it(earlier: Rule, later: Rule, never: bool) -> None:
    assert unreached([earlier, later], Definitions()) == ({1: 0} if never else {})


def test_a_permission_counts_that_is_given_again_after_a_tool_has_changed() -> None:
    definitions = Definitions()
    definitions.saw("math", [Tool(name="add", description="Adds.", input_schema={})])
    then = Rule("allow", "math:*", since=definitions.count)
    assert unreached([then, Rule("allow", "math:add", since=definitions.count)], definitions) == {1: 0}
    definitions.saw("math", [Tool(name="add", description="Adds, and mails it.", input_schema={})])
    now = Rule("allow", "math:add", since=definitions.count)
    assert unreached([then, now, Rule("deny", "math:add")], definitions) == {2: 0}


def texts(letters: str, size: int) -> list[str]:
    return ["".join(each) for length in range(size + 1) for each in product(letters, repeat=length)]


def test_what_a_pattern_matches_is_matched_by_one_that_covers_it() -> None:
    names = texts("ab[]!", 3)
    matched = {p: {name for name in names if fnmatchcase(name, p)} for p in [*texts("a*?[]", 3), *SETS]}
    covering = [(wide, narrow) for wide, narrow in product(matched, repeat=2) if pattern_covers(wide, narrow)]

    assert len(covering) > 500
    assert [(wide, narrow) for wide, narrow in covering if not matched[narrow] <= matched[wide]] == []


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


def test_a_call_that_an_unreached_rule_is_about_is_decided_before() -> None:
    wanted = ["1", "*", "?", "1*", "1e1", "null", "[[]*", "a*", "a", 1, 10, 1.0, True, None, [1], ["a"]]
    shapes = [{}, {"x": "*", "y": "1"}, *({name: each} for name in ("x", "x.y") for each in wanted)]
    kinds = [("allow", True), ("allow", False), ("deny", True), ("deny", False)]
    rules = [Rule(action, "a", shape, exact=exact) for shape in shapes for action, exact in kinds]
    values = [*wanted, "[1]", '["a", "b"]', [1, "a"], [], {}, {"y": "a"}, {"y": [1]}, [{"y": 1}, {}], [{"y": "a"}], 1e1]
    calls = [{}, *({name: each} for name in ("x", "x.y") for each in values)]
    calls += [{"x": x, name: y} for name in ("y", "x.y") for x in values for y in ("1", 1, "a", None, [1, 2])]
    about = [{at for at, call in enumerate(calls) if rule.matches("a", call)} for rule in rules]
    pairs = list(product(range(len(rules)), repeat=2))
    dead = [(i, j) for i, j in pairs if unreached([rules[i], rules[j]], Definitions())]

    assert len(dead) > 500
    assert [(rules[i], rules[j]) for i, j in dead if not about[j] <= about[i]] == []
