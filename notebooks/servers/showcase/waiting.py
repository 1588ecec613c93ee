"""Tools that take their time, and tell of it: progress, cancellation and log messages."""

import asyncio
import warnings
from typing import Annotated, get_args

from mcp import MCPDeprecationWarning
from mcp.server.mcpserver import Context
from mcp_types import LoggingLevel
from pydantic import Field

from showcase.app import READS, server


class Count:
    """How many calls of `slow` were cancelled since the server started."""

    cancelled = 0


@server.tool(annotations=READS)
async def slow(seconds: Annotated[float, Field(description="How long to wait", ge=0, le=3600)], ctx: Context) -> str:
    """Wait; tells its progress once, at the start. A cancelled call is counted."""
    await ctx.report_progress(0, seconds, "started")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        Count.cancelled += 1
        raise
    return f"waited {seconds:g} s"


@server.tool(annotations=READS)
def cancellations() -> int:
    """Count the calls of `slow` that were cancelled."""
    return Count.cancelled


@server.resource("showcase://cancellations", mime_type="application/json")
def cancellation_count() -> str:
    """How many calls of `slow` were cancelled, as JSON."""
    return f'{{"cancelled": {Count.cancelled}}}'


@server.tool(annotations=READS)
async def progress(
    ctx: Context,
    steps: Annotated[int, Field(description="How many steps", ge=1, le=10_000)] = 5,
    delay: Annotated[float, Field(description="Seconds each step takes", ge=0, le=60)] = 0.1,
    total: Annotated[bool, Field(description="Whether to say how many steps there are")] = True,
    messages: Annotated[bool, Field(description="Whether to say something at each step")] = True,
) -> str:
    """Work in steps and report each."""
    for step in range(1, steps + 1):
        await asyncio.sleep(delay)
        await ctx.report_progress(step, steps if total else None, f"step {step}" if messages else None)
    return f"{steps} steps done"


async def say(ctx: Context, level: LoggingLevel, message: object, logger: str | None = None) -> None:
    """Send a log message to the client.

    Log messages are deprecated since protocol 2026-07-28, and the SDK warns of it; a host still has to show
    them. A client of that protocol gets only those that it asks for with the request (`Client(log_level=...)`).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        sending = ctx.session.send_log_message(level, message, logger, related_request_id=ctx.request_id)
    await sending


@server.tool(annotations=READS)
async def log(level: LoggingLevel, message: str, ctx: Context, logger: str | None = None) -> str:
    """Send one log message."""
    await say(ctx, level, message, logger)
    return f"sent at level {level}"


@server.tool(annotations=READS)
async def log_all(ctx: Context) -> str:
    """Send a log message at every level, and one whose data is an object."""
    for level in get_args(LoggingLevel):
        await say(ctx, level, f"this is {level}", "showcase.levels")
    await say(ctx, "info", {"event": "done", "levels": len(get_args(LoggingLevel))})
    return "sent"
