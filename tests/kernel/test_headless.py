"""Notebooks that are executed where nobody can click: the policy decides at once, and a denial says what would help."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tests.kernel.driving import environment
from tests.kernel.test_approval import CALL, SETUP

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kernel

DENIAL = (
    "weather:forecast was not called; denied by default: you cannot be asked here, where no input is allowed; "
    "MCP_MAGIC_APPROVAL=auto allows what no rule asks about. `%mcp allow weather:forecast --first` would allow it."
)
TRIED = (
    f"from mcp_magic import errors\ntry:\n    {CALL.splitlines()[0]}\n"
    "except errors.DeniedError as error:\n    print(error)"
)
HANG_SECONDS = 60
"""Longer than any start of a kernel here, shorter than the 300 s that a person has to answer."""


def write(folder: Path, *cells: tuple[str, list[Any]]) -> Path:
    """Write a notebook whose last cells have these sources and outputs."""
    made = [nbformat.v4.new_code_cell(code) for code in SETUP]
    made += [nbformat.v4.new_code_cell(code, outputs=outputs, execution_count=1) for code, outputs in cells]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = folder / "asks.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=kernel), path)
    return path


def execute(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def test_papermill_ends_with_the_denial_and_goes_through_where_a_variable_allows_it(tmp_path: Path) -> None:
    notebook = write(tmp_path, (CALL, []))

    done = execute(tmp_path, "papermill", notebook.name, "done.ipynb", "-k", "python3")

    assert done.returncode != 0
    assert DENIAL in done.stderr.replace("\n", " ")
    errors = [output for cell in nbformat.read(tmp_path / "done.ipynb", 4).cells for output in cell.get("outputs", ())]
    assert [output.evalue for output in errors if output.output_type == "error"] == [DENIAL]

    allowed = execute(tmp_path, "papermill", notebook.name, "done.ipynb", "-k", "python3", MCP_MAGIC_APPROVAL="auto")
    assert allowed.returncode == 0, allowed.stderr
    [result] = nbformat.read(tmp_path / "done.ipynb", 4).cells[-1].outputs
    assert result.data["text/plain"] == "'London 1'"


def test_nbval_finds_the_denial_that_the_notebook_has_kept(tmp_path: Path) -> None:
    kept = nbformat.v4.new_output("stream", name="stdout", text=f"{DENIAL}\n")
    notebook = write(tmp_path, (TRIED, [kept]))

    done = execute(tmp_path, "pytest", "--nbval", "-q", "-p", "no:cacheprovider", notebook.name)

    assert done.returncode == 0, done.stdout
    assert f"{len(SETUP) + 1} passed" in done.stdout
