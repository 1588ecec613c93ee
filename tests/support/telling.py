"""Events as the graph writes them, with what a real server answered."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from mcp import Client
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from mcp_magic.agent.events import CallEvent, DecisionEvent, ResultEvent
from mcp_magic.agent.transcript import Transcript
from mcp_magic.langchain.content import to_content
from mcp_magic.results import ToolResult
from tests.support.showcase import showcase


def usage(read: int, made: int) -> dict[str, int]:
    return {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}


def turn(text: str = "", *calls: str, id: str | None = None, tokens: dict[str, int] | None = None) -> AIMessage:
    """A turn of a model that calls `showcase:tool` for each `id=tool`, without arguments."""
    wanted = [
        {"id": call.partition("=")[0], "name": f"showcase__{call.partition('=')[2]}", "args": {}} for call in calls
    ]
    return AIMessage(text, id=id, tool_calls=wanted, usage_metadata=tokens)


def definition(name: str, schema: dict[str, Any] | None = None, **hints: Any) -> Tool:
    annotations = ToolAnnotations(**hints) if hints else None
    return Tool(name=name, title=None, input_schema=schema or {"type": "object"}, annotations=annotations)


async def called(tool: str, **arguments: Any) -> ToolResult:
    """What the showcase server answers over a real session."""
    async with Client(showcase()) as client:
        raw = await client.call_tool(tool, arguments)
    assert isinstance(raw, CallToolResult)
    return ToolResult(raw, server="showcase", tool=tool, seconds=0.12)


def texts(*texts: str, server: str = "showcase", tool: str = "tool", is_error: bool = False) -> ToolResult:
    raw = CallToolResult(content=[TextContent(text=text) for text in texts], is_error=is_error)
    return ToolResult(raw, server=server, tool=tool, seconds=0.12)


def answer(id: str, result: ToolResult, **more: Any) -> ToolMessage:
    """The message that the graph makes of a result."""
    content, artifact = to_content(result, images=False, limit=20_000)
    return ToolMessage(
        content,
        tool_call_id=id,
        name=f"{result.server}__{result.tool}",
        status="error" if result.is_error else "success",
        artifact={**artifact, **more},
    )


def call(id: str, tool: str = "add", **more: Any) -> CallEvent:
    return CallEvent(id, tool, **{"server": "showcase", "turn": 1, **more})


def decided(id: str, approved: bool = True, **more: Any) -> DecisionEvent:
    return DecisionEvent(id, approved, **{"by": "person", **more})


def result(id: str, value: ToolResult | ToolMessage) -> ResultEvent:
    message = value if isinstance(value, ToolMessage) else answer(id, value)
    return ResultEvent(id, message)


def told(*events: object, **options: Any) -> Transcript:
    """The transcript of events."""
    transcript = Transcript(**options)
    for event in events:
        transcript.on_event(event)
    return transcript


def html(transcript: Transcript) -> str:
    """The HTML without its style."""
    text = str(transcript._repr_mimebundle_()["text/html"])
    return text.rpartition("</style>")[2]
