"""`%mcp up`: what a declaration says reaches the kernel's host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp_magic.config.project import load_declaration, trust
from mcp_magic.errors import ConfigError, DeniedError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from tests.support.magic import Magic


def declare(magic: Magic, text: str) -> None:
    path = magic.folder / "mcp_magic.toml"
    path.write_text(text)
    trust(load_declaration(path))


async def test_settings_of_consent_reach_the_host(magic):
    declare(magic, '[settings]\napproval = "readonly"\napproval_timeout = 7.0\naudit_file = "audit.jsonl"\n')
    await magic("up")
    assert (host.consent.policy, host.consent.timeout) == ("readonly", 7.0)
    await magic("ask math:add")
    assert "you cannot be asked here" in await magic.error(DeniedError, "call math:add a=1 b=2")
    (line,) = (magic.folder / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["asker"] == "person"
    declare(magic, '[settings]\napproval = "ask"\napproval_timeout = 300.0\naudit_file = ""\n')
    await magic("up")
    assert (host.consent.policy, host.consent.timeout, host.consent.audit.file) == ("ask", 300.0, None)


async def test_rules_replace_those_of_the_same_declaration(magic):
    await magic("deny math:power")
    declare(magic, '[[consent]]\nallow = "math:*"\n[[consent]]\ndeny = "fs:*"\n')
    await magic("up")
    (magic.folder / "mcp_magic.toml").write_text('[[consent]]\nask = "math:*"\n')
    await magic("up")
    assert [(rule.action, rule.tool) for rule in host.consent.rules] == [("deny", "math:power"), ("ask", "math:*")]


async def test_declared_rules_that_do_nothing_are_named(magic):
    declared = (
        '[[consent]]\nallow = "math:*"\n[[consent]]\ndeny = "math:add"\n[[consent]]\nask = "mathe:*"\n'
        '[[consent]]\ndeny = "away:*"\n[servers.away]\ncommand = "x"\ndisabled = true\n'
    )
    note = (await magic("up", declared)).note
    assert note == (
        "rules: allow 'math:*', deny 'math:add', ask 'mathe:*', deny 'away:*'; "
        "rule 2, `deny math:add`: never reached: rule 1 comes before it; "
        "rule 3, `ask 'mathe:*'`: matches no known tool. Did you mean 'math:*'?"
    )
    assert "never reached" not in (await magic("up --dry-run", declared)).note


async def test_tab_and_line_take_files_of_other_hosts(magic):
    (magic.folder / ".vscode").mkdir()
    for name in (".vscode/mcp.json", "all of it.code-workspace"):
        (magic.folder / name).write_text('{"servers": {"it": {"command": "x"}}}')
    assert {".vscode/mcp.json", "'all of it.code-workspace'"} <= {*candidates("up ", {}).texts}
    listing = await magic("up .vscode/mcp.json --dry-run")
    assert (listing[0]["server"], listing[0]["done"], listing[0]["runs"]) == ("it", "connect", "x")
    assert "`%mcp up .vscode/mcp.json`" in await magic.error(ConfigError, "up")


async def test_problem_is_shown_whole_in_a_terminal(magic):
    servers = {"mcpServers": {"a": {"command": "no-such-program-" + "x" * 60}}}
    (magic.folder / "mcp.json").write_text(json.dumps(servers))
    declared = '[servers.b]\nurl = "http://127.0.0.1:9/${NO_SUCH_VARIABLE_OF_MINE}"\n'
    (magic.folder / "mcp_magic.toml").write_text(declared)
    for line in ("connect --config mcp.json", "up"):
        listing = await magic(line)
        whole = " ".join(listing.rows[-1]["problem"].split())
        assert len(whole) > 100
        assert whole in " ".join(str(listing).split())


async def test_only_some_declared_servers_are_connected(magic):
    declared = {"mcpServers": {"one server": {"command": "no-such"}, "two": {"command": "no-such"}}}
    (magic.folder / "mcp.json").write_text(json.dumps(declared))
    assert [row["server"] for row in await magic("up --only one_server")] == ["one_server"]
    assert "Did you mean 'two'? It has: one_server, two" in await magic.error(ConfigError, "up --only tow")
