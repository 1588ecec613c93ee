"""A saved notebook where no kernel runs: in JupyterLab, and as the HTML that nbconvert makes of it."""

from __future__ import annotations

import json
import re
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import nbconvert
import pytest

from tests.support.lab import Lab, picture
from tests.support.pages import assert_readable, button, expect, finished, press, run, saved, start, themes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.support.lab import JupyterLab

pytestmark = pytest.mark.slow

CALL = 'await host["show"].call_tool("one_text", {"text": "asked for"}, asker="agent")'

SHOWN = (
    "form of show:one_text — done in",
    "kept <b>words</b>",
    "form of show:nested — not run yet",
    '✓ approved show:one_text(text="asked for") by you',
    "MCP servers",
    "%mcp ui explores them where a kernel runs",
)
"""What has to be read of a form that was run, one that was not, an approval and an explorer."""


@pytest.fixture(scope="module")
def notebook(lab: Lab, jupyterlab: JupyterLab) -> Path:
    """The saved notebook, which names no kernel; none has run it."""
    form = run(lab, "%mcp form show:one_text text='kept <b>words</b>'")
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    run(lab, "%mcp form show:nested")
    asking = start(lab, CALL)
    press(asking, "Approve")
    expect(finished(asking)).to_contain_text("✓ approved")
    expect(button(run(lab, "%mcp ui"), "Refresh")).to_be_visible()
    file = jupyterlab.folder / "after.ipynb"
    file.write_text(json.dumps({**saved(lab), "metadata": {}}))
    return file


def kernels(server: JupyterLab, notebook: Path) -> list[dict[str, Any]]:
    """The kernels that run for a notebook."""
    with urllib.request.urlopen(f"{server.url}/api/sessions") as answer:
        return [session["kernel"] for session in json.load(answer) if session["path"] == notebook.name]


@contextmanager
def opened(server: JupyterLab, browser: Browser, notebook: Path) -> Iterator[Lab]:
    """A notebook in JupyterLab, which is told to start no kernel."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    try:
        page.goto(f"{server.url}/doc/tree/{notebook.name}?reset")
        page.locator(".jp-Dialog button", has_text="No Kernel").click()
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        yield Lab(page)
    finally:
        page.close()


def assert_legible(page: Page) -> None:
    for text in SHOWN:
        expect(page.locator("body")).to_contain_text(text, use_inner_text=True)
    assert page.get_by_text("Error displaying widget").count() == 0
    # All that a cell puts out, whatever of its classes a page leaves; the numbers beside it are not ours.
    assert len(assert_readable(page, ".jp-OutputArea-output")) > 20


def test_forms_approvals_and_explorers_read_without_kernel(
    notebook: Path, jupyterlab: JupyterLab, live_browser: Browser
) -> None:
    with opened(jupyterlab, live_browser, notebook) as lab:
        for theme in themes(lab):
            assert_legible(lab.page)
            lab.picture(f"without-kernel-{theme}")
        assert kernels(jupyterlab, notebook) == []


def test_they_are_read_in_the_html_of_nbconvert(notebook: Path, live_browser: Browser) -> None:
    page = live_browser.new_page(viewport={"width": 1200, "height": 900})
    page.route(re.compile("^https?:"), lambda route: route.abort())  # it is read where there is no network
    try:
        for theme in ("light", "dark"):
            page_file = notebook.with_suffix(".html")
            page_file.write_text(nbconvert.HTMLExporter(theme=theme).from_filename(str(notebook))[0])
            page.goto(page_file.as_uri(), wait_until="domcontentloaded")
            picture(page, f"nbconvert-{theme}")
            assert_legible(page)
            expect(page.locator("th", has_text="tools")).to_be_visible()
    finally:
        page.close()
