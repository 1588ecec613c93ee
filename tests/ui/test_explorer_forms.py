"""What was typed into the forms of an explorer, and what becomes of it when something else is chosen."""

from __future__ import annotations

import asyncio
from typing import Any

from ipywidgets.widgets.widget import _instances as alive
from mcp_types import Tool

from mcp_magic.ui.explorer import MAX_FORMS
from tests.support.explorers import choose, explored, open_form, rows, silent, text
from tests.support.waiting import until


def fill(form: Any, name: str, value: str) -> None:
    """Type into a field, as the page does it."""
    form.form.root.at(name).input.widget.value = value


async def test_what_was_typed_is_there_when_the_item_is_chosen_again(explorer):
    form = open_form(explorer, "showcase:constrained")
    fill(form, "code", "ABC")
    fill(form, "even", "many")  # no number, so it is no argument; but it was typed
    other = open_form(explorer, "showcase:one_text")
    fill(other, "text", "other")
    explorer.filter.search.value = "showcase:constrained"
    choose(explorer, "showcase:constrained")
    assert explorer.detail.form is form
    assert form.widget in explorer.detail.widget.children
    assert form.form.root.at("even").input.widget.value == "many"
    assert form.form.draft["code"] == "ABC"
    explorer.detail.hide.click()
    explorer.filter.search.value = "showcase:one_text"
    choose(explorer, "showcase:one_text")
    assert explorer.detail.form is other
    assert other.form.draft == {"text": "other"}

    explorer.detail.back.click()
    assert explorer.detail.card in explorer.detail.widget.children
    explorer.detail.open.click()
    assert explorer.detail.form is not other, "Close form forgets what was typed"
    assert explorer.detail.form.form.draft == {}


async def test_a_form_that_nothing_was_done_in_is_closed(explorer):
    explorer.filter.search.value = "math:"
    explorer.choose(explorer.matches[0])
    before = set(alive)
    explorer.detail.open_form()
    explorer.choose(explorer.matches[1])
    assert explorer.detail.form is None
    assert set(alive) == before


async def test_a_call_goes_on_while_something_else_is_looked_at(explorer):
    form = open_form(explorer, "showcase:slow")
    form.set_arguments({"seconds": 0.2})
    task = asyncio.create_task(form.run())
    explorer.filter.search.value = "math:add"
    choose(explorer, "math:add")
    assert await task is form.result is not None
    explorer.filter.search.value = "showcase:slow"
    choose(explorer, "showcase:slow")
    assert explorer.detail.form is form


async def test_last_ten_forms_are_kept_and_running_one_goes_last(explorer):
    before = len(alive)
    running = open_form(explorer, "showcase:slow")
    running.set_arguments({"seconds": 600})
    task = asyncio.create_task(running.run())
    await until(lambda: running.running)
    explorer.filter.search.value = "math: showcase:hint"
    tools = [item for item in explorer._index.items("tools") if item.definition.input_schema.get("properties")]
    tools = [item for item in tools if item.key not in ("slow", "add")][: MAX_FORMS + 2]
    forms = []
    for item in tools:
        explorer.choose(item)
        explorer.detail.open_form()
        explorer.detail.form.form._on_input()  # as if somebody had typed
        forms.append(explorer.detail.form)
    explorer.detail.hide.click()
    assert [form.closed for form in forms] == [True] * 3 + [False] * (MAX_FORMS - 1)
    assert running.running
    explorer.close()
    explorer.close()
    assert all(form.closed for form in forms)
    assert running.closed
    assert await task is None  # cancelled
    assert len(alive) < before, "no comm of a kept form is left"


async def test_outdated_kept_form_hands_values_to_a_new_one(host):
    properties: dict[str, Any] = {"text": {"type": "string"}}
    tool = Tool(name="one", input_schema={"type": "object", "properties": properties})
    tools = await silent(host, tool)
    with explored(host, "silent") as explorer:
        form = open_form(explorer, "silent:one")
        fill(form, "text", "kept")
        more = {**properties, "more": {"type": "string"}}
        tools[:] = [Tool(name="one", input_schema={"type": "object", "properties": more})]
        await host["silent"].listing("tools", refresh=True)
        await until(lambda: explorer.detail.form is not form)  # while it is shown

        changed = explorer.detail.form
        assert form.closed
        assert changed.form.draft == {"text": "kept"}
        assert changed.form.root.at("more") is not None
        explorer.detail.hide.click()
        await host.reconnect("silent")
        await until(lambda: rows(explorer) == ["one"])
        choose(explorer, "silent:one")
        assert explorer.detail.form is changed, "the connection is the same"
        explorer.detail.hide.click()
        await silent(host, *tools)
        await until(lambda: rows(explorer) == ["one"])
        choose(explorer, "silent:one")
        assert explorer.detail.form.connection is host["silent"]
        assert explorer.detail.form.form.draft == {"text": "kept"}
        assert changed.closed
        assert text(explorer.detail.note) == ""
