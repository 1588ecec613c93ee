"""A server over stdio that floods its host: with questions, log messages, progress, changes and lines of stderr.

Written with the standard library alone, so that it starts at once.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

TOOLS = ("ask", "sample", "log", "progress", "change", "update", "stderr", "echo")
SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}, "size": {"type": "integer"}}}
QUESTION = {"type": "object", "properties": {"city": {"type": "string"}}}
CHANGED = [0]
"""The sizes of the tool that is listed under a new name each time, the last one last."""
WAITING: dict[str, tuple[Any, int, Counter[str]]] = {}
"""The questions without an answer, by id: the call that they are asked for, how many it asks, and its answers."""


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(number: Any, result: dict[str, Any]) -> None:
    send(id=number, result=result)


def say(number: Any, text: str) -> None:
    answer(number, {"content": [{"type": "text", "text": text}]})


def question(tool: str, number: int, size: int) -> tuple[str, dict[str, Any]]:
    text = f"question {number} " + "x" * size
    if tool == "sample":
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return "sampling/createMessage", {"messages": [message], "maxTokens": 10}
    return "elicitation/create", {"message": text, "requestedSchema": QUESTION}


def ask(call: Any, tool: str, count: int, size: int) -> None:
    answers: Counter[str] = Counter()
    for number in range(count):
        name = f"{call}-{number}"
        WAITING[name] = (call, count, answers)
        method, params = question(tool, number, size)
        send(id=name, method=method, params=params)


def answered(message: dict[str, Any]) -> None:
    call, count, answers = WAITING.pop(message["id"])
    result = message.get("result", {})
    answers[message["error"]["message"] if "error" in message else result.get("action", "replied")] += 1
    if answers.total() == count:
        say(call, json.dumps(answers))


def flood(tool: str, count: int, size: int, meta: dict[str, Any]) -> None:
    text = "x" * size
    for number in range(count):
        if tool == "log":
            send(method="notifications/message", params={"level": "warning", "data": f"{number} {text}"})
        elif tool == "progress":
            told = {"progressToken": meta.get("progressToken"), "progress": number, "message": f"{number} {text}"}
            send(method="notifications/progress", params=told)
        elif tool == "change":
            CHANGED.append(size)
            send(method="notifications/tools/list_changed")
        elif tool == "update":
            send(method="notifications/resources/updated", params={"uri": f"flood://{number}/{text}"})
        elif tool == "stderr":
            sys.stderr.write(f"{number} {text}\n")
    sys.stderr.flush()


def call(number: Any, params: dict[str, Any]) -> None:
    tool, arguments = params["name"], params.get("arguments", {})
    count, size = arguments.get("count", 1), arguments.get("size", 0)
    if tool in ("ask", "sample"):
        ask(number, tool, count, size)
    else:
        flood(tool, count, size, params.get("_meta", {}))
        say(number, "done")


def handle(message: dict[str, Any]) -> None:
    method, number = message.get("method"), message.get("id")
    if method is None:
        answered(message)
    elif method == "initialize":
        size = int(sys.argv[1]) if len(sys.argv) > 1 else 10
        offers = {"tools": {"listChanged": True}, "logging": {}, "resources": {"subscribe": True}}
        told = {"serverInfo": {"name": "flood" + "o" * size, "version": "1" * size}, "instructions": "i" * size}
        answer(number, {"protocolVersion": "2025-06-18", "capabilities": offers, **told})
    elif method == "tools/list":
        new = [{"name": f"new{number}", "description": "x" * CHANGED[-1], "inputSchema": SCHEMA}]
        answer(number, {"tools": [{"name": name, "inputSchema": SCHEMA} for name in TOOLS] + new})
    elif method == "tools/call":
        call(number, message["params"])
    elif number is not None and method in ("ping", "logging/setLevel", "resources/subscribe"):
        answer(number, {})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    for line in sys.stdin:
        handle(json.loads(line))
        sys.stdout.flush()
