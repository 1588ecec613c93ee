"""A shop whose session is exported: answers of many kinds, and names and texts that want to be code."""

from __future__ import annotations

import os
import sys
import uuid
from datetime import UTC, datetime
from itertools import count
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

HOSTILE = '*/ } import os; os._exit(3) /* """ \' ${process.exit(3)} `x` </script>\n\\'
"""A name of a tool, of its argument, and its answer."""

numbers = count(1)


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)


def search(text: str, limit: int = 2) -> list[dict[str, Any]]:
    """Find items."""
    return [{"name": f"{text} {number}", "price": 2.5 * number, "left": None} for number in range(1, limit + 1)]


def order(item: str) -> dict[str, Any]:
    """Order an item: the answer is another each time."""
    return {"id": str(uuid.uuid4()), "at": datetime.now(UTC).isoformat(), "item": item}


def ticket() -> int:
    """Give the next number."""
    return next(numbers)


def fail(why: str) -> str:
    """Report an error."""
    raise ToolError(why)


def login(user: str, password: str) -> str:
    """Log in."""
    return f"welcome {user}" if password == "sesame-4711" else "wrong password"


async def pack(steps: int, context: Context[Any]) -> str:
    """Report progress."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"box {step + 1}")
    return "packed"


def picture() -> Image:
    """Return a dot."""
    return Image(data=PNG, format="png")


def long(length: int) -> str:
    """Return a long text."""
    return "so long " * length


def where() -> str:
    """Say with which token it was started."""
    return os.environ.get("SHOP_KEY", "none")


def opening() -> str:
    """Opening hours."""
    return "9 to 5"


def advert(item: str) -> str:
    """Praise an item."""
    return f"Praise {item}."


def hostile(text: str) -> str:
    """Answer with what wants to be code."""
    return f"{HOSTILE}{text}"


def make() -> MCPServer[Any]:
    """Return the server."""
    server: MCPServer[Any] = MCPServer("shop", version="1.2", log_level="ERROR")
    for function in (search, order, ticket, fail, login, pack, picture, long, where):
        server.tool()(function)
    server.tool(name=HOSTILE.replace("\n", " "))(hostile)
    server.resource("shop://opening")(opening)
    server.prompt()(advert)
    return server


if __name__ == "__main__":
    sys.exit(make().run())  # type: ignore[func-returns-value]
