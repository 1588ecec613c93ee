"""What errors of connecting suggest is typed, and opens a session."""

from __future__ import annotations

import re
import shlex
import sys
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.environments import MEMORY, ROOT, needs_node, program
from tests.support.asgi import answering, serving
from tests.support.bundled import command
from tests.support.certificates import self_signed
from tests.support.processes import free_port, start_http

PEN = f"""#!{sys.executable}
import os, runpy, sys
if "needs" in sys.argv[0] and "INK_TOKEN" not in os.environ:
    sys.exit("Error: INK_TOKEN is required")
sys.argv[1:] = ["0.5" if "slow" in sys.argv[0] else "0"]
runpy.run_path({str(ROOT / "benchmarks" / "slow_server.py")!r}, run_name="__main__")
"""

CONFIG = '{{"mcpServers": {{"pen": {{"command": {python!r}, "args": [{script!r}]}}}}}}'

COMMAND, MEANT = r"as a command: %mcp (.*)", r"Did you mean ('.*')\?"
DASHES, HINT = r"goes after `--`: %mcp (.*)", r"not passed on: `(.*)` right after `connect`"

SUGGESTED = [
    # what is typed, what of the error is typed then, and where in the line that stands, unless it is all of it
    ("connect ./bin/pen", COMMAND, "{}"),
    ("connect bin/pen", COMMAND, "{}"),
    ("connect ~/bin/pen", COMMAND, "{}"),
    ("connect FOLDER/bin/pen", COMMAND, "{}"),
    ("connect './bin/a {b} $c'", COMMAND, "{}"),
    ("connect sub/mcp.json", r"config file: %mcp (.*)", "{}"),
    ("connect sub/pen.toml", r"declaration: %mcp (.*)", "{}"),
    ("connect sub/pem.py", MEANT, "connect {}"),
    ("connect pne", MEANT, "connect {}"),
    ("connect python sub/pen.py", DASHES, "{}"),
    ("connect python -u 'sub/a b.py'", DASHES, "{}"),
    ("connect sub/pen.py report.pdf", DASHES, "{}"),
    ("connect sub/pen.py --embeddings small", DASHES, "{}"),
    ("connect 'python sub/pen.py'", r"To run it as a command: `%mcp (.*?)`", "{}"),
    ("connect --name 'my pen' sub/pen.py", MEANT, "connect --name {} sub/pen.py"),
    ("connect -- pythn3 sub/pen.py", MEANT, "connect -- {} sub/pen.py"),
    ("connect --env INK_OF_NOBODY sub/pen.py", r"(--env INK_OF_NOBODY=\$value)", "connect {} sub/pen.py"),
    ("connect sub/needs.py", HINT, "connect {} sub/needs.py"),
    ("connect -- python sub/needs.py", HINT, "connect {} -- python sub/needs.py"),
    ("connect --timeout 0.2 sub/slow.py", r"\((--timeout) S waits longer\)", "connect {} 20 sub/slow.py"),
]


@pytest.fixture
def pens(tmp_path, monkeypatch):
    """A folder with the same small server under many names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INK_TOKEN", "sesame-123")
    for name in ("bin/pen", "bin/a {b} $c", "sub/pen.py", "sub/a b.py", "sub/needs.py", "sub/slow.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PEN)
        path.chmod(0o755 if "bin" in name else 0o644)
    script = str(tmp_path / "sub" / "pen.py")
    config = CONFIG.format(python=sys.executable, script=script).replace("'", '"')
    (tmp_path / "sub" / "mcp.json").write_text(config)
    (tmp_path / "mcp.json").write_text(config)
    (tmp_path / "sub" / "pen.toml").write_text(f'[servers.pen]\ncommand = "{sys.executable}"\nargs = ["{script}"]\n')
    return tmp_path


@pytest.fixture
async def follow(magic):
    """Type a line that fails, and then what its error suggests, which must open a session."""
    await host.disconnect("math")

    async def follow(line: str, suggests: str, then: str = "{}") -> Any:
        error = await magic.error(MCPMagicError, line)
        suggested = re.search(suggests, error)
        assert suggested is not None, error
        assert "sesame" not in error
        await magic(then.format(suggested[1]), value="blue")
        assert [one.state for one in host.connections.values()] == ["open"]

    return follow


@pytest.mark.parametrize(("line", "suggests", "then"), SUGGESTED, ids=[line for line, *_ in SUGGESTED])
async def test_suggestion_of_an_error_opens_a_session(follow, pens, line, suggests, then):
    await follow(line.replace("FOLDER", str(pens)), suggests, then)


async def test_program_that_is_not_executable_suggests_chmod(magic, pens):
    (pens / "bin" / "pen").chmod(0o644)
    assert "`chmod +x bin/pen` makes it executable" in await magic.error(MCPMagicError, "connect -- bin/pen")


@needs_node
async def test_path_of_an_installed_server_is_kept(follow):
    await follow(f"connect {program(MEMORY)}", COMMAND)
    assert (await host.call("memory:read_graph")).data == {"entities": [], "relations": []}


async def test_url_without_its_beginning_is_suggested_whole(follow):
    async with serving(MCPServer("web").streamable_http_app()) as url:
        await follow(f"{url}/mcp", r"Did you mean `%mcp (.*?)`")
        await host.close()
        await follow(f"connect {url[7:]}/mcp", MEANT, "connect {}")
        await host.close()


async def test_server_file_at_a_url_is_detected_and_reached(magic):
    port = free_port()
    start = command("weather_server", "--port", str(port))
    error = await magic.error(MCPMagicError, f"connect --name weather -- {shlex.join(start)}")
    with start_http(start):
        [line] = [line for line in error.splitlines() if line.startswith("  %mcp connect ")]
        await magic(f"{line.removeprefix('  %mcp ')} --name weather")
        assert (await host.call("weather:get_weather", location="London")).data["city"] == "London"
        await host.disconnect("weather")


async def test_header_and_authority_are_given_as_suggested(follow, magic, tmp_path):
    app = MCPServer("web").streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != b"Bearer TOKEN":
            return await answering(401)(scope, receive, send)
        return await app(scope, receive, send)

    cert, key = self_signed(tmp_path)
    async with serving(guarded, ssl_certfile=str(cert), ssl_keyfile=str(key)) as url:
        assert "--ca FILE names the authority to trust" in await magic.error(MCPMagicError, f"connect {url}/mcp")
        trusting = f"connect {url}/mcp --name web --ca {cert}"
        await follow(trusting, r"(--header '.*?')", f"{trusting} {{}}")
        await host.disconnect("web")


async def test_output_of_unopened_server_is_listed_by_its_name(magic, pens):
    line = "connect --name sh -- sh -c 'seq 1 60 >&2; echo Error: no ink >&2; exit 1'"
    assert "more: `%mcp logs sh`, or `.stderr` of this error" in await magic.error(MCPMagicError, line)
    listing = await magic("logs sh")
    assert [str(row["text"]) for row in listing.rows] == [*map(str, range(1, 61)), "Error: no ink"]
    assert "sh could not be opened" in str(listing)
    assert len((await magic("logs sh --last 2")).rows) == 2
    assert "sh" in candidates("logs s", {}).texts
    await magic.error(MCPMagicError, "connect --name math -- sh -c 'echo Error: no ink >&2; exit 1'")
    rows = (await magic("logs math")).rows
    assert [(row["source"], str(row["text"])) for row in rows] == [("failed start", "Error: no ink")]
    await magic("connect --name sh sub/pen.py")
    assert "sh" not in host.failed
