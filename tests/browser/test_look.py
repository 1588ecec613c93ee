"""What a person sees: the quickstart and a hostile server, in a real JupyterLab in a real browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import nbformat.v4 as v4
import pytest

from tests.support.markup import EVIL
from tests.support.notebooks import NOTEBOOKS, write_notebook
from tests.support.pages import expect, readable, run, window_of

if TYPE_CHECKING:
    from tests.support.lab import Lab

pytestmark = pytest.mark.slow

HOSTILE = (
    "%load_ext mcp_magic",
    "%mcp connect servers/showcase_server.py --name showcase",
    "%mcp call showcase:hostile",
    "%mcp call showcase:hostile_error",
    "%mcp call showcase:hostile_data",
    "%mcp call showcase:hostile_table",
    "%mcp call showcase:hostile_image",
    "%mcp call showcase:hostile_mime_type",
    "%mcp call showcase:hostile_links",
    "%mcp tool showcase:hostile_schema",
    "%mcp tools",
    "%mcp read showcase://page.html",
    "from mcp_magic.results import Listing\nListing([{'price': 'from $5 to $10', 'formula': r'\\(x\\)'}])",
    # Once this one is a formula, MathJax has looked at all of them.
    "from IPython.display import HTML\nHTML('<i id=control>$x$</i>')",
    # What is not ours does run here, so that the rest of this test would see it if ours did.
    "from IPython.display import HTML\nHTML(\"<script>document.body.dataset.control = 'ran'</script>\")",
)

# A diagram and a formula that load from a host, which no page may ask.
FETCHING = """
from IPython.display import Markdown
from mcp_types import ReadResourceResult, TextResourceContents
from mcp_magic.results import ResourceResult
text = ('Diagram:\\n\\n```mermaid\\nflowchart LR\\n  A@{ img: "http://127.0.0.1:9/NAME.png", w: 60, h: 60 }\\n```\\n\\n'
        '$\\\\style{background:url(http://127.0.0.1:9/NAME.gif)}{y}$\\n')
"""
OURS = """ResourceResult(ReadResourceResult(contents=[
    TextResourceContents(uri='a:b', mime_type='text/markdown', text=text.replace('NAME', 'ours'))]))"""


@pytest.fixture(scope="module")
def hostile(jupyterlab, live_browser):
    write_notebook(jupyterlab.folder / "hostile.ipynb", HOSTILE)
    with jupyterlab.open(live_browser, "hostile.ipynb") as lab:
        lab.run_all()
        expect(lab.page.locator(".mcp-magic")).to_have_count(11)  # all is there that could do harm
        yield lab


def errors(outputs: list[dict[str, Any]]) -> list[str]:
    return [f"{output['ename']}: {output['evalue']}" for output in outputs if output["output_type"] == "error"]


def assert_fails_where_it_says_so(quickstart: Lab) -> None:
    cells = json.loads((NOTEBOOKS / "quickstart.ipynb").read_text())["cells"]
    expected = [i for i, cell in enumerate(cells) if "raises-exception" in cell["metadata"].get("tags", ())]
    assert [i for i, outputs in enumerate(quickstart.outputs()) if errors(outputs)] == expected
    assert len(expected) >= 2
    assert quickstart.failures == []
    expect(quickstart.page.locator("[data-mime-type='application/vnd.jupyter.stderr']")).to_have_text(
        [
            "ArgumentsError: days: expected integer, 1 to 14, got 'tomorrow'",
            "ToolError: math:divide failed: Cannot divide by zero.",
        ]
    )


def assert_shows_cards_tables_badges_and_images(quickstart: Lab) -> None:
    page = quickstart.page
    for text in ("math", "weather", "notes"):
        expect(page.locator(".mcp-magic b", has_text=text).first).to_be_visible()
    listing = page.locator(".mcp-magic table", has_text="weather:plot_forecast")
    badges = listing.locator(".mcp-badge:visible")
    expect(badges).to_have_text([re.compile("read-only|open world")] * 10)
    sizes = page.locator(".jp-RenderedImage img").evaluate_all("all => all.map(i => [i.naturalWidth, i.clientWidth])")
    assert len(sizes) == 1
    assert min(sizes[0]) > 100


def assert_aligned_and_unbroken(quickstart: Lab) -> None:
    page = quickstart.page
    alignments = "(table) => [...table.rows[1].cells].map(cell => getComputedStyle(cell).textAlign)"
    forecast = page.locator(".mcp-magic table", has_text="2026-06-05").first
    assert forecast.evaluate(alignments) == ["left", "left", "right", "right", "right", "right", "right", "left"]
    headers = forecast.evaluate(alignments.replace("rows[1]", "rows[0]"))
    assert headers == forecast.evaluate(alignments)
    lines = """(table) => [...table.rows].map(row => {
        const text = document.createRange(); text.selectNodeContents(row.cells[0]); return text.getClientRects().length;
    })"""
    listing = page.locator(".mcp-magic table", has_text="weather:plot_forecast")
    assert listing.evaluate(lines) == [1] * 6


def test_the_quickstart_runs_and_looks_as_it_should(jupyterlab, live_browser):
    with jupyterlab.open(live_browser, "quickstart.ipynb") as quickstart:
        quickstart.run_all()
        assert_fails_where_it_says_so(quickstart)
        assert_shows_cards_tables_badges_and_images(quickstart)
        assert_aligned_and_unbroken(quickstart)
        names = readable(quickstart)
        assert len(names) > 100
        assert {"mcp-note", "mcp-badge mcp-badge-safe"} <= {*names}


def test_nothing_that_a_hostile_server_sends_runs(hostile):
    page = hostile.page
    page.wait_for_function("document.body.dataset.control === 'ran'")
    assert page.evaluate("document.body.dataset.hostile ?? null") is None
    assert page.evaluate("({}).polluted ?? null") is None
    assert re.fullmatch(r"hostile\.ipynb - (JupyterLab|auto-\w)", page.title())
    assert hostile.dialogs == []
    for markup in ("script", "h1", "textarea", "iframe", "a", "[onerror]", "[onload]", "img:not([src^='data:image/'])"):
        assert page.locator(f".mcp-magic {markup}").count() == 0, markup
    shown = [text for text in page.locator(".mcp-magic pre").all_inner_texts() if "\\u202egnp.exe" in text]
    assert shown[0].startswith("<script>document.body.dataset.hostile = 'ran'</script>")
    assert [bool(errors(outputs)) for outputs in hostile.outputs()].count(True) == 1  # hostile_error


def test_money_is_no_formula(hostile):
    hostile.page.wait_for_selector("#control mjx-container", state="attached")
    assert hostile.page.locator(".mcp-magic mjx-container").count() == 0
    expect(hostile.page.get_by_text("from $5 to $10", exact=True)).to_be_visible()


def test_a_long_listing_scrolls_under_its_header(hostile):
    listing = hostile.page.locator(".mcp-scroll", has_text="showcase:several_texts")
    seen, whole = listing.evaluate("(box) => [box.clientHeight, box.scrollHeight]")
    assert seen < 700 < whole
    listing.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    box, header = listing.bounding_box(), listing.locator("thead th").first.bounding_box()
    assert box is not None
    assert header is not None
    assert abs(header["y"] - box["y"]) < 2


def test_a_date_stays_on_one_line_on_a_narrow_page(lab):
    shown = run(lab, "%mcp")
    with window_of(lab, 600):
        lines = """(table) => [...table.tBodies[0].rows[0].cells].map(cell => {
            const text = document.createRange(); text.selectNodeContents(cell);
            return [cell.innerText, new Set([...text.getClientRects()].map(each => each.top)).size];
        })"""
        assert dict(shown.locator("table").evaluate(lines))["2026-07-28"] == 1


LISTING = "from mcp_magic.results import Listing\nListing"
LISTINGS = {
    "%mcp": "latency",
    f"{LISTING}([{{**dict.fromkeys('abcdefgh', 'x y'), 'reason': 'no ' * 99}}])": "reason",
    "%mcp lint show": "what, and what to do",
    f"{LISTING}([{{'rows': 9, 'error': 'x' * 200}}])": "error",
    "%mcp trace": "",
}


@pytest.mark.firefox
def test_no_cell_of_a_listing_is_off_the_edge_of_a_narrow_page(lab):
    frames = {run(lab, source).locator(".mcp-scroll").last: column for source, column in LISTINGS.items()}
    label = "(cells) => cells.map(cell => getComputedStyle(cell, '::before').content)"
    for width in (1000, 700, 360):
        with window_of(lab, width):
            for frame, column in frames.items():
                cells = frame.locator("tbody tr").first.locator("td")
                if frame.locator("thead").is_visible():  # the names of the columns are there, and not in each cell
                    assert set(cells.evaluate_all(label)) <= {"none", "normal"}
                    assert width > 360
                    continue
                assert frame.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
                assert not column or f'"{column}"' in cells.evaluate_all(label)
            lab.picture(f"listings-{width}", first=0)


@pytest.mark.firefox
def test_right_to_left_text_begins_at_the_right(lab):
    shown = run(lab, "%mcp call show:one_text text='שלום עולם!'")
    first, last, left, right = shown.locator("pre").evaluate("""(pre) => {
        const text = pre.firstChild, place = (at) => {
            const range = document.createRange();
            range.setStart(text, at);
            range.setEnd(text, at + 1);
            return range.getBoundingClientRect();
        };
        const box = pre.getBoundingClientRect();
        return [place(0).right, place(text.data.trimEnd().length - 1).left, box.left, box.right];
    }""")
    assert right - first < 20, "the first letter"
    assert left < last < first - 40, "the exclamation mark, which ends the sentence"


MODEL = """
from langchain_core.messages import AIMessage
from mcp_magic import ScriptedModel
from tests_evil import EVIL
call = {"name": "showcase__one_text", "args": {"text": EVIL}, "id": "call_1"}
evil_model = ScriptedModel([AIMessage(EVIL, tool_calls=[call, {"name": EVIL, "args": {}, "id": "call_2"}]), EVIL])"""


def test_model_text_requests_no_host_and_runs_nothing(hostile, jupyterlab, live_browser):
    (jupyterlab.folder / "tests_evil.py").write_text(f"EVIL = {EVIL!r}")
    asked: list[str] = []
    hostile.page.on("request", lambda request: asked.append(request.url))
    run(hostile, MODEL)
    shown = run(hostile, "%%mcp_agent --model $evil_model --approve auto --thread evil\nGo.")
    expect(shown).to_contain_text("evil.png?q=secret")
    expect(shown).to_contain_text("flowchart LR")
    hostile.page.wait_for_function("() => document.fonts.status === 'loaded'")
    foreign = [url for url in asked if "/evil." in url or not url.startswith((jupyterlab.url, "data:", "blob:"))]
    assert foreign == []
    assert hostile.dialogs == []
    ours = shown.locator(".mcp-magic")
    assert ours.locator("mjx-container, script, iframe, svg, img, [onerror], a[href^='javascript']").count() == 0
    # The same without our renderer asks, so that this test would see it if ours did.
    with hostile.page.expect_request("**/evil.png?q=secret"):
        run(hostile, "from IPython.display import Markdown\nMarkdown(EVIL)")

    outputs = [json.dumps(output) for cell in hostile.outputs() for output in cell]
    kept = [json.loads(text) for text in outputs if "mcp-magic" in text and "evil.png?q=" in text]
    (jupyterlab.folder / "evil-saved.ipynb").write_text(
        json.dumps(v4.new_notebook(cells=[v4.new_code_cell("%%mcp_agent", outputs=kept)]))
    )
    page = live_browser.new_page()
    later: list[str] = []
    page.on("request", lambda request: later.append(request.url))
    page.goto(f"{jupyterlab.url}/doc/tree/evil-saved.ipynb?reset")
    expect(page.locator(".mcp-magic").first).to_contain_text("evil.png?q=secret")
    page.wait_for_function("() => document.fonts.status === 'loaded'")
    assert [url for url in later if "/evil." in url or not url.startswith((jupyterlab.url, "data:", "blob:"))] == []
    page.close()


def test_markdown_of_a_server_makes_the_page_ask_no_host(hostile):
    asked: list[str] = []
    hostile.page.on("request", lambda request: asked.append(request.url))
    expect(run(hostile, FETCHING + OURS).locator("pre code")).to_contain_text("flowchart LR")
    # The same without our renderer is drawn and asks, so that this test would see it if ours did.
    with hostile.page.expect_request("**/theirs.png"):
        run(hostile, FETCHING + "Markdown(text.replace('NAME', 'theirs'))")
    assert [url for url in asked if "ours" in url] == []
