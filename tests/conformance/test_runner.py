"""How the runner counts: checks and not scenarios, and what makes a run fail. Without Node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.conformance import client
from tests.conformance.counting import Outcome, judge, read_outcomes, table
from tests.conformance.playing import SCRIPTS
from tests.conformance.run import warm_client
from tests.environments import ROOT


def check(status: str, name: str = "own", **more: str) -> dict[str, str]:
    return {"id": name, "name": name, "description": f"about {name}", "status": status, **more}


def good(scenario: str, **more: Any) -> Outcome:
    return Outcome(scenario, 1, proved=True, finished=True, **more)


def bad(scenario: str) -> Outcome:
    return Outcome(scenario, 3, 1, proved=True, finished=True, complaints=("own: not done",))


def problems(single: list[Outcome], **changes: Any) -> tuple[str, ...]:
    given: dict[str, Any] = {
        "single": {outcome.scenario: outcome for outcome in single},
        "required": {},
        "wanted": {"": [outcome.scenario for outcome in single]},
        "exceptions": {},
        "codes": {},
        "needed": 0,
    }
    return judge(**given | changes).problems


@pytest.mark.parametrize(
    ("checks", "complaint"),
    [
        ([check("SUCCESS"), check("FAILURE", "a", errorMessage="not so")], "a: not so"),
        ([check("SUCCESS"), check("WARNING", "a")], "a: about a"),
        ([check("SKIPPED"), check("INFO")], "no check succeeded"),
        ([check("SUCCESS", "wire-schema-valid")], "no check succeeded"),
        ([], "no check succeeded"),
    ],
    ids=["failure", "warning", "skipped", "wire only", "nothing"],
)
def test_scenario_passes_only_by_its_own_clean_check(checks, complaint):
    outcome = Outcome.of("s", checks, f"hello\n{client.DONE}\n")
    assert not outcome.passed
    assert outcome.complaints == (complaint,)


def test_a_client_that_did_not_finish_has_not_passed():
    outcome = Outcome.of("s", [check("SUCCESS")], "hello\n", "Trace\nConnectError: nobody there\n")
    assert not outcome.passed
    assert outcome.complaints == ("the client did not finish: ConnectError: nobody there",)


def test_suite_reports_are_read_with_scenario_names(tmp_path):
    for name in ("tools_call", "auth/dpop"):
        folder = tmp_path / f"{name}-2026-11-22T06-00-41-536Z"
        folder.mkdir(parents=True)
        checks = [check("SUCCESS"), check("SUCCESS"), check("SKIPPED"), check("INFO")]
        (folder / "checks.json").write_text(json.dumps(checks))
        (folder / "stdout.txt").write_text(client.DONE)
        (folder / "stderr.txt").write_text("")
    outcomes = read_outcomes(tmp_path)
    assert [(o.scenario, o.succeeded, o.skipped, o.passed) for o in outcomes] == [
        ("auth/dpop", 2, 1, True),
        ("tools_call", 2, 1, True),
    ]


def test_a_run_without_failures_has_no_problems():
    verdict = judge({"a": good("a")}, {"r": {"a": good("a"), "x": bad("x")}}, {"": ["a"], "r": ["a"]}, {}, {"r": 0}, 1)
    assert (verdict.passed, verdict.total, verdict.checks, verdict.problems) == (1, 1, (5, 6), ())


def test_a_failure_is_a_problem_unless_it_is_an_exception():
    assert problems([good("a"), bad("b")]) == ("b: own: not done",)
    assert problems([good("a"), bad("b")], exceptions={"b": "cannot be"}) == ()


def test_an_exception_that_passes_is_a_problem():
    assert problems([good("a")], exceptions={"a": "cannot be"}) == (
        "a is an exception, and passes: take it off the list",
    )
    assert problems([good("a")], exceptions={"b": "cannot be"}) == ("b is an exception, and no scenario",)


def test_too_few_scenarios_are_a_problem_despite_exceptions():
    found = problems([good("a"), bad("b")], exceptions={"b": "cannot be"}, needed=2)
    assert found == ("1 scenarios passed, 2 have to",)


def test_required_scenarios_must_run_and_have_no_exceptions():
    found = problems(
        [good("a"), bad("b")],
        required={"2026-07-28": {"b": bad("b")}},
        wanted={"": ["a", "b"], "2026-07-28": ["a", "b"]},
        exceptions={"b": "cannot be"},
        codes={"2026-07-28": 1},
    )
    assert found == (
        "the suite ended with code 1 for 2026-07-28",
        "a at 2026-07-28 was not run",
        "b at 2026-07-28: own: not done",
    )


def test_the_suites_own_verdict_on_a_scenario_counts():
    assert problems([good("a", code=1)]) == ("a: the suite says that it failed",)


def test_the_table_marks_what_failed_and_what_is_an_exception():
    lines = table([good("a"), bad("b"), bad("c")], {"c": "cannot be"}).splitlines()
    assert [line.split()[-1] for line in lines] == ["skipped", "ok", "FAILED", "exception"]


def test_an_unknown_scenario_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("MCP_CONFORMANCE_SCENARIO", "new-in-the-next-version")
    assert client.main("http://127.0.0.1:1/mcp") == 2
    assert "no script for new-in-the-next-version" in capsys.readouterr().err


async def test_warm_client_runs_scenarios_and_returns_code_and_output(tmp_path):
    assert "initialize" in SCRIPTS
    async with warm_client(tmp_path) as command:
        done = [
            subprocess.run(
                [*command.split(), "http://127.0.0.1:9/mcp"],
                cwd=ROOT,
                env={**os.environ, "MCP_CONFORMANCE_SCENARIO": scenario},
                capture_output=True,
                text=True,
                timeout=60,
            )
            for scenario in ("initialize", "none of them")
        ]
        waiting = subprocess.Popen([*command.split(), "x"], env={**os.environ, "MCP_CONFORMANCE_SCENARIO": "x"})
        waiting.send_signal(signal.SIGKILL)  # as the suite does with one that takes too long
        waiting.wait()
    assert [(each.returncode, each.stdout) for each in done] == [(1, ""), (2, "")]
    assert "nothing listens at http://127.0.0.1:9/mcp" in done[0].stderr
    assert sys.executable in command
