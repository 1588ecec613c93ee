"""A server over stdio whose listings never end: pages of long definitions, and pages of many small ones."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.speaking import LEGACY, answer_to

LONG, MANY = 12_000_000, 20_000
"""Characters of the description on each page of tools, and resources on each page."""


def page(method: str, number: int) -> dict[str, Any]:
    """Return a page of a listing."""
    if method == "tools/list":
        tool = {"name": f"tool_{number}", "description": "x" * LONG, "inputSchema": {"type": "object"}}
        items: Any = {"tools": [tool]}
    else:
        items = {"resources": [{"name": "x", "uri": f"x://{number}/{at}"} for at in range(MANY)]}
    return {**items, "nextCursor": str(number + 1)}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method", ""), message.get("id")
        if method in ("tools/list", "resources/list"):
            result = page(method, int((message.get("params") or {}).get("cursor") or 0))
            answer: Any = {"jsonrpc": "2.0", "id": number, "result": result}
        else:
            answer = answer_to(message, LEGACY, [])
            if answer is not None and "capabilities" in answer.get("result", {}):
                answer["result"]["capabilities"] = {"tools": {}, "resources": {}}
        if answer is not None:
            print(json.dumps(answer), flush=True)
