"""What a person can enter, type by type. Setting a widget's value is what a frontend's message does."""

from __future__ import annotations

import datetime
from contextlib import closing
from typing import TYPE_CHECKING, Any

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

from mcp_magic.errors import ArgumentsError
from mcp_magic.ui import inputs
from mcp_magic.ui.form import Form
from tests.support.widgets import receive, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic.ui.inputs import Entry


@pytest.fixture
def made() -> Iterator[Any]:
    forms: list[Form] = []

    def make(properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> Form:
        form = Form({"type": "object", "properties": properties, "required": list(required), **more})
        forms.append(form)
        return form

    yield make
    for form in forms:
        form.close()


def entry(form: Form, *path: str | int) -> Entry:
    place: Any = form.root
    for key in path:
        place = place.at(key)
    return place


def type_into(form: Form, text: Any, *path: str | int) -> None:
    entry(form, *path).input.widget.value = text


def problem(form: Form, *path: str | int) -> str:
    shown = entry(form, *path)._problem
    return shown.value if shown is not None else ""


def find(entry_: Entry, kind: type[Any], description: str) -> Any:
    """The button of an entry that has this description or tooltip."""
    pending = [entry_.widget]
    while pending:
        widget = pending.pop(0)
        said = (getattr(widget, "description", None), getattr(widget, "tooltip", None))
        if isinstance(widget, kind) and description in said:
            return widget
        pending += getattr(widget, "children", ())
    raise AssertionError(f"no {kind.__name__} {description!r}")


def tick(form: Form, box: str, *path: str | int, value: bool = True) -> None:
    words = {"send": f"send {path[-1]}", "null": f"{path[-1]} is null"}
    find(entry(form, *path), ipywidgets.Checkbox, words.get(box, box)).value = value


def click(form: Form, button: str, *path: str | int) -> None:
    find(entry(form, *path), ipywidgets.Button, button).click()


# Texts


def test_a_text_is_sent_once_it_was_touched_and_may_be_empty(made: Any) -> None:
    form = made({"note": {"type": "string"}})
    assert form.arguments == {}
    type_into(form, "x", "note")
    assert form.arguments == {"note": "x"}
    type_into(form, "", "note")
    assert form.arguments == {"note": ""}
    tick(form, "send", "note", value=False)
    assert form.arguments == {}


def test_unset_null_and_empty_differ(made: Any) -> None:
    form = made({"note": {"type": ["string", "null"]}})
    seen = [form.arguments]
    tick(form, "send", "note")
    seen.append(form.arguments)
    tick(form, "null", "note")
    seen.append(form.arguments)
    tick(form, "null", "note", value=False)
    seen.append(form.arguments)
    assert seen == [{}, {"note": ""}, {"note": None}, {}]


def test_a_required_text_that_may_be_null_can_be_null(made: Any) -> None:
    form = made({"text": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, ("text",))
    assert form.problems == ["missing: text (string or null)"]
    tick(form, "null", "text")
    assert form.arguments == {"text": None}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, ipywidgets.Text),
        ({"type": "string", "maxLength": 5000}, ipywidgets.Textarea),
        ({"type": "string", "format": "markdown"}, ipywidgets.Textarea),
        ({"type": "string", "contentMediaType": "text/html"}, ipywidgets.Textarea),
        ({"type": "string", "default": "two\nlines"}, ipywidgets.Textarea),
        ({"type": "string", "format": "password"}, ipywidgets.Password),
        ({"type": "string", "writeOnly": True}, ipywidgets.Password),
        ({"type": "string", "format": "date"}, ipywidgets.DatePicker),
        ({"type": "string", "format": "time"}, ipywidgets.TimePicker),
        ({"type": "string", "format": "date-time"}, ipywidgets.DatetimePicker),
        ({"type": "integer"}, ipywidgets.Text),
        ({"type": "boolean"}, ipywidgets.Dropdown),
        ({"enum": [1, "a", None]}, ipywidgets.Dropdown),
        ({}, ipywidgets.Textarea),
        ({"not": {}}, ipywidgets.Textarea),
    ],
)
def test_each_type_has_its_widget(made: Any, schema: dict[str, Any], kind: type[Any]) -> None:
    assert type(entry(made({"a": schema}), "a").input.widget) is kind


def test_a_text_with_line_breaks_gets_lines_and_keeps_them(made: Any) -> None:
    form = made({"note": {"type": "string"}})
    form.set_arguments({"note": "a\r\nb"})
    assert isinstance(entry(form, "note").input.widget, ipywidgets.Textarea)
    assert form.arguments == {"note": "a\r\nb"}


def test_a_secret_by_its_name_is_a_password(made: Any) -> None:
    assert isinstance(entry(made({"api_key": {"type": "string"}}), "api_key").input, inputs.PasswordInput)


@pytest.mark.parametrize(("format_", "bad", "good"), [("uri", "nowhere", "https://example.org"), ("email", "a", "a@b")])
def test_formats_are_checked_while_typing(made: Any, format_: str, bad: str, good: str) -> None:
    form = made({"a": {"type": "string", "format": format_}})
    type_into(form, bad, "a")
    assert f"a: expected string ({format_}), got &#x27;{bad}&#x27;" in problem(form, "a")
    type_into(form, good, "a")
    assert problem(form, "a") == ""
    assert form.arguments == {"a": good}


# Numbers


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 10**300, -(2**64)])
def test_integers_keep_every_digit(made: Any, number: int) -> None:
    form = made({"n": {"type": "integer"}}, ("n",))
    type_into(form, f" {number} ", "n")
    assert form.arguments == {"n": number}
    form.set_arguments({})
    form.set_arguments({"n": number})
    assert entry(form, "n").input.widget.value == str(number)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5.0", 5), ("1e2", 100), ("1e30", 10**30), ("123456789012345678901234567890.0", 123456789012345678901234567890)],
)
def test_an_integer_is_sent_as_one_however_it_was_written(made: Any, text: str, value: int) -> None:
    form = made({"n": {"type": "integer"}}, ("n",))
    type_into(form, text, "n")
    assert repr(form.arguments) == repr({"n": value})
    form.set_arguments({"n": 5.0})
    assert repr(form.arguments) == "{'n': 5.0}", "what a program put there stays as it is"


@pytest.mark.parametrize(
    ("text", "value"), [("1_000", 1000), ("+5", 5), (".5", 0.5), ("2.", 2.0), ("1e3", 1000.0), ("-0.0", -0.0)]
)
def test_numbers_are_read_as_people_write_them(made: Any, text: str, value: float) -> None:
    form = made({"n": {"type": "number"}}, ("n",))
    type_into(form, text, "n")
    assert repr(form.arguments["n"]) == repr(value)


def test_bad_number_is_explained_as_on_the_command_line(made: Any) -> None:
    form = made({"n": {"type": "integer", "minimum": 1, "maximum": 10}}, ("n",))
    assert "integer, 1 to 10" in entry(form, "n")._label.value
    for text, got in (("abc", "&#x27;abc&#x27;"), ("11", "11"), ("1.5", "1.5"), ("1e999", "&#x27;1e999&#x27;")):
        type_into(form, text, "n")
        assert f"n: expected integer, 1 to 10, got {got}" in problem(form, "n")
        with pytest.raises(ArgumentsError, match="n: expected integer, 1 to 10"):
            form.arguments
    type_into(form, "", "n")
    assert form.problems == ["missing: n (integer)"]
    assert problem(form, "n") == "", "what was not entered yet is told when the form is submitted"
    assert form.submit() is False
    assert "missing: n (integer)" in problem(form, "n")


# Choices


def test_a_boolean_has_three_states(made: Any) -> None:
    form = made({"b": {"type": "boolean", "default": True}})
    menu = entry(form, "b").input.widget
    assert [label for label, _ in menu.options] == ["not sent (default true)", "true", "false"]
    seen = []
    for number in (0, 1, 2, 0):
        menu.value = number
        seen.append(form.arguments)
    assert seen == [{}, {"b": True}, {"b": False}, {}]


def test_a_nullable_boolean_has_four_states(made: Any) -> None:
    form = made({"b": {"type": ["boolean", "null"]}})
    type_into(form, 3, "b")
    assert form.arguments == {"b": None}


def test_enums_keep_their_types(made: Any) -> None:
    values = [1, True, "1", 1.5, None, "true"]
    form = made({"e": {"enum": values}}, ("e",))
    menu = entry(form, "e").input.widget
    seen = []
    for number in range(1, len(menu.options)):
        menu.value = number
        seen.append(form.arguments["e"])
    assert sorted(map(repr, seen)) == sorted(map(repr, values))


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}]},
        {"enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
    ],
)
def test_titled_enums_show_titles_and_send_values(made: Any, schema: dict[str, Any]) -> None:
    form = made({"size": schema}, ("size",))
    menu = entry(form, "size").input.widget
    assert [label for label, _ in menu.options] == ["choose …", "Small", "Medium"]
    menu.value = 2
    assert form.arguments == {"size": "m"}


def test_constant_is_sent_if_required_or_chosen(made: Any) -> None:
    form = made({"kind": {"const": "circle"}, "mode": {"const": 1}, "nothing": {"type": "null"}}, ("kind", "nothing"))
    assert form.arguments == {"kind": "circle", "nothing": None}
    type_into(form, 1, "mode")
    assert form.arguments == {"kind": "circle", "nothing": None, "mode": 1}


def test_several_of_an_enum_are_ticked_and_keep_their_order(made: Any) -> None:
    form = made({"t": {"type": "array", "items": {"enum": ["ham", "corn", "tuna"]}, "uniqueItems": True}})
    assert isinstance(entry(form, "t").input, inputs.SeveralInput)
    tick(form, "tuna", "t")
    tick(form, "ham", "t")
    assert form.arguments == {"t": ["tuna", "ham"]}
    tick(form, "tuna", "t", value=False)
    assert form.arguments == {"t": ["ham"]}
    tick(form, "ham", "t", value=False)
    assert form.arguments == {"t": []}
    tick(form, "send", "t", value=False)
    assert form.arguments == {}


def test_an_enum_several_times_is_a_list_of_menus(made: Any) -> None:
    form = made({"t": {"type": "array", "items": {"enum": ["ham", "corn"]}}})
    form.set_arguments({"t": ["ham", "ham"]})
    assert isinstance(entry(form, "t").input, inputs.ArrayInput)
    assert form.arguments == {"t": ["ham", "ham"]}


# Dates, files


@pytest.mark.parametrize(
    ("format_", "picked", "sent"),
    [
        ("date", datetime.date(2026, 1, 31), "2026-01-31"),
        ("time", datetime.time(12, 30), "12:30:00"),
        ("date-time", datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), "2026-01-31T12:00:00+00:00"),
    ],
)
def test_what_is_picked_is_sent_as_text(made: Any, format_: str, picked: Any, sent: str) -> None:
    form = made({"a": {"type": "string", "format": format_}})
    type_into(form, picked, "a")
    assert form.arguments == {"a": sent}
    type_into(form, None, "a")
    assert form.arguments == {}


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("date", "2026-01-31"),
        ("date", "not a date"),
        ("date", ""),
        ("time", "12:30"),
        ("time", "12:30:00Z"),
        ("date-time", "2026-01-31T12:00:00Z"),
        ("date-time", "2026-01-31T12:00:00.123456789+02:00"),
        ("date-time", "2026-01-31T12:00"),
        ("date-time", "0001-01-01T00:00:00+12:00"),
        ("date-time", "9999-12-31T23:59:59-12:00"),
    ],
)
def test_a_text_with_a_format_comes_back_as_it_was(made: Any, format_: str, text: str) -> None:
    form = made({"a": {"type": "string", "format": format_}})
    form.set_arguments({"a": text})
    assert form.draft == {"a": text}


def upload(data: bytes) -> dict[str, Any]:
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return {"name": "<b>.png", "type": "image/png", "size": len(data), "last_modified": when, "content": data}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"contentEncoding": "base64", "contentMediaType": "image/png"}, "++//"),
        ({"format": "base64url"}, "--__"),
        ({"description": "The file, base64-encoded"}, "++//"),
    ],
)
def test_an_uploaded_file_is_sent_as_base64(made: Any, schema: dict[str, Any], sent: str) -> None:
    form = made({"data": {"type": "string", **schema}}, ("data",))
    file = entry(form, "data").input
    assert isinstance(file, inputs.FileInput)
    file.upload.value = (upload(b"\xfb\xef\xff"),)
    assert form.arguments == {"data": sent}
    assert "&lt;b&gt;.png, 3 bytes" in file.note.value
    file.text.value = "aGk="
    assert form.arguments == {"data": "aGk="}
    assert file.upload.value == ()


def test_long_base64_is_held_and_only_counted(made: Any) -> None:
    form = made({"data": {"type": "string", "contentEncoding": "base64"}})
    form.set_arguments({"data": "aGk=" * 1000})
    assert "4,000 characters" in entry(form, "data").input.note.value
    assert form.arguments == {"data": "aGk=" * 1000}


# Objects, maps, arrays

ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}


def test_an_object_is_made_when_it_is_opened(made: Any) -> None:
    form = made({"address": ADDRESS})
    count = len(_instances)
    assert entry(form, "address", "city") is None
    entry(form, "address").input._toggle.value = True
    assert len(_instances) > count
    assert form.arguments == {}, "looking into it sends nothing"
    type_into(form, "Oslo", "address", "city")
    assert form.arguments == {"address": {"city": "Oslo"}}
    tick(form, "send", "address", value=False)
    assert form.arguments == {}
    tick(form, "send", "address")
    assert form.arguments == {"address": {}}


def test_required_object_is_open_with_problems_at_fields(made: Any) -> None:
    form = made({"a": {**ADDRESS, "required": ["city"]}}, ("a",))
    type_into(form, "x", "a", "zip")
    assert form.problems == ["missing: a.city (string)", "a.zip: expected integer, got 'x'"]
    assert "a.zip: expected integer" in problem(form, "a", "zip")
    assert problem(form, "a", "city") == ""
    form.submit()
    assert "missing: a.city (string)" in problem(form, "a", "city")


def test_a_required_object_that_may_be_null(made: Any) -> None:
    form = made({"a": {"anyOf": [ADDRESS, {"type": "null"}]}}, ("a",))
    assert form.arguments == {"a": {}}
    tick(form, "null", "a")
    assert form.arguments == {"a": None}


def test_names_are_added_to_a_map_and_removed(made: Any) -> None:
    form = made({"scores": {"type": "object", "additionalProperties": {"type": "number"}}}, ("scores",))
    names = entry(form, "scores").input._others()
    names._name.value = "Ada"
    click(form, "add this name", "scores")
    assert form.problems == ["missing: scores.Ada (number)"] or form.arguments == {"scores": {}}
    type_into(form, "1.5", "scores", "Ada")
    assert form.arguments == {"scores": {"Ada": 1.5}}
    names._name.value = "Ada"
    click(form, "add this name", "scores")
    assert "is there already" in names._problem.value
    names._name.value = "Bob"
    click(form, "add this name", "scores")
    type_into(form, "2", "scores", "Bob")
    click(form, "remove Ada", "scores")
    assert form.arguments == {"scores": {"Bob": 2}}


def test_names_of_a_pattern_get_the_input_of_its_schema(made: Any) -> None:
    form = made({"m": {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}}}, ("m",))
    form.set_arguments({"m": {"n_a": 1, "other": "x"}})
    assert isinstance(entry(form, "m", "n_a").input, inputs.NumberInput)
    assert isinstance(entry(form, "m", "other").input, inputs.JsonInput)


def test_items_are_added_and_removed(made: Any) -> None:
    form = made({"tags": {"type": "array", "items": {"type": "string"}}})
    assert form.arguments == {}
    for number, text in enumerate("abc"):
        click(form, "Add", "tags")
        assert form.arguments["tags"][number] == ""
        type_into(form, text, "tags", number)
    assert form.arguments == {"tags": ["a", "b", "c"]}
    find(entry(form, "tags"), ipywidgets.Button, "remove tags item 1").click()
    assert form.arguments == {"tags": ["a", "c"]}
    find(entry(form, "tags"), ipywidgets.Button, "remove tags item 1").click()
    assert form.arguments == {"tags": ["a"]}


def test_an_item_without_a_value_is_a_problem_at_its_place(made: Any) -> None:
    form = made({"n": {"type": "array", "items": {"type": ["integer", "boolean"]}}})
    click(form, "Add", "n")
    assert form.problems == ["n[0]: expected integer or boolean, got nothing"]
    form.submit()
    assert "n[0]: expected integer or boolean, got nothing" in problem(form, "n", 0)


def test_numbers_of_a_list_are_typed_on_one_line(made: Any) -> None:
    form = made({"n": {"type": "array", "items": {"type": "integer"}}, "x": {"type": ["integer", "number"]}})
    assert form.arguments == {}
    type_into(form, "3, 4,5", "n")
    type_into(form, "2", "x")
    assert form.arguments == {"n": [3, 4, 5], "x": 2}
    type_into(form, "[3, 4,]", "n")
    type_into(form, "2.5", "x")
    assert form.arguments == {"n": [3, 4], "x": 2.5}
    type_into(form, "3, four", "n")
    assert "n[1]: expected integer, got &#x27;four&#x27;" in problem(form, "n")
    form.set_arguments({"n": [1, 10**20]})
    assert entry(form, "n").input.widget.value == "1, 100000000000000000000"


def test_unfitting_field_says_so_in_its_name(made: Any) -> None:
    form = made({"n": {"type": "integer"}})
    field = entry(form, "n").input.widget
    assert (field.description, field.tooltip) == ("n: integer", "")
    type_into(form, "x", "n")
    assert field.description == "n: integer; invalid: n: expected integer, got 'x'"
    assert "mcp-invalid" in field._dom_classes
    type_into(form, "1", "n")
    assert field.description == "n: integer"
    assert "mcp-invalid" not in field._dom_classes


def test_enter_in_a_line_of_text_submits(made: Any) -> None:
    form = made({"n": {"type": "integer"}})
    entered: list[bool] = []
    form.on_enter(lambda: entered.append(True))
    receive(entry(form, "n").input.widget, {"event": "submit"})
    assert entered == [True]


async def test_a_new_item_gets_the_focus(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_magic.ui.widgets.DRAWN_SECONDS", 0.0)
    focused: list[Any] = []
    monkeypatch.setattr(ipywidgets.Text, "focus", lambda field: focused.append(field))
    form = made({"tags": {"type": "array", "items": {"type": "string"}}})
    click(form, "Add", "tags")
    await until(lambda: focused)
    assert focused == [entry(form, "tags", 0).input.widget]


def test_items_of_a_tuple_change_their_kind_with_their_place(made: Any) -> None:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}
    form = made({"pair": pair})
    form.set_arguments({"pair": ["a", 1]})
    find(entry(form, "pair"), ipywidgets.Button, "remove pair item 0").click()
    assert form.draft == {"pair": [1]}
    assert "pair[0]: expected string, got 1" in problem(form, "pair", 0)


def test_a_long_list_is_edited_as_json(made: Any) -> None:
    form = made({"n": {"type": "array", "items": {"type": ["integer", "boolean"]}}})
    count = len(_instances)
    form.set_arguments({"n": list(range(10_000))})
    assert len(_instances) < count + 10
    assert form.arguments == {"n": list(range(10_000))}
    type_into(form, "", "n")
    assert isinstance(entry(form, "n").input, inputs.ArrayInput), "once it is empty, the list is back"


# Unions, recursion, anything

SHAPE = {
    "oneOf": [
        {
            "title": "Circle",
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}},
            "required": ["kind", "radius"],
        },
        {
            "title": "Box",
            "type": "object",
            "properties": {"kind": {"const": "box"}, "width": {"type": "number"}},
            "required": ["kind", "width"],
        },
    ]
}


def test_a_variant_is_chosen_and_made_only_then(made: Any) -> None:
    form = made({"shape": SHAPE}, ("shape",))
    menu = entry(form, "shape").input._menu
    assert [label for label, _ in menu.options] == ["choose …", "Circle", "Box"]
    assert entry(form, "shape", "radius") is None
    menu.value = 1
    type_into(form, "-2", "shape", "radius")
    assert "shape.radius: expected number, more than 0, got -2" in problem(form, "shape", "radius")
    type_into(form, "2", "shape", "radius")
    assert form.arguments == {"shape": {"kind": "circle", "radius": 2}}
    menu.value = 2
    type_into(form, "3", "shape", "width")
    assert form.arguments == {"shape": {"kind": "box", "width": 3}}


def test_a_value_is_shown_by_the_variant_that_it_is_meant_for(made: Any) -> None:
    form = made({"shape": SHAPE, "v": {"type": ["integer", "boolean", "string", "null"]}})
    form.set_arguments({"shape": {"kind": "box", "width": 1}, "v": "12"})
    assert entry(form, "shape").input._menu.label == "Box"
    assert entry(form, "v").input._menu.label == "string"
    assert form.arguments == {"shape": {"kind": "box", "width": 1}, "v": "12"}
    entry(form, "v").input._menu.value = 4
    assert form.arguments["v"] is None
    entry(form, "v").input._menu.value = 0
    assert "v" not in form.arguments


def test_equal_variants_draw_the_one_listing_the_names(made: Any) -> None:
    a, b = ({"type": "object", "properties": {"id": {"type": "integer"}, own: {"type": "string"}}} for own in "ab")
    form = made({"v": {"anyOf": [a, b]}}, ("v",))
    form.set_arguments({"v": {"id": 1, "b": "x"}})
    assert entry(form, "v").input._menu.value == 2
    type_into(form, "y", "v", "b")
    assert form.arguments == {"v": {"id": 1, "b": "y"}}


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "parent": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["name"],
        }
    },
}


def test_a_recursive_schema_is_made_as_far_as_it_is_opened() -> None:
    with closing(Form(TREE)) as form:
        assert len(_instances) < 60
        value = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}], "parent": None}
        form.set_arguments(value)
        assert form.arguments == value
        click(form, "Add", "children", 0, "children")
        type_into(form, "d", "children", 0, "children", 1, "name")
        assert form.arguments["children"][0]["children"] == [{"name": "c"}, {"name": "d"}]


def test_a_schema_that_requires_itself_ends() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    with closing(Form(endless)) as form:
        assert form.draft == {"next": {"next": {"next": {"next": {}}}}}


def test_all_of_is_one_object(made: Any) -> None:
    parts = [
        {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}},
    ]
    form = made({"item": {"allOf": parts}}, ("item",))
    type_into(form, "1", "item", "id")
    type_into(form, "x", "item", "name")
    assert form.arguments == {"item": {"id": 1, "name": "x"}}


def test_anything_is_json_and_what_is_none_is_told(made: Any) -> None:
    form = made({"value": {}}, ("value",))
    for text, value in (("1", 1), ('"a"', "a"), ("null", None), ("[1, {}]", [1, {}])):
        type_into(form, text, "value")
        assert form.arguments == {"value": value}
    type_into(form, "abc", "value")
    assert "value: expected JSON" in problem(form, "value")
    assert "a text needs quotes" in problem(form, "value")
    with pytest.raises(ArgumentsError, match="value: expected JSON"):
        form.arguments


# Defaults


def test_defaults_are_shown_and_sent_only_if_touched_or_required(made: Any) -> None:
    form = made(
        {"text": {"type": "string", "default": "some"}, "n": {"type": "integer", "default": 3}, "m": {"default": [1]}},
        ("n",),
    )
    assert entry(form, "text").input.widget.placeholder == "default 'some'"
    assert form.arguments == {"n": 3}
    tick(form, "send", "text")
    assert form.arguments == {"n": 3, "text": "some"}


def test_the_default_of_a_secret_is_not_shown(made: Any) -> None:
    form = made({"password": {"type": "string", "default": "hunter2"}})
    assert "hunter2" not in "".join(str(each.get_state()) for each in _instances.values())
    assert form.arguments == {}


# Words for those who do not see where a widget stands

EVERY_KIND = {
    "text": {"type": ["string", "null"]},
    "number": {"type": "number"},
    "yes": {"type": "boolean"},
    "one": {"enum": ["a", "b"]},
    "several": {"type": "array", "items": {"enum": ["a", "b"]}},
    "day": {"type": "string", "format": "date"},
    "moment": {"type": "string", "format": "date-time"},
    "file": {"type": "string", "contentEncoding": "base64"},
    "tags": {"type": "array", "items": {"type": ["string", "null"]}},
    "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "scores": {"type": "object", "additionalProperties": {"type": "number"}},
    "shape": SHAPE,
    "whatever": {},
}
TYPED_OR_PRESSED = (
    *(ipywidgets.Text, ipywidgets.Textarea, ipywidgets.Password, ipywidgets.Dropdown, ipywidgets.Checkbox),
    *(ipywidgets.Button, ipywidgets.ToggleButton, ipywidgets.DatePicker, ipywidgets.DatetimePicker),
)


def test_widgets_have_distinct_accessible_names(made: Any) -> None:
    form = made(EVERY_KIND, ("text", "rows"))
    filled = {
        "text": "x",
        "tags": ["a", None],
        "rows": [{"x": 1}],
        "scores": {"Ada": 1},
        "shape": {"kind": "box", "width": 1},
    }
    form.set_arguments(filled)
    said: dict[str, set[str]] = {}
    for widget in list(_instances.values()):
        if isinstance(widget, TYPED_OR_PRESSED):
            # what a frontend makes the accessible name: the description, else the tooltip as the title
            said.setdefault(type(widget).__name__, set()).add(widget.description or widget.tooltip or "")
    assert {"text: string or null, required", "number: number", "tags item: string or null"} <= said["Text"]
    assert {"send several", "send tags", "text is null", "tags item is null"} <= said["Checkbox"]
    assert {"remove tags item 1", "remove Ada"} <= said["Button"]
    assert {"1 field of rows item", "names and values of scores"} <= said["ToggleButton"]
    assert not [names for names in said.values() if not all(name.strip() for name in names)]


def test_problem_is_announced_in_its_field_box(made: Any) -> None:
    form = made({"n": {"type": "integer"}, "m": {"type": "integer"}})
    type_into(form, "x", "n")
    shown = entry(form, "n")._problem
    assert 'role="alert"' in shown.value
    assert entry(form, "n").widget.children[-1] is shown
    assert entry(form, "m")._problem is None
    type_into(form, "1", "n")
    assert shown not in entry(form, "n").widget.children


# The table


def test_a_new_input_is_a_row_of_the_table(made: Any) -> None:
    class Shouting(inputs.TextInput):
        @classmethod
        def draws(cls, field: Any) -> bool:
            return field.format == "shout"

        def read(self, path: inputs.Path, unread: list[Any]) -> Any:
            return super().read(path, unread).upper()

    inputs.register("string")(Shouting)
    try:
        form = made({"a": {"type": "string", "format": "shout"}})
        type_into(form, "hi", "a")
        assert form.arguments == {"a": "HI"}
    finally:
        inputs.FIELDS["string"].remove(Shouting)


def test_every_kind_of_field_has_an_input() -> None:
    kinds = {"string", "integer", "number", "boolean", "null", "array", "object", "enum", "const", "union", "any"}
    assert set(inputs.FIELDS) == kinds
    assert inputs.FIELDS["object"] == [inputs.ObjectInput]
    assert inputs.DateInput in inputs.FIELDS["string"]


async def test_new_item_gets_focus_unless_user_types_elsewhere(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    focused: list[Any] = []
    monkeypatch.setattr(ipywidgets.Text, "focus", lambda widget: focused.append(widget))
    form = made({"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}})
    add = find(entry(form, "tags"), ipywidgets.Button, "Add")

    add.click()
    type_into(form, "A", "name")
    add.click()
    await until(lambda: focused)
    assert focused == [entry(form, "tags", 1).input.widget], "the letters after A would go into the item"
