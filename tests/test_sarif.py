"""SARIF: valid by the published schema, with rules, places and fingerprints, and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from mcp_magic.doctor.report import RULES
from mcp_magic.errors import ConfigError
from mcp_magic.sarif import MAX_RESULTS, Result, sarif_log, write_sarif

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = Draft4Validator(SCHEMA)
RESULTS = [
    Result("names-alike", "warning", "a name", "calc", "tool send_emai1"),
    Result(
        "other-server", "error", "an order at https://me:pw@a.example/?token=sesame", "calc", "tool add, argument a"
    ),
    Result("toxic-flow", "note", "a flow", "", "all servers", "conf/mcp magic.toml"),
]


def only_run(results: list[Result]) -> dict[str, Any]:
    log = sarif_log(results, RULES)
    VALIDATOR.validate(log)
    [run] = log["runs"]
    return dict(run)


def test_results_have_rules_places_and_levels():
    run = only_run(RESULTS)
    driver = run["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == ["names-alike", "other-server", "toxic-flow"]
    assert driver["rules"][0]["help"]["text"].startswith("Names of tools and servers do not look alike")
    assert [rule["defaultConfiguration"]["level"] for rule in driver["rules"]] == ["warning", "error", "note"]
    worst, alike, flow = run["results"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    [location] = alike["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "mcp/calc/tool/send_emai1"
    assert location["logicalLocations"] == [
        {"name": "tool send_emai1", "fullyQualifiedName": "mcp://calc/tool/send_emai1"},
    ]
    assert worst["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "mcp/calc/tool/add"
    assert flow["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "conf/mcp%20magic.toml"
    assert worst["message"]["text"] == "an order at https://***@a.example/?token=***"


def test_fingerprints_stay_when_only_numbers_change():
    def fingerprint(text: str, place: str = "step ping") -> Any:
        return only_run([Result("doctor/ping", "error", text, "calc", place)])["results"][0]["partialFingerprints"]

    assert fingerprint("no answer in 3 s") == fingerprint("no answer in 12 s")
    assert fingerprint("no answer") != fingerprint("an answer")
    assert fingerprint("no answer") != fingerprint("no answer", "step call")


@given(
    st.lists(st.builds(Result, *[st.text(max_size=20)] * 1, st.sampled_from(["error", "note"]), st.text(), st.text()))
)
def test_any_text_gives_a_valid_log(results):
    only_run(results)


def test_halves_of_surrogate_pairs_get_into_no_uri():
    [result] = only_run([Result("x", "note", "y", "a\ud800", "tool \ud800", "f\udcff.toml")])["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "f%3F.toml"


def test_a_log_is_bounded():
    log = sarif_log([Result("x", "note", "y" * 10_000, "s", str(number)) for number in range(MAX_RESULTS + 1)], {})
    assert len(log["runs"][0]["results"]) == MAX_RESULTS
    assert len(log["runs"][0]["results"][0]["message"]["text"]) < 10_000


def test_a_file_is_written_or_the_error_says_why_not(tmp_path):
    write_sarif(tmp_path / "a.sarif", RESULTS, RULES)
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    with pytest.raises(ConfigError, match="cannot be written: "):
        write_sarif(tmp_path / "missing" / "a.sarif", RESULTS, RULES)
