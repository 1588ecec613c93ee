"""Seeded mutants of the package, tried by the tests that run their lines: how many do the tests notice?

`make mutants` runs the tests once for their branch coverage (`.cache/coverage`), and then changes one place of `WHERE`
at a time, in a copy. The tests that run its line are tried, at most 80 of them, evenly chosen. A line is printed for
each mutant: its verdict, its place, and the new text. "killed": a test failed that passes without the mutant. "hangs":
the tests did not end in 240 s. "survived": all passed. "untested": no test runs the line in the process of the tests.
"broken": the tests could not be run. The last line has the sums; killed and hanging mutants are noticed. All verdicts
are in `.cache/mutants.json`. The sample depends on the seed and the package alone, so that two versions of the tests
can be compared: `python -m tests.mutants --sample 20 --seed 1` tries fewer, or others.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".cache" / "coverage"
WHERE = ("session", "consent", "results", "schema", "config/masking", "agent")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "no:langsmith_plugin")
MOST_TESTS = 80
SECONDS = 240.0  # then the mutant is said to hang, which is noticed

COMPARED = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.BitOr: "&", ast.BitAnd: "|"}

LEFT_OUT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.JoinedStr, ast.AnnAssign)


@dataclass(frozen=True)
class Mutant:
    """One changed place: its file, its first line and column, how far it goes, and the text that replaces it."""

    path: str
    line: int
    column: int
    end: tuple[int, int]
    text: str

    def apply(self, source: str) -> str:
        """Return a source with this place changed; columns count bytes."""
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        last, last_column = self.end
        before = b"".join(lines[: self.line - 1]) + lines[self.line - 1][: self.column]
        after = lines[last - 1][last_column:] + b"".join(lines[last:])
        return (before + self.text.encode() + after).decode()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column} -> {self.text[:60]}"


def _values(node: ast.AST) -> Iterator[str]:
    """Yield the texts that an expression can be replaced by."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            yield f"({ast.unparse(node.left)} {COMPARED[type(operator)]} {ast.unparse(node.comparators[0])})"
        case ast.BoolOp():
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield f"({word.join(f'({ast.unparse(value)})' for value in node.values)})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in COMPUTED:
            yield f"({ast.unparse(node.left)} {COMPUTED[type(node.op)]} {ast.unparse(node.right)})"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int()):
            yield str(node.value + 1)
        case ast.IfExp():
            yield f"({ast.unparse(node.orelse)})"


def _statements(node: ast.AST) -> Iterator[str]:
    """Yield the texts that a statement can be replaced by."""
    match node:
        case ast.Return(value=ast.expr()):
            yield "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Continue() | ast.Break():
            yield "pass"


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in bodies of functions; annotations, f-strings and what only type checkers read are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            rest: list[ast.AST] = list(node.body)
            while rest:
                inner = rest.pop()
                if isinstance(inner, LEFT_OUT):
                    continue
                yield inner
                rest += ast.iter_child_nodes(inner)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    for node in _code(ast.parse(path.read_text())):
        for text in (*_values(node), *_statements(node)):
            assert isinstance(node, ast.expr | ast.stmt)
            end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
            yield Mutant(str(path.relative_to(ROOT)), node.lineno, node.col_offset, end, text)


def files() -> list[Path]:
    """Return the files from which mutants are taken."""
    places = [ROOT / "mcp_magic" / name for name in WHERE]
    modules = [place.with_suffix(".py") for place in places if not place.is_dir()]
    return sorted([*modules, *(file for place in places for file in place.rglob("*.py"))])


def sample(size: int, seed: int) -> list[Mutant]:
    """Draw mutants, the same for the same seed and package."""
    drawn = random.Random(seed)
    candidates = sorted(
        (mutant for file in files() for mutant in mutants(file)), key=lambda m: (m.path, m.line, m.column, m.text)
    )
    return drawn.sample(candidates, min(size, len(candidates)))


def measure(workers: int) -> None:
    """Run the tests once and keep which of them runs which line."""
    DATA.parent.mkdir(exist_ok=True)
    subprocess.run(
        [
            *PYTEST,
            *("-m", "not timed", "--ignore-glob=tests/*_server.py", "tests", "-n", str(workers), "--dist", "loadfile"),
            *("--cov=mcp_magic", "--cov-branch", "--cov-context=test", "--cov-report=term:skip-covered"),
        ],
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(DATA)},
        check=False,
    )


def tests_of(data: coverage.CoverageData, mutant: Mutant) -> list[str]:
    """Return the tests that run the line of a mutant, a spread of them if there are many."""
    contexts = data.contexts_by_lineno(str(ROOT / mutant.path)).get(mutant.line, [])
    tests = sorted({context.rpartition("|")[0] for context in contexts} - {""})
    step = max(1, -(-len(tests) // MOST_TESTS))
    return tests[::step]


class Copy:
    """A copy of the project in which mutants are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._passing: set[str] = set()  # tests that pass without a mutant
        self._failing: set[str] = set()
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
        for name in files.rstrip("\0").split("\0"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for name in (".cache", ".venv"):
            (folder / name).symlink_to(ROOT / name)

    def try_out(self, mutant: Mutant, tests: list[str]) -> str:
        """Return what became of a mutant."""
        file = self.folder / mutant.path
        source = file.read_text()
        while tests := [test for test in tests if test not in self._failing]:
            file.write_text(mutant.apply(source))
            try:
                code, failed = self._run(tests)
            except subprocess.TimeoutExpired:
                return "hangs"
            finally:
                file.write_text(source)
            if code in (0, 5):  # all passed, or were skipped
                return "survived"
            if not failed:
                return "killed" if self._passes(tests[0]) else "broken"  # the mutant cannot be imported
            if self._passes(failed):
                return "killed"
        return "untested"

    def _passes(self, test: str) -> bool:
        """Whether a test passes without a mutant."""
        if test not in self._passing | self._failing:
            self._failing.add(test)
            with suppress(subprocess.TimeoutExpired):
                if self._run([test])[0] == 0:
                    self._failing.discard(test)
                    self._passing.add(test)
        return test in self._passing

    def _run(self, tests: list[str]) -> tuple[int, str]:
        """Run tests until one fails; return pytest's exit code, and that test or ""."""
        ran = subprocess.run(
            [*PYTEST, "-x", "--no-header", "-rfE", *tests],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        lines = (line.partition(" ")[2] for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")))
        return ran.returncode, next((test for line in lines for test in tests if line.startswith(test)), "")


def _share(part: Iterable[tuple[Mutant, list[str]]]) -> list[tuple[Mutant, str]]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        verdicts = []
        for mutant, tests in part:
            verdicts.append((mutant, copy.try_out(mutant, tests)))
            print(f"{verdicts[-1][1]:9} {mutant}", flush=True)
        return verdicts


def main() -> None:
    """Measure the coverage if that is asked for or missing, then try a sample of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=150)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--measure", action="store_true", help="run the tests for their coverage first")
    options = parser.parse_args()
    if options.measure or not DATA.exists():
        measure(options.workers)
    data = coverage.CoverageData(str(DATA))
    data.read()
    work = [(mutant, tests_of(data, mutant)) for mutant in sample(options.sample, options.seed)]
    with ThreadPoolExecutor(options.workers) as pool:
        shares = list(pool.map(_share, [work[at :: options.workers] for at in range(options.workers)]))
    verdicts = [verdict for share in shares for verdict in share]
    counts = Counter(verdict for _, verdict in verdicts)
    names = {str(mutant): verdict for mutant, verdict in verdicts}
    (ROOT / ".cache" / "mutants.json").write_text(json.dumps(names, indent=1))
    noticed = counts["killed"] + counts["hangs"]
    print(f"{noticed} of {len(verdicts)} mutants noticed: {dict(counts)}")


if __name__ == "__main__":
    main()
