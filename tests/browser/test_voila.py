"""Voila: a notebook as a page without cells. Forms work there; you cannot be asked, because its cells take no input."""

from __future__ import annotations

import sys

import pytest

from tests.support.kernels import environment
from tests.support.lab import picture
from tests.support.notebooks import NOTEBOOKS, copy_of, write_notebook
from tests.support.pages import SETUP, WAIT_MS, expect, field, press
from tests.support.processes import free_port, start_http

pytest.importorskip("voila")
pytestmark = pytest.mark.slow

ASKED = """
from mcp_magic import errors
try:
    await host["show"].call_tool("one_text", {"text": "hi"}, asker="agent")
except errors.DeniedError as error:
    print(error)
"""
CELLS = (*SETUP, "%mcp tool show:one_text", "%mcp call show:one_text text=shown", "%mcp form show:one_text", ASKED)
START_SECONDS = 180.0


@pytest.fixture(scope="module")
def page(jupyterlab, live_browser, tmp_path_factory):
    """The page that is made of a notebook; that there is a browser is what the first two fixtures say."""
    folder = copy_of(NOTEBOOKS, tmp_path_factory.mktemp("voila") / "notebooks")
    write_notebook(folder / "page.ipynb", CELLS, may_fail=False)
    port = free_port()  # it does not say which it got
    command = [sys.executable, "-m", "voila", "page.ipynb", "--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}"]
    own = environment(folder.parent, JUPYTER_PLATFORM_DIRS="1")
    with start_http(command, own, r"(?P<url>http://127\.0\.0\.1:\d+)/", START_SECONDS, cwd=folder) as running:
        shown = live_browser.new_page()
        shown.set_default_timeout(START_SECONDS * 1000)
        shown.goto(running.url)
        shown.get_by_role("button", name="Run").first.wait_for()
        shown.set_default_timeout(WAIT_MS)
        yield shown
        shown.close()


def test_values_forms_and_denials_are_on_the_page(page):
    body = page.locator("body")
    expect(body).to_contain_text("shown")
    expect(page.locator(".mcp-badge", has_text="read-only").first).to_be_visible()
    expect(body).to_contain_text("you cannot be asked here, where no input is allowed")
    field(body, "text").fill("from a page")
    press(body, "Run")
    expect(page.get_by_text("done in")).to_be_visible()
    expect(page.locator(".mcp-magic", has_text="from a page").first).to_be_visible()
    picture(page, "voila")
