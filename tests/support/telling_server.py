"""A server that tells its own key wherever it says something, and at length."""

from __future__ import annotations

import os

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import Completion

KEY = "s3cr3t-of-the-server"

server = MCPServer("telling", log_level="ERROR")


@server.tool()
async def tell(context: Context) -> str:
    key = os.environ["API_KEY"]
    await context.report_progress(1e300, None, f"{key} {'x' * 50_000}")
    await context.report_progress(2, None, "next")
    await context.info({"text": key})
    raise MCPError(code=-32001, message=f"{key} {'x' * 50_000}", data={"text": key})


@server.tool()
async def tell_much() -> str:
    raise MCPError(code=-32001, message="much", data="x" * 50_000)


@server.prompt()
def ask(word: str) -> str:
    return word


@server.completion()
async def complete(reference, argument, context):
    return Completion(values=[os.environ["API_KEY"], "x" * 50_000])


if __name__ == "__main__":
    server.run()
