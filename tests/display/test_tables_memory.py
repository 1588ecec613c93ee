"""Tables of hostile texts: none takes all memory, and the error says what to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mcp_magic.display.tables import MAX_COLUMNS, Columns, Records, check_shape
from tests.environments import ROOT
from tests.support.table_victim import FILES, TEXTS, answered, read


@pytest.fixture(scope="module")
def gave() -> dict[str, str]:
    """What `.df` gave in a process that has 2 GB; without bounds the first of them takes 5, others hundreds."""
    victim = [sys.executable, "-m", "tests.support.table_victim"]
    ran = subprocess.run(victim, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = [line for line in ran.stdout.splitlines() if line.startswith("TABLE ")]
    return dict(json.loads(line.removeprefix("TABLE ")) for line in lines)


def test_no_table_takes_all_memory(gave: dict[str, str]) -> None:
    assert set(gave) == {*TEXTS, *FILES}
    assert all(said.startswith(("no table in this result: ", "no table in this resource: ")) for said in gave.values())
    wide = "no table in this result: 80,000 columns; a DataFrame gets at most 5,000. .data or .text has them"
    assert gave["rows without common columns"] == wide
    sent = "no table in this result: 400,001 rows x 4,999 columns, of which 404,999 cells were sent; "
    assert gave["CSV without cells"].startswith(sent)


def test_ordinary_tables_are_made_whatever_their_size() -> None:
    assert Records(values=[{"a": 1}, {"b": 2}]).frame().shape == (2, 2)
    check_shape(*Columns(values={str(number): [1] * 200_000 for number in range(10)}).shape())
    assert answered("[{'a': None}, {'a': 2}]").df.shape == (2, 1)
    assert answered("|a|b|\n|-|-|\n|1|\n|1|2|3|\n").df.shape == (2, 2)
    assert read(",".join(f"a{n}" for n in range(MAX_COLUMNS)) + "\n1\n").df.shape == (1, MAX_COLUMNS)
    assert read("a" * 200_000 + ",b\n1,2\n").df.shape == (1, 2)  # a cell that is too long for `csv`
    answered("a,b\n" + "x" * 200_000 + ",1\n")._repr_mimebundle_()
