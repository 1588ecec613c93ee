"""What a declaration puts in place of what it made before: consent rules and agents.

A file is known by its path, a cell as its frontend names it. Where it names none (a terminal, nbclient) a cell is known
by its text, so one that was changed is another one: what it made before stays, and that is said. A rule that denies
must not be gone because somebody declares something else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcp_magic.config.names import slug
from mcp_magic.core.consent.rulefiles import rule_of
from mcp_magic.errors import listed
from mcp_magic.magics.places import current_place

if TYPE_CHECKING:
    from mcp_magic.config.declaration import Declaration
    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.magics.parsing import Invocation

__all__ = ["Origin", "origin_of", "take_over"]


@dataclass(frozen=True)
class Origin:
    """What a declaration is in.

    Attributes:
        source: The file, or what a cell is called.
        cell: Which cell it is, or "".
        named: Whether the frontend says that.
    """

    source: str
    cell: str = ""
    named: bool = True

    def made(self, rule: Rule) -> bool:
        """Whether a rule was declared here."""
        return (rule.source, rule.cell) == (self.source, self.cell)

    def declared(self, agent: dict[str, Any]) -> bool:
        """Whether an agent was declared here."""
        return (agent.get("source"), agent.get("cell")) == (self.source, self.cell)


def origin_of(invocation: Invocation, source: str) -> Origin:
    """Return what a declaration is in.

    Args:
        invocation: The line, or the cell.
        source: The file, or what a cell is called.
    """
    if invocation.body is None:
        return Origin(source)
    cell = current_place(invocation.shell).cell
    text = "\n".join(line.rstrip() for line in invocation.body.strip().splitlines())
    # it may have secrets in it, so its digest is kept
    return Origin(source, cell or f"text {hashlib.sha256(text.encode()).hexdigest()}", named=bool(cell))


def take_over(invocation: Invocation, declaration: Declaration, origin: Origin, *, dry: bool) -> list[str]:
    """Put the declared rules and agents in place of those that an earlier run made; return what is to be said of it.

    Args:
        invocation: Its host has the rules, its state has the agents.
        declaration: What is declared.
        origin: What it is in.
        dry: Whether nothing is done.
    """
    rules, agents = invocation.host.consent.rules, invocation.state.agents
    new = [_rule(table, declaration, origin) for table in declaration.consent]
    left = [name for name in agents if origin.declared(agents[name]) and name not in declaration.agents]
    gone = [f"`{rule}`" for rule in rules if origin.made(rule) and rule not in new]
    gone += [f"agent {name}" for name in left]
    others = [f"`{rule}`" for rule in rules if rule.source == origin.source and not origin.made(rule)]
    if not dry:
        _replace(rules, new, origin)
        for name in left:
            del agents[name]
        made = {"source": origin.source, "cell": origin.cell}
        agents.update({name: {**agent, **made} for name, agent in declaration.agents.items()})
    said = [f"{'would be dropped' if dry else 'no longer in force'}: {listed(gone)}"] if gone else []
    if others and not origin.named:
        said.append(f"still in force, from other cells: {listed(others)} (`%mcp approvals --remove N` drops one)")
    return said


def _rule(table: dict[str, Any], declaration: Declaration, origin: Origin) -> Rule:
    """Make a rule. One that allows means the servers declared with it; that of a file is about no others."""
    rule = replace(rule_of(table, source=origin.source), cell=origin.cell)
    if rule.action != "allow":
        return rule
    own = {slug(entry.name): entry.spec.identity for entry in declaration.started if entry.spec is not None}
    rule = replace(rule, identities={**rule.identities, **own})
    if origin.cell:
        return rule
    return replace(rule, servers=tuple(own if rule.servers is None else filter(own.__contains__, rule.servers)))


def _replace(rules: list[Rule], new: list[Rule], origin: Origin) -> None:
    """Put rules where the earlier ones stood: the first that matches decides, so the order is part of what they say."""
    at = next((number for number, rule in enumerate(rules) if origin.made(rule)), len(rules))
    rules[at:] = [*new, *(rule for rule in rules[at:] if not origin.made(rule))]
