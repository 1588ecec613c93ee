from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_magic.config.servers import discover_servers, find_configs, find_server, load_config
from mcp_magic.config.specs import StdioSpec
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, data) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


# Files


@pytest.fixture
def home(tmp_path):
    return (tmp_path / "home").resolve()


@pytest.fixture
def project(home):
    folder = home / "work" / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


SERVER = {"mcpServers": {"it": {"command": "x", "args": ["server.py"]}}}


def test_files_are_found_nearest_first_then_the_persons_own(home, project):
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


def test_parents_count_up_to_home_where_there_is_no_repository(home):
    path = write(home / "mcp.json", {})
    (home / "a" / "b").mkdir(parents=True)
    assert find_configs(home / "a" / "b", home=home, environ={}) == [path]


def test_parents_do_not_count_outside_of_home_and_repositories(home, tmp_path):
    write(tmp_path / "mcp.json", SERVER)
    inner = tmp_path / "elsewhere"
    inner.mkdir()
    assert find_configs(inner, home=home, environ={}) == []


def test_a_projects_commands_run_in_its_folder(project, home):
    path = write(project / ".vscode" / "mcp.json", {"servers": {"it": {"command": "${workspaceFolder}/x"}}})
    [entry] = load_config(path, environ={}, home=home)
    assert entry.source == str(path)
    assert entry.spec == StdioSpec(command=f"{project}/x", cwd=project)


@pytest.mark.parametrize("name", [".cursor/mcp.json", ".config/Claude/claude_desktop_config.json"])
def test_a_persons_own_commands_run_where_the_kernel_runs(home, name):
    [entry] = load_config(write(home / name, SERVER), environ={}, home=home)
    assert entry.spec == StdioSpec(command="x", args=("server.py",))


def test_claude_code_file_has_servers_of_projects_and_person(home, project):
    data = {
        "numStartups": 3,
        "mcpServers": {"it": {"command": "persons"}, "other": {"command": "persons"}},
        "projects": {
            str(project): {"mcpServers": {"it": {"command": "projects"}}, "history": []},
            "/elsewhere": {"mcpServers": {"far": {"command": "elsewhere"}}},
        },
    }
    path = write(home / ".claude.json", data)
    entries = load_config(path, environ={}, directory=project / "notebooks")
    assert [(e.name, e.spec.command, e.shadowed_by) for e in entries] == [
        ("it", "projects", None),
        ("it", "persons", str(path)),
        ("other", "persons", None),
    ]
    assert entries[0].spec.cwd == project


def test_a_claude_code_file_without_servers_is_no_mistake(home):
    assert load_config(write(home / ".claude.json", {"numStartups": 3}), environ={}, directory=home) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "{path}:1:2: not JSON: Expecting property name enclosed in double quotes"),
        (b'{"a": "\xff"}', "{path}: not UTF-8 (byte 7)"),
        (None, "{path}: cannot be read: No such file or directory"),
    ],
    ids=["json", "bytes", "missing"],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path, content, message):
    path = tmp_path / "mcp.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={})
    assert str(caught.value) == message.format(path=path)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(SERVER), encoding="utf-8-sig")
    assert [entry.name for entry in load_config(path, environ={})] == ["it"]


# Discovery


def test_the_first_of_a_name_wins_and_the_others_say_which(home, project):
    first = write(project / "mcp.json", SERVER)
    second = write(home / ".cursor" / "mcp.json", SERVER)
    environ = {"MCP_SERVERS": json.dumps({"it": {"url": "http://h"}, "more": {"url": "http://h"}})}
    entries = discover_servers(project, home=home, environ=environ)
    assert [(e.name, e.source, e.shadowed_by) for e in entries] == [
        ("it", str(first), None),
        ("it", str(second), str(first)),
        ("it", "MCP_SERVERS", str(first)),
        ("more", "MCP_SERVERS", None),
    ]


def test_a_broken_file_does_not_hide_the_others(home, project):
    broken = write(project / "mcp.json", "{")
    write(home / ".cursor" / "mcp.json", SERVER)
    entries = discover_servers(project, home=home, environ={"MCP_SERVERS": "["})
    assert [(e.name, e.source) for e in entries] == [
        ("", str(broken)),
        ("it", str(home / ".cursor" / "mcp.json")),
        ("", "MCP_SERVERS"),
    ]
    assert str(entries[2].problem) == "MCP_SERVERS:1:2: not JSON: Expecting value"
    assert str(entries[0].problem).startswith(f"{broken}:1:2: not JSON: ")


def test_find_server_takes_raw_or_cleaned_name(home, project):
    write(project / "mcp.json", {"mcpServers": {"My Tools": {"command": "x"}}})
    for name in ("My Tools", "My_Tools"):
        assert find_server(name, project, home=home, environ={}).name == "My Tools"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("waether", "No config file has a server 'waether'. Did you mean 'weather'?"),
        ("zzz", "No config file has a server 'zzz'. Configured: weather, math."),
    ],
)
def test_an_unknown_server_gets_the_closest_name(home, project, name, message):
    write(project / "mcp.json", {"mcpServers": {"weather": {"command": "x"}, "math": {"command": "x"}}})
    with pytest.raises(ConfigError) as caught:
        find_server(name, project, home=home, environ={})
    assert str(caught.value) == message


def test_an_unknown_server_names_the_files_that_were_not_read(home, project):
    path = write(project / "mcp.json", "[1 2]")
    with pytest.raises(ConfigError) as caught:
        find_server("math", project, home=home, environ={})
    not_read = f"{path}:1:4: not JSON: Expecting ',' delimiter"
    assert str(caught.value) == f"No config file has a server 'math'. Configured: none. Not read: {not_read}."


def test_nothing_is_started(home, project, tmp_path):
    witness = tmp_path / "started"
    script = f"open({str(witness)!r}, 'w')"
    write(project / "mcp.json", {"mcpServers": {"it": {"command": sys.executable, "args": ["-c", script]}}})
    assert find_server("it", project, home=home, environ={}).spec.command == sys.executable
    assert not witness.exists()
