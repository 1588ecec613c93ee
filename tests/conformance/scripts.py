"""What is done in the scenarios of the protocol itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.ask.elicitation import Answer
from mcp_magic.errors import VerificationError
from mcp_magic.schema.example import example_arguments
from tests.conformance.playing import opened, refused, script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.ask.elicitation import Elicitation


async def confirm(asked: Elicitation) -> Answer:
    """Tick what is to be confirmed."""
    return Answer.accept({"confirmed": True})


@script("initialize", "json-schema-ref-no-deref")
async def list_tools(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        await server.listing("tools")


@script("tools_call")
async def add_numbers(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        await server.call("add_numbers", a=5, b=3)


@script("http-standard-headers")
async def use_all(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        for tool in await server.listing("tools"):
            await server.call(tool.name, example_arguments(tool.input_schema))
        for resource in await server.listing("resources"):
            await server.read(resource.uri)
        for prompt in await server.listing("prompts"):
            await server.prompt(prompt.name)


@script("request-metadata")
async def list_nothing(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        await server.listing("tools", refresh=True)


@script("elicitation-sep1034-client-defaults")
async def submit_defaults(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        await server.call("test_client_elicitation_defaults")


@script("sse-retry")
async def reconnect(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        await server.call("test_reconnection")


@script("sep-2322-client-request-state")
async def several_rounds(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url, confirm) as server:
        for tool in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
            await server.call(tool)


@script("json-schema-2020-12-preservation")
async def echo_schema(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        tool = await server.find_tool("json_schema_2020_12_tool")
        await server.call("json_schema_echo", schema=tool.input_schema)


@script("http-invalid-tool-headers")
async def call_all(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        for tool in await server.listing("tools"):
            await server.call(tool.name, example_arguments(tool.input_schema))


@script("http-custom-headers")
async def call_given(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        for call in context["toolCalls"]:
            # one of them sends null where the tool's schema has none: unchecked
            result = await server.call_tool(call["name"], call["arguments"], validate=False)
            result.raise_for_error()


@script("sep-2640-client-no-prefetch")
async def list_skills(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        assert [skill.name for skill in await server.skills.list()] == ["pdf-processing"]


@script("sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter")
async def load_skill(url: str, context: Mapping[str, Any]) -> None:
    async with opened(url) as server:
        [skill] = await server.skills.list()
        with refused(VerificationError):
            loaded = await server.skills.load(skill)
            await loaded.read("references/FORMS.md")
