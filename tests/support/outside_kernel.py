"""A kernel with a server for outside clients: its cells, and a client of bare HTTP that may say whatever it likes."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from tests.support.kernel_servers import LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from tests.support.kernels import Kernel

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
SECRET = "hunter22-the-secret"

SHOP = """
import pandas as pd
from typing import Annotated, Any
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
from pydantic import BaseModel, Field

class Trip(BaseModel):
    city: str = Field(min_length=2)
    days: int = 3

async def where() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)

shop = MCPServer("shop", log_level="ERROR")
calls = []

@shop.tool()
def add(a: int, b: int) -> int:
    "Adds."
    calls.append("add")
    return a + b

@shop.tool()
def total(rows: list[dict[str, Any]], column: str) -> float:
    "Adds up a column of rows."
    return sum(row[column] for row in rows)

@shop.tool()
def many(count: int) -> list[dict[str, Any]]:
    "Makes rows."
    return [{"id": n, "name": f"item {n}", "price": n * 1.5} for n in range(count)]

@shop.tool()
async def slow(steps: int, ctx: Context, until_heard: bool = False) -> str:
    "Reports progress, and with until_heard waits for a call of heard before it answers."
    import asyncio
    global reports_heard
    reports_heard = asyncio.Event()
    for n in range(steps):
        await ctx.report_progress(n + 1, steps)
    if until_heard:
        await reports_heard.wait()
    return f"{steps} steps"

@shop.tool()
async def heard() -> None:
    "Says that the client has the reports of slow."
    reports_heard.set()

@shop.tool()
async def plan(trip: Annotated[ElicitationResult[Trip], Resolve(where)]) -> str:
    "Asks where to."
    return f"{trip.action} {trip.data.city} {trip.data.days}"

@shop.tool()
def echo(value: Any) -> str:
    "Says what it got, as JSON."
    import json
    return json.dumps(value)

@shop.tool()
async def forever() -> str:
    "Never answers."
    import asyncio
    calls.append("begun")
    try:
        await asyncio.Event().wait()
    finally:
        calls.append("ended")
    return "never"

@shop.tool()
def bait() -> list[dict[str, Any]]:
    "Answers with what looks like a reference."
    return [{"$value": "hidden"}, {"$value": "df"}]

@shop.resource("shop://prices", mime_type="text/plain")
def prices() -> str:
    return "apple 1.5"

@shop.prompt()
def haggle(item: str) -> str:
    "Asks for less."
    return f"What would you take for a {item}?"
"""

VALUES = f"""
df = pd.DataFrame({{"city": ["Oslo", "Rome", "Bonn"], "price": [10.0, 20.0, 12.5]}})
hidden = {{"password": {SECRET!r}}}
hidden_frame = pd.DataFrame({{"secret_column": [{SECRET!r}] * 7}})

class Holder:
    def __init__(self):
        self.inner = {SECRET!r}
    @property
    def ran(self):
        calls.append("property")
        return {SECRET!r}
    def __getattr__(self, name):
        calls.append("getattr")
        return {SECRET!r}
    def __repr__(self):
        calls.append("repr")
        return {SECRET!r}

holder = Holder()
"""

CELLS = [LOAD, SHOP, VALUES, "%mcp connect shop", "%mcp share df", "%mcp allow 'shop:*' --for outside"]


class Bare:
    """A client of bare HTTP, which says whatever it likes.

    Args:
        url: Where the server is.
        token: The token; "" sends none.
        name: The name that it claims.
        version: The protocol version.
        headers: More headers, of each request.
    """

    def __init__(self, url: str, token: str, name: str = "bare", version: str = HANDSHAKE, **headers: str) -> None:
        self.name = name
        self.version = version
        self.session = ""
        self.notifications: list[dict[str, Any]] = []
        self._url = url
        own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if token:
            own["authorization"] = f"Bearer {token}"
        self.http = httpx2.Client(
            headers=own | {key.replace("_", "-"): value for key, value in headers.items()}, timeout=60
        )
        self._ids = itertools.count(1)

    def __enter__(self) -> Bare:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        """Send a body, of JSON unless it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {key.replace("_", "-"): value for key, value in headers.items()}
        if self.session:
            own = {"mcp-session-id": self.session, "mcp-protocol-version": self.version} | own
        elif self.version == MODERN:
            own = {"mcp-protocol-version": MODERN, **self._routes(body)} | own
        return self.http.post(self._url, content=content, headers=own)

    def _routes(self, body: Any) -> dict[str, str]:
        """The headers that say what a request of 2026-07-28 is."""
        if not isinstance(body, dict) or "method" not in body:
            return {}
        params = body.get("params") or {}
        name = params.get("name", params.get("uri"))
        return {"mcp-method": body["method"]} | ({"mcp-name": name} if isinstance(name, str) else {})

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a request."""
        if self.version == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": self.name, "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {**params, "_meta": meta | params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def begin(self) -> Bare:
        """Shake hands, where the version does."""
        if self.version == HANDSHAKE:
            params = {
                "protocolVersion": HANDSHAKE,
                "capabilities": {},
                "clientInfo": {"name": self.name, "version": "1"},
            }
            answer = self.post(self.message("initialize", params))
            assert answer.status_code == 200, answer.text
            self.session = answer.headers["mcp-session-id"]
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; return the message that answers it."""
        message = self.message(method, params)
        return self.answer(self.post(message), message["id"])

    def answer(self, response: httpx2.Response, number: Any) -> dict[str, Any]:
        """Return the message that answers a request, of a body of JSON or of events."""
        for message in self._messages(response):
            if message.get("id") == number and "method" not in message:
                return message
            self.notifications.append(message)
        raise AssertionError(f"no answer: {response.status_code} {response.text[:500]}")

    def _messages(self, response: httpx2.Response) -> Iterator[dict[str, Any]]:
        if "event-stream" not in response.headers.get("content-type", ""):
            yield response.json()
            return
        for line in response.text.splitlines():
            if line.startswith("data:") and line[5:].strip():
                yield json.loads(line[5:])

    def call(self, tool: str, /, **arguments: Any) -> tuple[bool, str]:
        """Call a tool; return whether that failed, and the text of the answer or of the error."""
        answer = self.request("tools/call", name=tool, arguments=arguments)
        if "error" in answer:
            return True, answer["error"]["message"]
        result = answer["result"]
        return bool(result.get("isError")), "\n".join(block.get("text", "") for block in result["content"])


def served(kernel: Kernel, *options: str) -> tuple[str, str]:
    """Serve the kernel; return the URL and the token."""
    shown = kernel.ok(" ".join(["%mcp serve --kernel", *options])).text
    [url] = set(re.findall(r"http://127\.0\.0\.1:\d+/mcp", shown))
    [file] = set(re.findall(r"/\S+\.token", shown))
    return url, Path(file).read_text()
