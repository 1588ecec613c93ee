"""Jobs in kernels: their cards and buttons, their questions, and what is left after a kernel was killed."""

import sqlite3
from contextlib import closing, suppress

import pytest

from tests.environments import tasks_command
from tests.support.kernel_servers import LOAD
from tests.support.kernels import gone, until
from tests.support.processes import free_port, start_http

SERVERS = """
import asyncio
from mcp.server.apps import Apps
from mcp.server.mcpserver import Context, MCPServer

math = MCPServer("math", log_level="ERROR")

@math.tool()
async def slow(ctx: Context) -> str:
    await ctx.report_progress(1, 4, "first quarter")
    await asyncio.Event().wait()

apps, counted = Apps(), asyncio.Event()

@apps.tool(resource_uri="ui://figures/view")
async def count() -> str:
    await counted.wait()
    return "42"

apps.add_html_resource("ui://figures/view", "<p>figures")
figures = MCPServer("figures", extensions=[apps], log_level="ERROR")
"""
SETUP = (LOAD, SERVERS, "%mcp connect math", "%mcp connect figures", "from mcp_magic import host")
pytestmark = pytest.mark.usefixtures("no_widget_is_left")


def tasks_server():
    return start_http(tasks_command(free_port()), ready=r"Uvicorn running on http://[\d.]+:(?P<port>\d+)")


@pytest.fixture(scope="module")
def ci(frontend):
    with tasks_server() as server:
        frontend.run(f"%mcp connect {server.url} --name ci")
        yield frontend


def test_job_shows_status_below_its_cell_while_others_run(ci):
    cell = ci.run("job = %mcp call ci:build ref=main --background\njob")
    assert cell.done
    ci.shows(cell, "<b>ci:build</b>", "working", "building main", "a task of the server, which keeps it for 15 min")
    ci.shows(ci.run("%mcp jobs"), "ci:build", "working", "building main")
    ci.shows(ci.run("%mcp watch"), "job", "1: build", "working")
    ci.run("%mcp call ci:release")
    assert ci.line("(await job).data") == "{'built': 'main'}"
    ci.shows(cell, "✓ ci:build · job 1 · completed", '"built": "main"')


def test_the_button_cancels_a_job_and_so_does_the_line(ci):
    cell = ci.run("%mcp call math:slow --background -o job")
    ci.shows(cell, "1 of 4 (25 %)", "first quarter", "the server does not make it a task")
    ci.click("Cancel", cell=cell)
    ci.shows(cell, "✗ math:slow")
    [number] = ci.run("job = %mcp call math:slow --background\njob.number").lines[-1:]
    ci.shows(ci.run(f"%mcp jobs {number} --cancel"), "cancelled")
    ci.shows(ci.run("print(job.status)\njob.error"), "CallCancelledError('math:slow: cancelled.')")


def test_a_job_asks_below_its_cell_after_the_cell_has_ended(ci):
    cell = ci.run("job = %mcp call ci:choose --background")
    assert cell.done
    ci.has("Submit", cell)
    ci.type("TextModel", "main")
    ci.click("Submit", cell=cell)
    assert ci.line("(await job).text") == "'accept main'"


def test_ended_job_shows_its_view_below_its_card_unless_rerun(frontend):
    count = "job = %mcp call figures:count --background"
    cell = frontend.run(count, again="one cell")
    frontend.shows(cell, "figures:count", "working")
    frontend.run("counted.set()")
    frontend.shows(cell, "✓ figures:count", "42")
    frontend.read_until(lambda: bool(cell.live), what="the view")
    [view] = cell.live
    frontend.tell(view, kind="hello", view="a")
    sent = frontend.hears(view, "view")
    assert (sent["html"], sent["outcome"]["params"]["content"][0]["text"]) == ("<p>figures", "42")
    [at_once] = frontend.run(count, again="one cell").live
    frontend.tell(at_once, kind="hello", view="b")
    assert frontend.hears(at_once, "view")["html"] == "<p>figures"
    first = frontend.run(f"counted.clear()\n{count}", again="one cell")
    frontend.shows(first, "working")
    frontend.run("'another'", again="one cell")
    frontend.run("counted.set()")
    frontend.shows(first, "✓ figures:count", "42")
    frontend.run("await asyncio.sleep(0)")
    assert first.live == []


def test_lines_that_do_not_fit_say_what_to_type(ci):
    assert ci.run("%mcp jobs 99").evalue.startswith("no job 99. There are: ")
    assert ci.run("%mcp jobs --cancel").evalue == "%mcp jobs: --cancel takes the number of a job: %mcp jobs 1 --cancel"
    assert ci.run("%mcp call ci:build ref=x --background --df").evalue == (
        "%mcp call: --df is for a result, and --background returns a job: (await job).df"
    )
    assert "ref" in ci.run("%mcp call ci:build --background").evalue


def kept(folder):
    """The tools of the tasks that are kept for later kernels."""
    file = folder / "data" / "mcp_magic" / "jobs.sqlite"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        return [tool for (tool,) in opened.execute("SELECT tool FROM jobs")]
    return []


def test_tasks_outlive_a_kernel_that_was_killed(start, tmp_path):
    first, second = (start(JUPYTER_DATA_DIR=str(tmp_path / "data")) for _ in range(2))
    with tasks_server() as server:
        connect = f"%mcp connect {server.url} --name ci"
        for code in (LOAD, connect, "job = %mcp call ci:build ref=x --background"):
            first.ok(code)
        first.start("%mcp call ci:build ref=y")
        until(lambda: kept(tmp_path) == ["build", "build"], what="the tasks are kept")
        process = first.process
        process.kill()
        gone([process])
        second.ok(LOAD)
        left = "2 tasks of an earlier kernel or session; `%mcp jobs --resume` takes up the rest"
        assert left in second.ok("%mcp jobs").text
        assert "ci:build: connect ci first, then `%mcp jobs --resume`" in second.ok("%mcp jobs --resume").text
        second.ok(connect)
        assert "working" in second.ok("%mcp jobs --resume").text
        second.ok("%mcp call ci:release")
        built = [second.ok(f"job = %mcp jobs {number}\n(await job).data").text for number in (1, 2)]
    assert sorted(built) == ["{'built': 'x'}", "{'built': 'y'}"]
