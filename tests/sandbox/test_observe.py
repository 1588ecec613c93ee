"""The program that runs a server observed: what its log has, and that the server runs as it otherwise does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_magic.sandbox import behaviour
from tests.support.processes import PYTHON

PROGRAM = Path(behaviour.__file__).with_name("observe.py")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the program needs Linux")


class Observed:
    """A folder, and the program that observes commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "log").touch()
        self.begin(0)

    def begin(self, moment: int) -> None:
        with (self.folder / "moment").open("r+b" if moment else "wb") as file:
            file.write(moment.to_bytes(8, "little"))

    def words(self, *command: str) -> list[str]:
        return [PYTHON, "-I", "-S", str(PROGRAM), str(self.folder), "--", *command]

    def run(self, source: str, *arguments: str, **options) -> subprocess.CompletedProcess[bytes]:
        """Run Python code that has `os`, `sys`, `socket` and `subprocess`."""
        source = f"import os, sys, socket, subprocess\n{source}"
        command = self.words(PYTHON, "-I", "-S", "-c", source, *arguments)
        return subprocess.run(command, capture_output=True, cwd=self.folder, timeout=60, **options)

    @property
    def lines(self) -> list[list]:
        return [json.loads(line) for line in (self.folder / "log").read_bytes().splitlines()]

    def of(self, kind: str, moment: int = 0) -> list[str]:
        """Return what was used, below the folder relative to it, without the libraries of Python."""
        texts = dict.fromkeys(text for when, what, text, _ in self.lines if (when, what) == (moment, kind))
        below = [text.replace(f"{self.folder.resolve()}/", "") for text in texts]
        return [text for text in below if not behaviour.Places.library(text) and not text.startswith("/etc/")]


@pytest.fixture
def observed(tmp_path):
    return Observed(tmp_path)


def test_files_are_read_written_and_listed(observed):
    source = """
os.mkdir("a"); open("a/new", "w").close(); os.rename("a/new", "a/old"); os.link("a/old", "a/hard")
os.symlink("a/old", "soft"); open("soft").close(); os.listdir("a"); os.unlink("soft"); os.truncate("a/old", 0)
folder = os.open("a", os.O_RDONLY | os.O_DIRECTORY)
open("hard", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)).close()
open("a/../a/old", "a").close()
try:
    open("missing")
except OSError: pass
"""
    assert observed.run(source).stderr == b""
    assert observed.of("read") == ["a/old", "a/", "a/hard"]
    assert observed.of("write") == ["a", "a/new", "a/old", "a/hard", "soft"]


def test_a_key_that_does_not_exist_was_tried(observed):
    (observed.folder / ".ssh").mkdir()
    source = "\nfor name in ('.ssh/id_rsa', 'missing'):\n try: open(name)\n except OSError: pass"
    observed.run(source, env={**os.environ, "HOME": str(observed.folder)})
    assert observed.of("read") == [".ssh/id_rsa"]


def test_names_that_are_odd_have_one_line(observed):
    observed.run(r"open(b'a\xff\nb', 'w').close(); open('\u202ec', 'w').close()")
    assert observed.of("write") == ["a\udcff\nb", "\u202ec"]


def test_programs_are_those_that_exist(observed):
    observed.run("subprocess.run(['true'], env={'PATH': '/nowhere:/usr/bin'})")
    assert "/usr/bin/true" in [text for _, kind, text, _ in observed.lines if kind == "program"]
    assert not any("/nowhere" in text for *_, text, _ in observed.lines)


def test_hosts_are_those_of_connections_and_packets(observed):
    source = """
a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen()
b = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); b.send(b"x")
u = socket.socket(type=socket.SOCK_DGRAM); u.sendto(b"x", ("127.0.0.2", 9)); u.sendmsg([b"x"], [], 0, ("127.0.0.3", 9))
for address in "::ffff:127.0.0.4", "::1":
    try: socket.socket(socket.AF_INET6).connect((address, 9))
    except OSError: pass
l = socket.socket(socket.AF_UNIX); l.bind("local")
l = socket.socket(socket.AF_UNIX)
try: l.connect("\\0abstract")
except OSError: pass
t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind(("127.0.0.1", int(sys.argv[2])))
"""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port, free = server.getsockname()[1], other.getsockname()[1]
        other.close()
        assert observed.run(source, str(port), str(free)).stderr == b""
    hosts = [f"127.0.0.1:{port}", "127.0.0.2:9", "127.0.0.3:9", "127.0.0.4:9", "[::1]:9", "unix:@abstract"]
    assert observed.of("host") == [*hosts, f"listens:{free}"]
    assert observed.of("write") == ["local"]


def answer(server: socket.socket) -> None:
    """Answer one question about a name with 127.0.0.1."""
    packet, sender = server.recvfrom(512)
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x0a\0\4\x7f\0\0\1"
    server.sendto(packet[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + packet[12:] + record, sender)


def test_an_address_has_the_name_that_was_asked_for(observed):
    source = r"""
u = socket.socket(type=socket.SOCK_DGRAM)
u.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\3API\4evil\7example\0\0\1\0\1", ("127.0.0.1", 5353)); print(len(u.recvfrom(512)[0]))
try: socket.create_connection(("127.0.0.1", 9))
except OSError: pass
"""
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 5353))
        server.settimeout(60)
        thread = threading.Thread(target=answer, args=[server])
        thread.start()
        assert observed.run(source).stdout == b"50\n", "the observer leaves the packet there"
        thread.join()
    assert observed.of("host") == ["api.evil.example", "127.0.0.1:5353", "api.evil.example:9"]


def test_what_happens_has_the_moment_that_the_host_counts(observed):
    source = "for line in sys.stdin: open(line.strip(), 'w').close(); print(line, end='', flush=True)"
    command = observed.words(PYTHON, "-I", "-S", "-c", f"import sys\n{source}")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, cwd=observed.folder, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for moment, name in enumerate(("a", "b", "a"), 1):
            observed.begin(moment)
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{name}\n"
        process.stdin.close()
    assert [observed.of("write", moment) for moment in (1, 2, 3)] == [["a"], ["b"], ["a"]]


def test_a_flood_of_files_leaves_room_for_hosts(observed):
    source = """
for number in range(6000):
    os.close(os.open(f"f{number}", os.O_CREAT)); os.unlink(f"f{number}")
for _ in range(3000):
    os.close(os.open("same", os.O_CREAT))
try: socket.create_connection(("127.0.0.1", 9))
except OSError: pass
"""
    observed.run(source)
    assert observed.of("host") == ["127.0.0.1:9"]
    assert len(observed.of("write")) == 5000
    assert observed.of("remark") == ["it used more than 5,000 different ones of the kind write at once"]
    assert len(observed.lines) < 11_000


def test_equal_uses_are_counted_in_one_line_more(observed):
    observed.run("for _ in range(1000): os.close(os.open('same', os.O_CREAT))")
    assert [line for line in observed.lines if line[2].endswith("/same")][-1][3] == 1000


def test_io_uring_is_refused_as_where_it_is_missing(observed):
    source = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall(425, 1, 0), ctypes.get_errno())"
    assert observed.run(source).stdout == b"-1 38\n"


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
def test_the_end_of_the_command_is_that_of_the_program(observed, end, status):
    assert observed.run(f"print('out'); sys.stdout.flush(); {end}").returncode == status


def test_what_the_command_leaves_running_is_ended(observed):
    source = "p = subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=2); print(p.pid)"
    number = int(observed.run(source).stdout)
    assert not Path(f"/proc/{number}").exists()


def test_a_signal_to_the_group_reaches_the_command_once(observed):
    source = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [15])
print("ready", flush=True)
print("ended", signal.sigwait([15]), signal.sigtimedwait([15], 0))
"""
    command = observed.words(PYTHON, "-I", "-S", "-c", source)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.read() == "ended 15 None\n"
    assert process.returncode == 0


def test_a_command_that_is_missing_says_so(observed):
    ran = subprocess.run(observed.words("no-such-command"), capture_output=True)
    assert (ran.returncode, ran.stderr) == (127, b"no-such-command: No such file or directory\n")


def test_a_process_of_its_own_is_told_from_others(observed):
    observed.run("open(f'/proc/{os.getpid()}/status').close(); open('/proc/1/status').close()")
    assert [text for text in observed.of("read") if text.startswith("/proc")] == ["/proc/self/status", "/proc/1/status"]
