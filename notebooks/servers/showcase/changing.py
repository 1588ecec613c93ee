"""Tools that change what the server offers while it runs, and tell its clients.

There are two ways to tell them: `ctx.notify_...` reaches clients of protocol 2026-07-28, which listen to
changes on a stream of their own, and `ctx.session.send_...` the older ones. Each is silent for the others.
"""

from collections.abc import Callable
from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp_types import ToolAnnotations
from pydantic import Field

from showcase.app import READS, server

CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
REMOVES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)

COUNTER = "showcase://counter"

Name = Annotated[str, Field(description="Letters, digits and _", pattern=r"^\w+$", max_length=40)]


class State:
    """What the tools here have changed."""

    counter = 0
    tools: set[str] = set()  # noqa: RUF012
    resources: set[str] = set()  # noqa: RUF012
    prompts: set[str] = set()  # noqa: RUF012


def answering(name: str) -> Callable[[], str]:
    """Return a function for a new tool or prompt."""

    def answer() -> str:
        return f"I am {name}"

    return answer


def claim(name: str, taken: set[str]) -> None:
    """Refuse a name that is in use."""
    if name in taken:
        raise ToolError(f"There is a {name!r} already.")
    taken.add(name)


@server.tool(annotations=CHANGES)
async def add_tool(name: Name, ctx: Context) -> str:
    """Add a tool `extra_NAME` to this server."""
    claim(name, State.tools)
    server.add_tool(answering(name), name=f"extra_{name}", description="Added at run time.", annotations=READS)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return f"added extra_{name}"


@server.tool(annotations=REMOVES)
async def remove_tool(name: Name, ctx: Context) -> str:
    """Remove a tool that add_tool added."""
    if name not in State.tools:
        raise ToolError(f"add_tool did not add {name!r}.")
    State.tools.remove(name)
    server.remove_tool(f"extra_{name}")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return f"removed extra_{name}"


@server.tool(annotations=CHANGES)
async def add_resource(name: Name, ctx: Context) -> str:
    """Add a resource `showcase://extra/NAME` to this server."""
    claim(name, State.resources)
    uri = f"showcase://extra/{name}"
    server.add_resource(TextResource(uri=uri, name=name, description="Added at run time.", text=f"I am {name}"))
    await ctx.notify_resources_changed()
    await ctx.session.send_resource_list_changed()
    return f"added {uri}"


@server.tool(annotations=CHANGES)
async def add_prompt(name: Name, ctx: Context) -> str:
    """Add a prompt `extra_NAME` to this server."""
    claim(name, State.prompts)
    server.add_prompt(Prompt.from_function(answering(name), name=f"extra_{name}", description="Added at run time."))
    await ctx.notify_prompts_changed()
    await ctx.session.send_prompt_list_changed()
    return f"added extra_{name}"


@server.resource(COUNTER, mime_type="application/json")
def counter() -> str:
    """How often `count` was called, as JSON."""
    return f'{{"counter": {State.counter}}}'


@server.tool(annotations=CHANGES)
async def count(ctx: Context) -> int:
    """Add one to the resource showcase://counter, and tell who subscribed to it."""
    State.counter += 1
    await ctx.notify_resource_updated(COUNTER)
    await ctx.session.send_resource_updated(COUNTER)
    return State.counter
