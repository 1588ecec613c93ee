"""JSON-RPC messages as the proxy passes them on: as they are read, and what tells the two protocol eras apart.

Only what the proxy has to know is read; whatever else a message has stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any

Message = dict[str, Any]

MAX_BYTES = 64 * 1024 * 1024  # of a message, in both directions

META = "io.modelcontextprotocol/"

CLOSED, METHOD_NOT_FOUND, INVALID_REQUEST, PARSE_ERROR, INTERNAL_ERROR = -32000, -32601, -32600, -32700, -32603


def parsed(text: str | bytes) -> list[Message]:
    """Return the messages in a text, of which a batch has several; none if it has none.

    >>> parsed(b'[{"id": 1}, 2]'), parsed("nonsense")
    ([{'id': 1}], [])
    """
    try:
        data = json.loads(text if isinstance(text, str) else text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    return [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, dict)]


def params_of(message: Message) -> dict[str, Any]:
    """Return the parameters of a message."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def version_of(message: Message | None) -> str:
    """Return the protocol version that a message itself names, as those since 2026-07-28 do; "" if it names none."""
    meta = params_of(message or {}).get("_meta")
    version = meta.get(f"{META}protocolVersion") if isinstance(meta, dict) else None
    return version if isinstance(version, str) and re.fullmatch(r"[\x21-\x7E]{1,40}", version) else ""


def is_modern(message: Message | None) -> bool:
    """Whether a message stands by itself, as those since 2026-07-28 do."""
    return bool(version_of(message))


def is_request(message: Message) -> bool:
    """Whether a message is to be answered."""
    return isinstance(message.get("method"), str) and isinstance(message.get("id"), str | int)


def is_notification(message: Message) -> bool:
    """Whether a message has a method, and is not to be answered."""
    return isinstance(message.get("method"), str) and "id" not in message


def is_answer(message: Message) -> bool:
    """Whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def answer(request: Message, result: Message) -> Message:
    """Return the answer to a request; since 2026-07-28 it says that it is complete, and not to be kept."""
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if is_modern(request) else {}
    return {"jsonrpc": "2.0", "id": request["id"], "result": {**more, **result}}


def failure(request: Message, text: str, code: int = CLOSED) -> Message:
    """Return an error for a request; that of a call is a result that a model reads."""
    if request.get("method") == "tools/call":
        return answer(request, {"content": [{"type": "text", "text": text}], "isError": True})
    return refusal(text, code, request["id"])


def refusal(text: str, code: int, number: str | int | None = None) -> Message:
    """Return an error for what may be no request; `number` is its id, if it has one."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
