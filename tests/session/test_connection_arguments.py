"""Python objects as the arguments of calls: one conversion on all ways out, over real servers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pydantic
import pytest
from mcp_types import PromptReference, Tool

from mcp_magic.consent.consent import Decision
from mcp_magic.consent.rules import Rule
from mcp_magic.errors import ArgumentsError, DeniedError
from mcp_magic.langchain.tools import langchain_tools
from tests.environments import excel_command, needs_node, playwright_command, word_command
from tests.support import SUPPORT
from tests.support.lowlevel import serving_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_magic.session.connection import Connection

SERVER = [sys.executable, str(SUPPORT / "arguments_server.py")]

CITIES = pd.DataFrame({"city": ["Oslo", "Rome", "Oslo"], "n": [1, 2, 3], "x": [0.5, math.nan, 2.0]})
SUMS = CITIES.groupby("city")[["n"]].sum()


@pytest.fixture
async def server(host):
    return await host.connect(SERVER, name="args")


async def echoed(connection: Connection, tool: str, **arguments: Any) -> Any:
    """Return the arguments as they arrived."""
    return (await connection.call(tool, arguments)).data[1]


# Servers that nobody here wrote


@needs_node
async def test_required_default_is_filled_in_and_reported(host, tmp_path):
    browser = await host.connect(playwright_command(tmp_path), name="browser")
    result = await browser.tools.browser_take_screenshot()
    assert result.filled == {"scale": "css"}
    assert "scale: 'css'" in result.text
    assert "filled in from the tool's schema: scale='css'" in str(result)
    assert "filled in from the tool" in result._repr_mimebundle_()["text/html"]
    device = await browser.tools.browser_take_screenshot(scale="device")
    assert (device.filled, "filled in" in str(device)) == ({}, False)


async def test_data_frame_becomes_rows_of_sheet_and_table(host, tmp_path):
    excel = await host.connect(excel_command(), name="excel", env={"EXCEL_FILES_PATH": str(tmp_path)})
    await excel.call("create_workbook", path="book.xlsx")
    await excel.call("write_range", path="book.xlsx", sheet="Sheet1", at="A1", rows=CITIES)
    await excel.call("write_range", path="book.xlsx", sheet="Sheet1", at="E1", rows=SUMS)
    sheet = (await excel.call("read_range", path="book.xlsx", sheet="Sheet1", range="A1:F4")).data["values"]
    assert [row[:3] for row in sheet] == [["city", "n", "x"], ["Oslo", 1, 0.5], ["Rome", 2, None], ["Oslo", 3, 2]]
    assert [row[4:6] for row in sheet[:3]] == [["city", "n"], ["Oslo", 4], ["Rome", 2]]

    word = await host.connect(word_command(), name="word")
    file = str(tmp_path / "a.docx")
    await word.call("create_document", filename=file)
    await word.call("add_table", filename=file, rows=4, cols=3, data=CITIES)
    text = (await word.call("get_document_text", filename=file)).text
    assert text.split("\n") == ["city", "n", "x", "Oslo", "1", "0.5", "Rome", "2", "", "Oslo", "3", "2.0"]


# One conversion


@dataclasses.dataclass
class Place:
    city: str
    where: tuple[float, float]


class Trip(pydantic.BaseModel):
    day: dt.date


VALUES: list[tuple[Any, Any]] = [
    (CITIES[["n", "x"]], [{"n": 1, "x": 0.5}, {"n": 2, "x": None}, {"n": 3, "x": 2.0}]),
    (CITIES.x, [0.5, None, 2.0]),
    (np.array([[1, 2]]), [[1, 2]]),
    (np.float32(0.5), 0.5),
    (dt.datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
    (Path("/a/b"), "/a/b"),
    ((1, "a"), [1, "a"]),
    (decimal.Decimal("1.5"), 1.5),
    (Trip(day=dt.date(2026, 1, 2)), {"day": "2026-01-02"}),
    (Place("Oslo", (59.9, 10.7)), {"city": "Oslo", "where": [59.9, 10.7]}),
    ([1.0, math.nan], [1.0, None]),
    ({"a": {"b": (dt.date(2026, 1, 2),)}}, {"a": {"b": ["2026-01-02"]}}),
]


async def test_all_ways_to_call_send_an_object_as_the_same_json(server, host):
    host.consent.policy = "auto"
    by_model = {tool.metadata["tool"]: tool for tool in langchain_tools(server)}["any"]

    async def langchain(x: Any) -> Any:
        message = await by_model.ainvoke({"type": "tool_call", "id": "1", "name": by_model.name, "args": {"x": x}})
        assert message.artifact["arguments"] == {"x": expected}
        return message.artifact["structured_content"] or (await echoed(server, "any", x=x))["x"]

    for value, expected in VALUES:
        assert (await echoed(server, "any", x=value))["x"] == expected, value
        assert (await server.call("any", x=value)).data[1]["x"] == expected
        assert (await host.call("args:any", {"x": value})).data[1]["x"] == expected
        assert (await server.tools.any(x=value)).data[1]["x"] == expected
        assert (await server.call_tool("any", {"x": value}, validate=False)).data[1]["x"] == expected
        assert await langchain(value) == expected
        sent = await server.request("tools/call", {"name": "any", "arguments": {"x": value}})
        assert f'"x": {expected!r}'.replace("'", '"').replace("None", "null") in sent["content"][0]["text"]


TABLES: list[tuple[str, str, Any, Any]] = [
    ("rows", "rows", SUMS, [["city", "n"], ["Oslo", 4], ["Rome", 2]]),
    ("rows", "rows", CITIES[["x"]], [["x"], [0.5], [None], [2.0]]),
    ("rows", "rows", CITIES.groupby("city").n.sum(), [["city", "n"], ["Oslo", 4], ["Rome", 2]]),
    ("rows", "rows", CITIES[["n"]].to_numpy(), [[1], [2], [3]]),
    ("rows", "rows", pd.DataFrame([[1, 2]]), [[1, 2]]),
    ("documents-table", "data", CITIES[1:2], [["city", "n", "x"], ["Rome", "2", ""]]),
    ("records", "rows", SUMS, [{"city": "Oslo", "n": 4}, {"city": "Rome", "n": 2}]),
    ("records", "rows", CITIES[CITIES.n > 2][["n"]], [{"n": 3}]),
    ("records", "rows", SUMS.rename_axis(None), [{"index": "Oslo", "n": 4}, {"index": "Rome", "n": 2}]),
    ("records", "rows", CITIES.groupby("city").n.sum(), [{"city": "Oslo", "n": 4}, {"city": "Rome", "n": 2}]),
    ("settings", "values", pd.Series({"a": 1.5, "b": math.nan}), {"a": 1.5, "b": None}),
    ("settings", "values", CITIES.iloc[1][["n", "x"]], {"n": 2, "x": None}),
]


async def test_a_table_is_what_the_schema_wants(server):
    for tool, name, value, expected in TABLES:
        assert (await echoed(server, tool, **{name: value}))[name] == expected


async def test_error_names_missing_value_where_null_is_invalid(host):
    number = {"type": "object", "properties": {"xs": {"type": "array", "items": {"type": "number"}}}}
    strict = await host.connect(serving_tools(Tool(name="t", input_schema=number)), name="strict")
    with pytest.raises(ArgumentsError, match=r"^xs\[1\]: expected number, got nan, which JSON does not have$"):
        await strict.call("t", xs=[1.0, math.nan])
    with pytest.raises(ArgumentsError, match=r"^xs\[1\]: expected number, got null$"):
        await strict.call("t", xs=CITIES.x)


# What cannot be sent

LONE = "a\ud83db"


async def test_a_lone_surrogate_is_an_error_and_the_session_lives_on(server, host):
    [process, _] = (await server.call("any", x="first")).data
    greet = PromptReference(type="ref/prompt", name="greet")
    ways: list[Callable[[], Awaitable[Any]]] = [
        lambda: server.call("any", x=LONE),
        lambda: server.call("any", x=[{"deep": LONE}]),
        lambda: server.call("any", x={LONE: 1}),
        lambda: server.call("any", {LONE: 1}),
        lambda: server.call("any", x=Path("a\udcffb")),
        lambda: server.call_tool("any", {"x": LONE}, validate=False),
        lambda: server.tools.any(x=LONE),
        lambda: host.call("args:any", x=LONE),
        lambda: server.read(f"note://{LONE}"),
        lambda: server.subscribe(f"note://{LONE}"),
        lambda: server.prompt("greet", whom=LONE),
        lambda: server.complete(greet, "whom", LONE),
        lambda: server.complete(greet, "whom", "a", {"other": LONE}),
        lambda: server.request("tools/call", {"name": "any", "arguments": {"x": LONE}}),
        lambda: server.notify("notifications/progress", {"progressToken": LONE}),
    ]
    for number, way in enumerate(ways):
        with pytest.raises(ArgumentsError) as caught:
            await way()
        assert "half of a surrogate pair" in str(caught.value), number
        assert str(caught.value).isprintable()
    with pytest.raises(ArgumentsError, match=r"^x\[0\]\.deep: character 2 is"):
        await ways[1]()
    assert (await server.call("any", x="größe 😀")).data == [process, {"x": "größe 😀"}]
    assert server.failures == 0


async def test_arguments_an_approver_changes_are_converted_and_checked(host):
    anything = await host.connect(serving_tools(Tool(name="t", input_schema={"type": "object"})), name="s")
    host.consent.rules.append(Rule("ask", "s:*"))
    edits = iter([{"day": dt.date(2026, 1, 2)}, {"day": LONE}])

    async def approver(request: Any) -> Decision:
        return Decision.approve(next(edits))

    host.consent.approver = approver
    assert "2026-01-02" in (await anything.call("t", day="today")).text
    with pytest.raises(DeniedError, match="the changed arguments do not fit: day: character 2 is"):
        await anything.call("t", day="today")


# Defaults

FIELD = {
    **{"type": "object", "required": ["name", "kind"]},
    "properties": {"name": {"type": "string"}, "kind": {"type": "string", "default": "text"}},
}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "scale": {"type": "string", "enum": ["css", "device"], "default": "css"},
        "token": {"type": "string", "default": "s3cret-default"},
        "fields": {"type": "array", "items": FIELD},
        "title": {"type": "string", "default": None},
        "size": {"type": "integer", "default": 3},
    },
    "required": ["scale", "token", "title"],
}


async def test_only_required_arguments_get_their_defaults(host):
    connection = await host.connect(serving_tools(Tool(name="t", input_schema=NESTED)), name="s")
    with pytest.raises(ArgumentsError, match=r"^missing: title \(string\)$"):  # null is no string
        await connection.call("t")
    result = await connection.call("t", title="x", fields=[{"name": "a"}, {"name": "b", "kind": "c"}])
    assert result.filled == {"fields[0].kind": "text", "scale": "css", "token": "s3cret-default"}
    assert "('fields', [{'name': 'a', 'kind': 'text'}, {'name': 'b', 'kind': 'c'}])" in result.text
    assert "size" not in result.text
    shown = str(result).splitlines()[-1]
    assert shown == "filled in from the tool's schema: fields[0].kind='text', scale='css', token=***"
    assert str(connection.tools.t.__signature__).startswith("(title: str, scale: Literal['css', 'device'] = 'css', ")

    host.consent.rules.append(Rule("deny", "s:t", {"scale": "css"}))
    with pytest.raises(DeniedError):
        await connection.call("t", title="x")  # a rule and a person see what is filled in
    assert (await connection.call("t", title="x", scale="device")).filled == {"token": "s3cret-default"}
