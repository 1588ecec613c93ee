"""Ways in which a session cannot be opened: each has its own message, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client import stdio
from mcp.server.mcpserver import MCPServer

from mcp_magic import errors
from mcp_magic.config.specs import StdioSpec
from mcp_magic.config.targets import resolve_target
from tests.support.asgi import answering, never, serving
from tests.support.checking import failure, script
from tests.support.processes import PLAIN, free_port

ENDED = "x: python {file} ended before it answered (exit code {code})."
WAITED = "x: python {file} did not answer the handshake within {seconds} s (--timeout S waits longer)."
OTHER = "to stdout, which is not an MCP message"
URL = "INFO: Uvicorn running on http://127.0.0.1:8123/mcp (Press CTRL+C to quit)"
PROGRAMS: dict[str, tuple[str, type[Exception], str]] = {
    "dies": (
        "import sys\nprint('loading', file=sys.stderr)\nimport nothing_of_the_kind",
        errors.ServerExitedError,
        f"{ENDED.replace('{code}', '1')}\n  stderr: loading\n  stderr: ModuleNotFoundError: No module named "
        "'nothing_of_the_kind'\n  more: `%mcp logs x`, or `.stderr` of this error",
    ),
    "secret": (
        "import os, sys\nsys.exit('bad token ' + os.environ['API_TOKEN'])",
        errors.ServerExitedError,
        f"{ENDED.replace('{code}', '1')}\n  stderr: bad token ***",
    ),
    "greets": (
        "import time\nprint('Welcome!', flush=True)\ntime.sleep(60)",
        errors.NotAnMCPServerError,
        f"x: python {{file}} printed 'Welcome!' {OTHER}, and did not answer in 3 s.",
    ),
    "prints": (
        "print('usage: server [options]')",
        errors.ServerExitedError,
        f"{ENDED.replace('{code}', '0')} It printed 'usage: server [options]' {OTHER}.",
    ),
    "silent": (
        "import mcp_types",
        errors.ServerExitedError,
        f"{ENDED.replace('{code}', '0')} Is it a server? A program with an MCPServer must call run().",
    ),
    "waits": (
        "import sys\nprint('busy', file=sys.stderr)\nfor line in sys.stdin: pass",
        errors.ConnectTimeoutError,
        f"{WAITED}\n  stderr: busy",
    ),
    "url": (
        f"import sys, time\nprint({URL!r}, file=sys.stderr, flush=True)\ntime.sleep(60)",
        errors.ConnectTimeoutError,
        f"{WAITED} If it listens at a URL instead: `%mcp connect http://127.0.0.1:8123/mcp`.\n  stderr: {URL}",
    ),
}


@pytest.mark.parametrize(("program", "kind", "says"), PROGRAMS.values(), ids=PROGRAMS)
async def test_a_program_that_is_no_server_is_told(host, tmp_path, program, kind, says):
    command = script(tmp_path, program)
    error = await failure(host, command, timeout=3, env={"API_TOKEN": "sesame-123"})
    assert (type(error), str(error)) == (kind, says.format(file=command[1], seconds=3))
    assert isinstance(error, TimeoutError) is (kind is errors.ConnectTimeoutError)
    if "nothing_of_the_kind" in program:
        assert "import nothing_of_the_kind" in error.stderr


async def test_a_command_that_cannot_be_started_is_told(host, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("no program")
    denied = f"the command '{path}' cannot be started: Permission denied; `chmod +x {path}` makes it executable."
    targets: list[tuple[Any, str]] = [
        (["pythn3-nowhere"], "the command 'pythn3-nowhere' is not found; is it installed and on PATH?"),
        ([str(path)], denied),
        (
            StdioSpec(command=sys.executable, cwd=tmp_path / "nowhere"),
            f"the working directory '{tmp_path / 'nowhere'}' does not exist; --cwd names another.",
        ),
    ]
    for target, says in targets:
        error = await failure(host, target)
        assert (type(error), str(error)) == (errors.CommandNotFoundError, f"x: {says}")


async def test_a_program_that_sends_back_its_input_is_no_server(host):
    error = await failure(host, ["cat"])
    assert type(error) is errors.NotAnMCPServerError
    assert str(error).startswith("x: cat answered, but not as an MCP server: ")


async def test_a_server_that_ignores_the_end_of_input_is_killed(host, tmp_path):
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    error = await failure(host, script(tmp_path, code), timeout=0.5)  # the fixture checks that the process is gone
    assert type(error) is errors.ConnectTimeoutError


async def test_an_http_handshake_without_an_answer_times_out(host):
    async with serving(never, lifespan="off") as url:
        error = await failure(host, f"{url}/mcp", timeout=0.5)
    assert type(error) is errors.ConnectTimeoutError
    assert str(error) == f"x: {url}/mcp did not answer the handshake within 0.5 s (--timeout S waits longer)."


async def test_an_address_that_nobody_has_is_told(host):
    port = free_port()
    for scheme in ("http", "ws"):
        error = await failure(host, f"{scheme}://127.0.0.1:{port}/mcp")
        assert type(error) is errors.UnreachableError
        assert str(error) == f"x: nothing listens at {scheme}://127.0.0.1:{port}/mcp; is the server running?"
    error = await failure(host, "http://no-such-host.invalid/mcp")
    assert type(error) is errors.UnreachableError
    advice = "is the name right, and this machine on the network?"
    assert str(error) == f"x: no such host: http://no-such-host.invalid/mcp; {advice}"
    error = await failure(host, f"http://me:sesame-123@127.0.0.1:{port}/mcp?api_key=abcd1234")
    assert not any(secret in str(error) for secret in ("sesame", "abcd1234"))


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"<html>hi</html>", "text/html; charset=utf-8", "answered with text/html, but not as an MCP server"),
        (b'{"hello": "world"}', "application/json", "answered, but not as an MCP server"),
    ],
    ids=["page", "json"],
)
async def test_a_web_site_that_is_no_server_is_told(host, body, kind, says):
    async with serving(answering(200, body, kind)) as url:
        error = await failure(host, f"{url}/")
    assert type(error) is errors.NotAnMCPServerError
    assert str(error).startswith(f"x: {url}/ {says}")


STATUSES = {
    401: "unauthorized; fault: you): it wants credentials, for example --header 'Authorization: Bearer TOKEN'",
    403: "forbidden; fault: you): it refuses these credentials, or this host name",
    429: "too many requests; fault: the caller): it got too many requests; wait and try again",
    500: "internal server error; fault: the server): the server failed",
    503: "service unavailable; fault: the server): the server is not ready; try again",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_an_http_status_is_told_with_its_meaning(host, status):
    async with serving(answering(status)) as url:
        error = await failure(host, f"{url}/mcp")
    assert (type(error), error.status) == (errors.HTTPStatusError, status)
    assert str(error) == f"x: {url}/mcp answered HTTP {status} ({STATUSES[status]}."


async def test_a_server_of_this_kernel_that_does_not_start_is_told(host):
    @asynccontextmanager
    async def lifespan(server: object) -> object:  # type: ignore[misc]
        raise RuntimeError("no database")
        yield

    error = await failure(host, MCPServer("broken", lifespan=lifespan))  # type: ignore[arg-type]
    assert type(error) is errors.ConnectError
    assert str(error) == "x: MCPServer 'broken' failed to start: no database"


async def test_a_table_that_describes_no_server_is_told(host):
    assert "command" in str(await failure(host, {}))
    assert "both" in str(await failure(host, {"command": "x", "url": "http://h"}))
    assert "carrier" in str(await failure(host, {"url": "http://h", "type": "carrier"}))


async def test_a_cancelled_connect_ends_and_its_server_later(host, tmp_path, monkeypatch):
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 60.0)
    started, released = tmp_path / "started", tmp_path / "released"
    code = f"""
import sys, time
from pathlib import Path
Path({str(started)!r}).touch()
for line in sys.stdin: pass
while not Path({str(released)!r}).exists(): time.sleep(0.01)
"""
    command = script(tmp_path, code)
    connecting = asyncio.ensure_future(host.connect(command, name="x"))
    while not started.exists():
        await asyncio.sleep(0.01)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(connecting, 30)  # the SDK would wait for its server
    released.touch()
    await host.close()  # waits for the server that is still ending; the fixture checks that it is gone


async def test_many_connects_report_failures_and_keep_the_rest(host):
    dying, _ = resolve_target([sys.executable, "-S", "-c", "pass"])
    working, _ = resolve_target(PLAIN)
    outcome = await host.connect_many({"bad": dying, "math": working, "gone": StdioSpec(command="nowhere-to-be-found")})
    assert type(outcome["bad"]) is errors.ServerExitedError
    assert type(outcome["gone"]) is errors.CommandNotFoundError
    assert list(host) == ["math"]
    assert (await host.call("math:add", a=1, b=1)).data == 2


async def test_an_unexpected_error_ends_connect(host, monkeypatch):
    def explain(error: BaseException, place: object) -> Exception:
        raise RuntimeError("nobody expects this")

    monkeypatch.setattr("mcp_magic.session.supervisor.connect_error", explain)
    async with asyncio.timeout(60):
        with pytest.raises(errors.ConnectError, match=r"^x: no-such-command failed: RuntimeError: nobody"):
            await host.connect(["no-such-command"], name="x")
    assert "x" not in host.connections
