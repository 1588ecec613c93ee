"""Recipes: arguments, variables and headers of an entry become a command or a URL, with values to be filled in."""

from __future__ import annotations

import pytest

from mcp_magic.errors import ArgumentsError, ConfigError
from mcp_magic.registry.entry import Input, Remote
from mcp_magic.registry.recipe import Recipe, SlotMaker, find_missing, form_schema, read_values, remote_recipe


def recipe_of(*arguments: Input, **variables: Input) -> Recipe:
    maker = SlotMaker()
    return Recipe(
        "x", command="x", words=tuple(maker.arguments(arguments)), env=maker.named(variables.values()), notes=()
    )


@pytest.mark.parametrize(
    ("argument", "values", "words"),
    [
        pytest.param(Input("--fast", "named"), {}, ["--fast"], id="flag alone"),
        pytest.param(Input("--mode", "named", value="a b"), {}, ["--mode", "a b"], id="fixed"),
        pytest.param(Input("--mode", "named", default="a"), {}, ["--mode", "a"], id="default"),
        pytest.param(Input("--mode", "named", default="a"), {"mode": "b"}, ["--mode", "b"], id="named"),
        pytest.param(Input("--mode", "named", description="."), {}, [], id="left out"),
        pytest.param(Input("--on", "named", format="boolean"), {"on": True}, ["--on=true"], id="boolean"),
        pytest.param(Input("", "positional", value="start"), {}, ["start"], id="positional fixed"),
        pytest.param(Input("", "positional", hint="folder"), {"folder": "/a"}, ["/a"], id="positional"),
        pytest.param(Input("", "positional"), {"argument_1": "/a"}, ["/a"], id="positional without a name"),
        pytest.param(Input("", "positional", hint="f", repeated=True), {"f": ["a", "b"]}, ["a", "b"], id="repeated"),
        pytest.param(
            Input("-v", "named", hint="", repeated=True), {"v": ["a", "b"]}, ["-v", "a", "-v", "b"], id="repeated flag"
        ),
        pytest.param(
            Input(
                "--mount", "named", value="src={src},dst={dst}", variables=(Input("src"), Input("dst", default="/d"))
            ),
            {"src": "/s"},
            ["--mount", "src=/s,dst=/d"],
            id="variables",
        ),
        pytest.param(
            Input("", "positional", value="{a}{b}", variables=(Input("a", value="1"),)), {}, ["1{b}"], id="braces"
        ),
    ],
)
def test_argument_becomes_words(argument, values, words):
    recipe = recipe_of(argument)
    assert recipe.table(read_values(recipe.slots, values))["args"] == words


def test_variables_without_a_value_are_left_out():
    recipe = recipe_of(A=Input("A", value="x{t}", variables=(Input("t"),)), B=Input("B"), C=Input("C", default="1"))
    assert recipe.table(read_values(recipe.slots, {}))["env"] == {"C": "1"}
    assert recipe.table(read_values(recipe.slots, {"T": "y", "b": "2"}))["env"] == {"A": "xy", "B": "2", "C": "1"}


def test_equal_inputs_share_a_value_and_others_get_numbers():
    token = Input("token", secret=True)
    recipe = recipe_of(
        A=Input("A", value="a {token}", variables=(token,)),
        B=Input("B", value="b {token}", variables=(token,)),
        C=Input("C", value="c {token}", variables=(Input("token"),)),
    )
    assert [slot.key for slot in recipe.slots] == ["token", "token_2"]


def test_reference_of_a_publisher_is_a_value_to_fill_in():
    recipe = recipe_of(A=Input("A", value="Bearer ${AWS_SECRET_KEY}"))
    [slot] = recipe.slots
    assert (slot.key, slot.is_needed, slot.input.secret) == ("AWS_SECRET_KEY", True, True)
    assert recipe.table({"AWS_SECRET_KEY": "k"})["env"] == {"A": "Bearer k"}


@pytest.mark.parametrize("text", ["${keyring:a/b}", "${env:HOME}", "${a:-b}", "${ A }", "x${${A}}", "${op://a/b/c}"])
def test_other_reference_of_a_publisher_is_refused(text):
    with pytest.raises(ConfigError, match="has a reference that a configuration would fill in"):
        recipe_of(A=Input("A", value=text))


def test_default_that_cannot_be_used_is_left_out():
    maker = SlotMaker()
    maker.arguments([Input("--a", "named", default="${HOME}"), Input("--b", "named", default="z", choices=("x", "y"))])
    assert maker.notes == [
        "the default of a has a variable and is left out",
        "the default of b is none of its choices and is left out",
    ]


def test_remote_has_variables_in_its_url_and_headers():
    token = Input("token", secret=True, required=True)
    header = Input("Authorization", value="Bearer {token}", variables=(token,))
    recipe = remote_recipe(
        Remote("sse", "https://{tenant}.example.com/sse", (header,), (Input("tenant", required=True),))
    )
    assert find_missing(recipe.slots, {}) == ["tenant", "token"]
    assert recipe.table({"tenant": "me", "token": "t"}) == {
        "transport": "sse",
        "url": "https://me.example.com/sse",
        "headers": {"Authorization": "Bearer t"},
    }
    assert recipe.unpinned


def test_remote_without_encryption_is_noted():
    assert remote_recipe(Remote("sse", "http://example.com/sse")).notes[0].startswith("nothing is encrypted")
    assert remote_recipe(Remote("sse", "http://127.0.0.1/sse")).notes == ()


@pytest.mark.parametrize(
    ("remote", "reason"),
    [
        (Remote("sse", "file:///etc/passwd"), "is not a URL with http or https"),
        (Remote("sse", "https://x", (Input("A\r\nB", value="x"),)), "is not the name of a header"),
        (Remote("sse", "http://[x"), "is not a URL with http or https"),
        (Remote("sse", "https://x/${env:HOME}"), "has a reference"),
    ],
    ids=["scheme", "header", "no URL", "reference"],
)
def test_remote_that_cannot_be_used_is_refused(remote, reason):
    with pytest.raises(ConfigError, match=reason):
        remote_recipe(remote)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"modes": "a"}, r"'modes' is no value of this server. Did you mean 'mode'\? It takes mode, n, on, key"),
        ({"mode": "c"}, "mode: 'c' is none of its choices: a, b"),
        ({"n": "many"}, "n: 'many' is not a number"),
        ({"on": "yes"}, "on: 'yes' is neither true nor false"),
        ({"key": "a\nb"}, "key: a value cannot have control characters"),
        ({"n": ["1", "2"]}, "n takes one value, not 2"),
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(values, reason):
    recipe = recipe_of(
        Input("--mode", "named", choices=("a", "b")),
        Input("--n", "named", format="number"),
        Input("--on", "named", format="boolean"),
        Input("--key", "named", secret=True),
    )
    with pytest.raises(ArgumentsError, match=reason):
        read_values(recipe.slots, values)


def test_secret_is_not_repeated_in_an_error():
    recipe = recipe_of(Input("--key", "named", secret=True, choices=("a",)))
    with pytest.raises(ArgumentsError) as caught:
        read_values(recipe.slots, {"key": "sesame"})
    assert "sesame" not in str(caught.value)


def test_form_has_a_field_for_each_value():
    recipe = recipe_of(
        Input("--mode", "named", choices=("a", "b"), default="a", description="The mode."),
        Input("--on", "named", format="boolean", default="true"),
        Input("--key", "named", secret=True, required=True, default=None, placeholder="sk-..."),
        Input("", "positional", hint="folder", repeated=True),
    )
    form = form_schema(recipe.slots)
    assert form["required"] == ["key"]
    assert form["properties"]["mode"] == {
        "type": "string", "enum": ["a", "b"], "description": "The mode.", "default": "a"
    }  # fmt: skip
    assert form["properties"]["on"]["default"] is True
    assert form["properties"]["key"] == {"type": "string", "description": "for example sk-...", "writeOnly": True}
    assert form["properties"]["folder"]["type"] == "array"
