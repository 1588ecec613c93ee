"""The whole form: its face of JSON, what it says of itself, how fast it is."""

from __future__ import annotations

import doctest
import statistics
import time
from contextlib import closing
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from mcp_magic.errors import ArgumentsError
from mcp_magic.ui import inputs, widgets
from mcp_magic.ui.form import Form

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "o": {"properties": {"k": {"type": "string"}}}},
    "required": ["n"],
}


def test_json_is_checked_while_typing_and_keeps_bad_text():
    with closing(Form(SCHEMA)) as form:
        form.toggle.value = True
        form._json.widget.value = '{"n": "x"}'
        assert "n: expected integer, got &#x27;x&#x27;" in form._rest.value
        form._json.widget.value = '{"n": 1'
        assert "expected JSON, got other text" in form._rest.value
        with pytest.raises(ArgumentsError, match="expected JSON"):
            form.arguments
        form.toggle.value = False
        assert form.toggle.value is True, "there is nothing to show in the fields"
        assert form.toggle.description == "Back to the fields"
        assert form._json.widget.value == '{"n": 1'
        for text in ("[1]", "null", "3"):
            form._json.widget.value = text
            assert form.problems == [f"arguments: expected a JSON object, got {text}"]
            assert form.submit() is False
        form._json.widget.value = '{"n": 1, "zz": true}'
        form.toggle.value = False
        assert form.toggle.value is False
        assert (form.toggle.description, form.toggle.tooltip) == ("Edit as JSON", "all arguments as JSON")
        assert form.draft == {"n": 1, "zz": True}
        assert form.problems == ["unknown argument 'zz'. It takes n, s, o"]
        assert "unknown argument &#x27;zz&#x27;" in form._rest.value


def test_big_integers_pass_through_the_json():
    with closing(Form(SCHEMA)) as form:
        assert form.submit() is False
        form.set_arguments({"n": 2**200})
        form.toggle.value = True
        assert str(2**200) in form._json.widget.value
        form.toggle.value = False
        assert form.arguments == {"n": 2**200}
        assert form.submit() is True


def test_changes_are_told_once_each_and_only_those_of_the_person():
    changes: list[dict[str, Any]] = []
    with closing(Form(SCHEMA)) as form:
        form.on_change(lambda: changes.append(form.draft))
        form.set_arguments({"n": 5, "o": {"k": "v"}})
        assert changes == []
        form.root.at("n").input.widget.value = "6"
        form.root.at("o").at("k").input.widget.value = "w"
    assert changes == [{"n": 6, "o": {"k": "v"}}, {"n": 6, "o": {"k": "w"}}]


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, {}], ids=str)
def test_without_parameters_there_is_nothing_to_enter(schema):
    with closing(Form(schema)) as form:
        assert "takes no arguments" in form._body.children[0].value
        assert form.arguments == {}
        assert form.submit() is True


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"enum": [1]}, {"type": "array"}, {"oneOf": [{"type": "null"}]}], ids=str
)
def test_a_schema_of_no_object_is_json_and_no_error(schema):
    with closing(Form(schema)) as form:
        assert form.draft == {}
        form.set_arguments({"a": 1})
        assert form.draft == {"a": 1}


def test_arguments_of_one_of_several_kinds_begin_with_a_choice():
    one, two = ({"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]} for name in "ab")
    with closing(Form({"anyOf": [one, two]})) as form:
        form.root._menu.value = 2
        form.root.at("b").input.widget.value = "1"
        assert form.arguments == {"b": 1}


def level(count: int, *inner: dict[str, Any]) -> dict[str, Any]:
    kinds = ("string", "integer", "number", "boolean")
    properties: dict[str, Any] = {f"f{i}": {"type": kinds[i % 4], "description": "a field"} for i in range(count)}
    properties |= {f"o{i}": each for i, each in enumerate(inner)}
    return {"type": "object", "properties": properties, "required": list(properties)}


def count(place: Any) -> int:
    return sum(1 + count(entry.input) for _, entry in place.entries())


@pytest.mark.timed
def test_form_of_a_hundred_fields_opens_quickly():
    schema = level(30, level(18, level(16)), level(18, level(14)))
    seconds = []
    for _ in range(5):
        started = time.thread_time()
        form = Form(schema)
        seconds.append(time.thread_time() - started)
        assert count(form.root) == 100, "all are required, so all are open"
        form.close()
    assert statistics.median(seconds) < 0.3
    before = len(_instances)
    with closing(Form({"properties": {"a": level(90)}})):
        assert len(_instances) < before + 40, "what is closed costs nothing"


@pytest.mark.parametrize("module", [inputs, widgets])
def test_the_examples_in_docstrings_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0


WIDE = {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(5000)}}
SIXTY = [f"p{i}" for i in range(60)]
DOUBLING = {"type": "object", "properties": {name: {"$ref": "#"} for name in SIXTY}, "required": SIXTY}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(WIDE, {"p1": 1}, id="wide"),
        pytest.param({"type": "object", "properties": {"o": WIDE}}, {"p1": 1}, id="wide inside"),
        pytest.param(DOUBLING, {"p1": {"p2": {"p3": {}}}}, id="doubling"),
        pytest.param({"type": "object", "properties": {"e": {"enum": [*range(100_000)]}}}, {"e": 99_999}, id="enum"),
    ],
)
def test_a_huge_schema_makes_a_form_of_bounded_size(schema, value):
    before = len(_instances)
    with closing(Form(schema)) as form:
        assert len(_instances) < before + 2000
        form.set_arguments(value)
        assert form.draft == value
        assert len(_instances) < before + 3000
