"""Which rule decides about a call, and whether what it allows is still what it was given for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_magic.core.consent.decisions import PERSON
from mcp_magic.wording import clause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.core.consent.decisions import Decision, Request
    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.core.definitions import Definitions

__all__ = ["another_server", "as_it_is", "because_changed", "covers", "outgrown", "ruling"]


def as_it_is(request: Request, definitions: Definitions) -> Request:
    """Return a request with the definition that the server gave last, and how that has changed since first seen."""
    latest, change = definitions.latest(request.name), definitions.change(request.name)
    if (latest is None or latest is request.definition) and change is None:
        return request
    return replace(request, definition=latest or request.definition, change=change)


def ruling(rules: Iterable[Rule], definitions: Definitions, request: Request) -> tuple[Rule | None, str]:
    """Return the rule that decides about a call, and what it says: `"allow"`, `"deny"` or `"ask"`; "" without one.

    The first that matches decides. One that allows the tool as it was before asks about what it is now, unless a
    later one allows that; for a call of the person's own, who needs no permission, it does not count.
    """
    outdated: Rule | None = None
    for rule in rules:
        if not rule.matches(request.name, request.arguments, request.run):
            continue
        if rule.action != "allow":
            return (rule, rule.action) if outdated is None else (outdated, "ask")
        if covers(rule, request.name, definitions):
            return rule, "allow"
        outdated = outdated or rule
    if outdated is None or request.asker == PERSON:
        return None, ""
    return outdated, "ask"


def covers(rule: Rule, name: str, definitions: Definitions) -> bool:
    """Whether a rule is about the tool as it is now; a tool that nobody has listed yet is what the rule means."""
    if not _is_same_server(rule, name.partition(":")[0], definitions):
        return False
    if rule.definition:
        return definitions.digest(name) in ("", rule.definition)
    return definitions.change(name, rule.since) is None


def _is_same_server(rule: Rule, server: str, definitions: Definitions) -> bool:
    """Whether a name is still that of the server that a rule was given for."""
    if server in rule.identities:
        return definitions.identity(server) in ("", rule.identities[server])
    return definitions.replacement(server, rule.since) is None


def another_server(rule: Rule, server: str, definitions: Definitions) -> str:
    """Say that a rule was given for another server of this name; "" if it was given for this one.

    Args:
        rule: A rule that allows.
        server: The server's name.
        definitions: What is known of servers.
    """
    if _is_same_server(rule, server, definitions):
        return ""
    known = None if server in rule.identities else definitions.replacement(server, rule.since)
    was = f": it was {known.before}, and is {known.now}" if known is not None else ""
    return f"rule `{rule}` was given for another server called {server}{was}"


def because_changed(request: Request, decision: Decision) -> Decision:
    """Let a refusal say that a rule would have allowed the tool as it was before."""
    if decision.approved or decision.by == PERSON or not request.outdated:
        return decision
    changed = request.replaced or f"the tool has changed since rule `{request.outdated}` allowed it"
    return replace(decision, reason="; ".join(filter(None, (clause(decision.reason), changed))))


def outgrown(rule: Rule, definitions: Definitions) -> list[str]:
    """Return the names of the tools that a rule allowed and that are others now."""
    if rule.action != "allow":
        return []
    return [name for name in definitions if rule.names(name) and not covers(rule, name, definitions)]
