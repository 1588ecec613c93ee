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
from tests.support.waiting import until
from tests.support.widgets import receive

if TYPE_CHECKING:
    from mcp_magic.ui.inputs import Entry


@pytest.fixture
def made():
    forms: list[Form] = []

    def make(properties: dict[str, Any], required: tuple[str, ...] = ()) -> Form:
        forms.append(Form({"type": "object", "properties": properties, "required": list(required)}))
        return forms[-1]

    yield make
    for form in forms:
        form.close()


def entry(form: Form, *path: str | int) -> Entry:
    place: Any = form.root
    for key in path:
        place = place.at(key)
    return place


def field(form: Form, *path: str | int) -> Any:
    """Return the widget of an entry."""
    return entry(form, *path).input.widget


def type_into(form: Form, text: Any, *path: str | int) -> None:
    field(form, *path).value = text


def problem(form: Form, *path: str | int) -> str:
    shown = entry(form, *path)._problem
    return shown.value if shown is not None else ""


def find(form: Form, kind: type[Any], words: str, *path: str | int) -> Any:
    """The widget of an entry that has this description or tooltip."""
    level = [entry(form, *path).widget]
    while True:
        for widget in level:
            if isinstance(widget, kind) and words in (widget.description, widget.tooltip):
                return widget
        level = [child for widget in level for child in getattr(widget, "children", ())]
        assert level, words


def tick(form: Form, box: str, *path: str | int, value: bool = True) -> None:
    words = {"send": f"send {path[-1]}", "null": f"{path[-1]} is null"}
    find(form, ipywidgets.Checkbox, words.get(box, box), *path).value = value


def click(form: Form, button: str, *path: str | int) -> None:
    find(form, ipywidgets.Button, button, *path).click()


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
def test_each_type_has_its_widget(made, schema, kind):
    assert type(field(made({"a": schema}), "a")) is kind


# Texts


def test_a_text_is_sent_once_it_was_touched_and_may_be_empty(made):
    form = made({"note": {"type": "string"}})
    assert form.arguments == {}
    for text in ("x", ""):
        type_into(form, text, "note")
        assert form.arguments == {"note": text}
    tick(form, "send", "note", value=False)
    assert form.arguments == {}
    form.set_arguments({"note": "a\r\nb"})
    assert isinstance(field(form, "note"), ipywidgets.Textarea)
    assert form.arguments == {"note": "a\r\nb"}


def test_unset_null_and_empty_differ(made):
    form = made({"note": {"type": ["string", "null"]}})
    seen = [form.arguments]
    for box, value in (("send", True), ("null", True), ("null", False)):
        tick(form, box, "note", value=value)
        seen.append(form.arguments)
    assert seen == [{}, {"note": ""}, {"note": None}, {}]
    form = made({"text": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, ("text",))
    assert form.problems == ["missing: text (string or null)"]
    tick(form, "null", "text")
    assert form.arguments == {"text": None}


def test_a_secret_is_a_password_whose_default_is_not_shown(made):
    form = made({"api_key": {"type": "string", "default": "hunter2"}})
    assert isinstance(entry(form, "api_key").input, inputs.PasswordInput)
    assert "hunter2" not in "".join(str(each.get_state()) for each in _instances.values())
    assert form.arguments == {}


@pytest.mark.parametrize(("format_", "bad", "good"), [("uri", "nowhere", "https://example.org"), ("email", "a", "a@b")])
def test_formats_are_checked_while_typing(made, format_, bad, good):
    form = made({"a": {"type": "string", "format": format_}})
    type_into(form, bad, "a")
    assert f"a: expected string ({format_}), got &#x27;{bad}&#x27;" in problem(form, "a")
    type_into(form, good, "a")
    assert problem(form, "a") == ""
    assert form.arguments == {"a": good}


# Numbers


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 10**300, -(2**64)], ids=["0", "-1", "2^53", "10^300", "-2^64"])
def test_integers_keep_every_digit(made, number):
    form = made({"n": {"type": "integer"}}, ("n",))
    type_into(form, f" {number} ", "n")
    assert form.arguments == {"n": number}
    form.set_arguments({})
    form.set_arguments({"n": number})
    assert field(form, "n").value == str(number)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "5.0", 5),
        ("integer", "1e2", 100),
        ("integer", "1e30", 10**30),
        ("integer", "123456789012345678901234567890.0", 123456789012345678901234567890),
        ("number", "1_000", 1000),
        ("number", "+5", 5),
        ("number", ".5", 0.5),
        ("number", "2.", 2.0),
        ("number", "1e3", 1000.0),
        ("number", "-0.0", -0.0),
    ],
)
def test_numbers_are_read_as_people_write_them(made, kind, text, value):
    form = made({"n": {"type": kind}}, ("n",))
    type_into(form, text, "n")
    assert repr(form.arguments) == repr({"n": value})
    form.set_arguments({"n": 5.0})
    assert repr(form.arguments) == "{'n': 5.0}", "what a program put there stays as it is"


def test_bad_number_is_explained_as_on_the_command_line(made):
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


def test_a_boolean_has_three_states_and_a_nullable_one_four(made):
    form = made({"b": {"type": "boolean", "default": True}, "n": {"type": ["boolean", "null"]}})
    menu = field(form, "b")
    assert [label for label, _ in menu.options] == ["not sent (default true)", "true", "false"]
    seen = []
    for number in (0, 1, 2, 0):
        menu.value = number
        seen.append(form.arguments)
    assert seen == [{}, {"b": True}, {"b": False}, {}]
    type_into(form, 3, "n")
    assert form.arguments == {"n": None}


def test_enums_keep_their_types(made):
    values = [1, True, "1", 1.5, None, "true"]
    form = made({"e": {"enum": values}}, ("e",))
    seen = []
    for number in range(1, len(field(form, "e").options)):
        type_into(form, number, "e")
        seen.append(form.arguments["e"])
    assert sorted(map(repr, seen)) == sorted(map(repr, values))


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"oneOf": [{"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}]}, id="oneOf"),
        pytest.param({"enum": ["s", "m"], "enumNames": ["Small", "Medium"]}, id="enumNames"),
    ],
)
def test_titled_enums_show_titles_and_send_values(made, schema):
    form = made({"size": schema}, ("size",))
    assert [label for label, _ in field(form, "size").options] == ["choose …", "Small", "Medium"]
    type_into(form, 2, "size")
    assert form.arguments == {"size": "m"}


def test_constant_is_sent_if_required_or_chosen(made):
    form = made({"kind": {"const": "circle"}, "mode": {"const": 1}, "nothing": {"type": "null"}}, ("kind", "nothing"))
    assert form.arguments == {"kind": "circle", "nothing": None}
    type_into(form, 1, "mode")
    assert form.arguments == {"kind": "circle", "nothing": None, "mode": 1}


def test_several_of_an_enum_are_ticked_and_keep_their_order(made):
    form = made({"t": {"type": "array", "items": {"enum": ["ham", "corn", "tuna"]}, "uniqueItems": True}})
    assert isinstance(entry(form, "t").input, inputs.SeveralInput)
    tick(form, "tuna", "t")
    steps = [("ham", True, {"t": ["tuna", "ham"]}), ("tuna", False, {"t": ["ham"]}), ("ham", False, {"t": []})]
    for box, value, arguments in [*steps, ("send", False, {})]:
        tick(form, box, "t", value=value)
        assert form.arguments == arguments
    form = made({"t": {"type": "array", "items": {"enum": ["ham", "corn"]}}})
    form.set_arguments({"t": ["ham", "ham"]})
    assert isinstance(entry(form, "t").input, inputs.ArrayInput), "each may come several times"
    assert form.arguments == {"t": ["ham", "ham"]}


# Dates, files


@pytest.mark.parametrize(
    ("format_", "picked", "sent"),
    [
        ("date", datetime.date(2026, 1, 31), "2026-01-31"),
        ("time", datetime.time(12, 30), "12:30:00"),
        ("date-time", datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), "2026-01-31T12:00:00+00:00"),
    ],
    ids=["date", "time", "both"],
)
def test_what_is_picked_is_sent_as_text(made, format_, picked, sent):
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
def test_a_text_with_a_format_comes_back_as_it_was(made, format_, text):
    form = made({"a": {"type": "string", "format": format_}})
    form.set_arguments({"a": text})
    assert form.draft == {"a": text}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        pytest.param({"contentEncoding": "base64", "contentMediaType": "image/png"}, "++//", id="encoding"),
        pytest.param({"format": "base64url"}, "--__", id="format"),
        pytest.param({"description": "The file, base64-encoded"}, "++//", id="description"),
    ],
)
def test_an_uploaded_file_is_sent_as_base64(made, schema, sent):
    form = made({"data": {"type": "string", **schema}}, ("data",))
    file = entry(form, "data").input
    assert isinstance(file, inputs.FileInput)
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    content = {"size": 3, "last_modified": when, "content": b"\xfb\xef\xff"}
    file.upload.value = ({"name": "<b>.png", "type": "image/png", **content},)
    assert form.arguments == {"data": sent}
    assert "&lt;b&gt;.png, 3 bytes" in file.note.value
    file.text.value = "aGk="
    assert form.arguments == {"data": "aGk="}
    assert file.upload.value == ()
    form.set_arguments({"data": "aGk=" * 1000})
    assert "4,000 characters" in entry(form, "data").input.note.value, "it is held, and only counted"
    assert form.arguments == {"data": "aGk=" * 1000}


# Objects, maps, arrays

ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}


def test_an_object_is_made_when_it_is_opened(made):
    form = made({"address": ADDRESS})
    count = len(_instances)
    assert entry(form, "address", "city") is None
    entry(form, "address").input._toggle.value = True
    assert len(_instances) > count
    assert form.arguments == {}, "looking into it sends nothing"
    type_into(form, "Oslo", "address", "city")
    assert form.arguments == {"address": {"city": "Oslo"}}
    for value, arguments in ((False, {}), (True, {"address": {}})):
        tick(form, "send", "address", value=value)
        assert form.arguments == arguments


def test_required_object_is_open_with_problems_at_fields(made):
    form = made({"a": {**ADDRESS, "required": ["city"]}}, ("a",))
    type_into(form, "x", "a", "zip")
    assert form.problems == ["missing: a.city (string)", "a.zip: expected integer, got 'x'"]
    assert "a.zip: expected integer" in problem(form, "a", "zip")
    assert problem(form, "a", "city") == ""
    form.submit()
    assert "missing: a.city (string)" in problem(form, "a", "city")
    form = made({"a": {"anyOf": [ADDRESS, {"type": "null"}]}}, ("a",))
    assert form.arguments == {"a": {}}
    tick(form, "null", "a")
    assert form.arguments == {"a": None}


def test_names_are_added_to_a_map_and_removed(made):
    form = made({"scores": {"type": "object", "additionalProperties": {"type": "number"}}}, ("scores",))
    names = entry(form, "scores").input._others()

    def add(name: str) -> None:
        names._name.value = name
        click(form, "add this name", "scores")

    add("Ada")
    assert (form.problems, form.arguments) == ([], {"scores": {}})
    type_into(form, "1.5", "scores", "Ada")
    assert form.arguments == {"scores": {"Ada": 1.5}}
    add("Ada")
    assert "is there already" in names._problem.value
    add("Bob")
    type_into(form, "2", "scores", "Bob")
    click(form, "remove Ada", "scores")
    assert form.arguments == {"scores": {"Bob": 2}}


def test_names_of_a_pattern_get_the_input_of_its_schema(made):
    form = made({"m": {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}}}, ("m",))
    form.set_arguments({"m": {"n_a": 1, "other": "x"}})
    assert isinstance(entry(form, "m", "n_a").input, inputs.NumberInput)
    assert isinstance(entry(form, "m", "other").input, inputs.JsonInput)


def test_items_are_added_and_removed(made):
    form = made({"tags": {"type": "array", "items": {"type": "string"}}})
    assert form.arguments == {}
    for number, text in enumerate("abc"):
        click(form, "Add", "tags")
        assert form.arguments["tags"][number] == ""
        type_into(form, text, "tags", number)
    for left in (["a", "b", "c"], ["a", "c"], ["a"]):
        assert form.arguments == {"tags": left}
        if len(left) > 1:
            click(form, "remove tags item 1", "tags")


def test_an_item_without_a_value_is_a_problem_at_its_place(made):
    form = made({"n": {"type": "array", "items": {"type": ["integer", "boolean"]}}})
    click(form, "Add", "n")
    assert form.problems == ["n[0]: expected integer or boolean, got nothing"]
    form.submit()
    assert "n[0]: expected integer or boolean, got nothing" in problem(form, "n", 0)


def test_numbers_of_a_list_are_typed_on_one_line(made):
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
    assert field(form, "n").value == "1, 100000000000000000000"


def test_items_of_a_tuple_change_their_kind_with_their_place(made):
    form = made({"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}})
    form.set_arguments({"pair": ["a", 1]})
    click(form, "remove pair item 0", "pair")
    assert form.draft == {"pair": [1]}
    assert "pair[0]: expected string, got 1" in problem(form, "pair", 0)


def test_a_long_list_is_edited_as_json(made):
    form = made({"n": {"type": "array", "items": {"type": ["integer", "boolean"]}}})
    count = len(_instances)
    form.set_arguments({"n": list(range(10_000))})
    assert len(_instances) < count + 10
    assert form.arguments == {"n": list(range(10_000))}
    type_into(form, "", "n")
    assert isinstance(entry(form, "n").input, inputs.ArrayInput), "once it is empty, the list is back"


# Unions, recursion, anything


def variant(title: str, kind: str, name: str, number: dict[str, Any]) -> dict[str, Any]:
    properties = {"kind": {"const": kind}, name: number}
    return {"title": title, "type": "object", "properties": properties, "required": ["kind", name]}


CIRCLE = variant("Circle", "circle", "radius", {"type": "number", "exclusiveMinimum": 0})
SHAPE = {"oneOf": [CIRCLE, variant("Box", "box", "width", {"type": "number"})]}


def test_a_variant_is_chosen_and_made_only_then(made):
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


def test_a_value_is_shown_by_the_variant_that_it_is_meant_for(made):
    a, b = ({"type": "object", "properties": {"id": {"type": "integer"}, own: {"type": "string"}}} for own in "ab")
    form = made({"shape": SHAPE, "v": {"type": ["integer", "boolean", "string", "null"]}, "w": {"anyOf": [a, b]}})
    form.set_arguments({"shape": {"kind": "box", "width": 1}, "v": "12", "w": {"id": 1, "b": "x"}})
    menus = {name: entry(form, name).input._menu for name in ("shape", "v", "w")}
    assert (menus["shape"].label, menus["v"].label) == ("Box", "string")
    assert menus["w"].value == 2, "equal variants: the one that lists the names"
    type_into(form, "y", "w", "b")
    assert form.arguments == {"shape": {"kind": "box", "width": 1}, "v": "12", "w": {"id": 1, "b": "y"}}
    menus["v"].value = 4
    assert form.arguments["v"] is None
    menus["v"].value = 0
    assert "v" not in form.arguments


NODE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
    },
    "required": ["name"],
}


def test_a_recursive_schema_is_made_as_far_as_it_is_opened():
    with closing(Form({"$ref": "#/$defs/node", "$defs": {"node": NODE}})) as form:
        assert len(_instances) < 60
        value = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}], "parent": None}
        form.set_arguments(value)
        assert form.arguments == value
        click(form, "Add", "children", 0, "children")
        type_into(form, "d", "children", 0, "children", 1, "name")
        assert form.arguments["children"][0]["children"] == [{"name": "c"}, {"name": "d"}]
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    with closing(Form(endless)) as form:
        assert form.draft == {"next": {"next": {"next": {"next": {}}}}}


def test_all_of_is_one_object(made):
    first = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    form = made({"item": {"allOf": [first, {"properties": {"name": {"type": "string"}}}]}}, ("item",))
    type_into(form, "1", "item", "id")
    type_into(form, "x", "item", "name")
    assert form.arguments == {"item": {"id": 1, "name": "x"}}


def test_an_untyped_field_takes_any_json_and_rejects_the_rest(made):
    form = made({"value": {}}, ("value",))
    for text, value in (("1", 1), ('"a"', "a"), ("null", None), ("[1, {}]", [1, {}])):
        type_into(form, text, "value")
        assert form.arguments == {"value": value}
    type_into(form, "abc", "value")
    assert "value: expected JSON" in problem(form, "value")
    assert "a text needs quotes" in problem(form, "value")
    with pytest.raises(ArgumentsError, match="value: expected JSON"):
        form.arguments


def test_defaults_are_shown_and_sent_only_if_touched_or_required(made):
    number = {"type": "integer", "default": 3}
    form = made({"text": {"type": "string", "default": "some"}, "n": number, "m": {"default": [1]}}, ("n",))
    assert field(form, "text").placeholder == "default 'some'"
    assert form.arguments == {"n": 3}
    tick(form, "send", "text")
    assert form.arguments == {"n": 3, "text": "some"}


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


def test_widgets_have_distinct_accessible_names(made):
    form = made(EVERY_KIND, ("text", "rows"))
    filled = {"text": "x", "tags": ["a", None], "rows": [{"x": 1}], "scores": {"Ada": 1}}
    form.set_arguments({**filled, "shape": {"kind": "box", "width": 1}})
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


def test_an_unfitting_field_says_so_in_its_name_and_box(made):
    form = made({"n": {"type": "integer"}, "m": {"type": "integer"}})
    number = field(form, "n")
    assert (number.description, number.tooltip) == ("n: integer", "")
    type_into(form, "x", "n")
    assert number.description == "n: integer; invalid: n: expected integer, got 'x'"
    assert "mcp-invalid" in number._dom_classes
    shown = entry(form, "n")._problem
    assert 'role="alert"' in shown.value
    assert entry(form, "n").widget.children[-1] is shown
    assert entry(form, "m")._problem is None
    type_into(form, "1", "n")
    assert number.description == "n: integer"
    assert "mcp-invalid" not in number._dom_classes
    assert shown not in entry(form, "n").widget.children


def test_enter_in_a_line_of_text_submits(made):
    form = made({"n": {"type": "integer"}})
    entered: list[bool] = []
    form.on_enter(lambda: entered.append(True))
    receive(field(form, "n"), {"event": "submit"})
    assert entered == [True]


async def test_new_item_gets_focus_unless_user_types_elsewhere(made, monkeypatch):
    focused: list[Any] = []
    monkeypatch.setattr(ipywidgets.Text, "focus", lambda widget: focused.append(widget))
    form = made({"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}})
    click(form, "Add", "tags")
    type_into(form, "A", "name")
    click(form, "Add", "tags")
    await until(lambda: focused)
    assert focused == [field(form, "tags", 1)], "the letters after A would go into the item"


# The table


def test_a_new_input_is_a_row_of_the_table(made):
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
    kinds = {"string", "integer", "number", "boolean", "null", "array", "object", "enum", "const", "union", "any"}
    assert set(inputs.FIELDS) == kinds
    assert inputs.FIELDS["object"] == [inputs.ObjectInput]
    assert inputs.DateInput in inputs.FIELDS["string"]
