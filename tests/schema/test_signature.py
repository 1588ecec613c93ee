"""The signature, the help and the calls of a tool as a function of Python."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, Literal

import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import UNSET, bind_arguments, make_docstring, make_signature, prepare_arguments
from tests.support.raising import said
from tests.support.schemas import INTEGER, NUMBER, TEXT, either, listed, of

SCHEMA = of(
    *("city", "tags"),
    limit={**INTEGER, "default": 10, "description": "How many"},
    city={**TEXT, "description": "Where"},
    unit={"enum": ["c", "f"]},
    day={"type": ["string", "null"], "format": "date-time"},
    tags=listed(TEXT),
)


SIGNATURE = "(city: str, tags: list[str], *, limit: int = 10, unit: Literal['c', 'f'] = unset, day: str | None = unset)"


def bound(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return prepare_arguments(bind_arguments(make_signature(SCHEMA), SCHEMA, args, kwargs), SCHEMA)[0]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        pytest.param(SCHEMA, SIGNATURE, id="required"),
        pytest.param(of("self", self=TEXT, arguments={}), "(self: str, *, arguments: Any = unset)", id="self"),
        pytest.param({}, "(**arguments: Any)", id="open"),
        pytest.param({"type": "object", "additionalProperties": False}, "()", id="closed"),
    ],
)
def test_required_arguments_come_first_and_others_by_name(schema, text):
    assert str(make_signature(schema)) == text


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        *((NUMBER, float), ({"type": "boolean"}, bool), ({"type": "null"}, None), ({}, Any), ({"enum": [1.5]}, Any)),
        *(({"type": ["integer", "null"]}, int | None), ({"type": ["integer", "string"]}, int | str)),
        *((either(INTEGER, {}), Any), ({"enum": ["a", 1, True, None]}, Literal["a", 1, True] | None)),
        *(({"const": "x"}, Literal["x"]), ({"type": "array"}, list[Any]), (listed(listed(NUMBER)), list[list[float]])),
        *(({"type": "object"}, dict[str, Any]), (of(a={}), dict[str, Any])),
        ({"type": "object", "additionalProperties": INTEGER}, dict[str, int]),
        ({**TEXT, "contentEncoding": "base64"}, str | bytes),
        ({"$ref": "#/$defs/Loop"}, list[list[list[list[list[Any]]]]]),
    ],
)
def test_a_field_has_a_type_hint(schema, hint):
    root = {"properties": {"x": schema}, "$defs": {"Loop": listed({"$ref": "#/$defs/Loop"})}}
    assert make_signature(root).parameters["x"].annotation == hint


def test_names_that_python_cannot_write_go_into_arguments():
    schema = of("a-b", **{"a-b": INTEGER, "class": {}, "arguments": {}, "ok": {}})
    signature = make_signature(schema)
    assert list(signature.parameters) == ["arguments", "ok", "arguments_"]
    assert signature.parameters["arguments_"].kind is inspect.Parameter.VAR_KEYWORD
    assert bind_arguments(signature, schema, (), {"a-b": 1, "class": 2}) == {"a-b": 1, "class": 2}
    help_of = "Python cannot write a-b, class as a keyword: give **{'a-b': ..., 'class': ...}."
    assert help_of in make_docstring("t", None, None, schema)
    assert "Python cannot" not in make_docstring("t", None, None, SCHEMA)
    missing = "missing: a-b (integer); give it as **{'a-b': ...}"
    assert said(ArgumentsError, bind_arguments, signature, schema, (), {}) == missing


def test_required_with_default_is_optional_or_positional():
    schema = of("scale", "n", scale={"enum": ["css", "px"], "default": "css"}, x={"default": 1}, n={})
    signature = make_signature(schema)
    assert str(signature) == "(n: Any, scale: Literal['css', 'px'] = 'css', *, x: Any = 1)"
    assert bind_arguments(signature, schema, (1,), {}) == {"n": 1}
    assert bind_arguments(signature, schema, (1, "px"), {}) == {"n": 1, "scale": "px"}


def test_omitted_arguments_are_not_sent_but_none_is():
    assert bound("Oslo", ["a"]) == {"city": "Oslo", "tags": ["a"]}
    assert bound("Oslo", tags=("a",), unit=UNSET, day=None) == {"city": "Oslo", "tags": ["a"], "day": None}
    assert bind_arguments(make_signature({}), {}, (), {"x": 1}) == {"x": 1}
    own = of("self", self=TEXT, arguments={})
    assert bind_arguments(make_signature(own), own, ("x",), {}) == {"self": "x"}
    assert copy.deepcopy(UNSET) is UNSET
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET
    assert not UNSET


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing: city (string), tags (list of string)"),
        (("Oslo",), {}, "missing: tags (list of string)"),
        (("Oslo", [], 3), {}, "3 positional arguments given, and it takes 2 (city, tags); "
         "give the others by name, as limit=..."),
        (("Oslo",), {"city": "Rome"}, "city is given twice, by position and by name"),
        (("Oslo", []), {"limt": 3}, "unknown argument 'limt'. Did you mean 'limit'? "
         "It takes limit, city, unit, day, tags"),
        (("Oslo", [print]), {}, "tags[0]: cannot send a builtin_function_or_method object; expected string"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_is_wrong(args, kwargs, message):
    assert said(ArgumentsError, bound, *args, **kwargs) == message


HELP = """\
Weather

Tells it.

Soon.

Args:
    limit (integer, optional, default 10): How many
    city (string): Where
    unit (one of 'c', 'f', optional)
    day (string (date-time) or null, optional)
    tags (list of string)

Returns:
    A ToolResult; its `.data` is object.
        temperature (number)"""


def test_the_docstring_has_the_arguments_and_what_is_returned():
    output = of("temperature", temperature=NUMBER)
    assert make_docstring("get_weather", "Weather", "  Tells it.\n\n  Soon.", SCHEMA, output) == HELP
    assert make_docstring("ping", None, None, {"type": "object"}) == "ping"
    boxed = "add\n\nReturns:\n    A ToolResult; its `.data` is integer."
    assert make_docstring("add", None, None, {}, {"properties": {"result": INTEGER}}) == boxed
