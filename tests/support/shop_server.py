"""A shop in two versions, for checks of what a recording of the first says about the second; a program over stdio."""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

READ_ONLY = ToolAnnotations(read_only_hint=True)


def shop_server(version: int = 1) -> MCPServer:
    """In the second version a price, a shape and a schema change, a tool fails, one is gone, and one is new."""
    server = MCPServer("shop", log_level="ERROR")
    _add_goods(server, version)
    _add_what_varies(server)

    @server.tool()
    def buy(item: str) -> str:
        return f"bought {item}"

    @server.resource("shop://about")
    def about() -> str:
        return "A shop since 1887"

    @server.prompt()
    def pitch(item: str) -> str:
        return f"Sell {item} in {'one sentence' if version == 1 else 'three words'}"

    if version == 1:

        @server.tool(annotations=READ_ONLY)
        def hours() -> str:
            return "9 to 5"

    else:

        @server.tool(annotations=READ_ONLY)
        def offers() -> str:
            return "none"

    return server


def _add_goods(server: MCPServer, version: int) -> None:
    @server.tool(annotations=READ_ONLY)
    def price(item: str) -> float:
        prices = {"tea": 2.0 + version, "milk": 1.5}
        if item not in prices:
            raise ToolError(f"no {item} here")
        return prices[item]

    @server.tool(annotations=READ_ONLY)
    def search(text: str) -> dict[str, Any]:
        rows = [{"id": 0, "name": "milk"}, {"id": 1, "name": "tea"}]
        if version == 2:
            rows = [{**row, "id": str(row["id"])} for row in rows]
        return {"rows": [row for row in rows if text in str(row["name"])]}

    @server.tool(annotations=READ_ONLY)
    def stock(item: str) -> int:
        if version == 2:
            raise ToolError("the store room is locked")
        return len(item)


def _add_what_varies(server: MCPServer) -> None:
    visits, items = itertools.count(1), ["milk", "tea"]

    @server.tool(annotations=READ_ONLY, structured_output=False)
    def status() -> str:
        now = datetime.now(UTC).isoformat()
        return f'{{"at": "{now}", "visit": {next(visits)}, "id": "{uuid4()}", "open": true}}'

    @server.tool(annotations=READ_ONLY)
    def shuffled() -> list[str]:
        items.reverse()
        return list(items)


if __name__ == "__main__":
    shop_server(int(sys.argv[1]) if len(sys.argv) > 1 else 1).run()
