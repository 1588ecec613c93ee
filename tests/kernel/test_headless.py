"""Notebooks that programs execute: a denial ends them and says what would help; a cassette replays them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from tests.kernel.test_approval import CALL, SETUP
from tests.support.bundled import FOLDER
from tests.support.kernels import environment, run_by_itself

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
DENIAL = (
    "weather:forecast was not called; denied by default: you cannot be asked here, where no input is allowed; "
    "MCP_MAGIC_APPROVAL=auto allows what no rule asks about. `%mcp allow weather:forecast --first` would allow it."
)
TRIED = (
    f"from mcp_magic import errors\ntry:\n    {CALL.splitlines()[0]}\n"
    "except errors.DeniedError as error:\n    print(error)"
)
SANITIZE = str(FOLDER.parent / "sanitize.cfg")
CELLS = (
    "%load_ext mcp_magic",
    "%mcp connect math_server.py --name math",
    "result = %mcp call math:add a=19 b=23\nresult.data",
    "%mcp read math://constants",
    "%%mcp_agent --approve auto --thread sums -o run\nadd 3 and 4, then multiply the result by 5",
    "run.answer",
    "%mcp disconnect --all",
)


def write(path: Path, cells: tuple[str, ...], outputs: list[list[Any]] | None = None) -> None:
    """Write a notebook of these cells, with outputs where there are any."""
    made = [
        nbformat.v4.new_code_cell(code, outputs=kept, execution_count=1)
        for code, kept in zip(cells, outputs or [[]] * len(cells), strict=True)
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=KERNEL), path)


def execute(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python to its end, in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_papermill_ends_with_the_denial(tmp_path: Path) -> None:
    write(tmp_path / "asks.ipynb", (*SETUP, CALL))

    done = execute(tmp_path, "papermill", "asks.ipynb", "done.ipynb", "-k", "python3")

    assert done.returncode != 0
    assert DENIAL in done.stderr.replace("\n", " ")
    errors = [output for cell in nbformat.read(tmp_path / "done.ipynb", 4).cells for output in cell.get("outputs", ())]
    assert [output.evalue for output in errors if output.output_type == "error"] == [DENIAL]


@pytest.mark.timeout(400)  # three programs, each with a kernel
def test_recorded_notebook_replays_in_nbval_and_papermill(
    tmp_path: Path,
) -> None:
    for name in ("math_server.py", "serving.py"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    cells = (*CELLS, *SETUP[1:], TRIED)  # nbval finds the denial that the notebook has kept
    cassette = {"MCP_MAGIC_CASSETTE": "run.jsonl", "MCP_MAGIC_CASSETTE_MODE": "record"}
    made = run_by_itself(tmp_path, *cells, **cassette)
    assert made[2][0].data["text/plain"] == "42"
    assert "**35**" in made[5][0].data["text/plain"]
    assert [output["text"] for output in made[-1]] == [f"{DENIAL}\n"]
    write(tmp_path / "sums.ipynb", cells, made)

    (tmp_path / "math_server.py").write_text("raise SystemExit('gone')")
    replay = {**cassette, "MCP_MAGIC_CASSETTE_MODE": "replay", "PATH": str(tmp_path)}
    checked = ("pytest", "--nbval", "-q", "-p", "no:cacheprovider", "--nbval-sanitize-with", SANITIZE, "sums.ipynb")
    ran = execute(tmp_path, *checked, **replay)
    assert f"{len(cells)} passed" in ran.stdout, ran.stdout

    again = execute(
        tmp_path, "papermill", "sums.ipynb", "again.ipynb", "-k", "python3", MCP_MAGIC_APPROVAL="auto", **replay
    )
    assert again.returncode == 0, again.stderr
    played = nbformat.read(tmp_path / "again.ipynb", as_version=4).cells
    assert [played[cell].outputs[0].data["text/plain"] for cell in (2, 5)] == [
        made[cell][0].data["text/plain"] for cell in (2, 5)
    ]
    assert "outputs" in played[-1]
    assert not played[-1].outputs, "a variable allows the call"
