from __future__ import annotations

import pytest

from mcp_magic.config.servers import parse_servers
from mcp_magic.config.specs import HttpSpec, StdioSpec

SECRET = "s3cr3t-value"


def parse_one(fields, *, environ=None, base=None):
    [entry] = parse_servers({"mcpServers": {"it": fields}}, source="mcp.json", environ=environ or {}, base=base)
    return entry


def spec_of(fields, **options):
    entry = parse_one(fields, **options)
    assert entry.problem is None, entry.problem
    return entry.spec


def problem_of(fields, **options):
    entry = parse_one(fields, **options)
    assert entry.spec is None
    return str(entry.problem)


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
    assert spec_of({"command": "x", "args": [text]}, environ=environ).args == (expanded,)


def test_variables_are_expanded_in_every_string(tmp_path):
    environ = {"V": "v", "PORT": "80"}
    spec = spec_of({"url": "http://${V}:${PORT}/${V}", "headers": {"A": "Bearer ${V}"}}, environ=environ)
    assert spec == HttpSpec(url="http://v:80/v", headers={"A": "Bearer v"}, fallback=True)
    spec = spec_of(
        {"command": "${V}", "env": {"E": "${V}"}, "cwd": "${workspaceFolder}/${V}"}, environ=environ, base=tmp_path
    )
    assert spec == StdioSpec(command="v", env={"E": "v"}, cwd=tmp_path / "v")


def test_the_environment_wins_over_dotenv(tmp_path):
    (tmp_path / ".env").write_text("A=dotenv\nB=dotenv\n", encoding="utf-8")
    spec = spec_of({"command": "x", "args": ["${A}", "${B}"]}, environ={"A": "environ"}, base=tmp_path)
    assert spec.args == ("environ", "dotenv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "${WEATHER_TOKN}",
            "the variable WEATHER_TOKN is not set (environment, .env). Did you mean 'WEATHER_TOKEN'? "
            "${WEATHER_TOKN:-default} gives it a default.",
        ),
        ("${env:NOPE}", "the variable NOPE is not set (environment, .env). ${NOPE:-default} gives it a default."),
        (
            "${input:api-key}",
            "${input:api-key} can only be filled in by an editor. "
            "Use ${env:API_KEY}, which both understand, and set it in the environment or in .env.",
        ),
    ],
)
def test_what_cannot_be_expanded_is_a_problem_of_its_server(text, message):
    problem = problem_of({"command": "x", "env": {"T": text}}, environ={"WEATHER_TOKEN": SECRET})
    assert problem == f"mcp.json: server 'it': {message}"
