"""Names, variables, JSON and files: what every configuration is read with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_magic._text import free_name
from mcp_magic.config.parsing import (
    LARGEST,
    MissingHereError,
    check_name,
    find_line,
    name_of_command,
    name_of_url,
    parse_json,
    read_env_file,
    slug,
    write_text,
)
from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import HttpSpec, StdioSpec
from mcp_magic.consent.rules import parse_rules
from mcp_magic.errors import ConfigError, TargetError
from mcp_magic.ipython.ask import Answers
from mcp_magic.server.snapshot import read_snapshot
from tests.support.raising import said

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_magic.config.servers import ServerEntry

COMMANDS = {
    "everything": [
        "npx -y @modelcontextprotocol/server-everything stdio",
        "npx -y @modelcontextprotocol/server-everything@1.2.3",
    ],
    "remote": ["npx.cmd -y mcp-remote https://h/mcp"],
    "weather": [
        *("npx -p some-package @scope/weather-mcp", "uv --directory /srv run weather.py", "/opt/weather-mcp --stdio"),
        *("python3.12 -u -m weather.server", "node --inspect build/weather.mjs"),
    ],
    "files": ["npm exec -- @scope/mcp-server-files"],
    "memory": ["bunx server-memory"],
    "git": ["uvx mcp-server-git", "python -X dev -m mcp_server_git"],
    "time": [
        "uvx mcp-server-time==1.2",
        "python -m mcp_server_time --local-timezone UTC",
        "docker run -i --rm mcp/time",
    ],
    "sqlite": ["uvx --from git+https://h/x.git sqlite-mcp-server"],
    "math": ["uv run --with mcp servers/math_server.py", "python servers/math_server.py"],
    "fetch": ["uv tool run mcp-server-fetch"],
    "my": ["/usr/bin/python3 -W error /srv/my_server.py --port 1"],
    "python": ["python -c 1", "python"],
    "index": ["node dist/index.js"],
    "github": ["docker run -i --rm -e API_KEY=1 ghcr.io/github/github-mcp-server:v1 stdio"],
    "docker": ["docker"],
    "server": ["./server.sh", "mcp-server"],
    "Weather": ["C:\\tools\\Weather.exe"],
}
URLS = {
    "localhost_8000": ["http://127.0.0.1:8000/mcp", "http://[::1]:8000/mcp"],
    "localhost_3001": ["http://localhost:3001/sse"],
    "localhost": ["http://localhost/mcp"],
    "mcp_example_com": ["https://mcp.example.com:8443/mcp"],
    "my-host": ["https://me:secret@my-host/mcp"],
    "server_10_0_0_5": ["http://10.0.0.5:8000"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_named_after_script_module_or_package(name):
    for line in COMMANDS[name]:
        command, *args = line.split()
        assert name_of_command(command, args) == name


@pytest.mark.parametrize("name", URLS)
def test_a_url_is_named_after_its_host(name):
    assert {name_of_url(url) for url in URLS[name]} == {name}


@given(st.text())
def test_the_slug_of_any_text_is_a_valid_name(text):
    assert check_name(slug(text)) == slug(text)


@given(st.text(alphabet="abc", min_size=1), st.sets(st.text(alphabet="abc_23", min_size=1)))
def test_a_unique_name_is_not_taken_and_starts_with_the_name(name, taken):
    unique = free_name(name, taken)
    assert unique not in taken
    assert re.fullmatch(rf"{name}(_\d+)?", unique)


def test_an_invalid_server_name_suggests_a_valid_one():
    for name in ("weather", "_x", "a-b_2"):
        assert check_name(name) == name
    for name in ("2nd", "my server", "a:b", "a\n", "-x"):
        meant = f"{name!r} is not a server name: letters, digits, _ and -. Did you mean {slug(name)!r}?"
        assert said(TargetError, check_name, name) == meant


def parsed(fields: dict[str, Any], environ: dict[str, str], base: Path | None = None) -> ServerEntry:
    [entry] = parse_servers({"mcpServers": {"it": fields}}, source="mcp.json", environ=environ, base=base)
    return entry


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        *(("${A}", "1"), ("${A}-${B:-two}-${env:A}", "1-two-1"), ("${EMPTY:-default}", "default"), ("${EMPTY}", "")),
        *(("${B:-}", ""), ("${NESTED}", "${A}"), ("$A ${1} ${HOST:1} $(x)", "$A ${1} ${HOST:1} $(x)")),
        *(("${B:-http://h:80/a?b=c}", "http://h:80/a?b=c"), ("${userHome}/x", "/home/me/x")),
    ],
)
def test_variables_are_expanded_once(text, expanded):
    environ = {"A": "1", "EMPTY": "", "NESTED": "${A}", "HOME": "/home/me"}
    assert parsed({"command": "x", "args": [text]}, environ).spec == StdioSpec(command="x", args=(expanded,))


def test_variables_are_expanded_in_every_string(tmp_path):
    url = {"url": "http://${V}:${PORT}/${V}", "headers": {"A": "Bearer ${V}"}}
    spec = parsed(url, {"V": "v", "PORT": "80"}).spec
    assert spec == HttpSpec(url="http://v:80/v", headers={"A": "Bearer v"}, fallback=True)
    command = {"command": "${V}", "env": {"E": "${V}"}, "cwd": "${workspaceFolder}/${V}", "args": ["${A}", "${B}"]}
    (tmp_path / ".env").write_text("A=dotenv\nB=dotenv\n", encoding="utf-8")
    spec = parsed(command, {"V": "v", "A": "environ"}, tmp_path).spec  # which wins over .env
    assert spec == StdioSpec(command="v", args=("environ", "dotenv"), env={"E": "v"}, cwd=tmp_path / "v")


UNEXPANDED = {
    "${WEATHER_TOKN}": (
        "the variable WEATHER_TOKN is not set (environment, .env). Did you mean 'WEATHER_TOKEN'? "
        "${WEATHER_TOKN:-default} gives it a default."
    ),
    "${env:NOPE}": "the variable NOPE is not set (environment, .env). ${NOPE:-default} gives it a default.",
    "${command:api-key}": (
        "${command:api-key} can only be filled in by an editor. "
        "Use ${env:API_KEY}, which both understand, and set it in the environment or in .env."
    ),
}


@pytest.mark.parametrize("text", UNEXPANDED)
def test_a_variable_that_is_not_set_is_a_problem_of_its_server(text):
    entry = parsed({"command": "x", "env": {"T": text}}, {"WEATHER_TOKEN": "s3cr3t-value"})
    assert str(entry.problem) == f"mcp.json: server 'it': {UNEXPANDED[text]}"
    assert entry.spec is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
        ('/* x\n "y" */ ["//", "/* */", ",]", "\\",}"]', ["//", "/* */", ",]", '",}']),
        ('{"url": "http://h"} // end', {"url": "http://h"}),
        ("[1, /* last */ ]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_read(text, value):
    assert parse_json(text, source="x") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{\n  "a": 1 // one\n  "b": 2\n}', "x:3:3: not JSON: Expecting ',' delimiter", id="comma"),
        pytest.param('{"a": /* c */ oops}', "x:1:15: not JSON: Expecting value", id="comment"),
        pytest.param("[,]", "x:1:2: not JSON: Expecting value", id="only a comma"),
        pytest.param("", "x:1:1: not JSON: Expecting value", id="empty"),
        pytest.param("[" * 100_000, "x: nested too deeply", id="deep"),
    ],
)
def test_a_mistake_in_json_has_its_line_and_column(text, message):
    assert said(ConfigError, parse_json, text, source="x") == message


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = '''\n[b]\nc = 1\n'''\n[b]\nc = 2", ("b", "c"), 6),
        ("a = [\n  # ]\n  '[b]',\n]\n[b]\nc = 1", ("b", "c"), 6),
        ("['x.y'.z]\n\"a b\" = 1", ("x.y", "z", "a b"), 2),
        ("[[r]]\nk = 1\n[r.sub]\nx = 1\n[[r]]\n[r.sub]\nx = 2", ("r", 1, "sub", "x"), 7),
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx = 1\n[[a]]\n[[a.b]]\nx = 2", ("a", 1, "b", 0, "x"), 7),
        *(
            ("a = [\n  { x = 1 },\n  { y = 2 },\n]", ("a", 1, "y"), 3),
            ("a.b.c = 1\r\na.b.d = 2\r\n", ("a", "b", "d"), 2),
        ),
        *(("[a.b.c]\n", ("a", "b"), 1), ("x = 1", ("y",), None), ("", ("y",), None)),
    ],
)
def test_the_line_of_a_key_is_found(text, path, line):
    assert find_line(text, path) == line


@pytest.mark.lowest
def test_variables_of_an_env_file_that_use_others_are_read(tmp_path):
    path = tmp_path / ".env"
    path.write_text("HOST=a.example\nURL=https://${HOST}/${NONE:-x}\n")
    assert read_env_file(path) == {"HOST": "a.example", "URL": "https://a.example/x"}


TOO_MANY = "its variables refer to too many others"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("A=1\n" * LARGEST, "cannot be read: it has 4,000,000 bytes", id="large"),
        pytest.param("A=" + "${" * 75_000, TOO_MANY, id="without end"),
        pytest.param(
            "A0=xxxxxxxxxx\n" + "".join(f"A{n + 1}={f'${{A{n}}}' * 10}\n" for n in range(12)), TOO_MANY, id="repeated"
        ),
    ],
)
def test_a_hostile_env_file_is_refused(text, message, tmp_path):
    path = tmp_path / ".env"
    path.write_text(text)
    with pytest.raises(MissingHereError, match=message):
        read_env_file(path)


@pytest.mark.parametrize("text", ["consent = 1", "consent = 'x'", "[consent]\na = 1", "a = " + "[" * 5000])
def test_rules_that_are_none_are_refused_with_the_file(text):
    with pytest.raises(ConfigError, match=r"^rules\.toml: "):
        parse_rules(text, source="rules.toml")


@pytest.mark.parametrize(("read", "problem"), [(Answers.load, ": nested too deeply"), (read_snapshot, " is not JSON")])
def test_data_that_nests_without_end_is_refused(read, problem, tmp_path):
    path = tmp_path / "data.json"
    path.write_text("[" * 150_000)
    with pytest.raises(ConfigError, match=re.escape(f"{path}{problem}")):
        read(path)


def test_unencodable_file_is_written_or_a_readable_error(tmp_path):
    write_text(tmp_path / "page.md", "Zo\u00eb \ud83d")
    assert (tmp_path / "page.md").read_bytes() == b"Zo\xc3\xab \\ud83d"
    with pytest.raises(ConfigError, match="cannot be written: embedded null byte"):
        write_text(tmp_path / "a\0b", "x")
