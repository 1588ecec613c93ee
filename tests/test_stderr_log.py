"""The file that a server's stderr goes to: it stays small, whoever looks at it and whether anybody does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from mcp_magic import stderr
from mcp_magic.stderr import ErrorLog, Lines
from tests.environments import ROOT
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


BLOCK = 4096
"""Bytes that the file system gives at once."""
LONG = "os.write(2, b'z' * (17 * 2**20) + b'\\nlast\\nha')"

CHATTY = f"""
import sys, threading
sys.path.insert(0, {str(ROOT)!r})
from tests.support.plain import Plain

server = Plain("chatty")

def talk():
    for number in range(24 * 1024):
        sys.stderr.write(f"{{number:07}} " + "x" * 1015 + "\\n")
    sys.stderr.write("all is said\\n")
    sys.stderr.flush()

threading.Thread(target=talk, daemon=True).start()
server.tool(lambda: "hi")
server.run()
"""


@pytest.fixture
def log(monkeypatch):
    """A log that is looked at often."""
    monkeypatch.setattr(stderr, "SIZE_CHECK_SECONDS", 0.02)
    with ErrorLog() as made:
        yield made


def on_disk(log: ErrorLog) -> int:
    status = os.fstat(log.file.fileno())
    return min(status.st_size, status.st_blocks * 512)


def write(log: ErrorLog, code: str) -> None:
    """Let another process write, and wait for it as a busy cell would: nothing else runs meanwhile."""
    subprocess.run([sys.executable, "-S", "-c", f"import os, sys\n{code}"], stderr=log.file, check=True)


def texts(lines: Lines) -> list[str]:
    return [line for _, line in lines.read()]


def wait_for(true: Callable[[], bool]) -> None:
    """Wait without giving the loop a turn."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


async def test_stderr_of_an_idle_server_is_cut(host, tmp_path, monkeypatch):
    monkeypatch.setattr(stderr, "SIZE_CHECK_SECONDS", 0.02)
    (tmp_path / "chatty.py").write_text(CHATTY)
    connection = await host.connect([sys.executable, str(tmp_path / "chatty.py")], name="chatty")
    log = connection.place.errlog
    assert log is not None
    await until(lambda: connection.stderr().endswith("x\nall is said\n"))
    await until(lambda: on_disk(log) <= stderr.MAX_BYTES)
    assert log.end > stderr.MAX_BYTES
    assert await connection.ping() > 0
    lines = [str(entry.message) for entry in host.trace.entries("chatty") if entry.kind == "line"]
    assert lines[-1] == "all is said"


def test_the_log_is_cut_while_the_loop_is_blocked(log):
    log.keep_small()
    write(log, "for _ in range(20): os.write(2, b'y' * 1023 * 1024 + b'\\n')")
    wait_for(lambda: on_disk(log) <= stderr.MAX_BYTES)
    assert log.end == 20 * (1023 * 1024 + 1)


def test_no_write_is_lost_while_it_is_cut(log, monkeypatch):
    monkeypatch.setattr(stderr, "MAX_BYTES", 2 * stderr.TAIL_BYTES)
    code = "import os\nfor _ in range(40_000): os.write(2, b'y' * 199 + b'\\n')"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stderr=log.file) as writing:
        while writing.poll() is None:
            log.cut()
    assert log.tail().splitlines()[-1] == "y" * 199
    assert log.end == 40_000 * 200


def test_no_line_is_lost_or_told_twice_when_it_is_cut(log):
    reader, other = Lines(log), Lines(log)
    write(log, LONG)
    assert texts(reader) == ["z" * (stderr.TAIL_BYTES - 8), "last"]
    log.cut()
    assert on_disk(log) <= stderr.TAIL_BYTES + BLOCK
    write(log, "os.write(2, b'lf a line\\nnext\\n')")
    assert texts(reader) == ["half a line", "next"]
    late = [line for line in texts(other) if set(line) != {"z"}]  # a part of the first line may be there
    assert late == ["last", "half a line", "next"]
    assert [line for line in log.tail().splitlines()[-5:] if set(line) != {"z"}] == late


def test_no_nulls_are_shown_after_a_write_past_its_end(log):
    lines = Lines(log)
    reopened = "fd = os.open('/proc/self/fd/2', os.O_WRONLY); os.lseek(fd, 17 * 2**20, 0); os.write(fd, b'end\\n'); "
    write(log, f"os.write(2, b'z' * (17 * 2**20 - 1) + b'\\n'); {reopened}")
    assert texts(lines)[-1] == "end"
    log.cut()
    assert on_disk(log) <= stderr.TAIL_BYTES + BLOCK
    write(log, f"{reopened}os.write(fd, b'after the cut\\n')")
    assert [line for line in texts(lines) if line != "end"] == ["after the cut"]
    assert log.tail().splitlines()[-1] == "after the cut"
    assert "\0" not in log.tail()
    log.cut()
    assert os.fstat(log.file.fileno()).st_size > stderr.MAX_BYTES, "it takes nothing on the disk, and is left"
    assert on_disk(log) < 2**20


def test_a_file_that_cannot_be_cut_is_emptied(log, monkeypatch):
    monkeypatch.setattr(stderr, "_free", lambda number, length: False)
    lines = Lines(log)
    write(log, LONG)
    assert texts(lines)[-1] == "last"
    log.cut()
    assert on_disk(log) == 0
    write(log, "os.write(2, b'lf a line\\nnext\\n')")
    assert texts(lines) == ["half a line", "next"]
    assert log.tail().splitlines()[-1] == "next"
    assert log.end == 17 * 2**20 + len("\nlast\nhalf a line\nnext\n")


def test_a_line_that_never_ends_is_taken_for_several():
    with ErrorLog() as log:
        lines = Lines(log)
        parts: list[str] = []
        for _ in range(10):
            os.write(log.file.fileno(), b"x" * 50_000)
            parts += texts(lines)
        assert max(map(len, parts)) <= 2 * 65_536
        assert sum(map(len, parts)) >= 400_000


async def test_closing_the_log_ends_its_thread(log):
    before = threading.enumerate()  # those of other servers, which may end meanwhile
    log.keep_small()
    [looking] = [one for one in threading.enumerate() if one not in before and one.name == "mcp_magic stderr"]
    log.write("the end")
    log.close()
    await until(lambda: not looking.is_alive())
    assert log.tail() == "the end\n"
