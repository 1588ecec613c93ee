"""A saved notebook that JupyterLab does not trust, that no kernel runs, or that nbconvert made a page of."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import nbconvert
import nbformat.v4 as v4
import pytest

from tests.support.lab import Lab, picture
from tests.support.pages import (
    WAIT_MS,
    asked,
    assert_readable,
    button,
    expect,
    finished,
    output,
    press,
    readable,
    run,
    saved,
    start,
    themes,
    window_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.support.lab import JupyterLab

pytestmark = pytest.mark.slow

MODEL = """
from mcp_magic import ScriptedModel
texts = [[("show:one_text", {"text": "hi"})], [("show:one_text", {"text": "secret"})], [("show:fail_error", {})]]
model = ScriptedModel([*texts, "It says:\\n\\n```python\\nx = 1\\n```"])
lines = "\\n".join(f"INFO: {n}\\n  of 100" for n in range(100))"""
CELLS = (MODEL,)
SHOWN = (
    "host['show']",
    "%mcp call show:table_json rows=3",
    "%mcp tools show",
    "%mcp tool show:add_tool",
    "%mcp deny show:one_text 'text=secret*' --reason 'not yours'",
    "%%mcp_agent --model $model --approve auto --thread saved\nHave texts made.",
    "%mcp map show:one_text --rows [{'text':'a'},{'text':'b'}]",
    "%mcp trace --errors",
    "%mcp trace show",
    "%mcp call show:write_stderr text=$lines",
    "%mcp logs show",
    "%mcp ask show:nothing",
)
EDGES = ("border-left-width", "border-left-style", "border-bottom-width", "border-top-left-radius")
SPACE = ("padding-left", "padding-top")
SAME = {
    "th:first-child + td": ("text-align",),
    "tbody th": ("text-align", "font-weight"),
    "td.mcp-number": ("text-align",),
    "td > pre": ("white-space", "word-break", "background-color"),
    "td:has(pre)": ("vertical-align",),
    ".mcp-scroll": ("max-height", "overflow-y"),
    ".mcp-note": ("font-size",),
    ".mcp-badge": (*EDGES, *SPACE, "font-size", "white-space"),
    ".mcp-badges": ("white-space",),
    ".mcp-error": ("font-weight",),
    "pre.mcp-line": SPACE,
    ".mcp-asked": ("border-left-width", "border-left-style", *SPACE),
    ".mcp-call": (*EDGES, *SPACE),
    ".mcp-sign": ("font-weight",),
    ".mcp-totals": ("border-top-width", "font-size"),
}
"""Properties that are the same with and without the style sheet."""
HUES = (".mcp-badge-safe", ".mcp-badge-danger", ".mcp-call-ok", ".mcp-call-error", ".mcp-asked")
"""What has a border whose colour is of the theme in one and fixed in the other; red stays red."""
GROUNDS = ("pre.mcp-line", ".mcp-asked", ".mcp-badge-safe", ".mcp-badge-danger")
"""What has a ground that differs from the page's."""
STYLES = """([selector, names]) => [...document.querySelectorAll(`.mcp-magic ${selector}`)].slice(0, 3).map(shown => {
    const style = getComputedStyle(shown);
    return names.map(name => style.getPropertyValue(name));
})"""
IN_VIEW = """(row) => {
    const box = row.closest('.mcp-scroll').getBoundingClientRect(), { top, bottom } = row.getBoundingClientRect();
    return box.top <= top && bottom <= box.bottom + 1 && box.height < 700;
}"""


def styles(page: Page, selector: str, *names: str) -> list[list[str]]:
    shown: list[list[str]] = page.evaluate(STYLES, [selector, names])
    assert shown, f"nothing is {selector}"
    return shown


def hue(page: Page, selector: str) -> int:
    """Return which of red, green and blue is the strongest in the colour of a border."""
    colour = styles(page, selector, "border-left-color")[0][0]
    channels = [float(channel) for channel in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return channels.index(max(channels))


# Not trusted: its style sheets are gone, not its look


@pytest.fixture(scope="module")
def live(notebook):
    """A notebook whose cells have shown all of it, an approval with a reason last."""
    for source in SHOWN:
        finished(start(notebook, source))
    cell = start(notebook, "%mcp call show:nothing")
    asked(cell).locator("input[type=text]").first.fill("not today")
    press(output(cell), "Deny")
    expect(finished(cell)).to_contain_text("because: not today")
    return notebook


@pytest.fixture(scope="module")
def untrusted(live, jupyterlab, live_browser):
    """The same notebook as a file from elsewhere, in a page of its own."""
    live.wait_outputs()
    notebook = v4.new_notebook(cells=[v4.new_code_cell("", outputs=outputs) for outputs in live.outputs() if outputs])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (jupyterlab.folder / "untrusted.ipynb").write_text(json.dumps(notebook))
    with jupyterlab.open(live_browser, "untrusted.ipynb") as lab:
        yield lab


def test_an_untrusted_notebook_keeps_borders_and_colours(live, untrusted):
    theirs, ours = untrusted.page, live.page
    assert theirs.locator(".mcp-magic").count() >= len(SHOWN)
    assert theirs.locator(".jp-OutputArea-output style").count() == 0
    for selector, names in SAME.items():
        assert styles(theirs, selector, *names) == styles(ours, selector, *names), selector
    assert {name: hue(theirs, name) for name in HUES} == {name: hue(ours, name) for name in HUES}
    assert hue(ours, ".mcp-call-error") == 0, "red"
    for selector in GROUNDS:
        for page in (ours, theirs):
            ground = {each for [each] in styles(page, selector, "background-color")}
            assert ground.isdisjoint({"rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"}), selector
    assert {each for [each] in styles(theirs, ".mcp-note", "opacity")} == {"0.7"}
    assert {each for [each] in styles(ours, ".mcp-note", "opacity")} == {"1"}
    readable(untrusted, picture="untrusted", first=0)


def test_the_newest_row_is_in_view_without_a_script(live, untrusted):
    for lab in (live, untrusted):
        for width in (1200, 700):
            with window_of(lab, width):
                newest = [
                    lab.page.locator(".mcp-magic", has_text=title).last.locator("tr").last
                    for title in ("Trace of show", "Logs of show")
                ]
                assert [row.evaluate(IN_VIEW) for row in newest] == [True, True]
                assert newest[1].inner_text().endswith("INFO: 99\n  of 100")
    listing = untrusted.page.locator(".mcp-scroll", has_text="show:several_texts").first
    shown, whole = listing.evaluate("(box) => [box.clientHeight, box.scrollHeight]")
    assert shown < 700 < whole


# Without a kernel

CALL = 'await host["show"].call_tool("one_text", {"text": "asked for"}, asker="agent")'
READ = (
    "form of show:one_text — done in",
    "kept <b>words</b>",
    "form of show:nested — not run yet",
    '✓ approved show:one_text(text="asked for") by you',
    "MCP servers",
    "%mcp ui explores them where a kernel runs",
)
"""What has to be read of a form that was run, one that was not, an approval and an explorer."""


@pytest.fixture(scope="module")
def file(notebook, jupyterlab):
    """The saved notebook, which names no kernel; none has run it."""
    lab = notebook
    lab.clear()
    run(lab, "host.consent.rules.clear()")
    form = run(lab, "%mcp form show:one_text text='kept <b>words</b>'")
    press(form, "Run")
    expect(form.get_by_text("done in")).to_be_visible()
    run(lab, "%mcp form show:nested")
    asking = start(lab, CALL)
    press(asking, "Approve")
    expect(finished(asking)).to_contain_text("✓ approved")
    assert set(saved(lab)["cells"][-1]["outputs"][0]["data"]) == {"text/plain", "text/html"}
    expect(button(run(lab, "%mcp ui"), "Refresh")).to_be_visible()
    path = jupyterlab.folder / "after.ipynb"
    path.write_text(json.dumps({**saved(lab), "metadata": {}}))
    return path


def kernels(server: JupyterLab, file: Path) -> list[dict[str, Any]]:
    """The kernels that run for a notebook."""
    with urllib.request.urlopen(f"{server.url}/api/sessions") as answer:
        return [session["kernel"] for session in json.load(answer) if session["path"] == file.name]


def assert_legible(page: Page) -> None:
    for text in READ:
        expect(page.locator("body")).to_contain_text(text, use_inner_text=True)
    assert page.get_by_text("Error displaying widget").count() == 0
    # All that a cell puts out, whatever of its classes a page leaves; the numbers beside it are not ours.
    assert len(assert_readable(page, ".jp-OutputArea-output")) > 20


def test_forms_approvals_and_explorers_read_without_kernel(file, jupyterlab, live_browser):
    page = live_browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{jupyterlab.url}/doc/tree/{file.name}?reset")
    page.locator(".jp-Dialog button", has_text="No Kernel").click()
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    for _ in themes(Lab(page), "without-kernel", first=0):
        assert_legible(page)
    assert kernels(jupyterlab, file) == []
    page.close()


def test_saved_outputs_are_legible_in_a_new_kernel(file, jupyterlab, live_browser):
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = file.with_name("later.ipynb")
    path.write_text(json.dumps({**json.loads(file.read_text()), "metadata": kernel}))
    with jupyterlab.open(live_browser, path.name) as later:
        assert_legible(later.page)
        assert len(kernels(jupyterlab, path)) == 1


def test_saved_outputs_are_legible_in_nbconvert_html(file, live_browser):
    page = live_browser.new_page(viewport={"width": 1200, "height": 900})
    page.route(re.compile("^https?:"), lambda route: route.abort())  # it is read where there is no network
    for theme in ("light", "dark"):
        page_file = file.with_suffix(".html")
        page_file.write_text(nbconvert.HTMLExporter(theme=theme).from_filename(str(file))[0])
        page.goto(page_file.as_uri(), wait_until="domcontentloaded")
        picture(page, f"nbconvert-{theme}")
        assert_legible(page)
        expect(page.locator("th", has_text="tools")).to_be_visible()
    page.close()
