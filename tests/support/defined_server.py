"""A stdio server of the standard library with tools as its one argument defines them, in JSON.

The argument has `tools`, whose definitions are listed as they are, and `answers`, the result of a call by the tool's
name. A tool without an answer returns its arguments.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.plain import COMPLETE, MODERN


def command(*tools: dict[str, Any], answers: dict[str, Any] | None = None) -> list[str]:
    """Return the command of a server with these tools."""
    return [
        sys.executable,
        "-m",
        "tests.support.defined_server",
        json.dumps({"tools": tools, "answers": answers or {}}),
    ]


def main(tools: list[dict[str, Any]], answers: dict[str, Any]) -> None:
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "defined", "version": "1"}}
    listings = {"tools/list": {"tools": tools}, "server/discover": {"supportedVersions": [MODERN], **about}}
    for line in sys.stdin:
        message = json.loads(line)
        params, method = message.get("params") or {}, message.get("method")
        if message.get("id") is None:
            continue
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            echo = {"content": [{"type": "text", "text": json.dumps(arguments)}], "structuredContent": arguments}
            answer = {"result": {"resultType": "complete", **answers.get(params["name"], echo)}}
        elif method in listings:
            answer = {"result": {**COMPLETE, **listings[method]}}
        else:
            answer = {"error": {"code": -32601, "message": f"Method not found: {method}"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
