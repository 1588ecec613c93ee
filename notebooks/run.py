"""Runs a notebook in a fresh kernel and prints what its cells show, as `make demo` does.

`python notebooks/run.py --save FILE...` writes the outputs into the notebooks instead: without times of execution and
models of widgets, and with paths as they are on Binder. The same run writes `cassettes/NAME.jsonl`, what servers and
models said, from which the notebook shows the same without them (`docs/record_and_replay.md`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HOME = "/home/jovyan"
ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    (f"{ROOT}/", f"{HOME}/mcp_magic/"),
    (f"{sys.prefix}/", f"{HOME}/mcp_magic/.venv/"),
    (f"{Path.home()}/", f"{HOME}/"),
)
"""Where things are on this machine, and where on Binder."""

LOOPBACK = re.compile(r'("where": "http://127\.0\.0\.1):\d+')
"""Where a server of the tutorials was, in a cassette."""

OWN = ("reproducible", "programs", "views", "contracts", "evaluate", "strangers", "outside")
"""Tutorials that record and replay by themselves, or reach nothing."""


def plain(output: nbformat.NotebookNode) -> str:
    """Return one output of a cell as text."""
    match output.output_type:
        case "stream":
            return str(output.text)
        case "error":
            return f"{output.ename}: {output.evalue}"
    data = output.get("data", {})
    kinds = [kind for kind in data if kind.startswith("image/")]
    shown = str(data.get("text/plain", ""))
    return f"[{kinds[0]}] {shown}" if kinds else shown


def run(path: Path, cassette: Path | None = None) -> nbformat.NotebookNode:
    """Run a notebook from its own folder and return it; a cell that fails without being expected to is an error.

    Args:
        path: The notebook.
        cassette: Records what its servers and models say.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    options = {"timeout": 120, "record_timing": False, "store_widget_state": False, "coalesce_streams": True}
    client = NotebookClient(notebook, resources=resources, **options)
    recording = {"MCP_MAGIC_CASSETTE": str(cassette), "MCP_MAGIC_CASSETTE_MODE": "record"} if cassette else {}
    client.execute(env={**os.environ, **recording})
    return notebook


def record(path: Path) -> nbformat.NotebookNode:
    """Run a notebook, write its cassette, with neither paths nor ports of this machine, and return it."""
    if path.stem in OWN:
        return run(path)
    cassette = path.resolve().parent / "cassettes" / f"{path.stem}.jsonl"
    with tempfile.TemporaryDirectory() as folder:  # a run that fails leaves the old one as it was
        written = Path(folder) / cassette.name
        notebook = run(path, written)
        text = neutral(written.read_text(encoding="utf-8"))
    cassette.parent.mkdir(exist_ok=True)
    cassette.write_text(LOOPBACK.sub(r"\1:8000", text), encoding="utf-8")
    return notebook


def show(notebook: nbformat.NotebookNode) -> None:
    """Print a notebook's texts, code and outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            print(f"\n{cell.source}\n")
        else:
            print("\n".join(f">>> {line}" for line in cell.source.splitlines()))
            print("\n".join(plain(output).rstrip() for output in cell.outputs))


def neutral(value: Any) -> Any:
    """Return an output with the paths of this machine as they are on Binder."""
    if isinstance(value, str):
        for here, there in PLACES:
            value = value.replace(here, there)
        return value
    if isinstance(value, list):
        return [neutral(each) for each in value]
    return {name: neutral(each) for name, each in value.items()} if isinstance(value, dict) else value


def save(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook with its outputs, so that it differs only where the outputs do."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            shown = [output for output in cell.outputs if output.get("data") != {}]  # what waited has left nothing
            cell.outputs = [nbformat.from_dict(neutral(output)) for output in shown]
    notebook.metadata.language_info = {"name": "python"}
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)


def main(paths: list[str]) -> None:
    """Run notebooks; `--save` before their names writes them, without it they are printed."""
    for path in map(Path, paths):
        if str(path) == "--save":
            continue
        if "--save" in paths:
            save(record(path), path)
        else:
            show(run(path))


if __name__ == "__main__":
    main(sys.argv[1:])
