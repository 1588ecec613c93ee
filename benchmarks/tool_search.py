"""How well the search of tools finds them: `python -m benchmarks.tool_search [DATA]`.

The tools are the definitions of the Berkeley Function-Calling Leaderboard v4 (package `bfcl-eval`, Apache-2.0), pooled
over all its question files, and the queries are its `live_multiple` questions. DATA is the folder `bfcl_eval/data`;
without it, pip downloads the package's wheel into a temporary folder. It is no requirement of this project.

The leaderboard repeats definitions: pooled are those that differ in name or description, and a found one is right if
it has the name and the arguments of the one that is asked for, because such definitions differ only in wording.
`exactly` counts only the definition of the question itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from mcp_types import Tool

from benchmarks.offline_model import _lines, _schema
from mcp_magic.agent.search import Index, words_of_tool

PACKAGE = "bfcl-eval==2026.3.23"

GOAL_10, GOAL_MS = 0.85, 10.0


class Question(NamedTuple):
    """A question, and the numbers of the definitions that are right."""

    text: str
    definition: int
    right: frozenset[int]


def main(argv: list[str] | None = None) -> int:
    """Print recall at 5 and 10 and the time of a search; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tool_search", description="Recall of the tool search.")
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help="the folder bfcl_eval/data of bfcl-eval")
    parser.add_argument("--missed", action="store_true", help="print each question whose tool was not among ten")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or downloaded(Path(folder))
        tools = pooled(data)
        questions = questions_of(data, tools)

    started = time.perf_counter()
    index = Index([words_of_tool(tool) for tool in tools])
    built = time.perf_counter() - started
    started = time.perf_counter()
    found = [index.best(question.text, 10) for question in questions]
    milliseconds = 1000 * (time.perf_counter() - started) / len(questions)

    recall = {}
    for most in (5, 10):
        pairs = list(zip(questions, found, strict=True))
        recall[most] = sum(not each.right.isdisjoint(best[:most]) for each, best in pairs) / len(pairs)
        exact = sum(each.definition in best[:most] for each, best in pairs) / len(pairs)
        goal = f" (goal: {GOAL_10})" if most == 10 else ""
        print(f"recall@{most}: {recall[most]:.3f}{goal}; exactly {exact:.3f}")
    print(f"a search: {milliseconds:.2f} ms (goal: {GOAL_MS:.0f} ms); the index: {built:.2f} s")
    print(f"{len(tools):,} definitions, {len(questions):,} questions")
    if options.missed:
        for question, best in zip(questions, found, strict=True):
            if question.right.isdisjoint(best):
                names = ", ".join(tools[number].name for number in best)
                print(f"{question.text}\n  wanted {tools[question.definition].name}\n  found {names}")
    return 0 if recall[10] >= GOAL_10 and milliseconds < GOAL_MS else 1


def downloaded(folder: Path) -> Path:
    """Download the data and return its folder."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE, "--dest", str(folder)]
    subprocess.run(download, check=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder / "bfcl_eval" / "data"


def pooled(data: Path) -> list[Tool]:
    """Return the definitions of all question files, those with the same name and description once."""
    found: dict[tuple[str, str], Tool] = {}
    for file in sorted(data.glob("BFCL_v4_*.json")):
        if file.name == "BFCL_v4_format_sensitivity.json":  # ids of questions only
            continue
        for line in _lines(file):
            for each in line.get("function") or ():
                tool = Tool(
                    name=each["name"], description=each["description"], input_schema=_schema(each["parameters"])
                )
                found.setdefault((tool.name, each["description"]), tool)
    return list(found.values())


def questions_of(data: Path, tools: list[Tool]) -> list[Question]:
    """Return the questions of `live_multiple`."""
    numbers = {(tool.name, tool.description): number for number, tool in enumerate(tools)}
    equal: dict[Any, set[int]] = {}
    for number, tool in enumerate(tools):
        equal.setdefault(_kind(tool), set()).add(number)
    answers = _lines(data / "possible_answer" / "BFCL_v4_live_multiple.json")
    names = {line["id"]: {name for call in line["ground_truth"] for name in call} for line in answers}
    questions = []
    for line in _lines(data / "BFCL_v4_live_multiple.json"):
        [wanted] = [each for each in line["function"] if each["name"] in names[line["id"]]]
        number = numbers[wanted["name"], wanted["description"]]
        text = line["question"][0][-1]["content"]
        questions.append(Question(text, number, frozenset(equal[_kind(tools[number])])))
    return questions


def _kind(tool: Tool) -> tuple[str, tuple[str, ...]]:
    return tool.name, tuple(sorted(tool.input_schema.get("properties") or {}))


if __name__ == "__main__":
    sys.exit(main())
