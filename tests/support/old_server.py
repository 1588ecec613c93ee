"""A server of the handshake era that does not survive `server/discover`, of the standard library alone.

`python old_server.py DIARY WAY` writes a line to DIARY for each process that is started and each method that it is
asked. WAY is what becomes of a process whose first request is not `initialize`: `dies`, `closes` (its output, and lives
on), `hangs` (until it is told more, as Rust's tokio does with its input), `refuses` (all that comes after it, too),
`answers` (an error, after some noise on stderr), or `modern` (it refuses `initialize`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "old", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "Hello"}]},
    "ping": {},
}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
}
REFUSED = {"code": -32601, "message": "unknown method"}
UNSUPPORTED = {
    "code": -32022,
    "message": "unsupported",
    "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"},
}


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
    if way in ("refuses", "answers"):
        say(number, error=REFUSED)


def main(diary: Path, way: str) -> None:
    def note(text: str) -> None:
        with diary.open("a") as file:
            file.write(f"{text}\n")

    note("started")
    print("ready to serve", file=sys.stderr, flush=True)
    spoilt, begun = False, False
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if number is None:
            continue
        note(method)
        if way == "modern" and method == "server/discover":
            say(number, result=DISCOVERED)
        elif way == "modern" and not begun and method == "initialize":
            say(number, error=UNSUPPORTED)
        elif way == "modern":
            say(
                number, result={"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **RESULTS.get(method, {})}
            )
        elif spoilt:
            if way == "refuses":
                say(number, error=REFUSED)
        elif not begun and method != "initialize":
            spoilt = way != "answers"
            misbehave(way, number)
        else:
            begun = True
            say(number, **({"result": RESULTS[method]} if method in RESULTS else {"error": REFUSED}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
