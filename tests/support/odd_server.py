"""A server whose answers a test writes, right or wrong: over stdio, HTTP, HTTP+SSE and WebSocket."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic._host import Host
    from mcp_magic.session.connection import Connection

TRANSPORTS = ("stdio", "http", "stream", "sse", "ws")
"""`http` answers with JSON, `stream` with an event stream."""
VERSION = "2025-06-18"
TOOL = {"name": "good", "inputSchema": {"type": "object"}}
ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
MODERN: dict[str, Any] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], **COMPLETE, **ABOUT},
    "tools/list": {"tools": [TOOL], **COMPLETE},
}
"""What replaces the usual answers in a server of 2026-07-28."""
USUAL: dict[str, Any] = {
    "initialize": {
        **ABOUT,
        "protocolVersion": VERSION,
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
    },
    "ping": {},
    "tools/list": {"tools": [TOOL]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
    "tools/call good": {"content": [{"type": "text", "text": "right"}]},
}
"""Method, and the name for `tools/call` and `prompts/get` or the cursor of a page, -> result.

A text is the answer after its id, or the whole answer if it has ID in the place of its id.
"""


def texts(answers: dict[str, Any], message: dict[str, Any]) -> list[str]:
    """Return the messages that answer a message; `answers` replaces parts of `USUAL`.

    What stands under "before " and a method is sent before its answer: notifications. With the form "batch" they come
    as one list, and with "pretty" on several lines.
    """
    if "id" not in message or "method" not in message:
        return []
    number, method, params = json.dumps(message["id"]), message["method"], message.get("params") or {}
    keys = [f"{method} {params.get('name') or params.get('cursor')}", method]
    table = {**USUAL, **answers}
    result = next((table[key] for key in keys if key in table), None)
    before = next((table[f"before {key}"] for key in keys if f"before {key}" in table), [])
    token = json.dumps((params.get("_meta") or {}).get("progressToken"))
    sent = [text if isinstance(text, str) else json.dumps({"jsonrpc": "2.0", **text}) for text in before]
    sent = [text.replace('"TOKEN"', token) for text in sent]
    if result is None:
        rest = '"error": {"code": -32601, "message": "Method not found"}'
    else:
        rest = result if isinstance(result, str) else f'"result": {json.dumps(result)}'
    sent.append(rest.replace("ID", number) if "ID" in rest else f'{{"jsonrpc": "2.0", "id": {number}, {rest}}}')
    if answers.get("form") == "batch":
        sent = [f"[{', '.join(sent)}]"]
    return [json.dumps(json.loads(text), indent=2) for text in sent] if answers.get("form") == "pretty" else sent


def http_app(answers: dict[str, Any], *, streams: bool) -> Any:
    """Return a streamable-HTTP server."""
    from tests.support.asgi import answer, read

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await answer(send, 405, b"")
            return
        body, _ = await read(receive)
        sent = texts(answers, json.loads(body))
        if not sent:
            await answer(send, 202, b"")
        elif streams:
            events = "".join(f"event: message\ndata: {text}\n\n" for text in sent)
            await answer(send, 200, events.encode(), "text/event-stream")
        else:
            await answer(send, 200, sent[-1].encode())

    return app


@asynccontextmanager
async def _websocket(answers: dict[str, Any]) -> AsyncIterator[str]:
    from websockets.asyncio.server import ServerConnection, serve

    async def handle(socket: ServerConnection) -> None:
        async for frame in socket:
            for text in texts(answers, json.loads(frame)):
                await socket.send(text)

    async with serve(handle, "127.0.0.1", 0, subprotocols=["mcp"]) as listener:  # type: ignore[list-item]
        yield f"ws://127.0.0.1:{next(iter(listener.sockets)).getsockname()[1]}/"


@asynccontextmanager
async def connected(
    host: Host, answers: dict[str, Any], transport: str = "stream", name: str = "odd", **options: Any
) -> AsyncIterator[Connection]:
    """Connect to a server with these answers."""
    options = {"protocol": "handshake", **options}
    if transport == "stdio":
        from tests.environments import ROOT

        command = [sys.executable, "-m", "tests.support.odd_server", json.dumps(answers)]
        yield await host.connect(command, name=name, cwd=str(ROOT), **options)
    elif transport == "ws":
        async with _websocket(answers) as url:
            yield await host.connect(url, name=name, **options)
            await host.close()
    else:
        from tests.support.asgi import serving  # a process over stdio need not import it
        from tests.support.odd_http import Streamed

        app = Streamed(answers) if transport == "sse" else http_app(answers, streams=transport == "stream")
        async with serving(app, lifespan="off") as url:
            options |= {"transport": "sse"} if transport == "sse" else {}
            yield await host.connect(f"{url}/{'sse' if transport == 'sse' else 'mcp'}", name=name, **options)
            await host.close()


def remarks(connection: Connection) -> str:
    """Return what was remarked about a server."""
    return "\n".join(connection.info().remarks)


if __name__ == "__main__":
    for line in sys.stdin:
        for text in texts(json.loads(sys.argv[1]), json.loads(line)):
            print(text, flush=True)
