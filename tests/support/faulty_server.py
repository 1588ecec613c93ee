"""A server with twelve planted faults, or with none: `faulty_server.py [correct] [http PORT]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jsonschema_rs

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def of(required: str = "", **properties: Any) -> dict[str, Any]:
    """Return an input schema without other members."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


TOOLS: dict[str, dict[str, Any]] = {
    "tags": of("tags", tags={"type": "array", "items": TEXT}),
    "note": of("text", text=TEXT, title=TEXT),
    "seek": of("offset", offset=NUMBER),
    "extra": of("name", name=TEXT),
    "limit": of("count", count={"type": "integer", "minimum": 1, "maximum": 50}),
    "negative": of("delta", delta=NUMBER),
    "total": of("values", values={"type": "array", "items": {"type": "number"}, "minItems": 1}),
    "long": of("text", text=TEXT),
    "ratio": of("part whole", part=NUMBER, whole=NUMBER),
    "page": of("number", number=NUMBER),
    "block": of("style", style={"enum": ["plain", "bold", "code"]}),
    "nested": of(
        "where",
        where={
            "type": "object",
            "properties": {"city": TEXT, "country": {"anyOf": [TEXT, {"type": "null"}]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    ),
}
FAULTS = {
    "tags": "dies",
    "note": "dies",
    "seek": "dies",
    "extra": "accepts",
    "limit": "accepts",
    "negative": "refuses",
    "total": "output",
    "long": "hangs",
    "ratio": "traceback",
    "page": "internal error",
    "block": "protocol",
    "nested": "refuses",
}
"""Tool -> the kind of its fault."""

OUTPUT = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

TRACEBACK = 'Traceback (most recent call last):\n  File "server.py", line 9, in ratio\nZeroDivisionError: by zero'


class Invalid(Exception):
    """The arguments are invalid."""


def broken(tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of the broken server where its fault shows, None elsewhere; or raise, end or wait."""
    value = next(iter(arguments.values()), None)
    if (tool, value) == ("tags", []) or (tool == "note" and "\0" in str(arguments.get("text"))):
        os._exit(3)
    if tool == "seek" and isinstance(value, int) and value >= 2**63:
        os._exit(4)
    if tool == "long" and isinstance(value, str) and len(value) > 5_000:
        time.sleep(3600)
    if tool == "negative" and isinstance(value, int) and value < 0:
        raise Invalid(
            "1 validation error for negative\ndelta\n  Input should be 0 or more [type=greater_than_equal, input_"
        )
    if tool == "nested" and isinstance(value, dict) and value.get("country", "") is None:
        raise Invalid("country: null is invalid")
    if tool == "ratio" and isinstance(arguments.get("whole"), int) and arguments["whole"] == 0:
        return {"content": [{"type": "text", "text": TRACEBACK}], "isError": True}
    if tool == "page" and isinstance(value, int) and value > 10**6:
        raise RuntimeError
    if tool == "block" and value == "code":
        return {"content": [{"text": "x"}]}
    return None


SCHEMAS = {name: jsonschema_rs.validator_for(schema) for name, schema in TOOLS.items()}
LENIENT = {"extra": of(**TOOLS["extra"]["properties"]) | {"additionalProperties": True, "required": ["name"]}}
LENIENT["limit"] = of("count", count={"type": "integer"})


def call(tool: str, arguments: dict[str, Any], *, correct: bool) -> dict[str, Any]:
    """Return the result of a call, or raise."""
    if not correct and isinstance(arguments, dict) and (result := broken(tool, arguments)) is not None:
        return result
    schema = jsonschema_rs.validator_for(LENIENT[tool]) if not correct and tool in LENIENT else SCHEMAS[tool]
    if not schema.is_valid(arguments):
        raise Invalid(f"Input validation error: {tool}")
    text = {
        "content": [{"type": "text", "text": "no such city" if tool == "nested" else "ok"}],
        "isError": tool == "nested",
    }
    if tool == "total":
        total = sum(arguments["values"])
        is_whole = abs(total) < 1e300 and total == int(total)
        return {**text, "structuredContent": {"sum": int(total) if is_whole else total if not correct else 0}}
    return text


def answer(message: dict[str, Any], *, correct: bool) -> dict[str, Any] | None:
    """Return the answer to a message, None to a notification."""
    params = message.get("params") or {}
    head = {"jsonrpc": "2.0", "id": message.get("id")}
    match message.get("method"):
        case "initialize":
            about = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
            return {**head, "result": about}
        case "tools/list":
            tools = [
                {"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": True}}
                | ({"outputSchema": OUTPUT} if name == "total" else {})
                for name, schema in TOOLS.items()
            ]
            tools.append({"name": "delete", "inputSchema": of("name", name=TEXT)})
            return {**head, "result": {"tools": tools}}
        case "tools/call":
            try:
                return {**head, "result": call(params["name"], params.get("arguments", {}), correct=correct)}
            except Invalid as error:
                return {**head, "error": {"code": -32602, "message": str(error)}}
            except Exception:
                return {**head, "error": {"code": -32603, "message": "internal error"}}
        case "ping":
            return {**head, "result": {}}
    if "id" in message:
        return {**head, "error": {"code": -32601, "message": "method not found"}}
    return None


def serve_stdio(*, correct: bool) -> None:
    """Answer line by line."""
    for line in sys.stdin:
        if (reply := answer(json.loads(line), correct=correct)) is not None:
            print(json.dumps(reply), flush=True)


def serve_http(port: int, *, correct: bool) -> None:
    """Answer requests; a call that hangs has a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # else the body waits for the receipt of the headers, 40 ms

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = answer(message, correct=correct)
            body = b"" if reply is None else json.dumps(reply).encode()
            self.send_response(202 if reply is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            self.send_error(405)

        def log_message(self, *about: Any) -> None:
            """Write nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def end_with_stdin() -> None:
    """End this process when the one that started it has gone."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    is_correct = "correct" in sys.argv
    if "http" in sys.argv:
        while True:  # it is started again, as a service is
            command = [sys.executable, __file__, *sys.argv[1:-2], "once", sys.argv[-1]]
            subprocess.Popen(command, stdin=subprocess.PIPE).wait()
    elif "once" in sys.argv:
        threading.Thread(target=end_with_stdin, daemon=True).start()
        serve_http(int(sys.argv[-1]), correct=is_correct)
    else:
        serve_stdio(correct=is_correct)
