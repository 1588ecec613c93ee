"""A saved notebook that JupyterLab does not trust looks like the live one: its style sheets are gone, not its look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nbformat.v4 as v4
import pytest

from tests.support.pages import asked, assert_readable, expect, finished, output, press, start, themes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.support.lab import JupyterLab, Lab

pytestmark = pytest.mark.slow

MODEL = """
from mcp_magic import ScriptedModel
texts = [[("show:one_text", {"text": "hi"})], [("show:one_text", {"text": "secret"})], [("show:fail_error", {})]]
model = ScriptedModel([*texts, "It says:\\n\\n```python\\nx = 1\\n```"])"""
RUN = "%%mcp_agent --model $model --approve auto --thread saved\nHave texts made."
SHOWN = (
    "host['show']",
    "%mcp call show:table_json rows=3",
    "%mcp tools show",
    "%mcp tool show:add_tool",
    "%mcp deny show:one_text 'text=secret*' --reason 'not yours'",
    RUN,
    "%mcp map show:one_text --rows [{'text':'a'},{'text':'b'}]",
    "%mcp trace --errors",
    "%mcp trace show",
    "%mcp call show:write_stderr text=$lines",
    "%mcp logs show",
    "%mcp ask show:nothing",
)
LINES = """
lines = "\\n".join(f"INFO: {n}\\n  of 100" for n in range(100))"""
CELLS = (MODEL, LINES)

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

HUES = {
    ".mcp-badge-safe": "border-left-color",
    ".mcp-badge-danger": "border-left-color",
    ".mcp-call-ok": "border-left-color",
    ".mcp-call-error": "border-left-color",
    ".mcp-asked": "border-left-color",
}
"""Colours that are of the theme in one and fixed in the other; red stays red."""

GROUNDS = ("pre.mcp-line", ".mcp-asked", ".mcp-badge-safe", ".mcp-badge-danger")
"""What has a ground that differs from the page's."""

_STYLES = """([selector, names]) => [...document.querySelectorAll(`.mcp-magic ${selector}`)].slice(0, 3).map(shown => {
    const style = getComputedStyle(shown);
    return names.map(name => style.getPropertyValue(name));
})"""


def styles(page: Page, selector: str, *names: str) -> list[list[str]]:
    shown: list[list[str]] = page.evaluate(_STYLES, [selector, names])
    assert shown, f"nothing is {selector}"
    return shown


def hue(colour: str) -> int:
    """Return which of red, green and blue is the strongest."""
    channels = [float(each) for each in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    return channels.index(max(channels))


@pytest.fixture(scope="module")
def live(lab: Lab) -> Lab:
    """A notebook whose cells have shown all of it, an approval with a reason last."""
    for source in SHOWN:
        finished(start(lab, source))
    cell = start(lab, "%mcp call show:nothing")
    asked(cell).locator("input[type=text]").first.fill("not today")
    press(output(cell), "Deny")
    expect(finished(cell)).to_contain_text("because: not today")
    return lab


@pytest.fixture(scope="module")
def untrusted(live: Lab, jupyterlab: JupyterLab, live_browser: Browser) -> Iterator[Lab]:
    """The same notebook as a file from elsewhere, in a page of its own."""
    live.wait_outputs()
    outputs: list[list[dict[str, Any]]] = live.outputs()
    notebook = v4.new_notebook(cells=[v4.new_code_cell("", outputs=each) for each in outputs if each])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (jupyterlab.folder / "untrusted.ipynb").write_text(json.dumps(notebook))
    with jupyterlab.open(live_browser, "untrusted.ipynb") as lab:
        yield lab


def test_an_untrusted_notebook_keeps_borders_and_paddings(live: Lab, untrusted: Lab) -> None:
    assert untrusted.page.locator(".mcp-magic").count() >= len(SHOWN)
    assert untrusted.page.locator(".jp-OutputArea-output style").count() == 0
    for selector, names in SAME.items():
        assert styles(untrusted.page, selector, *names) == styles(live.page, selector, *names), selector


def test_an_untrusted_notebook_keeps_colours(live: Lab, untrusted: Lab) -> None:
    for selector, name in HUES.items():
        theirs, ours = (styles(page, selector, name)[0][0] for page in (untrusted.page, live.page))
        assert hue(theirs) == hue(ours), selector
    for selector in GROUNDS:
        for page in (live.page, untrusted.page):
            ground = {each for [each] in styles(page, selector, "background-color")}
            assert ground.isdisjoint({"rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"}), selector
    assert {each for [each] in styles(untrusted.page, ".mcp-note", "opacity")} == {"0.7"}
    assert {each for [each] in styles(live.page, ".mcp-note", "opacity")} == {"1"}


def test_an_untrusted_notebook_is_readable_in_both_themes(untrusted: Lab) -> None:
    for theme in themes(untrusted):
        assert_readable(untrusted.page)
        untrusted.picture(f"untrusted-{theme}")


_IN_VIEW = """(row) => {
    const box = row.closest('.mcp-scroll').getBoundingClientRect(), { top, bottom } = row.getBoundingClientRect();
    return box.top <= top && bottom <= box.bottom + 1 && box.height < 700;
}"""


@pytest.mark.parametrize("width", [1200, 700])
def test_the_newest_row_is_in_view_without_a_script(live: Lab, untrusted: Lab, width: int) -> None:
    for lab in (live, untrusted):
        lab.page.set_viewport_size({"width": width, "height": 900})
        newest = [
            lab.page.locator(".mcp-magic", has_text=title).last.locator("tr").last
            for title in ("Trace of show", "Logs of show")
        ]
        assert [row.evaluate(_IN_VIEW) for row in newest] == [True, True]
        assert newest[1].inner_text().endswith("INFO: 99\n  of 100")
        lab.picture(f"newest-{width}-{'live' if lab is live else 'untrusted'}")
        lab.page.set_viewport_size({"width": 1200, "height": 900})


def test_a_long_listing_scrolls_in_an_untrusted_notebook(untrusted: Lab) -> None:
    listing = untrusted.page.locator(".mcp-scroll", has_text="show:several_texts").first
    shown, whole = listing.evaluate("(box) => [box.clientHeight, box.scrollHeight]")
    assert shown < 700 < whole
