"""What servers ask of the person, in a real JupyterLab, while the cell that called is running."""

from __future__ import annotations

import pytest

from tests.support.kernel_servers import PAY, PLAN
from tests.support.kernel_servers import TRIPS as SERVER
from tests.support.pages import button, expect, field, finished, output, press, start

pytestmark = pytest.mark.slow

CELLS = (SERVER, "%mcp connect trips", "%mcp connect bank")


def test_a_form_is_filled_in_below_the_cell(lab):
    cell = start(lab, PLAN)
    expect(button(cell, "Submit")).to_be_visible()
    expect(output(cell)).to_contain_text("Server trips asks you for:")
    expect(output(cell)).to_contain_text("Where <i>to</i>?")
    field(cell, "city").fill("Oslo")
    press(output(cell), "Submit")
    shown = finished(cell)
    expect(shown).to_contain_text("✓ sent city=Oslo, days=3 to trips (Where <i>to</i>?)")
    expect(shown).to_contain_text("'accept Oslo 3'")
    expect(shown.locator("button")).to_have_count(0)


def test_a_page_is_a_link_that_only_the_person_opens(lab):
    pages = len(lab.page.context.pages)
    cell = start(lab, PAY)
    link = output(cell).get_by_role("link", name="open bank.example in a new tab")
    expect(link).to_have_attribute("href", "https://bank.example/login?id=1")
    expect(link).to_have_attribute("target", "_blank")
    assert {"noopener", "noreferrer"} <= set(str(link.get_attribute("rel")).split())
    press(output(cell), "Decline")
    expect(finished(cell)).to_contain_text("✗ declined: bank (page at bank.example: Log in)")
    assert len(lab.page.context.pages) == pages
