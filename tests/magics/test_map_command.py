"""`%mcp map`, `%%mcp map` and `%mcp bench` as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from mcp_magic import ArgumentsError, CommandError, MapRun, host
from tests.servers.bundled import load

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pd.DataFrame({"x": [1, 2, 3], "word": ["a", "b", "c"]}, index=["p", "q", "r"])


async def test_an_expression_of_the_row_is_computed_for_each_row(magic: Any) -> None:
    run = await magic("map math:add --rows $rows a={row.x} b={row['x'] * 10 + more}", rows=ROWS, more=1)
    assert isinstance(run, MapRun)
    assert run.df["result"].tolist() == [12, 23, 34]
    assert list(run.df.index) == ["p", "q", "r"]


async def test_rows_come_from_a_file_and_columns_fit_by_name(magic: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,comment\n1,2,x\n3,4,y\n")
    run = await magic("map math:add --rows rows.csv -o out")
    assert run.note == "passed by name: a, b"
    assert run.df["result"].tolist() == [3, 7]


async def test_a_text_may_have_expressions_in_it(magic: Any) -> None:
    plan = await magic("map math:add --rows $rows a={row.x} b=1 --dry-run", rows=ROWS)
    assert plan.rows[0] == {"row": "p", "a": 1, "b": 1}
    with pytest.raises(ArgumentsError, match=r"row p: a: expected .*, got 'n1'"):
        await magic("map math:add --rows $rows a=n{row.x} b=1", rows=ROWS)


async def test_an_expression_that_raises_names_its_row(magic: Any) -> None:
    rows = pd.DataFrame({"x": [1] * 17 + [0, 1]})
    with pytest.raises(ArgumentsError) as raised:
        await magic("map math:add --rows $rows a={1 // row.x} b=1", rows=rows)
    assert str(raised.value).splitlines() == [
        "1 row of 19 do not fit math:add; nothing was sent. --skip-invalid leaves them out.",
        "  row 17: {1 // row.x} raised ZeroDivisionError: integer division or modulo by zero",
    ]
    run = await magic("map math:add --rows $rows a={1 // row.x} b=1 --skip-invalid --limit 18", rows=rows)
    assert [run.stats[key] for key in ("rows", "done", "invalid")] == [18, 17, 1]


async def test_a_cell_is_a_pipeline_whose_steps_see_earlier_ones(magic: Any) -> None:
    cell = "# two steps\nfirst = math:add a={row.x} b=1\nsecond = math:divide a={first.data} b={row.x - 1}\n"
    run = await magic("map --rows $rows --skip-invalid", cell, rows=ROWS)
    frame = run.df
    assert frame["first.result"].tolist() == [2, 3, 4]
    assert frame["second.result"].tolist()[1:] == [3.0, 2.0]
    assert run.failed.index.tolist() == ["p"]  # division by zero ends this row at its second step
    assert "zero" in run.failed["error"].iloc[0]


LINES = {
    "map math:add a=1": (CommandError, "--rows says which rows: --rows $df"),
    "map --rows $rows": (CommandError, "%mcp map takes SERVER:TOOL on the line"),
    "map math:add --rows $rows --rate fast": (ArgumentsError, "'fast' is not a rate; write 10/s"),
    "map math:add --rows $rows --concurrency 0": (ArgumentsError, "at least 1"),
    "map math:add --rows $rows a={row.y} b=1": (ArgumentsError, "the row has no column 'y'"),
    "map math:add --rows $rows --no-keep a={row.x} b=1": (ArgumentsError, "--no-keep needs --journal FILE"),
    "map math:add --rows none.csv": (ArgumentsError, "none.csv: No such file"),
    "map --resume $rows": (ArgumentsError, "--resume takes a MapRun"),
    "bench math:add a=1 b=2 --concurrency x": (CommandError, "--concurrency 1,4,16"),
}


@pytest.mark.parametrize("line", LINES)
async def test_a_line_that_cannot_be_run_says_what_would_be_valid(magic: Any, line: str) -> None:
    kind, text = LINES[line]
    with pytest.raises(kind) as raised:
        await magic(line, rows=ROWS)
    assert text in str(raised.value)


CELLS = {
    "": "the cell has no step",
    "math:add a=1 b=2": "a step is NAME = SERVER:TOOL",
    "row = math:add a=1 b=2": "the name 'row' is taken",
    "x = math:add a=1 b=2\nx = math:add a=1 b=2": "the name 'x' is taken",
}


@pytest.mark.parametrize("cell", CELLS)
async def test_a_cell_that_is_no_pipeline_says_so(magic: Any, cell: str) -> None:
    with pytest.raises(CommandError) as raised:
        await magic("map --rows $rows", cell, rows=ROWS)
    assert CELLS[cell] in str(raised.value)


async def test_a_map_is_recorded_and_replayed(magic: Any, tmp_path: Path) -> None:
    tables = []
    for mode in ("record", "replay"):
        await host.close()
        await magic(f"record tape.jsonl --mode {mode}")
        await host.connect(load("math_server").server, name="math")
        run = await magic("map math:add --rows $rows a={row.x} b=1", rows=ROWS)
        tables.append(run.df["result"].tolist())
        await magic("record --stop")
    assert tables == [[2, 3, 4], [2, 3, 4]]


async def test_a_bench_has_a_row_for_each_concurrency(magic: Any) -> None:
    bench = await magic("bench math:add a=1 b=2 --concurrency 1,3 --seconds 0.2")
    frame = bench.df
    assert frame["concurrency"].tolist() == [1, 3]
    assert (frame["calls"] > 0).all()
    assert frame["errors"].tolist() == [0, 0]
    assert "at 3" in repr(bench)
