"""A tool over a table: what rows may be, what is computed for each, and what comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from mcp.server import MCPServer

from mcp_magic import ArgumentsError, Rule
from mcp_magic.ask.approval import approval_question
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.errors import DeniedError
from mcp_magic.map.pace import read_rate
from mcp_magic.map.rows import col

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from mcp_magic import Host

CITIES = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo"], "n": [1, 2, 3]}, index=["x", "y", "z"])


async def test_columns_are_passed_by_name_and_index_is_kept(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:weather", CITIES)
    assert run.note == "passed by name: city"
    frame = run.df
    assert list(frame.index) == ["x", "y", "z"]
    assert list(frame.columns) == ["city", "n", "weather.city", "degrees", "error", "attempts", "seconds"]
    assert frame["weather.city"].tolist() == ["OSLO", "ROME", "OSLO"]
    assert frame["degrees"].tolist() == [4, 4, 4]
    assert frame["error"].tolist() == [None] * 3


async def test_only_equal_read_only_calls_are_sent_once(host: Host, calls: Counter[str]) -> None:
    await host.map("s:weather", CITIES)
    await host.map("s:add", CITIES, a=1)
    assert calls == {"weather": 2, "add": 3}


async def test_equal_calls_of_a_read_only_tool_fail_once(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:weather", [{"city": "Atlantis"}] * 9)
    assert calls["weather"] == 1
    assert run.stats["failed"] == 9
    assert run.failed["error"].nunique() == 1


async def test_a_column_that_only_later_rows_have_is_passed(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:add", [{"a": 1}, {"a": 2, "b": 5}])
    assert run.df["result"].tolist() == [11, 7]
    run = await host.map("s:add", [{"a": 1}, {"a": 2, "b": 5}], a=col("a"), b=lambda row: row.get("b", 1))
    assert run.df["result"].tolist() == [2, 7]


async def test_rows_with_the_same_problem_are_on_one_line(host: Host, calls: Counter[str]) -> None:
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", [{"a": 1}, *[{"a": "x", "b": None}] * 6, {"b": 2}])
    assert str(raised.value).splitlines() == [
        "7 rows of 8 do not fit s:add; nothing was sent. --skip-invalid leaves them out.",
        "  rows 1, 2, 3, 4 and 2 more: a: expected integer, got 'x'",
        "  row 7: missing: a (integer)",
    ]


@pytest.mark.parametrize("value", [col("n"), lambda row: row.n, lambda row: row["n"]], ids=["col", "attribute", "item"])
async def test_an_argument_is_computed_for_each_row(host: Host, calls: Counter[str], value: Any) -> None:
    run = await host.map("s:add", CITIES, a=value, b=5)
    assert [result.data for result in run.results] == [6, 7, 8]
    assert run.df["result"].tolist() == [6, 7, 8]


async def test_rows_are_lists_generators_and_files(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": 2}]
    files = {name: tmp_path / f"rows.{name}" for name in ("csv", "tsv", "json", "jsonl")}
    files["csv"].write_text("a\n1\n2\n")
    files["tsv"].write_text("a\tc\n1\tx\n2\ty\n")
    files["json"].write_text(json.dumps(rows))
    files["jsonl"].write_text('\ufeff{"a": 1}\n\n{"a": 2}\n')
    for given in (rows, (row for row in rows), *files.values(), str(files["csv"])):
        run = await host.map("s:add", given)
        assert [result.data for result in run.results] == [11, 12], given


async def test_rows_of_polars_and_parquet(host: Host, calls: Counter[str], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, 2]})
    for given in (frame, frame.lazy()):
        assert (await host.map("s:add", given)).df["result"].tolist() == [11, 12]
    pytest.importorskip("pyarrow")
    frame.write_parquet(tmp_path / "rows.parquet")
    assert (await host.map("s:add", tmp_path / "rows.parquet")).df["result"].tolist() == [11, 12]


BAD = {
    "dict": ({"a": [1]}, "a dict has no rows; give pd.DataFrame(columns) or a list of dicts"),
    "number": (3, "int has no rows; give a DataFrame, a list of dicts or a file"),
    "items": ([1, 2], "row 0 is int, not a dict: 1"),
    "ending": ("rows.xyz", "'rows.xyz' has no ending of a table; .csv, .tsv"),
    "missing": ("gone.csv", "gone.csv: No such file or directory"),
    "twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "the table has several columns 'a'; rename them first"),
    "nothing fits": ([{"x": 1}], "no column is named like a parameter. Columns: x; parameters: a, b"),
    "other words": (
        [{"A value": 1, "x": 2}],
        'no column is named like a parameter. Columns: A value, x; parameters: a, b. Write a={row["A value"]}',
    ),
    "some in other words": (
        [{"b": 1, "a_value": 2}],
        "no column is named like a. Columns: b, a_value; parameters: a, b. Write a={row.a_value} b={row.b}",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_table_is_said_before_anything_is_sent(host: Host, calls: Counter[str], name: str) -> None:
    given, text = BAD[name]
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", given)
    assert text in str(raised.value)
    assert not calls


async def test_rows_are_checked_first_and_misfits_can_be_skipped(host: Host, calls: Counter[str]) -> None:
    rows = [{"a": 1}, {"a": "x"}, {"b": 2}]
    with pytest.raises(ArgumentsError) as raised:
        await host.map("s:add", rows, a=lambda row: row.a)
    assert str(raised.value).splitlines() == [
        "2 rows of 3 do not fit s:add; nothing was sent. --skip-invalid leaves them out.",
        "  row 1: a: expected integer, got 'x'",
        "  row 2: row has no a; it has b.",
    ]
    assert not calls
    run = await host.map("s:add", rows, a=lambda row: row.a, skip_invalid=True)
    assert [run.stats[key] for key in ("rows", "done", "invalid")] == [3, 1, 2]
    assert run.failed["state"].tolist() == ["invalid", "invalid"]


async def test_tool_error_belongs_to_its_row_and_can_be_retried(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:weather", [{"city": "Oslo"}, {"city": "Atlantis"}])
    assert [run.stats["done"], run.stats["failed"]] == [1, 1]
    assert "no such city" in run.failed["error"].iloc[0]
    assert run.df["degrees"].isna().tolist() == [False, True]
    before = dict(calls)
    assert await run.retry() is run
    assert calls["weather"] == before["weather"] + 1  # only the failed row
    assert [run.stats["done"], run.stats["failed"]] == [1, 1]


async def test_an_empty_table_and_duplicate_labels_are_no_problem(host: Host, calls: Counter[str]) -> None:
    empty = await host.map("s:add", pd.DataFrame({"a": []}))
    assert len(empty.df) == 0
    assert empty.stats["rows"] == 0
    doubled = await host.map("s:add", pd.DataFrame({"a": [1, 2]}, index=["x", "x"]))
    assert doubled.df.loc["x", "result"].tolist() == [11, 12]


async def test_answer_of_several_rows_expands_only_with_explode(host: Host, calls: Counter[str]) -> None:
    rows = pd.DataFrame({"n": [2, 0, 1]}, index=list("abc"))
    whole = (await host.map("s:days", rows)).df
    assert whole["result"].tolist() == [[{"day": 0}, {"day": 1}], [], [{"day": 0}]]
    each = (await host.map("s:days", rows, explode=True)).df
    assert list(each.index) == ["a", "a", "b", "c"]
    assert each["day"].fillna(-1).tolist() == [0, 1, -1, 0]


async def test_only_the_first_rows_with_a_limit(host: Host, calls: Counter[str]) -> None:
    run = await host.map("s:add", ({"a": n} for n in range(10**9)), limit=5)
    assert run.df["result"].tolist() == [10, 11, 12, 13, 14]


# Consent


async def asked_of(host: Host, answer: Decision, tool: str = "s:add") -> list[Request]:
    requests: list[Request] = []

    async def approver(request: Request) -> Decision:
        requests.append(request)
        return answer

    host.consent.approver = approver
    host.consent.add(Rule("ask", tool))
    return requests


async def test_one_question_is_about_all_calls_and_shows_their_values(host: Host, calls: Counter[str]) -> None:
    requests = await asked_of(host, Decision.approve())
    run = await host.map("s:add", [{"a": n} for n in range(40)], a=col("a"), b=7)
    assert [request.calls for request in requests] == [40]
    assert requests[0].arguments["a"] == [0, 1, 2, 3, 4, "… 35 more values"]
    assert requests[0].arguments["b"] == 7
    assert requests[0].arguments["first calls"][0] == {"a": 0, "b": 7}
    assert run.stats["done"] == 40
    [record] = host.consent.audit.records
    assert record.decision == "approve"
    assert record.arguments["number of calls"] == 40
    assert len(record.arguments["digest of all calls"]) == 16


async def test_batch_approval_cannot_edit_or_allow_for_good(host: Host, calls: Counter[str]) -> None:
    await asked_of(host, Decision.approve({"a": 1, "b": 1}))
    with pytest.raises(DeniedError, match="calls that are made together cannot be edited"):
        await host.map("s:add", [{"a": 1}, {"a": 2}])
    await asked_of(host, Decision.approve(always="tool"))
    await host.map("s:add", [{"a": 1}, {"a": 2}])
    assert [rule.action for rule in host.consent.rules] == ["ask"]


async def test_secret_is_masked_in_batch_question_and_displays(host: Host) -> None:
    server = MCPServer("s")

    @server.tool()
    async def login(user: str, password: str) -> str:
        return user

    await host.connect(server, name="s")
    requests = await asked_of(host, Decision.approve(), "s:login")
    run = await host.map("s:login", [{"user": f"u{n}", "password": f"hunter{n}"} for n in range(9)])
    assert "u1" in str(run.parts()) + str(run.plan().rows)
    assert "hunter" not in str(run.parts()) + str(run.plan().rows)
    assert "hunter" not in json.dumps([requests[0].arguments, host.consent.audit.records[0].arguments])
    question = approval_question(replace(requests[0], asker="agent"))
    assert question.about(question.values).plain.startswith("agent wants to call s:login 9 times")
    [(name, lines)] = question.reveal.cut(question.values) if question.reveal else []
    assert (name, len(lines.splitlines())) == ("the calls", 9)
    assert "hunter" not in f"{question.about(question.values)}{lines}"


async def test_where_the_answer_is_no_nothing_is_called(host: Host, calls: Counter[str]) -> None:
    await asked_of(host, Decision.deny("too many"))
    with pytest.raises(DeniedError, match="too many"):
        await host.map("s:add", [{"a": 1}, {"a": 2}])
    assert not calls


async def test_a_rule_about_arguments_is_asked_of_every_row(host: Host, calls: Counter[str]) -> None:
    host.consent.add(Rule("deny", "s:add", arguments={"a": 2}))
    run = await host.map("s:add", [{"a": 1}, {"a": 2}, {"a": 3}])
    assert calls["add"] == 2
    assert run.failed["state"].tolist() == ["denied"]
    assert "denied by rule" in run.failed["error"].iloc[0]
    denied = [record for record in host.consent.audit.records if record.decision == "deny"]
    assert [record.arguments["a"] for record in denied] == [2]


async def test_rows_that_come_one_by_one_are_asked_about_once(host: Host, calls: Counter[str]) -> None:
    requests = await asked_of(host, Decision.approve())
    await host.map("s:add", ({"a": n} for n in range(9)), a=col("a"))
    assert [request.arguments for request in requests] == [{"a": "{a}"}]
    assert calls["add"] == 9


@pytest.mark.parametrize("text", ["fast", "0/s", "10/day", "-1"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentsError, match="write 10/s, 100/min or 1000/h"):
        read_rate(text)
