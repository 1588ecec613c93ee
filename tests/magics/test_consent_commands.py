"""`%mcp allow`, `deny`, `ask`, `approvals`, `audit` and `%mcp up` with rules, through the magic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_magic import Decision, Request, errors
from mcp_magic.config.project import load_declaration, trust
from mcp_magic.notebook import host

if TYPE_CHECKING:
    from pathlib import Path


async def test_rules_are_listed_in_the_order_in_which_they_are_tried(magic: Any) -> None:
    await magic("allow math:add a=1")
    await magic("deny 'math:*' --reason 'no sums'")
    rules = await magic("approvals")
    assert [(row["decides"], row["tool"], row["arguments"]) for row in rules] == [
        ("allow", "math:add", "a='1'"),
        ("deny", "math:*", None),
    ]
    assert "no sums" in str(rules)
    assert (await magic("call math:add a=1 b=2")).data == 3
    with pytest.raises(errors.DeniedError, match="no sums"):
        await magic("call math:add a=2 b=2")


async def test_unreachable_rule_is_marked_and_first_is_suggested(magic: Any) -> None:
    await magic("allow 'math:*'")
    rules = await magic("deny math:multiply --reason 'no products'")
    assert [row["note"] for row in rules] == [None, "never reached: rule 1 comes before it"]
    assert "--first puts a rule before the others" in str(rules)
    await magic("approvals --remove 2")
    rules = await magic("deny math:multiply --first")
    assert [row["note"] for row in rules] == [None, None]
    assert "note" not in str(rules).splitlines()[1]
    assert "--first" not in str(rules)
    with pytest.raises(errors.DeniedError):
        await magic("call math:multiply a=2 b=2")


async def test_a_pattern_that_fits_no_tool_is_marked(magic: Any) -> None:
    await magic("allow 'maths:*'")
    await magic("deny math:ad")
    await magic("ask 'math:[mp]*'")
    assert [row["note"] for row in await magic("ask math:sampling")] == [
        "matches no known tool. Did you mean 'math:*'?",
        "matches no known tool. Did you mean 'math:add'?",
        None,
        None,
    ]
    await host.disconnect("math")
    assert {row["note"] for row in await magic("approvals")} == {None}


async def test_a_rule_can_be_put_first_and_removed(magic: Any) -> None:
    await magic("deny 'math:*'")
    await magic("allow math:add --first")
    assert (await magic("call math:add a=2 b=2")).data == 4
    await magic("approvals --remove 1")
    with pytest.raises(errors.DeniedError):
        await magic("call math:add a=2 b=2")
    assert len(await magic("approvals --clear")) == 0
    with pytest.raises(errors.CommandError, match="there is no rule 3; there are none"):
        await magic("approvals --remove 3")


async def test_rules_are_saved_and_loaded(magic: Any, tmp_path: Path) -> None:
    await magic("allow math:add a=1")
    await magic("ask 'math:*'")
    await magic("approvals --save rules.toml")
    await magic("approvals --clear")
    loaded = await magic("approvals --load rules.toml")
    assert [row["tool"] for row in loaded] == ["math:add", "math:*"]
    with pytest.raises(errors.ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        await magic("approvals --load nowhere.toml")


async def test_rules_with_a_secret_are_listed_masked_and_not_saved(magic: Any, tmp_path: Path) -> None:
    await magic("allow math:add")
    await magic("deny math:power api_key=hunter-22")
    saved = await magic("approvals --save rules.toml")
    assert "hunter-22" not in f"{saved}{saved._repr_mimebundle_()}{saved.df}"
    assert [row["arguments"] for row in saved] == [None, "api_key='***'"]
    assert "saved to rules.toml except rule 2: rules of one run and rules with a secret are not written" in str(saved)
    definition = host.consent.definitions.digest("math:add")
    identities = f'{{ math = "{host["math"].spec.identity}" }}'
    assert (tmp_path / "rules.toml").read_text() == (
        f'[[consent]]\nallow = "math:add"\nidentities = {identities}\ndefinition = "{definition}"\n'
    )


async def test_the_settings_of_consent_reach_the_host(magic: Any, tmp_path: Path) -> None:
    declaration = tmp_path / "mcp_magic.toml"
    declaration.write_text('[settings]\napproval = "readonly"\napproval_timeout = 7.0\naudit_file = "audit.jsonl"\n')
    trust(load_declaration(declaration))
    await magic("up")
    assert (host.consent.policy, host.consent.timeout) == ("readonly", 7.0)
    await magic("ask math:add")
    with pytest.raises(errors.DeniedError, match="you cannot be asked here"):
        await magic("call math:add a=1 b=2")
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["asker"] == "person"
    declaration.write_text('[settings]\napproval = "ask"\napproval_timeout = 300.0\naudit_file = ""\n')
    trust(load_declaration(declaration))
    await magic("up")
    assert (host.consent.policy, host.consent.timeout, host.consent.audit.file) == ("ask", 300.0, None)


async def test_a_pattern_without_a_server_is_refused(magic: Any) -> None:
    with pytest.raises(errors.CommandError, match="'add' is not a tool; write SERVER:TOOL"):
        await magic("allow add")


async def test_the_audit_lists_decisions(magic: Any) -> None:
    assert "nothing was decided yet" in str(await magic("audit"))
    await magic("allow math:add")
    await magic("call math:add a=1 b=2")
    (row,) = await magic("audit")
    assert (row["tool"], row["decision"], row["by"]) == ("math:add", "approve", "rule `allow math:add`")
    assert list((await magic("audit")).df["asker"]) == ["you"]


async def test_the_audit_has_a_whole_reason(magic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    why = f"not {'now ' * 90}and not later"
    await magic("ask math:add")

    async def deny(request: Request) -> Decision:
        return Decision.deny(why)

    monkeypatch.setattr(host, "approver", deny)
    with pytest.raises(errors.DeniedError):
        await magic("call math:add a=1 b=2")
    audit = await magic("audit")
    assert why in " ".join(str(audit).split())
    assert why in audit._repr_mimebundle_()["text/html"]


async def test_declared_rules_replace_those_of_the_same_declaration(magic: Any, tmp_path: Path) -> None:
    await magic("deny math:power")
    path = tmp_path / "mcp_magic.toml"
    path.write_text('[[consent]]\nallow = "math:*"\n[[consent]]\ndeny = "fs:*"\n')
    trust(load_declaration(path))
    await magic("up")
    path.write_text('[[consent]]\nask = "math:*"\n')
    await magic("up")
    assert [(rule.action, rule.tool) for rule in host.consent.rules] == [("deny", "math:power"), ("ask", "math:*")]


async def test_declared_rules_that_do_nothing_are_named(magic: Any) -> None:
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
