"""`python -m benchmarks [SUBJECT ...]`: measure, print one table, say which goals are met."""

from __future__ import annotations

import argparse
import compileall
import gc
import importlib
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timing import Result

__all__ = ["SUBJECTS", "main", "table"]

SUBJECTS = {
    "calls": "a call against the bare SDK's, per transport",
    "cells": "a %mcp call cell against an await in a cell",
    "connects": "eight connects in parallel against the slowest",
    "sandbox": "a stdio server inside a sandbox against the same one outside",
    "first_call": "the first call after connect against the tenth",
    "first_lines": "the first connect and the first agent of a kernel",
    "trace": "a call with its messages kept against one without",
    "progress": "what progress costs that is shown, and that nobody reports",
    "load_ext": "what %load_ext adds to the start of IPython",
    "frames": "100,000 rows to a DataFrame against pandas alone",
    "values": "values listed, read and queried as outside agents do, against pandas",
    "outside": "a call through the kernel's server against one of the server itself, over HTTP",
    "display": "what of 50 MB reaches the page",
    "explorer": "%mcp ui of 50 servers with 200 tools each",
    "many_tools": "a server with 10,000 tools: connect, list, search",
    "forms": "a form of 100 fields in three levels",
    "controls": "from a click or Enter in the explorer, a form and an approval to something seen",
    "approval": "from a click on Approve to the start of the tool",
    "views": "from the answer of a call to its view, and what a view adds to the notebook",
    "map": "a tool over a table: against gather with the best fixed semaphore, and at a server's limit",
    "programs": "a model's program: its input tokens against those of plain calls; what a step takes",
    "evaluation": "two thousand runs of %%mcp_eval against the time of the model",
    "agent": "a turn of %%mcp_agent against LangChain's create_agent: many tools, on disk, live",
}
"""Subject -> what it measures. Each is a module here with `run(quick=...)`; a new one is a module and a row."""

HEADER = ("subject", "ours", "reference", "ratio", "goal", "", "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line names; return the exit code."""
    options = _parser().parse_args(argv)
    results: list[Result] = []
    compileall.compile_dir(ROOT / "mcp_magic", quiet=1)  # as pip does where it installs it
    started = time.perf_counter()
    try:
        for subject in options.subjects or SUBJECTS:
            print(f"{subject}: {SUBJECTS[subject]} ...", file=sys.stderr, flush=True)
            gc.collect()
            gc.freeze()  # what earlier subjects have left behind is not searched in this one's samples
            results += importlib.import_module(f"benchmarks.{subject}").run(quick=options.quick)
    finally:  # also what was measured before an error
        print(table(results))
        print(f"\n{_summary(results)}, {time.perf_counter() - started:.0f} s; {_machine()}")
        if options.json:
            all_of_them = [asdict(result) for result in results]
            document = {"machine": _machine(), "quick": options.quick, "results": all_of_them}
            options.json.write_text(json.dumps(document, indent=2) + "\n")
    good = all(result.met is not False and result.ours is not None for result in results)
    return 1 if options.strict and not good else 0


def _summary(results: Sequence[Result]) -> str:
    """Count the goals that are met, and what could not be measured.

    >>> from benchmarks.timing import at_most, not_measured
    >>> _summary([at_most("page", 210, 200, "kB"), not_measured("click", "no browser")])
    '0 of 1 goals met, 1 not measured'
    """
    judged = [result.met for result in results if result.met is not None]
    missing = sum(result.ours is None for result in results)
    return f"{sum(judged)} of {len(judged)} goals met" + (f", {missing} not measured" if missing else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the performance goals.")
    parser.add_argument("subjects", nargs="*", choices=[*SUBJECTS, []], metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--quick", action="store_true", help="a few small samples, to see that everything runs")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is not met or not measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    return parser


def table(results: Sequence[Result]) -> str:
    """Return the results as aligned lines.

    >>> from benchmarks.timing import Result
    >>> print(table([Result("a call", 1.1, 1.0, 1.1, "at most 1.10", "ms", True)]))
    subject  ours     reference  ratio  goal
    a call   1.10 ms  1.00 ms    1.100  at most 1.10  met
    """
    rows = [HEADER, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(result: Result) -> tuple[str, ...]:
    ratio = "" if result.ratio is None else f"{result.ratio:.3f}"
    met = {True: "met", False: "NOT MET", None: ""}[result.met]
    ours, theirs = _figure(result.ours, result.unit), _figure(result.theirs, result.unit)
    return result.name, ours, theirs, ratio, result.goal, met, result.note


def _figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit, three digits of it at least, "" for none.

    >>> _figure(0.00123, "s"), _figure(1.234, "ms"), _figure(0, "modules"), _figure(123.4, "kB")
    ('0.001 s', '1.23 ms', '0 modules', '123 kB')
    """
    if value is None:
        return ""
    digits = 0 if isinstance(value, int) or value >= 100 else 2 if value >= 1 else 3
    return f"{value:.{digits}f} {unit}"


def _machine() -> str:
    return f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.system()}"


if __name__ == "__main__":
    sys.exit(main())
