from __future__ import annotations

import re
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.bundled import FOLDER
from tests.support.kernel_servers import HERE, command, connect_in_process
from tests.support.kernels import until
from tests.support.processes import start_http
from tests.support.timing import soon, tried_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kernels import Cell, Kernel

PLAIN = True  # IPython shows an error in half the time where few modules are imported
LIMIT = 0.5
"""Seconds from the stop button until the cell has ended (issue 2)."""

FORMS = {
    "awaited": "%mcp call {server}:hold folder={folder}",
    "assigned": "r = %mcp call {server}:hold folder={folder}",
    "nested": "def f():\n    r = %mcp call {server}:hold folder={folder}\n    return r\nf()",
    "timed": "%time %mcp call {server}:hold folder={folder}",
}


@pytest.fixture(scope="module", autouse=True)
def servers(kernel: Kernel) -> Iterator[None]:
    """The same server over three transports."""
    kernel.ok(f"%mcp connect {HERE / 'holding_server.py'} --name stdio")
    connect_in_process(kernel, HERE / "holding_server.py", "inprocess")
    with start_http(command("holding_server", "--transport", "http", "--port", "0")) as running:
        kernel.ok(f"%mcp connect {running.url} --name http")
        yield
        kernel.ok("%mcp disconnect http")


def interrupt(kernel: Kernel, cell: str) -> Cell:
    """Press stop, and return the cell; its `seconds` count from there."""
    started = time.monotonic()
    kernel.interrupt()
    done = kernel.finish(cell)
    done.seconds = time.monotonic() - started
    return done


def interrupted(kernel: Kernel, folder: Path, code: str) -> Cell:
    """Run a cell until it has made the file `started` in a folder; press stop."""
    calling = kernel.start(code)
    until((folder / "started").exists, what="the tool has started")
    return interrupt(kernel, calling)


@pytest.mark.timed
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("server", ["stdio", "http", "inprocess"])
@tried_again
def test_interrupt_ends_call_tells_server_and_keeps_session(
    kernel: Kernel, tmp_path: Path, server: str, form: str
) -> None:
    cell = interrupted(kernel, tmp_path, FORMS[form].format(server=server, folder=tmp_path))

    assert (cell.status, cell.shown_error) == ("error", f"KeyboardInterrupt: {server}:hold: interrupted")
    soon(cell.seconds, LIMIT)
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert kernel.ok(f"%mcp call {server}:ping").text == "pong"
    assert kernel.ok("r = %mcp\n[row['state'] for row in r.rows]").text == "['open', 'open', 'open']"


def test_interrupt_keeps_server_started_by_notebook(kernel: Kernel) -> None:
    kernel.ok(f"import sys; sys.path.insert(0, {str(FOLDER)!r})\nfrom start import start")
    kernel.ok("url = start('weather_server.py')")
    kernel.ok("%mcp connect $url --name tutorial")
    busy = kernel.start("print('begun', flush=True)\nwhile True: pass")
    kernel.until_stream(busy, "begun")

    assert interrupt(kernel, busy).ename == "KeyboardInterrupt"

    assert kernel.ok("%mcp ping tutorial").text
    assert kernel.ok("r = %mcp call tutorial:get_weather location=London\nr.data['city']").text == "'London'"
    kernel.ok("%mcp disconnect tutorial")


@pytest.mark.parametrize("form", ["awaited", "nested"])
def test_the_error_of_an_interrupt_is_short(kernel: Kernel, tmp_path: Path, form: str) -> None:
    cell = interrupted(kernel, tmp_path, FORMS[form].format(server="inprocess", folder=tmp_path))

    assert cell.shown_error == "KeyboardInterrupt: inprocess:hold: interrupted"


@pytest.mark.timed
@tried_again
def test_interrupt_ends_python_that_awaits_a_call(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok("from mcp_magic import host")
    cell = interrupted(kernel, tmp_path, f"await host.call('stdio:hold', folder={str(tmp_path)!r})")

    assert (cell.status, cell.ename) == ("error", "CancelledError")  # ipykernel's own way to say it
    assert cell.shown_error == "CancelledError: stdio:hold: interrupted"
    soon(cell.seconds, 3)
    until((tmp_path / "cancelled").exists, what="the server knows")
    assert kernel.ok("%mcp call stdio:ping").text == "pong"


@pytest.mark.timed
@tried_again
def test_interrupt_stops_a_loop_of_calls(kernel: Kernel, tmp_path: Path) -> None:
    code = "import pathlib\nn = 0\nwhile n < 10_000:\n    r = %mcp call stdio:ping\n    n += 1\n"
    cell = interrupted(kernel, tmp_path, f"{code}    pathlib.Path({str(tmp_path / 'started')!r}).touch()")

    # between two magics it is ipykernel that ends the cell, by cancelling it
    assert cell.ename in ("KeyboardInterrupt", "CancelledError")
    soon(cell.seconds, LIMIT)
    assert int(kernel.ok("n").text) < 10_000
    assert kernel.ok("%mcp call stdio:ping").text == "pong"


def test_an_interrupt_between_cells_harms_nothing(kernel: Kernel) -> None:
    kernel.interrupt()

    until(lambda: kernel.run("%mcp call stdio:ping").status == "ok", what="a cell that ends well")


def test_afterwards_the_signal_handler_is_the_kernels_again(kernel: Kernel, tmp_path: Path) -> None:
    before = kernel.ok("import signal\nsignal.getsignal(signal.SIGINT)").text.partition(" at 0x")[0]
    interrupted(kernel, tmp_path, FORMS["awaited"].format(server="inprocess", folder=tmp_path))

    assert kernel.ok("signal.getsignal(signal.SIGINT)").text.partition(" at 0x")[0] == before
    sleeping = kernel.start("print('asleep', flush=True)\nimport time\ntime.sleep(60)")
    kernel.until_stream(sleeping, "asleep")
    assert interrupt(kernel, sleeping).ename == "KeyboardInterrupt"


@pytest.mark.timed
@pytest.mark.parametrize("form", ["%mcp {}", "def f():\n    %mcp {}\nf()"], ids=["awaited", "nested"])
@tried_again
def test_interrupt_ends_connect_and_its_process(kernel: Kernel, form: str) -> None:
    before = set(kernel.process.children(recursive=True))
    silent = "import sys; sys.stdin.read()"
    connecting = kernel.start(form.format(f"connect --name silent -- {sys.executable} -c '{silent}'"))
    until(lambda: len(set(kernel.process.children(recursive=True)) - before) == 1, what="the process runs")

    cell = interrupt(kernel, connecting)

    assert re.fullmatch(r"KeyboardInterrupt: (starting|connecting).*: interrupted", cell.shown_error)
    soon(cell.seconds, LIMIT)
    assert kernel.ok("%mcp call stdio:ping").text == "pong"
    assert kernel.ok("r = %mcp\n'silent' in [row['server'] for row in r.rows]").text == "False"
    until(lambda: set(kernel.process.children(recursive=True)) <= before, what="the process has ended")


@pytest.mark.timed
@tried_again
def test_interrupt_ends_a_connect_to_a_port_that_never_answers(kernel: Kernel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        connecting = kernel.start(f"%mcp connect http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        with listener.accept()[0]:
            cell = interrupt(kernel, connecting)

    assert re.fullmatch(r"KeyboardInterrupt: (starting|connecting).*: interrupted", cell.shown_error)
    soon(cell.seconds, LIMIT)
    assert kernel.ok("%mcp call stdio:ping").text == "pong"


def test_run_all_stops_at_an_interrupt(kernel: Kernel, tmp_path: Path) -> None:
    kernel.ok("went_on = False")
    calling = kernel.start(FORMS["awaited"].format(server="stdio", folder=tmp_path))
    following = kernel.start("went_on = True")
    until((tmp_path / "started").exists, what="the tool has started")

    kernel.interrupt()

    assert kernel.finish(calling).status == "error"
    assert kernel.finish(following).status == "aborted"
    assert kernel.ok("went_on").text == "False"
