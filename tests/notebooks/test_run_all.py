"""Run All of the tutorials that ask, before somebody who never answers."""

import ast

import nbformat
import pytest

from tests.environments import ROOT
from tests.support.started_kernels import started

UNANSWERED = (
    "from mcp_magic import host\n"
    "[f'{record.server}:{record.tool}' for record in host.consent.audit.records if record.by == 'time-out']"
)
pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(
    ("name", "asked"),
    [("agent", ["weather:get_weather"]), ("forms_and_approval", ["pantry:throw_away", "pantry:look"])],
    ids=["agent", "forms"],
)
def test_run_all_goes_on_without_answers(name, asked, tmp_path):
    (tmp_path / "servers").symlink_to(ROOT / "notebooks" / "servers")
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    with started(tmp_path, ()) as frontend:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shown = frontend.run(cell.source.replace("approval_timeout = 20", "approval_timeout = 1"))
                assert bool(shown.ename) == ("raises-exception" in cell.metadata.get("tags", ())), cell.id
        assert ast.literal_eval(frontend.kernel.ok(UNANSWERED).text) == asked
