"""The explorer as a person uses it: search, choose, fill in, run, in a real JupyterLab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import button, expect, field, press, readable, run, window_of

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator


pytestmark = pytest.mark.slow

WIDE = """
from mcp.server.mcpserver import MCPServer
wide = MCPServer("wide", log_level="ERROR")
@wide.tool(name="W" * 34)
def first() -> str:
    return ""
await host.connect(wide);"""
CUT = "buttons => buttons.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"


@pytest.fixture
def explorer(lab):
    shown = run(lab, "%mcp ui")
    expect(rows(shown)).to_have_count(25)
    return shown


def rows(explorer: Locator) -> Locator:
    return explorer.locator(".mcp-explorer-list button.mcp-explorer-name")


def box(of: Locator) -> FloatRect:
    bounds = of.bounding_box()
    assert bounds is not None
    return bounds


def test_a_tool_is_searched_by_typing_chosen_and_run_in_its_form(lab, explorer):
    press(explorer, "Next →")
    expect(explorer.get_by_text("26\u201350 of ")).to_be_visible()
    explorer.locator("input[placeholder^='words of a name']").press_sequentially("one text block")
    expect(explorer.get_by_text(re.compile("^3 of "))).to_be_visible()  # of "one text bloc" there are more
    expect(rows(explorer)).to_have_count(3)
    expect(button(explorer, "slow")).to_have_count(0)
    press(explorer, "one_text")
    card = explorer.locator(".mcp-explorer-card")
    expect(card).to_contain_text("Return one text block.")
    expect(card.locator(".mcp-badge", has_text="read-only")).to_be_visible()
    names = {*readable(lab, ".mcp-explorer", picture="explorer")}
    assert {"mcp-note", "mcp-badge", "mcp-badge mcp-badge-safe", "mcp-explorer-note"} <= names
    assert any("jupyter-button" in name for name in names)
    press(explorer, "Open form")
    field(explorer.locator(".mcp-explorer-detail"), "text").fill("explored")
    press(explorer, "Run")
    expect(explorer.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("explored")
    press(explorer, "Close form")
    expect(button(explorer, "Run")).to_have_count(0)


def test_call_is_copied_as_code_and_result_saved_as_variable(lab, explorer):
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    detail = explorer.locator(".mcp-explorer-detail")
    press(explorer, "one_text")
    press(explorer, "Open form")
    press(explorer, "Copy as code")
    expect(detail).to_contain_text("Copied.")
    assert lab.page.evaluate("navigator.clipboard.readText()") == "%mcp call show:one_text"
    field(detail, "text").press_sequentially("half a sentence")
    code = detail.get_by_label("Code", exact=True)
    expect(code).to_have_value("%mcp call show:one_text 'text=half a sentence'")
    press(explorer, "several_texts")
    expect(explorer.locator(".mcp-explorer-card")).to_contain_text("show:several_texts")
    expect(button(explorer, "Run")).to_have_count(0)
    press(explorer, "one_text")
    expect(field(detail, "text")).to_have_value("half a sentence")
    press(explorer, "Run")
    expect(explorer.locator(".jp-OutputArea .mcp-magic").last).to_contain_text("half a sentence")
    name = explorer.get_by_label("Save as")
    name.fill("saved answer")
    name.press("Enter")
    expect(explorer).to_contain_text("A variable's name has letters")
    name.fill("saved_answer")
    name.press("Enter")
    expect(explorer).to_contain_text("saved_answer is the result now.")
    expect(run(lab, "saved_answer.text")).to_contain_text("half a sentence")


def test_card_and_servers_have_their_places_in_narrow_windows(lab, explorer):
    card, last = explorer.locator(".mcp-explorer-card"), rows(explorer).nth(19)
    with window_of(lab, 1280):
        last.click()
        expect(card).to_be_in_viewport(ratio=1)
        assert box(card)["x"] > box(last)["x"] + box(last)["width"]
    with window_of(lab, 600):
        rows(explorer).nth(4).click()
        expect(card).to_contain_text(rows(explorer).nth(4).inner_text().removeprefix("▸ "))
        above, below = box(rows(explorer).nth(4)), box(rows(explorer).nth(5))
        assert above["y"] + above["height"] <= box(card)["y"] < box(card)["y"] + box(card)["height"] <= below["y"]
    with window_of(lab, 700):
        server = explorer.locator(".mcp-explorer-servers .mcp-explorer-row").first
        expect(server.locator(".mcp-explorer-about")).to_contain_text(" tools")
        row, about = box(server), box(server.locator(".mcp-explorer-about"))
        assert about["y"] > box(server.locator("button").last)["y"], "a server is told below its buttons"
        assert about["width"] > row["width"] - 10


def test_no_label_is_cut_by_its_button(lab):
    run(lab, WIDE)
    explorer = run(lab, "%mcp ui wide")
    for width in (1280, 700):
        with window_of(lab, width):
            rows(explorer).first.click()
            expect(rows(explorer)).to_have_text([re.compile("W{34}$")])
            expect(explorer.locator(".mcp-explorer-card")).to_contain_text("W" * 34)
            assert explorer.locator("button").evaluate_all(CUT) == []
            rows(explorer).first.click()
    run(lab, 'await host.disconnect("wide")')
