"""What a line of arguments becomes, and the line that is written for arguments."""

from __future__ import annotations

import base64
import contextlib
import gc
import shlex
import sys
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import PromptArgument

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import call_line, parse_arguments, parse_prompt_arguments, prompt_line
from mcp_magic.schema.fields import Field
from tests.support.raising import said
from tests.support.schemas import BOOLEAN, INTEGER, NUMBER, TEXT, either, listed, of
from tests.support.strategies import QUICK, anything_like_a_schema, called, json_values, names

COLORS = {"oneOf": [{"const": "#f00", "title": "Red"}, {"const": 2, "title": "Green"}, {"const": "7"}]}
PLACE = of("city", city=TEXT, geo={"$ref": "#/$defs/Geo"})
SCHEMA = {
    "type": "object",
    "properties": {"text": TEXT, "whole": INTEGER, "real": NUMBER, "flag": BOOLEAN, "any": {}, "color": COLORS}
    | {"day": {**TEXT, "format": "date"}, "when": {**TEXT, "format": "date-time"}, "tags": listed(TEXT)}
    | {"ids": listed(INTEGER), "grid": listed(listed(INTEGER)), "blob": {**TEXT, "contentEncoding": "base64"}}
    | {"maybe": {"type": ["integer", "null"]}, "either": {"type": ["integer", "string"]}}
    | {"scalar": {"type": ["integer", "boolean"]}, "code_or_n": either({**TEXT, "pattern": "^[A-Z]+$"}, INTEGER)}
    | {"texts": either(TEXT, listed(TEXT)), "one_or_many": either(INTEGER, listed(INTEGER)), "place": PLACE}
    | {"a.b": INTEGER, "a": of(b=TEXT, c=INTEGER), "bag": {"type": "object", "additionalProperties": INTEGER}},
    "$defs": {"Geo": of(lat=NUMBER, lon=NUMBER)},
}
TEXTS: dict[str, dict[str, Any]] = {
    "text": {text: text for text in ("12", "", "a=b", "null", "größe ☃", "$5", "@", "{", r"\server\share")}
    | {r"\$5": "$5", r"\{x}": "{x}", r"\@me": "@me", r"\\$5": r"\$5"},
    "whole": {"12": 12, "-0012": -12, "3.0": 3, "1_000": 1000, "1e3": 1000, str(2**80): 2**80},
    "real": {"2.5": 2.5, "1e3": 1000.0, "1_000.5": 1000.5, str(10**30): 10**30},
    "flag": {"yes": True, "Off": False, "0": False},
    "maybe": {"null": None, "5": 5},
    "color": {"#f00": "#f00", "Red": "#f00", "Green": 2, "2": 2, "7": "7"},
    "day": {"2026-02-28": "2026-02-28"},
    "when": {"2026-02-28T10:00:00Z": "2026-02-28T10:00:00Z"},
    "tags": {"a": ["a"], '["a", "b"]': ["a", "b"], "[draft": ["[draft"]},
    "any": {"5": "5", '{"a": 1}': {"a": 1}, "[1, 2]": [1, 2], "[1, 2": "[1, 2", "true": "true"},
    "either": {"5": 5, "5.5": "5.5", "007": "007", "[5]": "[5]"},
    "texts": {'{"a": 1}': '{"a": 1}', '["a", "b"]': ["a", "b"], "[1]": "[1]"},
    "scalar": {"5": 5, "true": True},
    "one_or_many": {"5": 5, "[5]": [5]},
    "code_or_n": {"ABC": "ABC", "12": 12},
    "place": {'{"city": "Oslo"}': {"city": "Oslo"}},
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_becomes_what_the_schema_asks_for(name):
    read = {text: parse_arguments([f"{name}={text}"], SCHEMA, evaluate=pytest.fail) for text in TEXTS[name]}
    assert repr(read) == repr({text: {name: value} for text, value in TEXTS[name].items()})  # it tells 1 from 1.0, True


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("", {}),
        (f"whole:={2**80}", {"whole": 2**80}),
        ("tags=a tags=b whole=1", {"tags": ["a", "b"], "whole": 1}),
        ("tags:=[]", {"tags": []}),
        ("ids=1 ids=2", {"ids": [1, 2]}),
        ("grid=[1,2] grid=[3]", {"grid": [[1, 2], [3]]}),
        ("any:=5.0", {"any": 5.0}),
        ("any:=null", {"any": None}),
        ("one_or_many=5 one_or_many=6", {"one_or_many": [5, 6]}),
        ("place.city=Oslo place.geo.lat=59.9", {"place": {"city": "Oslo", "geo": {"lat": 59.9}}}),
        ("a.b=1", {"a.b": 1}),
        ("a.c=1", {"a": {"c": 1}}),
        (r"a\.b=1", {"a.b": 1}),
        ("bag.x=1 bag.y=2", {"bag": {"x": 1, "y": 2}}),
        ("any.x.y=1", {"any": {"x": {"y": "1"}}}),
    ],
)
def test_words_become_arguments(line, arguments):
    assert repr(parse_arguments(line.split(), SCHEMA, evaluate=pytest.fail)) == repr(arguments)


UNFIT = {
    "integer": ["whole=abc", "whole=1.5", "whole="],
    "number": ["real=nan", "real=1e999", "place.geo.lat=north"],
    "boolean": ["flag=maybe"],
    "integer or null": ["maybe=none"],
    "integer or boolean": ["scalar=soon"],
    "one of '#f00', 2, '7'": ["color=Blue"],
    "string (date)": ["day=2026-02-30"],
    "string (date-time)": ["when=tomorrow"],
}


@pytest.mark.parametrize("kind", UNFIT)
def test_a_text_that_does_not_fit_is_refused_with_its_kind(kind):
    for item in UNFIT[kind]:
        name, _, text = item.partition("=")
        assert said(ArgumentsError, parse_arguments, [item], SCHEMA) == f"{name}: expected {kind}, got {text!r}"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["ids=1", "ids=x"], "ids[1]: expected integer, got 'x'"),
        (["ids=1,2,3"], "ids: expected list of integer, got '1,2,3'; several are ids=A ids=B"),
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
        (["any.api_key=s3cret", "rest"], "cannot read the words after 'any.api_key=' as one argument; quote it: "
         "any.api_key='...'"),
        (["tags=[a,", "b]"], "cannot read 'b]' as an argument; a list is JSON: tags=[\"a\", \"b\"], or Python in "
         "braces: tags={[a, b]}"),
        (["ids:=[1"], "ids: the value after := is not JSON: Expecting ',' delimiter at column 3; for text write "
         "ids=text"),
        (["real:=NaN"], "real: the value after := is not JSON: NaN is not JSON; for text write real=text"),
        (["whole=" + "9" * 5000], "whole: expected integer, got '" + "9" * 32 + "..." + "9" * 23 + "…"),
    ],
)  # fmt: skip
def test_words_that_do_not_fit_are_refused_in_one_line(items, message):
    assert said(ArgumentsError, parse_arguments, items, SCHEMA) == message


def test_an_unknown_name_is_taken_where_the_schema_is_open():
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert parse_arguments(["a=1", "b=2"], schema) == {"a": "1", "b": 2}
    assert parse_arguments(["x=2"], {"type": "object"}) == {"x": "2"}
    unknown = "unknown argument 'locaton'. Did you mean 'location'? It takes location, units"
    assert said(ArgumentsError, parse_arguments, ["locaton=Oslo"], of(location=TEXT, units=TEXT)) == unknown
    hidden = said(ArgumentsError, parse_arguments, ["api_key=hunter2"], of(api_key=INTEGER))
    assert hidden == "api_key: expected integer, got ***"


def test_objects_come_from_the_callers_scope():
    scope = {"n": 2**70, "rows": [{"a": 1}, {"a": None}], "end": "lo"}
    items = ["whole=$n", "any=$rows", "real={n / 2}", "ids={[n, n + 1]}", "text={'{' + str(n)}", 'place={"city": "x"}']
    whole = {"whole": 2**70, "any": [{"a": 1}, {"a": None}], "real": 2.0**69, "ids": [2**70, 2**70 + 1]}
    whole |= {"text": "{" + str(2**70), "place": {"city": "x"}}
    assert parse_arguments(items, SCHEMA, evaluate=lambda source: eval(source, {}, scope)) == whole
    place = parse_arguments(["place={'city': 'Os' + end}"], SCHEMA, evaluate=lambda source: eval(source, scope))
    assert place == {"place": {"city": "Oslo"}}  # a dict in its own braces
    assert parse_arguments(["ids=$a", "ids=2"], SCHEMA, evaluate={"a": 1}.__getitem__) == {"ids": [1, 2]}
    assert parse_arguments(["text=$x", "any={x}"], SCHEMA) == {"text": "$x", "any": "{x}"}  # without a scope


@pytest.mark.parametrize(
    "items",
    [
        ["$whole"],
        ['{"text": "a", "place": {"city": "Oslo"}}'],
        ["{dict(whole)}"],
        ["{'text': 'a', **{'place': {'city': 'Oslo'}}}"],
        ["place.city=Oslo", "$other", "text=a"],
    ],
)
def test_one_object_is_all_arguments_and_names_win(items):
    scope = {"whole": {"text": "a", "place": {"city": "Oslo"}}, "other": {"text": "b", "place": None}}
    assert parse_arguments(items, SCHEMA, evaluate=lambda source: eval(source, {}, scope)) == scope["whole"]
    assert scope["other"] == {"text": "b", "place": None}


def test_a_prompt_takes_one_object_and_its_values_as_text():
    scope = {"all": {"city": "Oslo", "days": 2}}
    prompt = [PromptArgument(name="city", required=True), PromptArgument(name="days")]
    assert parse_prompt_arguments(["$all"], prompt, evaluate=scope.__getitem__) == {"city": "Oslo", "days": "2"}
    assert parse_prompt_arguments(['{"city": "Rome"}', "days=3"], prompt) == {"city": "Rome", "days": "3"}


def test_objects_that_fail_or_are_no_dict_are_refused():
    city = "cannot read '$city' as arguments: it is str, not a dict of all arguments; write name=$city for one of them"
    assert said(ArgumentsError, parse_arguments, ["$city"], SCHEMA, evaluate={"city": "Oslo"}.__getitem__) == city
    missing = "whole: cannot evaluate 'missing': NameError: name 'missing' is not defined"
    assert said(ArgumentsError, parse_arguments, ["whole=$missing"], SCHEMA, evaluate=lambda s: eval(s, {})) == missing

    def evaluate(source: str) -> Any:
        raise ExceptionGroup("many", [ValueError("one")])

    with pytest.raises(ArgumentsError) as raised:
        parse_arguments(["whole=$x"], SCHEMA, evaluate=evaluate)
    assert raised.value.__context__ is None  # a group would show its trace


def test_files_are_text_json_or_base64_by_the_schema(tmp_path):
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
    missing = f"cannot read {str(tmp_path / 'ann')!r}: no such file or directory"
    for item, message in (
        ("text=@ann", f"text: {missing}; for the text write '\\@ann'"),
        ("whole=@data.bin", "whole: expected integer, got a file that is not UTF-8 text"),
        ("any:=@data.bin", "any: the file is not UTF-8 text, so it is not JSON"),
    ):
        assert said(ArgumentsError, parse_arguments, [item], SCHEMA, directory=tmp_path) == message


def test_the_names_of_a_union_of_objects_are_taken():
    schema = {"oneOf": [of(kind={"const": "circle"}, r=NUMBER), of(kind={"const": "square"}, side=INTEGER)]}
    assert parse_arguments(["kind=square", "side=3"], schema) == {"kind": "square", "side": 3}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"enum": [1, True, "1"]}, "1", "1"),
        ({"enum": [1, True]}, "1", 1),
        ({"enum": [1, True]}, "yes", True),
        ({"enum": [1.0]}, "1.00", 1.0),
        ({"enum": [[1, 2]]}, "[1,2]", [1, 2]),
        ({"enum": ["a"], "enumNames": ["Ann"]}, "Ann", "a"),
        ({"const": None}, "null", None),
        (either({**TEXT, "maxLength": 2}, INTEGER), "1234", 1234),
        (either({**TEXT, "format": "date"}, INTEGER), "2026-01-02", "2026-01-02"),
        (either({"type": "object"}, INTEGER), '{"a": 1}', {"a": 1}),
        (either({"enum": ["auto"]}, INTEGER), "auto", "auto"),
        ({"properties": {"a": {}}}, "text", "text"),
        ({"type": "array"}, "a", ["a"]),
        ({"type": "array", "items": False}, "a", ["a"]),
    ],
)
def test_a_text_is_the_value_that_fits_best(schema, text, value):
    assert repr(parse_arguments([f"x={text}"], {"properties": {"x": schema}})) == repr({"x": value})


def test_the_next_line_of_a_tool_reads_no_schema_again():
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
    for _ in range(300):  # a definition that changed is read anew
        for kind, value in (("integer", 1), ("string", "1")):
            assert parse_arguments(["a=1"], {"properties": {"a": {"type": kind}}}) == {"a": value}


def test_a_tool_is_read_alike_however_often_it_is_called():
    lists = {"type": "array", "items": {"type": "integer"}}
    schema = {"type": "object", "additionalProperties": lists, "properties": {"all": {"allOf": [lists] * 60}}}
    for number in range(6_000):  # each takes a part of the schema's budget
        assert parse_arguments([f"n{number}=1", "all=2"], schema) == {f"n{number}": [1], "all": [2]}


def test_deep_lines_keep_few_schema_fields():
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdefgh"}}
    schema["properties"]["n"] = {"type": "integer"}

    def kept() -> int:
        gc.collect()
        return sum(type(value) is Field for value in gc.get_objects())

    before = kept()
    for number in range(0o10_000):
        path = ".".join("abcdefgh"[int(digit)] for digit in f"{number:04o}")
        parse_arguments([f"{path}.n=1"], schema)
    assert kept() - before < 1_000


LOCATIONS = {"properties": {"locations": {"type": "array", "items": {"type": "string"}}}}
COLUMNS = {
    "likely": ("location", "locations=$df", "locations={df.location}"),
    "text": ("city", "locations={df}", "locations={df.city}"),
    "blank": ("the city", "locations=$df", 'locations={df["the city"]}'),
    "method": ("mode", "locations=$df", 'locations={df["mode"]}'),
    "part": ("city", "locations={df[:1]}", "locations={(df[:1]).city}"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_table_for_a_list_of_texts_names_a_column(name):
    column, written, line = COLUMNS[name]
    frame = pd.DataFrame([[1, "Oslo"]], columns=["n", column])

    def evaluate(source: str) -> Any:
        return eval(source, {"df": frame})

    refused = said(ArgumentsError, parse_arguments, [written], LOCATIONS, evaluate=evaluate)
    assert refused == f"locations: expected list of string, got a DataFrame; give one of its columns: {line}"
    assert parse_arguments([line], LOCATIONS, evaluate=evaluate) == {"locations": ["Oslo"]}


def read(line: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Read a line as the magic does: a scope is there, and nothing in the line may ask it."""
    words = shlex.split(line, posix=True)
    assert words[:3] == ["%mcp", "call", "srv:tool"]
    return parse_arguments(words[3:], schema, evaluate=pytest.fail)


@QUICK
@given(called())
@example(({"properties": {"a": {"type": ["string", "null"]}}}, {"a": "null"}))
@example(({"properties": {"a": {"minimum": 3}}}, {"a": "5"}))
def test_a_line_reads_back_as_the_arguments_it_is_for(case):
    schema, arguments = case
    assert repr(read(call_line("srv:tool", arguments, schema=schema), schema)) == repr(arguments)
    assert repr(read(call_line("srv:tool", arguments), schema)) == repr(arguments)


@QUICK
@given(st.dictionaries(names, json_values, max_size=3))
def test_a_line_reads_back_for_an_open_schema(arguments):
    line = call_line("srv:tool", arguments)
    assert repr(read(line, {"type": "object"})) == repr(arguments)
    assert len(line.splitlines()) == 1


@QUICK
@given(anything_like_a_schema, st.lists(st.sampled_from(["a=1", "b:=[1]", "a.b=x", "a=null", "b=[", "c={}"])))
def test_lines_for_any_document_are_read_or_refused(document, items):
    with contextlib.suppress(ArgumentsError):
        assert isinstance(parse_arguments(items, document), dict)


WRITTEN: dict[str, tuple[dict[str, Any], list[tuple[Any, str]]]] = {
    "n": (INTEGER, [(3, "n=3"), (2**80, f"n={2**80}")]),
    "at": (of(x=NUMBER), [({"x": 1.5}, "at.x=1.5")]),
    "tags": (
        listed(TEXT),
        [(["a", "b"], "tags=a tags=b"), (list("abcde"), """'tags:=["a", "b", "c", "d", "e"]'"""), ([], "'tags:=[]'")],
    ),
    "text": (
        TEXT,
        [
            *(("12", "text=12"), ("$5", r"'text=\$5'"), ("Zürich", "'text=Zürich'")),
            *(("a\nb", r"""'text:="a\nb"'"""), ("a\u2028b", r"""'text:="a\u2028b"'""")),
        ],
    ),
    "maybe": ({"type": ["string", "null"]}, [("null", """'maybe:="null"'"""), (None, "maybe:=null")]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_simplest_spelling_is_chosen(name):
    schema, lines = WRITTEN[name]
    for value, words in lines:
        written = call_line("srv:tool", {name: value}, schema={"properties": {name: schema}})
        assert written == f"%mcp call srv:tool {words}"


def test_a_line_escapes_names_and_refuses_no_json():
    assert call_line("t", {"--df": "x", "a.b": "y"}) == r"%mcp call t '\--df=x' 'a\.b=y'"
    assert prompt_line("srv:review", {"code": "x = 1", "n": "5"}) == "%mcp prompt srv:review 'code=x = 1' n=5"
    with pytest.raises(ArgumentsError, match=r"^x: no JSON value: "):
        call_line("t", {"x": float("nan")})
