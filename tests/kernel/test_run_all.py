"""Run All of the tutorials that ask, before somebody who never answers."""

from __future__ import annotations

import ast

import nbformat
import pytest

from tests.environments import ROOT
from tests.support.started_kernels import started

NOTEBOOKS = ROOT / "notebooks"
UNANSWERED = (
    "from mcp_magic import host\n"
    "[f'{record.server}:{record.tool}' for record in host.consent.audit.records if record.by == 'time-out']"
)


@pytest.mark.parametrize(
    ("name", "asked"),
    [("agent", ["weather:get_weather"]), ("forms_and_approval", ["pantry:throw_away", "pantry:look"])],
    ids=["agent", "forms"],
)
def test_run_all_goes_on_without_answers(name: str, asked: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("notebooks")
    (folder / "servers").symlink_to(NOTEBOOKS / "servers")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    with started(folder, ()) as frontend:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shown = frontend.run(cell.source.replace("approval_timeout = 20", "approval_timeout = 1"))
                assert bool(shown.ename) == ("raises-exception" in cell.metadata.get("tags", ())), cell.id
        assert ast.literal_eval(frontend.kernel.ok(UNANSWERED).text) == asked
