"""A server of the handshake era that does not survive `server/discover`, of the standard library alone.

`python old_server.py DIARY WAY [ERROR]` writes a line to DIARY for each process that is started and each method that it
is asked. WAY is what becomes of a process whose first request is not `initialize`: `dies`, `closes` (its output, and
lives on), `hangs` (until it is told more, as Rust's tokio does with its input), `refuses` (all that comes after it,
too), `answers` (an error, after some noise on stderr), `modern` (it refuses `initialize`), or `only VERSION` (it
refuses other versions by ERROR).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}
RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-06-18", **ABOUT},
    "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "Hello"}]},
    "ping": {},
}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **COMPLETE}
REFUSED = {"code": -32601, "message": "unknown method"}
SUPPORTED = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
UNSUPPORTED = {"code": -32022, "message": "unsupported", "data": SUPPORTED}


def say(number: object, **said: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": number, **said}), flush=True)


def misbehave(way: str, number: object) -> None:
    """Do what such a server does when its first request is `server/discover`."""
    print("Failed to validate request: server/discover\n  Input should be 'ping'", file=sys.stderr, flush=True)
    if way == "dies":
        sys.exit(3)
    if way == "closes":
        os.close(1)
    if way in ("hangs", "closes"):
        sys.stdin.readline()
        sys.exit(3)
    say(number, error=REFUSED)


def usual(method: str, version: str) -> dict[str, Any]:
    """Return the members of the answer of one that speaks only this version, if any."""
    if method == "initialize" and version:
        asked = message["params"]["protocolVersion"]
        return {"result": {"protocolVersion": version, **ABOUT}} if asked == version else {"error": json.loads(ERROR)}
    return {"result": RESULTS[method]} if method in RESULTS else {"error": REFUSED}


def note(text: str) -> None:
    with Path(DIARY).open("a") as file:
        file.write(f"{text}\n")


DIARY, WAY, ERROR = [*sys.argv[1:], ""][:3]
note("started")
print("ready to serve", file=sys.stderr, flush=True)
spoilt, begun = False, False
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if number is None:
        continue
    note(method)
    if WAY == "modern" and method == "server/discover":
        say(number, result=DISCOVERED)
    elif WAY == "modern" and not begun and method == "initialize":
        say(number, error=UNSUPPORTED)
    elif WAY == "modern":
        say(number, result={**COMPLETE, **RESULTS.get(method, {})})
    elif spoilt:
        if WAY == "refuses":
            say(number, error=REFUSED)
    elif not begun and method != "initialize" and not WAY.startswith("only"):
        spoilt = WAY != "answers"
        misbehave(WAY, number)
    else:
        begun = True
        say(number, **usual(method, WAY.removeprefix("only ") if WAY.startswith("only") else ""))
