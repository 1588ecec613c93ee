"""The forked workers of `make test` (`tests/support/workers.py`), and its forked scripts (`launcher.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.environments import ROOT
from tests.support.processes import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import os, sys, pytest

@pytest.fixture(scope="session")
def shared():
    yield os.getpid()
    print("torn down")

@pytest.mark.parametrize("n", range(3))
def test_passes(n, shared, tmp_path):
    assert shared == os.getpid()

def test_fails():
    print("out")
    print("err", file=sys.stderr)
    assert False

def test_dies():
    os.kill(os.getpid(), 9)

def test_comes_after_one_that_dies():
    pass

@pytest.mark.skip(reason="not now")
def test_is_skipped():
    pass
"""


def run_pytest(folder: Path, *options: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    timed: of time\n")
    environment = {name: value for name, value in os.environ.items() if name != "TEST_RUN_PID"}
    command = [PYTHON, "-m", "pytest", "-q", "-rA", "-p", "tests.support.workers", "--rootdir", str(folder), *options]
    plugins = ("cacheprovider", "langsmith_plugin", "nbval", "hypothesispytest", "mcp_magic.testing")
    off = [word for name in plugins for word in ("-p", f"no:{name}")]
    ran = subprocess.run(
        [*command, *off, "-W", "ignore", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_workers_report_what_one_process_reports(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    text = run_pytest(tmp_path, "--workers", "2")
    assert "6 failed, 12 passed, 3 skipped" in text
    assert text.count("\nthe worker ended: killed by SIGKILL") == 3
    assert text.count("Captured stdout call") == text.count("Captured stderr call") == 3
    assert "test_comes_after_one_that_dies" in text


def test_a_test_that_times_out_says_so(tmp_path):
    code = "import pytest, threading\n@pytest.mark.timeout(1)\ndef test_waits(): threading.Event().wait()\n"
    (tmp_path / "test_a.py").write_text(code)
    text = run_pytest(tmp_path, "--workers", "1")
    assert "Failed: Timeout (>1.0s)" in text


def test_timed_tests_come_last(tmp_path):
    code = "import pathlib, pytest\nLOG = pathlib.Path(__file__).with_name('log')\n"
    code += "def note(text):\n    with LOG.open('a') as file: file.write(text)\n"
    code += "@pytest.mark.timed\ndef test_timed(): note('T')\ndef test_other(): note('o')\n"
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(code)
    assert "4 passed" in run_pytest(tmp_path, "--workers", "2")
    assert (tmp_path / "log").read_text() == "ooTT"


@pytest.mark.skipif(sys.executable == PYTHON, reason="runs where scripts are forked: `make test`")
def test_forked_script_is_like_one_that_python_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint(sys.argv[1:], sys.path[0], __name__, os.getcwd(), os.environ['ONE'])\n"
        "print(input(), file=sys.stderr)\nif sys.argv[1] == 'wait': sys.stdin.read()\nsys.exit(int(sys.argv[1]))\n"
    )

    def start(python: str, word: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {"ONE": "1", "PATH": os.environ["PATH"]}
        return subprocess.Popen([python, str(script), word], cwd=tmp_path, env=environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    for word in ("0", "7"):
        programs = [start(python, word) for python in (sys.executable, PYTHON)]
        ours, theirs = ((program.communicate("line\n"), program.returncode) for program in programs)
        assert ours == theirs
    for number in (signal.SIGTERM, signal.SIGKILL):
        waiting = start(sys.executable, "wait")
        assert waiting.stdin is not None
        assert waiting.stderr is not None
        waiting.stdin.write("line\n")
        waiting.stdin.flush()
        assert waiting.stderr.readline() == "line\n"
        waiting.send_signal(number)
        assert waiting.wait(60) == -number
        waiting.communicate()
