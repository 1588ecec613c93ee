"""`python -m mcp_magic proxy` with clients of the SDK and one of lines, and servers that serve as kernels do."""

from __future__ import annotations

import asyncio
import json
import math
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import BaseModel

from mcp_magic.outside.choice import Target
from mcp_magic.outside.program import read_options
from mcp_magic.outside.proxy import Proxy
from mcp_magic.outside.serving import serve_kernel
from tests.support.processes import PYTHON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    import pytest

    from mcp_magic.outside.serving import KernelServing

PROXY = ["-P", "-m", "mcp_magic", "proxy"]
UNREACHABLE = "http://127.0.0.1:9"


def notebook_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for a notebook and a client, with runtime files of its own, and make it the working directory."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, UNREACHABLE)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


class Name(BaseModel):
    """What is asked for."""

    name: str


class Served(MCPServer[Any]):
    """A server that serves as a kernel does, without its sessions and values."""

    def __init__(self, name: str = "one") -> None:
        super().__init__(name, log_level="ERROR")
        self.log: list[str] = []
        for function in (self.who, self.hold, self.steps, self.greet):
            self.add_tool(function)

    def close(self) -> None:
        """Nothing waits."""

    def who(self) -> str:
        return self.name

    async def hold(self) -> str:
        self.log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("cancelled")
        return "never"

    async def steps(self, context: Context) -> str:
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "dØne"

    async def greet(self, context: Context) -> str:
        self.log.append("asks")
        answer = await context.elicit("Who is it?", Name)
        return f"{self.name}: {answer.action}"


@asynccontextmanager
async def serving(name: str = "one", **environment: str) -> AsyncIterator[tuple[Served, KernelServing]]:
    """Serve a kernel in the working directory; yield its server and how it serves."""
    server = Served(name)
    with patch.dict(os.environ, environment):
        served = await serve_kernel(server)
    try:
        yield server, served
    finally:
        await served.stop()


@asynccontextmanager
async def transport(words: Sequence[str]) -> Any:
    """A proxy in this process, with the lines that it would read and write."""
    to_client, received = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    sent, to_proxy = anyio.create_memory_object_stream[SessionMessage](math.inf)
    loop = asyncio.get_running_loop()

    async def lines() -> AsyncIterator[bytes]:
        async for item in to_proxy:
            yield item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()

    def write(line: bytes) -> None:
        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        loop.call_soon_threadsafe(to_client.send_nowait, message)

    running = asyncio.create_task(Proxy(read_options(words), write).run(lines()))
    async with to_proxy, to_client, received:
        async with sent:
            yield received, sent
        await running


@asynccontextmanager
async def proxied(folder: Path, *messages: dict[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
    """Run a proxy that gets these messages; yield what it writes."""
    written: list[dict[str, Any]] = []
    end = asyncio.Event()

    async def following() -> AsyncIterator[bytes]:
        for message in messages:
            yield json.dumps({"jsonrpc": "2.0", **message}).encode()
        await end.wait()

    running = asyncio.create_task(
        Proxy(Target((folder,)), lambda line: written.append(json.loads(line))).run(following())
    )
    yield written
    end.set()
    await running


def connected(folder: Path, *words: str, **options: Any) -> Client:
    """Connect a client to a proxy in this process."""
    return Client(transport(["--folder", str(folder), *words]), **options)


def started(folder: Path, *words: str, **options: Any) -> Client:
    """Connect a client to a proxy that it starts."""
    variables = {name: os.environ[name] for name in ("JUPYTER_RUNTIME_DIR", "HTTP_PROXY", "http_proxy", "ALL_PROXY")}
    own = StdioServerParameters(command=PYTHON, args=[*PROXY, *words], cwd=folder, env=variables)
    return Client(stdio_client(own), **options)


async def tools(client: Client) -> list[str]:
    """Return the names of the tools."""
    return [tool.name for tool in (await client.list_tools()).tools]


def text(result: Any) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content)


class Lines:
    """A client that writes and reads lines."""

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self.program = program
        self.seen: list[dict[str, Any]] = []

    async def send(self, *messages: Any) -> None:
        assert self.program.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
            self.program.stdin.write(line + b"\n")
        await self.program.stdin.drain()

    async def receive(self, **members: Any) -> dict[str, Any]:
        """Return the next message with these members."""
        assert self.program.stdout is not None
        async with asyncio.timeout(30):
            while line := await self.program.stdout.readline():
                message: dict[str, Any] = json.loads(line)
                self.seen.append(message)
                if members.items() <= message.items():
                    return message
        raise AssertionError(self.seen)


@asynccontextmanager
async def lines(folder: Path, *words: str, **variables: str) -> AsyncIterator[Lines]:
    """Start a proxy, with these variables more, and yield a client of it; its end is the end of its stdin."""
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        *(PYTHON, *PROXY, *words),
        cwd=folder,
        env={**os.environ, **variables},
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        limit=2**26,
    )
    try:
        yield Lines(program)
    finally:
        assert program.stdin is not None
        program.stdin.close()
        async with asyncio.timeout(30):
            await program.wait()


def initialize(**capabilities: Any) -> dict[str, Any]:
    """Return the request that begins a session."""
    about = {"name": "lines", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}
    return {"id": 0, "method": "initialize", "params": params}


INITIALIZED = {"method": "notifications/initialized"}


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def modern(number: int, method: str, **params: Any) -> dict[str, Any]:
    """Return a request of 2026-07-28."""
    about = {"clientInfo": {"name": "lines", "version": "1"}, "clientCapabilities": {}, "protocolVersion": "2026-07-28"}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
    return {"id": number, "method": method, "params": {**params, "_meta": meta}}
