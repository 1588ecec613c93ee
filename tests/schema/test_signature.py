from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, Literal

import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import UNSET, bind_arguments, make_docstring, make_signature, prepare_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 10, "description": "How many"},
        "city": {"type": "string", "description": "Where"},
        "unit": {"enum": ["c", "f"]},
        "when": {"type": ["string", "null"], "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city", "tags"],
}


def bound(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return prepare_arguments(bind_arguments(make_signature(SCHEMA), SCHEMA, args, kwargs), SCHEMA)[0]


def fails(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(ArgumentsError) as raised:
        bound(*args, **kwargs)
    return str(raised.value)


def test_an_argument_may_be_called_self() -> None:
    schema = {"properties": {"self": {"type": "string"}, "arguments": {}}, "required": ["self"]}
    assert str(make_signature(schema)) == "(self: str, *, arguments: Any = unset)"
    assert bind_arguments(make_signature(schema), schema, ("x",), {}) == {"self": "x"}


def test_required_arguments_come_first_and_optional_ones_by_name() -> None:
    assert str(make_signature(SCHEMA)) == (
        "(city: str, tags: list[str], *, limit: int = 10, unit: Literal['c', 'f'] = unset, when: str | None = unset)"
    )


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        *(({"type": "number"}, float), ({"type": "boolean"}, bool), ({"type": "null"}, None), ({}, Any)),
        *(({"type": ["integer", "null"]}, int | None), ({"type": ["integer", "string"]}, int | str)),
        *(({"anyOf": [{"type": "integer"}, {}]}, Any), ({"enum": ["a", 1, True, None]}, Literal["a", 1, True] | None)),
        *(({"enum": [1.5]}, Any), ({"const": "x"}, Literal["x"]), ({"type": "array"}, list[Any])),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, list[list[float]]),
        *(({"type": "object"}, dict[str, Any]), ({"type": "object", "properties": {"a": {}}}, dict[str, Any])),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, dict[str, int]),
        ({"type": "string", "contentEncoding": "base64"}, str | bytes),
        ({"$ref": "#/$defs/Loop"}, list[list[list[list[list[Any]]]]]),
    ],
)
def test_a_field_has_a_type_hint(schema: dict[str, Any], hint: Any) -> None:
    root = {"properties": {"x": schema}, "$defs": {"Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}}}}
    assert make_signature(root).parameters["x"].annotation == hint


def test_names_that_python_cannot_write_go_into_arguments() -> None:
    schema = {"properties": {"a-b": {"type": "integer"}, "class": {}, "arguments": {}, "ok": {}}, "required": ["a-b"]}
    signature = make_signature(schema)
    assert list(signature.parameters) == ["arguments", "ok", "arguments_"]
    assert signature.parameters["arguments_"].kind is inspect.Parameter.VAR_KEYWORD
    assert bind_arguments(signature, schema, (), {"a-b": 1, "class": 2}) == {"a-b": 1, "class": 2}


def test_help_says_how_to_give_what_python_cannot_write() -> None:
    schema = {"properties": {"max-width": {"type": "integer"}, "class": {}, "ok": {}}, "required": ["max-width"]}
    said = "Python cannot write max-width, class as a keyword: give **{'max-width': ..., 'class': ...}."
    assert said in make_docstring("t", None, None, schema)
    assert "Python cannot" not in make_docstring("t", None, None, SCHEMA)
    with pytest.raises(ArgumentsError) as raised:
        bind_arguments(make_signature(schema), schema, (), {})
    assert str(raised.value) == "missing: max-width (integer); give it as **{'max-width': ...}"


def test_required_with_default_is_optional_or_positional() -> None:
    schema = {
        "properties": {"scale": {"enum": ["css", "px"], "default": "css"}, "x": {"default": 1}, "n": {}},
        "required": ["scale", "n"],
    }
    signature = make_signature(schema)
    assert str(signature) == "(n: Any, scale: Literal['css', 'px'] = 'css', *, x: Any = 1)"
    assert bind_arguments(signature, schema, (1,), {}) == {"n": 1}
    assert bind_arguments(signature, schema, (1, "px"), {}) == {"n": 1, "scale": "px"}


def test_an_open_schema_takes_any_name_and_a_closed_one_does_not() -> None:
    assert str(make_signature({})) == "(**arguments: Any)"
    assert str(make_signature({"type": "object", "additionalProperties": False})) == "()"
    assert bind_arguments(make_signature({}), {}, (), {"x": 1}) == {"x": 1}


def test_what_is_left_out_or_unset_is_not_sent_and_none_is() -> None:
    assert bound("Oslo", ["a"]) == {"city": "Oslo", "tags": ["a"]}
    assert bound("Oslo", tags=("a",), unit=UNSET, when=None) == {"city": "Oslo", "tags": ["a"], "when": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        *(((), {}, "missing: city (string), tags (list of string)"), (("Oslo",), {}, "missing: tags (list of string)")),
        (("Oslo", [], 3), {}, "3 positional arguments given, and it takes 2 (city, tags); "
         "give the others by name, as limit=..."),
        (("Oslo",), {"city": "Rome"}, "city is given twice, by position and by name"),
        (("Oslo", []), {"limt": 3}, "unknown argument 'limt'. Did you mean 'limit'? "
         "It takes limit, city, unit, when, tags"),
        (("Oslo", [print]), {}, "tags[0]: cannot send a builtin_function_or_method object; expected string"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_is_wrong(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    assert fails(*args, **kwargs) == message


def test_the_docstring_has_the_arguments_and_what_is_returned() -> None:
    output = {"properties": {"temperature": {"type": "number"}}, "required": ["temperature"]}
    text = make_docstring("get_weather", "Weather", "  Tells it.\n\n  Soon.", SCHEMA, output)
    assert text == (
        "Weather\n\nTells it.\n\nSoon.\n\n"
        "Args:\n"
        "    limit (integer, optional, default 10): How many\n"
        "    city (string): Where\n"
        "    unit (one of 'c', 'f', optional)\n"
        "    when (string (date-time) or null, optional)\n"
        "    tags (list of string)\n\n"
        "Returns:\n"
        "    A ToolResult; its `.data` is object.\n"
        "        temperature (number)"
    )


def test_the_docstring_of_a_tool_that_says_nothing_is_its_name() -> None:
    assert make_docstring("ping", None, None, {"type": "object"}) == "ping"


def test_a_boxed_result_is_described_as_what_is_inside() -> None:
    boxed = {"properties": {"result": {"type": "integer"}}}
    assert make_docstring("add", None, None, {}, boxed) == "add\n\nReturns:\n    A ToolResult; its `.data` is integer."


def test_unset_survives_copies() -> None:
    assert copy.deepcopy(UNSET) is UNSET
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET
    assert not UNSET
