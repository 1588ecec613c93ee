"""What a screen reader and a keyboard find: axe-core over what the widgets of a notebook show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.environments import axe_script, needs_node
from tests.support.kernel_servers import PLAN
from tests.support.kernel_servers import TRIPS as SERVER
from tests.support.pages import asked, button, expect, field, finished, output, press, readable, run, start, themes

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.support.lab import Lab

pytestmark = [pytest.mark.slow, needs_node]

FORM = """%%mcp_server wide
from typing import Literal
from pydantic import Field
def plan(
    city: str, days: int, when: str = Field(json_schema_extra={"format": "date"}), kind: Literal["a", "b"] = "a",
    rate: int | float = 1, tags: list[str] = [], sizes: list[int] = [], password: str = "",
    options: dict[str, int] = {}, note: str | None = None, fast: bool = False, either: int | str = 1,
) -> str:
    \"\"\"Plans a trip.\"\"\"
    return city
"""
CELLS = (FORM, SERVER, "%mcp connect trips")
RULES = """async (element) => {
    const found = await axe.run(element, {rules: {region: {enabled: false}}});
    return found.violations.map(each => [each.impact, each.id, each.nodes.map(node => node.html.slice(0, 300))]);
}"""
CALLS = """for text in ("one", "two"):
    await host["show"].call_tool("one_text", {"text": text}, asker="agent")"""


def told(lab: Lab) -> tuple[str, Any]:
    """Return what Chromium tells a screen reader of the input with the focus: its name, and whether it is invalid."""
    session = lab.page.context.new_cdp_session(lab.page)
    focused = session.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]["objectId"]
    [node] = session.send("Accessibility.getPartialAXTree", {"objectId": focused, "fetchRelatives": False})["nodes"]
    session.detach()
    return node["name"]["value"], next(e["value"]["value"] for e in node["properties"] if e["name"] == "invalid")


@pytest.fixture(scope="module")
def axe(notebook):
    notebook.page.evaluate(axe_script().read_text())


def assert_accessible(lab: Lab, shown: Locator, picture: str = "") -> None:
    """Assert that axe-core finds nothing severe in an output, in both themes."""
    for _ in themes(lab, picture):
        assert [violation for violation in shown.evaluate(RULES) if violation[0] in {"serious", "critical"}] == []


@pytest.mark.usefixtures("axe")
def test_a_form_has_no_severe_finding(lab):
    form = run(lab, "%mcp form wide:plan")
    days, invalid = field(form, "days"), form.locator("[aria-invalid]")
    days.fill("many")
    expect(days).to_have_attribute("aria-invalid", "true")
    expect(invalid).to_have_count(1)
    assert told(lab) == ("days: integer, required; invalid: days: expected integer, got 'many'", "true")
    days.fill("3")
    expect(invalid).to_have_count(0)
    assert told(lab) == ("days: integer, required", "false")
    button(form, "Add").first.click()
    expect(form.get_by_role("textbox", name="tags item").first).to_be_focused()
    expect(form.locator("[title=null]")).to_have_count(0)
    lab.clear()
    form = run(lab, "%mcp form wide:plan sizes=[1]")
    press(form, "Run")
    expect(form.get_by_role("alert").first).to_be_visible()
    assert_accessible(lab, form, "accessible-form")


@pytest.mark.usefixtures("axe")
def test_approvals_are_accessible_and_no_key_answers_the_next(lab):
    cell = start(lab, CALLS)
    panel = asked(cell)
    press(panel, "Edit")
    expect(button(panel, "Discard changes")).to_be_visible()
    assert_accessible(lab, panel)
    press(panel, "Discard changes")
    press(panel, "Approve")
    expect(panel).to_contain_text("two")
    expect(button(panel, "Edit")).to_be_focused()
    lab.page.keyboard.press("Shift+Tab")
    lab.page.keyboard.press("Shift+Tab")
    expect(button(panel, "Approve")).to_be_focused()
    lab.page.keyboard.press("Enter")
    finished(cell)


@pytest.mark.usefixtures("axe")
def test_the_explorer_has_no_severe_finding(lab):
    explorer = run(lab, "%mcp ui")
    expect(button(explorer, "Refresh")).to_be_visible()
    explorer.locator("button.mcp-explorer-name").filter(has_text="one_text").first.click()
    press(explorer, "Open form")
    expect(button(explorer, "Run")).to_be_visible()
    assert_accessible(lab, explorer)


@pytest.mark.usefixtures("axe")
def test_elicitation_is_accessible_and_enter_answers_it(lab):
    cell = start(lab, PLAN)
    panel = output(cell)
    city = panel.get_by_role("textbox", name="city: string, required")
    expect(city).to_be_visible()
    city.press_sequentially("O")
    expect(city).to_have_attribute("aria-invalid", "true")
    expect(city).to_be_focused()
    assert_accessible(lab, panel)
    city.press("End")  # a change of the theme may take the focus, and Playwright then types before the first letter
    city.press_sequentially("slo")
    city.press("Enter")  # at once: the last letters may still be on their way
    expect(finished(cell)).to_contain_text("'accept Oslo 3'")


@pytest.mark.usefixtures("axe")
def test_transcripts_and_errors_in_the_trace_are_accessible(lab):
    run(lab, "host.consent.policy = 'auto'")
    transcript = run(lab, "%%mcp_agent --model offline\nshow one_text with text hello")
    expect(transcript.locator(".mcp-magic").first).to_be_visible()
    assert_accessible(lab, transcript)
    lab.clear()
    for _ in range(2):
        run(lab, "%mcp raw show no/such")
    shown = run(lab, "host.consent.policy = 'ask'\n%mcp trace show --errors")
    assert shown.locator(".mcp-error").count() > 1, "also on the grey of every second row"
    readable(lab, ".mcp-lines")


def test_enter_runs_form_with_last_letters_and_focuses_result(lab):
    form = run(lab, "%mcp form show:one_text")
    text = form.get_by_role("textbox", name="text: string")
    text.press_sequentially("all of this")
    text.press("Enter")
    expect(form.locator(".jp-OutputArea")).to_contain_text("all of this")
    press(form, "Run")
    result = form.locator(".mcp-outcome")
    expect(result).to_be_focused()
    expect(result).to_contain_text("done in")
