"""Folders of notebooks for JupyterLab to show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NOTEBOOKS", "copy_of", "write_notebook"]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
"""The notebooks of this repository, with their servers."""


def copy_of(notebooks: Path, folder: Path) -> Path:
    """Copy a folder of notebooks with its servers, so that a run leaves the original alone."""
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    return shutil.copytree(notebooks, folder, ignore=ignored, dirs_exist_ok=True)


def write_notebook(path: Path, cells: Sequence[str], *, may_fail: bool = True) -> Path:
    """Write a notebook of code cells; with `may_fail` an error does not stop the cells below."""
    import nbformat.v4 as v4

    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in notebook.cells if may_fail else ():
        cell.metadata["tags"] = ["raises-exception"]
    path.write_text(json.dumps(notebook))
    return path
