"""The tutorials as they are saved; nbval runs them and compares what they show (`make test`)."""

import json
import re

import nbformat
import pytest

from mcp_magic.cassette.file import FORMAT, CassetteFile
from notebooks.run import OWN
from tests.environments import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CASSETTES = sorted((ROOT / "notebooks" / "cassettes").glob("*.jsonl"))
LARGEST, LARGEST_CASSETTES = 400_000, 1_660_000
"""Bytes of a saved notebook, and of all cassettes."""

UNASKED = re.compile("you cannot be asked here|the notebook runs unattended")
ASKED = {0: "nothing.", 1: "one question, ", 2: "two questions, "}
tutorials = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def places(path):
    """The folders of a person or a machine that a file names."""
    return set(re.findall(r"(?<![\w.:/<&])/(?:home|root|tmp|work|usr|opt|Users)/[\w.-]+", path.read_text("utf-8")))


def outputs(notebook, kind):
    """Each output of a kind, with its cell."""
    for cell in notebook["cells"]:
        yield from ((cell, output) for output in cell.get("outputs", ()) if output["output_type"] == kind)


def test_make_runs_all_notebooks_and_the_readme_lists_them():
    for text in ((ROOT / name).read_text("utf-8") for name in ("Makefile", "README.md")):
        assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name}" not in text] == []
    assert {path.stem for path in CASSETTES} == {path.stem for path in NOTEBOOKS} - set(OWN)
    assert sum(path.stat().st_size for path in CASSETTES) < LARGEST_CASSETTES


@tutorials
def test_notebook_ran_in_order_warns_and_fails_only_as_tagged(path):
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    failed = [cell["id"] for cell, _ in outputs(notebook, "error")]
    assert failed == [cell["id"] for cell in code if "raises-exception" in cell["metadata"].get("tags", ())]
    assert [output["text"] for _, output in outputs(notebook, "stream") if output["name"] == "stderr"] == []
    assert "Warning" not in path.read_text("utf-8")


@tutorials
def test_notebook_is_valid_and_names_no_machine(path):
    notebook = json.loads(path.read_text("utf-8"))
    nbformat.validate(notebook)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert {key for cell in notebook["cells"] for key in cell["metadata"]} <= {"tags"}
    stem = path.stem.replace("_", "-")
    assert [cell["id"] for cell in notebook["cells"] if not re.fullmatch(rf"{stem}-[\w-]+", cell["id"])] == []
    assert path.stat().st_size < LARGEST
    assert places(path) <= {"/home/jovyan"}


@pytest.mark.parametrize("path", CASSETTES, ids=lambda path: path.stem)
def test_cassette_has_current_format_and_no_local_paths(path):
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert lines[0]["cassette"] == FORMAT
    assert len(CassetteFile(path).read()) == len([line for line in lines[1:] if "blob" not in line]) > 5
    assert places(path) <= {"/home/jovyan"}


@tutorials
def test_a_notebook_tells_a_story_and_what_it_asks(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert texts[0].startswith("# ")
    assert len(texts) >= 5
    assert max(map(len, texts)) < 900  # what is longer is no step of a tutorial
    bounded, questions = False, 0
    for cell in cells:
        bounded = bounded or "%config MCPMagics.approval_timeout = 20" in "".join(cell["source"])
        if UNASKED.search(json.dumps(cell.get("outputs", ()))):  # nobody is there when it is saved
            assert bounded, f"{cell['id']} waits five minutes for an answer"
            questions += 1
    assert f"*Run All* asks you {ASKED[questions]}" in "".join(cells[0]["source"])
