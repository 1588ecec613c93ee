"""Rules: what they match, and how they are written to files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_magic.consent.rules import Rule, parse_rules, write_rules
from mcp_magic.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("NYC", "NYC", True),
        ("N*", "NYC", True),
        ("N*", "Oslo", False),
        ("5", 5, True),
        ("[1-3]", 2, True),
        (5, 5, True),
        (5, 5.5, False),
        (True, True, True),
        ("true", True, True),
        ("*", None, True),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_rules_compare_the_text_of_arguments(pattern, value, matches):
    assert Rule("allow", "*", {"x": pattern}).matches("a:b", {"x": value}) == matches


def test_rules_match_nested_arguments_and_require_them():
    rule = Rule("allow", "*", {"user.name": "Ada"})
    assert rule.matches("a:b", {"user": {"name": "Ada"}})
    assert rule.matches("a:b", {"user.name": "Ada"})
    assert not rule.matches("a:b", {"user": {}})
    assert not rule.matches("a:b", {"user": "Ada"})


def test_patterns_inside_of_objects_are_patterns_of_their_paths():
    nested = Rule("deny", "fs:*", {"opts": {"path": "/etc/*", "deep": {"n": 1}}})
    table = '[[consent]]\ndeny = "fs:*"\narguments = { opts.path = "/etc/*", opts.deep.n = 1 }'
    (read,) = parse_rules(table, source="")
    assert nested.arguments == read.arguments == {"opts.path": "/etc/*", "opts.deep.n": 1}
    assert nested.matches("fs:read", {"opts": {"path": "/etc/passwd", "deep": {"n": 1}}})
    assert parse_rules(write_rules([nested]), source="") == [nested]
    with pytest.raises(ConfigError, match=r"names the argument 'a\.b' twice"):
        Rule("deny", "*", {"a": {"b": 1}, "a.b": 2})


@pytest.mark.parametrize(
    ("wanted", "arguments", "all_fit"),
    [
        ({"o.p": "/etc/*"}, {"o": {"p": "/etc/x"}, "o.p": "/tmp/x"}, False),
        ({"o.p": "/etc/*"}, {"o": {"p": "/tmp/x"}, "o.p": "/etc/x"}, False),
        ({"o.p": "/etc/*"}, {"o": [{"p": "/tmp/x"}, {"p": "/etc/x"}]}, False),
        ({"a.b.c": "/etc/*"}, {"a": {"b.c": "/etc/x", "b": {"c": "/tmp/x"}}}, False),
        ({"p": "/etc/*"}, {"p": ["/tmp/x", "/etc/x"]}, False),
        ({"p": "/etc/*"}, {"p": [["/etc/x"]]}, True),
        ({"p": "/etc/*"}, {"p": '["/etc/x"]'}, False),
        ({"n": 1}, {"n": [1, 2]}, False),
        ({"force": True}, {"force": "true"}, False),
    ],
)
def test_deny_matches_any_reading_of_a_call_and_allow_needs_all(wanted, arguments, all_fit):
    assert Rule("deny", "*", wanted).matches("a:b", arguments)
    assert Rule("ask", "*", wanted).matches("a:b", arguments)
    assert Rule("allow", "*", wanted).matches("a:b", arguments) == all_fit


def test_allow_matches_no_empty_list_and_no_partial_path():
    allow = Rule("allow", "*", {"o.p": "/tmp/*"})
    assert allow.matches("a:b", {"o": [{"p": "/tmp/x"}, {"p": ["/tmp/y"]}]})
    for arguments in ({"o": [{"p": "/tmp/x"}, {}]}, {"o": []}, {"o": {"q": 1}, "o.p": "/tmp/x"}):
        assert not allow.matches("a:b", arguments)
    assert not Rule("allow", "*", {"p": "/tmp/*"}).matches("a:b", {"p": []})


@pytest.mark.parametrize(
    ("wanted", "value"), [(1, 1.0), (1.0, 1), ("1", 1.0), ("1.0", 1), ("1*", 1e3), ("1e3", 1000), (2**70, 2**70)]
)
@pytest.mark.parametrize("action", ["allow", "deny"])
def test_numbers_are_compared_by_their_value(action, wanted, value):
    assert Rule(action, "*", {"n": wanted}).matches("a:b", {"n": value})


@pytest.mark.parametrize(("wanted", "value"), [(1, True), (True, 1), (1, 2), ("1", True), ("1", 10), (0, False)])
def test_other_values_are_not_the_same_number(wanted, value):
    assert not Rule("deny", "*", {"n": wanted}).matches("a:b", {"n": value})


# Rules in files

NAMES = st.text(alphabet=st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=12)
VALUES = st.one_of(NAMES, st.integers(-(2**40), 2**40), st.booleans(), st.lists(NAMES, max_size=2))


@given(
    st.lists(
        st.builds(
            Rule,
            action=st.sampled_from(["allow", "deny", "ask"]),
            tool=NAMES.filter(str.strip),
            arguments=st.dictionaries(NAMES, VALUES, max_size=3),
            reason=st.one_of(st.just(""), NAMES.filter(str.strip)),
            exact=st.booleans(),
        ),
        max_size=4,
    )
)
@example([Rule("allow", "s:a", {"Cookie": "1"}), Rule("deny", "s:b")])
def test_rules_without_secrets_survive_the_way_through_a_file(rules):
    kept = [rule for rule in rules if not rule.holds_secret]
    assert [replace(rule, source="") for rule in parse_rules(write_rules(rules), source="x")] == kept


def test_rules_of_one_run_are_not_written():
    assert write_rules([Rule("allow", "a:b", run="run-1")]) == ""
    outside = Rule("allow", "a:b", asker="outside claude-code")
    assert parse_rules(write_rules([outside]), source="") == [outside]
    assert write_rules([Rule("deny", "fs:*", {"password": "*"})]), "any password is no secret"


def test_file_that_holds_no_rules_says_what_is_wrong():
    with pytest.raises(ConfigError, match=r"rules\.toml: .*needs exactly one of allow, deny, ask"):
        parse_rules('[[consent]]\nallow = "a:*"\ndeny = "b:*"', source="rules.toml")
    with pytest.raises(ConfigError, match=r"rules\.toml: "):
        parse_rules("[[consent", source="rules.toml")


@pytest.mark.parametrize(
    ("rule", "askers"),
    [
        (Rule("allow", "a:b"), "person, agent"),
        (Rule("deny", "a:b"), "person, agent, outside x, outside x (2)"),
        (Rule("ask", "a:b"), "person, agent, outside x, outside x (2)"),
        (Rule("allow", "a:b", asker="outside"), "outside x, outside x (2)"),
        (Rule("deny", "a:b", asker="outside x"), "outside x"),
    ],
    ids=str,
)
def test_a_rule_holds_for_its_askers_only(rule, askers):
    everybody = ["person", "agent", "outside x", "outside x (2)"]
    assert ", ".join(asker for asker in everybody if rule.matches("a:b", {}, None, asker)) == askers


def test_an_asker_in_a_file_is_an_outside_client():
    with pytest.raises(ConfigError, match='expected "outside" or "outside NAME", got \'agent\''):
        parse_rules('[[consent]]\nallow = "a:b"\nfor = "agent"\n', source="rules.toml")
