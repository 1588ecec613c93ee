"""Jobs in kernels: their cards and buttons, their questions, and what is left after a kernel was killed."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from tests.environments import tasks_command
from tests.support.kernels import Kernel, environment, gone, until
from tests.support.processes import free_port, start_http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.frontends import Frontend, Shown

READY = r"Uvicorn running on http://[\d.]+:(?P<port>\d+)"
MATH = """
import asyncio
from mcp.server.mcpserver import Context, MCPServer

math = MCPServer("math", log_level="ERROR")

@math.tool()
async def slow(ctx: Context) -> str:
    await ctx.report_progress(1, 4, "first quarter")
    await asyncio.Event().wait()
"""
FIGURES = """
from mcp.server.apps import Apps

apps, counted = Apps(), asyncio.Event()

@apps.tool(resource_uri="ui://figures/view")
async def count() -> str:
    await counted.wait()
    return "42"

apps.add_html_resource("ui://figures/view", "<p>figures")
figures = MCPServer("figures", extensions=[apps], log_level="ERROR")
"""
SETUP = ("%load_ext mcp_magic", MATH, "%mcp connect math", "from mcp_magic import host")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_http(tasks_command(free_port()), ready=READY) as server:
        yield server.url


@pytest.fixture(scope="module")
def ci(frontend: Frontend, url: str) -> Frontend:
    frontend.run(f"%mcp connect {url} --name ci")
    return frontend


def text_of(frontend: Frontend, cell: Shown) -> str:
    """What a cell shows, live or not."""
    live = [name for shown in cell.live for name in frontend._inside(shown)]
    return "\n".join([*(str(frontend.models[name].get("value", "")) for name in live), *cell.lines])


def shows(frontend: Frontend, cell: Shown, *texts: str) -> None:
    """Wait until a cell shows texts."""
    frontend.read_until(lambda: all(text in text_of(frontend, cell) for text in texts), what=f"it shows {texts}")


@pytest.mark.usefixtures("no_widget_is_left")
def test_job_shows_status_below_its_cell_while_others_run(ci: Frontend) -> None:
    cell = ci.run("job = %mcp call ci:build ref=main --background\njob")
    assert cell.done
    shows(ci, cell, "<b>ci:build</b>", "working", "building main", "a task of the server, which keeps it for 15 min")
    table = ci.run("%mcp jobs")
    shows(ci, table, "ci:build", "working", "building main")
    shows(ci, ci.run("%mcp watch"), "job", "1: build", "working")
    ci.run("%mcp call ci:release")
    assert ci.run("(await job).data").lines == ["{'built': 'main'}"]
    shows(ci, cell, "✓ ci:build · job 1 · completed", '"built": "main"')


@pytest.mark.usefixtures("no_widget_is_left")
def test_the_button_cancels_a_job_and_so_does_the_line(ci: Frontend) -> None:
    cell = ci.run("%mcp call math:slow --background -o job")
    shows(ci, cell, "1 of 4 (25 %)", "first quarter", "the server does not make it a task")
    ci.click("Cancel", cell=cell)
    shows(ci, cell, "✗ math:slow")
    other = ci.run("job = %mcp call math:slow --background\njob.number")
    [number] = other.lines[-1:]
    shows(ci, ci.run(f"%mcp jobs {number} --cancel"), "cancelled")
    shows(ci, ci.run("print(job.status)\njob.error"), "CallCancelledError('math:slow: cancelled.')")


@pytest.mark.usefixtures("no_widget_is_left")
def test_a_job_asks_below_its_cell_after_the_cell_has_ended(ci: Frontend) -> None:
    cell = ci.run("job = %mcp call ci:choose --background")
    assert cell.done
    ci.read_until(lambda: bool(ci._named("Submit", cell)), what="the question")
    ci.type("TextModel", "main")
    ci.click("Submit", cell=cell)
    assert ci.run("(await job).text").lines == ["'accept main'"]


@pytest.mark.usefixtures("no_widget_is_left")
def test_ended_job_shows_its_view_below_its_card(frontend: Frontend) -> None:
    frontend.run(FIGURES)
    frontend.run("%mcp connect figures")
    cell = frontend.run("job = %mcp call figures:count --background", again="one cell")
    shows(frontend, cell, "figures:count", "working")
    frontend.run("counted.set()")
    shows(frontend, cell, "✓ figures:count", "42")
    frontend.read_until(lambda: bool(cell.live), what="the view")
    [view] = cell.live
    frontend.tell(view, kind="hello", view="a")
    sent = frontend.hears(view, "view")
    assert (sent["html"], sent["outcome"]["params"]["content"][0]["text"]) == ("<p>figures", "42")

    [at_once] = frontend.run("job = %mcp call figures:count --background", again="one cell").live
    frontend.tell(at_once, kind="hello", view="b")
    assert frontend.hears(at_once, "view")["html"] == "<p>figures"
    frontend.run("'another'", again="one cell")


@pytest.mark.usefixtures("no_widget_is_left")
def test_rerun_cell_shows_no_view_of_its_earlier_job(frontend: Frontend) -> None:
    first = frontend.run("counted.clear()\njob = %mcp call figures:count --background", again="one cell")
    shows(frontend, first, "working")
    frontend.run("'another'", again="one cell")
    frontend.run("counted.set()")
    shows(frontend, first, "✓ figures:count", "42")
    frontend.run("await asyncio.sleep(0)")
    assert first.live == []
    frontend.run("%mcp disconnect figures")


def test_lines_that_do_not_fit_say_what_to_type(ci: Frontend) -> None:
    assert ci.run("%mcp jobs 99").evalue.startswith("no job 99. There are: ")
    assert ci.run("%mcp jobs --cancel").evalue == "%mcp jobs: --cancel takes the number of a job: %mcp jobs 1 --cancel"
    assert ci.run("%mcp call ci:build ref=x --background --df").evalue == (
        "%mcp call: --df is for a result, and --background returns a job: (await job).df"
    )
    assert "ref" in ci.run("%mcp call ci:build --background").evalue


def kept(folder: Path) -> list[str]:
    """The tools of the tasks that are kept for later kernels."""
    file = folder / "data" / "mcp_magic" / "jobs.sqlite"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        return [tool for (tool,) in opened.execute("SELECT tool FROM jobs")]
    return []


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[], Kernel]]:
    """Starts kernels that keep their jobs in one data directory."""
    running: list[Kernel] = []

    def begin() -> Kernel:
        running.append(Kernel(tmp_path, environment(tmp_path, JUPYTER_DATA_DIR=str(tmp_path / "data"))))
        return running[-1]

    yield begin
    for kernel in running:
        kernel.shutdown()


@pytest.mark.parametrize("line", ["job = %mcp call ci:build ref=main --background", "%mcp call ci:build ref=main"])
def test_a_task_outlives_a_kernel_that_was_killed(begin: Callable[[], Kernel], tmp_path: Path, line: str) -> None:
    with start_http(tasks_command(free_port()), ready=READY) as server:
        first = begin()
        first.ok("%load_ext mcp_magic")
        first.ok(f"%mcp connect {server.url} --name ci")
        first.start(line)
        until(lambda: kept(tmp_path) == ["build"], what="the task is kept")
        process = first.process
        process.kill()
        gone([process])
        second = begin()
        second.ok("%load_ext mcp_magic")
        left = "1 task of an earlier kernel or session; `%mcp jobs --resume` takes up the rest"
        assert left in second.ok("%mcp jobs").text
        assert "ci:build: connect ci first, then `%mcp jobs --resume`" in second.ok("%mcp jobs --resume").text
        second.ok(f"%mcp connect {server.url} --name ci")
        assert "working" in second.ok("%mcp jobs --resume").text
        second.ok("%mcp call ci:release")
        assert second.ok("job = %mcp jobs 1\n(await job).data").text == "{'built': 'main'}"
