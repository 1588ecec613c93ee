from __future__ import annotations

import subprocess
import sys

from tests.environments import ROOT


def test_tools_work_without_await_in_cells_threads_and_scripts() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.blocking_script"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.stdout == "done\n", ran.stdout + ran.stderr
    assert ran.stderr == ""
