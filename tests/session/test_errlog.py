"""The file that a server's stderr goes to: it stays small, whoever looks at it and whether anybody does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from mcp_magic import stderr
from mcp_magic.stderr import ErrorLog, Lines
from tests.support.kernels import until
from tests.support.waiting import until as until_async

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_magic._host import Host

MEGABYTE = 1024 * 1024
BLOCK = 4096
"""Bytes that the file system gives at once."""

CHATTY = """
import sys
import threading
from mcp.server import MCPServer

server = MCPServer("chatty")

def talk() -> None:
    for number in range(int(sys.argv[1])):
        sys.stderr.write(f"{number:07} " + "x" * 1015 + "\\n")
    sys.stderr.write("all is said\\n")
    sys.stderr.flush()

threading.Thread(target=talk, daemon=True).start()

@server.tool()
def hi() -> str:
    return "hi"

server.run()
"""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[ErrorLog]:
    """A log that is looked at often."""
    monkeypatch.setattr(stderr, "LOOK_SECONDS", 0.02)
    with ErrorLog() as made:
        yield made


def on_disk(log: ErrorLog) -> int:
    status = os.fstat(log.file.fileno())
    return min(status.st_size, status.st_blocks * 512)


def write(log: ErrorLog, code: str) -> None:
    """Let another process write, and wait for it as a busy cell would: nothing else runs meanwhile."""
    subprocess.run([sys.executable, "-c", f"import os, sys\n{code}"], stderr=log.file, check=True)


async def test_stderr_of_an_idle_server_is_cut(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "LOOK_SECONDS", 0.02)
    (tmp_path / "chatty.py").write_text(CHATTY)
    connection = await host.connect([sys.executable, str(tmp_path / "chatty.py"), str(24 * 1024)], name="chatty")
    log = connection.errlog
    assert log is not None
    await until_async(lambda: connection.stderr().endswith("x\nall is said\n"))
    await until_async(lambda: on_disk(log) <= stderr.MAX_BYTES)
    assert log.end > stderr.MAX_BYTES
    assert (await connection.call("hi")).data == "hi"
    lines = [str(entry.message) for entry in host.trace.entries("chatty") if entry.kind == "line"]
    assert lines[-1] == "all is said"


def test_it_is_cut_while_the_loop_stands_still(log: ErrorLog) -> None:
    log.keep_small()
    write(log, "for _ in range(20): os.write(2, b'y' * 1023 * 1024 + b'\\n')")
    until(lambda: on_disk(log) <= stderr.MAX_BYTES, timeout=60)
    assert log.end == 20 * (1023 * 1024 + 1)


def test_nothing_is_lost_that_is_written_while_it_is_cut(log: ErrorLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "MAX_BYTES", 2 * stderr.TAIL_BYTES)
    code = "import os\nfor _ in range(40_000): os.write(2, b'y' * 199 + b'\\n')"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stderr=log.file) as writing:
        while writing.poll() is None:
            log.cut()
    assert log.tail().splitlines()[-1] == "y" * 199
    assert log.end == 40_000 * 200


def test_no_line_is_lost_and_none_is_told_twice_when_it_is_cut(log: ErrorLog) -> None:
    readers = Lines(log), Lines(log)
    write(log, "os.write(2, b'z' * (17 * 2**20) + b'\\nlast\\nha')")
    assert [line for _, line in readers[0].read()] == ["z" * (stderr.TAIL_BYTES - 8), "last"]
    log.cut()
    assert on_disk(log) <= stderr.TAIL_BYTES + BLOCK
    write(log, "os.write(2, b'lf a line\\nnext\\n')")
    assert [line for _, line in readers[0].read()] == ["half a line", "next"]
    late = [line for _, line in readers[1].read() if set(line) != {"z"}]  # a part of the first line may be there
    assert late == ["last", "half a line", "next"]
    assert [line for line in log.tail().splitlines()[-5:] if set(line) != {"z"}] == late


def test_errlog_shows_no_nulls_after_a_write_past_its_end(log: ErrorLog) -> None:
    lines = Lines(log)
    reopened = "fd = os.open('/proc/self/fd/2', os.O_WRONLY); os.lseek(fd, 17 * 2**20, 0); os.write(fd, b'end\\n'); "
    write(log, f"os.write(2, b'z' * (17 * 2**20 - 1) + b'\\n'); {reopened}")
    assert [line for _, line in lines.read()][-1] == "end"
    log.cut()
    assert on_disk(log) <= stderr.TAIL_BYTES + BLOCK
    write(log, f"{reopened}os.write(fd, b'after the cut\\n')")
    assert [line for _, line in lines.read() if line != "end"] == ["after the cut"]
    assert log.tail().splitlines()[-1] == "after the cut"
    assert "\0" not in log.tail()
    log.cut()
    assert os.fstat(log.file.fileno()).st_size > stderr.MAX_BYTES, "it takes nothing on the disk, and is left"
    assert on_disk(log) < MEGABYTE


def test_where_no_file_can_be_cut_it_is_emptied_and_read_on(log: ErrorLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "_free", lambda number, length: False)
    lines = Lines(log)
    write(log, "os.write(2, b'z' * (17 * 2**20) + b'\\nlast\\nha')")
    assert [line for _, line in lines.read()][-1] == "last"
    log.cut()
    assert on_disk(log) == 0
    write(log, "os.write(2, b'lf a line\\nnext\\n')")
    assert [line for _, line in lines.read()] == ["half a line", "next"]
    assert log.tail().splitlines()[-1] == "next"
    assert log.end == 17 * 2**20 + len("\nlast\nhalf a line\nnext\n")


async def test_nobody_looks_at_it_once_it_is_closed(log: ErrorLog) -> None:
    before = threading.enumerate()  # those of other servers, which may end meanwhile
    log.keep_small()
    [looking] = [each for each in threading.enumerate() if each not in before and each.name == "mcp_magic stderr"]
    log.write("the end")
    log.close()
    await until_async(lambda: not looking.is_alive())
    assert log.tail() == "the end\n"
