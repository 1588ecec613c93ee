from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from mcp_magic.config.servers import ServerEntry
from mcp_magic.config.specs import HttpSpec, InProcessSpec, SseSpec, StdioSpec, WebSocketSpec
from mcp_magic.config.targets import is_server, parse_env, parse_header, resolve_target
from mcp_magic.errors import ConfigError, TargetError

SECRET = "s3cr3t-value"
TARGETS = (
    "A target is a URL, `-- COMMAND ARG...`, a server file (.py, .js), a variable that holds an MCPServer, "
    "or a name from a config file."
)
NOT_CONFIGURED = "No config file has it."


def no_entry(name):
    raise ConfigError(NOT_CONFIGURED)


def resolve(target=None, **options):
    return resolve_target(target, **{"find_entry": no_entry, **options})


def message_of(target=None, **options):
    with pytest.raises(TargetError) as caught:
        resolve(target, **options)
    return str(caught.value)


# What a target can be


@pytest.mark.parametrize(
    ("url", "spec", "name"),
    [
        ("http://127.0.0.1:8000/mcp", HttpSpec(url="http://127.0.0.1:8000/mcp", fallback=True), "localhost_8000"),
        ("https://example.com", HttpSpec(url="https://example.com", fallback=True), "example_com"),
        ("ws://localhost:9000", WebSocketSpec(url="ws://localhost:9000"), "localhost_9000"),
        (" wss://example.com/mcp ", WebSocketSpec(url="wss://example.com/mcp"), "example_com"),
    ],
)
def test_a_url_by_its_scheme(url, spec, name):
    assert resolve(url) == (spec, name)


@pytest.mark.parametrize(
    ("transport", "spec"),
    [
        ("http", HttpSpec(url="http://h/x")),
        ("streamable-http", HttpSpec(url="http://h/x")),
        ("sse", SseSpec(url="http://h/x")),
    ],
)
def test_a_transport_that_is_said_is_the_one_that_is_used(transport, spec):
    assert resolve("http://h/x", transport=transport)[0] == spec


def test_a_command():
    spec, name = resolve(["uvx", "mcp-server-git", "--repository", "."], env={"A": "1"}, cwd="/srv")
    assert spec == StdioSpec(
        command="uvx", args=("mcp-server-git", "--repository", "."), env={"A": "1"}, cwd=Path("/srv")
    )
    assert name == "git"


def test_a_python_file_runs_with_this_kernels_python(tmp_path):
    path = tmp_path / "math_server.py"
    path.touch()
    expected = (StdioSpec(command=sys.executable, args=(str(path),)), "math")
    assert resolve("math_server.py", directory=tmp_path) == expected
    assert resolve(str(path)) == expected
    assert resolve(path) == expected


@pytest.mark.parametrize("suffix", [".js", ".mjs", ".cjs"])
def test_a_javascript_file_runs_with_node(tmp_path, suffix):
    path = tmp_path / f"weather{suffix}"
    path.touch()
    assert resolve(str(path)) == (StdioSpec(command="node", args=(str(path),)), "weather")


@pytest.mark.parametrize("server", [MCPServer("Math Tools"), Server("Math Tools")], ids=["high", "low"])
def test_a_server_object_or_the_name_of_its_variable(server):
    assert resolve(server) == (InProcessSpec(server=server), "Math_Tools")
    assert resolve("mine", lookup={"mine": server}.get) == (InProcessSpec(server=server), "mine")
    assert resolve("mine", lookup={"mine": server}.__getitem__) == (InProcessSpec(server=server), "mine")


async def test_the_server_that_is_resolved_is_the_one_that_answers():
    server = MCPServer("math")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    spec, _ = resolve("server", lookup={"server": server}.get)
    async with Client(spec.server) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}


def test_a_configured_server_by_its_name():
    entry = ServerEntry("My Tools", "mcp.json", StdioSpec(command="x"))
    assert resolve("My_Tools", find_entry=lambda name: entry) == (StdioSpec(command="x"), "My_Tools")
    assert resolve(entry) == (StdioSpec(command="x"), "My_Tools")


def test_a_configured_server_is_looked_for_around_the_folder(tmp_path):
    (tmp_path / "mcp.json").write_text('{"servers": {"weather": {"url": "http://h"}}}', encoding="utf-8")
    assert resolve_target("weather", directory=tmp_path) == (HttpSpec(url="http://h", fallback=True), "weather")


def test_a_variable_wins_over_a_configured_server():
    server = MCPServer("x")
    entry = ServerEntry("it", "mcp.json", StdioSpec(command="x"))
    assert resolve("it", lookup={"it": server}.get, find_entry=lambda name: entry)[0].server is server


@pytest.mark.parametrize("value", [3, {"a": 1}, "text", None])
def test_non_server_variable_does_not_hide_configured_server(value):
    entry = ServerEntry("it", "mcp.json", StdioSpec(command="x"))
    assert resolve("it", lookup={"it": value}.get, find_entry=lambda name: entry)[0] == StdioSpec(command="x")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (HttpSpec(url="https://example.com"), "example_com"),
        (StdioSpec(command="uvx", args=("mcp-server-git",)), "git"),
        (InProcessSpec(server=MCPServer("math")), "math"),
    ],
)
def test_a_spec_is_its_own_target(spec, name):
    assert resolve(spec) == (spec, name)
    assert resolve("it", lookup={"it": spec}.get) == (spec, "it")


def test_a_table_as_config_files_have_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN_FOR_TEST", SECRET)
    table = {"name": "far", "url": "http://h", "headers": {"A": "${TOKEN_FOR_TEST}"}}
    assert resolve(table) == (HttpSpec(url="http://h", headers={"A": SECRET}, fallback=True), "far")
    assert resolve({"command": "uvx", "args": ["mcp-server-git"]})[1] == "git"
    assert resolve({"command": "x", "cwd": "sub"}, directory=tmp_path)[0].cwd == tmp_path / "sub"


# What is said beside the target


def test_options_add_to_what_a_configured_server_has():
    entry = ServerEntry("it", "mcp.json", HttpSpec(url="https://h", headers={"Authorization": "old", "B": "2"}))
    spec, _ = resolve(entry, headers={"authorization": "new"}, timeout=5, trust=True, verify="ca.pem", cert="c.pem")
    assert spec == HttpSpec(
        url="https://h",
        headers={"B": "2", "authorization": "new"},
        timeout=5,
        trust=True,
        verify="ca.pem",
        cert="c.pem",
    )
    spec, _ = resolve(StdioSpec(command="x", env={"A": "1", "B": "2"}), env={"B": "3"})
    assert spec.env == {"A": "1", "B": "3"}


def test_without_options_nothing_changes():
    spec = HttpSpec(url="https://h", timeout=5, trust=True, verify=False, fallback=True)
    assert resolve(spec)[0] == spec


def test_another_transport_keeps_the_rest():
    def factory(**options):
        raise NotImplementedError

    spec = HttpSpec(url="https://h", headers={"A": "1"}, timeout=5, trust=True, client_factory=factory)
    assert resolve(spec, transport="sse")[0] == SseSpec(
        url="https://h", headers={"A": "1"}, timeout=5, trust=True, client_factory=factory
    )
    assert resolve("https://h", client_factory=factory)[0].client_factory is factory


def test_a_relative_cwd_is_relative_to_the_folder(tmp_path):
    assert resolve(["x"], cwd="sub", directory=tmp_path)[0].cwd == tmp_path / "sub"


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        pytest.param(
            ["x"],
            {"headers": {"A": SECRET}},
            "a server with a command has no headers; servers with a URL have.",
            id="headers",
        ),
        pytest.param("http://h", {"env": {"A": SECRET}}, "a server with a URL has no env; commands have.", id="env"),
        pytest.param("http://h", {"cwd": "/x"}, "a server with a URL has no cwd; commands have.", id="cwd"),
        pytest.param(
            MCPServer("x"),
            {"verify": False},
            "a server in this kernel has no verify; servers with a URL have.",
            id="verify",
        ),
        pytest.param(
            "ws://h",
            {"client_factory": dict},
            "a server with a URL has no client_factory; HTTP servers have.",
            id="factory",
        ),
        pytest.param(
            "http://h",
            {"transport": "htp"},
            "transport: unknown value 'htp'. Did you mean 'http'? "
            "Valid: stdio, http (streamable-http), sse, ws (websocket).",
            id="transport",
        ),
        pytest.param(
            "http://h",
            {"transport": "ws"},
            "the transport 'ws' needs a URL with ws:// or wss://, not http://.",
            id="ws",
        ),
        pytest.param(
            "http://h", {"transport": "stdio"}, "the transport 'stdio' needs a command, not a url.", id="stdio"
        ),
        pytest.param(
            ["x"], {"transport": "http"}, "the transport 'http' needs a URL; a command speaks stdio.", id="command http"
        ),
        pytest.param(
            MCPServer("x"),
            {"transport": "http"},
            "the transport 'http' needs a URL; a server in this kernel speaks in-process.",
            id="object http",
        ),
        pytest.param("http://h", {"timeout": 0}, "timeout: expected seconds above 0, got 0.", id="timeout"),
        pytest.param("http://h", {"timeout": "x"}, "timeout: expected seconds above 0, got 'x'.", id="timeout text"),
        pytest.param(
            "http://h", {"headers": "A: b"}, "headers: expected names with values, got text.", id="headers text"
        ),
        pytest.param("http://h", {"trust": "no"}, "trust: expected true or false, got text.", id="trust text"),
        pytest.param(["x"], {"cwd": 5}, "cwd: expected a folder, got a number.", id="cwd number"),
    ],
)
def test_an_option_that_does_not_fit_says_whose_it_is(target, options, message):
    assert message_of(target, **options) == message


# What is no target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("", f"no target given. {TARGETS}", id="empty"),
        pytest.param(None, f"nothing is not a target. {TARGETS}", id="none"),
        pytest.param(3, f"an object of type int is not a target. {TARGETS}", id="number"),
        pytest.param("ftp://h", "url: the scheme 'ftp' is not supported. Valid: http, https, ws, wss.", id="scheme"),
        pytest.param("http://", "url: not a URL with a host, for example http://127.0.0.1:8000/mcp.", id="no host"),
        pytest.param({"url": "http://h", "urll": 1}, "server table: urll: unknown key. Did you mean 'url'?", id="key"),
        pytest.param({}, "server table: needs a command (stdio) or a url.", id="empty table"),
        pytest.param(
            "nope_zzz", f"'nope_zzz' is not a file, URL, variable or configured name.\n{NOT_CONFIGURED}", id="unknown"
        ),
        pytest.param(
            "waether",
            f"'waether' is not a file, URL, variable or configured name. Did you mean 'weather'?\n{NOT_CONFIGURED}",
            id="close",
        ),
        pytest.param(
            "frame", f"the variable frame holds an object of type list, not a server.\n{NOT_CONFIGURED}", id="variable"
        ),
        pytest.param(
            "uvx mcp-server-git",
            "'uvx mcp-server-git' is not a file, URL, variable or configured name. To run it as a command: "
            f"`%mcp connect -- uvx mcp-server-git`.\n{NOT_CONFIGURED}",
            id="command line",
        ),
    ],
)
def test_what_is_no_target_says_what_would_be(target, message):
    assert message_of(target, lookup={"frame": [1]}.get, known=["weather", "frame"]) == message


def test_a_command_line_that_is_repeated_has_no_secrets():
    assert SECRET not in message_of(f"uvx server --token {SECRET}")


def test_a_program_without_dashes_is_told_how_to_write_it():
    assert "To run it as a command: `%mcp connect -- sh`." in message_of("sh")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope.py", "no server file at {path}. `%mcp connect --help` shows what can be connected."),
        ("sub/nope", "no server file at {path}. `%mcp connect --help` shows what can be connected."),
        ("./folder", "no server file at {path} (it is a folder). `%mcp connect --help` shows what can be connected."),
        ("sub/servr.py", "no server file at {path}. `%mcp connect --help` shows what can be connected."),
        ("servers/mat_server.py", "no server file at {path}. Did you mean 'servers/math_server.py'?"),
        (
            "mcp.json",
            "{path} is not a server file (.py, .js, .mjs, .cjs). "
            "For the servers of a config file: %mcp connect --config mcp.json",
        ),
        (
            "mcp_magic.toml",
            "{path} is not a server file (.py, .js, .mjs, .cjs). For a declaration: %mcp up mcp_magic.toml",
        ),
        ("s.ts", "{path} is not a server file (.py, .js, .mjs, .cjs). Run it as a command: %mcp connect -- ./s.ts"),
        ("./s.sh", "{path} is not a server file (.py, .js, .mjs, .cjs). Run it as a command: %mcp connect -- ./s.sh"),
        ("./a b/s", "{path} is not a server file (.py, .js, .mjs, .cjs). Run it as a command: %mcp connect -- 'a b/s'"),
    ],
)
def test_a_path_that_is_no_server_file_is_named_whole(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "servers").mkdir()
    (tmp_path / "a b").mkdir()
    for existing in ("mcp.json", "mcp_magic.toml", "s.ts", "s.sh", "servers/math_server.py", "servers/web.js", "a b/s"):
        (tmp_path / existing).touch()
    (tmp_path / "s.sh").chmod(0o755)
    assert message_of(name, directory=tmp_path) == message.format(path=tmp_path / name)


def test_a_configured_server_with_a_problem_raises_it():
    entry = ServerEntry(
        "it", "mcp.json", problem=ConfigError("mcp.json: server 'it': needs a command (stdio) or a url.")
    )
    with pytest.raises(ConfigError) as caught:
        resolve("it", find_entry=lambda name: entry)
    assert str(caught.value) == "mcp.json: server 'it': needs a command (stdio) or a url."


def test_only_instances_of_the_sdks_servers_are_servers():
    class Fake:
        name = "x"
        run = list_tools = None

    assert is_server(MCPServer("x"))
    assert is_server(Server("x"))
    assert not is_server(MCPServer)
    assert not is_server(Fake())


# Headers and variables


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("Authorization: Bearer a:b", ("Authorization", "Bearer a:b")),
        ("X-Key:v", ("X-Key", "v")),
        ("X-Empty:", ("X-Empty", "")),
    ],
)
def test_a_header_is_read_as_curl_reads_it(text, pair):
    assert parse_header(text) == pair


@pytest.mark.parametrize("text", [SECRET, f": {SECRET}", f"Authorization=Bearer {SECRET}: x", f"A: {SECRET}\nB: c"])
def test_a_header_that_is_none_says_how_one_is_written(text):
    with pytest.raises(TargetError) as caught:
        parse_header(text)
    assert str(caught.value) == "a header is written 'Name: value', for example 'Authorization: Bearer $token'."


@pytest.mark.parametrize(("text", "pair"), [("A=b=c", ("A", "b=c")), ("A=", ("A", "")), ("HERE", ("HERE", "yes"))])
def test_a_variable_has_a_value_or_takes_the_one_from_here(monkeypatch, text, pair):
    monkeypatch.setenv("HERE", "yes")
    assert parse_env(text) == pair


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"={SECRET}", "a variable is written NAME=value, or NAME for the value that it has here."),
        (f"A B={SECRET}", "a variable is written NAME=value, or NAME for the value that it has here."),
        (
            "NOPE",
            "the variable NOPE is not set here. Set it in the environment, or keep its value in a Python variable, "
            "which no notebook saves: --env NOPE=$value",
        ),
    ],
)
def test_a_variable_that_is_none_says_how_one_is_written(text, message):
    with pytest.raises(TargetError) as caught:
        parse_env(text, {})
    assert str(caught.value) == message
