"""Calls from outside in a real JupyterLab: asked in the page, denied with a sentence where no page is open."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.support.notebooks import write_notebook
from tests.support.pages import SETUP, WAIT_MS, asked, button, expect, finished, output, press, readable, run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from tests.support.lab import Lab

pytestmark = pytest.mark.slow

SERVE = "%mcp serve --kernel"
WHERE = "print(host.serving.url, host.serving.token_file.read_text())"
CELLS = (
    "%%mcp_server desk\n"
    "def load(rows: list[dict], city: str) -> str:\n"
    '    "Loads rows for a city."\n'
    "    return f'{len(rows)} rows'",
    "df = [{'a': n, 'city': f'town {n}'} for n in range(10_000)]\nhome = 'Oslo'\n%mcp share df home",
)
CLOSE = """async () => {
    const notebook = window.jupyterapp.shell.currentWidget;
    await notebook.context.save();
    notebook.close();
}"""
NAME = "claude-code"
PROGRAM = "total = 0\nfor number in range(2):\n    total += number\nprint('the total is', total)"
DENIED = "show:one_text was not called; denied by default: "


async def called(url: str, token: str, name: str, tool: str, arguments: dict[str, Any]) -> str:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as web:
        transport = streamable_http_client(url, http_client=web)
        async with Client(transport, client_info=Implementation(name=name, version="1.0")) as client:
            result = await client.call_tool(tool, arguments)
            return "".join(block.text for block in result.content)


@pytest.fixture(scope="module")
def notebook(jupyterlab, live_browser):
    """A notebook of its own: its page is closed and loaded again, and its kernel serves."""
    write_notebook(jupyterlab.folder / "outside_agents.ipynb", SETUP)
    with jupyterlab.open(live_browser, "outside_agents.ipynb") as lab:
        lab.run_all()
        lab.page.set_default_timeout(WAIT_MS)
        for source in CELLS:
            run(lab, source)
        yield lab


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    """Playwright runs a loop in this thread: clients are outside of it, too."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def serve(lab: Lab, threads: ThreadPoolExecutor, *options: str) -> Callable[..., Future[str]]:
    """Serve the kernel; return what calls a tool as an outside client, and gives its answer later."""
    run(lab, " ".join([SERVE, *options]))
    url, token = run(lab, WHERE).inner_text().split()

    def call(text: str = "", name: str = NAME, tool: str = "show__one_text", **arguments: Any) -> Future[str]:
        arguments = arguments or {"text": text}
        return threads.submit(lambda: asyncio.run(called(url, token, name, tool, arguments)))

    return call


def test_a_person_answers_two_clients_one_by_one(lab, threads):
    call = serve(lab, threads)
    cell = start(lab, "1 + 1")
    finished(cell)
    first = call("hi")
    expect(button(cell, "Approve")).to_be_visible()
    panel = output(cell)
    expect(panel).to_contain_text("outside claude-code (as it calls itself) wants to call show:one_text")
    second = call("ho", "codex")
    expect(button(cell, "Deny")).to_have_count(2)
    expect(button(cell, "Approve all")).to_have_count(0)
    assert "mcp-note" in {*readable(lab, ".mcp-magic", ".mcp-form", picture="outside")}
    button(cell, "Approve").first.click()
    assert first.result(60) == "hi"
    assert not second.done()
    reason = panel.locator("input[placeholder^='why not']")
    reason.fill("not today")
    reason.press("Enter")
    assert second.result(60) == "show:one_text was not called; denied by the user: not today."
    expect(panel).to_contain_text("✓ approved show:one_text(text=hi) by you")
    expect(panel).to_contain_text("(outside codex (as it calls itself) asked)")
    # no cell has run since, and the page has deleted the subshell of the buttons
    for text in ("once more", "and again"):
        later = call(text)
        press(cell, "Approve")
        assert later.result(60) == text


def test_values_that_would_leave_are_drawn_and_can_be_opened(lab, threads):
    call = serve(lab, threads)
    cell = start(lab, "3")
    finished(cell)
    answer = call(tool="desk__load", rows={"$value": "df"}, city={"$value": "home"})
    expect(button(cell, "Approve")).to_be_enabled()
    panel = output(cell)
    expect(panel).to_contain_text("← df: 10,000 rows")
    expect(panel).to_contain_text('{"a": 2, "city": "town 2"}')
    expect(panel).not_to_contain_text("town 3")
    expect(panel).to_contain_text("← home")
    assert "mcp-note" in {*readable(lab, ".mcp-magic", ".mcp-form", picture="outside-values")}
    panel.locator("button").filter(has_text="Show all of rows").click()
    expect(panel).to_contain_text("town 30")
    press(cell, "Edit")
    expect(panel.locator("textarea")).to_have_value(re.compile(r'"rows": \{\s*"\$value": "df"'))
    press(cell, "Discard changes")
    press(cell, "Approve")
    assert answer.result(60) == "10000 rows"


def test_a_program_is_edited_as_code(lab, threads):
    run(lab, "await host.stop_serving();")  # it is served without
    call = serve(lab, threads, "--code")
    cell = start(lab, "5")
    finished(cell)
    answer = call(tool="run_code", code=PROGRAM)
    press(cell, "Edit")
    panel = output(cell)
    expect(panel.locator("textarea")).to_have_value(PROGRAM)
    panel.locator("textarea").fill(PROGRAM.replace("2", "3"))
    expect(panel.locator("pre").filter(has_text="range(3)")).to_be_visible()
    assert readable(lab, ".mcp-magic", ".mcp-form", picture="outside-program-edited")
    press(cell, "Approve changed")
    assert "[the person changed the code to]" in answer.result(60)


def test_a_question_stands_below_a_cell_that_waits(lab, threads):
    call = serve(lab, threads)
    cell = start(lab, "import asyncio\nawait asyncio.sleep(600)")
    answer = call("hi")
    press(asked(cell), "Approve")
    assert answer.result(60) == "hi"
    lab.command("notebook:interrupt-kernel")
    finished(cell)


def test_the_explorer_asks_as_well(lab, threads):
    call = serve(lab, threads)
    explorer = run(lab, "%mcp ui")
    answer = call("hi")
    expect(button(explorer, "Approve")).to_be_visible()
    lab.picture("outside-explorer")
    press(explorer, "Approve")
    assert answer.result(60) == "hi"
    expect(button(explorer, "Approve")).to_have_count(0)
    later = start(lab, "2")
    finished(later)
    answer = call("ho")
    expect(button(explorer, "Approve")).to_be_visible()
    opened = run(lab, "%mcp ui")
    expect(button(opened, "Approve")).to_be_visible()
    press(later, "Approve")
    assert answer.result(60) == "ho"
    expect(button(opened, "Approve")).to_have_count(0)


def test_without_a_page_a_call_is_denied_until_a_cell_has_run(jupyterlab, live_browser, threads):
    write_notebook(jupyterlab.folder / "closed.ipynb", SETUP)
    with jupyterlab.open(live_browser, "closed.ipynb") as lab:
        lab.run_all()
        call = serve(lab, threads)
        run(lab, "%config MCPMagics.approval_timeout = 60")
        lab.page.evaluate(CLOSE)
        lab.page.wait_for_selector(".jp-Notebook", state="detached")
        said = call("hi").result(60)
        assert said.startswith(
            f"{DENIED}no page of the notebook is open; the person can open it and run any cell, and you can call again"
        )
        assert "`%mcp allow show:one_text --for 'outside claude-code'` would allow it." in said
        lab.command("docmanager:open", path="closed.ipynb")
        lab.wait_ready()
        assert (
            call("hi").result(60).startswith(f"{DENIED}the page of the notebook was loaded again, and shows a question")
        )
        cell = start(lab, "2")
        finished(cell)
        answer = call("hi")
        press(cell, "Approve")
        assert answer.result(60) == "hi"
