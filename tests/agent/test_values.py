"""Values of the notebook that an agent may read, and passes on by reference: no row goes through the model."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import Field

from mcp_magic import ArgumentsError, Decision, Rule, build_graph
from mcp_magic.agent.program import Programs
from mcp_magic.agent.scripted import ScriptedModel
from tests.support.agents import THREAD, Agent, add_server, answers, ask, asked, bound, coder, play

ROWS = 10_000
LAST = f"row-{ROWS - 1}"


@pytest.fixture
def df():
    return pd.DataFrame({"id": range(ROWS), "name": [f"row-{number}" for number in range(ROWS)]})


@pytest.fixture
async def table(host):
    """A server that takes tables; what it got."""
    got: list[Any] = []

    def put(rows: list[dict[str, Any]], note: str = "") -> str:
        """Store rows."""
        got.append(rows)
        return f"{len(rows)} rows"

    def total(numbers: list[float]) -> float:
        """Add up."""
        got.append(numbers)
        return sum(numbers)

    await add_server(host, "table", put, total)
    return got


PUT = [("table:put", {"rows": {"$value": "df"}})]


async def test_a_table_goes_to_a_tool_without_the_model(host, table, df):
    requests = ask(host)
    played = await play(host, PUT, "done", values={"df": df})
    assert played.answers == [("success", "10000 rows")]
    assert table[0][-1] == {"id": ROWS - 1, "name": LAST}
    [request] = requests
    assert [(note.path, note.name, note.shape) for note in request.values] == [
        (("rows",), "df", "10,000 rows x 2 columns (id, name)")
    ]
    assert LAST not in str(played.messages)
    assert host.consent.audit.records[-1].arguments["rows"]["$value"] == "df"
    system = played.model.seen[0].messages[0].text
    assert "df: DataFrame, 10,000 rows x 2 columns" in system
    assert '{"$value": NAME}' in system


async def test_the_model_is_told_where_references_may_stand(host, table, df):
    with_values = await play(host, "done", values={"df": df})
    without = await play(host, "done")
    names = ["list_values", "describe_value", "read_value"]
    assert [name in bound(with_values.model)[0] for name in names] == [True] * 3
    assert [name in bound(without.model)[0] for name in names] == [False] * 3
    assert "$value" in str(with_values.model.seen[0].tools)
    assert "$value" not in str(without.model.seen[0].tools)


async def test_reading_is_not_asked_about_and_only_of_named_values(host, df):
    requests = ask(host)
    calls = [
        ("list_values", {}),
        ("describe_value", {"name": "df"}),
        ("read_value", {"name": "df", "rows": "2:4", "columns": ["name"]}),
        ("read_value", {"name": "dff"}),
    ]
    played = await play(host, calls, "done", values={"df": df})
    texts = [text for _, text in played.answers]
    assert texts[0].startswith("df: DataFrame, 10,000 rows x 2 columns")
    assert "row-0" in texts[1]
    assert texts[2] == "[rows 2 to 3 of 10,000]\nname\nrow-2\nrow-3"
    assert played.answers[3] == ("error", "the person has named no value 'dff'. Did you mean 'df'? Named: df")
    assert requests == []


async def test_a_part_of_a_value_can_be_passed_on(host, table, df):
    ask(host)
    part = {"$value": "df", "columns": ["id"], "rows": [0, 4]}
    played = await play(host, [("table:total", {"numbers": part})], "done", values={"df": df})
    assert played.answers == [("success", "6.0")]
    assert table == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"rows": {"$value": "secret"}}, "rows: the person has named no value 'secret'. Named: df"),
        ({"rows": {"$value": "df", "columns": ["nme"]}}, "no column 'nme'. Did you mean 'name'?"),
        ({"rows": [], "note": {"$value": "df"}}, "note: expected string"),
    ],
)
async def test_what_does_not_fit_is_not_asked_about(host, table, df, arguments, problem):
    requests = ask(host)
    played = await play(host, [("table:put", arguments)], "done", values={"df": df})
    [(status, text)] = played.answers
    assert status == "error"
    assert problem in text
    assert (requests, table) == ([], [])


@pytest.mark.parametrize("kind", ["fits", "other"])
async def test_whether_a_masked_value_fits_is_told_after_consent(host, kind):
    got = []

    def guess(key: Annotated[str, Field(pattern="^h")]) -> str:
        """Take a text that begins with h."""
        got.append(key)
        return "taken"

    await add_server(host, "guesser", guess)
    values = {"config": {"api_key": "hunter2" if kind == "fits" else "xylophone"}}
    call = [("guesser:guess", {"key": {"$value": "config.api_key"}})]
    requests = ask(host, Decision.deny("no"))
    refused = await play(host, call, "done", values=values)
    assert len(requests) == 1
    assert refused.answers == [
        ("error", "guesser:guess was not called; denied by the user: no. Do not try the same again.")
    ]
    ask(host)
    [(status, told)] = (await play(host, call, "done", values=values)).answers
    assert (status, got) == (("success", ["hunter2"]) if kind == "fits" else ("error", []))
    assert "xylophone" not in told
    ask(host, Decision.approve(arguments={"key": "hello"}))
    edited = await play(host, call, "done", values=values)
    assert edited.answers[0][0] == "success"
    assert got[-1] == "hello"


async def test_rules_match_the_values(host, table, df):
    ask(host)
    host.consent.rules.append(Rule("deny", "table:total", arguments={"numbers": "*999*"}, reason="not these"))
    whole = {"$value": "df", "columns": ["id"]}
    played = await play(host, [("table:total", {"numbers": whole})], "done", values={"df": df})
    assert "denied by rule" in played.answers[0][1]
    assert table == []


async def test_a_thread_stores_references_and_no_rows(host, table, df):
    requests = ask(host, lambda request: Decision.approve({**request.arguments, "note": "checked"}))
    saver = InMemorySaver()
    agent = Agent(host, PUT, "done", values={"df": df}, checkpointer=saver)
    run = await agent.run()
    assert answers(run) == [
        ("success", '[the user changed the arguments to rows={"$value": "df"}, note=checked]\n10000 rows')
    ]
    assert len(requests) == 1
    stored = str(saver.storage) + str(saver.writes) + str(saver.blobs)
    assert "$value" in stored
    assert LAST not in stored
    assert LAST not in str(run.transcript)
    assert "$value" in str(run.transcript)


async def test_an_interrupt_has_the_reference_and_sends_the_value(host, table, df):
    saver = InMemorySaver()
    options: Any = {"ask": "interrupt", "approve": "ask", "values": {"df": df}, "checkpointer": saver}
    graph = build_graph(ScriptedModel([PUT, "done"]), host, **options)
    state = await graph.ainvoke(asked(), THREAD)
    [question] = state["__interrupt__"][0].value["calls"]
    assert question["arguments"] == {"rows": {"$value": "df"}}
    edited = {"decision": "edit", "arguments": {**question["arguments"], "note": "mine"}}
    state = await graph.ainvoke(Command(resume=edited), THREAD)
    assert "10000 rows" in answers(state)[0][1]
    assert len(table[0]) == ROWS
    assert LAST not in str(saver.storage) + str(saver.writes) + str(saver.blobs)


async def test_a_value_that_changed_since_the_question_is_not_sent(host, table):
    rows = [{"a": 1}]
    ask(host)
    options: Any = {"values": {"df": rows}, "checkpointer": InMemorySaver()}
    graph = build_graph(ScriptedModel([PUT, "done"]), host, **options)
    await graph.ainvoke(asked(), THREAD, interrupt_before=["act"])
    rows.append({"a": 2})
    state = await build_graph(ScriptedModel(["done"]), host, **options).ainvoke(None, THREAD)
    assert answers(state) == [("error", "not called: the decision was about another tool or other arguments")]
    assert table == []


async def test_only_data_can_be_named(host):
    with pytest.raises(ArgumentsError, match="'sys' is a module; an agent reads only data"):
        build_graph(ScriptedModel([]), host, values={"sys": sys})


async def test_programs_have_the_values_as_variables(host, df):
    pytest.importorskip("pydantic_monty")
    ask(host)
    agent = coder(
        host,
        "n = sum(row['id'] for row in df)\ndf = df[:2]\nn",
        "df",
        "import json\n[row['name'] for row in df]",
        values={"df": df},
        programs=Programs(),
    )
    run = await agent.run()
    texts = [text for _, text in answers(run)]
    assert texts[0].startswith("value: 49995000")
    assert "'row-1'" in texts[2].replace('"', "'")
    assert "variables, tables as lists of dicts:\ndf: DataFrame" in agent.model.seen[0].messages[0].text
