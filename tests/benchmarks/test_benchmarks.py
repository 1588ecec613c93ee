"""How the benchmarks measure, and a limit that no busy machine moves; `make bench QUICK=1` runs them all."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from benchmarks.__main__ import main, table
from benchmarks.timing import COLLECT_EVERY, Pairs, Result, async_pairs, at_most, compared, not_measured, pairs
from tests.environments import ROOT

SLOW = Result("call, stdio", 3.0, 1.0, 3.0, "at most 1.10", "ms", False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """What a subject prints and what it writes in quick mode."""
    report = tmp_path_factory.mktemp("display") / "report.json"
    command = [sys.executable, "-W", "error", "-m", "benchmarks", "display", "--quick", "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(report.read_text())["results"]


def test_a_subject_measures_and_reports(quick):
    printed, results = quick

    assert results
    for result in results:
        assert result["name"] in printed
        assert result["theirs"] is None or (result["ours"] > 0 and result["theirs"] > 0)
        assert (result["met"] is None) == (result["goal"] == "")


def test_output_on_page_stays_below_its_limit(quick):
    sent = [result for result in quick[1] if result["goal"] and result["unit"] == "kB"]

    assert len(sent) == 6
    assert [result["name"] for result in sent if not result["met"]] == []


def test_the_sides_of_a_pair_take_turns_in_going_first():
    order = []

    taken = pairs(lambda: order.append("ours"), lambda: order.append("theirs"), 4, warm_up=0)

    assert order == ["ours", "theirs", "theirs", "ours"] * 2
    assert len(taken.ours) == len(taken.theirs) == 4


async def test_warm_up_runs_after_collections_uncounted():
    calls = {"ours": 0, "theirs": 0}
    left = []

    async def call(side):
        calls[side] += 1

    def settle():
        left.append(calls["ours"])

    count = COLLECT_EVERY + 5
    taken = await async_pairs(lambda: call("ours"), lambda: call("theirs"), count, warm_up=7, settle=settle)

    assert left == [7, 7 + COLLECT_EVERY + 7]
    assert calls == {"ours": count + 14, "theirs": count + 14}
    assert len(taken.ours) == len(taken.theirs) == count


def test_garbage_collector_rests_while_clock_runs():
    states = []

    pairs(lambda: states.append(gc.isenabled()), lambda: states.append(gc.isenabled()), 2)

    assert states == [False] * 6
    assert gc.isenabled()


def test_a_goal_that_is_missed_is_said_and_fails_a_strict_run(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.calls.run", lambda *, quick: [SLOW])

    assert main(["calls"]) == 0
    assert main(["calls", "--strict"]) == 1
    assert "NOT MET" in capsys.readouterr().out


def test_what_cannot_be_measured_is_said_and_fails_a_strict_run(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.calls.run", lambda *, quick: [not_measured("click", "no browser")])

    assert main(["calls"]) == 0
    assert main(["calls", "--strict"]) == 1
    printed = capsys.readouterr().out
    assert "not measured: no browser" in printed
    assert "0 of 0 goals met, 1 not measured" in printed


def test_an_error_leaves_what_was_measured_before(monkeypatch, capsys, tmp_path):
    def fails(*, quick):
        raise RuntimeError("no kernel")

    monkeypatch.setattr("benchmarks.calls.run", lambda *, quick: [SLOW])
    monkeypatch.setattr("benchmarks.cells.run", fails)

    with pytest.raises(RuntimeError, match="no kernel"):
        main(["calls", "cells", "--json", str(tmp_path / "report.json")])
    assert SLOW.name in capsys.readouterr().out
    assert len(json.loads((tmp_path / "report.json").read_text())["results"]) == 1


def test_a_ratio_is_the_median_of_the_ratios_of_pairs():
    drifting = Pairs(ours=[1.1, 2.2, 4.4, 9.0], theirs=[1.0, 2.0, 4.0, 1.0])

    assert compared("x", drifting, goal=1.2).ratio == pytest.approx(1.1)
    assert compared("x", drifting, goal=1.2).met
    assert not compared("x", drifting, goal=1.05).met


def test_a_goal_may_be_a_limit():
    assert at_most("x", 200, 200, "kB").met
    assert not at_most("x", 201, 200, "kB").met


def test_a_result_without_comparison_leaves_columns_empty():
    assert table([at_most("x", 201, 200, "kB")]).splitlines()[1] == (
        "x        201 kB                    at most 200 kB  NOT MET"
    )
