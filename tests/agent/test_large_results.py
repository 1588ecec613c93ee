"""Results that are too large for a model: it reads the head, and the rest by a handle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent

from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import display_messages
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import fork_thread, memory_threads, open_threads
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import result_of, to_content
from mcp_magic.langchain.large_results import Spill, outline, read_result
from mcp_magic.results import ToolResult
from tests.support.provider_rules import anthropic_refuses, openai_refuses, to_anthropic

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host

CITIES = [{"city": f"c{number}", "rain": number / 2, "tags": ["wet"]} for number in range(200)]


def holding(*texts: str, structured: Any = None) -> ToolResult:
    raw = CallToolResult(content=[TextContent(text=text) for text in texts], structured_content=structured)
    return ToolResult(raw, server="s", tool="t")


@pytest.fixture
async def weather(host: Host) -> Host:
    server = MCPServer("weather", log_level="ERROR")

    @server.tool()
    def rain(count: int = 200) -> list[dict[str, Any]]:
        """Tells how much it rains."""
        return CITIES[:count]

    await host.connect(server, name="weather")
    return host


RAIN: list[tuple[str, dict[str, Any]]] = [("weather:rain", {})]


def read(**arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("read_result", {"handle": "result_1", **arguments})]


def answers(messages: list[Any]) -> list[tuple[str, str]]:
    return [(m.status, m.text) for m in messages if isinstance(m, ToolMessage)]


# In a run


async def test_model_reads_head_then_chosen_rows_of_a_large_result(weather: Host) -> None:
    model = ScriptedModel([RAIN, read(rows="10:12", columns=["city", "rain"]), "done"])
    graph = build_graph(model, weather, spill=300, checkpointer=memory_threads())
    run = await run_agent(graph, weather, "go", thread="head")
    large, rows = answers(run.messages)
    assert large == (
        "success",
        "[result_1: table of 200 rows x 3 columns (city, rain, tags). About 3,117 tokens: too long to be shown whole, "
        "read_result reads on.]\nIt begins with:\ncity,rain,tags\n"
        + "\n".join(f'c{n},{n / 2},"[""wet""]"' for n in range(5)),
    )
    assert rows == ("success", "[rows 10 to 11 of 200]\ncity,rain\nc10,5.0\nc11,5.5")
    first = run.results[0]
    assert first is not None
    assert first.data == CITIES
    assert len(first.df) == 200
    assert "c199" in str(run.transcript.calls[0].result.raw)  # type: ignore[union-attr]


async def test_read_result_is_bound_only_once_there_is_a_large_result(weather: Host) -> None:
    model = ScriptedModel([[("weather:rain", {"count": 1})], RAIN, "done"])
    await build_graph(model, weather, tools=["weather:*"], spill=300).ainvoke({"messages": [HumanMessage("go")]})
    bound = [[tool["function"]["name"] for tool in seen.tools] for seen in model.seen]
    assert bound == [["weather__rain"], ["weather__rain"], ["weather__rain", "read_result"]]
    assert not openai_refuses(model.seen[-1].tools)
    assert not anthropic_refuses(to_anthropic(model.seen[-1].tools))


async def test_handles_are_numbered_per_thread_without_repeats(weather: Host) -> None:
    model = ScriptedModel([[*RAIN, ("shop:price", {"item": "pear"}), *RAIN], RAIN, "done"])
    state = await build_graph(model, weather, spill=300).ainvoke({"messages": [HumanMessage("go")]})
    handles = [m.artifact.get("handle") for m in state["messages"] if isinstance(m, ToolMessage)]
    assert handles == ["result_1", None, "result_3", "result_4"]


async def test_handle_works_after_restart_and_in_forks_of_its_thread(weather: Host, tmp_path: Path) -> None:
    async with open_threads(tmp_path / "threads.sqlite", fall_back=False) as saver:
        graph = build_graph(ScriptedModel([RAIN, "done"]), weather, spill=300, checkpointer=saver)
        await run_agent(graph, weather, "go", thread="first")
    script = [read(rows="199"), "done"]
    async with open_threads(tmp_path / "threads.sqlite", fall_back=False) as saver:  # as a new kernel opens it
        await fork_thread(saver, "first", None, "fork")
        found = {}
        for thread in ("first", "fork", "other"):
            graph = build_graph(ScriptedModel(script), weather, spill=300, checkpointer=saver)
            found[thread] = answers((await run_agent(graph, weather, "go on", thread=thread)).messages)[0]
    row = ("success", '[rows 199 to 199 of 200]\ncity,rain,tags\nc199,99.5,"[""wet""]"')
    assert found["first"] == found["fork"] == row
    assert found["other"] == ("error", "no large result 'result_1'. There are: none")


async def test_without_the_setting_a_result_is_cut_as_before(weather: Host) -> None:
    model = ScriptedModel([RAIN, "done"])
    state = await build_graph(model, weather, spill=None, result_limit=50).ainvoke({"messages": [HumanMessage("go")]})
    assert "[cut here: these are the first" in answers(state["messages"])[0][1]


async def test_a_call_of_read_result_has_a_card_without_approval(weather: Host) -> None:
    weather.consent.policy = "deny"
    weather.consent.add(Rule("allow", "weather:*"))
    model = ScriptedModel([RAIN, read(rows="0"), "done"])
    graph = build_graph(model, weather, spill=300, checkpointer=memory_threads())
    run = await run_agent(graph, weather, "go", thread="card")
    card = run.transcript.calls[1]
    assert (card.name, card.status, card.by) == ("read_result", "ok", "")
    assert "read_result" in str(display_messages(run.messages))


async def test_arguments_that_do_not_fit_come_back_to_the_model(weather: Host) -> None:
    model = ScriptedModel([RAIN, [("read_result", {"rows": 3})], read(columns=["cty"]), read(rows="a"), "done"])
    state = await build_graph(model, weather, spill=300).ainvoke({"messages": [HumanMessage("go")]})
    assert answers(state["messages"])[1:] == [
        ("error", "missing: handle (string)\nrows: expected string, got 3"),
        ("error", "no column 'cty'. Did you mean 'city'? There are: city, rain, tags"),
        ("error", "rows is START:STOP, counted from 0, such as 20:40; not 'a'"),
    ]


# What is read


def test_of_several_tables_each_has_a_handle() -> None:
    rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
    result = holding(structured={"users": rows, "orders": [{"id": 1, "total": 2}, {"id": 2, "total": 3}]})
    assert outline(result, "result_1").splitlines()[1:] == [
        "result_1.users: table of 3 rows x 2 columns (id, name)",
        "result_1.orders: table of 2 rows x 2 columns (id, total)",
    ]
    assert read_result(result, "orders", "1:", limit=100) == "[rows 1 to 1 of 2]\nid,total\n2,3"
    with pytest.raises(ArgumentsError, match=r"it has several tables; add one to the handle, as HANDLE\.TABLE: users"):
        read_result(result, limit=100)


def test_a_text_is_read_by_lines_and_searched() -> None:
    result = holding("\n".join(f"line {number}" for number in range(300)))
    assert outline(result, "result_1").startswith("[result_1: text of 2,589 characters, 300 lines. About 647 tokens")
    assert read_result(result, rows="-1:", limit=100) == "[lines 299 to 299 of 300]\nline 299"
    assert read_result(result, search="LINE 29", limit=40) == (
        "[11 of 300 lines have 'LINE 29', here with their numbers; rows=\"292:300\" reads on]\n"
        "29: line 29\n290: line 290\n291: line 291"
    )
    assert read_result(result, search="snow", rows="5:9", limit=100) == ("[no lines with 'snow' in 5:9; there are 300]")


def test_a_read_ends_at_its_limit_and_says_how_it_goes_on() -> None:
    result = holding(json.dumps(CITIES))
    text = read_result(result, rows="3:", columns=["city"], limit=20)
    assert text == '[rows 3 to 9 of 200; rows="10:200" reads on]\ncity\nc3\nc4\nc5\nc6\nc7\nc8\nc9'


def test_one_long_line_and_one_long_row_are_cut() -> None:
    line = read_result(holding("x" * 2000), rows="1:2", limit=10_000)
    assert line == f"[lines 1 to 1 of 4]\n{'x' * 500}"
    row = read_result(holding(json.dumps([{"a": "x" * 2000}, {"a": "y"}])), limit=100)
    assert row == f'[rows 0 to 0 of 2; rows="1:2" reads on]\na\n{"x" * 100} [cut here]'


def test_other_json_is_read_by_lines() -> None:
    result = holding(structured={"name": "x", "deep": {"list": [1, [2, [3]]], "text": "y" * 50}})
    assert "an object with name, deep as JSON" in outline(result, "result_1")
    assert '"name": "x"' in read_result(result, limit=1000)


def test_model_sees_the_picture_of_a_large_result() -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    raw = CallToolResult(content=[TextContent(text="a\n" * 500), ImageContent(data=pixel, mime_type="image/png")])
    large = ToolResult(raw, server="s", tool="t")
    content, artifact = to_content(large, images=True, spill=Spill.above(100, "result_1"))
    assert isinstance(content, list)
    assert [each if isinstance(each, str) else each["type"] for each in content][1:] == ["image"]
    restored = result_of(ToolMessage(content, tool_call_id="1", artifact=artifact))
    assert restored.raw == raw


def test_an_error_is_never_spilled() -> None:
    raw = CallToolResult(content=[TextContent(text="x" * 900)], is_error=True)
    content, artifact = to_content(ToolResult(raw, server="s", tool="t"), spill=Spill.above(100, "result_1"))
    assert content == "x" * 900
    assert "handle" not in artifact
