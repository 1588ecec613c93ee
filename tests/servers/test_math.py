from __future__ import annotations

import csv
import io
import json
import math
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, PromptReference

from tests.support import bundled
from tests.support.processes import stdio_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    Open = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["in process"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a session with the math server; the same answers are expected over stdio."""
    if request.param == "stdio":
        return lambda: stdio_session(bundled.command("math_server"), tmp_path / "stderr")
    return lambda: Client(bundled.load("math_server").server)


async def value(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("session", ["in process", "stdio"], indirect=True)
async def test_answers_are_exact(session: Open) -> None:
    async with session() as client:
        assert await value(client, "add", a=1, b=2) == {"result": 3}
        assert await value(client, "add", a=2**80, b=1) == {"result": 2**80 + 1}
        assert await value(client, "subtract", a=1, b=2.5) == {"result": -1.5}
        assert await value(client, "multiply", a=10**30, b=3) == {"result": 3 * 10**30}
        assert await value(client, "divide", a=1, b=4) == {"result": 0.25}
        assert await value(client, "power", base=2, exponent=100) == {"result": 2**100}
        assert await value(client, "power", base=2, exponent=-1) == {"result": 0.5}
        assert await value(client, "factorial", n=1000) == {"result": math.factorial(1000)}
        assert await value(client, "primes", n=30) == {"result": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]}
        assert await value(client, "primes", n=0) == {"result": []}


async def test_statistics_agree_with_the_standard_library(session: Open) -> None:
    numbers = [3.0, 1.5, 4.25, 1.0]
    async with session() as client:
        summary = await value(client, "statistics", numbers=numbers)
        alone = await value(client, "statistics", numbers=[7])
    assert summary == {
        "count": 4,
        "total": 9.75,
        "mean": statistics.fmean(numbers),
        "median": 2.25,
        "stdev": statistics.stdev(numbers),
        "minimum": 1.0,
        "maximum": 4.25,
    }
    assert alone["stdev"] is None


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("divide", {"a": 1, "b": 0}, "Cannot divide by zero."),
        ("power", {"base": 0, "exponent": -1}, "Zero has no negative power"),
        ("power", {"base": 10, "exponent": 5000}, "more than 4000 digits"),
        ("power", {"base": 10.5, "exponent": 400}, "too large for a floating point number"),
        ("multiply", {"a": 1e308, "b": 10}, "too large for a floating point number"),
        ("multiply", {"a": 10**3000, "b": 10**3000}, "more than 4000 digits"),
        ("divide", {"a": 10**400, "b": 3}, "too large for a floating point number"),
        ("factorial", {"n": -1}, "greater than or equal to 0"),
        ("statistics", {"numbers": []}, "at least 1 item"),
    ],
)
async def test_what_cannot_be_computed_is_a_tool_error_that_says_why(
    tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with Client(bundled.load("math_server").server) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert said in result.content[0].text


async def test_tools_are_described_and_read_only(session: Open) -> None:
    async with session() as client:
        tools = (await client.list_tools()).tools
    assert len(tools) == 8
    for tool in tools:
        assert tool.title
        assert tool.description
        assert tool.output_schema
        assert tool.annotations
        assert tool.annotations.read_only_hint
        assert tool.annotations.idempotent_hint
        assert tool.annotations.open_world_hint is False
        assert all(argument["description"] for argument in tool.input_schema["properties"].values())


async def test_resources_are_json_and_csv(session: Open) -> None:
    async with session() as client:
        constants = (await client.read_resource("math://constants")).contents[0]
        table = (await client.read_resource("math://table/3")).contents[0]
        with pytest.raises(MCPError, match="not for '101'") as missing:
            await client.read_resource("math://table/101")
    assert constants.mime_type == "application/json"
    assert json.loads(constants.text)["pi"] == math.pi
    assert table.mime_type == "text/csv"
    assert list(csv.reader(io.StringIO(table.text)))[-1] == ["3", "3", "6", "9"]
    assert missing.value.code == INVALID_PARAMS


async def test_the_prompt_takes_a_topic_and_completes_its_level(session: Open) -> None:
    async with session() as client:
        prompt = await client.get_prompt("explain", {"topic": "fractions", "level": "child"})
        found = await client.complete(PromptReference(name="explain"), {"name": "level", "value": "e"})
    assert prompt.messages[0].content.text.startswith("Explain fractions to a child.")
    assert found.completion.values == ["expert"]
