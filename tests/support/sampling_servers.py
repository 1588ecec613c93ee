"""Servers whose tools ask for a model's words, on both protocol eras; run as a program it is `sampling_server`."""

from __future__ import annotations

import json
import warnings
from typing import Annotated, Any

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer, Resolve, Sample
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    InputRequiredResult,
    ListToolsResult,
    SamplingMessage,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)

ADD = Tool(
    name="add",
    description="Add two numbers.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def said(text: str, role: Any = "user") -> SamplingMessage:
    return SamplingMessage(role=role, content=TextContent(text=text))


async def _summary() -> Sample:
    return Sample([said("Summarise this: Cats sleep. They purr. They eat.")], max_tokens=100, system_prompt="Be brief.")


def shown(result: CreateMessageResult | CreateMessageResultWithTools) -> str:
    """Return what a server got: model, reason, and the content as text."""
    blocks = result.content if isinstance(result.content, list) else [result.content]
    parts = [b.text if b.type == "text" else f"{b.name}({json.dumps(b.input)})" for b in blocks if b.type != "image"]
    return f"{result.model} {result.stop_reason}: {' | '.join(parts)}"


def sampling_server() -> MCPServer:
    """A server that samples by resolvers: `input_required` on 2026-07-28, requests of its own before."""
    server = MCPServer("writer", log_level="ERROR")

    @server.tool()
    async def summarise(reply: Annotated[CreateMessageResult, Resolve(_summary)]) -> str:
        return shown(reply)

    @server.tool()
    async def sums(ctx: Context) -> str:
        """Let the model add with a tool of the server, in a loop."""
        return await _loop(ctx)

    @server.tool()
    async def refused(ctx: Context) -> str:
        try:
            return shown(await sample(ctx, [said("Hello")], max_tokens=10))
        except MCPError as error:
            return f"{error.error.code} {error.error.message}"

    @server.tool()
    async def looked(ctx: Context) -> str:
        """Say what the client has announced."""
        params = ctx.request_context.session.client_params
        sampling = params.capabilities.sampling if params is not None else None
        return "nothing" if sampling is None else "sampling" if sampling.tools is None else "sampling with tools"

    return server


async def sample(context: Any, messages: list[SamplingMessage], **settings: Any) -> Any:
    """Ask by a request, as servers of the handshake era do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated since 2026-07-28, and in use
        return await context.request_context.session.create_message(messages, **settings)


async def _loop(context: Any) -> str:
    messages = [said("What is 3 plus 4?")]
    for _ in range(3):
        result = await sample(context, messages, max_tokens=200, tools=[ADD])
        blocks = result.content if isinstance(result.content, list) else [result.content]
        calls = [block for block in blocks if block.type == "tool_use"]
        if not calls:
            return shown(result)
        results = [_added(call) for call in calls]
        messages += [SamplingMessage(role="assistant", content=blocks), SamplingMessage(role="user", content=results)]
    return "no end"


def _added(call: ToolUseContent) -> ToolResultContent:
    text = str(call.input["a"] + call.input["b"])
    return ToolResultContent(tool_use_id=call.id, content=[TextContent(text=text)])


def asking_server(*requests: CreateMessageRequestParams) -> Server[Any]:
    """A low-level server of 2026-07-28 whose tool asks for all of these in one round."""

    async def tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ask", input_schema={"type": "object"})])

    async def call(context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if params.input_responses:
            texts = [shown(params.input_responses[str(number)]) for number in range(len(requests))]
            return CallToolResult(content=[TextContent(text=text) for text in texts])
        asked = {str(number): CreateMessageRequest(params=request) for number, request in enumerate(requests)}
        return InputRequiredResult(input_requests=asked, request_state="s")

    return Server("asking", on_list_tools=tools, on_call_tool=call)


if __name__ == "__main__":
    sampling_server().run()
