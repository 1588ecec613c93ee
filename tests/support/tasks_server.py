"""A server of fastmcp-tasks, which runs in an environment of its own: `python tasks_server.py [PORT]`."""

from __future__ import annotations

import asyncio
import sys

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.dependencies import Progress
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError

mcp = FastMCP("ci")
mcp.add_extension(TasksExtension())
released = asyncio.Event()


@mcp.tool(task=True)
async def build(ref: str, progress: Progress = Progress()) -> dict[str, str]:  # noqa: B008
    """Say how it is, and wait until `release` is called."""
    await progress.set_message(f"building {ref}")
    await released.wait()
    return {"built": ref}


@mcp.tool
async def release() -> str:
    """Let all builds end."""
    released.set()
    return "released"


@mcp.tool(task=TaskConfig(mode="required"))
async def quick(ref: str) -> str:
    """Run as a task only, and end at once."""
    return f"quick {ref}"


@mcp.tool(task=True)
async def fail(how: str) -> str:
    """Fail like a tool, or like the protocol."""
    if how == "tool":
        raise ToolError("no such branch")
    raise MCPError(-32099, "the queue is full")


@mcp.tool(task=True)
async def choose(ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Ask in the middle of the task."""
    answers = ctx.input_responses or {}
    if "branch" not in answers:
        schema = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}
        params = mcp_types.ElicitRequestFormParams(message="Which branch?", requested_schema=schema)
        return mcp_types.InputRequiredResult(input_requests={"branch": mcp_types.ElicitRequest(params=params)})
    answer = answers["branch"]
    return f"{answer.action} {(answer.content or {}).get('branch')}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), log_level="info", show_banner=False)
    else:
        mcp.run(show_banner=False)
