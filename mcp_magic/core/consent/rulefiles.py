"""Consent rules in files: `[[consent]]` tables."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

from mcp_magic.config.checks import check_consent
from mcp_magic.config.fields import FieldError, kind_of
from mcp_magic.config.tomllines import parse_toml
from mcp_magic.core.consent.rules import ACTIONS, Rule
from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.core.definitions import Definitions

__all__ = ["parse_rules", "rule_of", "write_rules"]


def rule_of(table: Mapping[str, Any], *, source: str = "") -> Rule:
    """Return the rule of a `[[consent]]` table."""
    action = next(action for action in ACTIONS if action in table)
    return Rule(
        action,
        table[action],
        dict(table.get("arguments", {})),
        table.get("reason", ""),
        source=source,
        exact=table.get("exact", False),
        definition=table.get("definition", ""),
        servers=tuple(table["servers"]) if "servers" in table else None,
        identities=dict(table.get("identities", {})),
    )


def parse_rules(text: str, *, source: str) -> list[Rule]:
    """Read the `[[consent]]` tables of a TOML text.

    Raises:
        ConfigError: It is no TOML, or a table is no rule.
    """
    problem = ""
    rules: list[Rule] = []
    try:
        tables = parse_toml(text).get("consent", [])
        if not isinstance(tables, list):
            raise FieldError(f"expected [[consent]] rules, got {kind_of(tables)}.", "consent")
        for number, table in enumerate(tables, 1):
            check_consent(table, number)
            rules.append(rule_of(table, source=source))
    except tomllib.TOMLDecodeError as error:
        problem = f"{source}: {error}"
    except FieldError as error:
        problem = f"{source}: {error}"
    if problem:
        raise ConfigError(problem)
    return rules


def write_rules(rules: Iterable[Rule], definitions: Definitions | None = None) -> str:
    """Return rules as TOML that `parse_rules` reads; those of one run only, and those with a secret, are left out.

    Args:
        rules: The rules.
        definitions: What is known of tools: a rule that allows a single one is kept for its present definition.

    >>> print(write_rules([Rule("allow", "fs:read_*", {"path": "/tmp/*"})]))
    [[consent]]
    allow = "fs:read_*"
    arguments = { path = "/tmp/*" }
    <BLANKLINE>
    """
    kept = [rule for rule in rules if rule.run is None and not rule.holds_secret]
    return "".join(_table(rule, _definition(rule, definitions), _identities(rule, definitions)) for rule in kept)


def _definition(rule: Rule, definitions: Definitions | None) -> str:
    """Return the digest of the definition that a rule allows, "" where it allows any that comes first."""
    if rule.action != "allow" or rule.definition or definitions is None or not rule.single:
        return rule.definition
    return definitions.digest(rule.tool, rule.since)


def _identities(rule: Rule, definitions: Definitions | None) -> Mapping[str, str]:
    """Return which servers a rule allows: that of its name, if it is known; a pattern for names has none."""
    server = rule.tool.partition(":")[0]
    if rule.action != "allow" or rule.identities or definitions is None or set("*?[") & set(server):
        return rule.identities
    known = definitions.identity(server, rule.since)
    return {server: known} if known else {}


def _table(rule: Rule, definition: str, identities: Mapping[str, str]) -> str:
    lines = ["[[consent]]", f"{rule.action} = {_toml(rule.tool)}"]
    if rule.arguments:
        pairs = ", ".join(f"{_key(name)} = {_toml(value)}" for name, value in rule.arguments.items())
        lines.append(f"arguments = {{ {pairs} }}")
    if rule.exact:
        lines.append("exact = true")
    if rule.servers is not None:
        lines.append(f"servers = {_toml(list(rule.servers))}")
    if identities:
        lines.append(f"identities = {_toml(dict(identities))}")
    if definition:
        lines.append(f"definition = {_toml(definition)}")
    if rule.reason:
        lines.append(f"reason = {_toml(rule.reason)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    """Write a JSON value as TOML: the two agree on all but objects and null."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    if value is None:
        return '"null"'  # TOML has none; as a pattern it matches the same values
    # JSON escapes are TOML escapes, but for DEL, which TOML wants escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
