"""JSON-RPC written by hand, so that it can be written wrong: no SDK is involved on the server's side."""

from __future__ import annotations

import json
from typing import Any

LEGACY, MODERN = "2025-06-18", "2026-07-28"
"""A protocol version of the handshake era, and the one without a handshake."""

_EMPTY = {
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
    "ping": {},
}


def answer_to(message: dict[str, Any], version: str, tools: list[str]) -> dict[str, Any] | None:
    """Return the answer of a decent server to anything but `tools/call`; None to what needs none.

    Args:
        message: What came.
        version: The protocol version that the server speaks.
        tools: The names of its tools.
    """
    if "id" not in message or "method" not in message:
        return None
    method = message["method"]
    result: dict[str, Any] | None = _EMPTY.get(method)
    about = {"capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "rogue", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    elif method == "initialize" and version == LEGACY:
        result = {"protocolVersion": LEGACY, **about}
    elif method == "server/discover" and version == MODERN:
        result = {"supportedVersions": [MODERN], **about}
    if result is None:
        error = {"code": -32601, "message": f"Method not found: {method}"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": completed(result, version, cacheable=True)}


def completed(result: dict[str, Any], version: str, *, cacheable: bool = False) -> dict[str, Any]:
    """Add what a result must have since 2026-07-28."""
    if version == LEGACY:
        return result
    kept = {"ttlMs": 0, "cacheScope": "private"} if cacheable else {}
    return {"resultType": "complete", **kept, **result}


def called(number: Any, version: str, text: str = "right") -> dict[str, Any]:
    """Return the answer to a call."""
    result = completed({"content": [{"type": "text", "text": text}]}, version)
    return {"jsonrpc": "2.0", "id": number, "result": result}


def line(message: Any) -> bytes:
    """Write a message as stdio servers do."""
    return json.dumps(message).encode() + b"\n"
