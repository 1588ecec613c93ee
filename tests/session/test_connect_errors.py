"""Every way in which a session cannot be opened has its own message, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import pytest

from mcp_magic import errors
from mcp_magic.config.specs import StdioSpec
from mcp_magic.config.targets import resolve_target
from tests.support.asgi import answering, never, serving
from tests.support.processes import PLAIN, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic._host import Host


async def failure(host: Host, target: object, **options: object) -> errors.MCPMagicError:
    """Connect, which must fail, and return the error."""
    options.setdefault("name", "x")
    with pytest.raises(errors.MCPMagicError) as caught:
        await host.connect(target, **options)  # type: ignore[arg-type]
    seen: BaseException | None = caught.value
    while seen is not None:
        assert not isinstance(seen, BaseExceptionGroup)
        seen = seen.__context__
    assert len(str(caught.value).splitlines()) <= 9  # six of them of its stderr, at most
    assert "x" not in host
    return caught.value


def script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "server.py"
    path.write_text(text)
    return [sys.executable, str(path)]


async def test_a_command_that_does_not_exist(host: Host) -> None:
    error = await failure(host, ["pythn3-nowhere"])
    assert type(error) is errors.CommandNotFoundError
    assert str(error) == "x: the command 'pythn3-nowhere' is not found; is it installed and on PATH?"


async def test_a_file_that_is_not_executable(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("no program")
    error = await failure(host, [str(path)])
    assert type(error) is errors.CommandNotFoundError
    said = f"x: the command '{path}' cannot be started: Permission denied; `chmod +x {path}` makes it executable."
    assert str(error) == said


async def test_a_working_directory_that_does_not_exist(host: Host, tmp_path: Path) -> None:
    spec = StdioSpec(command=sys.executable, cwd=tmp_path / "nowhere")
    error = await failure(host, spec)
    assert type(error) is errors.CommandNotFoundError
    assert str(error) == f"x: the working directory '{tmp_path / 'nowhere'}' does not exist; --cwd names another."


async def test_a_server_that_dies_at_start_names_its_last_words(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "import sys\nprint('loading', file=sys.stderr)\nimport nothing_of_the_kind")
    error = await failure(host, command)
    assert type(error) is errors.ServerExitedError
    lines = str(error).splitlines()
    assert lines[0] == f"x: python {command[1]} ended before it answered (exit code 1)."
    assert lines[1:] == [
        "  stderr: loading",
        "  stderr: ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        "  more: `%mcp logs x`, or `.stderr` of this error",
    ]
    assert "import nothing_of_the_kind" in error.stderr  # type: ignore[attr-defined]


async def test_secrets_are_masked_in_the_last_words_of_a_server(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "import os, sys\nsys.exit('bad token ' + os.environ['API_TOKEN'])")
    error = await failure(host, command, env={"API_TOKEN": "sesame-123"})
    assert str(error).splitlines()[-1] == "  stderr: bad token ***"


async def test_a_program_that_writes_something_else_than_mcp(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "import time\nprint('Welcome!', flush=True)\ntime.sleep(60)")
    error = await failure(host, command, timeout=3)
    assert type(error) is errors.NotAnMCPServerError
    assert str(error) == (
        f"x: python {command[1]} printed 'Welcome!' to stdout, which is not an MCP message, and did not answer in 3 s."
    )


async def test_a_program_that_writes_something_else_and_ends(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "print('usage: server [options]')")
    error = await failure(host, command)
    assert type(error) is errors.ServerExitedError
    assert (
        "answered (exit code 0). It printed 'usage: server [options]' to stdout, which is not an MCP message."
        in str(error)
    )


async def test_error_of_silent_exit_asks_if_program_is_a_server(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "import mcp_types")
    error = await failure(host, command)
    assert str(error) == (
        f"x: python {command[1]} ended before it answered (exit code 0). "
        "Is it a server? A program with an MCPServer must call run()."
    )


async def test_a_program_that_sends_back_what_it_gets(host: Host) -> None:
    error = await failure(host, ["cat"])
    assert type(error) is errors.NotAnMCPServerError
    assert str(error).startswith("x: cat answered, but not as an MCP server: ")


@pytest.mark.timed
async def test_a_stdio_handshake_that_is_never_answered(host: Host, tmp_path: Path) -> None:
    command = script(tmp_path, "import sys\nprint('busy', file=sys.stderr)\nfor line in sys.stdin: pass")
    started = time.monotonic()
    error = await failure(host, command, timeout=2)
    assert time.monotonic() - started < 10.0
    assert type(error) is errors.ConnectTimeoutError
    assert isinstance(error, TimeoutError)
    assert str(error) == (
        f"x: python {command[1]} did not answer the handshake within 2 s (--timeout S waits longer).\n  stderr: busy"
    )


async def test_error_of_server_file_with_url_says_how_to_reach_it(host: Host, tmp_path: Path) -> None:
    said = "INFO: Uvicorn running on http://127.0.0.1:8123/mcp (Press CTRL+C to quit)"
    command = script(tmp_path, f"import sys, time\nprint({said!r}, file=sys.stderr, flush=True)\ntime.sleep(60)")
    error = await failure(host, command, timeout=3)
    assert type(error) is errors.ConnectTimeoutError
    assert "If it listens at a URL instead: `%mcp connect http://127.0.0.1:8123/mcp`." in str(error)


async def test_stdio_server_that_ignores_end_of_input_is_killed(host: Host, tmp_path: Path) -> None:
    command = script(
        tmp_path, "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    )
    error = await failure(host, command, timeout=0.5)  # the fixture checks that the process is gone
    assert type(error) is errors.ConnectTimeoutError


async def test_an_http_handshake_that_is_never_answered(host: Host) -> None:
    async with serving(never, lifespan="off") as url:
        error = await failure(host, f"{url}/mcp", timeout=0.5)
    assert type(error) is errors.ConnectTimeoutError
    assert str(error) == f"x: {url}/mcp did not answer the handshake within 0.5 s (--timeout S waits longer)."


async def test_a_port_that_nobody_listens_on(host: Host) -> None:
    port = free_port()
    for scheme in ("http", "ws"):
        error = await failure(host, f"{scheme}://127.0.0.1:{port}/mcp")
        assert type(error) is errors.UnreachableError
        assert str(error) == f"x: nothing listens at {scheme}://127.0.0.1:{port}/mcp; is the server running?"


async def test_a_host_that_does_not_exist(host: Host) -> None:
    error = await failure(host, "http://no-such-host.invalid/mcp")
    assert type(error) is errors.UnreachableError
    advice = "is the name right, and this machine on the network?"
    assert str(error) == f"x: no such host: http://no-such-host.invalid/mcp; {advice}"


async def test_a_web_site_that_is_no_server(host: Host) -> None:
    async with serving(answering(200, b"<html>hi</html>", "text/html; charset=utf-8")) as url:
        error = await failure(host, f"{url}/")
    assert type(error) is errors.NotAnMCPServerError
    assert str(error).startswith(f"x: {url}/ answered with text/html, but not as an MCP server")


async def test_json_that_is_no_mcp(host: Host) -> None:
    async with serving(answering(200, b'{"hello": "world"}', "application/json")) as url:
        error = await failure(host, f"{url}/")
    assert type(error) is errors.NotAnMCPServerError
    assert str(error).startswith(f"x: {url}/ answered, but not as an MCP server")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "unauthorized; fault: you): it wants credentials, for example --header 'Authorization: Bearer TOKEN'"),
        (403, "forbidden; fault: you): it refuses these credentials, or this host name"),
        (429, "too many requests; fault: the caller): it got too many requests; wait and try again"),
        (500, "internal server error; fault: the server): the server failed"),
        (503, "service unavailable; fault: the server): the server is not ready; try again"),
    ],
)
async def test_http_errors_say_what_they_mean(host: Host, status: int, says: str) -> None:
    async with serving(answering(status)) as url:
        error = await failure(host, f"{url}/mcp")
    assert type(error) is errors.HTTPStatusError
    assert error.status == status
    assert str(error) == f"x: {url}/mcp answered HTTP {status} ({says}."


async def test_credentials_in_a_url_never_show(host: Host) -> None:
    error = await failure(host, f"http://me:sesame-123@127.0.0.1:{free_port()}/mcp?api_key=abcd1234")
    assert "sesame" not in str(error)
    assert "abcd1234" not in str(error)


async def test_an_in_process_server_whose_start_fails(host: Host) -> None:
    from contextlib import asynccontextmanager

    from mcp.server.mcpserver import MCPServer

    @asynccontextmanager
    async def lifespan(server: object) -> object:  # type: ignore[misc]
        raise RuntimeError("no database")
        yield

    error = await failure(host, MCPServer("broken", lifespan=lifespan))  # type: ignore[arg-type]
    assert type(error) is errors.ConnectError
    assert str(error) == "x: MCPServer 'broken' failed to start: no database"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "command"),
        ({"command": "x", "url": "http://h"}, "both"),
        ({"url": "http://h", "type": "carrier"}, "carrier"),
    ],
)
async def test_a_description_that_is_incomplete_or_contradicts_itself(host: Host, table: object, says: str) -> None:
    error = await failure(host, table)
    assert says in str(error)


@pytest.mark.timed
async def test_a_cancelled_connect_ends_its_server(host: Host, tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = script(tmp_path, f"open({str(started)!r}, 'w').close()\nimport sys\nfor line in sys.stdin: pass")
    connecting = asyncio.ensure_future(host.connect(command, name="x"))
    while not started.exists():
        await asyncio.sleep(0.01)
    begun = time.monotonic()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert time.monotonic() - begun < 1.5  # the SDK would wait two seconds for its server
    await host.close()  # waits for the server that is still ending; the fixture checks that it is gone


async def test_many_connects_report_the_failing_ones_and_keep_the_rest(host: Host) -> None:
    good, _ = resolve_target([sys.executable, "-S", "-c", "pass"])
    working, _ = resolve_target(PLAIN)
    outcome = await host.connect_many({"bad": good, "math": working, "gone": StdioSpec(command="nowhere-to-be-found")})
    assert type(outcome["bad"]) is errors.ServerExitedError
    assert type(outcome["gone"]) is errors.CommandNotFoundError
    assert list(host) == ["math"]
    assert (await host.call("math:add", a=1, b=1)).data == 2


async def test_unexpected_error_ends_connect(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(error: BaseException, place: object) -> Exception:
        raise RuntimeError("nobody expects this")

    monkeypatch.setattr("mcp_magic.session.supervisor.connect_error", explain)
    async with asyncio.timeout(60):
        with pytest.raises(errors.ConnectError, match=r"^x: no-such-command failed: RuntimeError: nobody"):
            await host.connect(["no-such-command"], name="x")
    assert "x" not in host.connections
