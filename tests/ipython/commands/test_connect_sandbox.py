"""`%mcp connect --sandbox`: the card, the table, the doctor, declarations and completion."""

from __future__ import annotations

import json

import pytest

from mcp_magic.config.project import load_declaration, runs, trust
from mcp_magic.display.document import parts_text
from mcp_magic.errors import ConfigError, TargetError, ToolError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from mcp_magic.schema.commandline import as_command
from tests.support.sandboxes import BOXED, REPOSITORY, boxed, needs_sandlock

COMMAND = as_command(BOXED)
RIGHTS = f"isolated: read {REPOSITORY} ., write out, net nothing, preset python"


@needs_sandlock
async def test_a_card_and_the_table_say_what_is_isolated(magic, monkeypatch):
    monkeypatch.chdir(magic.folder)
    (magic.folder / "in").write_text("inside")
    connection = await magic(f"connect --name box --sandbox {boxed('read=.', 'write=out')} -- {COMMAND}")
    assert (await magic("call box:read path=in")).text == "inside"
    error = await magic.error(ToolError, "call box:write path=in text=x")
    assert (
        f"its sandbox does not allow: write in. `--sandbox read={REPOSITORY},read=.,write=out,write=in` does" in error
    )
    assert f"rights     {RIGHTS}" in parts_text(connection.info())
    await magic(f"connect --name open -- {COMMAND}")
    assert "rights     not isolated" in parts_text(host["open"].info())
    listing = await magic("")
    rights = {row["server"]: row["rights"] for row in listing}
    assert rights == {"math": None, "box": "isolated", "open": "not isolated"}
    assert listing.note == f"box: {RIGHTS}"
    assert RIGHTS in str(await magic("doctor box"))
    await magic("reconnect box")
    await magic.error(ToolError, "call box:write path=in text=x")
    await magic(f"connect --name open --sandbox $rights -- {COMMAND}", rights=boxed())
    assert host["open"].spec.isolation == f"isolated: read {REPOSITORY}, write nothing, net nothing, preset python"


@needs_sandlock
async def test_a_declaration_isolates(magic, monkeypatch):
    monkeypatch.chdir(magic.folder)
    (magic.folder / "key").write_text("secret")
    path = magic.folder / "mcp_magic.toml"
    table = f'[servers.box]\ncommand = "{BOXED[0]}"\nargs = ["{BOXED[1]}"]\n'
    path.write_text(f'{table}[servers.box.sandbox]\nread = ["{REPOSITORY}", "in"]\nwrite = ["out"]\n')
    (magic.folder / "in").mkdir()
    trust(load_declaration(path))
    (entry,) = load_declaration(path).servers.values()
    assert runs(entry).endswith(f"(isolated: read {REPOSITORY} in, write out, net nothing, preset python)")
    await magic("up")
    await magic.error(ToolError, "call box:read path=key")
    path.write_text(f'{table}[servers.box.sandbox]\nread = ["{REPOSITORY}", "."]\n')
    trust(load_declaration(path))
    rows = {row["server"]: row for row in await magic("up")}
    assert "changed: sandbox" in str(rows["box"])
    assert (await magic("call box:read path=key")).text == "secret"


async def test_a_mistake_in_a_declaration_has_its_line(magic):
    text = '[servers.box]\ncommand = "x"\n[servers.box.sandbox]\nread = ["."]\nwirte = ["out"]\n'
    error = await magic.error(ConfigError, "up", text)
    assert error.endswith(":5: servers.box.sandbox.wirte: unknown key. Did you mean 'write'?")
    text = '[servers.box]\nurl = "http://127.0.0.1:1/mcp"\nsandbox = { read = ["."] }\n'
    assert "sandbox: is for servers with a command, not a url." in await magic.error(ConfigError, "up", text)


WRONG = [
    ("reed=.", "sandbox.reed: unknown key. Did you mean 'read'?"),
    ("npm", "sandbox: 'npm' is no preset. Did you mean 'npx'?"),
    ("net=http://a.b", "sandbox.net: 'http://a.b' is a URL; name its host and port"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
async def test_a_mistake_in_a_line_says_what_is_valid(magic, line, message):
    assert message in await magic.error(TargetError, f"connect --sandbox {line} -- {COMMAND}")


async def test_only_commands_are_isolated(magic):
    error = await magic.error(TargetError, "connect http://127.0.0.1:1/mcp --sandbox read=.")
    assert error == "a server with a URL has no sandbox; commands have."


@needs_sandlock
async def test_the_doctor_says_and_keeps_the_isolation(magic, monkeypatch):
    monkeypatch.chdir(magic.folder)
    line = boxed("read=.", "write=out")
    report = str(await magic(f"doctor --sandbox {line} --call variable -- {COMMAND}"))
    assert RIGHTS in report
    assert "not isolated" in str(await magic(f"doctor -- {COMMAND}"))
    (problem,) = (await magic(f"doctor --sandbox read=nosuch -- {COMMAND}")).problems
    assert "sandbox: read: there is no nosuch" in problem


def test_tab_completes_the_words_of_a_sandbox(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    cases = {"": "npx", "re": "read=", "npx,wr": "npx,write=", "read=o": "read=out/", "npx,write=o": "npx,write=out/"}
    cases["npx,backend=s"] = "npx,backend=sandlock"
    for typed, word in cases.items():
        assert candidates(f"connect --sandbox {typed}", {}).texts[0] == word


async def test_the_settings_of_another_host_isolate(magic):
    servers = {"box": {"command": "x", "sandboxEnabled": True}, "odd": {"command": "x", "sandbox": {"read": 1}}}
    (magic.folder / "mcp.json").write_text(json.dumps({"servers": servers}))
    rows = {row["server"]: row for row in await magic("config mcp.json")}
    assert rows["box"]["rights"].startswith("isolated: read /, write ")
    assert "sandbox.read: expected a list of text, got a number." in str(rows["odd"]["problem"])
