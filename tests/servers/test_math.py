import csv
import io
import json
import math
import statistics

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, PromptReference

from tests.support import bundled
from tests.support.processes import stdio_session

SERVER = "math_server"
NUMBERS = [3.0, 1.5, 4.25, 1.0]
SUMMARY = {"count": 4, "total": 9.75, "mean": statistics.fmean(NUMBERS), "stdev": statistics.stdev(NUMBERS)}
SUMMARY |= {"median": 2.25, "minimum": 1.0, "maximum": 4.25}
ANSWERS = [
    ("add", {"a": 1, "b": 2}, 3),
    ("add", {"a": 2**80, "b": 1}, 2**80 + 1),
    ("subtract", {"a": 1, "b": 2.5}, -1.5),
    ("multiply", {"a": 10**30, "b": 3}, 3 * 10**30),
    ("divide", {"a": 1, "b": 4}, 0.25),
    ("power", {"base": 2, "exponent": 100}, 2**100),
    ("power", {"base": 2, "exponent": -1}, 0.5),
    ("factorial", {"n": 1000}, math.factorial(1000)),
    ("primes", {"n": 30}, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ("primes", {"n": 0}, []),
]
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_answers_are_exact(client, tmp_path):
    async with stdio_session(bundled.command("math_server"), tmp_path / "stderr") as process:
        for session in (client, process):
            for tool, arguments, answer in ANSWERS:
                result = await session.call_tool(tool, arguments)
                assert result.structured_content == {"result": answer}, tool
    summary = (await client.call_tool("statistics", {"numbers": NUMBERS})).structured_content
    assert summary == SUMMARY
    assert (await client.call_tool("statistics", {"numbers": [7]})).structured_content["stdev"] is None


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
    ids=["zero", "zero power", "digits", "float power", "float", "product", "quotient", "negative", "nothing"],
)
async def test_what_cannot_be_computed_is_an_error(client, tool, arguments, said):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert said in result.content[0].text


async def test_tools_are_described_and_read_only(client):
    tools = (await client.list_tools()).tools
    assert len(tools) == 8
    for tool in tools:
        hints = tool.annotations
        assert all((tool.title, tool.description, tool.output_schema, hints.read_only_hint, hints.idempotent_hint))
        assert hints.open_world_hint is False
        assert all(argument["description"] for argument in tool.input_schema["properties"].values())


async def test_resources_are_json_and_csv_and_the_prompt_completes(client):
    [constants] = (await client.read_resource("math://constants")).contents
    assert (constants.mime_type, json.loads(constants.text)["pi"]) == ("application/json", math.pi)
    [table] = (await client.read_resource("math://table/3")).contents
    assert table.mime_type == "text/csv"
    assert list(csv.reader(io.StringIO(table.text)))[-1] == ["3", "3", "6", "9"]
    with pytest.raises(MCPError, match="not for '101'") as missing:
        await client.read_resource("math://table/101")
    assert missing.value.code == INVALID_PARAMS
    prompt = await client.get_prompt("explain", {"topic": "fractions", "level": "child"})
    assert prompt.messages[0].content.text.startswith("Explain fractions to a child.")
    completed = await client.complete(PromptReference(name="explain"), {"name": "level", "value": "e"})
    assert completed.completion.values == ["expert"]
