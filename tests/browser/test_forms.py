"""Forms as a person uses them: filled in and run in a real JupyterLab, reloaded, and read without a kernel."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.support.pages import (
    WAIT_MS,
    assert_readable,
    button,
    expect,
    field,
    finished,
    press,
    run,
    running,
    saved,
    start,
    themes,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

    from tests.support.lab import JupyterLab, Lab

pytestmark = pytest.mark.slow

ORDER = {
    "customer": {
        "name": "Ada",
        "email": "ada@example.com",
        "address": {"street": "Main Street 1", "postcode": "10115"},
    },
    "lines": [{"sku": "AB-1234", "quantity": 3, "price": 2.5}],
    "priority": "high",
}


def fill_order(form: Locator) -> None:
    field(form, "name").fill("Ada")
    field(form, "email").fill("ada@example.com")
    field(form, "street").fill("Main Street 1")
    field(form, "postcode").fill("10115")
    press(form, "Add")
    expect(field(form, "sku")).to_be_focused()  # letters typed elsewhere before that would go into it
    field(form, "sku").fill("AB-1234")
    field(form, "quantity").fill("3")
    field(form, "price").fill("2.5")
    field(form, "priority").select_option("high")


def test_a_nested_form_is_filled_by_its_labels_and_run(lab: Lab) -> None:
    form = run(lab, "form = %mcp form show:nested\nform")
    fill_order(form)
    press(form, "Run")

    expect(form.get_by_text("done in")).to_be_visible()
    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("7.5")  # 3 at 2.50
    lab.picture("form-nested", first=lab.cells.count() - 1)
    run(lab, "import json; print(json.dumps([form.arguments, form.result.data]))")
    lab.wait_outputs()
    arguments, receipt = json.loads(lab.outputs()[-1][0]["text"])
    assert arguments == {"order": ORDER}
    assert receipt["total"] == 7.5
    assert receipt["order"]["customer"]["address"] == {**ORDER["customer"]["address"], "country": "DE"}  # type: ignore[index]


@pytest.mark.firefox
def test_what_does_not_fit_is_said_below_its_field_and_not_sent(lab: Lab) -> None:
    form = run(lab, "form = %mcp form show:nested\nform")
    fill_order(form)
    postcode, quantity = field(form, "postcode"), field(form, "quantity")
    postcode.fill("12")
    quantity.fill("many")
    problems = form.locator(".mcp-problem")

    expect(problems).to_have_count(2)
    wrong_postcode = r"postcode: expected string, matches ^\d{5}$, got '12'"
    for place, said in ((postcode, wrong_postcode), (quantity, "quantity: expected integer")):
        entry = place.locator("xpath=ancestor::*[contains(@class, 'widget-vbox')][1]")
        expect(entry.locator(".mcp-problem")).to_contain_text(said)
    press(form, "Run")
    lab.picture("form-problems", first=lab.cells.count() - 1)
    expect(problems).to_have_count(2)
    expect(form.get_by_text("done in")).to_have_count(0)
    postcode.fill("10115")
    quantity.fill("2")
    expect(problems).to_have_count(0)
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()


@pytest.mark.firefox
def test_json_and_fields_stay_in_step(lab: Lab) -> None:
    form = run(lab, "form = %mcp form show:defaults\nform")
    field(form, "text").fill("typed")
    press(form, "Edit as JSON")
    area = form.locator("textarea")
    expect(area).to_have_value('{"text": "typed"}')
    area.fill('{"text": "written", "count": 12345678901234567890}')
    press(form, "Back to the fields")

    expect(field(form, "text")).to_have_value("written")
    expect(field(form, "count")).to_have_value("12345678901234567890")
    press(form, "Copy as code")
    line = form.get_by_label("Code", exact=True)
    expect(line).to_have_value("%mcp call show:defaults text=written count=12345678901234567890")
    assert line.evaluate("line => line.parentElement.offsetHeight") < 40, "it is one line high"
    press(form, "Run")
    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("12345678901234567890")


def test_a_call_that_takes_long_is_cancelled_by_its_button(lab: Lab) -> None:
    form = run(lab, "%mcp form show:slow seconds=600")
    press(form, "Run")
    expect(form.get_by_text("started")).to_be_visible()
    press(form, "Cancel")

    expect(form.get_by_text("cancelled after")).to_be_visible()
    expect(button(form, "Run")).to_be_enabled()


def test_a_form_is_run_while_another_cell_waits_for_its_call(lab: Lab) -> None:
    form = run(lab, "%mcp form show:one_text")
    waiting = running(start(lab, "%mcp call show:slow seconds=600"))
    press(form, "Copy as code")
    field(form, "text").press_sequentially("meanwhile")
    expect(form.get_by_label("Code", exact=True)).to_have_value("%mcp call show:one_text text=meanwhile")
    press(form, "Run")

    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("meanwhile")
    running(waiting)
    lab.command("notebook:interrupt-kernel")
    finished(waiting)


@pytest.mark.firefox
def test_the_text_of_a_form_is_readable(lab: Lab) -> None:
    form = run(lab, "%mcp form show:nested")
    press(form, "Run")  # everything that must be there is missed
    expect(form.locator(".mcp-problem").first).to_be_visible()
    for theme in themes(lab):
        names = assert_readable(lab.page, ".mcp-magic", ".mcp-form")
        assert {"mcp-type", "mcp-needed", "mcp-hint", "mcp-form mcp-problem"} <= {*names}
        lab.picture(f"form-{theme}", first=lab.cells.count() - 1)


# What the browser draws itself: its scheme of colours, its text, and for a drop-down the arrow.
CONTROLS = """(cell) => [...cell.querySelectorAll('input, select')].map(control => {
    const style = getComputedStyle(control);
    const arrow = control.localName === 'select' ? style.backgroundImage : null;
    return [control.type, style.colorScheme, style.color, arrow];
})"""


@pytest.mark.firefox
def test_controls_that_the_browser_draws_follow_the_theme(lab: Lab) -> None:
    dates, choices = start(lab, "%mcp form show:formats"), start(lab, "%mcp form show:enums")
    finished(dates)
    expect(field(finished(choices), "colour")).to_be_visible()
    for theme in themes(lab):
        lab.picture(f"controls-{theme}", first=lab.cells.count() - 2)
        controls = [*dates.evaluate(CONTROLS), *choices.evaluate(CONTROLS)]
        assert {"date", "datetime-local", "time", "checkbox", "select-one"} <= {kind for kind, *_ in controls}
        assert {scheme for _, scheme, _, _ in controls} == {theme}
        arrows = [(colour, arrow) for _, _, colour, arrow in controls if arrow is not None]
        assert len(arrows) >= 4
        assert all(colour in arrow for colour, arrow in arrows)  # it has the colour of the text, which can be read


def test_a_form_works_after_the_page_is_loaded_again(lab: Lab) -> None:
    # ipywidgets asks for all widgets at once; if the page does not see the reply within 4 s, it asks for each of them.
    # With the forms of the other tests those are a thousand: on a busy machine half a minute and more. Running a cell
    # closes the forms of deleted cells.
    lab.clear()
    made = run(lab, "again = %mcp form show:defaults text=before\nagain")
    expect(field(made, "text")).to_have_value("before")
    field(made, "count").fill("many")
    expect(field(made, "count")).to_have_attribute("aria-invalid", "true")
    last = lab.cells.count() - 1
    saved(lab)
    form = lab.cells.nth(last).locator(".jp-Cell-outputArea")
    answer = form.locator(".jp-OutputArea .mcp-magic").last
    # JupyterLab's widget manager restores twice at once; where the second is done first, it gives up what the first has
    # not got to yet ("model not found"), or clicks do not reach the kernel. A person loads the page once more.
    for _ in range(5):
        lab.page.reload()
        lab.wait_ready()
        lost = form.get_by_text(re.compile("model not found|Error (displaying|creating) widget|Could not"))
        expect(field(form, "text").or_(lost).first).to_be_visible()
        if lost.count() > 0:
            continue
        expect(field(form, "text")).to_have_value("before")
        expect(field(form, "count")).to_have_attribute("aria-invalid", "true")
        field(form, "count").fill("3")
        field(form, "text").fill("after")
        press(form, "Run")
        with suppress(PlaywrightTimeoutError):
            answer.wait_for(timeout=WAIT_MS / 4)
            break

    expect(answer).to_contain_text("after")
    expect(run(lab, "print(again.result.text)")).to_contain_text("after")


ANOTHER = """
import anywidget, traitlets
ours = anywidget.AnyWidget
class Another(ours):
    _model_module_version = traitlets.Unicode("~99.0.0").tag(sync=True)
anywidget.AnyWidget = Another
form = %mcp form show:one_text
anywidget.AnyWidget = ours
form
"""


def test_form_shows_no_error_for_other_or_missing_anywidget(lab: Lab) -> None:
    form = run(lab, ANOTHER)
    field(form, "text").fill("works")
    expect(form.locator(".jupyter-widgets-error-widget")).to_have_count(1)
    expect(form.locator(".jupyter-widgets-error-widget")).to_be_hidden()
    press(form, "Run")
    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("works")


def test_a_saved_form_is_read_without_its_kernel(lab: Lab, jupyterlab: JupyterLab, live_browser: Browser) -> None:
    form = run(lab, "%mcp form show:one_text")
    field(form, "text").fill("kept <b>words</b>")
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    kept = saved(lab)["cells"][-1]["outputs"][0]["data"]
    assert "form of show:one_text — done in" in kept["text/plain"]
    assert "kept &lt;b&gt;words&lt;/b&gt;" in kept["text/html"]

    cell = {**saved(lab)["cells"][-1], "execution_count": None}
    notebook = {**saved(lab), "cells": [cell]}
    (jupyterlab.folder / "form-later.ipynb").write_text(json.dumps(notebook))
    with jupyterlab.open(live_browser, "form-later.ipynb") as later:  # a kernel that knows nothing of it
        shown = later.cells.first.locator(".jp-Cell-outputArea")
        expect(shown.get_by_text("form of show:one_text — done in")).to_be_visible()
        expect(shown.locator("td", has_text="kept <b>words</b>")).to_be_visible()
        expect(shown.get_by_text("Error displaying widget")).to_have_count(0)
        later.picture("form-later")
