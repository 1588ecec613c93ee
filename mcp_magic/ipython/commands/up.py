"""`%mcp up`: brings the host into the state that a declaration describes."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_magic._text import did_you_mean, join_names
from mcp_magic.config.foreign import SUFFIXES, project_files
from mcp_magic.config.parsing import slug, working_directory
from mcp_magic.config.project import (
    display_value,
    find_declaration,
    load_declaration,
    loosened,
    parse_declaration,
    plan,
    runs,
)
from mcp_magic.consent.rules import ACTIONS, rule_of
from mcp_magic.display.document import Problem
from mcp_magic.display.listing import Listing
from mcp_magic.errors import ConfigError, MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.ask import ask_for_trust, displaced, shadowed
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab
from mcp_magic.ipython.commands.consent import fitting_nothing, never_reached
from mcp_magic.results.cards import edited
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    import argparse

    from mcp_magic._host import Host
    from mcp_magic.config.project import Declaration, Step
    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.config.specs import Spec
    from mcp_magic.consent.rules import Rule


async def _up(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    declaration = _declaration(invocation, arguments.file)
    host, cell, ready = invocation.host, _cell_of(invocation), declaration.started
    declared = {slug(entry.name): entry.spec for entry in ready if entry.spec}
    if arguments.only:
        declared = {name: declared[name] for name in _only(arguments.only, declaration, declared)}
    notes: list[str] = []
    if not cell:  # a cell needs no yes: its code could do anything anyway
        current = {name: getattr(invocation.settings, name) for name in declaration.settings}
        conflicts = displaced(invocation, declared, declaration.source)
        loose = loosened(declaration, current)
        notes = await ask_for_trust(invocation, declaration, loose, conflicts, dry=arguments.dry_run)
    open_ = {name: connection.spec for name, connection in host.connections.items() if connection.state == "open"}
    steps = plan(declared, open_, prune=arguments.prune)
    steps = [step for step in steps if not arguments.only or step.name in declared]
    if not arguments.dry_run:
        invocation.settings.apply(declaration.settings)
    replaced = _take_over(invocation, declaration, cell, dry=arguments.dry_run)
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
        if entry not in ready and not arguments.only:
            problem = Problem(str(entry.problem)) if entry.problem and not entry.disabled else None
            row = {"server": entry.name, "done": "wrong" if problem else "disabled", "problem": problem}
            rows.append(row | ({"why": entry.reason} if entry.disabled and entry.problem else {}))
    title = f"{'would be done' if arguments.dry_run else 'declared'} by {declaration.source}"
    notes += _remarks(declaration) + ([] if cell else shadowed(declaration, invocation.directory))
    notes += [*replaced, *([] if arguments.dry_run else _idle_rules(declaration, cell, host))]
    empty = f"{declaration.source} declares no servers"
    return Listing(rows, title=title, empty=empty, note="; ".join(notes), kind="up")


def _only(names: list[str], declaration: Declaration, declared: dict[str, Spec]) -> list[str]:
    """Return the servers to connect, by names as they are written or as sessions have them."""
    problems = {slug(entry.name): entry.problem for entry in declaration.servers.values()}
    for name in map(slug, names):
        if problems.get(name):
            raise ConfigError(str(problems[name]))
        if name not in declared:
            near = did_you_mean(name, declared)
            raise ConfigError(f"{declaration.source} starts no server {name!r}.{near} It has: {join_names(declared)}")
    return [*dict.fromkeys(map(slug, names))]


def _remarks(declaration: Declaration) -> list[str]:
    settings = [f"{name} = {display_value(value)}" for name, value in declaration.settings.items()]
    rules = [
        f"{action} {display_value(rule[action])}"
        for rule in declaration.consent
        for action in ACTIONS
        if action in rule
    ]
    return [
        *([f"agents declared: {join_names(declaration.agents)}"] if declaration.agents else []),
        *([f"sets {', '.join(settings)}"] if settings else []),
        *([f"rules: {', '.join(rules)}"] if rules else []),
    ]


def _declaration(invocation: Invocation, file: str | None) -> Declaration:
    settings = invocation.settings.known_settings()
    if invocation.body is not None:
        return parse_declaration(
            invocation.body, source="the cell", environ=os.environ, base=invocation.directory, settings=settings
        )
    path = invocation.path(file) if file else find_declaration(invocation.directory)
    return load_declaration(path, settings=settings)


def _idle_rules(declaration: Declaration, cell: str, host: Host) -> list[str]:
    """Describe the declared rules without effect; leaves out a rule that fits no tool while its server is not open."""
    away = {slug(name) for name in declaration.servers} - {session.name for session in host.find()}
    never, strays = never_reached(host), fitting_nothing(host)
    return [
        f"rule {number}, `{rule}`: {remark}"
        for number, rule in enumerate(host.consent.rules, 1)
        if (rule.source, rule.cell) == (declaration.source, cell)
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
        return row | {"state": "failed", "problem": Problem(f"{type(outcome).__name__}: {outcome}")}
    if dry or connection is None:
        return row
    info = connection.info().row()
    return row | {key: info[key] for key in ("state", "transport", "protocol", "tools", "resources", "prompts")}


# How a declaration replaces the consent rules and agents of its earlier run.
#
# A file is known by its path and a cell by the id from its frontend. Without an id (a terminal, nbclient), the cell's
# text identifies it. A changed cell is then a new one: its earlier rules and agents stay, and a note says so. A rule
# that denies must not vanish because another declaration ran.


def _cell_of(invocation: Invocation) -> str:
    """Return what identifies the cell below the line: its id, else a digest of its text, which may hold secrets."""
    if invocation.body is None:
        return ""
    text = "\n".join(line.rstrip() for line in invocation.body.strip().splitlines())
    return invocation.cells.run().cell or f"text {hashlib.sha256(text.encode()).hexdigest()}"


def _take_over(invocation: Invocation, declaration: Declaration, cell: str, *, dry: bool) -> list[str]:
    """Replace the rules and agents of an earlier run by the declared ones, unless `dry`; return notes about it."""
    rules, agents = invocation.host.consent.rules, invocation.state.agents
    source = declaration.source
    are_own = [(rule.source, rule.cell) == (source, cell) for rule in rules]
    new = [_rule(table, declaration, cell) for table in declaration.consent]
    old_agents = [
        name
        for name, agent in agents.items()
        if (agent.get("source"), agent.get("cell")) == (source, cell) and name not in declaration.agents
    ]
    dropped = [f"`{rule}`" for rule, is_own in zip(rules, are_own, strict=True) if is_own and rule not in new]
    dropped += [f"agent {name}" for name in old_agents]
    others = [f"`{rule}`" for rule, is_own in zip(rules, are_own, strict=True) if rule.source == source and not is_own]
    if not dry:
        # in the place of the earlier ones: the order matters, since the first match decides
        at = are_own.index(True) if True in are_own else len(rules)
        rules[at:] = [*new, *(rule for rule, is_own in zip(rules[at:], are_own[at:], strict=True) if not is_own)]
        for name in old_agents:
            del agents[name]
        for name, agent in declaration.agents.items():
            agents[name] = {**agent, "source": source, "cell": cell}
    notes = [f"{'would be dropped' if dry else 'no longer in force'}: {join_names(dropped)}"] if dropped else []
    if others and cell.startswith("text "):
        notes.append(f"still in force, from other cells: {join_names(others)} (`%mcp approvals --remove N` drops one)")
    return notes


def _rule(table: dict[str, Any], declaration: Declaration, cell: str) -> Rule:
    """Make a rule. One that allows is tied to the servers declared with it; a file's fits no other servers."""
    rule = replace(rule_of(table, source=declaration.source), cell=cell)
    if rule.action != "allow":
        return rule
    own = {slug(entry.name): entry.spec.identity for entry in declaration.started if entry.spec is not None}
    rule = replace(rule, identities={**rule.identities, **own})
    if cell:
        return rule
    return replace(rule, servers=tuple(own if rule.servers is None else filter(own.__contains__, rule.servers)))


def _complete_file(tab: Tab) -> list[str]:
    others: list[str] = []
    with suppress(ConfigError):  # the folder was deleted
        here = working_directory()
        there = (path.relative_to(here).as_posix() for path in project_files(here) if path.is_file())
        others += filter(None, map(as_word, there))
    return [*dict.fromkeys([*completion.paths(tab, SUFFIXES), *completion.starting(tab, others)])]


UP = Implementation(
    _up,
    (
        Argument(
            "file",
            nargs="?",
            metavar="FILE",
            complete=_complete_file,
            help="default: mcp_magic.toml, pyproject.toml, mcp.json",
        ),
        Argument("--only", action="append", default=[], metavar="NAME", help="only this server; can be repeated"),
        Argument("--prune", action="store_true", help="disconnect undeclared servers"),
        Argument("--dry-run", action="store_true", help="only list what it would run, set, allow and send"),
    ),
    examples=("%mcp up", "%mcp up .vscode/mcp.json", "%mcp up mcp_magic.toml --prune", "%mcp up --dry-run"),
    details="If the file allows calls without asking, sends data elsewhere or hands out secrets, you are asked "
    "first, once for each content of the file. The declaration is mcp_magic.toml, [tool.mcp_magic] in "
    "pyproject.toml, an mcp.json or another host's file, or the cell below %%mcp up. Running it again changes "
    "only the differences.",
    takes_body=True,
)
