"""What can be connected: URLs, commands, files, variables, specs, tables and names of config files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.servers import ServerEntry
from mcp_magic.config.specs import AuthOptions, HttpSpec, InProcessSpec, SseSpec, StdioSpec, WebSocketSpec
from mcp_magic.config.targets import is_server, parse_env, parse_header, resolve_target
from mcp_magic.errors import ConfigError, TargetError
from tests.support.raising import said

SECRET = "s3cr3t-value"
TARGETS = (
    "A target is a URL, `-- COMMAND ARG...`, a server file (.py, .js), a variable that holds an MCPServer, "
    "or a name from a config file."
)
NOT_CONFIGURED = "No config file has it."


def no_entry(name: str) -> ServerEntry:
    raise ConfigError(NOT_CONFIGURED)


def resolve(target: Any = None, **options: Any) -> tuple[Any, str]:
    return resolve_target(target, **{"find_entry": no_entry, **options})


H, X = HttpSpec(url="http://h/x"), StdioSpec(command="x")
ENTRY = ServerEntry("My Tools", "mcp.json", X)
MATH, LOW = MCPServer("Math Tools"), Server("Math Tools")
HERE = InProcessSpec(server=MATH)
OFF = HttpSpec(url="https://h", sampling="off")
GIT = StdioSpec(command="uvx", args=("mcp-server-git",))


@pytest.mark.parametrize(
    ("target", "options", "spec", "name"),
    [
        ("https://example.com", {}, HttpSpec(url="https://example.com", fallback=True), "example_com"),
        ("ws://localhost:9000", {}, WebSocketSpec(url="ws://localhost:9000"), "localhost_9000"),
        (" wss://example.com/mcp ", {}, WebSocketSpec(url="wss://example.com/mcp"), "example_com"),
        ("http://h/x", {"transport": "http"}, H, "h"),
        ("http://h/x", {"transport": "streamable-http"}, H, "h"),
        ("http://h/x", {"transport": "sse"}, SseSpec(url="http://h/x"), "h"),
        (["uvx", "mcp-server-git"], {"env": {"A": "1"}, "cwd": "/srv"},
         StdioSpec(command="uvx", args=("mcp-server-git",), env={"A": "1"}, cwd=Path("/srv")), "git"),
        (MATH, {}, HERE, "Math_Tools"),
        (LOW, {}, InProcessSpec(server=LOW), "Math_Tools"),
        ("mine", {"lookup": {"mine": MATH}.get}, HERE, "mine"),
        ("mine", {"lookup": {"mine": LOW}.__getitem__}, InProcessSpec(server=LOW), "mine"),
        ("My_Tools", {"find_entry": lambda name: ENTRY}, X, "My_Tools"),
        (ENTRY, {}, X, "My_Tools"),
        ("it", {"lookup": {"it": MATH}.get, "find_entry": lambda name: ENTRY}, HERE, "it"),
        # a variable that is no server does not hide a configured one
        *(("it", {"lookup": {"it": value}.get, "find_entry": lambda name: ENTRY}, X, "My_Tools")
          for value in (3, {"a": 1}, "text", None)),
        *((spec, {}, spec, name) for spec, name in ((H, "h"), (GIT, "git"), (HERE, "Math_Tools"))),
        *(("it", {"lookup": {"it": spec}.get}, spec, "it") for spec in (H, GIT, HERE)),
        ({"command": "uvx", "args": ["mcp-server-git"]}, {}, GIT, "git"),
        # what is said beside the target
        (HttpSpec(url="https://h", timeout=5, trust=True, verify=False, fallback=True), {},
         HttpSpec(url="https://h", timeout=5, trust=True, verify=False, fallback=True), "h"),
        (HttpSpec(url="https://h", headers={"Authorization": "old", "B": "2"}),
         {"headers": {"authorization": "new"}, "timeout": 5, "trust": True, "verify": "ca.pem", "cert": "c.pem"},
         HttpSpec(url="https://h", headers={"B": "2", "authorization": "new"}, timeout=5, trust=True, verify="ca.pem",
                  cert="c.pem"), "h"),
        (StdioSpec(command="x", env={"A": "1", "B": "2"}), {"env": {"B": "3"}},
         StdioSpec(command="x", env={"A": "1", "B": "3"}), "x"),
        (HttpSpec(url="https://h", headers={"A": "1"}, timeout=5, trust=True, client_factory=dict),
         {"transport": "sse"},
         SseSpec(url="https://h", headers={"A": "1"}, timeout=5, trust=True, client_factory=dict), "h"),
        ("https://h", {"client_factory": dict}, HttpSpec(url="https://h", client_factory=dict, fallback=True), "h"),
        (HttpSpec(url="https://h", auth=AuthOptions(mode="oauth", client_id="me")), {"auth": {"scopes": ["read"]}},
         HttpSpec(url="https://h", auth=AuthOptions(mode="oauth", client_id="me", scopes=("read",))), "h"),
        (OFF, {}, OFF, "h"),
        (OFF, {"sampling": "auto"}, HttpSpec(url="https://h", sampling="auto"), "h"),
        (OFF, {"transport": "sse"}, SseSpec(url="https://h", sampling="off"), "h"),
        (OFF, {"sampling": "auto", "transport": "sse"},
         SseSpec(url="https://h", sampling="auto"), "h"),
    ],
)  # fmt: skip
def test_a_target_becomes_a_spec_and_a_name(target, options, spec, name):
    assert resolve(target, **options) == (spec, name)


def test_files_of_servers_run_with_their_program(tmp_path):
    path = tmp_path / "math_server.py"
    path.touch()
    expected = (StdioSpec(command=sys.executable, args=(str(path),)), "math")  # this kernel's Python
    assert resolve("math_server.py", directory=tmp_path) == resolve(str(path)) == resolve(path) == expected
    for suffix in (".js", ".mjs", ".cjs"):
        path = tmp_path / f"weather{suffix}"
        path.touch()
        assert resolve(str(path)) == (StdioSpec(command="node", args=(str(path),)), "weather")


async def test_the_server_that_is_resolved_is_the_one_that_answers():
    server = MCPServer("math")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    spec, _ = resolve("server", lookup={"server": server}.get)
    async with Client(spec.server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}


def test_names_and_folders_are_looked_up_from_the_directory(tmp_path, monkeypatch):
    (tmp_path / "mcp.json").write_text('{"servers": {"weather": {"url": "http://h"}}}', encoding="utf-8")
    assert resolve_target("weather", directory=tmp_path) == (HttpSpec(url="http://h", fallback=True), "weather")
    assert resolve(["x"], cwd="sub", directory=tmp_path)[0].cwd == tmp_path / "sub"
    assert resolve({"command": "x", "cwd": "sub"}, directory=tmp_path)[0].cwd == tmp_path / "sub"
    monkeypatch.setenv("TOKEN_FOR_TEST", SECRET)
    table = {"name": "far", "url": "http://h", "headers": {"A": "${TOKEN_FOR_TEST}"}}
    assert resolve(table) == (HttpSpec(url="http://h", headers={"A": SECRET}, fallback=True), "far")


TRANSPORTS = "Valid: stdio, http (streamable-http), sse, ws (websocket)."
OPTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (["x"], {"headers": {"A": SECRET}}, "a server with a command has no headers; servers with a URL have."),
    (["x"], {"transport": "http"}, "the transport 'http' needs a URL; a command speaks stdio."),
    (["x"], {"cwd": 5}, "cwd: expected a folder, got a number."),
    (["x"], {"auth": "oauth"}, "a server with a command has no auth; HTTP servers have."),
    ("http://h", {"env": {"A": SECRET}}, "a server with a URL has no env; commands have."),
    ("http://h", {"cwd": "/x"}, "a server with a URL has no cwd; commands have."),
    ("http://h", {"transport": "htp"}, f"transport: unknown value 'htp'. Did you mean 'http'? {TRANSPORTS}"),
    ("http://h", {"transport": "ws"}, "the transport 'ws' needs a URL with ws:// or wss://, not http://."),
    ("http://h", {"transport": "stdio"}, "the transport 'stdio' needs a command, not a url."),
    ("http://h", {"timeout": 0}, "timeout: expected seconds above 0, got 0."),
    ("http://h", {"timeout": "x"}, "timeout: expected seconds above 0, got 'x'."),
    ("http://h", {"headers": "A: b"}, "headers: expected names with values, got text."),
    ("http://h", {"trust": "no"}, "trust: expected true or false, got text."),
    ("ws://h", {"client_factory": dict}, "a server with a URL has no client_factory; HTTP servers have."),
    ("ws://h", {"auth": "oauth"}, "a server with a URL has no auth; HTTP servers have."),
    (MATH, {"verify": False}, "a server in this kernel has no verify; servers with a URL have."),
    (MATH, {"transport": "http"}, "the transport 'http' needs a URL; a server in this kernel speaks in-process."),
]


@pytest.mark.parametrize(("target", "options", "message"), OPTIONS)
def test_an_option_that_does_not_fit_says_whose_it_is(target, options, message):
    assert said(TargetError, resolve, target, **options) == message


@pytest.mark.parametrize(
    ("value", "words"),
    [("always", "expected off, ask or auto, got 'always'."), ("aut", "Did you mean 'auto'?"), (True, "got a boolean.")],
)
def test_a_wrong_word_for_sampling_names_the_key(value, words):
    message = said(TargetError, resolve, {"command": "x", "sampling": value})
    assert "sampling: " in message
    assert words in message


NO_NAME = "is not a file, URL, variable or configured name."
NO_TARGETS: list[tuple[Any, str]] = [
    ("", f"no target given. {TARGETS}"),
    (None, f"nothing is not a target. {TARGETS}"),
    (3, f"an object of type int is not a target. {TARGETS}"),
    ("ftp://h", "url: the scheme 'ftp' is not supported. Valid: http, https, ws, wss."),
    ("http://", "url: not a URL with a host, for example http://127.0.0.1:8000/mcp."),
    ({"url": "http://h", "urll": 1}, "server table: urll: unknown key. Did you mean 'url'?"),
    ({}, "server table: needs a command (stdio) or a url."),
    ("nope_zzz", f"'nope_zzz' {NO_NAME}\n{NOT_CONFIGURED}"),
    ("waether", f"'waether' {NO_NAME} Did you mean 'weather'?\n{NOT_CONFIGURED}"),
    ("frame", f"the variable frame holds an object of type list, not a server.\n{NOT_CONFIGURED}"),
    ("uvx server", f"'uvx server' {NO_NAME} To run it as a command: `%mcp connect -- uvx server`.\n{NOT_CONFIGURED}"),
]


@pytest.mark.parametrize(("target", "message"), NO_TARGETS)
def test_an_invalid_target_says_what_is_valid(target, message):
    assert said(TargetError, resolve, target, lookup={"frame": [1]}.get, variables=["weather", "frame"]) == message


def test_a_command_without_dashes_is_shown_without_secrets():
    assert SECRET not in said(TargetError, resolve, f"uvx server --token {SECRET}")
    assert "To run it as a command: `%mcp connect -- sh`." in said(TargetError, resolve, "sh")
    problem = ConfigError("mcp.json: server 'it': needs a command (stdio) or a url.")
    broken = ServerEntry("it", "mcp.json", problem=problem)
    assert said(ConfigError, resolve, "it", find_entry=lambda name: broken) == str(problem)


NO_FILE = "`%mcp connect --help` shows what can be connected."
SERVER_FILE = "is not a server file (.py, .js, .mjs, .cjs)."
PATHS = {
    "nope.py": f"no server file at {{path}}. {NO_FILE}",
    "sub/nope": f"no server file at {{path}}. {NO_FILE}",
    "./folder": f"no server file at {{path}} (it is a folder). {NO_FILE}",
    "sub/servr.py": f"no server file at {{path}}. {NO_FILE}",
    "servers/mat_server.py": "no server file at {path}. Did you mean 'servers/math_server.py'?",
    "mcp.json": f"{{path}} {SERVER_FILE} For the servers of a config file: %mcp connect --config mcp.json",
    "mcp_magic.toml": f"{{path}} {SERVER_FILE} For a declaration: %mcp up mcp_magic.toml",
    "s.ts": f"{{path}} {SERVER_FILE} Run it as a command: %mcp connect -- ./s.ts",
    "./s.sh": f"{{path}} {SERVER_FILE} Run it as a command: %mcp connect -- ./s.sh",
    "./a b/s": f"{{path}} {SERVER_FILE} Run it as a command: %mcp connect -- 'a b/s'",
}


@pytest.mark.parametrize("name", PATHS)
def test_a_path_that_is_no_server_file_is_named_whole(tmp_path, name):
    for folder in ("folder", "servers", "a b"):
        (tmp_path / folder).mkdir()
    for existing in ("mcp.json", "mcp_magic.toml", "s.ts", "s.sh", "servers/math_server.py", "servers/web.js", "a b/s"):
        (tmp_path / existing).touch()
    (tmp_path / "s.sh").chmod(0o755)
    assert said(TargetError, resolve, name, directory=tmp_path) == PATHS[name].format(path=tmp_path / name)


def test_only_instances_of_the_sdks_servers_are_servers():
    class Fake:
        name = "x"
        run = list_tools = None

    assert [is_server(value) for value in (MATH, LOW, MCPServer, Fake())] == [True, True, False, False]


HEADER = "a header is written 'Name: value', for example 'Authorization: Bearer $token'."
VARIABLE = "a variable is written NAME=value, or NAME for the value that it has here."
UNSET = (
    "the variable NOPE is not set here. Set it in the environment, or keep its value in a Python variable, "
    "which no notebook saves: --env NOPE=$value"
)


def test_headers_and_variables_are_read_as_curl_reads_them(monkeypatch):
    assert parse_header("Authorization: Bearer a:b") == ("Authorization", "Bearer a:b")
    assert parse_header("X-Key:v") == ("X-Key", "v")
    assert parse_header("X-Empty:") == ("X-Empty", "")
    for text in (SECRET, f": {SECRET}", f"Authorization=Bearer {SECRET}: x", f"A: {SECRET}\nB: c"):
        assert said(TargetError, parse_header, text) == HEADER
    monkeypatch.setenv("HERE", "yes")
    assert [parse_env(text) for text in ("A=b=c", "A=", "HERE")] == [("A", "b=c"), ("A", ""), ("HERE", "yes")]
    for text, message in ((f"={SECRET}", VARIABLE), (f"A B={SECRET}", VARIABLE), ("NOPE", UNSET)):
        assert said(TargetError, parse_env, text, {}) == message
