"""How the offline model does on a public benchmark: `python -m benchmarks.offline_model DATA`.

DATA is the folder `bfcl_eval/data` of the package `bfcl-eval` (Berkeley Function-Calling Leaderboard v4, Apache-2.0).
It is no requirement of this project; its wheel need not be installed:

    pip download --no-deps bfcl-eval -d /tmp/bfcl && unzip -q /tmp/bfcl/*.whl -d /tmp/bfcl
    python -m benchmarks.offline_model /tmp/bfcl/bfcl_eval/data

Of the set `multiple`, a call is right if the function and all arguments are among the possible answers. Of the set
`irrelevance`, a request is refused if no call is made, as the leaderboard counts it. `--failed` prints what was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mcp_magic.agent.offline import OfflineModel

CALLS, GOAL_RIGHT = 100, 30
REFUSALS, GOAL_REFUSED = 60, 50

TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""What the benchmark's types are called in JSON Schema; "any" is no type at all."""


def main(argv: list[str] | None = None) -> int:
    """Print how many calls are right and how many requests are refused; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.offline_model", description="How the offline model does on a public benchmark."
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder bfcl_eval/data of the package bfcl-eval")
    parser.add_argument("--start", type=int, default=0, help="the first question of each set; the goals are for 0")
    parser.add_argument("--failed", action="store_true", help="print each question that was answered wrongly")
    options = parser.parse_args(argv)
    if not (options.data / "BFCL_v4_multiple.json").is_file():
        parser.error(f"{options.data} has no BFCL_v4_multiple.json; benchmarks/README.md says how to get the data")

    answers = {
        line["id"]: line["ground_truth"] for line in _lines(options.data / "possible_answer" / "BFCL_v4_multiple.json")
    }
    questions = _lines(options.data / "BFCL_v4_multiple.json")[options.start : options.start + CALLS]
    right = 0
    for question in questions:
        calls = _calls(question)
        if is_right(calls, answers[question["id"]]):
            right += 1
        elif options.failed:
            print(f"{_text(question)}\n  wanted {json.dumps(answers[question['id']])}\n  called {json.dumps(calls)}")

    irrelevant = _lines(options.data / "BFCL_v4_irrelevance.json")[options.start : options.start + REFUSALS]
    refused = 0
    for question in irrelevant:
        calls = _calls(question)
        refused += not calls
        if calls and options.failed:
            print(f"{_text(question)}\n  called {json.dumps(calls)}")

    print(f"multiple: {right} of {len(questions)} calls are right (goal: {GOAL_RIGHT} of {CALLS})")
    print(f"irrelevance: {refused} of {len(irrelevant)} requests are refused (goal: {GOAL_REFUSED} of {REFUSALS})")
    return 0 if right >= GOAL_RIGHT and refused >= GOAL_REFUSED else 1


def is_right(calls: list[tuple[str, dict[str, Any]]], possible: list[dict[str, dict[str, list[Any]]]]) -> bool:
    """Whether the calls are those of a possible answer, which lists for each argument the values that are right.

    >>> is_right([("f", {"a": 1})], [{"f": {"a": [1, 2], "b": ["", 0]}}])
    True
    >>> is_right([("f", {"b": 0})], [{"f": {"a": [1, 2], "b": ["", 0]}}])
    False
    """
    if len(calls) != len(possible):
        return False
    for (name, arguments), wanted in zip(calls, possible, strict=True):
        if name not in wanted or set(arguments) - set(wanted[name]):
            return False
        for argument, values in wanted[name].items():
            if argument in arguments and not any(_same(arguments[argument], value) for value in values):
                return False
            if argument not in arguments and "" not in values:  # "" stands for an argument that may be left out
                return False
    return True


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(given, str) and isinstance(wanted, str):
        return _plain(given) == _plain(wanted)
    if isinstance(given, list) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(_same, given, wanted))
    if isinstance(given, dict) and isinstance(wanted, dict):  # each value is a list of possible ones
        return given.keys() == wanted.keys() and all(
            any(_same(given[key], one) for one in wanted[key]) for key in given
        )
    return bool(given == wanted) and isinstance(given, bool) == isinstance(wanted, bool)


def _plain(text: str) -> str:
    """Return a text as the leaderboard compares it: without case, spaces and some punctuation."""
    return "".join(each for each in text.lower() if each not in " ,./-_*^'\"")


def _calls(question: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return what the model calls first; names with dots, which providers refuse, are given with underscores."""
    names = {each["name"].replace(".", "_"): each["name"] for each in question["function"]}
    tools = [
        {
            "name": each["name"].replace(".", "_"),
            "description": each["description"],
            "parameters": _schema(each["parameters"]),
        }
        for each in question["function"]
    ]
    message = OfflineModel().bind_tools(tools).invoke(_text(question))
    return [(names[call["name"]], call["args"]) for call in message.tool_calls]


def _schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: TYPES.get(each, each) if key == "type" and isinstance(each, str) else _schema(each)
        for key, each in value.items()
        if (key, each) != ("type", "any")
    }


def _text(question: dict[str, Any]) -> str:
    return str(question["question"][0][-1]["content"])


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
