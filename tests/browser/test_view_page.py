"""`%mcp view`: the view of a tool in a tab of the browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mcp_magic.apps.widget import FOLDER
from tests.support import dash_server
from tests.support.pages import expect, press, run, view_in

if TYPE_CHECKING:
    from playwright.sync_api import Locator


pytestmark = pytest.mark.slow

CELLS = (f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}", "r = %mcp call dash:sales region=US")


def address(shown: Locator) -> str:
    """Return what a cell offers to open."""
    return shown.locator("a").get_attribute("href") or ""


def test_tab_shows_view_asks_reloads_and_says_when_it_ends(lab, live_browser):
    first = address(run(lab, "shown = %mcp view $r\nshown"))
    tab = live_browser.new_page()
    failures: list[str] = []
    tab.on("pageerror", lambda error: failures.append(str(error)))
    tab.goto(first)
    view = view_in(tab.locator("body"))
    expect(view.locator("#answer")).to_have_text("US: 42")
    view.locator("#more").click()
    expect(tab.locator(".mcp-app-question")).to_contain_text("app dash wants to call dash:refresh")
    press(tab.locator("body"), "Approve")
    expect(view.locator("#answer")).to_have_text("step 2 done")

    token = tab.url.split("/")[3]
    frame = next(each for each in tab.frames if each.parent_frame and each.parent_frame.parent_frame)
    known = frame.evaluate("[location.href, document.baseURI, document.referrer, document.URL, name].join(' ')")
    assert token not in known, "the view does not know how to reach the kernel"
    tab.reload()
    expect(view.locator("#answer")).to_have_text("US: 42")
    assert failures == []
    run(lab, "await shown.stop()")
    expect(tab.locator(".mcp-app-status")).to_contain_text("the kernel has gone")
    tab.close()


BEFORE_THE_VIEW = """async (source) => {
    const { show } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    window.sent = [];
    show(document.body, {
        send: (message) => window.sent.push(message),
        listen: (onMessage) => ((window.tell = onMessage), () => {}),
    });
    window.tell({ kind: "outcome", method: "ui/notifications/tool-result", params: {}, view: window.sent[0].view }, []);
}"""


def test_view_with_result_alone_says_it_waits_and_asks_again(live_browser):
    tab = live_browser.new_page()
    tab.evaluate(BEFORE_THE_VIEW, (FOLDER / "host.js").read_text(encoding="utf-8"))
    expect(tab.get_by_role("status")).to_have_text("waiting for the kernel…")
    assert [message["kind"] for message in tab.evaluate("window.sent")] == ["hello", "hello"]
    tab.close()
