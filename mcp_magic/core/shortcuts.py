"""Calling, reading and prompting by `"server:name"`, whichever session it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.core import lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.core.connection import Connection
    from mcp_magic.results import PromptResult, ResourceResult, ToolResult

__all__ = ["Shortcuts"]


class Shortcuts:
    """What a `Host` does with a session that it finds by name; it adds the finding."""

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> ToolResult:
        """Call a tool by `"server:tool"`; see `Connection.call`."""
        connection, definition = await self.resolve(tool)
        return await connection.call(definition.name, arguments, **named)

    async def read(
        self,
        uri: str,
        *,
        server: str | None = None,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
    ) -> ResourceResult:
        """Read a resource from the server that lists it, or whose template matches it; see `Connection.read`."""
        owner = lookup.owner_of(uri, self.find(server))
        return await owner.read(uri, timeout=timeout, max_total_timeout=max_total_timeout)

    async def prompt(
        self,
        prompt: str,
        arguments: Mapping[str, str] | None = None,
        /,
        *,
        timeout: float | None = None,
        max_total_timeout: float | None = None,
        **named: str,
    ) -> PromptResult:
        """Get a prompt by `"server:prompt"`; see `Connection.prompt`."""
        connection, definition = await self.resolve(prompt, "prompts")
        given = {**(arguments or {}), **named}
        return await connection.prompt(definition.name, given, timeout=timeout, max_total_timeout=max_total_timeout)

    # What the host adds

    def find(self, server: str | None = None) -> list[Connection]:
        """Return the connection with a name, or all that are open."""
        raise NotImplementedError

    async def resolve(self, name: str, kind: str = "tools") -> tuple[Connection, Any]:
        """Find a tool (or prompt) by `"server:name"`, or by its name alone while that is unique."""
        raise NotImplementedError
