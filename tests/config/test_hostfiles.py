from __future__ import annotations

import pytest

from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import HttpSpec, SseSpec, StdioSpec, WebSocketSpec
from mcp_magic.errors import ConfigError

SECRET = "s3cr3t-value"


def parse_one(fields, *, key="mcpServers", environ=None, base=None):
    [entry] = parse_servers({key: {"it": fields}}, source="mcp.json", environ=environ or {}, base=base)
    return entry


def spec_of(fields, **options):
    entry = parse_one(fields, **options)
    assert entry.problem is None, entry.problem
    return entry.spec


def problem_of(fields, **options):
    entry = parse_one(fields, **options)
    assert entry.spec is None
    return str(entry.problem)


# What the hosts write


def test_a_command_as_claude_desktop_has_it():
    fields = {"command": "npx", "args": ["-y", "pkg"], "env": {"TOKEN": SECRET, "PORT": 80, "DEBUG": True, "X": None}}
    env = {"TOKEN": SECRET, "PORT": "80", "DEBUG": "true"}
    assert spec_of(fields) == StdioSpec(command="npx", args=("-y", "pkg"), env=env)


def test_a_url_without_a_type_may_fall_back_to_sse():
    assert spec_of({"url": "http://h/mcp"}) == HttpSpec(url="http://h/mcp", fallback=True)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        *(("http", HttpSpec(url="http://h/mcp")), ("streamable-http", HttpSpec(url="http://h/mcp"))),
        *(("streamableHttp", HttpSpec(url="http://h/mcp")), ("streamable_http", HttpSpec(url="http://h/mcp"))),
        ("sse", SseSpec(url="http://h/mcp")),
    ],
)
@pytest.mark.parametrize("key", ["type", "transport"])
def test_the_type_decides_the_transport(key, name, spec):
    assert spec_of({key: name, "url": "http://h/mcp"}) == spec


@pytest.mark.parametrize("fields", [{"type": "ws"}, {"type": "websocket"}, {}])
def test_websockets_by_type_or_scheme(fields):
    assert spec_of({**fields, "url": "wss://h/mcp"}) == WebSocketSpec(url="wss://h/mcp")


def test_http_in_vs_codes_file_may_fall_back_as_it_does_there():
    assert spec_of({"type": "http", "url": "http://h"}, key="servers") == HttpSpec(url="http://h", fallback=True)


def test_jupyters_list_of_servers():
    data = {
        "mcp_servers": [
            {"name": "My Tools", "command": "npx", "args": ["x"], "env": [{"name": "K", "value": "v"}]},
            {"name": "far", "type": "http", "url": "http://h", "headers": [{"name": "A", "value": "b"}]},
            {"command": "nameless"},
        ]
    }
    entries = parse_servers(data, source="mcp_settings.json", environ={}, base=None)
    assert [(entry.name, entry.spec) for entry in entries] == [
        ("My Tools", StdioSpec(command="npx", args=("x",), env={"K": "v"})),
        ("far", HttpSpec(url="http://h", headers={"A": "b"})),
        ("server 3", StdioSpec(command="nameless")),
    ]


def test_a_bare_table_of_servers():
    [entry] = parse_servers({"it": {"command": "x"}}, source="MCP_SERVERS", environ={}, base=None)
    assert (entry.name, entry.spec) == ("it", StdioSpec(command="x"))


def test_our_own_keys_and_relative_paths(tmp_path):
    fields = {"url": "https://h", "trust": True, "timeout": 5, "verify": "ca.pem", "cert": ["c.pem", "k.pem"]}
    assert spec_of(fields, base=tmp_path) == HttpSpec(
        url="https://h",
        trust=True,
        timeout=5,
        verify=str(tmp_path / "ca.pem"),
        cert=(str(tmp_path / "c.pem"), str(tmp_path / "k.pem")),
        fallback=True,
    )
    assert spec_of({"url": "https://h", "verify": False, "cert": "c.pem"}) == HttpSpec(
        url="https://h", verify=False, cert="c.pem", fallback=True
    )


def test_a_relative_cwd_is_relative_to_the_file(tmp_path):
    assert spec_of({"command": "x", "cwd": "sub"}, base=tmp_path).cwd == tmp_path / "sub"


def test_an_env_file_gives_way_to_env(tmp_path):
    (tmp_path / "my.env").write_text("A=file\nB='two words' # comment\nEMPTY\n", encoding="utf-8")
    spec = spec_of({"command": "x", "envFile": "my.env", "env": {"A": "said"}}, base=tmp_path)
    assert spec.env == {"A": "said", "B": "two words"}


def test_keys_of_other_hosts_are_passed_over():
    assert spec_of({"command": "x", "autoApprove": ["*"], "gallery": 1, "headers": {}}) == StdioSpec(command="x")


@pytest.mark.parametrize("fields", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_listed_with_its_spec(fields):
    entry = parse_one({"command": "x", **fields})
    assert entry.disabled
    assert entry.spec == StdioSpec(command="x")


# What is wrong with a server

TRANSPORTS = "Valid: stdio, http (streamable-http), sse, ws (websocket)."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "needs a command (stdio) or a url.", id="nothing"),
        pytest.param({"type": "http"}, "needs a url.", id="no url"),
        pytest.param({"type": "stdio"}, "needs a command.", id="no command"),
        pytest.param(
            {"command": "x", "url": "http://h"},
            "has both command and url. Keep one: command (stdio) or url (http, sse, ws).",
            id="both",
        ),
        pytest.param(
            {"command": "x", "type": "sse"}, "the transport 'sse' needs a url, not a command.", id="command sse"
        ),
        pytest.param(
            {"url": "http://h", "type": "stdio"}, "the transport 'stdio' needs a command, not a url.", id="url stdio"
        ),
        pytest.param(
            {"url": "http://h", "type": "htp"},
            f"transport: unknown value 'htp'. Did you mean 'http'? {TRANSPORTS}",
            id="unknown transport",
        ),
        pytest.param(
            {"url": "http://h", "type": 3}, f"transport: unknown value 3. {TRANSPORTS}", id="transport number"
        ),
        pytest.param(
            {"url": "http://h", "type": "ws"},
            "the transport 'ws' needs a URL with ws:// or wss://, not http://.",
            id="wrong scheme",
        ),
        pytest.param(
            {"url": "ftp://h"}, "url: the scheme 'ftp' is not supported. Valid: http, https, ws, wss.", id="scheme"
        ),
        pytest.param(
            {"url": "localhost:8000"},
            "url: not a URL with a host, for example http://127.0.0.1:8000/mcp.",
            id="no scheme",
        ),
        pytest.param(
            {"url": "http://h:port"}, "url: not a URL with a host, for example http://127.0.0.1:8000/mcp.", id="port"
        ),
        pytest.param({"url": 3}, "url: expected text, got a number.", id="url number"),
        pytest.param({"command": " "}, "command: expected text, got empty text.", id="empty command"),
        pytest.param({"command": ["x"]}, "command: expected text, got a list.", id="command list"),
        pytest.param({"command": "x", "args": "-v"}, "args: expected a list of strings, got text.", id="args text"),
        pytest.param({"command": "x", "args": ["a", {}]}, "args.1: expected text, got a table.", id="arg table"),
        pytest.param({"command": "x", "env": "A=1"}, "env: expected names with values, got text.", id="env text"),
        pytest.param({"command": "x", "env": {"A": []}}, "env.A: expected text, got a list.", id="env list"),
        pytest.param(
            {"url": "http://h", "headers": {"A": "b\nC: d"}}, "headers.A: a header cannot have line breaks.", id="crlf"
        ),
        pytest.param({"command": "x", "timeout": 0}, "timeout: expected seconds above 0, got 0.", id="timeout 0"),
        pytest.param(
            {"command": "x", "timeout": "5"}, "timeout: expected seconds above 0, got '5'.", id="timeout text"
        ),
        pytest.param({"command": "x", "trust": "yes"}, "trust: expected true or false, got text.", id="trust"),
        pytest.param({"command": "x", "disabled": 1}, "disabled: expected true or false, got a number.", id="disabled"),
        pytest.param(
            {"url": "http://h", "verify": 1},
            "verify: expected true, false or the path of a CA bundle, got a number.",
            id="verify",
        ),
        pytest.param(
            {"url": "http://h", "cert": ["a", "b", "c"]},
            "cert: expected the path of a certificate, or [certificate, key].",
            id="cert",
        ),
        pytest.param("npx x", "expected an object, got text.", id="text"),
    ],
)
def test_a_server_described_wrongly_says_what_and_where(fields, message):
    assert problem_of(fields) == f"mcp.json: server 'it': {message}"


def test_a_wrong_server_leaves_the_others_usable():
    data = {"mcpServers": {"bad": {}, "good": {"command": "x"}}}
    bad, good = parse_servers(data, source="mcp.json", environ={}, base=None)
    assert isinstance(bad.problem, ConfigError)
    assert (good.spec, good.problem) == (StdioSpec(command="x"), None)


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "x", "env": {"KEY": SECRET}},
        {"url": "http://h", "headers": {"A": SECRET}},
        {"url": f"http://me:{SECRET}@h"},
        {"url": f"ftp://me:{SECRET}@h"},
        {"url": f"http://me:{SECRET}@h:port"},
        {"url": "http://h", "headers": {"A": f"{SECRET}\n"}},
        {"command": "x", "env": [SECRET]},
        {"command": "x", "args": [[SECRET]]},
    ],
)
def test_secrets_are_in_no_repr_and_no_problem(fields):
    entry = parse_one(fields)
    assert SECRET not in repr(entry)
    assert SECRET not in str(entry.problem)


def test_an_env_file_that_is_not_there_is_named(tmp_path):
    message = problem_of({"command": "x", "envFile": "no.env"}, base=tmp_path)
    assert message == f"mcp.json: server 'it': {tmp_path / 'no.env'} cannot be read: No such file or directory."


# What is wrong with a document


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "mcp.json: expected an object with mcpServers or servers, got a list."),
        ({"mcpServers": 3}, "mcp.json: mcpServers: expected an object of servers by name, got a number."),
        (
            {"mcpServer": {"x": {}}},
            "mcp.json: no mcpServers or servers in it, only mcpServer. Did you mean 'mcpServers'?",
        ),
        ({"theme": "dark"}, "mcp.json: no mcpServers or servers in it, only theme."),
    ],
)
def test_a_document_without_servers_says_what_is_in_it(data, message):
    with pytest.raises(ConfigError) as caught:
        parse_servers(data, source="mcp.json", environ={}, base=None)
    assert str(caught.value) == message


def test_an_empty_document_has_no_servers():
    assert parse_servers({}, source="mcp.json", environ={}, base=None) == []


# Keys of other hosts


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param(
            {"command": "x", "sandboxEnabled": True}, "sandboxEnabled: the server wants a sandbox", id="vs code"
        ),
        pytest.param({"command": "x", "sandbox": {"network": {}}}, "sandbox: the server wants a sandbox", id="sandbox"),
        pytest.param(
            {"url": "https://h", "headersHelper": "./token.sh"},
            "headersHelper: a command for headers is not supported here",
            id="claude code",
        ),
        pytest.param(
            {"url": "https://h", "bearer_token_env_var": "TOKEN"},
            "bearer_token_env_var: is not supported here, so requests would lack these headers",
            id="codex",
        ),
    ],
)
def test_a_key_that_is_missed_refuses_the_server(fields, problem):
    assert problem_of(fields).startswith(f"mcp.json: server 'it': {problem}")


@pytest.mark.parametrize("fields", [{"sandboxEnabled": False}, {"sandboxEnabled": False, "sandbox": {"network": {}}}])
def test_a_sandbox_that_is_off_is_not_missed(fields):
    assert spec_of({"command": "x", **fields}).unused == ()


@pytest.mark.parametrize(
    ("fields", "unused"),
    [
        ({"command": "x", "gallery": True, "version": "1", "dev": {"watch": "src"}}, ("gallery", "version", "dev")),
        ({"command": "x", "alwaysAllow": ["a"], "disabledTools": ["b"]}, ("alwaysAllow", "disabledTools")),
        ({"command": "x", "headers": {"A": "b"}}, ("headers",)),
        ({"url": "http://h", "cwd": "/tmp", "envFile": "x"}, ("cwd", "envFile")),
        ({"command": "x", "sampling": {"allowedDuringChat": True}, "protocol": "x"}, ("sampling", "protocol")),
        ({"url": "http://h", "oauth": {"clientId": "c", "extra": 1}}, ("auth.extra",)),
        ({"command": "x", "tools": ["*"], "enabled": True, "name": "n"}, ()),
    ],
)
def test_a_key_without_effect_is_named(fields, unused):
    assert spec_of(fields).unused == unused


def test_tools_that_are_switched_off_elsewhere_are_told():
    note = spec_of({"command": "x", "disabledTools": ["b"]}).unused_note
    assert note == (
        "its configuration has disabledTools, without effect here; all its tools are offered, "
        "and `%mcp deny SERVER:TOOL` refuses one"
    )


@pytest.mark.parametrize("key", ["serverUrl", "httpUrl"])
def test_other_names_of_a_url_are_understood(key):
    assert spec_of({key: "http://h/mcp"}) == HttpSpec(url="http://h/mcp", fallback=True)


def test_claude_codes_oauth_is_understood():
    spec = spec_of({"url": "http://h", "oauth": {"clientId": "abc", "callbackPort": 8080}})
    assert (spec.auth.client_id, spec.auth.redirect_port) == ("abc", 8080)


def test_a_server_that_is_inactive_is_disabled():
    assert parse_one({"command": "x", "isActive": False}).disabled


def test_servers_under_two_keys_are_all_read():
    data = {"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}
    assert [entry.name for entry in parse_servers(data, source="s", environ={}, base=None)] == ["a", "b"]
