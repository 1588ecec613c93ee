"""A server whose resource and tool change when a tool is called, of either protocol era.

Run `python changing_server.py` for 2026-07-28 over stdio, `--handshake` for the eras before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

URI = "test://note"
ERAS = ("2026-07-28", "handshake")
ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}


class Announcing(Server[Any]):
    """A server that says so when its tools have changed, in each era."""

    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


class Changing:
    """The server, whose listings and resource may be kept for `ttl` milliseconds.

    Attributes:
        server: It.
        handshake: Whether it is one of the eras before 2026-07-28.
        text: What the resource says.
        description: What the tool `work` says of itself.
        schema: Its input schema.
        subscribed: The URIs of `resources/subscribe` and, with a minus, of `resources/unsubscribe`.
        reads: How often the resource was read.
        lists: How often tools were listed.
    """

    def __init__(self, *, handshake: bool = False, ttl: int = 0) -> None:
        self.handshake = handshake
        self.text = "one"
        self.description, self.schema = "Works.", dict(ANYTHING)
        self.subscribed: list[str] = []
        self.reads = self.lists = 0
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        handlers: dict[str, Any] = {"on_subscriptions_listen": self.listen}
        if handshake:
            handlers = {"on_subscribe_resource": self._subscribe, "on_unsubscribe_resource": self._unsubscribe}
        self.server: Server[Any] = Announcing(
            "changing",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_read_resource=self._read,
            cache_hints={method: CacheHint(ttl) for method in ("tools/list", "resources/list", "resources/read")},
            **handlers,
        )

    async def announce(self, times: int = 1) -> None:
        """Say that the resource has changed, to whoever listens."""
        for _ in range(times):
            await self.bus.publish(ResourceUpdated(URI))

    async def announce_tools(self) -> None:
        """Say that the tools have changed."""
        await self.bus.publish(ToolsListChanged())

    async def _tools(self, context: Any, params: Any) -> types.ListToolsResult:
        self.lists += 1
        names = ("set_text", "set_tool")
        tools = [types.Tool(name=name, description=name, input_schema=ANYTHING) for name in names]
        return types.ListToolsResult(
            tools=[*tools, types.Tool(name="work", description=self.description, input_schema=self.schema)]
        )

    async def _call(self, context: Any, params: Any) -> types.CallToolResult:
        arguments = params.arguments or {}
        if params.name == "set_text":
            self.text = arguments["text"]
            for _ in range(arguments.get("times", 1)):
                await self._say(context, "send_resource_updated", ResourceUpdated(arguments.get("uri", URI)))
        elif params.name == "set_tool":
            self.description = arguments.get("description", self.description)
            self.schema = arguments.get("schema", self.schema)
            await self._say(context, "send_tool_list_changed", ToolsListChanged())
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"worked with {arguments}")])

    async def _say(self, context: Any, method: str, event: Any) -> None:
        if self.handshake:
            await getattr(context.session, method)(*([event.uri] if hasattr(event, "uri") else []))
        else:
            await self.bus.publish(event)

    async def _resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="note", uri=URI, mime_type="text/plain")])

    async def _read(self, context: Any, params: Any) -> types.ReadResourceResult:
        self.reads += 1
        text = types.TextResourceContents(uri=str(params.uri), text=self.text, mime_type="text/plain")
        return types.ReadResourceResult(contents=[text])

    async def _subscribe(self, context: Any, params: Any) -> types.EmptyResult:
        self.subscribed.append(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, context: Any, params: Any) -> types.EmptyResult:
        self.subscribed.append(f"-{params.uri}")
        return types.EmptyResult()


async def connect(host: Host, era: str, *, process: bool = False) -> Connection:
    """Connect the server as one of an era."""
    handshake = era == "handshake"
    command = [sys.executable, str(Path(__file__)), *(["--handshake"] if handshake else [])]
    target: Any = command if process else Changing(handshake=handshake).server
    connection = await host.connect(target, name="changing", protocol="handshake" if handshake else None)
    assert (connection.protocol_version == "2026-07-28") == (not handshake)
    return connection


async def main() -> None:
    from mcp.server.runner import serve_loop
    from mcp.server.stdio import stdio_server

    changing = Changing(handshake="--handshake" in sys.argv)
    options = changing.server.create_initialization_options()
    async with stdio_server() as (read, write):
        if changing.handshake:
            await serve_loop(changing.server, read, write, lifespan_state={}, init_options=options)
        else:
            await changing.server.run(read, write, options)


if __name__ == "__main__":
    anyio.run(main)
