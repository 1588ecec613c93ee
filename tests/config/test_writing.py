"""Servers written into configuration files, and taken out: everything else in the file stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from mcp_magic.config.parsing import plain_json
from mcp_magic.config.writing import ServerFile, read_file, write_file
from mcp_magic.errors import ConfigError

TABLE = {"command": "npx", "args": ["-y", "a@1"], "env": {"K": "${K}"}}

TOML = """\
# My servers.
[servers.a]
command = "x"  # not y

[servers.a.env]
X = "1"

# About b.
[servers.b]
command = "y"

[[consent]]
allow = "a:*"
"""

JSON = """\
{
  // My servers.
  "mcpServers": {
    "a": {"command": "x"}, // the first, really
    /* the second, */ "b": {"command": "y"} // the last
  },
  "other": [1, 2,],
}
"""


def added(name: str, text: str, **options) -> str:
    return ServerFile(Path("/p", name), text).added("db", TABLE, comment="npm a 1", **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("mcp_magic.toml", "", id="no TOML"),
        pytest.param("mcp_magic.toml", TOML, id="TOML"),
        pytest.param("mcp_magic.toml", TOML.replace("\n", "\r\n"), id="TOML of Windows"),
        pytest.param("pyproject.toml", '[project]\nname = "x"\n', id="pyproject"),
        pytest.param("pyproject.toml", "[tool.x]\nday = 2026-11-01  # exactly\n", id="a date"),
        pytest.param("mcp.json", JSON, id="JSON with comments"),
        pytest.param("mcp.json", JSON.replace("\n", "\r\n"), id="JSON of Windows"),
        pytest.param("mcp.json", JSON.replace("  ", "\t"), id="JSON with tabs"),
    ],
)
def test_server_is_added_and_removed_without_a_trace(name, text):
    changed = added(name, text)
    file = ServerFile(Path("/p", name), changed)
    assert file.servers["db"] == TABLE
    assert changed.startswith(text[:60])
    assert all(comment in changed for comment in re.findall(r"# .*|// [^,\r\n]*|/\*.*?\*/", text))
    assert ("\r\n" in changed) == ("\r\n" in text)
    assert file.removed("db") == text


@pytest.mark.parametrize(
    "text", ["", "{}", " \n", '{"mcpServers": {}}', '{"mcpServers": {"a": {"command": "x"}}}', "{ // x\n}"]
)
def test_any_json_takes_a_server(text):
    file = ServerFile(Path("/p/mcp.json"), added("mcp.json", text))
    assert file.servers["db"] == TABLE
    assert "db" not in ServerFile(file.path, file.removed("db")).servers


@pytest.mark.parametrize("text", ["", '{"servers": {}}', '{"inputs": [{"id": "z"}], "servers": {}}', '{"inputs": []}'])
def test_file_of_vs_code_has_inputs(text):
    file = ServerFile(Path("/p/.vscode/mcp.json"), text)
    changed = file.added("db", TABLE, comment="", inputs=[{"id": "k"}])
    data = json.loads(changed)
    assert data["servers"]["db"] == TABLE
    assert data["inputs"][-1] == {"id": "k"}


def test_each_server_is_removed_alone():
    toml = ServerFile(Path("/p/mcp_magic.toml"), TOML)
    without_a, without_b = toml.removed("a"), toml.removed("b")
    assert "# About b." in without_a
    assert tomllib.loads(without_a)["servers"].keys() == {"b"}
    assert tomllib.loads(without_b)["servers"] == {"a": {"command": "x", "env": {"X": "1"}}}
    both = ServerFile(Path("/p/mcp.json"), JSON)
    assert json.loads(plain_json(both.removed("a")))["mcpServers"] == {"b": {"command": "y"}}
    assert json.loads(plain_json(both.removed("b")))["mcpServers"] == {"a": {"command": "x"}}
    assert "// the first, really" in both.removed("b")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("mcp_magic.toml", "servers = {a = {command = 'x'}}", "write it by hand"),
        ("mcp_magic.toml", "[servers", r"mcp_magic\.toml:1:9: not TOML"),
        ("mcp_magic.toml", "servers = 3", "servers: expected servers by name, got a number"),
        ("mcp.json", "[]", "expected an object, got a list"),
        ("mcp.json", '{"mcpServers": [1]}', "mcpServers: expected servers by name"),
        ("mcp.json", "{", "not JSON"),
        ("mcp.json", '{"mcpServers": {"Db": {}, "db": {}}}', "has a server 'db'; `--name NAME`"),
    ],
)
def test_file_that_cannot_be_changed_is_refused(name, text, reason):
    with pytest.raises(ConfigError, match=reason):
        added(name, text)


def test_inputs_that_are_no_list_are_refused():
    with pytest.raises(ConfigError, match="inputs: expected a list, got nothing"):
        added(".vscode/mcp.json", '{"inputs": null}', inputs=[{"id": "k"}])


def test_server_that_cannot_be_taken_out_is_refused():
    with pytest.raises(ConfigError, match="do it by hand"):
        ServerFile(Path("/p/mcp_magic.toml"), "servers.a.command = 'x'\n[servers.b]\ncommand = 'y'\n").removed("a")
    with pytest.raises(ConfigError, match=r"has no server 'aa'. Did you mean 'a'\? It has: a, b"):
        ServerFile(Path("/p/mcp_magic.toml"), TOML).removed("aa")


def test_text_that_looks_like_a_table_is_none():
    text = '[agents.x]\nsystem = """\n[servers.db]\ncommand = "no"\n"""\n'
    changed = added("mcp_magic.toml", text)
    assert tomllib.loads(changed)["agents"] == tomllib.loads(text)["agents"]
    assert ServerFile(Path("/p/mcp_magic.toml"), changed).removed("db") == text


@pytest.mark.parametrize("value", ["a\u202eb", 'q"\\', "\x7f\x00", "\U000e0041", "é${X}"], ids=ascii)
def test_any_text_is_written_as_it_is(value):
    table = {"command": "x", "args": [value], "env": {"K": value}}
    for name in ("mcp_magic.toml", "mcp.json"):
        file = ServerFile(Path("/p", name), "")
        text = file.added("db", table, comment="")
        assert ServerFile(file.path, text).servers["db"] == table


def test_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path):
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("")
    real.chmod(0o640)
    link.symlink_to(real)
    write_file(read_file(link).path, "x = 1\n")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("x = 1\n", 0o640)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    write_file(tmp_path / "new" / "mcp.json", "{}")
    assert (tmp_path / "new" / "mcp.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("name", "content", "reason"), [("a.yaml", b"", "is not written"), ("a.json", b"\xff", "not UTF-8")]
)
def test_file_that_cannot_be_read_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        read_file(tmp_path / name)
