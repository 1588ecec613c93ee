"""A stdio server of 2026-07-28 whose results do not say what they are, or the word that it is started with."""

from __future__ import annotations

import json
import sys
from typing import Any

HELLO = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
RESULTS: dict[str, dict[str, Any]] = {
    "server/discover": {**HELLO, "serverInfo": {"name": "terse", "version": "1"}, "resultType": "complete"},
    "tools/list": {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"},
    "tools/call": {"content": [{"type": "text", "text": "here"}]},
}

for word in sys.argv[1:]:
    RESULTS["tools/call"]["resultType"] = word

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS[asked["method"]]}), flush=True)
