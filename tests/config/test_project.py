"""Declarations of a project: what is read, what is wrong with one, and what it changes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.project import (
    Step,
    find_declaration,
    is_trusted,
    load_declaration,
    parse_declaration,
    plan,
    trust,
)
from mcp_magic.config.servers import discover_servers, load_config
from mcp_magic.config.specs import AuthOptions, HttpSpec, SseSpec, StdioSpec
from mcp_magic.errors import ConfigError
from tests.support.clocks import assert_linear
from tests.support.raising import said

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.config.project import Declaration

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


def parse(text: str, *, source: str = "mcp_magic.toml", settings: Any = SETTINGS, **more: Any) -> Declaration:
    return parse_declaration(text, source=source, settings=settings, **{"environ": {}, "base": None, **more})


def test_the_documented_declaration_is_read(tmp_path):
    declared = parse(EXAMPLE, environ={"WEATHER_TOKEN": SECRET}, base=tmp_path)
    headers = {"Authorization": f"Bearer {SECRET}"}
    assert {name: entry.spec for name, entry in declared.servers.items()} == {
        "weather": HttpSpec(url="http://127.0.0.1:8000/mcp", headers=headers, trust=True, fallback=True),
        "math": StdioSpec(command="python", args=("servers/math_server.py",), cwd=tmp_path),
    }
    assert declared.consent == ({"allow": "weather:*"}, {"deny": "fs:write_*"})
    assert declared.agents["analyst"]["servers"] == ["weather", "math"]
    assert declared.settings == {"display_rows": 20}
    assert SECRET not in repr(declared)
    text = "[project]\nname = 'x'\n" + re.sub(r"^(\[+)", r"\1tool.mcp_magic.", EXAMPLE, flags=re.MULTILINE)
    same = parse(text, environ={"WEATHER_TOKEN": SECRET}, base=tmp_path, source="pyproject.toml")
    assert {name: entry.spec for name, entry in same.servers.items()} == {
        name: entry.spec for name, entry in declared.servers.items()
    }
    assert (same.consent, same.agents, same.settings) == (declared.consent, declared.agents, declared.settings)


EVERY_KEY = """
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


def test_every_key_of_servers_rules_and_agents_is_read(tmp_path):
    (tmp_path / "my.env").write_text("A=1\n", encoding="utf-8")
    declared = parse(EVERY_KEY, base=tmp_path)
    assert declared.servers["a"].disabled
    assert declared.servers["a"].spec == StdioSpec(
        command="x", args=("--n", "3"), env={"A": "1", "PORT": "80"}, cwd=tmp_path / "sub", timeout=5, trust=True
    )
    certificates = {"verify": str(tmp_path / "ca.pem"), "cert": str(tmp_path / "me.pem")}
    assert declared.servers["b"].spec == SseSpec(url="https://h", **certificates)
    assert declared.consent[0]["arguments"] == {"mode": "write"}
    assert declared.agents["a"]["max_turns"] == 5


def test_settings_and_empty_declarations_are_read(tmp_path):
    assert parse("[settings]\nx = [1]", settings=None).settings == {"x": [1]}  # that nobody knows yet
    assert parse("[settings]\ntimeout = 5").settings == {"timeout": 5}  # an integer is a number
    empty = parse("# nothing yet\n")
    assert (empty.servers, empty.consent, empty.agents, empty.settings) == ({}, (), {}, {})
    text = '{"mcpServers": {"math": {"command": "python"}, /* c */ }}'
    assert parse(text, base=tmp_path).servers["math"].spec == StdioSpec(command="python", cwd=tmp_path)


TRANSPORTS = "unknown value 'htp'. Did you mean 'http'? Valid: stdio, http (streamable-http), sse, ws (websocket)."
NO_NAME = "'my server' is not a server name: letters, digits, _ and -. Did you mean 'my_server'?"
INPUT = (
    "${input:key} is not resolved here; secrets can be in env, headers, args, after the host of url, and "
    "auth.client_secret."
)
AT, RUN, AGENT = "[servers.a]\nurl = 'http://h'", "[servers.a]\ncommand = 'x'", "[agents.a]"
RULE = "[[consent]]\nallow = 'x'"
MISTAKES = {
    "1: serverz: unknown key. Did you mean 'servers'?": "[serverz.a]\nurl = 'http://h'",
    "1: tools: unknown key. Valid: servers, inputs, consent, agents, settings.": "[tools]",
    "4: servers.a.urll: unknown key. Did you mean 'url'?": "\n[servers.a]\n# url\nurll = 'http://h'",
    "2: servers.a.trusted: unknown key. Did you mean 'trust'?": "[servers]\na = { url = 'http://h', trusted = true }",
    "2: servers.a.timeot: unknown key. Did you mean 'timeout'?": "servers.a.url = 'http://h'\nservers.a.timeot = 1",
    "4: servers.a.auth.scope: unknown key. Did you mean 'scopes'?": AT + "\n[servers.a.auth]\nscope = 3",
    "3: servers.a.headers: is for servers with a url, not a command.": RUN + "\nheaders = {}",
    "3: servers.a.args: is for servers with a command, not a url.": "[servers.a]\nurl = 'http://h'\nargs = []",
    "1: servers.a: needs a command (stdio) or a url.": "[servers.a]\ntrust = true",
    f"3: servers.a.transport: {TRANSPORTS}": f"{AT}\ntransport = 'htp'",
    "3: servers.a.args.1: expected text, got a list.": "[servers.a]\ncommand = 'x'\nargs = [\n  'a',\n  [],\n]",
    "1: servers: expected a table, got a number.": "servers = 3",
    "2: servers.a: expected a table, got a number.": "[servers]\na = 3",
    f"1: servers.my server: {NO_NAME}": "[servers.'my server']\nurl = 'http://h'",
    f"2: servers.a.url: {INPUT}": "[servers.a]\nurl = '${input:key}'",
    "1: consent: expected [[consent]] rules, got a table.": "[consent]\nallow = 'x'",
    "3: consent.1: needs exactly one of allow, deny, ask; it has allow and deny.": f"{RULE}\n{RULE}\ndeny = 'y'",
    "1: consent.0: needs exactly one of allow, deny, ask; it has none.": "[[consent]]\nreason = 'x'",
    '2: consent.0.allow: expected a tool or pattern, for example "weather:*", got 3.': "[[consent]]\nallow = 3",
    "4: consent.1.alow: unknown key. Did you mean 'allow'?": "[[consent]]\nallow = 'x'\n[[consent]]\nalow = 'x'",
    "2: agents.a.system_prompt: unknown key. Did you mean 'system'?": "[agents.a]\nsystem_prompt = 'x'",
    "2: agents.a.approve: expected one of ask, plan, auto, readonly, deny, got 'no'.": AGENT + "\napprove = 'no'",
    "2: agents.a.max_turns: expected an integer above 0, got true.": "[agents.a]\nmax_turns = true",
    "2: agents.a.servers: expected a list of text, got 'x'.": "[agents.a]\nservers = 'x'",
    "2: settings.display_row: unknown setting. Did you mean 'display_rows'?": "[settings]\ndisplay_row = 1",
    "3: settings.display_rows: expected an integer, got 'x'.": "[settings]\napproval = 'ask'\ndisplay_rows = 'x'",
    "2: settings.display_rows: expected an integer, got true.": "[settings]\ndisplay_rows = true",
    "2:5: not TOML: Invalid value": "[a]\nb = \n",
    "2:2: not TOML: Expected \"'''\"": "a = '''\nb",
}


@pytest.mark.parametrize("message", MISTAKES, ids=lambda message: message.split(":")[1].strip())
def test_a_mistake_says_file_line_and_what_is_valid(message):
    assert said(ConfigError, parse, MISTAKES[message]) == f"mcp_magic.toml:{message}"


def test_a_mistake_in_pyproject_has_its_line_there():
    text = "[project]\nname = 'x'\n\n[tool.mcp_magic.settings]\ndisplay_rows = 'x'\n"
    with pytest.raises(ConfigError, match=r"^/a/pyproject\.toml:5: settings\.display_rows: expected an integer"):
        parse(text, source="/a/pyproject.toml")
    message = "pyproject.toml: no table [tool.mcp_magic] in it."
    assert said(ConfigError, parse, "[project]\n", source="pyproject.toml") == message


def test_server_this_machine_lacks_does_not_stop_the_others(tmp_path):
    text = "[servers.a]\nurl = '${NOPE}'\n[servers.b]\ncommand = 'x'\nenv_file = 'no.env'\n[servers.c]\ncommand = 'x'"
    declared = parse(text, base=tmp_path)
    unset = "the variable NOPE is not set (environment, .env). ${NOPE:-default} gives it a default."
    assert str(declared.servers["a"].problem) == f"mcp_magic.toml: server 'a': {unset}"
    missing = f"{tmp_path / 'no.env'} cannot be read: No such file or directory."
    assert str(declared.servers["b"].problem) == f"mcp_magic.toml: server 'b': {missing}"
    assert declared.servers["c"].spec == StdioSpec(command="x", cwd=tmp_path)


@pytest.mark.parametrize(
    "field", [f"headers = {{ A = ['{SECRET}'] }}", f"headers = '{SECRET}'", f"verify = ['{SECRET}']"]
)
def test_no_message_about_a_server_repeats_its_values(field):
    assert SECRET not in said(ConfigError, parse, f"[servers.a]\nurl = 'http://h'\n{field}")


def test_the_nearest_kind_of_declaration_is_loaded(tmp_path):
    (tmp_path / ".env").write_text("X=from-dotenv\n", encoding="utf-8")
    contents = {
        ".mcp.json": "{}",
        "mcp.json": '{"servers": {"a": {"command": "x"}}}',
        "pyproject.toml": "[tool.mcp_magic.servers.a]\ncommand = 'y'\n",
        "mcp_magic.toml": "[servers.a]\ncommand = '${X}'\n",
    }
    loaded = {}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert find_declaration(tmp_path) == tmp_path / name
        declared = load_declaration(tmp_path / name, environ={})
        assert declared.source == str(tmp_path / name)
        loaded[name] = [entry.spec for entry in declared.servers.values()]
    specs = [StdioSpec(command=command, cwd=tmp_path) for command in ("x", "y", "from-dotenv")]
    assert loaded == {".mcp.json": [], **{name: [spec] for name, spec in zip([*contents][1:], specs, strict=True)}}


def test_a_pyproject_counts_if_it_has_our_table(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.ruff]\n", encoding="utf-8")
    places = "mcp_magic.toml, pyproject.toml with [tool.mcp_magic], mcp.json, .mcp.json"
    assert said(ConfigError, find_declaration, tmp_path) == f"no declaration in {tmp_path}. Looked for {places}."
    path.write_text("[tool.mcp_magic]\nservers =\n", encoding="utf-8")
    assert find_declaration(tmp_path) == path
    with pytest.raises(ConfigError, match=r"pyproject\.toml:2:10: not TOML: Invalid value"):
        load_declaration(path)


def test_a_plan_changes_only_what_differs():
    same = StdioSpec(command="x", args=("1",))
    login = AuthOptions(client_secret="a-secret", client_id="a")
    declared = {
        "new": same,
        "right": StdioSpec(command="x", args=("1",)),
        "changed": HttpSpec(url="http://h", headers={"Authorization": SECRET}, timeout=5),
        "moved": SseSpec(url="http://h"),
        "login": HttpSpec(url="https://h/mcp"),
        "model": StdioSpec(command="x", sampling="off"),
    }
    running = {
        "extra": same,
        "moved": HttpSpec(url="http://h"),
        "changed": HttpSpec(url="http://h", headers={"Authorization": "old"}),
        "right": same,
        "login": HttpSpec(url="https://h/mcp", auth=login),
        "model": StdioSpec(command="x"),
    }
    steps = plan(declared, running, prune=False)
    assert steps == [
        Step("new", "connect", "not connected"),
        Step("right", "keep", "as declared"),
        Step("changed", "reconnect", "changed: timeout, headers"),
        Step("moved", "reconnect", "changed: transport (http to sse)"),
        Step("login", "reconnect", "changed: auth"),
        Step("model", "reconnect", "changed: sampling"),
        Step("extra", "leave", "not declared"),
    ]
    assert SECRET not in repr(steps)
    assert {step.action for step in plan(declared, dict(declared), prune=True)} == {"keep"}  # a second run
    assert plan({}, {"a": same}, prune=True) == [Step("a", "disconnect", "not declared")]


SIZE = 150_000


def _servers(inside: str) -> str:
    return f'{{"mcpServers": {{{inside}}}}}'


def _table(lines: str) -> str:
    return f'[servers.a]\ncommand = "x"\nbad = 1\n{lines}'


HOSTILE: dict[str, Callable[[int], str]] = {
    "a string without end.json": lambda n: '{"mcpServers": {"a": "' + '\\"' * (n // 2),
    "comments without end.json": lambda n: "/*" * (n // 2),
    "comments with gaps.json": lambda n: "/* x " * (n // 5),
    "commas.json": lambda n: "[" + "1,]" * (n // 3),
    "spaces.json": lambda n: "[1" + " " * n + ",]",
    "lists.json": lambda n: "[" * n,
    "objects.json": lambda n: '{"a":' * (n // 5),
    "digits.json": lambda n: _servers('"a": {"command": "x", "timeout": ' + "9" * n + "}"),
    "variable without end.json": lambda n: _servers('"a": {"command": "${' + ":-" * (n // 2) + '"}'),
    "variables without end.json": lambda n: _servers('"a": {"command": "' + "${a" * (n // 3) + '"}'),
    "many servers.json": lambda n: _servers(",".join(f'"s{number}": {{"command": "x"}}' for number in range(n // 25))),
    "many mistakes.json": lambda n: _servers(",".join(f'"s{number}": {{"comand": "x"}}' for number in range(n // 25))),
    "many names.json": lambda n: "{" + ",".join(f'"s{number}": 1' for number in range(n // 12)) + "}",
    "dots.toml": lambda n: ".".join("a" * (n // 2)) + " = 1",
    "quoted dots.toml": lambda n: ".".join(['"a"'] * (n // 4)) + " = 1",
    "short of too many dots.toml": lambda n: "\n".join(f"{'a.' * 30}a{number} = 1" for number in range(n // 70)),
    "lists.toml": lambda n: "a = " + "[" * n,
    "tables.toml": lambda n: "a = " + "{a=" * (n // 3),
    "digits.toml": lambda n: "a = " + "1" * n,
    "a long list.toml": lambda n: _table("args = [\n" + '"a",\n' * (n // 5) + "]\n"),
    "a long text.toml": lambda n: _table('x = """\n' + "a\n" * (n // 2) + '"""\n'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_150_kb_of_a_hostile_file_take_linear_time(name, tmp_path):
    path = tmp_path / name

    def go(size: int) -> None:
        path.write_text(HOSTILE[name](size))
        for read in (load_declaration, load_config)[: 1 if path.suffix == ".toml" else 2]:
            problem = ""
            try:
                read(path)
            except ConfigError as error:
                problem = str(error)
            assert not problem or problem.startswith(str(path))
            assert len(problem) < 1000

    assert_linear(go, SIZE // 16, SIZE)


def test_hostile_files_do_not_slow_tab_completion(tmp_path):
    def go(size: int) -> None:
        (tmp_path / "mcp.json").write_text(HOSTILE["a string without end.json"](size))
        (tmp_path / ".mcp.json").write_text(HOSTILE["many servers.json"](size))
        entries = discover_servers(tmp_path, home=tmp_path / "home", environ={})
        assert sum(1 for entry in entries if not entry.problem) == size // 25

    assert_linear(go, SIZE // 16, SIZE)


@pytest.mark.parametrize("name", ["mcp.json", "mcp_magic.toml"])
def test_a_huge_file_or_a_pipe_is_refused_at_once(name, tmp_path):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(3_000_000_000)  # no disk is used for it
    huge = r"cannot be read: it has 3,000,000,000 bytes, and at most 1,000,000 are read$"
    with pytest.raises(ConfigError, match=huge):
        load_declaration(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        load_declaration(path)


@pytest.mark.parametrize("sandbox", ["'rights.toml'", "{ read = ['link'] }"])
def test_trust_ends_where_a_sandbox_allows_more(tmp_path, monkeypatch, sandbox):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    file, rights, link = tmp_path / "mcp_magic.toml", tmp_path / "rights.toml", tmp_path / "link"
    file.write_text(f"[servers.x]\ncommand = 'x'\nsandbox = {sandbox}\n")
    rights.write_text("read = ['in']\n")
    link.symlink_to(tmp_path / "in")
    trust(load_declaration(file))
    assert is_trusted(load_declaration(file))
    rights.write_text("read = ['/']\n")
    link.unlink()
    link.symlink_to("/")
    assert not is_trusted(load_declaration(file))
