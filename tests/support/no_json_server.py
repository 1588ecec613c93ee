"""A server over stdio or WebSocket whose messages are no JSON."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.support.speaking import LEGACY, answer_to, called

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MARK = "@"
BREAKS: dict[str, str] = {
    "nested": "[" * 200 + "]" * 200,
    "huge_integer": "9" * 5000,
    "bare_word": "undefined",
    "open_bracket": "[" * 1000,
    "two_at_once": '1}}{"jsonrpc":"2.0","method":"x","params":{"a":1',
}
"""What makes a message no JSON -> how it is written where a value is."""

TOOLS = [*BREAKS, "id_last", "id_last_in_a_long_answer", "too_long_id_last"]
TOOLS += ["error", "notice", "request", "wrong_request", "right"]


def broken(message: dict[str, Any], how: str = "bare_word") -> str:
    """Return a message as text, with `MARK` replaced by what is no JSON."""
    return json.dumps(message).replace(f'"{MARK}"', BREAKS[how])


class Server:
    """What the server answers; `break_method` is a method whose answers are no JSON."""

    def __init__(self, break_method: str = "") -> None:
        self._broken = break_method
        self._waiting: Any = None

    def answers(self, message: dict[str, Any]) -> Iterator[str]:
        number = message.get("id")
        if number == "ask" and "error" in message:  # the client refuses the request of a tool
            yield json.dumps(called(self._waiting, LEGACY, json.dumps(message["error"])))
        elif message.get("method") == self._broken:
            yield broken({"jsonrpc": "2.0", "id": number, "result": {"_meta": {"a": MARK}}})
        elif message.get("method") == "tools/call":
            yield from self._call(message["params"]["name"], number)
        elif (answer := answer_to(message, LEGACY, TOOLS)) is not None:
            yield json.dumps(answer)

    def _call(self, tool: str, number: Any) -> Iterator[str]:
        result = {"content": [{"type": "text", "text": "x"}], "structuredContent": {"id": 0, "a": MARK}}
        ask = {"jsonrpc": "2.0", "id": "ask", "method": "roots/list"}
        data = {"level": "info", "data": MARK}
        self._waiting = number
        if tool in BREAKS:
            yield broken({"jsonrpc": "2.0", "id": number, "result": result}, tool)
        elif tool == "error":
            yield broken({"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "no", "data": MARK}})
        elif tool == "id_last":
            yield broken({"result": result, "jsonrpc": "2.0", "id": number})
        elif tool == "id_last_in_a_long_answer":
            yield broken({"result": {"a": MARK, "b": [[]] * 300_000}, "jsonrpc": "2.0", "id": number})
        elif tool == "too_long_id_last":
            yield json.dumps({"result": {"a": "x" * 3_000_000, "id": 0}, "jsonrpc": "2.0", "id": number})
        elif tool == "request":
            yield broken({**ask, "params": {"a": MARK}})
        elif tool == "wrong_request":
            yield json.dumps({**ask, "params": 5})
        else:
            if tool == "notice":
                yield broken({"jsonrpc": "2.0", "method": "notifications/message", "params": data})
            yield json.dumps(called(number, LEGACY, "right"))


@asynccontextmanager
async def serve_no_json(break_method: str = "") -> AsyncIterator[str]:
    """Serve over WebSocket on a free port of 127.0.0.1 and yield the URL."""
    from websockets.asyncio.server import ServerConnection, serve

    async def handle(socket: ServerConnection) -> None:
        server = Server(break_method)
        async for frame in socket:
            for text in server.answers(json.loads(frame)):
                await socket.send(text)

    async with serve(handle, "127.0.0.1", 0, subprotocols=["mcp"]) as listener:  # type: ignore[list-item]
        yield f"ws://127.0.0.1:{next(iter(listener.sockets)).getsockname()[1]}/"


if __name__ == "__main__":
    serving = Server(*sys.argv[1:])
    for line in sys.stdin:
        for text in serving.answers(json.loads(line)):
            print(text, flush=True)
