"""`%mcp ui` in a real kernel, run as JupyterLab runs a cell."""

import re

import pytest

from tests.support.frontends import VIEW, Frontend
from tests.support.kernel_servers import MATH, SHOWCASE, connect_in_process
from tests.support.processes import PLAIN


@pytest.fixture(scope="module", autouse=True)
def math(kernel):
    connect_in_process(kernel, MATH, "math")


def run(kernel, code, cell, deleted=()):
    """Run a cell that has an id."""
    return kernel.ok(code, cellId=cell, deletedCells=list(deleted))


def widgets(kernel):
    return int(kernel.ok("print(len(__import__('ipywidgets').widgets.widget._instances))").stdout)


def test_ui_magic_shows_live_widget_with_fallback_text(kernel):
    data = run(kernel, "%mcp ui math", "first").data
    assert data[VIEW]["model_id"]
    assert "math" in data["text/plain"]
    assert "<table" in data["text/html"]
    cell = kernel.run("%mcp ui maht")
    assert cell.ename == "UnknownServerError"
    assert "Did you mean 'math'?" in cell.evalue
    kernel.ok("def explore():\n    return get_ipython().run_line_magic('mcp', 'ui math')\nmade = explore()")
    assert "math" in kernel.ok("made").text
    kernel.ok("made.close()")


def test_what_a_cell_showed_closes_with_it(kernel):
    run(kernel, "%mcp ui", "again")
    once = widgets(kernel)
    for _ in range(3):
        run(kernel, "%mcp ui", "again")
    assert widgets(kernel) == once
    run(kernel, "%mcp ui", "deleted")
    assert widgets(kernel) > once
    run(kernel, "%mcp ui", "again", deleted=("deleted",))
    assert widgets(kernel) == once


def test_what_is_typed_is_connected_as_mcp_connect_does_it(kernel):
    frontend = Frontend(kernel)
    shown = frontend.run("explorer = %mcp ui\nprint(explorer.servers.target.model_id)\nexplorer")
    target = shown.streams["stdout"].strip()
    for typed, seen in (("http", "URL"), (" ".join(PLAIN), r'● open</span> <span class="mcp-note"[^>]*>stdio')):
        frontend.type_into(target, typed)
        frontend.enter(target)
        frontend.read_until(
            lambda seen=seen: any(re.search(seen, str(state.get("value"))) for state in frontend.models.values())
        )
    kernel.ok("explorer.close()")


def test_the_search_is_answered_while_a_cell_awaits_a_call(kernel):
    connect_in_process(kernel, SHOWCASE, "show")
    kernel.ok("from mcp_magic import host\nfrom mcp_magic.ui.explorer import Explorer\nexplorer = Explorer(host)")
    search = kernel.ok("print(explorer.filter.search.model_id)").stdout.strip()
    waiting = kernel.start("print('started')\nawait host['show'].call('slow', seconds=600)")
    kernel.until_stream(waiting, "started")
    state = {"method": "update", "state": {"value": "slow"}, "buffer_paths": []}
    typed = kernel.send("comm_msg", {"comm_id": search, "data": state})
    seen = ""
    while "show:slow" not in seen:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "comm_msg" and message["parent_header"].get("msg_id") == typed:
            seen += str(message["content"])
    assert kernel.stop(waiting).status == "error"
    kernel.ok("explorer.close()")
