"""Runs the official conformance suite against a client of ours: `python -m tests.conformance.run [SCENARIO ...]`.

All client scenarios one by one, and what the revisions of the specification require, each at its own wire. The suite
is @modelcontextprotocol/conformance (tests/environments.py has the version); docs/conformance.md says what came out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.counting import Outcome, judge, read_outcomes, share, table
from tests.environments import ROOT, conformance_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

HERE = Path(__file__).parent

REVISIONS = ("2025-11-25", "2026-07-28")

EXCEPTIONS: Mapping[str, str] = {}
"""Scenario -> why it fails, of those that are run one by one. One that passes has to go from here."""

PATIENCE = 180_000
"""Milliseconds that the suite gives a client."""


@dataclass(frozen=True)
class Suite:
    """The suite, with the client it is to start."""

    command: Sequence[str]
    client: str
    folder: Path

    async def run(self, name: str, *options: str) -> tuple[list[Outcome], int]:
        """Run a part of it; return what it found and its exit code."""
        output = self.folder / name
        output.mkdir(parents=True)
        given = ("client", "--command", self.client, "--timeout", str(PATIENCE), "-o", str(output), *options)
        code, said = await _run([*self.command, *given])
        outcomes = read_outcomes(output)
        if not outcomes:
            raise RuntimeError(f"the suite said nothing about {name}:\n{said[-2000:]}")
        return outcomes, code

    async def listed(self, *options: str) -> list[str]:
        """Return the names of client scenarios."""
        _, said = await _run([*self.command, "list", *options])
        part = said.partition("Client scenarios")[2].partition("\n\n")[0]
        return re.findall(r"^  - (\S+)", part, re.MULTILINE)


async def _run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command; return its exit code and all that it said."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode(errors="replace")


@asynccontextmanager
async def warm_client(folder: Path) -> AsyncIterator[str]:
    """Keep a process with the client imported; yield the command that the suite is to start."""
    path = folder / "door"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.conformance.warm", str(path), str((os.cpu_count() or 1) + 1)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"warm\n":
            raise RuntimeError("the client cannot be imported")
        yield f"{sys.executable} -I -S {HERE / 'knock.py'} {path}"
    finally:
        process.stdin.close()
        await process.wait()


async def one_by_one(suite: Suite, scenarios: Sequence[str]) -> dict[str, Outcome]:
    """Run scenarios, as many at a time as there are cores."""
    slots = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(scenario: str) -> Outcome:
        async with slots:
            [outcome], code = await suite.run(f"single/{scenario}", "--scenario", scenario)
            return replace(outcome, code=code)

    found = await asyncio.gather(*(one(each) for each in scenarios))
    return {outcome.scenario: outcome for outcome in found}


async def everything(suite: Suite, only: Sequence[str]) -> int:
    """Run what is asked for, print what came out, and return the exit code."""
    wanted = {"": await suite.listed("--client")}
    if unknown := set(only) - set(wanted[""]):
        print(f"no such scenarios: {', '.join(sorted(unknown))}. There are: {', '.join(wanted[''])}")
        return 2
    single = await one_by_one(suite, only or wanted[""])
    print(table(single.values(), EXCEPTIONS))
    if only:
        for outcome in single.values():
            print("".join(f"{outcome.scenario}: {complaint}\n" for complaint in outcome.complaints), end="")
        return int(not all(outcome.passed for outcome in single.values()))
    required, codes = {}, {}
    for revision in REVISIONS:
        wanted[revision] = await suite.listed("--requirements", revision)
        outcomes, codes[revision] = await suite.run(revision, "--requirements", revision)
        required[revision] = {outcome.scenario: outcome for outcome in outcomes}
        print(f"\n{revision}: {share(required[revision], wanted[revision])} of what it requires", end="")
        more = [scenario for scenario in required[revision] if scenario not in wanted[revision]]
        print(f", {share(required[revision], more)} of what it does not require")
    verdict = judge(single, required, wanted, EXCEPTIONS, codes)
    print(*(f"\n{problem}" for problem in verdict.problems), sep="")
    good, counted = verdict.checks
    print(f"\n{verdict.passed}/{verdict.total} scenarios one by one; {good}/{counted} checks in all runs")
    return int(bool(verdict.problems))


async def main() -> int:
    """Run the suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="*", help="only these, one by one")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the suite's own reports are kept")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        async with warm_client(Path(temporary)) as client:
            suite = Suite(conformance_command(), client, options.keep or Path(temporary) / "results")
            code = await everything(suite, options.scenario)
    print(f"{'failed' if code else 'passed'} in {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
