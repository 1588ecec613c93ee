"""`%mcp up`: brings the host into the state that a declaration describes."""

from __future__ import annotations

import os
from pathlib import Path
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
from mcp_magic.consent.rules import ACTIONS
from mcp_magic.display.listing import Listing
from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython.ask import ask_for_trust, displaced, shadowed
from mcp_magic.ipython.commandline import Implementation, Invocation, Origin, Parser, origin_of, take_over
from mcp_magic.ipython.commands.consent import fitting_nothing, never_reached
from mcp_magic.results.cards import edited

if TYPE_CHECKING:
    import argparse

    from mcp_magic._host import Host
    from mcp_magic.config.project import Declaration, Step
    from mcp_magic.config.servers import ServerEntry

__all__ = ["UP"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        completer="declaration",
        help="default: mcp_magic.toml, pyproject.toml, mcp.json",
    )
    parser.add_argument("--prune", action="store_true", help="disconnect what is not declared")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be run, set, allowed and sent")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Connect missing servers, keep unchanged ones, and reconnect changed ones."""
    declaration = _declaration(invocation, arguments.file)
    host, origin, ready = invocation.host, origin_of(invocation, declaration.source), declaration.started
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
    replaced = take_over(invocation, declaration, origin, dry=arguments.dry_run)
    outcomes = {} if arguments.dry_run else await _carry_out(invocation, steps, declared)
    for name in outcomes:
        invocation.state.opened[name] = declaration.source, declared[name].identity
    entries = {slug(entry.name): entry for entry in ready}
    rows = [_row(invocation, step, outcomes, entries.get(step.name), dry=arguments.dry_run) for step in steps]
    rows += [_left_out(entry) for entry in declaration.servers.values() if entry not in ready]
    title = f"{'would be done' if arguments.dry_run else 'declared'} by {declaration.source}"
    notes += _said(declaration) + ([] if origin.cell else shadowed(declaration, invocation.directory))
    notes += [*replaced, *([] if arguments.dry_run else _idle_rules(declaration, origin, host))]
    empty = f"{declaration.source} declares no servers"
    return Listing(rows, title=title, empty=empty, note="; ".join(notes), kind="up")


def _said(declaration: Declaration) -> list[str]:
    """Describe what a declaration sets, allows and makes."""
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
    path = invocation.directory / Path(file).expanduser() if file else find_declaration(invocation.directory)
    return load_declaration(path, settings=known)


def _idle_rules(declaration: Declaration, origin: Origin, host: Host) -> list[str]:
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


async def _carry_out(invocation: Invocation, steps: list[Step], declared: dict[str, Any]) -> dict[str, Any]:
    host = invocation.host
    gone = [step.name for step in steps if step.action == "disconnect"]
    await host.disconnect(*gone)
    wanted = {step.name: declared[step.name] for step in steps if step.action in ("connect", "reconnect")}
    return await host.connect_many(wanted)


def _row(
    invocation: Invocation, step: Step, outcomes: dict[str, Any], entry: ServerEntry | None, *, dry: bool
) -> dict[str, Any]:
    outcome = outcomes.get(step.name)
    row: dict[str, Any] = {"server": step.name, "done": step.action, "why": _why(invocation, step)}
    if entry is not None:
        row["runs"] = runs(entry)
    if isinstance(outcome, MCPMagicError):
        return row | {"state": "failed", "problem": f"{type(outcome).__name__}: {outcome}"}
    connection = invocation.host.connections.get(step.name)
    if dry or connection is None:
        return row
    seen = connection.info().row()
    return row | {key: seen[key] for key in ("state", "transport", "protocol", "tools", "resources", "prompts")}


def _why(invocation: Invocation, step: Step) -> str:
    if step.action != "keep":
        return step.reason
    connection = invocation.host[step.name]
    changed = edited(connection.name, connection.spec, connection.opened_at)
    return f"{step.reason}; {changed}" if changed else step.reason


def _left_out(entry: ServerEntry) -> dict[str, Any]:
    problem = str(entry.problem or "") or None
    return {"server": entry.name, "done": "wrong" if problem else "disabled", "problem": problem}


UP = Implementation(
    run,
    options,
    examples=("%mcp up", "%mcp up mcp_magic.toml --prune", "%mcp up --dry-run"),
    details="A file that loosens something takes your yes, once for what it says. "
    "The declaration is mcp_magic.toml, [tool.mcp_magic] in pyproject.toml, an mcp.json, or the cell below "
    "%%mcp up. Run again, it changes only what differs.",
    takes_body=True,
)
