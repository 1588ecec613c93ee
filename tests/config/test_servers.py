"""Servers as other hosts' files describe them, where those files are, and which of a name counts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.project import parse_declaration
from mcp_magic.config.servers import (
    ServerEntry,
    discover_servers,
    find_configs,
    find_server,
    load_config,
    parse_servers,
)
from mcp_magic.config.specs import AuthOptions, HttpSpec, SseSpec, StdioSpec, WebSocketSpec
from mcp_magic.errors import ConfigError
from tests.support.raising import said

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr3t-value"


def parse_all(data: Any) -> list[ServerEntry]:
    return parse_servers(data, source="mcp.json", environ={}, base=None)


def parsed(fields: Any, *, key: str = "mcpServers", base: Path | None = None) -> ServerEntry:
    [entry] = parse_servers({key: {"it": fields}}, source="mcp.json", environ={}, base=base)
    return entry


def spec_of(fields: Any, **options: Any) -> Any:
    entry = parsed(fields, **options)
    assert entry.problem is None, entry.problem
    return entry.spec


def problem_of(fields: Any, **options: Any) -> str:
    entry = parsed(fields, **options)
    assert entry.spec is None
    return str(entry.problem)


ENV = {"TOKEN": SECRET, "PORT": 80, "DEBUG": True, "X": None}
HTTP, FALLBACK = HttpSpec(url="http://h/mcp"), HttpSpec(url="http://h/mcp", fallback=True)
SPECS: dict[str, tuple[dict[str, Any], Any]] = {
    "claude": (
        {"command": "npx", "args": ["-y", "pkg"], "env": ENV},
        StdioSpec(command="npx", args=("-y", "pkg"), env={"TOKEN": SECRET, "PORT": "80", "DEBUG": "true"}),
    ),
    "no type": ({"url": "http://h/mcp"}, FALLBACK),
    "serverUrl": ({"serverUrl": "http://h/mcp"}, FALLBACK),
    "httpUrl": ({"httpUrl": "http://h/mcp"}, FALLBACK),
    **{name: ({"type": name, "url": "http://h/mcp"}, HTTP) for name in ("http", "streamable-http", "streamable_http")},
    "streamableHttp": ({"transport": "streamableHttp", "url": "http://h/mcp"}, HTTP),
    "sse": ({"type": "sse", "url": "http://h/mcp"}, SseSpec(url="http://h/mcp")),
    "transport": ({"transport": "sse", "url": "http://h/mcp"}, SseSpec(url="http://h/mcp")),
    "ws": ({"type": "ws", "url": "wss://h/mcp"}, WebSocketSpec(url="wss://h/mcp")),
    "websocket": ({"type": "websocket", "url": "wss://h/mcp"}, WebSocketSpec(url="wss://h/mcp")),
    "wss": ({"url": "wss://h/mcp"}, WebSocketSpec(url="wss://h/mcp")),
    "not verified": (
        {"url": "https://h", "verify": False, "cert": "c.pem"},
        HttpSpec(url="https://h", verify=False, cert="c.pem", fallback=True),
    ),
    "others": ({"command": "x", "autoApprove": ["*"], "gallery": 1, "headers": {}}, StdioSpec(command="x")),
    "oauth": (
        {"url": "http://h/mcp", "oauth": {"clientId": "a", "callbackPort": 80}},
        HttpSpec(url="http://h/mcp", fallback=True, auth=AuthOptions(mode="oauth", client_id="a", redirect_port=80)),
    ),
    "auth": (
        {"url": "http://h/mcp", "auth": {"CLIENT_ID": "abc"}},
        HttpSpec(url="http://h/mcp", fallback=True, auth=AuthOptions(mode="oauth", client_id="abc")),
    ),
    "auth of others": ({"url": "http://h/mcp", "auth": 7}, FALLBACK),
}


@pytest.mark.parametrize("name", SPECS)
def test_fields_of_other_hosts_make_a_spec(name):
    fields, spec = SPECS[name]
    assert spec_of(fields) == spec


def test_vs_codes_and_jupyters_files_are_understood():
    assert spec_of({"type": "http", "url": "http://h/mcp"}, key="servers") == FALLBACK
    npx = {"name": "My Tools", "command": "npx", "args": ["x"], "env": [{"name": "K", "value": "v"}]}
    far = {"name": "far", "type": "http", "url": "http://h", "headers": [{"name": "A", "value": "b"}]}
    entries = parse_all({"mcp_servers": [npx, far, {"command": "nameless"}]})
    assert [(entry.name, entry.spec) for entry in entries] == [
        ("My Tools", StdioSpec(command="npx", args=("x",), env={"K": "v"})),
        ("far", HttpSpec(url="http://h", headers={"A": "b"})),
        ("server 3", StdioSpec(command="nameless")),
    ]
    [bare] = parse_all({"it": {"command": "x"}})
    assert (bare.name, bare.spec) == ("it", StdioSpec(command="x"))
    both = {"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}
    assert [entry.name for entry in parse_all(both)] == ["a", "b"]
    assert parse_all({}) == []
    bad, good = parse_all({"mcpServers": {"bad": {}, "good": {"command": "x"}}})
    assert isinstance(bad.problem, ConfigError)
    assert (good.spec, good.problem) == (StdioSpec(command="x"), None)


def test_our_own_keys_and_relative_paths_are_read(tmp_path):
    fields = {"url": "https://h", "trust": True, "timeout": 5, "verify": "ca.pem", "cert": ["c.pem", "k.pem"]}
    cert = (str(tmp_path / "c.pem"), str(tmp_path / "k.pem"))
    own = {"trust": True, "timeout": 5, "verify": str(tmp_path / "ca.pem"), "cert": cert}
    assert spec_of(fields, base=tmp_path) == HttpSpec(url="https://h", fallback=True, **own)
    assert spec_of({"command": "x", "cwd": "sub"}, base=tmp_path).cwd == tmp_path / "sub"
    (tmp_path / "my.env").write_text("A=file\nB='two words' # comment\nEMPTY\n", encoding="utf-8")
    spec = spec_of({"command": "x", "envFile": "my.env", "env": {"A": "said"}}, base=tmp_path)
    assert spec.env == {"A": "said", "B": "two words"}
    missing = f"mcp.json: server 'it': {tmp_path / 'no.env'} cannot be read: No such file or directory."
    assert problem_of({"command": "x", "envFile": "no.env"}, base=tmp_path) == missing


def test_sampling_is_asked_for_unless_it_is_said(tmp_path):
    values: dict[str, Any] = {"a": "auto", "b": None, "other host's": {"model": "gpt-5"}}
    entries = {name: spec_of({"command": "x", "sampling": value}) for name, value in values.items()}
    assert {name: spec.sampling for name, spec in entries.items()} == {"a": "auto", "b": "ask", "other host's": "ask"}
    for mode in ("off", "ask", "auto"):
        text = f'[servers.w]\nurl = "http://127.0.0.1:1/mcp"\nsampling = "{mode}"\n'
        entry = parse_declaration(text, source="here", environ={}, base=None, settings={}).servers["w"]
        assert entry.spec is not None
        assert entry.spec.sampling == mode


@pytest.mark.parametrize("fields", [{"disabled": True}, {"enabled": False}, {"isActive": False}])
def test_a_disabled_server_is_listed_with_its_spec(fields):
    entry = parsed({"command": "x", **fields})
    assert entry.disabled
    assert entry.spec == StdioSpec(command="x")


H, X = {"url": "http://h"}, {"command": "x"}
TRANSPORTS = "Valid: stdio, http (streamable-http), sse, ws (websocket)."
NO_HOST = "url: not a URL with a host, for example http://127.0.0.1:8000/mcp."
PROBLEMS: list[tuple[Any, str]] = [
    ({}, "needs a command (stdio) or a url."),
    ({"type": "http"}, "needs a url."),
    ({"type": "stdio"}, "needs a command."),
    ({**X, **H}, "has both command and url. Keep one: command (stdio) or url (http, sse, ws)."),
    ({**X, "type": "sse"}, "the transport 'sse' needs a url, not a command."),
    ({**H, "type": "stdio"}, "the transport 'stdio' needs a command, not a url."),
    ({**H, "type": "htp"}, f"transport: unknown value 'htp'. Did you mean 'http'? {TRANSPORTS}"),
    ({**H, "type": 3}, f"transport: unknown value 3. {TRANSPORTS}"),
    ({**H, "type": "ws"}, "the transport 'ws' needs a URL with ws:// or wss://, not http://."),
    ({"url": "ftp://h"}, "url: the scheme 'ftp' is not supported. Valid: http, https, ws, wss."),
    ({"url": "localhost:8000"}, NO_HOST),
    ({"url": "http://h:port"}, NO_HOST),
    ({"url": 3}, "url: expected text, got a number."),
    ({"command": " "}, "command: expected text, got empty text."),
    ({"command": []}, "command: expected text, got a list."),
    ({**X, "args": "-v"}, "args: expected a list of strings, got text."),
    ({**X, "args": ["a", {}]}, "args.1: expected text, got a table."),
    ({**X, "env": "A=1"}, "env: expected names with values, got text."),
    ({**X, "env": {"A": []}}, "env.A: expected text, got a list."),
    ({**H, "headers": {"A": "b\nC: d"}}, "headers.A: a header cannot have line breaks."),
    ({**X, "timeout": 0}, "timeout: expected seconds above 0, got 0."),
    ({**X, "timeout": "5"}, "timeout: expected seconds above 0, got '5'."),
    ({**X, "trust": "yes"}, "trust: expected true or false, got text."),
    ({**X, "disabled": 1}, "disabled: expected true or false, got a number."),
    ({**H, "verify": 1}, "verify: expected true, false or the path of a CA bundle, got a number."),
    ({**H, "cert": ["a", "b", "c"]}, "cert: expected the path of a certificate, or [certificate, key]."),
    ("npx x", "expected an object, got text."),
]
MISSED: list[tuple[Any, str]] = [
    ({**X, "sandboxEnabled": True, "sandbox": {"x": 1}}, "sandbox.x: unknown key."),  # VS Code
    ({**H, "headersHelper": 3}, "headers_helper: expected a command as text, got a number"),  # Claude Code
    ({**H, "authProviderType": "google_credentials"}, "authProviderType: is not supported here, so requests"),
]


@pytest.mark.parametrize(("fields", "message"), PROBLEMS)
def test_a_server_described_wrongly_says_what_and_where(fields, message):
    assert problem_of(fields) == f"mcp.json: server 'it': {message}"


@pytest.mark.parametrize(("fields", "message"), MISSED)
def test_a_key_that_is_missed_refuses_the_server(fields, message):
    assert problem_of(fields).startswith(f"mcp.json: server 'it': {message}")


@pytest.mark.parametrize(
    "fields",
    [
        *({**X, "env": {"KEY": SECRET}}, {**H, "headers": {"A": SECRET}}, {"url": f"http://me:{SECRET}@h"}),
        *({"url": f"ftp://me:{SECRET}@h"}, {"url": f"http://me:{SECRET}@h:port"}, {**X, "env": [SECRET]}),
        *({**H, "headers": {"A": f"{SECRET}\n"}}, {**X, "args": [[SECRET]]}),
    ],
)
def test_secrets_are_in_no_repr_and_no_problem(fields):
    entry = parsed(fields)
    assert SECRET not in repr(entry)
    assert SECRET not in str(entry.problem)


NO_SERVERS: list[tuple[Any, str]] = [
    ([], "expected an object with mcpServers or servers, got a list."),
    ({"mcpServers": 3}, "mcpServers: expected an object of servers by name, got a number."),
    ({"mcpServer": {"x": {}}}, "no mcpServers or servers in it, only mcpServer. Did you mean 'mcpServers'?"),
    ({"theme": "dark"}, "no mcpServers or servers in it, only theme."),
]


@pytest.mark.parametrize(("data", "message"), NO_SERVERS)
def test_a_document_without_servers_says_what_is_in_it(data, message):
    assert said(ConfigError, parse_all, data) == f"mcp.json: {message}"


@pytest.mark.parametrize(
    ("fields", "unused"),
    [
        *(({**X, "sandboxEnabled": False}, ()), ({**X, "sandboxEnabled": False, "sandbox": {"network": {}}}, ())),
        ({**X, "gallery": True, "version": "1", "dev": {"watch": "src"}}, ("gallery", "version", "dev")),
        ({**X, "alwaysAllow": ["a"], "disabledTools": ["b"]}, ("alwaysAllow", "disabledTools")),
        *(({**X, "headers": {"A": "b"}}, ("headers",)), ({**H, "cwd": "/tmp", "envFile": "x"}, ("cwd", "envFile"))),
        ({**X, "sampling": {"allowedDuringChat": True}, "protocol": "x"}, ("sampling", "protocol")),
        *(({**H, "oauth": {"clientId": "c", "extra": 1}}, ("auth.extra",)), ({**X, "tools": ["*"], "name": "n"}, ())),
        ({**X, "enabled": True}, ()),
    ],
)
def test_a_key_without_effect_is_named(fields, unused):
    assert spec_of(fields).unused == unused
    offered = "its configuration has disabledTools, without effect here; all its tools are offered, "
    told = f"{offered}and `%mcp deny SERVER:TOOL` refuses one"
    assert spec_of({**X, "disabledTools": ["b"]}).unused_note == told


def write(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path):
    return (tmp_path / "home").resolve()


@pytest.fixture
def project(home):
    folder = home / "work" / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


SERVER = {"mcpServers": {"it": {"command": "x", "args": ["server.py"]}}}


def test_files_are_looked_for_nearest_first_then_at_home(home, project):
    notebooks = project / "notebooks"
    expected = [
        *(notebooks / "mcp.json", notebooks / ".vscode" / "mcp.json", project / "mcp.json", project / ".mcp.json"),
        *(project / ".cursor" / "mcp.json", project / ".jupyter" / "mcp_settings.json", home / ".cursor" / "mcp.json"),
        home / "Library" / "Application Support" / "Claude" / "claude_desktop_config.json",
        home / "Roaming" / "Claude" / "claude_desktop_config.json",
        *(home / ".config" / "Claude" / "claude_desktop_config.json", home / ".claude.json"),
        home / "jupyter" / "mcp_settings.json",
    ]
    for path in [*expected, home / "work" / "mcp.json"]:  # the last one is above the repository
        write(path, {})
    environ = {"APPDATA": str(home / "Roaming"), "JUPYTER_CONFIG_DIR": str(home / "jupyter")}
    assert find_configs(notebooks, home=home, environ=environ) == expected


def test_parents_count_up_to_home_and_not_outside(home, tmp_path):
    path = write(home / "mcp.json", {})
    (home / "a" / "b").mkdir(parents=True)
    assert find_configs(home / "a" / "b", home=home, environ={}) == [path]
    write(tmp_path / "mcp.json", SERVER)
    (tmp_path / "elsewhere").mkdir()
    assert find_configs(tmp_path / "elsewhere", home=home, environ={}) == []


def test_a_projects_commands_run_in_its_folder(project, home):
    path = write(project / ".vscode" / "mcp.json", {"servers": {"it": {"command": "${workspaceFolder}/x"}}})
    [entry] = load_config(path, environ={}, home=home)
    assert entry.source == str(path)
    assert entry.spec == StdioSpec(command=f"{project}/x", cwd=project)
    for name in (".cursor/mcp.json", ".config/Claude/claude_desktop_config.json"):  # where the kernel runs
        [entry] = load_config(write(home / name, SERVER), environ={}, home=home)
        assert entry.spec == StdioSpec(command="x", args=("server.py",))


def test_claude_code_file_has_servers_of_projects_and_person(home, project):
    own = {"it": {"command": "persons"}, "other": {"command": "persons"}}
    projects = {
        str(project): {"mcpServers": {"it": {"command": "projects"}}, "history": []},
        "/elsewhere": {"mcpServers": {"far": {"command": "elsewhere"}}},
    }
    path = write(home / ".claude.json", {"numStartups": 3, "mcpServers": own, "projects": projects})
    entries = load_config(path, environ={}, directory=project / "notebooks")
    assert [(entry.name, entry.spec, entry.shadowed_by) for entry in entries] == [
        ("it", StdioSpec(command="projects", cwd=project), None),
        ("it", StdioSpec(command="persons"), str(path)),
        ("other", StdioSpec(command="persons"), None),
    ]
    assert load_config(write(home / ".claude.json", {"numStartups": 3}), environ={}, directory=home) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"{", "{}:1:2: not JSON: Expecting property name enclosed in double quotes", id="json"),
        pytest.param(b'{"a": "\xff"}', "{}: not UTF-8 (byte 7)", id="bytes"),
        pytest.param(None, "{}: cannot be read: No such file or directory", id="missing"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path, content, message):
    path = tmp_path / "mcp.json"
    if content is not None:
        path.write_bytes(content)
    assert said(ConfigError, load_config, path, environ={}) == message.format(path)
    path.write_text(json.dumps(SERVER), encoding="utf-8-sig")
    assert [entry.name for entry in load_config(path, environ={})] == ["it"]


def test_the_first_of_a_name_wins_and_others_say_which(home, project):
    first, second = write(project / "mcp.json", SERVER), write(home / ".cursor" / "mcp.json", SERVER)
    environ = {"MCP_SERVERS": json.dumps({"it": {"url": "http://h"}, "more": {"url": "http://h"}})}
    entries = discover_servers(project, home=home, environ=environ)
    assert [(entry.name, entry.source, entry.shadowed_by) for entry in entries] == [
        ("it", str(first), None),
        ("it", str(second), str(first)),
        ("it", "MCP_SERVERS", str(first)),
        ("more", "MCP_SERVERS", None),
    ]


def test_a_broken_file_does_not_hide_the_others(home, project):
    broken, second = write(project / "mcp.json", "{"), write(home / ".cursor" / "mcp.json", SERVER)
    entries = discover_servers(project, home=home, environ={"MCP_SERVERS": "["})
    places = [("", str(broken)), ("it", str(second)), ("", "MCP_SERVERS")]
    assert [(entry.name, entry.source) for entry in entries] == places
    assert str(entries[2].problem) == "MCP_SERVERS:1:2: not JSON: Expecting value"
    assert str(entries[0].problem).startswith(f"{broken}:1:2: not JSON: ")


def test_a_server_is_looked_up_and_nothing_is_started(home, project, tmp_path):
    script = f"open({str(tmp_path / 'started')!r}, 'w')"
    it = {"command": sys.executable, "args": ["-c", script]}
    path = write(project / "mcp.json", {"mcpServers": {"My Tools": it, "weather": X, "math": X}})

    def find(name: str) -> ServerEntry:
        return find_server(name, project, home=home, environ={})

    assert find("My Tools").name == find("My_Tools").name == "My Tools"
    assert find("My Tools").spec == StdioSpec(command=sys.executable, args=("-c", script), cwd=project)
    assert not (tmp_path / "started").exists()
    close = "No config file has a server 'waether'. Did you mean 'weather'?"
    assert said(ConfigError, find, "waether") == close
    assert said(ConfigError, find, "zzz") == "No config file has a server 'zzz'. Configured: My Tools, weather, math."
    write(path, "[1 2]")
    unread = f"Not read: {path}:1:4: not JSON: Expecting ',' delimiter."
    assert said(ConfigError, find, "math") == f"No config file has a server 'math'. Configured: none. {unread}"
