"""A stdio server that writes down what happens to it, and dies: `python dying_server.py LOG`.

It is started again and again, and so made of the standard library alone: the SDK takes most of a second to import.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

DYING = Path(__file__)
HINTS: dict[str, dict[str, bool]] = {
    "die": {},
    "read": {"readOnlyHint": True},  # dies the first time
    "always_die": {"idempotentHint": True},
    "pid": {},
}
INPUT = {"type": "object", "properties": {}}
KEPT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
TOOLS = [{"name": name, "inputSchema": INPUT, "annotations": hints} for name, hints in HINTS.items()]
ABOUT = {"serverInfo": {"name": "dying", "version": "1"}, "supportedVersions": ["2026-07-28"]}


def note(event: str) -> int:
    """Write down that something happened, and return how often it has."""
    with Path(sys.argv[1]).open("a") as file:
        file.write(f"{event}\n")
    return Path(sys.argv[1]).read_text().splitlines().count(event)


def called(tool: str) -> dict[str, Any]:
    """Return a tool's result, if it lives to have one."""
    times = note(tool)
    if tool in ("die", "always_die") or (tool == "read" and times == 1):
        os._exit(3)
    text = str(os.getpid()) if tool == "pid" else tool
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "tools/call":
        return called(params["name"])
    return {"tools": TOOLS, **KEPT} if method == "tools/list" else {"capabilities": {"tools": {}}, **ABOUT, **KEPT}


if __name__ == "__main__":
    note("start")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
