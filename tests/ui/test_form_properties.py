"""Whatever valid arguments a form is filled with, it gives back exactly those, by its fields and by its JSON."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from typing import Any

import ipywidgets
from hypothesis import given
from hypothesis import strategies as st
from ipywidgets.widgets.widget import _instances

from mcp_magic import schema as s
from mcp_magic.errors import ArgumentsError
from mcp_magic.ui.form import Form
from tests.support.schema_instances import exact
from tests.support.strategies import QUICK, anything_like_a_schema, called, json_values, objects


def is_valid(document: dict[str, Any], arguments: dict[str, Any]) -> bool:
    with suppress(ArgumentsError):
        s.check_arguments(arguments, document)
        return True
    return False


@QUICK
@given(called())
def test_fields_and_json_give_back_the_arguments(case):
    document, arguments = case
    with closing(Form(document)) as form:
        form.set_arguments(arguments)
        assert exact(form.draft) == exact(arguments)
        if is_valid(document, arguments):
            assert exact(form.arguments) == exact(arguments)
        form.toggle.value = True
        text = form._json.widget.value
        assert exact(json.loads(text)) == exact(arguments)
        form.toggle.value = False
        assert exact(form.draft) == exact(arguments)
        form.set_arguments({})
        form.toggle.value = True
        form._json.widget.value = text
        assert exact(form.draft) == exact(arguments)
        form.toggle.value = False
        assert exact(form.root.get()) == exact(arguments)


@QUICK
@given(st.tuples(objects, objects), st.data())
def test_arguments_replace_those_before_them(documents, data):
    document, values = documents[0]
    with closing(Form(document)) as form:
        for arguments in data.draw(st.lists(values, min_size=2, max_size=3)):
            form.set_arguments(arguments)
            assert exact(form.draft) == exact(arguments)


@QUICK
@given(called(), st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_arguments_that_do_not_fit_are_shown_as_well(case, arguments):
    document, _ = case
    with closing(Form(document)) as form:
        form.set_arguments(arguments)
        assert exact(form.draft) == exact(arguments)
        valid = is_valid(document, arguments)
        assert bool(form.problems) is not valid


@QUICK
@given(anything_like_a_schema, st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, max_size=3))
def test_any_document_makes_a_form_that_takes_any_arguments(document, arguments):
    with closing(Form(document)) as form:
        form.set_arguments(arguments)
        assert exact(form.draft) == exact(arguments)
        form.toggle.value = True
        assert exact(form.draft) == exact(arguments)


BUTTONS = (ipywidgets.Button, ipywidgets.ToggleButton, ipywidgets.Checkbox, ipywidgets.Dropdown)


@QUICK
@given(anything_like_a_schema | called().map(lambda case: case[0]), st.data())
def test_whatever_is_clicked_the_form_can_be_read(document, data):
    before = set(_instances)  # widgets of other tests are not to be clicked
    with closing(Form(document)) as form:
        for _ in range(6):
            made = [each for number, each in _instances.items() if number not in before and isinstance(each, BUTTONS)]
            widget = made[data.draw(st.integers(0, 1000)) % len(made)]
            if isinstance(widget, ipywidgets.Button):
                widget.click()
            elif isinstance(widget, ipywidgets.Dropdown):
                widget.value = len(widget.options) - 1
            else:
                widget.value = not widget.value
            json.dumps(form.draft)
            assert isinstance(form.problems, list)
