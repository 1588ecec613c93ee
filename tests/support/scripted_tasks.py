"""A server of tasks whose every answer is written by hand, over HTTP in the test's own loop: no SDK on its side."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.asgi import answer, read, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from mcp_magic import Connection, Host

TASKS = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
UNKNOWN = {"code": -32602, "message": "Failed to retrieve task: Task not found"}
STAMP = "2026-07-28T10:00:00Z"


class Asked(NamedTuple):
    """A request that came."""

    method: str
    params: dict[str, Any]
    headers: dict[str, str]


class Failed(Exception):
    """A step raises it to answer with a JSON-RPC error."""


def text(value: str, **more: Any) -> dict[str, Any]:
    """Return a result of a tool."""
    return {"content": [{"type": "text", "text": value}], **more}


def state(status: str = "working", **more: Any) -> dict[str, Any]:
    """Return a state of a task, but for its id."""
    return {"status": status, "createdAt": STAMP, "lastUpdatedAt": STAMP, "ttlMs": 60000, "pollIntervalMs": 1, **more}


def done(value: str = "built") -> dict[str, Any]:
    """Return the state of a completed task."""
    return state("completed", result=text(value))


def form(message: str = "Which branch?") -> dict[str, Any]:
    """Return a question for a text."""
    schema = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


class Scripted:
    """Answers `tools/call` with a task, and `tasks/get` with one step of its script after the other.

    Args:
        steps: The states of the task, or functions that return one; the last is repeated.
        created: The first state.

    Attributes:
        asked: The requests.
        steps: What is left of the script.
    """

    def __init__(self, *steps: Any, created: dict[str, Any] | None = None) -> None:
        self.asked: list[Asked] = []
        self.steps: list[Any] = list(steps)
        self.created = created or state()
        self.announces = True

    def methods(self) -> list[str]:
        """Return the methods of the requests about calls and tasks."""
        return [one.method for one in self.asked if one.method.startswith(("tools/call", "tasks/"))]

    def params(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the requests of one method, without their metadata."""
        kept = [one.params for one in self.asked if one.method == method]
        return [{name: value for name, value in params.items() if name != "_meta"} for params in kept]

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match method:
            case "server/discover":
                extensions = {"extensions": {TASKS: {}}} if self.announces else {}
                about = {"capabilities": {"tools": {}, **extensions}, "supportedVersions": [MODERN]}
                return {**complete, **about, "serverInfo": {"name": "ci", "version": "1"}}
            case "tools/list":
                schema = {"type": "object", "properties": {"ref": {"type": "string"}}}
                return {**complete, "tools": [{"name": "build", "inputSchema": schema}]}
            case "tools/call":
                if self.created.get("status") is None:
                    return {"resultType": "complete", **self.created}
                return {"resultType": "task", "taskId": "task-1", **self.created}
            case "tasks/get":
                step: Any = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
                step = step() if callable(step) else step
                return {"resultType": "complete", "taskId": "task-1", **step}
            case "tasks/update" | "tasks/cancel":
                return {"resultType": "complete"}
        raise Failed({"code": -32601, "message": f"Method not found: {method}"})

    async def __call__(self, scope: Any, receive: Any, send: Callable[..., Any]) -> None:
        if scope["type"] != "http":
            return
        body, _ = await read(receive)
        if scope["method"] != "POST":
            await answer(send, 405, b"")
            return
        message = json.loads(body)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append(Asked(message["method"], message.get("params") or {}, headers))
        if "id" not in message:
            await answer(send, 202, b"")
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = self.result(message["method"], message.get("params") or {})
        except Failed as error:
            reply["error"] = error.args[0]
        await answer(send, 200, json.dumps(reply).encode())


def fails(error: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a step that answers with a JSON-RPC error."""

    def step() -> dict[str, Any]:
        raise Failed(error)

    return step


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let jobs be kept in a file of this test."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "mcp_magic" / "jobs.sqlite"


@pytest.fixture
async def connect(host: Host, own_data: Path) -> AsyncIterator[Callable[[Scripted], Awaitable[Connection]]]:
    """Serve a script, and connect it as `ci`."""
    async with AsyncExitStack() as stack:

        async def connect(script: Scripted) -> Connection:
            url = await stack.enter_async_context(serving(script))
            return await host.connect(f"{url}/mcp", name="ci")

        yield connect
        await host.close()
