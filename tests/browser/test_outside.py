"""Calls from outside in a real JupyterLab: asked in the page, denied with a sentence where no page is open."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp_types import Implementation

from tests.support.notebooks import write_notebook
from tests.support.pages import SETUP, asked, button, expect, finished, output, press, readable, run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from tests.support.lab import Lab

pytestmark = pytest.mark.slow

SERVE = """
import asyncio
from mcp_magic.loopback import HOST, LoopbackServer, listen
from mcp_magic.outside.gateway import KernelServer

app = KernelServer(host, loop=asyncio.get_running_loop()).streamable_http_app(host=HOST)
serving, listening = LoopbackServer(app, lambda scope: None, "outside", own_thread=True), listen()
await serving.start(listening)
print(f"http://{HOST}:{listening.getsockname()[1]}/mcp")
"""
CLOSE = """async () => {
    const notebook = window.jupyterapp.shell.currentWidget;
    await notebook.context.save();
    notebook.close();
}"""
NAME = "claude-code"
DENIED = "show:one_text was not called; denied by default: "


async def called(url: str, name: str, arguments: dict[str, Any]) -> str:
    async with Client(url, client_info=Implementation(name=name, version="1.0")) as client:
        result = await client.call_tool("show__one_text", arguments)
        return "".join(block.text for block in result.content)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    """Playwright runs a loop in this thread: clients are outside of it, too."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def serve(lab: Lab, threads: ThreadPoolExecutor) -> Callable[..., Future[str]]:
    """Serve the kernel; return what calls a tool as an outside client, and gives its answer later."""
    url = run(lab, SERVE).inner_text().strip()
    return lambda text, name=NAME: threads.submit(lambda: asyncio.run(called(url, name, {"text": text})))


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


def test_a_question_stands_below_a_cell_that_waits(lab, threads):
    call = serve(lab, threads)
    cell = start(lab, "await asyncio.sleep(600)")
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
    press(later, "Approve")
    assert answer.result(60) == "ho"


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
            f"{DENIED}no page of the notebook is open; the person can open it, and you can call again"
        )
        assert "`%mcp allow show:one_text --for 'outside claude-code' --first` would allow it." in said
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
