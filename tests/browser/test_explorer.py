"""The explorer as a person uses it: search, choose, fill in, run, in a real JupyterLab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import button, expect, field, finished, press, readable, run, running, start, window_of

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator

    from tests.support.lab import Lab

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
def explorer(lab: Lab) -> Locator:
    shown = run(lab, "%mcp ui")
    expect(rows(shown)).to_have_count(25)
    return shown


def rows(explorer: Locator) -> Locator:
    return explorer.locator(".mcp-explorer-list button.mcp-explorer-name")


def box(of: Locator) -> FloatRect:
    bounds = of.bounding_box()
    assert bounds is not None
    return bounds


def counted(explorer: Locator, text: str) -> None:
    """Wait until the line below the list, which is drawn after the list, begins so."""
    line = explorer.locator(".mcp-explorer-list").get_by_role("status")
    expect(line).to_have_text(re.compile(f"^{text}"))


def search(explorer: Locator) -> Locator:
    return explorer.locator("input[placeholder^='words of a name']")


def test_a_tool_is_searched_by_typing_chosen_and_run_in_its_form(lab: Lab, explorer: Locator) -> None:
    first = rows(explorer).first.inner_text()
    assert ":" not in first
    press(explorer, "Next →")
    expect(rows(explorer).first).not_to_have_text(first)
    counted(explorer, "26\u201350 of ")
    search(explorer).fill("zzzz")
    counted(explorer, "0 of ")
    expect(rows(explorer)).to_have_count(0)
    search(explorer).fill("")
    expect(rows(explorer)).to_have_count(25)
    search(explorer).press_sequentially("one text block")
    counted(explorer, "3 of ")  # those of the whole text; of "one text bloc" there are more
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


def test_call_is_copied_as_code_and_result_saved_as_variable(lab: Lab, explorer: Locator) -> None:
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


def test_search_and_choice_work_while_a_cell_awaits_a_call(lab: Lab, explorer: Locator) -> None:
    cell = running(start(lab, "%mcp call show:slow seconds=600"))
    expect(cell).to_contain_text("started")
    search(explorer).press_sequentially("objects array")
    counted(explorer, "3 of ")
    press(explorer, "nested")
    expect(explorer.locator(".mcp-explorer-card")).to_contain_text("show:nested")
    running(cell)
    lab.command("notebook:interrupt-kernel")
    finished(cell)


def test_kinds_are_chosen_and_a_resource_is_read(explorer: Locator) -> None:
    kind = explorer.get_by_role("button", name="prompts")
    count = kind.inner_text().removeprefix("prompts (").removesuffix(")")
    kind.click()
    counted(explorer, f"{count} prompts")
    expect(rows(explorer)).to_have_count(int(count))
    explorer.get_by_role("button", name="resources").click()
    search(explorer).fill("rows.json")
    expect(rows(explorer)).to_have_count(1)
    press(explorer.locator(".mcp-explorer-list"), "showcase://rows.json")
    press(explorer, "Read")
    expect(explorer.locator(".mcp-explorer-detail table").last).to_be_visible()


def test_card_and_servers_have_their_places_in_narrow_windows(lab: Lab, explorer: Locator) -> None:
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


def test_no_label_is_cut_by_its_button(lab: Lab) -> None:
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
