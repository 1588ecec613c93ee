"""The entries for other hosts: they are valid there, and have no secret."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib

import pytest

from mcp_magic.config.foreign import server_tables
from mcp_magic.outside.entries import entries, proxy_table

COMMAND = [sys.executable, "-P", "-m", "mcp_magic", "proxy"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without anything unusual."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "JUPYTER_PLATFORM_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def tables(shown):
    """Return the server in each document, as it is read here from the files of other hosts."""
    shared, _, codex, code = shown
    assert (shared.where, codex.where, code.where) == (".mcp.json", "~/.codex/config.toml", ".vscode/mcp.json")
    documents = [json.loads(shared.text), tomllib.loads(codex.text), json.loads(code.text)]
    for document, entry in zip(documents, (shared, codex, code), strict=True):
        [(name, table, _)] = server_tables(document, entry.where)
        assert name == "kernel"
        yield table


def test_each_entry_starts_the_proxy_by_an_absolute_path():
    shown = entries(proxy_table())
    assert shlex.split(shown[1].text) == ["claude", "mcp", "add", "kernel", "--", *COMMAND]
    for table in tables(shown):
        assert [table["command"], *table["args"]] == COMMAND
        assert "env" not in table


def test_entry_names_the_notebook_where_several_are():
    shown = entries(proxy_table('a "b".ipynb'))
    assert shlex.split(shown[1].text)[-2:] == ["--kernel", 'a "b".ipynb']
    assert [table["args"][-1] for table in tables(shown)] == ['a "b".ipynb'] * 3


@pytest.mark.parametrize(
    ("variable", "below"),
    [("JUPYTER_RUNTIME_DIR", ""), ("JUPYTER_DATA_DIR", "runtime"), ("XDG_DATA_HOME", "jupyter/runtime")],
)
def test_entry_names_an_unusual_runtime_folder(tmp_path, monkeypatch, variable, below):
    monkeypatch.setenv(variable, str(tmp_path / "un usual"))
    env = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "un usual" / below)}
    shown = entries(proxy_table())
    assert [table["env"] for table in tables(shown)] == [env] * 3
    assert shlex.split(shown[1].text)[3:7] == [
        "kernel",
        "-e",
        f"JUPYTER_RUNTIME_DIR={env['JUPYTER_RUNTIME_DIR']}",
        "--",
    ]
