"""`%%mcp_eval` measures whether models use tools rightly; `%mcp eval` does so with the cases of a file."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import join_names
from mcp_magic.consent.consent import POLICIES
from mcp_magic.errors import ArgumentsError, CommandError, MissingDependencyError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import (
    Argument,
    Implementation,
    Invocation,
    Tab,
    option_text,
    seconds_typed,
    variable_typed,
)
from mcp_magic.ipython.commands.agent import check_bounds, complete_tools, model_words
from mcp_magic.ipython.execution import until_interrupted
from mcp_magic.map.rows import FILES
from mcp_magic.notebook import host
from mcp_magic.results.results import CheckFailedError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_magic.evaluation.ablation import Ablation
    from mcp_magic.evaluation.cases import Case
    from mcp_magic.evaluation.evaluation import Evaluation

FIRST_LINE = 2  # the number of the first line below the line of the magic

FILES_OF_CASES = (".toml", *FILES)  # other files have lines of cases


async def _evaluate(invocation: Invocation, arguments: argparse.Namespace) -> Evaluation | Ablation:
    if IN_BROWSER and find_spec("langgraph") is None:
        raise MissingDependencyError("evaluations need LangGraph, and a Python in a browser has no package of it.")
    from mcp_magic.evaluation import gate
    from mcp_magic.evaluation.evaluation import RESUMED, Evaluation
    from mcp_magic.junit import write_junit

    check_bounds("%%mcp_eval", arguments)
    bounds = [] if arguments.gate is None else gate.read_gate(invocation.text(arguments.gate))
    files = {name: invocation.new_file(getattr(arguments, name)) for name in ("junit", "save")}
    files["against"] = _path(invocation, arguments.against)
    saved = None if files["against"] is None else gate.read_saved(files["against"])
    result = await _evaluation(invocation, arguments)
    evaluation = result if isinstance(result, Evaluation) else result.evaluation
    evaluation.name = partial(_name, invocation.variables, result)
    if result is not evaluation:
        _refuse(arguments, ("variants", "gate", "against", "junit", "save"))
    gate.refuse_opinions(evaluation, bounds, against=saved is not None)
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = result
    with until_interrupted():
        await (result.run() if arguments.resume is None else result.resume(**_typed(arguments, RESUMED)))
    if files["junit"] is not None:
        write_junit(files["junit"], gate.suites(evaluation, bounds))
    if files["save"] is not None:
        evaluation.save(files["save"])
    falls = [] if saved is None else gate.falls(evaluation, saved, str(files["against"]))
    try:
        gate.check(evaluation, bounds, falls)
    except CheckFailedError:
        invocation.show(evaluation)
        raise
    return result


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Raise CommandError for options that an ablation does not have."""
    if typed := [f"--{name}" for name in names if getattr(arguments, name) is not None]:
        problem = "its variants are made of the tool as it is, to learn what each sentence adds"
        raise CommandError(f"%%mcp_eval: --ablate does not go with {join_names(typed)}: {problem}.")


async def _evaluation(invocation: Invocation, arguments: argparse.Namespace) -> Evaluation | Ablation:
    """Return the evaluation or ablation that is resumed, or a new one."""
    from mcp_magic.evaluation.ablation import Ablation, new_ablation
    from mcp_magic.evaluation.evaluation import RESUMED, Evaluation, new_evaluation

    if arguments.resume is None:
        cases, models = _cases(invocation, arguments), _models(invocation, arguments.models)
        variants, options = _variants(invocation, arguments.variants), _options(invocation, arguments)
        if arguments.ablate is not None:
            tool = invocation.text(arguments.ablate)
            return await new_ablation(invocation.host, tool, cases, models, **options)
        return new_evaluation(invocation.host, cases, models, variants, **options)
    own = (*RESUMED, "gate", "against", "save", "junit", "out")
    typed = [name for name, value in vars(arguments).items() if value is not None and value is not False]
    others = [option_text(name) for name in typed if name not in (*own, "resume")]
    if (invocation.body or "").strip():
        others.append("the cell")
    if others:
        raise CommandError(
            f"%%mcp_eval: --resume goes on with the evaluation as it is: leave out {join_names(others)}. "
            f"It takes {join_names(map(option_text, own), 20)}."
        )
    evaluation = invocation.value(arguments.resume)
    if not isinstance(evaluation, Evaluation | Ablation):
        kind = type(evaluation).__name__
        raise ArgumentsError(f"--resume takes an Evaluation, for example --resume $scores, not {kind}")
    return evaluation


def _typed(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def _options(invocation: Invocation, arguments: argparse.Namespace) -> dict[str, Any]:
    from mcp_magic.evaluation.evaluation import RESUMED

    settings = invocation.settings
    lists = {name: _list(getattr(arguments, name)) for name in ("servers", "tools")}
    agent = {
        "result_limit": settings.result_characters,
        "spill": settings.spill,
        "search_above": settings.search_above,
        "approve": arguments.approve,
        "system": str(invocation.value(arguments.system)) if arguments.system else "",
        "max_turns": arguments.max_turns or settings.max_turns,
    }
    journal = _path(invocation, arguments.journal)
    return {**_typed(arguments, RESUMED), **lists, **agent, "tools_only": arguments.tools_only, "journal": journal}


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def _path(invocation: Invocation, word: str | None) -> Path | None:
    return None if word is None else invocation.path(invocation.text(word))


def _name(variables: Mapping[str, Any], evaluation: Evaluation | Ablation) -> str:
    """Return the name of the variable that holds an evaluation; `_`, the latest output, if none does."""
    return next((name for name, value in variables.items() if value is evaluation and not name.startswith("_")), "_")


def _cases(invocation: Invocation, arguments: argparse.Namespace) -> list[Case]:
    """Return the cases: those of the cell, of a file, or of a table."""
    from mcp_magic.config.parsing import read_text
    from mcp_magic.evaluation.cases import read_cases, read_cell

    body, word = (invocation.body or "").strip(), arguments.cases
    if body and word is not None:
        raise CommandError("%%mcp_eval: the cases are in the cell and in --cases; give them once.")
    if body:
        return read_cell(invocation.body or "", first=FIRST_LINE, evaluate=invocation.evaluate)
    if word is None:
        raise CommandError(
            "%%mcp_eval: the cases are missing; write below the line: What is the weather in Oslo? -> "
            "weather:get_weather location=Oslo. Or name a table or a file: --cases $df, --cases cases.toml"
        )
    source = invocation.value(word)
    if isinstance(source, str):
        source = invocation.path(source)
    if isinstance(source, Path) and source.suffix.lower() not in FILES_OF_CASES:
        return read_cell(read_text(source), evaluate=invocation.evaluate)
    return read_cases(source, evaluate=invocation.evaluate)


def _models(invocation: Invocation, words: str | None) -> dict[str, Any]:
    """Return the models by name; a variable's name is that of its model."""
    if words is None:
        model = invocation.settings.model
        return {model if isinstance(model, str) and model else "offline" if not model else "model": model}
    models: dict[str, Any] = {}
    for word in _list(words):
        if word in invocation.variables and word.isidentifier():
            raise CommandError(f"%%mcp_eval: there is no model {word!r}. Did you mean the variable: --models ${word}?")
        value = invocation.value(word)
        several = value if isinstance(value, list | tuple) else [value]
        name = word.removeprefix("$") if word.startswith("$") and not isinstance(value, str) else ""
        for number, model in enumerate(several, 1):
            key = (name if len(several) == 1 else f"{name}-{number}") if name else str(model)
            if key in models:
                raise CommandError(f"%%mcp_eval: --models names {key!r} twice; --runs 2 makes each run twice")
            models[key] = model
    if not models:
        raise CommandError("%%mcp_eval: --models names no model: --models $a,$b or --models openai:gpt-5,offline")
    return models


def _variants(invocation: Invocation, words: str | None) -> dict[str, Any] | None:
    """Return the surfaces of the variants by name; None for a name alone, the tools as the servers list them."""
    if words is None:
        return None
    variants: dict[str, Any] = {}
    for word in _list(words):
        name, equals, value = map(str.strip, word.partition("="))
        if not name.replace("-", "_").isidentifier() or (equals and not value.startswith("$")):
            raise CommandError(f"%%mcp_eval: cannot read {word!r}; write --variants now=$current,short=$surface")
        if name in variants:
            raise CommandError(f"%%mcp_eval: --variants names {name!r} twice; there are {join_names(variants)}")
        variants[name] = invocation.value(value) if equals else None
    return variants


def _complete_variant(tab: Tab) -> list[str]:
    surfaces = [name for name, value in tab.namespace.items() if type(value).__name__ == "Surface"]
    return completion.continuing(tab, ["now", *(f"{name}=${name}" for name in surfaces if not name.startswith("_"))])


def _evaluations(tab: Tab) -> list[str]:
    kinds = ("Evaluation", "Ablation")
    names = [name for name, value in tab.namespace.items() if type(value).__name__ in kinds]
    return completion.starting(tab, [f"${name}" for name in names if not name.startswith("_")])


def _complete_cases(tab: Tab) -> list[str]:
    tables = [
        f"${name}"
        for name, value in tab.namespace.items()
        if not name.startswith("_") and "request" in getattr(value, "columns", ())
    ]
    return completion.starting(tab, [*tables, *completion.paths(tab, FILES_OF_CASES)])


_SERVERS = Argument(
    "--servers", metavar="A,B", complete=lambda tab: completion.continuing(tab, host), help="only these servers"
)

_ARGUMENTS = (
    Argument(
        "--models",
        metavar="MODEL,MODEL",
        complete=lambda tab: completion.continuing(tab, model_words(tab)),
        help="$variables, PROVIDER:NAME or offline (default: the setting model)",
    ),
    _SERVERS,
    Argument("--tools", metavar="PATTERN", complete=complete_tools, help="only these tools, such as 'fs:read_*'"),
    Argument("--runs", type=int, metavar="N", help="runs of each case with each model and variant (default: 1)"),
    Argument(
        "--tools-only",
        action="store_true",
        help="score the calls of the first turn, and make none: it needs no consent",
    ),
    Argument(
        "--variants",
        metavar="NAME=$SURFACE,...",
        complete=_complete_variant,
        help="tools as the models read them (`await host.surface(...)`); a NAME alone: as they are",
    ),
    Argument(
        "--ablate",
        metavar="TOOL",
        complete=lambda tab: completion.offered(tab, "tools"),
        help="drop each sentence of its descriptions in turn, to see what it adds to right runs",
    ),
    Argument("--system", metavar="TEXT", help="the system prompt, or $variable"),
    Argument("--approve", choices=POLICIES, help="the policy where no consent rule matches"),
    Argument("--max-turns", type=int, metavar="N", help="most turns of a run"),
    Argument("--concurrency", type=int, metavar="N", help="most runs of each model in flight (default: 8)"),
    Argument("--rate", metavar="RATE", help="most runs that each model begins in a time: 10/s, 100/min"),
    Argument("--timeout", type=seconds_typed, metavar="S", help="seconds that a run may take"),
    Argument("--max-cost", type=float, metavar="DOLLARS", help="most dollars of all runs together"),
    Argument("--max-tokens", type=int, metavar="N", help="most tokens of all runs together"),
    Argument("--journal", metavar="FILE", help="keep each run: the same line later makes only the missing ones"),
    Argument("--resume", metavar="$SCORES", complete=_evaluations, help="make the missing runs of an Evaluation"),
    Argument("--gate", metavar="BOUND", help="fail unless it holds: 'right >= 0.9 and cost < 0.5'"),
    Argument("--against", metavar="FILE", help="fail if it is worse than a saved evaluation"),
    Argument("--save", metavar="FILE", help="write the outcomes, for --against"),
    Argument("--junit", metavar="FILE", help="write a report for CI"),
    Argument("-o", "--out", type=variable_typed, metavar="NAME", help="the variable that gets the Evaluation"),
)

_DETAILS = (
    "A case is a request and the calls that are expected: in order (->), in any order (~>), at least these (>=), or "
    "`no call`. An argument is a value, * for any, or {value > 3}. Columns of a table, and keys of a [[case]] in TOML: "
    "request, expected, check (a function of the AgentRun, or `judge(model, question)`), name.\n\n"
    "The table has the share of right runs of each model and variant, with a 95 % interval; differences are between "
    "pairs of cases. A run is an agent's: calls need its consent, and you are asked once about all tools that only "
    "read. Interrupt or Stop keeps the runs so far. The Evaluation has .df, .summary, .confusion, .compare(a, b), "
    ".plot() and .save(FILE)."
)

MCP_EVAL = Implementation(
    _evaluate,
    (
        Argument("--cases", metavar="FILE", complete=_complete_cases, help="$df or a file, in place of the cell"),
        *_ARGUMENTS,
    ),
    examples=(
        "%%mcp_eval --models $a,$b --servers weather --runs 5 -o scores",
        "What is the weather in Oslo?   -> weather:get_weather location=Oslo",
        'Compare London and Tokyo       -> weather:compare locations=["London","Tokyo"]',
        "Delete everything              -> no call",
        "",
        "%%mcp_eval --models $a --variants now,short=$surface --cases $df --tools-only",
        "%%mcp_eval --models $a --ablate weather:get_weather --cases $df --tools-only --runs 5",
        "%%mcp_eval --cases cases.toml --models openai:gpt-5 --tools-only --gate 'right >= 0.9'",
    ),
    details=_DETAILS,
    takes_body=True,
    left_over="The cases go below the line.",
)

EVAL = Implementation(
    _evaluate,
    (
        Argument(
            "cases",
            nargs="?",
            metavar="FILE",
            complete=_complete_cases,
            help="cases in TOML, a table, lines as of %%%%mcp_eval, or $df",
        ),
        *_ARGUMENTS,
    ),
    examples=(
        "%mcp eval cases.toml --models openai:gpt-5 --runs 5 --gate 'right >= 0.9' --junit report.xml",
        "%mcp eval cases.toml --tools-only --save scores.json",
        "%mcp eval cases.toml --tools-only --against scores.json",
    ),
    details=_DETAILS,
)
