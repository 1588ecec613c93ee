"""The tutorials as they are saved; nbval runs them and compares what they show (`make test`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from mcp_magic.cassette.file import FORMAT, CassetteFile
from notebooks.run import OWN

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

LARGEST = 400_000
"""Bytes of a saved notebook."""

CASSETTES = sorted((ROOT / "notebooks" / "cassettes").glob("*.jsonl"))
LARGEST_CASSETTES = 1_660_000
"""Bytes of all of them."""

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def places(path: Path) -> set[str]:
    """The folders of a person or a machine that a file names."""
    return set(re.findall(r"(?<![\w.:/<&])/(?:home|root|tmp|work|usr|opt|Users)/[\w.-]+", path.read_text("utf-8")))


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def outputs(path: Path, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each output of a kind, with its cell."""
    for cell in cells(path):
        yield from ((cell, output) for output in cell.get("outputs", ()) if output["output_type"] == kind)


def test_make_runs_all_notebooks_and_the_readme_lists_them() -> None:
    makefile, readme = ((ROOT / name).read_text("utf-8") for name in ("Makefile", "README.md"))
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name}" not in makefile] == []
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name}" not in readme] == []


@each
def test_notebook_ran_in_order_and_fails_only_as_tagged(path: Path) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    failed = [cell["id"] for cell, _ in outputs(path, "error")]
    assert failed == [cell["id"] for cell in code if "raises-exception" in cell["metadata"].get("tags", ())]


@each
def test_a_notebook_warns_of_nothing(path: Path) -> None:
    assert [output["text"] for _, output in outputs(path, "stream") if output["name"] == "stderr"] == []
    assert "Warning" not in path.read_text("utf-8")


@each
def test_notebook_is_valid_with_stable_metadata_and_ids(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    nbformat.validate(notebook)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert {key for cell in notebook["cells"] for key in cell["metadata"]} <= {"tags"}
    stem = path.stem.replace("_", "-")
    assert [cell["id"] for cell in notebook["cells"] if not re.fullmatch(rf"{stem}-[\w-]+", cell["id"])] == []
    assert path.stat().st_size < LARGEST


@each
def test_a_notebook_has_no_paths_of_the_machine_that_saved_it(path: Path) -> None:
    assert places(path) <= {"/home/jovyan"}


def test_each_notebook_has_a_cassette_unless_it_makes_its_own() -> None:
    assert {path.stem for path in CASSETTES} == {path.stem for path in NOTEBOOKS} - set(OWN)


def test_all_cassettes_together_are_small() -> None:
    assert sum(path.stat().st_size for path in CASSETTES) < LARGEST_CASSETTES


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.stem)
def test_cassette_has_current_format_and_no_local_paths(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[0]["cassette"] == FORMAT
    assert len(CassetteFile(path).read()) == len([line for line in lines[1:] if "blob" not in line]) > 5
    assert places(path) <= {"/home/jovyan"}


@each
def test_a_notebook_tells_a_story(path: Path) -> None:
    texts = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "markdown"]
    assert texts[0].startswith("# ")
    assert len(texts) >= 5
    assert max(map(len, texts)) < 900  # what is longer is no step of a tutorial


ASKED = {0: "nothing.", 1: "one question, ", 2: "two questions, "}


@each
def test_a_notebook_says_what_run_all_asks(path: Path) -> None:
    bounded, questions = False, 0
    for cell in cells(path):
        bounded = bounded or "%config MCPMagics.approval_timeout = 20" in "".join(cell["source"])
        if "you cannot be asked here" in json.dumps(cell.get("outputs", ())):  # nobody is there when it is saved
            assert bounded, f"{cell['id']} waits five minutes for an answer"
            questions += 1
    assert f"*Run All* asks you {ASKED[questions]}" in "".join(cells(path)[0]["source"])
