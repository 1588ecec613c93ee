"""What is shown of a server's stderr when it dies: the lines that say why, and what it misses that is here.

`stderr/` has what real servers and launchers wrote: started without what they need, or under a wrong name. Hosts and
folders have other names.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import time
from pathlib import Path

import pytest

from mcp_magic import errors
from mcp_magic.doctor import examine
from mcp_magic.stderr import cause, not_passed_on, start_process
from tests.environments import SLACK, everything_command, filesystem_command, needs_node, program
from tests.support.asgi import answering, serving
from tests.support.bundled import command
from tests.support.checking import failure, script
from tests.support.clocks import assert_linear, sixteenth
from tests.support.processes import PLAIN, free_port
from tests.support.waiting import until

RECORDED = Path(__file__).parent / "data" / "stderr"

NO_PACKAGE = "could not be found or you do not have permission to access it."
UNKNOWN = "mcp-server-does-not-exist-xyz, we can conclude that your requirements are unsatisfiable."
KEYLESS = "Stripe API key not provided. Please either pass it as an argument --api-key=$KEY or set the "
KEYLESS += "STRIPE_SECRET_KEY environment variable."
TOKENLESS = "Authentication required: Either SLACK_MCP_XOXP_TOKEN, SLACK_MCP_XOXB_TOKEN, or both SLACK_MCP_XOXC_TOKEN "
TOKENLESS += "and SLACK_MCP_XOXD_TOKEN must be provided"
SLACK_SERVER = "/home/ada/node_modules/slack-mcp-server-linux-amd64/bin/slack-mcp-server-linux-amd64"

CAUSES = {
    "argparse": """
usage: mcp-server-sqlite [-h] [--db-path DB_PATH]
mcp-server-sqlite: error: unrecognized arguments: --nope""",
    "docker": """
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?""",
    "elevenlabs": """
ValueError: ELEVENLABS_API_KEY environment variable is required""",
    "filesystem": """
Usage: mcp-server-filesystem [allowed-directory] [additional-directories...]
At least one directory must be provided by EITHER method for the server to operate.""",
    "group": """
ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
RuntimeError: the token GITHUB_TOKEN is not set""",
    "kubernetes": """
Error: unable to create kubernetes target provider: no current-context is set and no contexts are defined in \
kubeconfig.""",
    "npx": f"""
npm error code E404
npm error 404 Not Found - GET https://registry.example/@modelcontextprotocol%2fserver-does-not-exist-xyz
npm error 404  The requested resource '@modelcontextprotocol/server-does-not-exist-xyz@*' {NO_PACKAGE}""",
    "remote": """
[875] Using callback port derived from the server URL: 20197
[875] Connection error: TypeError: fetch failed
[cause]: Error: bad port
[875] Fatal error: TypeError: fetch failed""",
    "rust": """
thread 'main' panicked at src/main.rs:14:41:
called `Result::unwrap()` on an `Err` value: NotPresent""",
    "settings": """
pydantic_core._pydantic_core.ValidationError: 2 validation errors for Settings
api_key
Field required [type=missing, input_value={}, input_type=dict]
port""",
    "slack": f"""
{TOKENLESS}
Error: Command failed: {SLACK_SERVER}""",
    "stripe": f"""
🚨  Error initializing Stripe MCP server:
{KEYLESS}
Error: {KEYLESS}""",
    "syntax": """
SyntaxError: invalid syntax (/home/ada/notes/helper.py, line 1)""",
    "syntax_main": """
SyntaxError: invalid syntax (/home/ada/notes/helper.py, line 1)""",
    "syntax_node": """
SyntaxError: Unexpected token ';' (file:///home/ada/notes/server.mjs, line 2)""",
    "typer": """
Usage: - [OPTIONS]
Missing option '--token'.""",
    "uvx": f"""
error: No solution found when resolving tool dependencies
cause: Because mcp-server-does-not-exist-xyz was not found in the package registry and you require {UNKNOWN}""",
}


@pytest.mark.parametrize("recorded", sorted(RECORDED.iterdir()), ids=lambda path: path.stem)
def test_the_lines_that_say_why_are_chosen(recorded):
    lines, expected = cause(recorded.read_text()), CAUSES[recorded.stem].strip().split("\n")
    assert lines[: len(expected)] == expected
    assert len(lines) <= 6


@pytest.mark.parametrize("hostile", [" ", "(", "no ", "\t", "a(", " at ", "running ", "ab_", "{", "| "])
def test_long_lines_take_no_time(hostile):
    for long in (hostile * (65_536 // len(hostile)), f"{hostile * (600 // len(hostile))}\n" * 109):
        assert_linear(cause, sixteenth(long), long)


@needs_node
async def test_a_missing_token_is_named_and_where_it_is_set(host, monkeypatch):
    monkeypatch.setenv("SLACK_MCP_XOXP_TOKEN", "sesame-123")
    error = await failure(host, [program(SLACK)])
    assert type(error) is errors.ServerExitedError
    lines = str(error).splitlines()
    assert lines[1] == f"  stderr: {TOKENLESS}"
    assert lines[2].startswith("  stderr: Error: Command failed: ")
    assert lines[3:] == [
        "  more: `%mcp logs x`, or `.stderr` of this error",
        "  `SLACK_MCP_XOXP_TOKEN` is set here but not passed on: `--env SLACK_MCP_XOXP_TOKEN` right after `connect`",
    ]
    assert "Node.js v" in error.stderr
    assert host.failed["x"] == error.stderr
    assert "sesame" not in f"{error}{error.stderr}"

    report = await examine(host, [program(SLACK)], name="doctored")
    texts = [remark.text for remark in report["connect"].remarks]
    assert f"stderr: {TOKENLESS}" in texts
    assert not any("Node.js v" in text for text in texts)
    hint = "`SLACK_MCP_XOXP_TOKEN` is set here but not passed on: `--env SLACK_MCP_XOXP_TOKEN` right after `doctor`"
    assert report["connect"].remarks[-1].todo == hint
    assert "Node.js v" in host.failed["doctored"]


@needs_node
async def test_a_missing_package_or_folder_is_told(host, tmp_path):
    async with serving(answering(404, b'{"error": "Not found"}', "application/json")) as url:
        env = {"npm_config_registry": url, "npm_config_cache": str(tmp_path), "npm_config_update_notifier": "false"}
        error = await failure(host, ["npx", "-y", "@scope/server-of-nobody"], env=env)
    assert f"stderr: npm error 404 Not Found - GET {url}/@scope%2fserver-of-nobody" in str(error)
    assert "A complete log" not in str(error)
    assert "A complete log" in error.stderr
    error = await failure(host, filesystem_command(tmp_path / "nowhere"))
    assert "stderr: Error: None of the specified directories are accessible" in str(error)


async def test_a_setting_that_is_not_passed_on_is_named(host, tmp_path, monkeypatch):
    text = (RECORDED / "settings.txt").read_text()
    dying = script(tmp_path, f"import sys\nsys.exit({text!r})")
    monkeypatch.setenv("API_KEY", "sesame-123")
    hint = "`API_KEY` is set here but not passed on: `--env API_KEY` right after `connect`"
    assert hint in str(await failure(host, dying))
    assert "API_KEY" not in str(await failure(host, dying, env={"API_KEY": os.environ["API_KEY"]}))


@pytest.mark.parametrize("how", ["port on stderr", "url on stdout"])
async def test_a_server_that_listens_at_a_url_is_recognized(host, how):
    port = free_port()
    if how == "port on stderr":
        target, env, path = everything_command("sse"), {"PORT": str(port)}, "/sse"
    else:
        start = shlex.join(command("weather_server", "--port", str(port)))
        target, env, path = ["sh", "-c", f"exec {start} 2>&1"], {}, "/mcp"
    error = await failure(host, target, env=env)
    assert type(error) is errors.ConnectError
    first, line = str(error).splitlines()
    serves = "serves HTTP, does not use stdin and stdout, and was ended. Start it in a terminal, then type:"
    assert first.endswith(serves)
    assert line == f"  %mcp connect http://127.0.0.1:{port}{path}"


async def test_the_doctor_recognizes_a_server_at_a_url(host):
    port = free_port()
    report = await examine(host, command("weather_server", "--port", str(port)))
    [failed] = [remark for remark in report["connect"].remarks if remark.status == "failed"]
    assert failed.text == f"it serves HTTP at http://127.0.0.1:{port}/mcp, and does not use stdin and stdout"
    assert failed.todo == f"start it in a terminal, then type `%mcp doctor http://127.0.0.1:{port}/mcp`"


async def test_a_server_with_a_page_of_its_own_is_no_http_server(host, tmp_path):
    asked, page = tmp_path / "asked", answering(200, b"<html>dashboard</html>", "text/html")

    async def noted(scope, receive, send):
        if scope["type"] == "http":
            asked.touch()
        await page(scope, receive, send)

    async with serving(noted) as url:
        code = f"import os, runpy, sys, time\nprint('dashboard: {url}', file=sys.stderr, flush=True)\n"
        code += f"while not os.path.exists({str(asked)!r}): time.sleep(0.01)\n"
        slow = script(tmp_path, f"{code}runpy.run_path({PLAIN[1]!r}, run_name='__main__')")
        connection = await host.connect(slow, name="paged")
        assert (await connection.call("add", a=1, b=2)).data == 3
        await host.disconnect("paged")


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
@pytest.mark.parametrize("turns", range(1, 9))
async def test_an_interrupted_start_leaves_no_process(turns):
    alive, held = os.pipe()  # each process holds its end open
    os.set_blocking(alive, False)
    command = ("sh", "-c", "sleep 60; true")  # the child `sleep` holds the output open, too
    starting = asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, pass_fds=[held], start_new_session=True)
    start = asyncio.create_task(start_process(starting))
    for _ in range(turns):
        await asyncio.sleep(0)
    time.sleep(0.05)  # the loop is busy, and the process starts its child
    if start.cancel():
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await start
    else:
        os.killpg(start.result().pid, signal.SIGKILL)
    for _ in range(20):
        await asyncio.sleep(0)  # the start comes to its end
    os.close(held)
    await until(lambda: not _is_held(alive), timeout=10)
    await until(lambda: not _open_transports(), timeout=10)
    os.close(alive)


def _is_held(pipe: int) -> bool:
    """Whether some process still holds the other end of a pipe."""
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return True


def _open_transports() -> list[asyncio.SubprocessTransport]:
    transports = [thing for thing in gc.get_objects() if isinstance(thing, asyncio.SubprocessTransport)]
    return [transport for transport in transports if not transport.is_closing()]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("cause: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "SSL_CERT_FILE"),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", "NODE_EXTRA_CA_CERTS"),
    ],
    ids=["uv", "python", "npm"],
)
def test_file_of_issuers_is_named_where_an_issuer_is_unknown(line, name, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/company.pem")
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/company.pem")
    hint = f"`{name}` is set here but not passed on: `--env {name}` right after `connect`"
    assert not_passed_on(line, {}, "connect") == [hint]
    assert not_passed_on(line, {name: "/company.pem"}, "connect") == []
