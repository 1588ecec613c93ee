from __future__ import annotations

import base64
import gc
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import PromptArgument

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import parse_arguments, parse_prompt_arguments
from mcp_magic.schema.fields import Field

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "real": {"type": "number"},
        "flag": {"type": "boolean"},
        "maybe": {"type": ["integer", "null"]},
        "color": {"oneOf": [{"const": "#f00", "title": "Red"}, {"const": 2, "title": "Green"}, {"const": "7"}]},
        "day": {"type": "string", "format": "date"},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"type": "integer"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "any": {},
        "either": {"type": ["integer", "string"]},
        "texts": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "scalar": {"type": ["integer", "boolean"]},
        "one_or_many": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        "code_or_n": {"anyOf": [{"type": "string", "pattern": "^[A-Z]+$"}, {"type": "integer"}]},
        "blob": {"type": "string", "contentEncoding": "base64"},
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "geo": {"$ref": "#/$defs/Geo"}},
            "required": ["city"],
        },
        "a.b": {"type": "integer"},
        "a": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "integer"}}},
        "bag": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "$defs": {"Geo": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}}},
}


@pytest.mark.parametrize(
    ("items", "arguments"),
    [
        *(([], {}), (["text=12"], {"text": "12"}), (["text="], {"text": ""}), (["text=a=b"], {"text": "a=b"})),
        *((["text=null"], {"text": "null"}), (["text=größe ☃"], {"text": "größe ☃"}), (["whole=12"], {"whole": 12})),
        *((["whole=-0012"], {"whole": -12}), (["whole=3.0"], {"whole": 3}), ([f"whole={2**80}"], {"whole": 2**80})),
        *(([f"whole:={2**80}"], {"whole": 2**80}), (["real=2.5"], {"real": 2.5}), (["real=1e3"], {"real": 1000.0})),
        *(([f"real={10**30}"], {"real": 10**30}), (["flag=yes"], {"flag": True}), (["flag=Off"], {"flag": False})),
        *((["flag=0"], {"flag": False}), (["maybe=null"], {"maybe": None}), (["maybe=5"], {"maybe": 5})),
        *((["color=#f00"], {"color": "#f00"}), (["color=Red"], {"color": "#f00"}), (["color=Green"], {"color": 2})),
        *((["color=2"], {"color": 2}), (["color=7"], {"color": "7"}), (["day=2026-02-28"], {"day": "2026-02-28"})),
        *((["when=2026-02-28T10:00:00Z"], {"when": "2026-02-28T10:00:00Z"}), (["tags=a"], {"tags": ["a"]})),
        (["tags=a", "tags=b", "whole=1"], {"tags": ["a", "b"], "whole": 1}),
        *((['tags=["a", "b"]'], {"tags": ["a", "b"]}), (["tags=[draft"], {"tags": ["[draft"]})),
        *((["tags:=[]"], {"tags": []}), (["ids=1", "ids=2"], {"ids": [1, 2]})),
        *((["grid=[1,2]", "grid=[3]"], {"grid": [[1, 2], [3]]}), (["any=5"], {"any": "5"})),
        *((["any:=5.0"], {"any": 5.0}), (["any:=null"], {"any": None}), (["either=5"], {"either": 5})),
        *((["either=5.5"], {"either": "5.5"}), (["either=007"], {"either": "007"})),
        *((["either=[5]"], {"either": "[5]"}), (['any={"a": 1}'], {"any": {"a": 1}})),
        *((["any=[1, 2]"], {"any": [1, 2]}), (["any=[1, 2"], {"any": "[1, 2"}), (["any=true"], {"any": "true"})),
        *((["whole=1_000"], {"whole": 1000}), (["whole=1e3"], {"whole": 1000}), (["real=1_000.5"], {"real": 1000.5})),
        *((['texts={"a": 1}'], {"texts": '{"a": 1}'}), (['texts=["a", "b"]'], {"texts": ["a", "b"]})),
        *((["texts=[1]"], {"texts": "[1]"}), (["scalar=5"], {"scalar": 5}), (["scalar=true"], {"scalar": True})),
        *((["one_or_many=5"], {"one_or_many": 5}), (["one_or_many=[5]"], {"one_or_many": [5]})),
        *((["one_or_many=5", "one_or_many=6"], {"one_or_many": [5, 6]}), (["code_or_n=ABC"], {"code_or_n": "ABC"})),
        (["code_or_n=12"], {"code_or_n": 12}),
        (["place.city=Oslo", "place.geo.lat=59.9"], {"place": {"city": "Oslo", "geo": {"lat": 59.9}}}),
        *((['place={"city": "Oslo"}'], {"place": {"city": "Oslo"}}), (["a.b=1"], {"a.b": 1})),
        *((["a.c=1"], {"a": {"c": 1}}), ([r"a\.b=1"], {"a.b": 1}), (["bag.x=1", "bag.y=2"], {"bag": {"x": 1, "y": 2}})),
        *((["any.x.y=1"], {"any": {"x": {"y": "1"}}}), ([r"text=\$5"], {"text": "$5"})),
        *(([r"text=\{x}"], {"text": "{x}"}), ([r"text=\@me"], {"text": "@me"}), ([r"text=\\$5"], {"text": r"\$5"})),
        *(([r"text=\server\share"], {"text": r"\server\share"}), (["text=$5"], {"text": "$5"})),
        *((["text=@"], {"text": "@"}), (["text={"], {"text": "{"})),
    ],
)
def test_an_argument_becomes_what_the_schema_asks_for(items: list[str], arguments: dict[str, Any]) -> None:
    # repr tells 1 from 1.0 and True.
    assert repr(parse_arguments(items, SCHEMA, evaluate=pytest.fail)) == repr(arguments)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["whole=abc"], "whole: expected integer, got 'abc'"),
        (["whole=1.5"], "whole: expected integer, got '1.5'"),
        (["whole="], "whole: expected integer, got ''"),
        (["real=nan"], "real: expected number, got 'nan'"),
        (["real=1e999"], "real: expected number, got '1e999'"),
        (["flag=maybe"], "flag: expected boolean, got 'maybe'"),
        (["maybe=none"], "maybe: expected integer or null, got 'none'"),
        (["color=Blue"], "color: expected one of '#f00', 2, '7', got 'Blue'"),
        (["day=2026-02-30"], "day: expected string (date), got '2026-02-30'"),
        (["when=tomorrow"], "when: expected string (date-time), got 'tomorrow'"),
        (["ids=1", "ids=x"], "ids[1]: expected integer, got 'x'"),
        (["ids=1,2,3"], "ids: expected list of integer, got '1,2,3'; several are ids=A ids=B"),
        (["place.geo.lat=north"], "place.geo.lat: expected number, got 'north'"),
        (["whole=1", "whole=2"], "whole is given 2 times; it takes one value (integer)"),
        (["place:={}", "place.city=x"], "place is given whole and in parts (place.city); give one of them"),
        (["whole.x=1"], "unknown argument 'whole.x'. It takes no names"),
        (["place.cty=x"], "unknown argument 'place.cty'. Did you mean 'city'? It takes city, geo"),
        (["Oslo"], "cannot read 'Oslo' as an argument: write name=value, name:=json, or $dict for all arguments"),
        (["text=Ada", "Lovelace"], "cannot read 'Lovelace' as an argument; quote it: text='Ada Lovelace'"),
        (["text=it's", "fine", "whole=1"], "cannot read 'fine' as an argument; quote it: text=\"it's fine\""),
        (["text", "=", "Ada"], "cannot read 'text' as an argument; without spaces around the =: text=Ada"),
        (["text", "=", "Ada", "L"], "cannot read 'text' as an argument; without spaces around the =: text='Ada L'"),
        (["text", "=Ada"], "cannot read 'text' as an argument; without spaces around the =: text=Ada"),
        (["text=", "Ada"], "cannot read 'Ada' as an argument; without spaces around the =: text=Ada"),
        (["whole", ":=", "3"], "cannot read 'whole' as an argument; without spaces around the =: whole:=3"),
        (["text=two\\", "words"], "cannot read 'words' as an argument; quote it: text='two words'"),
        (
            ["any.api_key=s3cret", "rest"],
            "cannot read the words after 'any.api_key=' as one argument; quote it: any.api_key='...'",
        ),
        (
            ["tags=[a,", "b]"],
            'cannot read \'b]\' as an argument; a list is JSON: tags=["a", "b"], or Python in braces: tags={[a, b]}',
        ),
        (
            ["ids:=[1"],
            "ids: the value after := is not JSON: Expecting ',' delimiter at column 3; for text write ids=text",
        ),
        (["real:=NaN"], "real: the value after := is not JSON: NaN is not JSON; for text write real=text"),
        (["whole=" + "9" * 5000], "whole: expected integer, got '" + "9" * 32 + "..." + "9" * 23 + "…"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(items: list[str], message: str) -> None:
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(items, SCHEMA)
    assert str(raised.value) == message


def test_an_unknown_name_says_what_was_meant_and_what_there_is() -> None:
    schema = {"type": "object", "properties": {"location": {"type": "string"}, "units": {"type": "string"}}}
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["locaton=Oslo"], schema)
    assert str(raised.value) == "unknown argument 'locaton'. Did you mean 'location'? It takes location, units"


def test_an_unknown_name_is_taken_where_the_schema_is_open() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert parse_arguments(["a=1", "b=2"], schema) == {"a": "1", "b": 2}
    assert parse_arguments(["x=2"], {"type": "object"}) == {"x": "2"}


def test_a_secrets_value_is_not_repeated() -> None:
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["api_key=hunter2"], {"properties": {"api_key": {"type": "integer"}}})
    assert str(raised.value) == "api_key: expected integer, got ***"


def test_objects_come_from_the_callers_scope() -> None:
    scope = {"n": 2**70, "rows": [{"a": 1}, {"a": None}]}

    def evaluate(source: str) -> Any:
        return eval(source, {}, scope)

    items = ["whole=$n", "any=$rows", "real={n / 2}", "ids={[n, n + 1]}", "text={'{' + str(n)}", 'place={"city": "x"}']
    assert parse_arguments(items, SCHEMA, evaluate=evaluate) == {
        "whole": 2**70,
        "any": [{"a": 1}, {"a": None}],
        "real": 2.0**69,
        "ids": [2**70, 2**70 + 1],
        "text": "{" + str(2**70),
        "place": {"city": "x"},
    }


@pytest.mark.parametrize(
    "items",
    [
        *(["$given"], ['{"text": "a", "place": {"city": "Oslo"}}'], ["{dict(given)}"]),
        *(["{'text': 'a', **{'place': {'city': 'Oslo'}}}"], ["place.city=Oslo", "$other", "text=a"]),
    ],
)
def test_one_object_is_all_arguments_and_what_is_named_counts(items: list[str]) -> None:
    scope = {"given": {"text": "a", "place": {"city": "Oslo"}}, "other": {"text": "b", "place": None}}
    found = parse_arguments(items, SCHEMA, evaluate=lambda source: eval(source, {}, scope))
    assert found == scope["given"]
    assert scope["other"] == {"text": "b", "place": None}


def test_a_prompt_takes_one_object_too_and_its_values_as_text() -> None:
    scope = {"given": {"city": "Oslo", "days": 2}}
    prompt = [PromptArgument(name="city", required=True), PromptArgument(name="days")]
    assert parse_prompt_arguments(["$given"], prompt, evaluate=scope.__getitem__) == {"city": "Oslo", "days": "2"}
    assert parse_prompt_arguments(['{"city": "Rome"}', "days=3"], prompt) == {"city": "Rome", "days": "3"}


def test_a_value_alone_is_no_dict_of_arguments() -> None:
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["$city"], SCHEMA, evaluate={"city": "Oslo"}.__getitem__)
    assert str(raised.value) == (
        "cannot read '$city' as arguments: it is str, not a dict of all arguments; write name=$city for one of them"
    )


def test_a_dict_in_its_own_braces_is_one_value() -> None:
    found = parse_arguments(["place={'city': 'Os' + end}"], SCHEMA, evaluate=lambda source: eval(source, {"end": "lo"}))
    assert found == {"place": {"city": "Oslo"}}


def test_each_of_repeated_objects_is_an_item() -> None:
    assert parse_arguments(["ids=$a", "ids=2"], SCHEMA, evaluate={"a": 1}.__getitem__) == {"ids": [1, 2]}


def test_failing_expression_names_argument_and_error() -> None:
    def evaluate(source: str) -> Any:
        return eval(source, {})

    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["whole=$missing"], SCHEMA, evaluate=evaluate)
    assert str(raised.value) == "whole: cannot evaluate 'missing': NameError: name 'missing' is not defined"


def test_an_exception_group_leaves_no_trace_in_the_error() -> None:
    def evaluate(source: str) -> Any:
        raise ExceptionGroup("many", [ValueError("one")])

    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["whole=$x"], SCHEMA, evaluate=evaluate)
    assert raised.value.__context__ is None


def test_without_a_scope_a_dollar_and_a_brace_are_text() -> None:
    assert parse_arguments(["text=$x", "any={x}"], SCHEMA) == {"text": "$x", "any": "{x}"}


def test_files_are_text_json_or_base64_as_the_schema_asks(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("null\n", encoding="utf-8")
    (tmp_path / "n.txt").write_text("42\n", encoding="utf-8")
    (tmp_path / "rows.json").write_text("[[1, 2], [3]]\n", encoding="utf-8-sig")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    items = ["text=@note.txt", "whole=@n.txt", "grid:=@rows.json", "blob=@note.txt", "any=@data.bin"]
    assert parse_arguments(items, SCHEMA, directory=tmp_path) == {
        "text": "null\n",
        "whole": 42,
        "grid": [[1, 2], [3]],
        "blob": base64.b64encode(b"null\n").decode(),
        "any": base64.b64encode(b"\xff\x00").decode(),
    }


def test_a_file_that_is_not_there_says_how_to_write_the_text(tmp_path: Path) -> None:
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["text=@ann"], SCHEMA, directory=tmp_path)
    where = str(tmp_path / "ann")
    assert str(raised.value) == f"text: cannot read {where!r}: no such file or directory; for the text write '\\@ann'"


def test_a_file_that_is_no_text_does_not_fit_a_number(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["whole=@data.bin"], SCHEMA, directory=tmp_path)
    assert str(raised.value) == "whole: expected integer, got a file that is not UTF-8 text"


def test_the_names_of_a_union_of_objects_can_be_given() -> None:
    schema = {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}},
            {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "integer"}}},
        ]
    }
    assert parse_arguments(["kind=square", "side=3"], schema) == {"kind": "square", "side": 3}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        *(({"enum": [1, True, "1"]}, "1", "1"), ({"enum": [1, True]}, "1", 1), ({"enum": [1, True]}, "yes", True)),
        *(({"enum": [1.0]}, "1.00", 1.0), ({"enum": [[1, 2]]}, "[1,2]", [1, 2])),
        *(({"enum": ["a"], "enumNames": ["Ann"]}, "Ann", "a"), ({"const": None}, "null", None)),
        ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer"}]}, "1234", 1234),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}]}, "2026-01-02", "2026-01-02"),
        ({"anyOf": [{"type": "object"}, {"type": "integer"}]}, '{"a": 1}', {"a": 1}),
        ({"anyOf": [{"enum": ["auto"]}, {"type": "integer"}]}, "auto", "auto"),
        *(({"properties": {"a": {}}}, "text", "text"), ({"type": "array"}, "a", ["a"])),
        ({"type": "array", "items": False}, "a", ["a"]),
    ],
)
def test_a_text_is_the_value_that_fits_best(schema: dict[str, Any], text: str, value: Any) -> None:
    assert repr(parse_arguments([f"x={text}"], {"properties": {"x": schema}})) == repr({"x": value})


def test_json_from_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\xff\x00")
    with pytest.raises(ArgumentsError, match=r"^any: the file is not UTF-8 text, so it is not JSON$"):
        parse_arguments(["any:=@data.bin"], SCHEMA, directory=tmp_path)


def test_a_union_nothing_fits_says_what_would() -> None:
    schema = {"properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}}}
    with pytest.raises(ArgumentsError, match=r"^x: expected integer or boolean, got 'soon'$"):
        parse_arguments(["x=soon"], schema)


def test_the_next_line_of_a_tool_does_not_read_its_schema_again() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/N"}, "b": {"type": "number"}}, "$defs": {"N": {"type": "integer"}}}

    def functions_entered() -> int:
        entered = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal entered
            entered += event == "call"

        sys.setprofile(count)
        try:
            assert parse_arguments(["a=1", "b=2"], schema) == {"a": 1, "b": 2}
        finally:
            sys.setprofile(None)
        return entered

    first = functions_entered()
    assert functions_entered() < first / 2


def test_a_changed_definition_is_read_anew() -> None:
    for _ in range(300):
        for kind, value in (("integer", 1), ("string", "1")):
            assert parse_arguments(["a=1"], {"properties": {"a": {"type": kind}}}) == {"a": value}


def test_a_tool_is_read_alike_however_often_it_was_called() -> None:
    lists = {"type": "array", "items": {"type": "integer"}}
    schema = {"type": "object", "additionalProperties": lists, "properties": {"all": {"allOf": [lists] * 60}}}
    for number in range(6_000):  # each takes a part of the schema's budget
        assert parse_arguments([f"n{number}=1", "all=2"], schema) == {f"n{number}": [1], "all": [2]}


def test_deep_lines_keep_few_schema_fields() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdefgh"}}
    schema["properties"]["n"] = {"type": "integer"}

    def kept() -> int:
        gc.collect()
        return sum(type(each) is Field for each in gc.get_objects())

    before = kept()
    for number in range(0o10_000):
        path = ".".join("abcdefgh"[int(digit)] for digit in f"{number:04o}")
        parse_arguments([f"{path}.n=1"], schema)
    assert kept() - before < 1_000
