"""The example servers of MCP Apps, as npm has them, in a real JupyterLab: `make views`.

Each view is shown below its call, in both themes, and reacts to a click; what it calls is approved in the bar above it.
No server and no view is changed. Nothing but the registry can be reached here, so those that load from elsewhere show
what they show without a network. `MCP_MAGIC_SHOTS=1` takes pictures.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.environments import view_command
from tests.support.pages import expect, press, run, themes, view_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import FrameLocator, Locator

    Trial = Callable[[Locator, FrameLocator], None]

pytestmark = pytest.mark.skipif("MCP_MAGIC_EXAMPLES" not in os.environ, reason="`make views` runs it")

PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj "
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 120]/Contents 4 0 R/Resources<</Font<</F<</Type/Font"
    b"/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj 4 0 obj<</Length 44>>stream\n"
    b"BT /F 18 Tf 20 60 Td (A page of a PDF) Tj ET endstream endobj\ntrailer<</Root 1 0 R>>\n"
)


def asks_for_the_time(shown: Locator, view: FrameLocator) -> None:
    page = view.locator("body")
    time = re.compile(r"\d{4}-\S+Z")
    expect(page).to_contain_text(time)
    before = time.findall(page.inner_text())
    view.get_by_role("button", name="Get Server Time").click()
    expect(shown.locator(".mcp-app-question")).to_contain_text("get-time")
    press(shown, "Approve")
    expect(page).not_to_contain_text(before[0])
    expect(page).to_contain_text(before[0][:10])


def cannot_reach_its_parent(shown: Locator, view: FrameLocator) -> None:
    """Vue wraps the window above, and reads a property of it: here a view's frame has no origin in common with it."""
    view.get_by_role("button", name="Get Server Time").click()
    expect(view.locator("body")).to_contain_text("[ERROR]")


def divides_another_budget(shown: Locator, view: FrameLocator) -> None:
    view.locator("#budget-selector").select_option("250000")
    expect(view.locator("#status-bar")).to_contain_text("$250,000")


def asks_for_the_cohorts(shown: Locator, view: FrameLocator) -> None:
    press(shown, "Approve")
    expect(view.locator("body")).to_contain_text("M11")
    view.locator("select").last.select_option("weekly")
    expect(shown.locator(".mcp-app-question")).to_contain_text("weekly")
    press(shown, "Approve")
    expect(shown.locator(".mcp-app-question")).to_have_count(0)


def hides_a_segment(shown: Locator, view: FrameLocator) -> None:
    press(shown, "Approve")
    view.locator(".legend-item").first.click()
    expect(view.locator(".legend-item.hidden")).to_have_count(1)


def compares_scenarios(shown: Locator, view: FrameLocator) -> None:
    view.locator("select").select_option(index=2)
    expect(view.locator("body")).to_contain_text("VC Rocketship")


def polls_the_system(shown: Locator, view: FrameLocator) -> None:
    press(shown, "Approve")
    expect(view.locator("#memory-percent")).to_contain_text(re.compile(r"\d+%"))
    view.locator("#poll-toggle-btn").click()
    expect(view.locator("#poll-toggle-btn")).to_have_text("Start")


def draws_notes(shown: Locator, view: FrameLocator) -> None:
    expect(view.locator("svg").first).to_be_visible()


def draws_on_a_canvas(shown: Locator, view: FrameLocator) -> None:
    expect(view.locator("canvas").first).to_be_visible()


def asks_for_the_clipboard(shown: Locator, view: FrameLocator) -> None:
    press(shown, "Allow clipboardWrite…")
    expect(shown.locator(".mcp-app-question")).to_contain_text("clipboard-write")
    press(shown, "Deny")
    expect(view.locator("#start-btn")).to_be_visible()


def shows_a_pdf(shown: Locator, view: FrameLocator) -> None:
    expect(view.locator("canvas").first).to_be_visible()


def has_no_network(shown: Locator, view: FrameLocator) -> None:
    expect(view.locator("body")).to_be_visible()


EXAMPLES: dict[str, tuple[str, Trial]] = {
    **{
        f"basic-{name}": ("get-time", asks_for_the_time) for name in ("preact", "react", "solid", "svelte", "vanillajs")
    },
    "basic-vue": ("get-time", cannot_reach_its_parent),
    "budget-allocator": ("get-budget-data", divides_another_budget),
    "cohort-heatmap": ("get-cohort-data", asks_for_the_cohorts),
    "customer-segmentation": ("get-customer-data", hides_a_segment),
    "map": ("show-map", has_no_network),
    "pdf": ("display_pdf", shows_a_pdf),
    "scenario-modeler": ("get-scenario-data", compares_scenarios),
    "shadertoy": ("render-shadertoy", draws_on_a_canvas),
    "sheet-music": ("play-sheet-music", draws_notes),
    "system-monitor": ("get-system-info", polls_the_system),
    "threejs": ("show_threejs_scene", draws_on_a_canvas),
    "transcript": ("transcribe", asks_for_the_clipboard),
    "video-resource": ("play_video", has_no_network),
    "wiki-explorer": ("get-first-degree-links", has_no_network),
}
"""Server -> its tool with a view, and what its view is tried with."""

ARGUMENTS = {"sheet-music": r"""abcNotation={"X:1\nT:A scale\nK:C\nCDEF GABc|"}"""}


@pytest.fixture
def shown(lab, request, tmp_path):
    """The view of an example, below its call, in sight: what is out of sight is not drawn."""
    example: str = request.param
    name, tool = example.replace("-", "_"), EXAMPLES[example][0]
    command, arguments = view_command(example), ARGUMENTS.get(example, "")
    if example == "pdf":
        path = tmp_path / "page.pdf"
        path.write_bytes(PDF)
        command, arguments = [*command, str(path)], f"url={path}"
        run(lab, "%mcp allow 'pdf:*'")  # it reads its file in parts
    run(lab, f"%mcp connect --name {name} --timeout 60 -- {shlex.join(command)}")
    cell = run(lab, f"%mcp call {name}:{tool} {arguments}")
    cell.locator(".mcp-app").scroll_into_view_if_needed()
    yield cell
    run(lab, f"%mcp disconnect {name}")


@pytest.mark.parametrize(("shown", "example"), [(name, name) for name in EXAMPLES], indirect=["shown"], ids=EXAMPLES)
def test_an_example_is_shown_and_reacts_in_both_themes(lab, shown, example):
    lab.failures.clear()
    view = view_in(shown)
    EXAMPLES[example][1](shown, view)

    for _ in themes(lab, f"example-{example}"):
        shown.locator(".mcp-app").scroll_into_view_if_needed()
    assert not [failure for failure in lab.failures if "mcp-app" in failure]
