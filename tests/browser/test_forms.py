"""Forms as a person uses them: filled in and run in a real JupyterLab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import expect, field, finished, press, readable, run, running, start, themes

if TYPE_CHECKING:
    from playwright.sync_api import Locator


pytestmark = pytest.mark.slow

ADDRESS = {"street": "Main Street 1", "postcode": "10115"}
ORDER = {
    "customer": {"name": "Ada", "email": "ada@example.com", "address": ADDRESS},
    "lines": [{"sku": "AB-1234", "quantity": 3, "price": 2.5}],
    "priority": "high",
}


def fill_order(form: Locator) -> None:
    for label, text in (("name", "Ada"), ("email", "ada@example.com"), *ADDRESS.items()):
        field(form, label).fill(text)
    press(form, "Add")
    expect(field(form, "sku")).to_be_focused()  # letters typed elsewhere before that would go into it
    for label, text in (("sku", "AB-1234"), ("quantity", "3"), ("price", "2.5")):
        field(form, label).fill(text)
    field(form, "priority").select_option("high")


@pytest.mark.firefox
def test_a_nested_form_is_filled_by_its_labels_and_run(lab):
    form = run(lab, "form = %mcp form show:nested\nform")
    press(form, "Run")  # everything that must be there is missed
    expect(form.locator(".mcp-problem").first).to_be_visible()
    names = {*readable(lab, ".mcp-magic", ".mcp-form", picture="form")}
    assert {"mcp-type", "mcp-needed", "mcp-hint", "mcp-form mcp-problem"} <= names
    fill_order(form)
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("7.5")  # 3 at 2.50
    run(lab, "import json; print(json.dumps([form.arguments, form.result.data]))")
    lab.wait_outputs()
    arguments, receipt = json.loads(lab.outputs()[-1][0]["text"])
    assert arguments == {"order": ORDER}
    assert receipt["total"] == 7.5
    assert receipt["order"]["customer"]["address"] == {**ADDRESS, "country": "DE"}


@pytest.mark.firefox
def test_what_does_not_fit_is_said_below_its_field_and_not_sent(lab):
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
    expect(problems).to_have_count(2)
    expect(form.get_by_text("done in")).to_have_count(0)
    postcode.fill("10115")
    quantity.fill("2")
    expect(problems).to_have_count(0)
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()


@pytest.mark.firefox
def test_json_and_fields_stay_in_step(lab):
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


def test_a_form_is_run_while_another_cell_waits_for_its_call(lab):
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


# What the browser draws itself: its scheme of colours, its text, and for a drop-down the arrow.
CONTROLS = """(cell) => [...cell.querySelectorAll('input, select')].map(control => {
    const style = getComputedStyle(control);
    const arrow = control.localName === 'select' ? style.backgroundImage : null;
    return [control.type, style.colorScheme, style.color, arrow];
})"""


@pytest.mark.firefox
def test_controls_that_the_browser_draws_follow_the_theme(lab):
    dates, choices = start(lab, "%mcp form show:formats"), start(lab, "%mcp form show:enums")
    finished(dates)
    expect(field(finished(choices), "colour")).to_be_visible()
    for theme in themes(lab, "controls", first=0):
        controls = [*dates.evaluate(CONTROLS), *choices.evaluate(CONTROLS)]
        assert {"date", "datetime-local", "time", "checkbox", "select-one"} <= {kind for kind, *_ in controls}
        assert {scheme for _, scheme, _, _ in controls} == {theme}
        arrows = [(colour, arrow) for _, _, colour, arrow in controls if arrow is not None]
        assert len(arrows) >= 4
        assert all(colour in arrow for colour, arrow in arrows)  # it has the colour of the text, which can be read


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


def test_form_shows_no_error_for_other_or_missing_anywidget(lab):
    form = run(lab, ANOTHER)
    field(form, "text").fill("works")
    expect(form.locator(".jupyter-widgets-error-widget")).to_have_count(1)
    expect(form.locator(".jupyter-widgets-error-widget")).to_be_hidden()
    press(form, "Run")
    expect(form.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("works")
