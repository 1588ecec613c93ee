"""Interrupt: it ends a call, an opening, a check and what is rendered, soon and with a short error; no cell follows."""

import json
import re
import socket
import sys

import pytest

from tests.support.bundled import FOLDER
from tests.support.kernel_servers import HERE, HOLDING, LOAD, ROOT, command
from tests.support.kernels import until
from tests.support.processes import start_http
from tests.support.timing import soon, tried_again

PLAIN = True  # IPython shows an error in half the time where few modules are imported
LONG = """
from mcp.server.mcpserver import MCPServer

long = MCPServer("long")
for number in range(200):
    long.add_tool(lambda: "\\n" * 300_000, name=f"t{number}", description="- a\\n" * 5_000)
"""
IN_PROCESS = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.support.holding_server import made"
SETUP = [
    LOAD,
    f"%mcp connect {HOLDING} --name stdio",
    f"{IN_PROCESS}\ninprocess = made()\nfrom mcp_magic import host",
    "%mcp connect inprocess",
]
FORMS = {
    "awaited": "%mcp call {server}:hold folder={folder}",
    "assigned": "r = %mcp call {server}:hold folder={folder}",
    "nested": "def f():\n    r = %mcp call {server}:hold folder={folder}\n    return r\nf()",
    "timed": "%time %mcp call {server}:hold folder={folder}",
}
BUSY = {
    "results": "for _ in range(10_000):\n    display(r)",
    "pages": "%mcp docs long",
    "nested": "[get_ipython().run_line_magic('mcp', 'docs long') for _ in '1']",
}
MAPPED = """
import asyncio
from pathlib import Path
from mcp.server.mcpserver import MCPServer

rows = [{"n": n} for n in range(100)]
mapped = MCPServer("mapped", log_level="ERROR")
go, waiting = asyncio.Event(), []

@mapped.tool()
async def work(n: int, folder: str) -> int:
    if n >= 30:
        waiting.append(n)
        if len(waiting) == 5:
            Path(folder, "started").touch()
        await go.wait()
    return n
"""
STARTS = r"KeyboardInterrupt: (starting|connecting).*: interrupted"


@pytest.fixture(scope="module")
def http(kernel):
    """The same server over HTTP."""
    with start_http(command("holding_server", "--transport", "http", "--port", "0")) as running:
        kernel.ok(f"%mcp connect {running.url} --name http")
        yield
        kernel.ok("%mcp disconnect http")


@pytest.fixture(scope="module")
def long(kernel):
    kernel.ok(LONG)
    kernel.ok("%mcp connect long\nr = %mcp call long:t0")


@pytest.fixture(autouse=True)
def the_session_goes_on(kernel):
    yield
    assert kernel.ok("%mcp call stdio:ping").text == "pong"


def interrupted(kernel, folder, code):
    """Run a cell until it has made the file `started` in a folder; press stop."""
    calling = kernel.start(code)
    until((folder / "started").exists, what="the tool has started")
    return kernel.stop(calling)


@pytest.mark.timed
@pytest.mark.usefixtures("http")
@pytest.mark.parametrize(
    ("server", "form"),
    [("stdio", "awaited"), ("http", "awaited"), ("inprocess", "awaited"), ("stdio", "nested"), ("stdio", "timed")],
)
@tried_again
def test_interrupt_ends_call_tells_server_and_keeps_session(kernel, tmp_path, server, form):
    cell = interrupted(kernel, tmp_path, FORMS[form].format(server=server, folder=tmp_path))
    assert (cell.status, cell.shown_error) == ("error", f"KeyboardInterrupt: {server}:hold: interrupted")
    soon(cell.seconds, 0.5)  # issue 2
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert kernel.ok(f"%mcp call {server}:ping").text == "pong"
    assert kernel.ok("r = %mcp\n[row['state'] for row in r.rows]").text == "['open', 'open', 'open']"


@pytest.mark.timed
@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("code", BUSY.values(), ids=BUSY)
@tried_again
def test_interrupt_ends_what_keeps_the_loop_busy(kernel, code):
    cell = kernel.start(code)
    before = kernel.process.cpu_times().user
    until(lambda: kernel.process.cpu_times().user > before + 0.5, what="the kernel computes")
    done = kernel.stop(cell)
    assert (done.status, done.ename) == ("error", "KeyboardInterrupt")
    # a quarter of a second until the loop counts as busy, half of one for IPython to render the error, some for others
    soon(done.seconds, 1.5)
    slept = kernel.ok("import time\ntime.sleep(0.6)\n'slept'")
    assert slept.text == "'slept'", "a signal that is sent again is not the next cell's"


def test_interrupt_keeps_server_started_by_notebook(kernel):
    kernel.ok(f"sys.path.insert(0, {str(FOLDER)!r})\nfrom start import start\nurl = start('weather_server.py')")
    kernel.ok("%mcp connect $url --name tutorial")
    busy = kernel.start("print('begun', flush=True)\nwhile True: pass")
    kernel.until_stream(busy, "begun")
    assert kernel.stop(busy).ename == "KeyboardInterrupt"
    assert kernel.ok("r = %mcp call tutorial:get_weather location=London\nr.data['city']").text == "'London'"
    kernel.ok("%mcp disconnect tutorial")


def test_interrupt_ends_python_that_awaits_a_call(kernel, tmp_path):
    cell = interrupted(kernel, tmp_path, f"await host.call('stdio:hold', folder={str(tmp_path)!r})")
    assert cell.status == "error"
    assert cell.shown_error == "CancelledError: stdio:hold: interrupted"  # ipykernel's own way to say it
    until((tmp_path / "cancelled").exists, what="the server knows")


def test_interrupt_stops_a_loop_of_calls(kernel, tmp_path):
    code = "import pathlib\nn = 0\nwhile n < 10_000:\n    r = %mcp call stdio:ping\n    n += 1\n"
    cell = interrupted(kernel, tmp_path, f"{code}    pathlib.Path({str(tmp_path / 'started')!r}).touch()")
    # between two magics it is ipykernel that ends the cell, by cancelling it
    assert cell.ename in ("KeyboardInterrupt", "CancelledError")
    assert int(kernel.ok("n").text) < 10_000


def test_an_interrupt_between_cells_harms_nothing(kernel):
    kernel.interrupt()
    until(lambda: kernel.run("%mcp call stdio:ping").status == "ok", what="a cell that ends well")


def test_afterwards_the_signal_handler_is_the_kernels_again(kernel, tmp_path):
    before = kernel.ok("import signal\nsignal.getsignal(signal.SIGINT)").text.partition(" at 0x")[0]
    interrupted(kernel, tmp_path, FORMS["assigned"].format(server="inprocess", folder=tmp_path))
    assert kernel.ok("signal.getsignal(signal.SIGINT)").text.partition(" at 0x")[0] == before
    # in short pieces: a signal that comes just before one long `time.sleep` begins does not end it
    sleeping = kernel.start("import time\nprint('asleep', flush=True)\nfor _ in range(600): time.sleep(0.1)")
    kernel.until_stream(sleeping, "asleep")
    assert kernel.stop(sleeping).ename == "KeyboardInterrupt"


@pytest.mark.parametrize("form", ["%mcp {}", "def f():\n    %mcp {}\nf()"], ids=["awaited", "nested"])
def test_interrupt_ends_connect_and_its_process(kernel, form):
    before = set(kernel.process.children(recursive=True))
    silent = "import sys; sys.stdin.read()"
    connecting = kernel.start(form.format(f"connect --name silent -- {sys.executable} -c '{silent}'"))
    until(lambda: len(set(kernel.process.children(recursive=True)) - before) == 1, what="the process runs")
    assert re.fullmatch(STARTS, kernel.stop(connecting).shown_error)
    assert kernel.ok("r = %mcp\n'silent' in [row['server'] for row in r.rows]").text == "False"
    until(lambda: set(kernel.process.children(recursive=True)) <= before, what="the process has ended")


def test_interrupt_ends_a_connect_to_a_port_that_never_answers(kernel):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        connecting = kernel.start(f"%mcp connect http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        with listener.accept()[0]:
            assert re.fullmatch(STARTS, kernel.stop(connecting).shown_error)


def test_run_all_stops_at_an_interrupt(kernel, tmp_path):
    kernel.ok("went_on = False")
    calling = kernel.start(FORMS["awaited"].format(server="stdio", folder=tmp_path))
    following = kernel.start("went_on = True")
    until((tmp_path / "started").exists, what="the tool has started")
    kernel.interrupt()
    assert [kernel.finish(cell).status for cell in (calling, following)] == ["error", "aborted"]
    assert kernel.ok("went_on").text == "False"


def test_interrupt_ends_doctor_and_the_server_it_started(kernel):
    told = json.dumps({"_capabilities": {"tools": {}}, "_hangs": ["tools/list"]})
    kernel.ok(f"told = {told!r}")
    before = set(kernel.process.children(recursive=True))
    cell = kernel.start(f"%mcp doctor -- {sys.executable} {HERE / 'sick_server.py'} $told")
    until(lambda: set(kernel.process.children(recursive=True)) > before, what="the server")
    assert kernel.stop(cell).ename == "KeyboardInterrupt"
    until(lambda: set(kernel.process.children(recursive=True)) <= before, what="its end")


def test_interrupt_stops_a_map_that_keeps_its_answers(frontend, tmp_path):
    frontend.kernel.ok(MAPPED)
    frontend.kernel.ok("%mcp connect mapped")
    line = f"out = %mcp map mapped:work --rows $rows n={{row.n}} folder={tmp_path} --concurrency 5"
    cell = frontend.start(line)
    until((tmp_path / "started").exists, what="five rows wait")
    assert not frontend.stop(cell).ename
    assert frontend.line("out.stats['done'], out.stats['unknown'], out.problem") == "(30, 5, 'interrupted')"
    assert frontend.line("out.stats['rows'], out.stats['waiting']") == "(100, 65)"
    assert "✗ map mapped:work: interrupted · 30 of 100 rows done · 5 unknown · 65 waiting" in str(cell.displays)
    frontend.run("go.set()")
    assert frontend.run("out = %mcp map --resume $out\nout.stats['done'], out.stats['unknown']").lines[-1] == "(95, 5)"
    frontend.run("%mcp disconnect mapped")


def test_interrupt_ends_the_run_of_an_exported_client(kernel, tmp_path):
    kernel.ok("%mcp call stdio:ping")
    file = tmp_path / "client.py"
    before = set(kernel.process.children(recursive=True))
    cell = kernel.start(f"%mcp export stdio --client {file}")
    until(lambda: set(kernel.process.children(recursive=True)) - before, what="the client runs")
    done = kernel.stop(cell)
    assert (done.status, done.shown_error) == ("error", "KeyboardInterrupt: export: running client.py: interrupted")
    until(lambda: set(kernel.process.children(recursive=True)) <= before, what="its processes have ended")
    assert not file.exists()
    assert kernel.ok("%mcp call stdio:ping").text == "pong"
