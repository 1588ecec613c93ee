"""The value of an evaluation: its tables, comparisons and plot."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage

from mcp_magic.agent.run import AgentRun
from mcp_magic.errors import ArgumentsError, ModelError
from mcp_magic.evaluation.matching import PARTS
from mcp_magic.evaluation.run import Trial, total_cost
from mcp_magic.evaluation.statistics import share_of
from tests.support.evaluated import CASES, answering

COLUMNS = ["case", "model", "variant", "number", *PARTS, "calls", "turns", "tokens_in", "tokens_out", "cost", "seconds"]


async def test_frame_has_a_row_for_each_run(evaluation):
    df = evaluation.df
    assert df.columns.tolist() == [*COLUMNS, "error", "why", "called", "checked_by", "opinion", "run"]
    assert len(df) == 4 * 2 * 2
    assert df["case"].unique().tolist() == [case.text for case in evaluation.cases]
    assert [df[name].dtype for name in ("right", "calls", "cost")] == ["bool", "int64", "float64"]
    apple = df[~df["right"]].iloc[0]
    assert apple[["model", "number", "right_tool", "right_arguments", "called"]].tolist() == [
        "bad",
        1,
        True,
        False,
        "shop:price(item=pear)",
    ]
    assert apple["why"] == "shop:price: item is 'pear', expected 'apple'"
    assert all(isinstance(run, AgentRun) for run in df["run"])
    assert repr(apple["run"]).startswith("<AgentRun And an apple? #1: 1 call,")


async def test_runs_without_an_outcome_are_missing_values(host):
    evaluation = await host.evaluate(CASES, answering(lambda messages: ModelError("down")), runs=5, concurrency=1)
    df = evaluation.df
    assert df["right"].isna().all()
    assert df["error"].tolist() == ["down"] * 3
    row = evaluation.summary.iloc[0]
    assert (row["runs"], row["failed"], row["right"] != row["right"]) == (0, 3, True)


async def test_summary_has_shares_with_their_intervals(evaluation):
    summary = evaluation.summary.set_index("model")
    assert summary["right"].tolist() == [1.0, 0.75]
    bad = share_of([[1, 1], [0, 0], [1, 1], [1, 1]])
    assert summary.loc["bad", ["low", "high"]].tolist() == [bad.low, bad.high]
    assert summary["right_tool"].tolist() == [1.0, 1.0]
    assert summary["right_arguments"].tolist() == [1.0, pytest.approx(2 / 3)]
    assert summary[["cases", "runs", "failed", "tokens"]].to_numpy().tolist() == [[4, 8, 0, 880]] * 2


def priced(cost: float | None) -> Trial:
    return Trial(0, 0, 1, turns=1, cost=cost)


@pytest.mark.parametrize(
    ("costs", "total"), [([0.5, 0.25], 0.75), ([0.0, 0.0], 0.0), ([0.5, None], None), ([None], None), ([], None)]
)
def test_total_cost_is_known_where_each_price_is(costs, total):
    never_begun = Trial(0, 0, 2, error="down")
    assert total_cost([*map(priced, costs), never_begun]) == total


async def test_unknown_prices_make_a_cost_the_least_one(host, monkeypatch):
    prices = iter([0.5, None, 0.25, 0.25])
    monkeypatch.setattr("mcp_magic.evaluation.run.cost_of", lambda messages, model: next(prices))
    evaluation = await host.evaluate(CASES, answering(), tools_only=True)
    assert ", at least $1" in repr(evaluation)
    assert evaluation.summary["cost"].isna().all()


async def test_confusion_counts_expected_and_called_tools(host):
    def turn(messages):
        call = {"name": "shop__buy", "args": {"item": "pear"}, "id": "1"}
        return AIMessage("", tool_calls=[call])

    evaluation = await host.evaluate(CASES, answering(turn), tools_only=True)
    counts = evaluation.confusion
    assert counts.index.tolist() == ["shop:buy", "shop:price", "no call"]
    assert counts["shop:buy"].tolist() == [1, 2, 1]


async def test_comparison_is_paired_by_case(evaluation):
    difference = evaluation.compare("good", "bad")
    assert (difference.difference, difference.cases) == (-0.25, 4)
    assert "-25 points" in str(difference)
    assert evaluation.compare("good", "bad", "right_tool").difference == 0
    with pytest.raises(ArgumentsError, match="'goof' is neither a model nor a variant"):
        evaluation.compare("goof", "bad")
    with pytest.raises(ArgumentsError, match="'wrong' is not scored"):
        evaluation.compare("good", "bad", "wrong")


async def test_plot_has_a_point_with_an_interval_for_each_model(evaluation):
    figure = evaluation.plot()
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bad", "good"]
    assert len(axes.containers) == 2


async def test_models_of_the_same_name_get_numbers(host):
    evaluation = await host.evaluate(CASES, [answering(), answering()], tools_only=True)
    assert evaluation.summary["model"].nunique() == 2
