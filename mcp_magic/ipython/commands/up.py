"""`%mcp up`: brings the host into the state that a declaration describes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcp_magic._text import listed
from mcp_magic.config.parsing import slug
from mcp_magic.config.project import (
    find_declaration,
    load_declaration,
    loosened,
    parse_declaration,
    plan,
    runs,
    written,
)
from mcp_magic.consent.rules import ACTIONS, rule_of
from mcp_magic.display.listing import Listing
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import ask_for_trust, displaced, shadowed
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation
from mcp_magic.ipython.commands.consent import fitting_nothing, never_reached
from mcp_magic.results.cards import edited

if TYPE_CHECKING:
    import argparse

    from mcp_magic._host import Host
    from mcp_magic.config.project import Declaration, Step
    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.consent.rules import Rule


async def _up(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    declaration = _declaration(invocation, arguments.file)
    host, origin, ready = invocation.host, _origin_of(invocation, declaration.source), declaration.started
    declared = {slug(entry.name): entry.spec for entry in ready if entry.spec}
    notes: list[str] = []
    if not origin.cell:  # a cell needs no yes: its code could do anything anyway
        current = {name: getattr(invocation.settings, name) for name in declaration.settings}
        taken = displaced(invocation, declared, declaration.source)
        loose = loosened(declaration, current)
        notes = await ask_for_trust(invocation, declaration, loose, taken, dry=arguments.dry_run)
    open_ = {name: connection.spec for name, connection in host.connections.items() if connection.state == "open"}
    steps = plan(declared, open_, prune=arguments.prune)
    if not arguments.dry_run:
        invocation.settings.apply(declaration.settings)
    replaced = _take_over(invocation, declaration, origin, dry=arguments.dry_run)
    outcomes: dict[str, Any] = {}
    if not arguments.dry_run:
        await host.disconnect(*(step.name for step in steps if step.action == "disconnect"))
        to_open = [step.name for step in steps if step.action in ("connect", "reconnect")]
        outcomes = await host.connect_many({name: declared[name] for name in to_open})
    for name in outcomes:
        invocation.state.opened[name] = declaration.source, declared[name].identity
    entries = {slug(entry.name): entry for entry in ready}
    rows = [_row(invocation, step, outcomes, entries.get(step.name), dry=arguments.dry_run) for step in steps]
    for entry in declaration.servers.values():
        if entry not in ready:
            problem = str(entry.problem or "") or None
            rows.append({"server": entry.name, "done": "wrong" if problem else "disabled", "problem": problem})
    title = f"{'would be done' if arguments.dry_run else 'declared'} by {declaration.source}"
    notes += _said(declaration) + ([] if origin.cell else shadowed(declaration, invocation.directory))
    notes += [*replaced, *([] if arguments.dry_run else _idle_rules(declaration, origin, host))]
    empty = f"{declaration.source} declares no servers"
    return Listing(rows, title=title, empty=empty, note="; ".join(notes), kind="up")


def _said(declaration: Declaration) -> list[str]:
    settings = [f"{name} = {written(value)}" for name, value in declaration.settings.items()]
    rules = [
        f"{action} {written(rule[action])}" for rule in declaration.consent for action in ACTIONS if action in rule
    ]
    return [
        *([f"agents declared: {listed(declaration.agents)}"] if declaration.agents else []),
        *([f"sets {', '.join(settings)}"] if settings else []),
        *([f"rules: {', '.join(rules)}"] if rules else []),
    ]


def _declaration(invocation: Invocation, file: str | None) -> Declaration:
    known = invocation.settings.known_settings()
    if invocation.body is not None:
        return parse_declaration(
            invocation.body, source="the cell", environ=os.environ, base=invocation.directory, settings=known
        )
    path = invocation.path(file) if file else find_declaration(invocation.directory)
    return load_declaration(path, settings=known)


def _idle_rules(declaration: Declaration, origin: _Origin, host: Host) -> list[str]:
    """Describe the declared rules without effect; leaves out a rule that fits no tool while its server is not open."""
    away = {slug(name) for name in declaration.servers} - {session.name for session in host.find()}
    never, strays = never_reached(host), fitting_nothing(host)
    return [
        f"rule {number}, `{rule}`: {remark}"
        for number, rule in enumerate(host.consent.rules, 1)
        if origin.made(rule)
        and (remark := never.get(number) or strays.get(number))
        and (number in never or rule.tool.partition(":")[0] not in away)
    ]


def _row(
    invocation: Invocation, step: Step, outcomes: dict[str, Any], entry: ServerEntry | None, *, dry: bool
) -> dict[str, Any]:
    outcome = outcomes.get(step.name)
    connection, why = invocation.host.connections.get(step.name), step.reason
    if connection is not None and step.action == "keep":
        why = "; ".join(filter(None, (why, edited(step.name, connection.spec, connection.opened_at))))
    row: dict[str, Any] = {"server": step.name, "done": step.action, "why": why}
    if entry is not None:
        row["runs"] = runs(entry)
    if isinstance(outcome, MCPMagicError):
        return row | {"state": "failed", "problem": f"{type(outcome).__name__}: {outcome}"}
    if dry or connection is None:
        return row
    seen = connection.info().row()
    return row | {key: seen[key] for key in ("state", "transport", "protocol", "tools", "resources", "prompts")}


# How a declaration replaces the consent rules and agents of its earlier run.
#
# A file is known by its path and a cell by the id from its frontend. Without an id (a terminal, nbclient), the cell's
# text identifies it. A changed cell is then a new one: its earlier rules and agents stay, and a note says so. A rule
# that denies must not vanish because another declaration ran.


@dataclass(frozen=True)
class _Origin:
    """Where a declaration comes from: a file, or a cell (`cell`), which the frontend may have `named`."""

    source: str
    cell: str = ""
    named: bool = True

    def made(self, rule: Rule) -> bool:
        return (rule.source, rule.cell) == (self.source, self.cell)

    def declared(self, agent: dict[str, Any]) -> bool:
        return (agent.get("source"), agent.get("cell")) == (self.source, self.cell)


def _origin_of(invocation: Invocation, source: str) -> _Origin:
    if invocation.body is None:
        return _Origin(source)
    cell = invocation.cells.run().cell
    text = "\n".join(line.rstrip() for line in invocation.body.strip().splitlines())
    # only a digest is kept, since the text may hold secrets
    return _Origin(source, cell or f"text {hashlib.sha256(text.encode()).hexdigest()}", named=bool(cell))


def _take_over(invocation: Invocation, declaration: Declaration, origin: _Origin, *, dry: bool) -> list[str]:
    """Replace the rules and agents of an earlier run by the declared ones, unless `dry`; return notes about it."""
    rules, agents = invocation.host.consent.rules, invocation.state.agents
    new = [_rule(table, declaration, origin) for table in declaration.consent]
    left = [name for name in agents if origin.declared(agents[name]) and name not in declaration.agents]
    gone = [f"`{rule}`" for rule in rules if origin.made(rule) and rule not in new]
    gone += [f"agent {name}" for name in left]
    others = [f"`{rule}`" for rule in rules if rule.source == origin.source and not origin.made(rule)]
    if not dry:
        # in the place of the earlier ones: the order matters, since the first match decides
        at = next((number for number, rule in enumerate(rules) if origin.made(rule)), len(rules))
        rules[at:] = [*new, *(rule for rule in rules[at:] if not origin.made(rule))]
        for name in left:
            del agents[name]
        made = {"source": origin.source, "cell": origin.cell}
        agents.update({name: {**agent, **made} for name, agent in declaration.agents.items()})
    said = [f"{'would be dropped' if dry else 'no longer in force'}: {listed(gone)}"] if gone else []
    if others and not origin.named:
        said.append(f"still in force, from other cells: {listed(others)} (`%mcp approvals --remove N` drops one)")
    return said


def _rule(table: dict[str, Any], declaration: Declaration, origin: _Origin) -> Rule:
    """Make a rule. One that allows is tied to the servers declared with it; a file's fits no other servers."""
    rule = replace(rule_of(table, source=origin.source), cell=origin.cell)
    if rule.action != "allow":
        return rule
    own = {slug(entry.name): entry.spec.identity for entry in declaration.started if entry.spec is not None}
    rule = replace(rule, identities={**rule.identities, **own})
    if origin.cell:
        return rule
    return replace(rule, servers=tuple(own if rule.servers is None else filter(own.__contains__, rule.servers)))


DECLARATIONS = (".toml", ".json")  # the suffixes of files that `%mcp up` reads

UP = Implementation(
    _up,
    (
        Argument(
            "file",
            nargs="?",
            metavar="FILE",
            complete=lambda tab: completion.paths(tab, DECLARATIONS),
            help="default: mcp_magic.toml, pyproject.toml, mcp.json",
        ),
        Argument("--prune", action="store_true", help="disconnect undeclared servers"),
        Argument("--dry-run", action="store_true", help="only list what it would run, set, allow and send"),
    ),
    examples=("%mcp up", "%mcp up mcp_magic.toml --prune", "%mcp up --dry-run"),
    details="A file that loosens something needs your yes, once for its content. The declaration is mcp_magic.toml, "
    "[tool.mcp_magic] in pyproject.toml, an mcp.json, or the cell below %%mcp up. Running it again changes only the "
    "differences.",
    takes_body=True,
)
