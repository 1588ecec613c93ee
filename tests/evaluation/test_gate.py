"""What lets an evaluation fail: bounds of its figures, what is worse than before; and reports for CI."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest

from mcp_magic.errors import ArgumentsError, ConfigError, ModelError
from mcp_magic.evaluation import gate
from mcp_magic.junit import junit_xml
from mcp_magic.results.results import CheckFailedError
from tests.support.evaluated import CASES, answering, shopper, wrong_about_apples

MANY = "".join(f"What costs apple {number}? -> shop:price item=apple\n" for number in range(12))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("right", "cannot read the gate 'right'; write 'right >= 0.9 and cost < 0.5'"),
        ("right = 0.9", "cannot read the gate 'right = 0.9'"),
        ("rigth > 0.9", "the gate names 'rigth'. Did you mean 'right'?"),
        ("", "cannot read the gate ''"),
        ("__import__('os') > 1", "cannot read the gate"),
        ("right >= 90", "nothing meets the gate 'right >= 90': right is a share from 0 to 1; write right >= 0.9"),
        ("low > 100%", "nothing meets the gate 'low > 1': low is a share from 0 to 1"),
    ],
    ids=["alone", "equals", "misspelt", "empty", "code", "percent", "above all"],
)
def test_gate_that_cannot_be_read_says_what_is_valid(text, says):
    with pytest.raises(ArgumentsError) as caught:
        gate.read_gate(text)
    assert str(caught.value).startswith(says)


async def test_broken_bound_names_the_model_the_interval_and_cases(host):
    models = {"good": answering(), "bad": answering(wrong_about_apples)}
    evaluation = await host.evaluate(CASES, models, tools_only=True)
    gate.check(evaluation, gate.read_gate("right >= 75%, failed <= 0 and tokens < 1000"))
    with pytest.raises(CheckFailedError) as caught:
        gate.check(evaluation, gate.read_gate("right >= 0.9 and right_tool >= 1"))
    assert str(caught.value).splitlines() == [
        "the evaluation fails: bad: right is 75% [30%, 95%], not >= 0.9",
        "  wrong: And an apple? (1 of 2 wrong with bad): shop:price: item is 'pear', expected 'apple'",
    ]
    assert caught.value.result is evaluation
    with pytest.raises(CheckFailedError, match="good: cost is not known"):
        gate.check(evaluation, gate.read_gate("cost < 1"))


async def test_runs_without_an_outcome_pass_no_gate(host):
    left = [ModelError("down")]
    model = answering(lambda messages: left.pop() if left else shopper(messages))
    evaluation = await host.evaluate(CASES, model, tools_only=True, concurrency=1)
    with pytest.raises(CheckFailedError, match="scripted: 1 run without an outcome, so right"):
        gate.check(evaluation, gate.read_gate("right >= 0.1"))


async def test_runs_that_were_not_begun_pass_no_gate(host, tmp_path):
    file = tmp_path / "scores.json"
    (await host.evaluate(CASES, answering(), tools_only=True)).save(file)
    evaluation = await host.evaluate(CASES, answering(), tools_only=True, max_tokens=250, concurrency=1)
    assert len(evaluation) == 2
    with pytest.raises(CheckFailedError, match="scripted: 2 runs without an outcome, so right"):
        gate.check(evaluation, gate.read_gate("right >= 0.1"))
    [problem] = gate.falls(evaluation, gate.read_saved(file), "scores.json")
    assert problem == "scripted: 2 runs without an outcome, which cannot be compared with scores.json"


async def test_worse_evaluation_is_a_failure_that_names_the_cases(host, tmp_path):
    file = tmp_path / "scores.json"
    (await host.evaluate(MANY, answering(), tools_only=True)).save(file)
    same = await host.evaluate(MANY, answering(), tools_only=True)
    assert gate.falls(same, gate.read_saved(file), "scores.json") == []
    worse = await host.evaluate(MANY, {"other": answering(wrong_about_apples)}, tools_only=True)
    [problem] = gate.falls(worse, gate.read_saved(file), "scores.json")
    assert problem.startswith("other: -100 points [")
    assert ": worse than in scores.json: 'What costs apple 0?', " in problem
    assert problem.endswith("and 7 more")
    with pytest.raises(CheckFailedError):
        gate.check(worse, problems=[problem])


async def test_difference_that_may_be_chance_is_no_failure(host, tmp_path):
    file = tmp_path / "scores.json"
    (await host.evaluate(CASES, answering(), tools_only=True)).save(file)
    worse = await host.evaluate(CASES, answering(wrong_about_apples), tools_only=True)
    assert gate.falls(worse, gate.read_saved(file), "scores.json") == []


async def test_saved_evaluation_of_other_cases_cannot_be_compared(host, tmp_path):
    file = tmp_path / "scores.json"
    (await host.evaluate(MANY, answering(), tools_only=True)).save(file)
    evaluation = await host.evaluate(CASES, answering(), tools_only=True)
    with pytest.raises(ArgumentsError, match="has no case of these models and variants"):
        gate.falls(evaluation, gate.read_saved(file), "scores.json")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"evaluation": []},
        {"evaluation": [{"model": "m"}]},
        {"evaluation": [{"model": "m", "variant": "", "outcomes": {"a": "11"}}]},
        {"evaluation": [{"model": "m", "variant": "", "outcomes": {"a": [math.nan]}}]},
        {"evaluation": [{"model": "m", "variant": "", "outcomes": {"a": [2]}}]},
        {"evaluation": 3},
    ],
    ids=["list", "empty", "no outcomes", "texts", "no number", "above 1", "number"],
)
def test_file_of_something_else_is_an_error(tmp_path, content):
    file = tmp_path / "scores.json"
    file.write_text(json.dumps({"mcp_magic": 1, **content} if content else content))
    with pytest.raises(ConfigError, match="is no saved evaluation"):
        gate.read_saved(file)


async def test_file_of_another_version_is_not_compared(evaluation, tmp_path):
    file = tmp_path / "scores.json"
    evaluation.save(file)
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"mcp_magic": 99}))
    with pytest.raises(ConfigError, match="is of version 99, and this one reads 1; update mcp-magic"):
        gate.read_saved(file)
    del content["mcp_magic"]
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="is no saved evaluation"):
        gate.read_saved(file)


async def test_report_has_a_suite_for_each_model(host):
    models = {"good": answering(), "bad": answering(wrong_about_apples)}
    evaluation = await host.evaluate(CASES, models, runs=2, tools_only=True)
    root = ElementTree.fromstring(
        junit_xml(gate.suites(evaluation, gate.read_gate("right >= 0.9, right <= 1, right_tool < 0.5")))
    )
    assert [suite.get("name") for suite in root] == ["evaluation good", "evaluation bad"]
    assert [suite.get("failures") for suite in root] == ["1", "3"]
    failures = {case.get("name"): case[0].get("message") for case in root[1] if len(case)}
    assert failures == {
        "And an apple?": "0 of 2 runs right: shop:price: item is 'pear', expected 'apple'",
        "gate right >= 0.9": "right is 75% [30%, 95%], not >= 0.9",
        "gate right_tool < 0.5": "right_tool is 100%, not < 0.5",
    }
