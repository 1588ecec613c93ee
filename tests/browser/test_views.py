"""The view of a tool in a real JupyterLab."""

from __future__ import annotations

import re
import sys

import pytest

from tests.documentation import blocks
from tests.support import dash_server
from tests.support.pages import expect, finished, output, press, run, running, saved, start, themes, view_in

pytestmark = pytest.mark.slow

CELLS = (f"%mcp connect --name dash -- {sys.executable} {dash_server.__file__}",)

SLOW = """
import asyncio
from mcp.server.apps import Apps
from mcp.server.mcpserver import MCPServer

apps, counted = Apps(), asyncio.Event()

@apps.tool(resource_uri="ui://slow/view")
async def count() -> str:
    await counted.wait()
    return "42"

apps.add_html_resource("ui://slow/view", "<h2 id=title>figures</h2>")
slow = MCPServer("slow", extensions=[apps], log_level="ERROR")
%mcp connect slow
"""

ASKING = """
from mcp.server.apps import Apps, ResourcePermissions
from mcp.server.mcpserver import MCPServer

apps = Apps()

@apps.tool(resource_uri="ui://asking/view")
def look() -> str:
    return "looked"

wanted = ResourcePermissions(camera={}, microphone={}, geolocation={})
apps.add_html_resource("ui://asking/view", "<p>asking", permissions=wanted)
asking = MCPServer("asking", extensions=[apps], log_level="ERROR")
%mcp connect asking
"""

WRITING = """
import asyncio
from pathlib import Path
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from mcp_magic import ScriptedModel

class Writing(ScriptedModel):
    async def _astream(self, messages, *asked, **more):
        if messages[-1].type == "tool":
            yield ChatGenerationChunk(message=AIMessageChunk("These are the figures."))
            return
        for piece in ('{"region": "U', 'S"}'):
            call = {"name": "dash__sales", "args": piece, "id": "call_1", "index": 0}
            named = call if piece[0] == "{" else call | {"name": None, "id": None}
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[named]))
            while not Path("write").exists():
                await asyncio.sleep(0.05)

writing = Writing([])
"""

PLACE = """() => new Promise((done) => navigator.geolocation.getCurrentPosition(
    ({coords}) => done(coords.latitude), ({message}) => done(message)))"""

MEDIA = """async () => {
    const take = async (wanted) => {
        try { return (await navigator.mediaDevices.getUserMedia(wanted)).getTracks()[0].readyState; }
        catch (error) { return error.message; }
    };
    return [await take({video: true}), await take({audio: true})];
}"""


@pytest.mark.firefox
def test_view_is_drawn_calls_back_and_follows_theme(lab):
    shown = run(lab, "%mcp call dash:sales region=US")
    view = view_in(shown)
    expect(view.locator("#title")).to_have_text("Sales of US")
    expect(view.locator("#answer")).to_have_text("US: 42")
    expect(view.locator("#theme")).to_have_text("light")
    expect(shown.locator(".mcp-app-frame > iframe")).to_have_css("height", "230px")
    view.locator("#more").click()
    question = shown.locator(".mcp-app-question")
    expect(question).to_contain_text("app dash wants to call dash:refresh")
    fonts = "card => [...card.querySelectorAll('input, select, button')].map(each => getComputedStyle(each).font)"
    assert len({*question.evaluate(fonts)}) == 1, "the browser's own fonts are of other sizes"
    order = "line => [...line.querySelectorAll('input, button')].map(each => each.placeholder || each.textContent)"
    offered = question.locator(".mcp-app-choices").evaluate(order)
    assert offered.index("why not; Enter denies") == offered.index("Deny") - 1, "the reason is written first"
    press(shown, "Approve")
    expect(view.locator("#answer")).to_have_text("step 2 done")
    expect(question).to_have_count(0)
    for theme in themes(lab, "view"):
        expect(view.locator("#theme")).to_have_text(theme)
    assert "Sales of" not in str(saved(lab))


def test_cancelled_call_of_a_view_drops_question_and_answer(lab):
    shown = run(lab, "%mcp call dash:sales region=US")
    expect(view_in(shown).locator("#answer")).to_have_text("US: 42")
    inside = view_in(shown).locator("body")
    inside.evaluate("""() => {
        window.answers = [];
        addEventListener("message", ({data}) => { if (data.id >= 90) answers.push(data.id); });
        window.post = (message) => parent.postMessage({jsonrpc: "2.0", ...message}, "*");
        post({id: 90, method: "tools/call", params: {name: "refresh", arguments: {step: 3}}});
    }""")
    expect(shown.locator(".mcp-app-question")).to_contain_text("dash:refresh")
    inside.evaluate("post({method: 'notifications/cancelled', params: {requestId: 90}})")
    expect(shown.locator(".mcp-app-question")).to_have_count(0)
    answers = inside.evaluate("""() => new Promise((done) => {
        addEventListener("message", ({data}) => data.id === 91 && done(answers));
        post({id: 91, method: "tools/list", params: {}});
    })""")
    assert answers == [91]


def test_view_of_the_documentation_is_shown(lab):
    server, call = [block.text for block in blocks("docs/views.md") if "dice" in block.text]
    run(lab, server)
    expect(view_in(run(lab, call)).locator("#total")).to_have_text(re.compile(r"^\d \+ \d \+ \d$"))


def test_job_shows_view_below_its_ended_cell(lab):
    run(lab, SLOW)
    shown = run(lab, "job = %mcp call slow:count --background")
    expect(shown).to_contain_text("working")
    run(lab, "counted.set()")
    expect(view_in(shown).locator("#title")).to_have_text("figures")
    expect(shown).to_contain_text("✓ slow:count")


def test_view_gets_allowed_geolocation_but_no_camera(lab):
    context = lab.page.context
    context.grant_permissions(["geolocation"])
    context.set_geolocation({"latitude": 60.0, "longitude": 11.0})
    try:
        run(lab, ASKING)
        shown = run(lab, "%mcp call asking:look")
        inside = view_in(shown).locator("p")
        expect(inside).to_have_text("asking")
        assert "disabled in this document by permissions policy" in inside.evaluate(PLACE)
        press(shown, "Allow geolocation…")
        question = shown.locator(".mcp-app-question")
        expect(question).to_contain_text("app asking wants to use your geolocation")
        press(question, "Allow")
        expect(shown.get_by_role("button", name="Allow geolocation")).to_have_count(0)
        expect(inside).to_have_text("asking")
        assert inside.evaluate(PLACE) == 60
        assert lab.page.evaluate(MEDIA) == ["live", "live"], "the browser has both"
        assert inside.evaluate(MEDIA) == ["Invalid security origin"] * 2
    finally:
        context.clear_permissions()


def test_view_shows_partial_input_of_agent_call(lab, jupyterlab):
    run(lab, WRITING)
    cell = start(lab, "%%mcp_agent --model $writing --approve auto --thread writing\nShow the sales of the US.")
    shown = output(running(cell))
    view = view_in(shown)
    expect(view.locator("#title")).to_have_text("Asked for U")
    expect(view.locator("#answer")).to_have_text("")
    expect(shown).to_contain_text("writing dash:sales")
    (jupyterlab.folder / "write").touch()
    expect(view.locator("#title")).to_have_text("Sales of US")
    expect(view.locator("#answer")).to_have_text("US: 42")
    finished(cell)
    expect(shown.locator(".mcp-app")).to_have_count(1)
    expect(shown).to_contain_text("These are the figures.")
