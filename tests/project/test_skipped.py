"""What `make test` says at its end of the tests that it skipped, on a machine that has neither Chromium nor Node."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.environments import ROOT
from tests.skipped import VARIABLE, summary

if TYPE_CHECKING:
    from pathlib import Path


def run(module: str, *arguments: str, bare: Path) -> str:
    """Run a module of Python on a PATH without programs, and return what it prints."""
    environment = {**os.environ, "PATH": str(bare), VARIABLE: str(bare / "skipped")}
    for name in ("MCP_MAGIC_PYODIDE", "MCP_MAGIC_REQUIRE_BROWSER"):
        environment.pop(name, None)
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_last_line_lists_skips_and_how_to_run_them(tmp_path):
    lean = ("-p", "no:nbval", "-p", "no:langsmith_plugin", "-p", "no:cacheprovider", "-q")
    files = ("tests/pyodide", "tests/session/test_transports.py")
    said = run("pytest", *lean, *files, "-k", "pyodide or node", bare=tmp_path)
    assert " skipped" in said.splitlines()[-1], said
    line = run("tests.skipped", bare=tmp_path)
    assert line.startswith("skipped: "), said
    assert "1 (node is not installed)" in line
    assert line.endswith("; to run them: make lite; make system\n")
    assert line.count("\n") == 1
    assert not (tmp_path / "skipped").exists()


def test_a_run_that_skips_nothing_says_so_in_a_short_line():
    assert summary([]) == "nothing was skipped"


def test_the_environments_are_made_without_node_too(tmp_path):
    said = run("tests.environments", bare=tmp_path)
    assert "npm is not installed: the servers that run on Node are left out" in said
    assert "mcp-server-time" in said.splitlines()[-1]


def program(folder: Path, name: str, text: str) -> None:
    """Write a program for a shell that has no other ones."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def system(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script that installs programs, in a shell that has only those of a folder."""
    return subprocess.run(
        ["/bin/sh", "tests/system.sh"],
        cwd=ROOT,
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_packages_that_cannot_be_installed_are_named(tmp_path):
    """A shell without any program, root or not: there is no apt-get."""
    program(tmp_path, "id", "echo 1000")
    ran = system(tmp_path)
    assert ran.returncode == 1
    assert ran.stdout.startswith(
        "not installed: chromium firefox-esr git openssl nodejs npm bubblewrap socat ripgrep (make system installs it"
    )


def test_a_package_that_apt_lacks_does_not_stop_the_others(tmp_path):
    """Ubuntu has no firefox-esr."""
    program(tmp_path, "id", "echo 0")
    program(tmp_path, "google-chrome", "")
    program(tmp_path, "env", 'exec /usr/bin/env "$@"')
    program(tmp_path, "git", "")
    program(tmp_path, "apt-cache", '[ "$2" != firefox-esr ] || exit 100')
    program(tmp_path, "apt-get", f'case "$*" in *firefox-esr*) exit 100;; *) echo "$*" >>{tmp_path}/done;; esac')
    ran = system(tmp_path)
    assert (ran.returncode, ran.stdout.partition(" (")[0]) == (0, "not installed: firefox-esr"), ran.stderr
    assert (tmp_path / "done").read_text().splitlines()[
        -1
    ] == "install -qq -y openssl nodejs npm bubblewrap socat ripgrep"
