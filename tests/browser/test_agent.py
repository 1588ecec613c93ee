"""`%%mcp_agent` in a real JupyterLab: it streams, asks, is approved with an edit, and ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.browser.living import SETUP, WAIT_MS, button, expect, field, finished, output, press, run, saved, start
from tests.browser.notebooks import write_notebook
from tests.browser.test_look import CONTRASTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.browser.lab import JupyterLab, Lab

pytestmark = pytest.mark.slow

MODEL = """from mcp_magic import ScriptedModel
words = "I shall have one text made for you, and then say what came of it. " * 3
call = {"name": "show__one_text", "args": {"text": "hi"}, "id": "call_1"}
from langchain_core.messages import AIMessage
usage = {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60}
first = AIMessage(words, tool_calls=[call], usage_metadata=usage)
agent_model = ScriptedModel([first, "It says **ho ho**.\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |"], pause=0.05)"""


@pytest.fixture(scope="module")
def lab(jupyterlab: JupyterLab, live_browser: Browser) -> Iterator[Lab]:
    write_notebook(jupyterlab.folder / "agent.ipynb", [*SETUP, MODEL])
    with jupyterlab.open(live_browser, "agent.ipynb") as lab:
        lab.run_all()
        lab.page.set_default_timeout(WAIT_MS)
        lab.theme("light")
        yield lab


def test_a_run_streams_asks_is_approved_with_an_edit_and_ends(lab: Lab) -> None:
    cell = start(lab, "%%mcp_agent --model $agent_model --thread browser -o done\nHave one text made.")
    shown = output(cell)
    expect(shown).to_contain_text("I shall have one text")
    expect(cell.locator(".jp-InputPrompt")).to_have_text("[*]:")
    assert "say what came of it. I shall have one text made for you, and then say what came of it. I shall" not in (
        shown.inner_text()
    ), "the words come one after the other"

    expect(button(cell, "Approve")).to_be_visible()
    expect(shown).to_contain_text("waiting")
    lab.shoot("agent-asked", first=lab.cells.count() - 1)
    press(shown, "Edit")
    text = field(shown, "text")
    text.fill("")
    text.press_sequentially("ho ho")
    press(shown, "Approve changed")

    finished(cell)
    expect(shown.locator("strong", has_text="ho ho")).to_be_visible()
    expect(shown.locator("table", has_text="1")).not_to_have_count(0)
    expect(shown).to_contain_text("approved by you")
    expect(shown.locator("button")).to_have_count(0)
    lab.shoot("agent-done", first=lab.cells.count() - 1)
    assert "hi" not in run(lab, "done.calls.arguments[0]['text']").inner_text()


def test_the_saved_notebook_reads_well_without_a_kernel(lab: Lab) -> None:
    outputs = [o for cell in saved(lab)["cells"] for o in cell.get("outputs", [])]
    shown = [json.dumps(o) for o in outputs if "data" in o and "text/html" in o["data"]]

    assert any("Have one text made." in text and "show:one_text" in text for text in shown)
    assert any("It says" in text for text in shown)
    assert not any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in outputs)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_transcript_can_be_read_in_both_themes(lab: Lab, theme: str) -> None:
    lab.theme(theme)
    try:
        found = lab.page.evaluate(CONTRASTS)
        lab.shoot(f"agent-{theme}", first=lab.cells.count() - 2)
    finally:
        lab.theme("light")

    assert len(found) > 10
    assert [weak for weak in found if weak[0] < 4.5] == []
