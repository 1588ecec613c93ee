"""The entries for other hosts: they are valid there, and have no secret."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib

from mcp_magic.config.foreign import server_tables
from mcp_magic.outside.entries import entries, proxy_command

COMMAND = [sys.executable, "-P", "-m", "mcp_magic", "proxy"]


def test_each_entry_starts_the_proxy_by_an_absolute_path():
    shared, line, codex, code = entries(proxy_command())
    assert (shared.where, codex.where, code.where) == (".mcp.json", "~/.codex/config.toml", ".vscode/mcp.json")
    assert shlex.split(line.text) == ["claude", "mcp", "add", "kernel", "--", *COMMAND]
    data = [json.loads(shared.text), tomllib.loads(codex.text), json.loads(code.text)]
    for document, where in zip(data, (".mcp.json", "config.toml", ".vscode/mcp.json"), strict=True):
        [(name, table, _)] = server_tables(document, where)
        assert name == "kernel"
        assert [table["command"], *table["args"]] == COMMAND


def test_entry_names_the_notebook_where_several_are():
    assert proxy_command("a b.ipynb")[5:] == ["--kernel", "a b.ipynb"]
    _, line, codex, _ = entries(proxy_command('a "b".ipynb'))
    assert shlex.split(line.text)[-1] == 'a "b".ipynb'
    assert tomllib.loads(codex.text)["mcp_servers"]["kernel"]["args"][-1] == 'a "b".ipynb'
