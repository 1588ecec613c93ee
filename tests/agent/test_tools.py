"""The tools that models are given: what providers take of them, and what they cost."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from mcp_magic.agent.tools import Registry, tool_costs
from mcp_magic.langchain.tools import langchain_tools
from mcp_magic.outside.put import PUT_VALUE
from mcp_magic.values.schemas import widened_schema
from mcp_magic.values.tools import value_tools
from tests import environments
from tests.support.agents import add_server
from tests.support.bundled import command, load
from tests.support.provider_rules import refusals


@environments.needs_node
@pytest.mark.timeout(2 * environments.BUILD_TIMEOUT)
async def test_providers_accept_every_tool_with_its_schema(host, tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("math", "weather", "showcase"):
        await host.connect(load(f"{name}_server").server, name=name)
    await host.connect(command("paging_server", "--transport", "stdio"), name="paging")
    await host.connect(environments.git_command(tmp_path), name="git")
    await host.connect(environments.time_command(), name="time")
    await host.connect(environments.everything_command(), name="everything")
    offers = (await Registry(host).refresh()).values()
    functions = [offer.openai_tool for offer in offers]
    assert len({offer.connection.name for offer in offers}) == 8
    assert len(functions) > 100
    groups = [functions[start : start + 100] for start in range(0, len(functions), 100)]  # OpenAI takes 128 at once
    assert [refusals(group) for group in groups] == [[] for _ in groups]
    for offer in offers:
        sent = offer.openai_tool["function"]["parameters"]
        assert untitled(sent) == untitled({"properties": {}, **offer.tool.input_schema})
    langchain = [convert_to_openai_tool(tool) for tool in langchain_tools(*host.find())]
    assert len(json.dumps(functions)) <= len(json.dumps(langchain)), "they cost as much as with LangChain at most"


def test_providers_accept_the_tools_of_values_and_references():
    kinds = {
        "rows": {"type": "array", "items": {"type": "object"}},
        "data": {"type": "object"},
        "name": {"type": "string"},
    }
    referring = widened_schema({"type": "object", "properties": kinds, "required": ["rows"]})
    put = {"name": "put_value", "description": PUT_VALUE.description, "parameters": PUT_VALUE.input_schema}
    functions = [*(tool.function for tool in value_tools()), put]
    assert refusals([*functions, {"name": "tool", "description": "x", "parameters": referring}]) == []


def untitled(schema: Any) -> Any:
    """Return a schema without its dialect and without titles, but with parameters of these names."""
    if isinstance(schema, list):
        return [untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: untitled(part) for name, part in value.items()} if key == "properties" else untitled(value)
        for key, value in schema.items()
        if key != "$schema" and not (key == "title" and isinstance(value, str))
    }


async def test_servers_and_tools_are_ranked_by_their_tokens(host):
    def small() -> str:
        return ""

    await add_server(host, "wordy", small, instructions="Be careful. " * 100)
    listing = await tool_costs(host)
    rows = list(listing.rows)
    first = [("wordy", "1 tool"), ("shop", "4 tools"), ("wordy", "instructions")]
    assert [(row["name"], row["what"]) for row in rows[:3]] == first
    assert rows[0]["tokens"] == rows[2]["tokens"] + rows[-1]["tokens"]
    assert [row["tokens"] for row in rows[2:]] == sorted((row["tokens"] for row in rows[2:]), reverse=True)
    assert rows[-1]["name"] == "wordy:small"
    assert "tokens at each turn of the model" in str(listing)
    assert "only those that fit" in str(await tool_costs(host, search_above=4))
