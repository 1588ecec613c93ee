"""A stdio server of 2026-07-28, in a few lines, that answers every call with its arguments and its process."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TEXT = {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "any": {"x": {}},
    "rows": {"rows": {"type": "array", "items": {"type": "array", "items": {"type": ["string", "number", "null"]}}}},
    "documents-table": {"data": {"type": "array", "items": {"type": "array", "items": TEXT}}, "max-width": TEXT},
    "records": {"rows": {"type": "array", "items": {"type": "object", "additionalProperties": True}}},
    "settings": {"values": {"type": "object", "additionalProperties": {"type": ["number", "null"]}}},
}
HELLO = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}},
    "serverInfo": {"name": "arguments", "version": "1"},
}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": properties}} for name, properties in SCHEMAS.items()
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "server/discover":
            return HELLO
        case "tools/list":
            return {"tools": TOOLS}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "whom"}]}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps([os.getpid(), params["arguments"]])}]}
        case "completion/complete":
            return {"completion": {"values": [params["argument"]["value"]]}}
        case "prompts/get":
            return {"messages": []}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "here"}]}
    return {"resources": [], "resourceTemplates": []}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            result |= answer(asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
