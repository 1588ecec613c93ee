"""Progress, Cancel and log messages in a real JupyterLab, below the cell that called."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.kernel_servers import REPORTS as SERVER
from tests.support.kernels import until
from tests.support.pages import errors, expect, finished, output, press, run, saved, start

pytestmark = pytest.mark.slow

CELLS = (f"%mcp connect --name reports -- {sys.executable} {SERVER}",)


def test_bar_is_shown_and_cancel_ends_call_but_not_session(lab, tmp_path):
    cell = start(lab, f"%mcp call reports:hold folder={tmp_path} done:=3 total:=4 text='<b>loading</b>'")
    bar = output(cell).get_by_role("progressbar", name="reports:hold")
    expect(bar).to_be_visible()
    expect(bar).to_have_attribute("value", "0.750")
    expect(output(cell)).to_contain_text("3 of 4 (75 %)")
    expect(output(cell)).to_contain_text("<b>loading</b>")
    press(output(cell), "Cancel")
    shown = finished(cell)
    expect(shown).to_contain_text("✗ reports:hold: cancelled · 3 of 4 (75 %)")
    expect(shown.locator("button")).to_have_count(0)
    assert errors(lab, cell) == ["CallCancelledError: reports:hold: cancelled."]
    until((tmp_path / "cancelled").exists, 60, "the server knows")
    expect(run(lab, "%mcp call reports:level")).to_contain_text("None")


def test_waiting_call_shows_after_a_second_and_leaves_no_trace(lab, tmp_path):
    cell = start(lab, f"r = %mcp call reports:hold folder={tmp_path}")
    expect(output(cell)).to_contain_text("reports:hold · ")
    expect(output(cell).get_by_role("button", name="Cancel")).to_be_visible()
    (tmp_path / "go").touch()
    finished(cell)
    expect(output(cell).locator("button")).to_have_count(0)
    expect(output(cell)).not_to_contain_text("reports:hold")
    assert [entry for entry in saved(lab)["cells"][-1]["outputs"] if entry.get("data")] == []


def test_logs_show_live_then_collapse_and_save_no_widget(lab, tmp_path):
    cell = start(lab, f"%mcp call reports:hold folder={tmp_path} text='disk <i>full</i>'")
    expect(output(cell)).to_contain_text("warning reports: disk <i>full</i>")
    (tmp_path / "go").touch()
    shown = finished(cell)
    expect(shown).to_contain_text("1 log message: 1 warning")
    expect(shown.locator("details pre")).not_to_be_visible()
    shown.locator("summary").first.click()
    expect(shown.locator("details pre")).to_be_visible()
    assert "widget-view" not in json.dumps(saved(lab)["cells"])
