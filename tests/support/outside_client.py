"""A client of a kernel's server, written with a Python SDK: `python outside_client.py KIND FOLDER < plan.json`.

KIND is `mcp 2`, `mcp 1`, `fastmcp` or `langchain`; FOLDER, if it is not empty, has the packages of the SDK. The plan
has a `url` with a `token`, or a `command`, and `steps`: `["tools"]`, `["resources"]`, `["prompts"]`, `["read", URI]`,
`["prompt", NAME, ARGUMENTS]`, `["call", NAME, ARGUMENTS]`. What each step came to is printed as JSON. Each question of
a server is answered with Oslo.
"""

from __future__ import annotations

import asyncio
import json
import site
import sys
from contextlib import asynccontextmanager
from typing import Any

ANSWER = {"city": "Oslo", "days": 2}


def answered(result: Any, progress: list[Any]) -> dict[str, Any]:
    """Return what a call came to, of any SDK."""
    dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    texts = [block.get("text", block["type"]) for block in dumped["content"]]
    return {"text": "\n".join(texts), "error": bool(dumped.get("isError")), "progress": len(progress)}


async def step(session: Any, name: str, *values: Any) -> Any:
    """Take a step with a session of `mcp`, of either generation; `Client` of the second has the same methods."""
    progress: list[Any] = []

    async def report(*now: Any) -> None:
        progress.append(now)

    if name == "tools":
        return [tool.name for tool in (await session.list_tools()).tools]
    if name == "resources":
        return [str(resource.uri) for resource in (await session.list_resources()).resources]
    if name == "prompts":
        return [prompt.name for prompt in (await session.list_prompts()).prompts]
    if name == "read":
        return "\n".join(part.text for part in (await session.read_resource(values[0])).contents)
    if name == "prompt":
        return "\n".join(message.content.text for message in (await session.get_prompt(*values)).messages)
    return answered(await session.call_tool(*values, progress_callback=report), progress)


@asynccontextmanager
async def mcp_2(plan: dict[str, Any], mode: str) -> Any:
    import httpx2
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import ElicitResult, Implementation

    async def answer(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content=ANSWER)

    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {plan.get('token')}"}, timeout=60)
    if plan.get("url"):
        server: Any = streamable_http_client(plan["url"], http_client=http)
    else:
        server = StdioServerParameters(command=plan["command"][0], args=plan["command"][1:])
    me = Implementation(name=plan.get("name", "python-sdk"), version="2")
    async with http, Client(server, mode=mode, client_info=me, elicitation_callback=answer) as client:
        yield client.protocol_version, lambda *words: step(client, *words)


@asynccontextmanager
async def mcp_1(plan: dict[str, Any], _: str) -> Any:
    from mcp import ClientSession, StdioServerParameters, types
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=ANSWER)

    if plan.get("url"):
        transport: Any = streamablehttp_client(plan["url"], {"Authorization": f"Bearer {plan['token']}"})
    else:
        transport = stdio_client(StdioServerParameters(command=plan["command"][0], args=plan["command"][1:]))
    async with transport as (read, write, *_), ClientSession(read, write, elicitation_callback=answer) as session:
        first = await session.initialize()
        yield first.protocolVersion, lambda *words: step(session, *words)


@asynccontextmanager
async def fastmcp(plan: dict[str, Any], _: str) -> Any:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ANSWER if response_type is None else response_type(**ANSWER)

    if plan.get("url"):
        transport: Any = StreamableHttpTransport(plan["url"], {"Authorization": f"Bearer {plan['token']}"})
    else:
        transport = StdioTransport(plan["command"][0], plan["command"][1:])

    async def one(client: Any, name: str, *values: Any) -> Any:
        progress: list[Any] = []

        async def report(*now: Any) -> None:
            progress.append(now)

        if name in ("tools", "resources", "prompts"):
            rows = await getattr(client, f"list_{name}")()
            return [str(row.uri) if name == "resources" else row.name for row in rows]
        if name == "read":
            return "\n".join(part.text for part in await client.read_resource(values[0]))
        if name == "prompt":
            return "\n".join(message.content.text for message in (await client.get_prompt(*values)).messages)
        return answered(await client.call_tool_mcp(*values, progress_handler=report), progress)

    async with Client(transport, elicitation_handler=answer) as client:
        yield "", lambda *words: one(client, *words)


@asynccontextmanager
async def langchain(plan: dict[str, Any], _: str) -> Any:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_mcp_adapters.client import MultiServerMCPClient

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    headers = {"Authorization": f"Bearer {plan.get('token')}"}
    if plan.get("url"):
        server: Any = {"transport": "streamable_http", "url": plan["url"], "headers": headers}
    else:
        server = {"transport": "stdio", "command": plan["command"][0], "args": plan["command"][1:]}
    client = MultiServerMCPClient({"kernel": server})
    async with client.session("kernel") as session:
        from langchain_mcp_adapters.tools import load_mcp_tools

        tools = await load_mcp_tools(session)

        async def one(name: str, *values: Any) -> Any:
            if name == "tools":
                return [tool.name for tool in tools]
            call = {"name": values[0], "args": values[1], "id": "1"}
            model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
            try:
                state = await create_agent(model, tools).ainvoke({"messages": [("user", "go")]})
            except Exception as error:  # what a tool refuses ends the agent
                return {"text": str(error), "error": True, "progress": 0}
            return {"text": state["messages"][-2].text, "error": False, "progress": 0}

        yield "", one


async def main(kind: str, plan: dict[str, Any]) -> None:
    word, _, mode = kind.partition("/")
    kinds = {"mcp 2": mcp_2, "mcp 1": mcp_1, "fastmcp": fastmcp, "langchain": langchain}
    async with kinds[word](plan, mode or "auto") as (version, take):
        outcomes: list[Any] = []
        for words in plan["steps"]:
            try:
                outcomes.append(await take(*words))
            except Exception as error:
                outcomes.append({"failed": f"{type(error).__name__}: {error}"})
        print(json.dumps({"version": version, "outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    if sys.argv[2]:
        site.addsitedir(sys.argv[2])
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
