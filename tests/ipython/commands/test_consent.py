"""`%mcp allow`, `deny`, `ask`, `approvals`, `audit` and `roots`."""

from __future__ import annotations

import pytest
from mcp.server.mcpserver import Context, MCPServer

from mcp_magic import Decision, errors
from mcp_magic.agent.sampling import ModelSampler
from mcp_magic.display.document import width as display_width
from mcp_magic.errors import CommandError, DeniedError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.persons import Approver
from tests.support.sampling_servers import sampling_server


async def test_rules_are_listed_in_the_order_in_which_they_are_tried(magic):
    await magic("allow math:add a=1")
    await magic("deny 'math:*' --reason 'no sums'")
    rules = await magic("approvals")
    assert [(row["decides"], row["tool"], row["arguments"]) for row in rules] == [
        ("allow", "math:add", "a='1'"),
        ("deny", "math:*", None),
    ]
    assert "no sums" in str(rules)
    assert (await magic("call math:add a=1 b=2")).data == 3
    assert "no sums" in await magic.error(DeniedError, "call math:add a=2 b=2")
    assert "'add' is not a tool; write SERVER:TOOL" in await magic.error(CommandError, "allow add")


@pytest.mark.parametrize("action", ["allow", "deny", "ask"])
async def test_without_a_pattern_the_rules_are_listed(magic, action):
    assert "no rules: `%mcp allow SERVER:TOOL` makes one" in str(await magic(action))
    await magic("deny math:add")
    assert [row["tool"] for row in await magic(action)] == ["math:add"]
    error = await magic.error(CommandError, f"{action} --for outside")
    assert error == f"%mcp {action}: of which calls? SERVER:TOOL, or 'SERVER:*' for all of a server."
    assert len(host.consent.rules) == 1


async def test_a_name_that_is_no_pattern_is_answered_with_one(magic, shell):
    await host["math"].listing("tools")
    for word, pattern in {"math": "'math:*'", "add": "math:add", "math__add": "math:add"}.items():
        error = await magic.error(CommandError, f"allow {word} --for outside")
        assert error == f"%mcp allow: {word!r} is not a tool; write SERVER:TOOL, or 'SERVER:*' for all: {pattern}"
    error = await magic.error(CommandError, "allow nothing")
    assert error.endswith("or 'SERVER:*' for all")
    shell.user_ns["df"] = [1]
    for word, line in {"df": "%mcp share df", "read_value": "%mcp share NAME"}.items():
        error = await magic.error(CommandError, f"allow {word} --for outside")
        assert error.endswith(f"for all. Reads are not asked about: `{line}` lets agents outside read")


async def test_a_rule_that_would_not_hold_for_agents_outside_is_none(magic):
    error = await magic.error(CommandError, "allow put_value")
    assert error == "%mcp allow: only agents outside have put_value; a rule that allows them needs --for outside."
    error = await magic.error(CommandError, "allow 'math:*' --for outside analyst")
    assert error == "%mcp allow: a name of two words is quoted: --for 'outside analyst'"
    assert host.consent.rules == []
    says = "this rule allows agents outside nothing: --for outside does"
    assert says not in (await magic("allow math:add")).note
    await host.serve()
    try:
        assert says in (await magic("allow math:add")).note
        assert says not in (await magic("deny math:add")).note
        assert says not in (await magic("allow math:add a=1 --for outside")).note
    finally:
        await host.stop_serving()


async def test_unreachable_rule_is_marked_and_first_is_suggested(magic):
    await magic("allow 'math:*'")
    rules = await magic("deny math:multiply --reason 'no products'")
    assert [row["note"] for row in rules] == [None, "never reached: rule 1 comes before it"]
    assert "--first puts a rule before the others" in str(rules)
    await magic("approvals --remove 2")
    rules = await magic("deny math:multiply --first")
    assert [row["note"] for row in rules] == [None, None]
    assert "note" not in str(rules).splitlines()[1]
    assert "--first" not in str(rules)
    await magic.error(DeniedError, "call math:multiply a=2 b=2")
    await magic("approvals --remove 1")
    assert (await magic("call math:multiply a=2 b=2")).data == 4
    assert len(await magic("approvals --clear")) == 0
    assert "there is no rule 3; there are none" in await magic.error(CommandError, "approvals --remove 3")


async def test_pattern_that_fits_no_tool_is_marked(magic):
    for line in ("allow 'maths:*'", "deny math:ad", "ask 'math:[mp]*'", "ask math:sampling", "allow :run_program"):
        rules = await magic(line)
    rules = await magic("allow math:resources/read --for outside")
    assert [row["note"] for row in rules] == [
        "matches no known tool. Did you mean 'math:*'?",
        "matches no known tool. Did you mean 'math:add'?",
        None,
        None,
        None,
        None,
    ]
    await host.disconnect("math")
    assert {row["note"] for row in await magic("approvals")} == {None}


async def test_rules_are_saved_without_secrets_and_loaded(magic):
    await magic("allow math:add")
    await magic("deny math:power api_key=hunter-22")
    saved = await magic("approvals --save rules.toml")
    assert "hunter-22" not in f"{saved}{saved._repr_mimebundle_()}{saved.df}"
    assert [row["arguments"] for row in saved] == [None, "api_key='***'"]
    assert "saved to rules.toml except rule 2: rules of one run and rules with a secret are not written" in str(saved)
    definition = host.consent.definitions.digest("math:add")
    identities = f'{{ math = "{host["math"].spec.identity}" }}'
    assert (magic.folder / "rules.toml").read_text() == (
        f'[[consent]]\nallow = "math:add"\nidentities = {identities}\ndefinition = "{definition}"\n'
    )
    await magic("approvals --clear")
    await magic("allow math:add a=1")
    await magic("ask 'math:*'")
    await magic("approvals --save rules.toml")
    await magic("approvals --clear")
    loaded = await magic("approvals --load rules.toml")
    assert [row["tool"] for row in loaded] == ["math:add", "math:*"]
    error = await magic.error(errors.ConfigError, "approvals --load nowhere.toml")
    assert "nowhere.toml: cannot be read: No such file" in error


async def test_audit_lists_decisions_with_the_whole_reason(magic, monkeypatch):
    assert "nothing was decided yet" in str(await magic("audit"))
    await magic("allow math:add")
    await magic("call math:add a=1 b=2")
    (row,) = await magic("audit")
    assert (row["tool"], row["decision"], row["by"]) == ("math:add", "approve", "rule `allow math:add`")
    assert list((await magic("audit")).df["asker"]) == ["you"]
    why = f"not {'now ' * 90}and not later"
    await magic("ask math:add --first")
    monkeypatch.setattr(host, "approver", Approver(Decision.deny(why)))
    await magic.error(DeniedError, "call math:add a=1 b=2")
    audit = await magic("audit")
    assert why in " ".join(str(audit).split())
    assert why in audit._repr_mimebundle_()["text/html"]


async def test_rules_for_sampling_are_typed_like_those_for_tools(magic, monkeypatch):
    monkeypatch.setattr(host.sampling, "sampler", ModelSampler(lambda: "offline"))
    await magic("connect server --name writer --sampling auto", server=sampling_server())
    await magic("deny writer:sampling --reason 'not today'")
    error = await magic.error(errors.ProtocolError, "call writer:summarise")
    assert "denied by rule `deny writer:sampling`: not today" in error
    [row] = (await magic("audit")).rows
    assert row["decision"] == "deny"


@pytest.mark.filterwarnings("ignore:The roots capability is deprecated")
async def test_roots_are_set_shown_and_cleared(magic):
    server = MCPServer("where", log_level="ERROR")

    @server.tool()
    async def where(context: Context) -> str:
        roots = (await context.request_context.session.list_roots()).roots
        return " ".join(f"{root.name}={root.uri}" for root in roots) or "none"

    data = magic.folder / "data"
    data.mkdir()
    connection = await host.connect(server, name="where", protocol="handshake")
    assert (await magic("roots where")).rows == []
    rows = (await magic("roots where . data")).rows
    assert [row["directory"] for row in rows] == [str(magic.folder), str(data)]
    assert data.as_uri() in (await connection.call("where")).text
    assert (await magic("roots where --clear")).rows == []
    assert (await connection.call("where")).text == "none"
    assert "takes directories, or --clear" in await magic.error(CommandError, "roots where . --clear")
    assert "nowhere is not a directory" in await magic.error(errors.ArgumentsError, "roots where nowhere")


async def test_a_rule_for_outside_clients_says_so(magic):
    await magic("allow math:add")
    await magic("deny 'math:*' --for outside")
    rules = await magic("allow put_value --for 'outside  claude-code'")
    assert [row["for"] for row in rules] == ["always", "outside", "outside claude-code"]
    assert {row["note"] for row in rules} == {None}
    assert list(map(str, host.consent.rules)) == [
        "allow math:add",
        "deny 'math:*' --for outside",
        "allow :put_value --for 'outside claude-code'",
    ]
    assert await magic.error(CommandError, "allow math:add --for claude-code") == (
        "%mcp allow: --for takes outside, or 'outside NAME' for one agent, not 'claude-code'; "
        "without it the rule is for your agents, too"
    )
    await magic("approvals --save rules.toml")
    await magic("approvals --clear")
    loaded = await magic("approvals --load rules.toml")
    assert [row["for"] for row in loaded] == ["always", "outside", "outside claude-code"]


async def test_the_audit_says_what_it_leaves_out(magic):
    for number in range(3):
        host.consent.note_read("outside a", "read_value", {"name": f"v{number}"})
    audit = await magic("audit --last 2")
    assert (len(audit), audit.note) == (2, "1 before these: `%mcp audit --last 3` shows all")
    assert (await magic("audit --last 3")).note == ""
    assert len(await magic("audit --last 0")) == 0


async def test_the_audit_has_calls_and_reads_from_outside(magic, monkeypatch):
    monkeypatch.setattr(host.consent, "approver", Approver(Decision.deny("not today")))
    with pytest.raises(DeniedError):
        await host["math"].call_tool("add", {"a": 1, "b": 2}, asker="outside claude-code")
    host.consent.note_read("outside claude-code (2)", "read_value", {"name": "df", "rows": "0:100"})
    host.consent.note_read("outside claude-code (2)", "read_value", {"name": "d"}, "no shared value 'd'")
    rows = list(await magic("audit"))
    assert [(row["asker"], row["tool"], row["decision"], row["by"]) for row in rows] == [
        ("outside claude-code", "math:add", "deny", "you"),
        ("outside claude-code (2)", "read_value", "read", "%mcp share"),
        ("outside claude-code (2)", "read_value", "deny", "check"),
    ]
    assert rows[1]["arguments"] == "name='df', rows='0:100'"
    monkeypatch.setenv("COLUMNS", "100")
    assert str(await magic("audit")).count("outside claude-code (2)") == 2
    words = candidates("allow math:add --for 'outside cl", {}).texts
    assert words == ["'outside claude-code'", "'outside claude-code (2)'"]


async def test_the_audit_as_text_names_an_agent_whole(magic, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    name = f"outside {'analyst of the many orders ' * 3}(2)"
    wide = f"outside {'分析' * 10}"
    for asker in (name, wide):
        host.consent.note_read(asker, "read_value", {"name": "df", "rows": "0:100", "query": "price > 10 and a == 1"})
    text = str(await magic("audit"))
    assert all(display_width(line) <= 100 for line in text.splitlines())
    column = text.splitlines()[1].index("asker")
    pieces = [line[column:].partition("  ")[0] for line in text.splitlines()[2:]]
    assert " ".join(" ".join(pieces).split()).startswith(name)
    assert wide.split()[1] in "".join(pieces).replace(" ", "")
