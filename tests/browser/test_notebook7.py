"""Jupyter Notebook 7, where a person fills in a form, approves a call and answers a server."""

from __future__ import annotations

import sys

import pytest

from tests.support import dash_server
from tests.support.lab import Notebook7
from tests.support.notebooks import NOTEBOOKS, copy_of, write_notebook
from tests.support.pages import SETUP, WAIT_MS, asked, expect, field, finished, press, run, start, view_in

pytest.importorskip("notebook")
pytestmark = pytest.mark.slow

CALL = 'r = await host["show"].call_tool("one_text", {"text": "hi"}, asker="agent")\nr.text'
AGENT = "%%mcp_agent --thread seven -o done\nuse one_text with text hello"


@pytest.fixture(scope="module")
def notebook(jupyterlab, live_browser, tmp_path_factory):
    """A notebook with the showcase server; that there is a browser is what the first two fixtures say."""
    folder = copy_of(NOTEBOOKS, tmp_path_factory.mktemp("seven") / "notebooks")
    write_notebook(folder / "seven.ipynb", SETUP)
    with Notebook7(folder) as server, server.open(live_browser, "seven.ipynb") as lab:
        lab.run_all()
        lab.failures.clear()  # of the page itself, while it opens
        lab.page.set_default_timeout(WAIT_MS)
        yield lab


def test_a_form_is_filled_in_and_run(notebook):
    form = run(notebook, "form = %mcp form show:one_text\nform")
    field(form, "text").fill("from a form")
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    expect(run(notebook, "print(form.result.text)")).to_contain_text("from a form")
    explorer = run(notebook, "%mcp ui")
    explorer.locator("input[type=text]").first.fill("one_text")
    expect(explorer.get_by_text("one_text").first).to_be_visible()


def test_calls_are_approved_below_their_running_cells(notebook):
    cell = start(notebook, CALL)
    press(asked(cell), "Approve")
    expect(finished(cell)).to_contain_text("'hi'")
    cell = start(notebook, AGENT)
    asked(cell)
    expect(cell).to_contain_text("use one_text with text hello")
    press(cell, "Approve")
    expect(finished(cell)).to_contain_text("1 call")


def test_a_view_is_below_its_call_and_calls_back(notebook):
    run(notebook, f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}")
    shown = run(notebook, "%mcp call dash:sales region=US")
    view = view_in(shown)
    expect(view.locator("#answer")).to_have_text("US: 42")
    view.locator("#more").click()
    press(shown, "Approve")
    expect(view.locator("#answer")).to_have_text("step 2 done")
    assert (notebook.failures, notebook.dialogs) == ([], []), "nothing went wrong in the page"
