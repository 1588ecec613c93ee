"""Runs a notebook in a fresh kernel and prints what its cells show, as `make demo` does."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


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


def main(path: Path) -> None:
    """Run a notebook from its own folder; a cell that fails without being expected to ends the program."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            print(f"\n{cell.source}\n")
        else:
            print("\n".join(f">>> {line}" for line in cell.source.splitlines()))
            print("\n".join(plain(output).rstrip() for output in cell.outputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
