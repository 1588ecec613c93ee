"""Whether our matcher of calls agrees with that of BFCL: `python -m benchmarks.bfcl [PACKAGE]`.

The cases are the sets `multiple`, `parallel` and `irrelevance` of the Berkeley Function-Calling Leaderboard v4 (package
`bfcl-eval`, Apache-2.0). PACKAGE is the folder of its unpacked wheel; without it, pip downloads the wheel into a
temporary folder. Both matchers judge the same answers: every possible answer in every value that it allows, and answers
with one thing changed. Texts are equal as BFCL has it: without case, spaces and some punctuation. Each disagreement is
counted by its kind; one without an explanation in `EXPLAINED` fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.offline_model import _lines, _schema
from benchmarks.tool_search import downloaded
from mcp_magic.evaluation.cases import Expectation, ExpectedCall, OneOf
from mcp_magic.evaluation.matching import Matcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETS = ("multiple", "parallel", "irrelevance")
SERVER = "bfcl"
DATA = "bfcl_eval/data"

Call = tuple[str, dict[str, Any]]
Calls = list[Call]

FLOAT = "5.0 is an integer in JSON Schema, and equal to 5; BFCL compares types of Python"
GREEDY = "BFCL gives a call to the first expectation that it meets; ours pairs as many as it can"
MISSING = "the default of parallel_84 is the expected value; parallel_88 may be without it, against its own schema"
MARK = "BFCL reads the mark of an optional argument, an empty text, as a list"

EXPLAINED = {
    ("a whole number as a float", "ours"): FLOAT,
    ("in a list, a whole number as a float", "ours"): FLOAT,
    ("calls in reverse order", "ours"): GREEDY,
    ("an argument missing", "ours"): MISSING,
    ("an optional argument left out", "ours"): MISSING,
    ("a list with an item less", "BFCL"): MARK,
}
"""Kinds of answers that only one takes as right, and why."""


class Checker:
    """The checker of BFCL."""

    def __init__(self, package: Path) -> None:
        # The checker reads one attribute of the table of models, whose module imports the client of every provider.
        models = ModuleType("bfcl_eval.constants.model_config")
        models.MODEL_CONFIG_MAPPING = {"model": SimpleNamespace(underscore_to_dot=False)}  # type: ignore[attr-defined]
        sys.modules[models.__name__] = models
        sys.path.insert(0, str(package))
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker, standardize_string

        self._check, self._language = ast_checker, Language.PYTHON
        self.plain: Callable[[str], str] = standardize_string

    def is_right(self, name: str, question: dict[str, Any], answer: list[Any], calls: Calls) -> bool:
        """Return its verdict; of `irrelevance`, the leaderboard takes any answer without a call as right."""
        if name == "irrelevance":
            return not calls
        output = [{tool: arguments} for tool, arguments in calls]
        return bool(self._check(question["function"], output, answer, self._language, name, "model")["valid"])


# Cases and answers


def expectation(name: str, answer: list[Any]) -> Expectation:
    """Return what a possible answer expects: for each argument one of its values, of which "" means to leave it out."""
    calls = [
        ExpectedCall(f"{SERVER}:{tool}", {key: one_of(values) for key, values in arguments.items()})
        for call in answer
        for tool, arguments in call.items()
    ]
    return Expectation(tuple(calls), "~>" if name == "parallel" else "->")


def one_of(values: list[Any]) -> OneOf:
    return OneOf(tuple(nested(value) for value in values), "" in values)


def nested(value: Any) -> Any:
    """Return a possible value; in objects, each property has a list of possible values."""
    if isinstance(value, dict):
        return {key: one_of(values) for key, values in value.items()}
    return [nested(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value


def plain_value(value: Any) -> Any:
    """Return a value as a model gives it, for a possible one."""
    if isinstance(value, dict):
        return {key: plain_value(pick(values)) for key, values in value.items() if pick(values) != ""}
    return [plain_value(item) for item in value] if isinstance(value, list) else value


def pick(values: list[Any]) -> Any:
    return next((value for value in values if value != ""), "")


def possible_calls(answer: list[Any]) -> Iterator[tuple[str, Calls]]:
    """Yield the calls of an answer with the first values, and with each other value of each argument."""
    first: Calls = [
        (tool, {key: plain_value(pick(values)) for key, values in arguments.items() if pick(values) != ""})
        for call in answer
        for tool, arguments in call.items()
    ]
    yield "as it is", first
    for index, call in enumerate(answer):
        [(tool, possible)] = call.items()
        for key, values in possible.items():
            for value in values:
                arguments = dict(first[index][1])
                if value == "":
                    arguments.pop(key, None)
                    yield "an optional argument left out", [*first[:index], (tool, arguments), *first[index + 1 :]]
                else:
                    arguments[key] = plain_value(value)
                    yield "another possible value", [*first[:index], (tool, arguments), *first[index + 1 :]]


def mutants(question: dict[str, Any], first: Calls) -> Iterator[tuple[str, Calls]]:
    """Yield calls with one thing changed, and what."""
    yield "no call", []
    yield "a call too many", [*first, first[0]]
    if len(first) > 1:
        yield "a call missing", first[:-1]
        yield "calls in reverse order", first[::-1]
        yield "one call twice instead of another", [first[0], *first[:-1]]
    tools = {function["name"]: function["parameters"]["properties"] for function in question["function"]}
    for index, (tool, arguments) in enumerate(first):

        def instead(call: Call, index: int = index) -> Calls:
            return [*first[:index], call, *first[index + 1 :]]

        yield "a tool that is not offered", instead((f"{tool}_2", arguments))
        for other in tools.keys() - {tool}:
            yield "another tool", instead((other, arguments))
        yield "an argument that does not exist", instead((tool, {**arguments, "no_such_argument": 1}))
        for key, schema in tools[tool].items():
            if key not in arguments and "default" in schema:
                yield "an argument with its default", instead((tool, {**arguments, key: schema["default"]}))
                if isinstance(schema["default"], bool | int | float):
                    value = not schema["default"] if isinstance(schema["default"], bool) else schema["default"] + 1
                    yield "an optional argument with another value", instead((tool, {**arguments, key: value}))
        for key, value in arguments.items():
            yield "an argument missing", instead((tool, {name: arguments[name] for name in arguments if name != key}))
            for kind, other in other_values(value):
                yield kind, instead((tool, {**arguments, key: other}))


def other_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield values in place of another, and what differs; some have the same meaning."""
    yield "null", None
    if isinstance(value, list):
        yield "a list with an item more", [*value, *value[:1]]
        yield "a list with an item less", value[:-1]
        yield "a list in reverse order", value[::-1]
        yield "a list as a text", json.dumps(value)
        for first in value[:1]:
            yield from ((f"in a list, {kind}", [other, *value[1:]]) for kind, other in other_values(first))
    elif isinstance(value, dict):
        yield "an object with a property more", {**value, "no_such_property": 1}
        for key in value:
            yield "an object with a property less", {name: value[name] for name in value if name != key}
            yield from ((f"in an object, {kind}", {**value, key: other}) for kind, other in other_values(value[key]))
    else:
        yield from other_scalars(value)


def other_scalars(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "the other boolean", not value
        yield "a boolean as a number", int(value)
        yield "a boolean as a text", str(value).lower()
    elif isinstance(value, str):
        yield "another text", f"{value} x"
        yield "an empty text", ""
        yield "a text in capitals", value.upper()
        yield "a text with other punctuation", f"{value.replace(' ', '-')}."
        yield "a text in a list", [value]
    elif isinstance(value, int | float):
        yield "another number", value + 1
        yield "another number", -value - 1
        yield "a number as a text", str(value)
        if isinstance(value, int):
            yield "a whole number as a float", float(value)
        elif value.is_integer():
            yield "a float as a whole number", int(value)


# Agreement


def verdicts(package: Path, *, exact: bool = False) -> Iterator[tuple[str, str, bool, bool, str]]:
    """Yield for each answer its set, its kind, BFCL's verdict and ours, and the answer as text."""
    checker = Checker(package)
    for name in SETS:
        answers = answers_of(package, name)
        for question in _lines(package / DATA / f"BFCL_v4_{name}.json"):
            answer = answers.get(question["id"], [])
            tools = {f"{SERVER}:{tool['name']}": _schema(tool["parameters"]) for tool in question["function"]}
            matcher = Matcher(tools, plain=None if exact else checker.plain)
            expected = expectation(name, answer)
            for kind, calls in all_calls(question, answer):
                match = matcher.match(expected, [(f"{SERVER}:{tool}", arguments) for tool, arguments in calls])
                text = f"{question['id']}: {calls}, expected {answer}: {match}"
                yield name, kind, checker.is_right(name, question, answer, calls), match.right, text


def answers_of(package: Path, name: str) -> dict[str, list[Any]]:
    file = package / DATA / "possible_answer" / f"BFCL_v4_{name}.json"
    return {line["id"]: line["ground_truth"] for line in _lines(file)} if file.is_file() else {}


def all_calls(question: dict[str, Any], answer: list[Any]) -> Iterator[tuple[str, Calls]]:
    calls = list(possible_calls(answer))
    yield from calls
    if answer:
        yield from mutants(question, calls[0][1])
    for tool in () if answer else question["function"]:
        yield "a call", [(tool["name"], {})]


def main(argv: list[str] | None = None) -> int:
    """Print the verdicts by set, and the disagreements by kind; return 1 if one of these is not explained."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bfcl", description="The agreement with BFCL's checker.")
    parser.add_argument("package", type=Path, nargs="?", metavar="PACKAGE", help="the unpacked wheel of bfcl-eval")
    parser.add_argument("--exact", action="store_true", help="compare texts as %%%%mcp_eval does, not as BFCL does")
    parser.add_argument("--show", metavar="KIND", help="print the disagreements of a kind")
    options = parser.parse_args(argv)
    sums: dict[str, Counter[tuple[bool, bool]]] = {name: Counter() for name in SETS}
    kinds: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        package = options.package or downloaded(Path(folder)).parents[1]
        for name, kind, theirs, ours, text in verdicts(package, exact=options.exact):
            sums[name][theirs, ours] += 1
            if theirs != ours:
                kinds[name, kind, "BFCL" if theirs else "ours"] += 1
                if options.show == kind:
                    print(text)
    print("| set | answers | both right | both wrong | only BFCL | only ours |\n|---|---|---|---|---|---|")
    for name, counts in sums.items():
        both = f"{counts[True, True]:,} | {counts[False, False]:,}"
        print(f"| `{name}` | {counts.total():,} | {both} | {counts[True, False]:,} | {counts[False, True]:,} |")
    print("\n| set | kind of answer | only right for | answers | why |\n|---|---|---|---|---|")
    for (name, kind, side), count in kinds.items():
        print(f"| `{name}` | {kind} | {side} | {count:,} | {EXPLAINED.get((kind, side), 'not explained')} |")
    return 0 if options.exact or all((kind, side) in EXPLAINED for _, kind, side in kinds) else 1


if __name__ == "__main__":
    sys.exit(main())
