"""A small MCP server over stdio that waits before it answers anything: `python slow_server.py SECONDS`.

It speaks protocol 2025-11-25 and has one tool. Standard library only, so that it starts in a few milliseconds.
"""

import json
import sys
import time

ECHO = {"name": "echo", "description": "Return the arguments.", "inputSchema": {"type": "object"}}


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """Return the result of a request, or None if the method is not known."""
    match method:
        case "initialize":
            information = {"name": "slow", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
        case "tools/list":
            return {"tools": [ECHO]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
    return None


def main() -> None:
    """Wait, then answer until the input ends."""
    time.sleep(float(sys.argv[1]))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()
