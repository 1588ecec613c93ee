"""`%%mcp_agent` in a real JupyterLab: it streams, asks, is approved with an edit, and ends."""

from __future__ import annotations

import json

import pytest

from tests.support.pages import asked, expect, field, finished, output, press, readable, run, saved, start, window_of

pytestmark = pytest.mark.slow

MODEL = """import asyncio
from pathlib import Path
from langchain_core.messages import AIMessage
from mcp_magic import ScriptedModel

class Waiting(ScriptedModel):
    async def _astream(self, *asked, **more):
        async for chunk in super()._astream(*asked, **more):
            yield chunk
            while chunk.text.startswith("then") and not Path("go").exists():
                await asyncio.sleep(0.05)

call = {"name": "show__one_text", "args": {"text": "hi"}, "id": "call_1"}
usage = {"input_tokens": 40, "output_tokens": 20, "total_tokens": 60}
words = "I shall have one text made for you, and then say what came of it."
first = AIMessage(words, tool_calls=[call], usage_metadata=usage)
agent_model = Waiting([first, "It says **ho ho**.\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |"])

async def long(messages):
    await asyncio.sleep(100)

calls = [[("show:one_text", {"text": f"text {number}"})] for number in range(22)]
many = ScriptedModel([*calls, long, *calls, "**All** texts are made."])

texts = ["hi", "W" * 30, "p\u0430ypal.com", "x" * 1500]
plan = [*(("show:one_text", {"text": text}) for text in texts), ("show:one_text", {"text": "secret plans"})]
planning = ScriptedModel([plan, "**All** done."])"""
CELLS = (MODEL,)


@pytest.mark.firefox
def test_a_run_streams_asks_is_approved_with_an_edit_and_ends(lab, jupyterlab):
    (jupyterlab.folder / "go").unlink(missing_ok=True)  # another browser has left it
    cell = start(lab, "%%mcp_agent --model $agent_model --thread browser -o done\nHave one text made.")
    shown = output(cell)
    expect(shown).to_contain_text("I shall have one text")
    assert "what came of it" not in shown.inner_text(), "the words come one after the other"

    (jupyterlab.folder / "go").touch()
    asked(cell)
    expect(shown).to_contain_text("what came of it")
    expect(shown).to_contain_text("waiting")
    press(shown, "Edit")
    text = field(shown, "text")
    text.fill("")
    text.press_sequentially("ho ho")
    expect(shown).to_contain_text("ho ho")  # a click may be there before the last letters
    press(shown, "Approve changed")

    finished(cell)
    expect(shown.locator("strong", has_text="ho ho")).to_be_visible()
    expect(shown.locator("table", has_text="1")).not_to_have_count(0)
    expect(shown).to_contain_text("approved by you")
    expect(shown.locator("button")).to_have_count(0)
    assert len(readable(lab, picture="agent")) > 10
    expect(run(lab, "done.calls.arguments[0]['text']")).to_contain_text("'ho ho'")
    outputs = [o for cell in saved(lab)["cells"] for o in cell.get("outputs", [])]
    assert not any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in outputs)
    kept = "".join(json.dumps(o) for o in outputs if "text/html" in o.get("data", {}))
    assert "Have one text made." in kept
    assert "show:one_text" in kept
    assert "It says" in kept


@pytest.mark.firefox
def test_plan_table_is_ticked_edited_and_approved(lab):
    run(lab, "%mcp deny show:one_text 'text=secret*' --reason 'not yours'")
    cell = start(lab, "%%mcp_agent --model $planning --thread plan --approve plan -o done\nHave five texts made.")
    shown = output(cell)
    expect(shown.get_by_role("button", name="Approve selected")).to_be_visible()
    expect(shown.get_by_role("checkbox")).to_have_count(4)
    expect(shown).to_contain_text("denied by rule")
    expect(shown.locator("b > code")).to_have_text("deny show:one_text 'text=secret*'")
    expect(shown).to_contain_text("p⟨Cyrillic \u0430⟩ypal.com")
    readable(lab, ".mcp-magic", ".mcp-form", picture="plan")
    with window_of(lab, 600):
        widest = shown.get_by_label("2. text").evaluate("box => box.scrollWidth - box.clientWidth")
        assert widest <= 0, "all of a value is in sight in its cell"

    expect(shown.get_by_role("button", name="Approve selected")).to_be_disabled()
    text = shown.get_by_label("1. text")
    text.fill("")
    text.press_sequentially("hello")
    shown.get_by_role("checkbox").nth(2).uncheck()
    press(shown, "Show all of 4. text (1,500 characters)")
    press(shown, "Approve selected")
    expect(shown).to_contain_text("3 approved, 1 left")
    shown.get_by_label("why they must not be called").fill("looks odd")
    press(shown, "Deny rest")

    finished(cell)
    expect(shown.locator("strong", has_text="All")).to_be_visible()
    expect(shown.locator("button")).to_have_count(0)
    values = run(lab, "[len(r.text) for r in done.results if not r.is_error]")
    expect(values).to_contain_text("[5, 30, 1500]")


def test_thinking_model_stops_and_many_calls_fit_on_screen(lab):
    cell = start(lab, "%%mcp_agent --model $many --thread many --approve auto\nMake 22 texts.")
    shown = output(cell)
    expect(shown).to_contain_text("model thinking · ")
    press(shown, "Stop")
    finished(cell)
    expect(shown).to_contain_text("stopped by you; --thread many goes on from there")
    expect(shown).not_to_contain_text("model thinking")

    cell = start(lab, "%%mcp_agent --model $many --thread many --approve auto\nMake them again.")
    shown = finished(cell)
    expect(shown.locator("strong", has_text="All")).to_be_visible()
    box = shown.bounding_box()
    assert box is not None
    assert box["height"] < 500
    expect(shown.locator("code", has_text="text 7")).not_to_be_visible()
    shown.get_by_text("show all").first.click()
    expect(shown.locator("code", has_text="text 7")).to_be_visible()
