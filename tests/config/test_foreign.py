"""Configuration files of other hosts, as they write them: each of `tests/data/hosts` is the shape of a host's own."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic.config.foreign import personal_files
from mcp_magic.config.parsing import LARGEST, LARGEST_YAML
from mcp_magic.config.project import find_declaration, load_declaration, loosened
from mcp_magic.config.sandbox import make_sandbox
from mcp_magic.config.servers import discover_servers, is_personal, load_config
from mcp_magic.config.specs import AuthOptions, HttpSpec, SseSpec, StdioSpec
from mcp_magic.errors import ConfigError
from tests.environments import ROOT
from tests.support.raising import said

if TYPE_CHECKING:
    from mcp_magic.config.servers import ServerEntry

HOSTS = ROOT / "tests" / "data" / "hosts"
TOKENS = {"LIBRARY_TOKEN": "library-t0ken", "DRAWINGS_TOKEN": "drawings-t0ken"}
BEARER = {"Authorization": "Bearer drawings-t0ken"}


@pytest.fixture
def home(tmp_path):
    return Path(shutil.copytree(HOSTS / "home", tmp_path.resolve() / "home"))


@pytest.fixture
def project(tmp_path):
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    return Path(shutil.copytree(HOSTS / "project", tmp_path.resolve() / "clone", dirs_exist_ok=True))


@pytest.fixture
def environ(home):
    return {"HOME": str(home), "TEAM": "blue", "DATABASE_URL": "pg://db", **TOKENS}


@pytest.fixture
def own(home, project, environ):
    entries = discover_servers(project, home=home, environ=environ)
    entries = [entry for entry in entries if Path(entry.source).is_relative_to(home)]
    return {entry.name: entry for entry in entries}


def npx(*args: str, **rest: Any) -> StdioSpec:
    return StdioSpec(command="npx", args=("-y", *args), **rest)


def test_files_of_each_host_become_specs(own, home, project):
    walls = {"read": ["/"], "write": ["~/.npm", str(project)], "net": ["registry.npmjs.org"]}
    node = StdioSpec(command="node", args=(f"{project}/server.js",))
    codex = {"LIBRARY_TOKEN": "library-t0ken", "CACHE": "/tmp/library"}
    gemini = {"DATABASE": "pg://db", "KEY": "library-t0ken"}
    arguments = ("-m", "tools", "--home", str(home), "--shell", "$unset")
    goose = {"LIBRARY_TOKEN": "library-t0ken", "PORT": "8080", "PATTERN": "${x}"}
    assert {name: entry.spec for name, entry in own.items() if entry.spec} == {
        "memory": npx("@modelcontextprotocol/server-memory"),
        "docs": HttpSpec(
            url="https://docs.example/mcp", fallback=True, auth=AuthOptions(mode="oauth", client_id="example-client")
        ),
        "search": npx("search", env={"KEY": "${input:search-key}"}),
        "walled": StdioSpec(command="npx", sandbox=make_sandbox(walls, home)),
        "worked-on": node,
        "of-a-profile": StdioSpec(command="uvx", args=("mcp-server-time",)),
        "library": npx("@example/library", "--root=${HOME}", env=codex, timeout=20),
        "drawings": HttpSpec(
            url="https://drawings.example/mcp",
            headers={"X-Team": "blue", **BEARER, "X-Region": "us-east-1"},
            fallback=True,
        ),
        "off": StdioSpec(command="off"),
        "tools": StdioSpec(command="python", args=arguments, env=gemini, cwd=home / "tools", timeout=15),
        "experiment": StdioSpec(command="experiment"),
        "web": HttpSpec(url="http://localhost:3000/mcp", fallback=True, timeout=5),
        "found": HttpSpec(url="https://found.example/sse", fallback=True),
        "remote": HttpSpec(url="https://remote.example/mcp", fallback=True, headers=BEARER),
        "everything": npx(
            "@modelcontextprotocol/server-everything",
            "${HOME}",
            env={"TOKEN": "library-t0ken", "KEY": "key-of-a-file"},
            timeout=5,
        ),
        "issues": HttpSpec(
            url="https://issues.example/mcp", fallback=True, auth=AuthOptions(mode="oauth", scopes=("read",))
        ),
        "keyed": HttpSpec(url="https://keyed.example/mcp", fallback=True, auth=AuthOptions(mode="none")),
        "browser": StdioSpec(command="npx", args=("@example/browser@latest",)),
        "events": SseSpec(url="https://events.example/sse"),
        "mail": StdioSpec(command="uvx", args=("mail-server", "--country", "no"), env=goose, timeout=120),
        "calendar": HttpSpec(url="https://calendar.example/mcp", headers=BEARER),
        "notes": StdioSpec(command="python3", args=("notes.py",), env={"MODE": "plain"}),
        "files": npx("@modelcontextprotocol/server-filesystem", "/tmp"),
    }
    assert {name for name, entry in own.items() if entry.disabled} == {"off", "experiment", "keyed", "calendar"}


def test_what_is_not_understood_is_refused_or_named(own):
    problems = {name: str(entry.problem).partition(f"{name!r}: ")[2] for name, entry in own.items() if entry.problem}
    assert {name: problem.partition(": ")[0] for name, problem in problems.items()} == {
        "cloud": "authProviderType",
        "developer": "type",
    }
    assert problems["developer"] == "type: 'builtin' is a part of Goose, which nothing else can start."
    assert {name: entry.spec.unused for name, entry in own.items() if entry.spec and entry.spec.unused} == {
        "memory": ("gallery",),
        "worked-on": ("dev",),
        "library": ("tool_timeout_sec", "env_vars.AWAY"),
        "drawings": ("enabled_tools",),
        "web": ("includeTools", "trust"),
        "remote": ("disabledTools",),
        "events": ("tools",),
        "mail": ("description",),
    }
    assert "all its tools are offered" in own["drawings"].spec.unused_note
    assert "all its tools are offered" not in own["library"].spec.unused_note


def test_entries_name_their_host_and_hide_their_secrets(own, environ):
    hosts = {entry.name: entry.host for entry in own.values()}
    assert {hosts[name] for name in ("memory", "of-a-profile")} == {"VS Code"}
    assert (hosts["library"], hosts["tools"], hosts["remote"]) == ("Codex", "Gemini CLI", "Windsurf")
    assert (hosts["everything"], hosts["browser"], hosts["mail"]) == ("OpenCode", "Copilot CLI", "Goose")
    assert (hosts["notes"], hosts["files"]) == ("Cursor", "Claude Desktop")
    for entry in own.values():
        assert "t0ken" not in repr(entry)
        assert "key-of-a-file" not in repr(entry)
    assert {"drawings-t0ken", "key-of-a-file", "library-t0ken"} <= {
        secret for entry in own.values() if entry.spec for secret in entry.spec.secrets
    }
    assert all(is_personal(entry.source, environ=environ) for entry in own.values())


def test_files_of_a_project_are_read_and_are_not_the_users_own(home, project, environ):
    entries = [e for e in discover_servers(project, home=home, environ=environ) if str(project) in e.source]
    assert {entry.name: (entry.host, entry.spec) for entry in entries} == {
        "built": ("VS Code", StdioSpec(command=f"{project}/bin/server", env={"LEVEL": "3"}, cwd=project)),
        **{name: ("VS Code", StdioSpec(command="node", cwd=project)) for name in ("old-place", "of-workspace")},
        "of-container": ("VS Code", StdioSpec(command="node", cwd=project)),
        "of-codex": (
            "Codex",
            HttpSpec(
                url="https://stranger.example/mcp", headers={"Authorization": "Bearer library-t0ken"}, fallback=True
            ),
        ),
        "of-gemini": ("Gemini CLI", StdioSpec(command="node", env={"T": "library-t0ken"}, cwd=project)),
        "of-opencode": ("OpenCode", StdioSpec(command="node", args=("s.js",), cwd=project / "sub")),
    }
    assert not any(is_personal(entry.source, environ=environ) for entry in entries)


@pytest.mark.parametrize(
    ("name", "text", "wants"),
    [
        (
            ".codex/config.toml",
            '[mcp_servers.it]\nurl = "https://h"\nbearer_token_env_var = "MINE"',
            "give MINE of your environment or .env to the server it",
        ),
        (
            ".codex/config.toml",
            '[mcp_servers.it]\nurl = "https://h"\nenv_http_headers = {"X-Api-Key" = "MINE"}',
            "give MINE of your environment or .env to the server it",
        ),
        (
            "opencode.json",
            '{"mcp": {"it": {"type": "remote", "url": "https://h", "headers": {"A": "{file:~/key}"}}}}',
            "give the text of {home}/key to the server it",
        ),
        (
            "mcp.json",
            '{"mcpServers": {"it": {"url": "https://h/${file:~/key}"}}}',
            "give the text of {home}/key to the server it",
        ),
    ],
)
def test_a_project_that_takes_a_secret_needs_trust(name, text, wants, home, project, environ, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    (home / "key").write_text("k3y")
    (project / name).write_text(text)
    declared = load_declaration(project / name, environ={**environ, "MINE": "just-a-word"})
    assert loosened(declared, {}) == [wants.format(home=home)]


def test_a_link_to_a_secret_is_named_and_asked_about_again(home, project):
    for name in ("key", "other"):
        (home / name).write_text(f"{name}-of-mine")
    (project / "mcp.json").write_text('{"mcpServers": {"it": {"url": "https://h/${file:data}"}}}')
    digests = []
    for name in ("key", "other"):
        (project / "data").unlink(missing_ok=True)
        (project / "data").symlink_to(home / name)
        declared = load_declaration(project / "mcp.json", environ={})
        assert loosened(declared, {}) == [f"give the text of {home / name} to the server it"]
        digests.append(declared.digest)
    assert digests[0] != digests[1]


def test_a_folder_without_a_declaration_names_other_files(project, tmp_path):
    lines = ["`%mcp up .vscode/mcp.json`", "`%mcp up .vscode/settings.json`"]
    assert f"Another host's servers: {', '.join(lines)}" in said(ConfigError, find_declaration, project)
    (tmp_path / "empty").mkdir()
    assert "Another host" not in said(ConfigError, find_declaration, tmp_path / "empty")
    for file in (".codex/config.toml", ".gemini/settings.json", "opencode.json", "all.code-workspace"):
        assert [*load_declaration(project / file, environ=TOKENS).servers], file


@pytest.mark.parametrize(
    ("environ", "files"),
    [
        (
            {"APPDATA": "/roaming", "CODEX_HOME": "/codex", "COPILOT_HOME": "/copilot", "XDG_CONFIG_HOME": "/config"},
            (
                *("/roaming/Code/User/mcp.json", "/roaming/Claude/claude_desktop_config.json", "/codex/config.toml"),
                *("/copilot/mcp-config.json", "/config/goose/config.yaml", "/config/opencode/opencode.json"),
                *("/roaming/Block/goose/config/config.yaml", "/config/VSCodium/User/mcp.json"),
            ),
        ),
        (
            {"CODEX_HOME": "not/absolute"},
            (
                *("/home/me/.codex/config.toml", "/home/me/AppData/Roaming/Code - Insiders/User/mcp.json"),
                *("/home/me/Library/Application Support/Code/User/mcp.json", "/home/me/.copilot/mcp-config.json"),
                *("/home/me/.codeium/windsurf/mcp_config.json", "/home/me/.config/goose/config.yaml"),
            ),
        ),
    ],
    ids=("folders", "none"),
)
def test_personal_files_are_where_each_platform_has_them(environ, files):
    personal = {path.as_posix() for path in personal_files(Path("/home/me"), environ)}
    assert set(files) <= personal


def load(path: Path, content: str | bytes) -> list[ServerEntry]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_config(path, environ={}, home=path.parent, directory=path.parent)


LETTERS = "abcdefghijklmnopqrstuv"
BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(LETTERS))
TAKEN: dict[str, tuple[str, str | bytes]] = {
    "a byte order mark": ("config.yaml", b"\xef\xbb\xbfextensions: {it: {type: stdio, cmd: x}}"),
    "windows line ends": ("config.toml", b"\xef\xbb\xbf[mcp_servers.it]\r\ncommand = 'x'\r\n"),
    "aliases": ("config.yaml", "base: &base {cmd: x}\nextensions: {it: *base}"),
    "a number as a name": ("config.yaml", "extensions: {1: {cmd: x}}"),
    "a list as a command": ("opencode.json", '{"mcp": {"it": {"type": "local", "command": ["x"]}}}'),
    "of OpenCode elsewhere": ("some.json", '{"mcp": {"it": {"type": "local", "command": ["x"]}}}'),
    "of a workspace elsewhere": ("some.json", '{"settings": {"mcp": {"servers": {"it": {"command": "x"}}}}}'),
    "of OpenCode 1 and 2": ("opencode.json", '{"mcp": {"servers": {"it": {"command": ["x"]}}, "timeout": 3}}'),
    "of Codex elsewhere": ("codex.toml", '[mcp_servers.it]\ncommand = "x"'),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_file_is_taken_as_far_as_it_can_be(case, tmp_path):
    name, content = TAKEN[case]
    [entry] = load(tmp_path / name, content)
    assert (entry.problem, entry.spec) == (None, StdioSpec(command="x"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.toml", "model = 'x'"),
        (".gemini/settings.json", '{"theme": "x"}'),
        ("config.yaml", "GOOSE_MODE: auto"),
        ("config.yaml", ""),
        ("opencode.json", '{"mcp": null}'),
        ("a.code-workspace", '{"extensions": {"x": ["y"]}}'),
    ],
)
def test_settings_without_servers_are_no_mistake(name, content, tmp_path):
    assert load(tmp_path / name, content) == []


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("config.yaml", BOMB, "it has more than 1,000,000 characters, its aliases filled in", id="bomb"),
        pytest.param("config.yaml", "a: &a [*a]", "it has more than 1,000,000 characters", id="a circle"),
        pytest.param("config.yaml", "a: " + "[" * 100, "nested too deeply", id="deep yaml"),
        pytest.param("config.yaml", "a: " + "[" * 100_000, "not YAML", id="deeper yaml"),
        pytest.param("config.yaml", "x" * (LARGEST_YAML + 1), "at most 256,000 characters of YAML", id="large yaml"),
        pytest.param("config.yaml", "x" * (LARGEST + 1), "cannot be read: it has 1,000,001 bytes", id="larger yaml"),
        pytest.param("config.yaml", "a: !!python/object/apply:os.system [x]", "a type of its own", id="an object"),
        pytest.param("config.yaml", "a: !!int " + "9" * 9000, "not YAML: Exceeds the limit", id="digits"),
        pytest.param("config.yaml", "a: [1", ":2:1: not YAML: ", id="unfinished"),
        pytest.param("config.yaml", "a: *b", ":1:4: not YAML: found undefined alias", id="no anchor"),
        pytest.param("config.yaml", "a: b\n---\nc: d", ":2:1: not YAML: but found another document", id="two"),
        pytest.param("config.yaml", "a: \x00", "not YAML: unacceptable character", id="null byte"),
        pytest.param("config.yaml", b"a: \xff", "not UTF-8 (byte 3)", id="yaml bytes"),
        pytest.param("config.yaml", "extensions: 3", "extensions: expected an object of servers by name", id="number"),
        pytest.param("config.yaml", "just text", "expected an object with mcpServers or servers, got text", id="text"),
        pytest.param("config.toml", "mcp_servers = 3", "mcp_servers: expected an object of servers", id="toml number"),
        pytest.param("config.toml", "[mcp_servers.a\n", "config.toml:1:15: not TOML: ", id="toml"),
        pytest.param("config.toml", b"\xff\xfe", "not UTF-8 (byte 0)", id="utf-16"),
        pytest.param("opencode.json", '{"mcp": []', "not JSON", id="json"),
    ],
)
def test_a_hostile_file_is_refused_with_the_reason(name, content, problem, tmp_path):
    assert problem in said(ConfigError, load, tmp_path / name, content)


WRONG: list[tuple[str, str]] = [
    ('"env_vars": "A"', "env_vars: expected a list of names of variables, got text."),
    ('"env_vars": ["A B"]', "env_vars: expected a list of names of variables."),
    ('"env_keys": [{}]', "env_keys: expected a list of names of variables."),
    ('"env_http_headers": ["A"]', "env_http_headers: expected headers with the names of their variables."),
    ('"bearer_token_env_var": "${A}"', "bearer_token_env_var: expected the name of a variable."),
    ('"bearer_token": "s3cret"', "bearer_token: a token in the file is refused, as in Codex. Name its variable"),
    ('"env": [1], "envs": {"A": "b"}', "env: expected names with values, got a list."),
    ('"timeout": 1' + "0" * 400, "timeout: expected seconds above 0"),
    ('"args": ' + "[" * 700 + "]" * 700, "nested too deeply"),
    ('"env": {"A": "${file:.}"}', " cannot be read: "),
    ('"env": {"A": "${file:/dev/zero}"}', "/dev/zero cannot be read: it is not a regular file."),
    ('"env": {"A": "${file:no.txt}"}', "no.txt cannot be read: No such file or directory."),
    ('"env": {"A": "${file:a\\u0000b}"}', "is not UTF-8."),
    ('"env": {"A": "${file:bytes}"}', "bytes is not UTF-8."),
]


@pytest.mark.parametrize(("fields", "problem"), WRONG)
def test_a_wrong_field_is_the_problem_of_its_server(fields, problem, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    text = f'{{"mcpServers": {{"it": {{"command": "x", {fields}}}, "other": {{"command": "y"}}}}}}'
    entry, other = load(tmp_path / "mcp.json", text)
    assert problem in str(entry.problem)
    assert other.spec == StdioSpec(command="y")


def test_the_key_that_a_host_prefers_is_used(tmp_path):
    first = '{"mcpServers": {"it": {"httpUrl": "http://h", "url": "http://s", "sandboxEnabled": true}}}'
    [entry] = load(tmp_path / ".gemini" / "settings.json", first)
    assert entry.spec == HttpSpec(url="http://h", fallback=True)
    assert entry.spec.unused == ("url", "sandboxEnabled")
    second = '{"mcp": {"servers": {"type": "local", "command": ["x"]}, "other": {"type": "remote", "url": "http://h"}}}'
    assert [entry.name for entry in load(tmp_path / "opencode.json", second)] == ["servers", "other"]


def test_the_text_of_a_file_is_expanded_once(tmp_path):
    (tmp_path / "a").write_text("${file:a} ${HOME} {file:a}\n")
    text = '{"mcp": {"it": {"type": "local", "command": ["x", "{file:a}"]}}}'
    [entry] = load(tmp_path / "opencode.json", text)
    assert entry.spec == StdioSpec(command="x", args=("${file:a} ${HOME} {file:a}",))
