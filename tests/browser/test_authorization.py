"""A log-in in a real JupyterLab: the link opens a tab of the person's, which comes back to the kernel."""

from __future__ import annotations

import pytest

from tests.support.pages import button, expect, finished, output, press, saved, start

pytestmark = pytest.mark.slow

CELLS = ("%config MCPMagics.tokens = 'memory'",)


def test_click_on_link_logs_in_and_notebook_keeps_no_secret(lab, protected):
    cell = start(lab, f"%mcp connect {protected.url} --name notes")
    expect(output(cell)).to_contain_text("This program is not known there yet. It would register at 127.0.0.1")
    assert not protected.authority.asked("register"), "nobody is told before the person says yes"
    press(output(cell), "Yes")
    link = output(cell).get_by_role("link", name="in a new tab")
    expect(link).to_be_visible()
    expect(output(cell)).to_contain_text("It asks for: read, offline_access")
    expect(button(cell, "Use this address")).to_be_visible()
    assert not protected.authority.asked("authorize"), "nothing is opened by itself"
    assert {"noopener", "noreferrer"} <= set(str(link.get_attribute("rel")).split())
    with lab.page.context.expect_page() as opened:
        link.click()
    expect(opened.value.locator("h1")).to_have_text("Logged in")
    opened.value.close()
    shown = finished(cell)
    expect(shown).to_contain_text("✓ came back: log-in to notes at 127.0.0.1")
    expect(shown.locator("button")).to_have_count(0)
    kept = str(saved(lab))
    assert not [secret for secret in protected.authority.secrets if secret in kept]
    assert "code_challenge" not in kept


def test_an_address_is_pasted_where_the_browser_is_elsewhere(lab, protected):
    start(lab, "%mcp logout notes")
    cell = start(lab, f"%mcp connect {protected.url} --name notes")
    press(output(cell), "Yes")
    address = output(cell).locator("input[type=text]")
    expect(address).to_be_visible()
    address.fill("http://example.com/")
    press(output(cell), "Use this address")
    expect(output(cell)).to_contain_text("this is not the address that the browser was sent to")
    expect(address).to_have_value("")
    url = str(output(cell).get_by_role("link", name="in a new tab").get_attribute("href"))
    back = lab.page.context.request.get(url, max_redirects=0).headers["location"]
    address.fill(back)
    press(output(cell), "Use this address")
    expect(finished(cell)).to_contain_text("✓ came back: log-in to notes")
    assert back.partition("code=")[2][:20] not in str(saved(lab))
