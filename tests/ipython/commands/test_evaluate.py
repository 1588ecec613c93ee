"""`%%mcp_eval` and `%mcp eval` as lines: cases, models, options, errors, resuming, gates, files, Tab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter

from mcp_magic import ArgumentsError, CommandError, ConfigError, ModelError, host
from mcp_magic.evaluation.evaluation import Evaluation
from mcp_magic.ipython.commands import EVALUATION
from mcp_magic.ipython.extension import completer
from mcp_magic.results.results import CheckFailedError
from tests.support.evaluated import answering
from tests.support.magic import Magic

if TYPE_CHECKING:
    from collections.abc import Callable

CELL = """\
# sums
Add 1 and 2       -> math:add a=1 b=2
Add {n} to it     -> add a=* b={value < n}

Delete everything -> no call
"""


def adder(messages: Any) -> Any:
    request = [message for message in messages if message.type == "human"][-1].text
    if messages[-1].type == "tool" or "Add" not in request:
        return "done"
    return [("math:add", {"a": 1, "b": 2})]


class Evaluating(Magic):
    """A shell with the magics, and a model in the variable `m`."""

    async def evaluate(self, line: str, cell: str | None = CELL, **names: Any) -> Any:
        self.model = answering(names.pop("turn", adder))
        return await self.settings.run(EVALUATION, line, cell, {"m": self.model, "n": 3, **names})

    async def wrong(self, kind: type[Exception], line: str, cell: str | None = CELL, **names: Any) -> str:
        with pytest.raises(kind) as caught:
            await self.evaluate(line, cell, **names)
        assert kind is CheckFailedError or self.model.seen == []
        return str(caught.value)


@pytest.fixture
def magic(magic, shell):
    return Evaluating(shell, magic.folder)


async def test_cell_is_evaluated_with_each_model(magic, shell):
    host.consent.policy = "auto"
    scores = await magic.evaluate("--models $m,$other --servers math --runs 2 -o scores", other=answering(adder))
    assert isinstance(scores, Evaluation)
    assert shell.user_ns["scores"] is scores
    assert scores.summary["model"].tolist() == ["m", "other"]
    assert (len(scores), scores.df["right"].all()) == (12, True)
    assert [case.place for case in scores.cases] == ["line 3", "line 4", "line 6"]
    assert scores.df["called"].tolist()[0] == "math:add(a=1, b=2)"


async def test_variants_are_named_on_the_line(magic):
    surface = await host.surface("math")
    scores = await magic.evaluate("--models $m --tools-only --variants now,short=$surface", surface=surface)
    assert scores.summary["variant"].tolist() == ["now", "short"]
    assert "m short against m now: +0 points" in str(scores)


async def test_model_is_that_of_the_setting_if_none_is_named(magic):
    magic.settings.model = "offline"
    scores = await magic.evaluate("--tools-only")
    assert scores.summary["model"].tolist() == ["offline"]


async def test_cases_are_a_table_or_a_file(magic):
    table = pd.DataFrame({"request": ["Add 1 and 2", "Hello"], "expected": ["math:add a=1 b=2", "no call"]})
    scores = await magic.evaluate("--models $m --tools-only --cases $table", None, table=table)
    assert scores.df["right"].tolist() == [True, True]
    (magic.folder / "cases.toml").write_text('[[case]]\nrequest = "Add 1 and 2"\nexpected = "math:add a=1 b=2"\n')
    table.to_csv(magic.folder / "cases.csv", index=False)
    table.to_csv(magic.folder / "cases.tsv", index=False, sep="\t")
    (magic.folder / "cases.txt").write_text("Add 1 and 2 -> math:add a=1 b=2\n")
    for name, count in (("cases.toml", 1), ("cases.csv", 2), ("cases.tsv", 2), ("cases.txt", 1)):
        scores = await magic(f"eval {name} --models $m --tools-only", m=answering(adder))
        assert (len(scores), scores.df["right"].all()) == (count, True)


@pytest.mark.parametrize(
    ("kind", "line", "cell", "says"),
    [
        (CommandError, "--models $m", None, "%%mcp_eval: the cases are missing; write below the line: What is the"),
        (CommandError, "--models $m --cases c.toml", CELL, "%%mcp_eval: the cases are in the cell and in --cases"),
        (CommandError, "--models m", CELL, "%%mcp_eval: there is no model 'm'. Did you mean the variable: --models $m"),
        (CommandError, "--models ,", CELL, "%%mcp_eval: --models names no model"),
        (
            CommandError,
            "--models $m,$n,$m",
            CELL,
            "%%mcp_eval: --models names 'm' twice; --runs 2 makes each run twice",
        ),
        (ArgumentsError, "--models $m --runs 0", CELL, "runs=0: expected a whole number, at least 1"),
        (ArgumentsError, "--models $m --max-cost 0", CELL, "max_cost=0.0: a number above 0 is expected"),
        (CommandError, "--models $m --max-turns 0", CELL, "%%mcp_eval: --max-turns 0: at least 1."),
        (
            CommandError,
            "--models $m -o 1x",
            CELL,
            "%%mcp_eval: argument -o/--out: expected a variable's name, got '1x'",
        ),
        (
            CommandError,
            "--models $m -o class",
            CELL,
            "%%mcp_eval: argument -o/--out: expected a variable's name, got 'class'",
        ),
        (CommandError, "Add 1 and 2", CELL, "%%mcp_eval: unrecognized arguments: Add 1 and 2. The cases go below the"),
        (CommandError, "--models $m --variants a=b", CELL, "%%mcp_eval: cannot read 'a=b'; write --variants now=$cur"),
        (CommandError, "--models $m --variants a,a", CELL, "%%mcp_eval: --variants names 'a' twice"),
        (ArgumentsError, "--models $m --variants a=$n", CELL, ""),
        (ConfigError, "--models $m", "Add 1 and 2 math:add", "line 2: no arrow; write Add 1 and 2 math:add -> server:"),
        (ConfigError, "--models $m", "x -> no call\n\nAdd -> math:sum a=1", "line 4: there is no tool 'math:sum'."),
        (ConfigError, "--models $m", "Add -> math:add c=1", "line 2: math:add: unknown argument 'c'."),
        (ArgumentsError, "--models $m --gate right=1", CELL, "cannot read the gate 'right=1'"),
        (ConfigError, "--models $m --against none.json", CELL, ""),
        (ArgumentsError, "--models $m --rate often", CELL, "'often' is not a rate; write 10/s, 100/min or 1000/h"),
        (ModelError, "--models $n", CELL, "int is not a chat model."),
        (ArgumentsError, "--resume $n", None, "--resume takes an Evaluation, for example --resume $scores, not int"),
        (CommandError, "--resume $n", CELL, "%%mcp_eval: --resume goes on with the evaluation as it is: leave out the"),
        (
            CommandError,
            "--resume $n --tools-only --servers math --journal j --runs 2",
            None,
            "%%mcp_eval: --resume goes on with the evaluation as it is: leave out --servers, --tools-only, ",
        ),
    ],
)
async def test_wrong_line_says_what_is_valid_and_runs_nothing(magic, kind, line, cell, says):
    assert (await magic.wrong(kind, line, cell)).startswith(says)


async def test_evaluation_goes_on_with_more_runs(magic):
    scores = await magic.evaluate("--models $m --tools-only")
    assert scores.name() == "_"
    again = await magic.evaluate("--resume $scores --runs 3", None, scores=scores)
    assert again is scores
    assert (len(scores), scores.name()) == (9, "scores")


async def test_ablation_of_a_tool_is_an_option(magic, shell):
    line = "--models $m --tools-only --ablate math:add -o worth"
    worth = await magic.evaluate(line)
    assert shell.user_ns["worth"] is worth
    assert worth.target == "math:add"
    again = await magic.evaluate("--resume $worth --runs 2", None, worth=worth)
    assert again is worth
    assert set(worth.df["runs"]) == {2}
    error = await magic.wrong(CommandError, f"{line} --gate 'right >= 0.9' --save s.json")
    assert error.startswith("%%mcp_eval: --ablate does not go with --gate, --save: its variants are made of the")


async def test_broken_gate_fails_the_cell_and_keeps_the_scores(magic, shell):
    line = "--models $m --tools-only -o scores --save s.json --junit report.xml"
    await magic.evaluate(f"{line} --gate 'right >= 0.9'")
    error = await magic.wrong(CheckFailedError, f"{line} --gate 'right >= 0.9'", turn=lambda messages: "done")
    assert error.splitlines()[0] == "the evaluation fails: m: right is 33% [6%, 79%], not >= 0.9"
    assert isinstance(shell.user_ns["scores"], Evaluation)
    assert 'failures="3"' in (magic.folder / "report.xml").read_text()


async def test_gate_on_opinions_alone_is_refused_before_a_run(magic):
    (magic.folder / "cases.toml").write_text("[[case]]\nrequest = 'Hi'\ncheck = \"judge('offline', 'Is it kind?')\"\n")
    line = "--models $m --tools-only --cases cases.toml"
    for gate in ("--gate 'right >= 0.9'", "--against s.json"):
        await magic.evaluate("--models $m --tools-only --save s.json")
        error = await magic.wrong(ArgumentsError, f"{line} {gate}", None)
        assert "would rest on nothing but opinions of models" in error


async def test_cell_fails_if_it_is_worse_than_before(magic):
    cell = "".join(f"Add {number} -> math:add a=1 b=2\n" for number in range(8))
    await magic.evaluate("--models $m --tools-only --save s.json", cell)
    await magic.evaluate("--models $m --tools-only --against s.json", cell)
    line = "--models $m --tools-only --against s.json"
    error = await magic.wrong(CheckFailedError, line, cell, turn=lambda messages: "done")
    assert error.startswith("the evaluation fails: m: -100 points")


async def test_journal_is_below_the_folder_of_the_line(magic):
    line = "--models $m --tools-only --journal runs.sqlite"
    await magic.evaluate(line)
    scores = await magic.evaluate(line)
    assert (len(scores), magic.model.seen) == (3, [])


@pytest.fixture
def tab(magic, shell, monkeypatch) -> Callable[..., list[str]]:
    monkeypatch.setattr(shell.Completer, "use_jedi", False)  # it is slow, and what it offers is not looked at
    monkeypatch.setattr(shell.Completer, "custom_matchers", [completer(shell, magic.settings)])

    def complete(text: str, **names: Any) -> list[str]:
        shell.user_ns.update(names)
        with provisionalcompleter():
            return [item.text for item in shell.Completer.completions(text, len(text)) if item.type == "mcp"]

    return complete


async def test_tab_offers_models_servers_tables_and_evaluations(tab, magic):
    (magic.folder / "cases.toml").write_text("")
    table = pd.DataFrame({"request": []})
    assert tab("%%mcp_eval --models ", a=answering(adder)) == ["offline", "$a"]
    assert tab("%%mcp_eval --models $a,off") == ["$a,offline"]
    assert tab("%%mcp_eval --servers m") == ["math"]
    assert tab("%%mcp_eval --cases ", df=table, other=pd.DataFrame({"x": []})) == ["$df", "cases.toml"]
    assert tab("%mcp eval c") == ["cases.toml"]
    assert "--tools-only" in tab("%%mcp_eval --t")
    assert tab("%mcp help mcp_e") == ["mcp_eval"]
