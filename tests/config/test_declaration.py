from __future__ import annotations

import re

import pytest

from mcp_magic.config.parsing import find_line
from mcp_magic.config.project import Step, find_declaration, load_declaration, parse_declaration, plan
from mcp_magic.config.specs import HttpSpec, SseSpec, StdioSpec
from mcp_magic.errors import ConfigError

SECRET = "s3cr3t-value"
SETTINGS = {"display_rows": int, "approval": str, "timeout": float, "telemetry": bool}

# The declaration of interface.md, whole.
EXAMPLE = """\
[servers.weather]
url = "http://127.0.0.1:8000/mcp"
headers = { Authorization = "Bearer ${WEATHER_TOKEN}" }
trust = true                        # believe its annotation hints

[servers.math]
command = "python"
args = ["servers/math_server.py"]

[[consent]]
allow = "weather:*"

[[consent]]
deny = "fs:write_*"

[agents.analyst]
model = "openai:gpt-5"
servers = ["weather", "math"]
approve = "ask"
system = "Answer with numbers and their source."

[settings]
display_rows = 20
"""


def parse(text, *, environ=None, base=None, source="mcp_magic.toml", settings=SETTINGS):
    return parse_declaration(text, source=source, environ=environ or {}, base=base, settings=settings)


def test_the_documented_declaration(tmp_path):
    declared = parse(EXAMPLE, environ={"WEATHER_TOKEN": SECRET}, base=tmp_path)
    assert {name: entry.spec for name, entry in declared.servers.items()} == {
        "weather": HttpSpec(
            url="http://127.0.0.1:8000/mcp", headers={"Authorization": f"Bearer {SECRET}"}, trust=True, fallback=True
        ),
        "math": StdioSpec(command="python", args=("servers/math_server.py",), cwd=tmp_path),
    }
    assert declared.consent == ({"allow": "weather:*"}, {"deny": "fs:write_*"})
    assert declared.agents["analyst"]["servers"] == ["weather", "math"]
    assert declared.settings == {"display_rows": 20}
    assert SECRET not in repr(declared)


def test_the_table_of_pyproject_means_the_same(tmp_path):
    text = "[project]\nname = 'x'\n" + re.sub(r"^(\[+)", r"\1tool.mcp_magic.", EXAMPLE, flags=re.MULTILINE)
    environ = {"WEATHER_TOKEN": "t"}
    declared = parse(text, environ=environ, base=tmp_path, source="pyproject.toml")
    same = parse(EXAMPLE, environ=environ, base=tmp_path)
    assert declared.servers.keys() == same.servers.keys()
    assert [e.spec for e in declared.servers.values()] == [e.spec for e in same.servers.values()]
    assert (declared.consent, declared.agents, declared.settings) == (same.consent, same.agents, same.settings)


def test_every_key_of_a_server_is_read(tmp_path):
    text = """
        [servers.a]
        command = "x"
        args = ["--n", 3]
        env = { PORT = 80 }
        env_file = "my.env"
        cwd = "sub"
        transport = "stdio"
        timeout = 5
        trust = true
        disabled = true
        [servers.b]
        url = "https://h"
        transport = "sse"
        verify = "ca.pem"
        cert = "me.pem"
    """
    (tmp_path / "my.env").write_text("A=1\n", encoding="utf-8")
    declared = parse(text, base=tmp_path)
    assert declared.servers["a"].disabled
    assert declared.servers["a"].spec == StdioSpec(
        command="x", args=("--n", "3"), env={"A": "1", "PORT": "80"}, cwd=tmp_path / "sub", timeout=5, trust=True
    )
    assert declared.servers["b"].spec == SseSpec(
        url="https://h", verify=str(tmp_path / "ca.pem"), cert=str(tmp_path / "me.pem")
    )


def test_every_key_of_rules_and_agents_is_taken():
    text = """
        [[consent]]
        ask = "db:*"
        arguments = { mode = "write" }
        reason = "changes data"
        [agents.a]
        model = "p:m"
        tools = ["a:*", "b:x"]
        approve = "readonly"
        prompt = "hello"
        max_turns = 5
        thread = "t"
        show = "answer"
    """
    declared = parse(text)
    assert declared.consent[0]["arguments"] == {"mode": "write"}
    assert declared.agents["a"]["max_turns"] == 5


def test_settings_that_nobody_knows_yet_are_taken_as_they_are():
    assert parse("[settings]\nx = [1]", settings=None).settings == {"x": [1]}


def test_an_empty_declaration_declares_nothing():
    declared = parse("# nothing yet\n")
    assert (declared.servers, declared.consent, declared.agents, declared.settings) == ({}, (), {}, {})


def test_json_of_other_hosts_serves_for_the_servers(tmp_path):
    text = '{"mcpServers": {"math": {"command": "python"}, /* c */ }}'
    assert parse(text, base=tmp_path).servers["math"].spec == StdioSpec(command="python", cwd=tmp_path)


# Mistakes: whole messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "[serverz.a]\nurl = 'http://h'",
            "mcp_magic.toml:1: serverz: unknown key. Did you mean 'servers'?",
            id="section",
        ),
        pytest.param(
            "[tools]",
            "mcp_magic.toml:1: tools: unknown key. Valid: servers, consent, agents, settings.",
            id="no section",
        ),
        pytest.param(
            "\n[servers.a]\n# url\nurll = 'http://h'",
            "mcp_magic.toml:4: servers.a.urll: unknown key. Did you mean 'url'?",
            id="server key",
        ),
        pytest.param(
            "[servers]\na = { url = 'http://h', trusted = true }",
            "mcp_magic.toml:2: servers.a.trusted: unknown key. Did you mean 'trust'?",
            id="inline table",
        ),
        pytest.param(
            "servers.a.url = 'http://h'\nservers.a.timeot = 1",
            "mcp_magic.toml:2: servers.a.timeot: unknown key. Did you mean 'timeout'?",
            id="dotted key",
        ),
        pytest.param(
            "[servers.a]\ncommand = 'x'\nheaders = { A = 'b' }",
            "mcp_magic.toml:3: servers.a.headers: is for servers with a url, not a command.",
            id="key of the other kind",
        ),
        pytest.param(
            "[servers.a]\nurl = 'http://h'\nargs = []",
            "mcp_magic.toml:3: servers.a.args: is for servers with a command, not a url.",
            id="args of a url",
        ),
        pytest.param(
            "[servers.a]\ntrust = true", "mcp_magic.toml:1: servers.a: needs a command (stdio) or a url.", id="neither"
        ),
        pytest.param(
            "[servers.a]\nurl = 'http://h'\ntransport = 'htp'",
            "mcp_magic.toml:3: servers.a.transport: unknown value 'htp'. Did you mean 'http'? "
            "Valid: stdio, http (streamable-http), sse, ws (websocket).",
            id="transport",
        ),
        pytest.param(
            "[servers.a]\ncommand = 'x'\nargs = [\n  'a',\n  [],\n]",
            "mcp_magic.toml:3: servers.a.args.1: expected text, got a list.",
            id="argument",
        ),
        pytest.param("servers = 3", "mcp_magic.toml:1: servers: expected a table, got a number.", id="servers"),
        pytest.param("[servers]\na = 3", "mcp_magic.toml:2: servers.a: expected a table, got a number.", id="server"),
        pytest.param(
            "[servers.'my server']\nurl = 'http://h'",
            "mcp_magic.toml:1: servers.my server: 'my server' is not a server name: letters, digits, _ and -. "
            "Did you mean 'my_server'?",
            id="name",
        ),
        pytest.param(
            "[servers.a]\nurl = '${input:key}'",
            "mcp_magic.toml:1: servers.a: ${input:key} can only be filled in by an editor. "
            "Use ${env:KEY}, which both understand, and set it in the environment or in .env.",
            id="input",
        ),
        pytest.param(
            "[consent]\nallow = 'x'", "mcp_magic.toml:1: consent: expected [[consent]] rules, got a table.", id="rules"
        ),
        pytest.param(
            "[[consent]]\nallow = 'x'\n[[consent]]\nallow = 'x'\ndeny = 'y'",
            "mcp_magic.toml:3: consent.1: needs exactly one of allow, deny, ask; it has allow and deny.",
            id="two decisions",
        ),
        pytest.param(
            "[[consent]]\nreason = 'x'",
            "mcp_magic.toml:1: consent.0: needs exactly one of allow, deny, ask; it has none.",
            id="no decision",
        ),
        pytest.param(
            "[[consent]]\nallow = 3",
            'mcp_magic.toml:2: consent.0.allow: expected a tool or pattern, for example "weather:*", got 3.',
            id="pattern",
        ),
        pytest.param(
            "[[consent]]\nallow = 'x'\n[[consent]]\nalow = 'x'",
            "mcp_magic.toml:4: consent.1.alow: unknown key. Did you mean 'allow'?",
            id="rule key",
        ),
        pytest.param(
            "[agents.a]\nsystem_prompt = 'x'",
            "mcp_magic.toml:2: agents.a.system_prompt: unknown key. Did you mean 'system'?",
            id="agent key",
        ),
        pytest.param(
            "[agents.a]\napprove = 'always'",
            "mcp_magic.toml:2: agents.a.approve: expected one of ask, plan, auto, readonly, deny, got 'always'.",
            id="approve",
        ),
        pytest.param(
            "[agents.a]\nmax_turns = true",
            "mcp_magic.toml:2: agents.a.max_turns: expected an integer above 0, got true.",
            id="max_turns",
        ),
        pytest.param(
            "[agents.a]\nservers = 'x'",
            "mcp_magic.toml:2: agents.a.servers: expected a list of text, got 'x'.",
            id="agent servers",
        ),
        pytest.param(
            "[settings]\ndisplay_row = 1",
            "mcp_magic.toml:2: settings.display_row: unknown setting. Did you mean 'display_rows'?",
            id="setting",
        ),
        pytest.param(
            "[settings]\napproval = 'ask'\ndisplay_rows = 'x'",
            "mcp_magic.toml:3: settings.display_rows: expected an integer, got 'x'.",
            id="setting type",
        ),
        pytest.param(
            "[settings]\ndisplay_rows = true",
            "mcp_magic.toml:2: settings.display_rows: expected an integer, got true.",
            id="no integer",
        ),
        pytest.param("[a]\nb = \n", "mcp_magic.toml:2:5: not TOML: Invalid value", id="syntax"),
        pytest.param("a = '''\nb", "mcp_magic.toml:2:2: not TOML: Expected \"'''\"", id="end of document"),
    ],
)
def test_a_mistake_says_file_line_and_what_would_be_valid(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_a_mistake_in_pyproject_has_its_line_there():
    text = "[project]\nname = 'x'\n\n[tool.mcp_magic.settings]\ndisplay_rows = 'x'\n"
    with pytest.raises(ConfigError, match=r"^/a/pyproject\.toml:5: settings\.display_rows: expected an integer"):
        parse(text, source="/a/pyproject.toml")


def test_a_pyproject_without_the_table_says_so():
    with pytest.raises(ConfigError) as caught:
        parse("[project]\n", source="pyproject.toml")
    assert str(caught.value) == "pyproject.toml: no table [tool.mcp_magic] in it."


def test_an_integer_is_a_number():
    assert parse("[settings]\ntimeout = 5").settings == {"timeout": 5}


def test_server_this_machine_lacks_does_not_stop_the_others(tmp_path):
    text = "[servers.a]\nurl = '${NOPE}'\n[servers.b]\ncommand = 'x'\nenv_file = 'no.env'\n[servers.c]\ncommand = 'x'"
    declared = parse(text, base=tmp_path)
    assert str(declared.servers["a"].problem) == (
        "mcp_magic.toml: server 'a': the variable NOPE is not set (environment, .env). "
        "${NOPE:-default} gives it a default."
    )
    assert str(declared.servers["b"].problem) == (
        f"mcp_magic.toml: server 'b': {tmp_path / 'no.env'} cannot be read: No such file or directory."
    )
    assert declared.servers["c"].spec == StdioSpec(command="x", cwd=tmp_path)


@pytest.mark.parametrize(
    "field", [f"headers = {{ A = ['{SECRET}'] }}", f"headers = '{SECRET}'", f"verify = ['{SECRET}']"]
)
def test_no_message_about_a_server_repeats_its_values(field):
    with pytest.raises(ConfigError) as caught:
        parse(f"[servers.a]\nurl = 'http://h'\n{field}")
    assert SECRET not in str(caught.value)


# Lines


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = '''\n[b]\nc = 1\n'''\n[b]\nc = 2", ("b", "c"), 6),
        ("a = [\n  # ]\n  '[b]',\n]\n[b]\nc = 1", ("b", "c"), 6),
        ("['x.y'.z]\n\"a b\" = 1", ("x.y", "z", "a b"), 2),
        ("[[r]]\nk = 1\n[r.sub]\nx = 1\n[[r]]\n[r.sub]\nx = 2", ("r", 1, "sub", "x"), 7),
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx = 1\n[[a]]\n[[a.b]]\nx = 2", ("a", 1, "b", 0, "x"), 7),
        ("a = [\n  { x = 1 },\n  { y = 2 },\n]", ("a", 1, "y"), 3),
        ("a.b.c = 1\r\na.b.d = 2\r\n", ("a", "b", "d"), 2),
        ("[a.b.c]\n", ("a", "b"), 1),
        ("x = 1", ("y",), None),
        ("", ("y",), None),
    ],
)
def test_the_line_of_a_key_is_found(text, path, line):
    assert find_line(text, path) == line


# Files


def test_the_nearest_kind_of_declaration_is_found(tmp_path):
    names = [".mcp.json", "mcp.json", "pyproject.toml", "mcp_magic.toml"]
    for name in names:
        content = "[tool.mcp_magic.servers]\n" if name == "pyproject.toml" else "{}" if name.endswith("json") else ""
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert find_declaration(tmp_path) == tmp_path / name


def test_a_pyproject_of_somebody_elses_is_passed_over(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        find_declaration(tmp_path)
    assert str(caught.value) == (
        f"no declaration in {tmp_path}. "
        "Looked for mcp_magic.toml, pyproject.toml with [tool.mcp_magic], mcp.json, .mcp.json."
    )


def test_broken_pyproject_with_our_table_is_an_error(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.mcp_magic]\nservers =\n", encoding="utf-8")
    assert find_declaration(tmp_path) == path
    with pytest.raises(ConfigError, match=r"pyproject\.toml:2:10: not TOML: Invalid value"):
        load_declaration(path)


def test_a_file_is_loaded_with_paths_relative_to_it(tmp_path):
    path = tmp_path / "mcp_magic.toml"
    path.write_text("[servers.a]\ncommand = '${X}'\n", encoding="utf-8")
    (tmp_path / ".env").write_text("X=from-dotenv\n", encoding="utf-8")
    declared = load_declaration(path, environ={})
    assert declared.source == str(path)
    assert declared.servers["a"].spec == StdioSpec(command="from-dotenv", cwd=tmp_path)


def test_a_json_file_is_loaded_for_its_servers(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text('{"servers": {"a": {"command": "x"}}}', encoding="utf-8")
    declared = load_declaration(path, environ={})
    assert declared.servers["a"].spec == StdioSpec(command="x", cwd=tmp_path)


# The plan


def test_a_plan_changes_only_what_differs():
    same = StdioSpec(command="x", args=("1",))
    declared = {
        "new": same,
        "right": StdioSpec(command="x", args=("1",)),
        "changed": HttpSpec(url="http://h", headers={"Authorization": SECRET}, timeout=5),
        "moved": SseSpec(url="http://h"),
    }
    running = {
        "extra": same,
        "moved": HttpSpec(url="http://h"),
        "changed": HttpSpec(url="http://h", headers={"Authorization": "old"}),
        "right": same,
    }
    steps = plan(declared, running, prune=False)
    assert steps == [
        Step("new", "connect", "not connected"),
        Step("right", "keep", "as declared"),
        Step("changed", "reconnect", "changed: timeout, headers"),
        Step("moved", "reconnect", "changed: transport (http to sse)"),
        Step("extra", "leave", "not declared"),
    ]
    assert SECRET not in repr(steps)


def test_prune_disconnects_what_is_not_declared():
    assert plan({}, {"a": StdioSpec(command="x")}, prune=True) == [Step("a", "disconnect", "not declared")]


def test_a_second_run_keeps_everything():
    declared = {"a": StdioSpec(command="x"), "b": HttpSpec(url="http://h")}
    assert {step.action for step in plan(declared, dict(declared), prune=True)} == {"keep"}
