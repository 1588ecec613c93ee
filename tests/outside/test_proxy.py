"""`python -m mcp_magic proxy`, in this process and as one, with clients of the SDK and one of lines, and kernels."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import mcp_types.version
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ElicitResult, jsonrpc_message_adapter
from pydantic import BaseModel

from mcp_magic import Host
from mcp_magic.outside import proxy
from mcp_magic.outside.gateway import KernelServer
from mcp_magic.outside.proxy import NONE_SERVES, Proxy, Target, choose
from mcp_magic.outside.runtime import RunningKernel, announce
from mcp_magic.outside.serving import serve_kernel
from tests.support.processes import PYTHON
from tests.support.waiting import until

PROXY = ["-P", "-m", "mcp_magic", "proxy"]
UNREACHABLE = "http://127.0.0.1:9"


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    """The era of the SDK's client: 2026-07-28 by `server/discover`, or the handshake."""
    return request.param


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the notebook, where the client runs."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, UNREACHABLE)
    monkeypatch.setattr(proxy, "LOOK_SECONDS", 0.05)
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
async def serving(name="one", **environment):
    """Serve a kernel in the working directory; yield its server and how it serves."""
    server = Served(name)
    with patch.dict(os.environ, environment):
        served = await serve_kernel(server)
    try:
        yield server, served
    finally:
        await served.stop()


@asynccontextmanager
async def transport(words):
    """A proxy in this process, with the lines that it would read and write."""
    to_client, received = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    sent, to_proxy = anyio.create_memory_object_stream[SessionMessage](math.inf)
    loop = asyncio.get_running_loop()

    async def lines():
        async for item in to_proxy:
            yield item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()

    def write(line):
        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        loop.call_soon_threadsafe(to_client.send_nowait, message)

    running = asyncio.create_task(Proxy(proxy.read_options(words), write).run(lines()))
    async with to_proxy, to_client, received:
        async with sent:
            yield received, sent
        await running


def connected(folder, *words, **options):
    """Connect a client to a proxy in this process."""
    return Client(transport(["--folder", str(folder), *words]), **options)


def parameters(folder, *words):
    variables = {name: os.environ[name] for name in ("JUPYTER_RUNTIME_DIR", "HTTP_PROXY", "http_proxy", "ALL_PROXY")}
    return StdioServerParameters(command=PYTHON, args=[*PROXY, *words], cwd=folder, env=variables)


def started(folder, *words, **options):
    """Connect a client to a proxy that it starts."""
    return Client(stdio_client(parameters(folder, *words)), **options)


class Heard:
    """The notifications that a client gets."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def __call__(self, message: Any) -> None:
        self.methods.append(getattr(message, "method", type(message).__name__))


async def tools(client):
    return [tool.name for tool in (await client.list_tools()).tools]


def text(result):
    return "".join(block.text for block in result.content)


# Passing on


async def test_client_of_each_era_gets_the_kernel(folder, mode):
    steps: list[tuple[float, str | None]] = []

    async def progressed(progress, total, message):
        steps.append((progress, message))

    async with serving(), started(folder, mode=mode) as client:
        assert client.server_info.name == "one"
        assert await tools(client) == ["who", "hold", "steps", "greet"]
        assert text(await client.call_tool("who", {})) == "one"
        result = await client.call_tool("steps", {}, progress_callback=progressed)
        assert (text(result), steps) == ("dØne", [(0, "step 0"), (1, "step 1"), (2, "step 2")])
        assert (await client.call_tool("none", {})).is_error
        with pytest.raises(MCPError, match="none"):
            await client.read_resource("none://x")


async def test_cancelled_call_ends_in_the_kernel(folder, mode):
    async with serving() as (server, _), connected(folder, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("hold", {}))
        await until(lambda: server.log)
        call.cancel()
        await until(lambda: "cancelled" in server.log)
        with suppress(asyncio.CancelledError):
            await call
        assert text(await client.call_tool("who", {})) == "one"


async def test_question_of_the_kernel_reaches_the_client(folder):
    async def answer(context, params):
        assert params.message == "Who is it?"
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with serving(), connected(folder, mode="legacy", elicitation_callback=answer) as client:
        assert text(await client.call_tool("greet", {})) == "one: accept"


async def test_changed_list_reaches_the_client(folder):
    heard = Heard()
    async with serving() as (server, _), connected(folder, mode="legacy", message_handler=heard) as client:
        await client.list_tools()

        async def change(context: Context) -> str:
            await context.session.send_tool_list_changed()
            return "changed"

        server.add_tool(change)
        await client.call_tool("change", {})
        await until(lambda: "notifications/tools/list_changed" in heard.methods)
        assert "change" in await tools(client)


async def test_clients_at_a_time_are_kept_apart(folder, mode):
    async with (
        serving() as (server, _),
        connected(folder, mode=mode) as one,
        connected(folder, mode=mode) as other,
    ):
        call = asyncio.create_task(one.call_tool("hold", {}))
        await until(lambda: server.log)
        assert text(await other.call_tool("who", {})) == "one"
        assert server.log == ["begun"]
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


# Kernels that come and go


async def test_without_a_kernel_a_tool_says_what_to_do(folder, mode):
    async with connected(folder, mode=mode) as client:
        assert await tools(client) == ["find_kernels"]
        assert text(await client.call_tool("find_kernels", {})) == NONE_SERVES
        other = await client.call_tool("list_values", {})
        assert (other.is_error, text(other)) == (True, NONE_SERVES)
        assert NONE_SERVES in (client.instructions or "")
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="no kernel serves"):
            await client.read_resource("none://x")
        async with serving():
            assert text(await client.call_tool("who", {})) == "one"


async def test_what_it_can_is_what_a_kernel_can(folder, mode):
    async with Host() as host, connected(folder, mode=mode) as alone:
        assert await tools(alone) == ["find_kernels"]
        async with Client(KernelServer(host).server, mode=mode) as kernel:
            assert alone.server_capabilities == kernel.server_capabilities
            assert alone.server_info == kernel.server_info


async def test_client_hears_of_kernels_that_come_and_go(folder):
    heard = Heard()
    async with connected(folder, mode="legacy", message_handler=heard) as client:
        assert await tools(client) == ["find_kernels"]
        for name in ("one", "two"):
            heard.methods.clear()
            async with serving(name):
                await until(lambda: "notifications/tools/list_changed" in heard.methods)
                assert "who" in await tools(client)
                assert text(await client.call_tool("who", {})) == name
                heard.methods.clear()
            await until(lambda: "notifications/tools/list_changed" in heard.methods)
            assert await tools(client) == ["find_kernels"]


async def test_listening_lasts_from_one_kernel_to_the_next(folder):
    async with connected(folder, mode="auto") as client, client.listen(tools_list_changed=True) as changes:
        for name in ("one", "two"):
            async with serving(name):
                assert await anext(changes) == ToolsListChanged()
                assert text(await client.call_tool("who", {})) == name
            assert await anext(changes) == ToolsListChanged()
            assert await tools(client) == ["find_kernels"]


async def test_call_in_flight_fails_when_the_kernel_restarts(folder, mode):
    async with connected(folder, mode=mode) as client:
        async with serving() as (server, _):
            call = asyncio.create_task(client.call_tool("hold", {}))
            await until(lambda: server.log)
        failed = await call
        assert failed.is_error
        assert "the kernel was restarted or serves no longer; whether it ran is not known" in text(failed)
        async with serving("two"):
            assert text(await client.call_tool("who", {})) == "two"


async def test_killed_kernel_is_left_for_the_next(folder):
    """A real process that is killed: it deletes nothing, and the next one has another port and token."""
    code = (
        "import asyncio\nfrom mcp.server.mcpserver import MCPServer\n"
        "from mcp_magic.outside.serving import serve_kernel\n"
        "async def main():\n"
        "    server = MCPServer('killed')\n    server.add_tool(lambda: 'killed', name='who', description='x')\n"
        "    await serve_kernel(server)\n    print('serves', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    program = await asyncio.create_subprocess_exec(PYTHON, "-c", code, stdout=asyncio.subprocess.PIPE)
    try:
        assert program.stdout is not None
        assert await program.stdout.readline() == b"serves\n"
        async with connected(folder, mode="legacy") as client:
            assert text(await client.call_tool("who", {})) == "killed"
            program.kill()
            await program.wait()
            assert text(await client.call_tool("who", {})) == NONE_SERVES
            assert not [*Path(os.environ["JUPYTER_RUNTIME_DIR"], "mcp_magic").iterdir()]
            async with serving("two"):
                assert text(await client.call_tool("who", {})) == "two"
    finally:
        with suppress(ProcessLookupError):
            program.kill()


# A client of lines, for what no client of the SDK does


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
async def lines(folder, *words):
    own = parameters(folder, *words)
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        own.command, *own.args, cwd=folder, env={**os.environ, **(own.env or {})}, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        yield Lines(program)
    finally:
        assert program.stdin is not None
        program.stdin.close()
        async with asyncio.timeout(30):
            await program.wait()


def initialize(**capabilities):
    about = {"name": "lines", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}
    return {"id": 0, "method": "initialize", "params": params}


INITIALIZED = {"method": "notifications/initialized"}


def call(number, name):
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}


async def test_late_answer_never_answers_the_next_kernel(folder):
    async with lines(folder) as client:
        async with serving("one"):
            await client.send(initialize(elicitation={}), INITIALIZED, call(1, "greet"))
            first = await client.receive(method="elicitation/create")
        assert (await client.receive(method="notifications/cancelled"))["params"]["requestId"] == first["id"]
        assert "restarted" in str(await client.receive(id=1))
        async with serving("two") as (server, _):
            await client.send(call(2, "greet"))
            second = await client.receive(method="elicitation/create")
            accepted = {"result": {"action": "accept", "content": {"name": "x"}}}
            await client.send({"id": first["id"], **accepted}, {"id": 0, **accepted}, {"id": "roots", **accepted})
            await client.send(call(3, "who"))
            assert (await client.receive(id=3))["result"]["content"][0]["text"] == "two"
            assert server.log == ["asks"]
            await client.send({"id": second["id"], "result": {"action": "decline"}})
            assert (await client.receive(id=2))["result"]["content"][0]["text"] == "two: decline"
            assert [message for message in client.seen if message.get("id") == 2] == client.seen[-1:]


async def test_lines_that_are_no_message_are_answered_and_end_nothing(folder):
    async with lines(folder) as client:
        await client.send(b"nonsense", b"[1, 2]", b"", b"\xff\xfe", b'"x"', {"id": None, "method": "ping"}, {"id": 1})
        await client.send({"id": 5, "method": "ping"})
        assert (await client.receive(id=5))["result"] == {}
        errors = [message["error"]["code"] for message in client.seen[:-1]]
        assert {*errors} == {-32700}


async def test_proxy_ends_with_its_stdin_and_prints_nothing_else(folder):
    async with serving() as (server, _), lines(folder) as client:
        await client.send(initialize(), INITIALIZED, call(1, "hold"))
        await until(lambda: server.log)
        assert client.program.stdin is not None
        client.program.stdin.close()
        async with asyncio.timeout(30):
            out, problems = await client.program.communicate()
        assert client.program.returncode == 0
        assert problems == b""
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
        await until(lambda: "cancelled" in server.log)


async def test_folder_comes_from_the_clients_roots(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    async with serving(), lines(tmp_path / "elsewhere") as client:
        await client.send(initialize(roots={}))
        assert "no kernel serves in" in (await client.receive(id=0))["result"]["instructions"]
        await client.send(INITIALIZED)
        asked = await client.receive(method="roots/list")
        await client.send({"id": asked["id"], "result": {"roots": [{"uri": folder.as_uri()}, {"uri": 5}, 5]}})
        await client.receive(method="notifications/tools/list_changed")
        await client.send(call(1, "who"))
        assert (await client.receive(id=1))["result"]["content"][0]["text"] == "one"


# Which kernel


def kernel(port, folder, notebook="", started="2026-01-02T03:04:05.678"):
    return RunningKernel(port, 1, "", "", folder, notebook, f"id-{port}", started, "0")


KERNELS = [
    kernel(1, "/work/a", "x.ipynb"),
    kernel(2, "/work/a/deep", "y.ipynb"),
    kernel(3, "/work/b", "x.ipynb"),
    kernel(4, "/work/b", "z.ipynb"),
]


@pytest.mark.parametrize(
    ("folder", "name", "port"),
    [
        ("/work/a", "", 1),
        ("/work/a/deep", "", 2),
        ("/work/a/deep/er", "", 2),
        ("/work/a/other", "", 1),
        ("/work", "", None),
        ("/", "x", None),
        ("/work/b", "", None),
        ("/work/b", "z.ipynb", 4),
        ("/work/b", "x", 3),
        ("/work/ab", "", None),
        ("/elsewhere", "", None),
        ("/elsewhere", "y", 2),
        ("/elsewhere", "x", None),
        ("/elsewhere", "3", 3),
        ("/work/b", "none.ipynb", None),
    ],
)
def test_kernel_is_the_nearest_or_the_named_one(folder, name, port):
    choice = choose(KERNELS, Target((Path(folder),), name))
    assert (choice.kernel.port if choice.kernel else None) == port
    assert bool(choice.why_none) == (port is None)


def test_reasons_name_the_kernels_and_what_to_do():
    several = choose(KERNELS, Target((Path("/work/b"),))).why_none
    assert several == (
        "several kernels could be meant. These serve: x.ipynb in /work/b (since 2026-01-02T03:04); z.ipynb in /work/b "
        "(since 2026-01-02T03:04). To use one, call `find_kernels` with `use`, or start the proxy with --kernel "
        "NOTEBOOK."
    )
    assert "no kernel serves in /x. These serve: " in choose(KERNELS, Target((Path("/x"),))).why_none
    none = choose(KERNELS, Target((Path("/x"),), "q")).why_none
    assert "no kernel 'q' serves. These serve: " in none
    assert none.endswith("). The person types `%mcp serve --kernel` in the notebook; its tools appear here then.")
    assert choose([], Target((Path("/x"),), "q")).why_none == NONE_SERVES
    assert choose(KERNELS, Target((Path("/work/b"),)), last=KERNELS[3]).kernel == KERNELS[3]
    assert choose(KERNELS, Target((Path("/elsewhere"),), "y", is_typed=True)).kernel is None


async def test_agent_uses_one_of_several(folder, mode):
    async with (
        serving("one", JPY_SESSION_NAME="/x/one.ipynb"),
        serving("two", JPY_SESSION_NAME="two.ipynb"),
        connected(folder, mode=mode) as client,
    ):
        assert await tools(client) == ["find_kernels"]
        why = text(await client.call_tool("find_kernels", {}))
        assert "several kernels could be meant" in why
        assert "one.ipynb in " in why
        assert "no kernel 'x' serves" in text(await client.call_tool("find_kernels", {"use": "x"}))
        for name in ("two", "one"):
            assert f"This is {name}.ipynb in" in text(await client.call_tool("find_kernels", {"use": name}))
            assert text(await client.call_tool("who", {})) == name


async def test_line_names_the_kernel_and_says_what_is_wrong(folder, tmp_path, capsys):
    async with (
        serving("one", JPY_SESSION_NAME="one.ipynb"),
        serving("two", JPY_SESSION_NAME="two.ipynb"),
        started(tmp_path, "--folder", str(folder), "--kernel=two") as client,
    ):
        assert text(await client.call_tool("who", {})) == "two"
    for words, problem in (
        (["--port", "1"], "takes --folder FOLDER and --kernel NOTEBOOK, not '--port'"),
        (["--kernel"], "--kernel takes a value"),
    ):
        assert proxy.main(words) == 2
        out, problems = capsys.readouterr()
        assert out == ""
        assert problem in problems


# Strangers


class Stranger:
    """A server at a port that a runtime file names, which is no kernel's."""

    def __init__(self, relay_to: int = 0) -> None:
        self.heard = b""
        self.relay_to = relay_to

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(65536)
        self.heard += data
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"
        if self.relay_to and data:
            theirs, mine = await asyncio.open_connection("127.0.0.1", self.relay_to)
            mine.write(data)
            answer = await theirs.read()
            mine.close()
        writer.write(answer)
        writer.close()


@pytest.mark.parametrize("relays", [False, True], ids=["answers", "relays"])
async def test_stranger_at_the_port_gets_no_token_and_no_request(folder, mode, relays):
    """Its runtime file and token are this user's, as if it had taken the port of a kernel that has stopped."""
    async with serving() as (_, served):
        stranger = Stranger(served.kernel.port if relays else 0)
        async with await asyncio.start_server(stranger, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            token = served.token_file.read_text()
            served.token_file.with_name(f"kernel-{port}.token").touch(0o600)
            served.token_file.with_name(f"kernel-{port}.token").write_text(token)
            announce(port, folder=folder / "near", notebook="", kernel="", started="2026-01-02T03:04:05.678")
            async with connected(folder / "near", mode=mode) as client:
                assert await tools(client) == ["find_kernels"]
                assert text(await client.call_tool("who", {})) == NONE_SERVES
        assert b"GET /proof?nonce=" in stranger.heard
        assert token.encode() not in stranger.heard
        assert b"Authorization" not in stranger.heard
        assert b"tools/" not in stranger.heard


async def test_kernel_that_gives_no_answer_is_said_to_be_busy(folder, monkeypatch):
    monkeypatch.setattr(proxy, "CONNECT_SECONDS", 0.2)
    written: list[dict[str, Any]] = []

    async def following():
        yield json.dumps({"jsonrpc": "2.0", **initialize()}).encode()
        yield json.dumps({"jsonrpc": "2.0", **call(1, "who")}).encode()
        await until(lambda: len(written) == 2)

    async def silent(reader, writer):
        await reader.read()
        writer.close()

    async with serving() as (_, served):
        token = served.token_file.read_text()
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        file = served.token_file.with_name(f"kernel-{port}.token")
        file.touch(0o600)
        file.write_text(token)
        announce(port, folder=folder, notebook="a.ipynb", kernel="", started="2026-01-02T03:04:05.678")
        await Proxy(Target((folder,)), lambda line: written.append(json.loads(line))).run(following())
    said = f"a.ipynb in {folder} does not answer now: it runs what leaves no time for others. Try again later"
    assert said in written[0]["result"]["instructions"]
    assert said in written[1]["result"]["content"][0]["text"]


# The program


def test_proxy_imports_nothing_heavy():
    heavy = ("mcp", "mcp_types", "pandas", "IPython", "pydantic", "starlette", "uvicorn", "langchain_core")
    code = f"import mcp_magic.outside.proxy, sys; print(*(name for name in {heavy} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"\n"


def test_versions_are_those_of_the_sdk():
    assert proxy.HANDSHAKES == mcp_types.version.HANDSHAKE_PROTOCOL_VERSIONS
    assert proxy.MODERN == mcp_types.version.MODERN_PROTOCOL_VERSIONS


def test_help_says_what_it_is(capsys):
    assert proxy.main(["--help"]) == 0
    assert "An MCP server over stdio that is the running kernel of this folder" in capsys.readouterr().out
