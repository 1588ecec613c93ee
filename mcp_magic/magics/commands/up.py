"""`%mcp up`: makes the host what a declaration says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.declaration import find_declaration, load_declaration, parse_declaration
from mcp_magic.config.names import slug
from mcp_magic.config.plan import plan
from mcp_magic.core.consent.rulefiles import rule_of
from mcp_magic.errors import MCPMagicError, listed
from mcp_magic.magics.commands.servers import server_row
from mcp_magic.magics.parsing import Command, Invocation
from mcp_magic.results import Listing

if TYPE_CHECKING:
    import argparse

    from mcp_magic.config.declaration import Declaration
    from mcp_magic.config.files import ServerEntry
    from mcp_magic.config.plan import Step
    from mcp_magic.core.consent.consent import Consent

__all__ = ["COMMAND"]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="default: mcp_magic.toml, pyproject.toml, mcp.json")
    parser.add_argument("--prune", action="store_true", help="disconnect what is not declared")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Connect what is missing, leave what is right, reconnect what changed."""
    declaration = _declaration(invocation, arguments.file)
    host = invocation.host
    ready = [entry for entry in declaration.servers.values() if entry.spec and not entry.disabled]
    declared = {slug(entry.name): entry.spec for entry in ready if entry.spec}
    open_ = {name: connection.spec for name, connection in host.connections.items() if connection.state == "open"}
    steps = plan(declared, open_, prune=arguments.prune)
    if not arguments.dry_run:
        invocation.settings.apply(declaration.settings)
        _take_over_agents(declaration, invocation.settings.agents)
        _take_over(declaration, invocation.host.consent)
    outcomes = {} if arguments.dry_run else await _carry_out(invocation, steps, declared)
    rows = [_row(invocation, step, outcomes, dry=arguments.dry_run) for step in steps]
    rows += [_left_out(entry) for entry in declaration.servers.values() if entry not in ready]
    title = f"{'would be done' if arguments.dry_run else 'declared'} by {declaration.source}"
    note = f"agents declared: {listed(declaration.agents)}" if declaration.agents else ""
    return Listing(rows, title=title, empty=f"{declaration.source} declares no servers", note=note, kind="up")


def _declaration(invocation: Invocation, file: str | None) -> Declaration:
    known = invocation.settings.known_settings()
    if invocation.body is not None:
        return parse_declaration(
            invocation.body, source="the cell", environ=os.environ, base=invocation.directory, settings=known
        )
    path = invocation.directory / Path(file).expanduser() if file else find_declaration(invocation.directory)
    return load_declaration(path, settings=known)


def _take_over(declaration: Declaration, consent: Consent) -> None:
    """Put the declared consent rules in place of those that an earlier run of this declaration made."""
    rules = [rule_of(table, source=declaration.source) for table in declaration.consent]
    others = [rule for rule in consent.rules if rule.source != declaration.source]
    consent.rules[:] = [*others, *rules]


def _take_over_agents(declaration: Declaration, agents: dict[str, dict[str, Any]]) -> None:
    """Put the declared agents in place of those that an earlier run of this declaration made."""
    for name in [name for name, agent in agents.items() if agent.get("source") == declaration.source]:
        del agents[name]
    agents.update({name: {**agent, "source": declaration.source} for name, agent in declaration.agents.items()})


async def _carry_out(invocation: Invocation, steps: list[Step], declared: dict[str, Any]) -> dict[str, Any]:
    host = invocation.host
    gone = [step.name for step in steps if step.action == "disconnect"]
    await host.disconnect(*gone)
    wanted = {step.name: declared[step.name] for step in steps if step.action in ("connect", "reconnect")}
    return await host.connect_many(wanted)


def _row(invocation: Invocation, step: Step, outcomes: dict[str, Any], *, dry: bool) -> dict[str, Any]:
    outcome = outcomes.get(step.name)
    row: dict[str, Any] = {"server": step.name, "done": step.action, "why": step.reason}
    if isinstance(outcome, MCPMagicError):
        return row | {"state": "failed", "problem": f"{type(outcome).__name__}: {outcome}"}
    connection = invocation.host.connections.get(step.name)
    if dry or connection is None:
        return row
    seen = server_row(connection)
    return row | {key: seen[key] for key in ("state", "transport", "protocol", "tools", "resources", "prompts")}


def _left_out(entry: ServerEntry) -> dict[str, Any]:
    problem = str(entry.problem or "") or None
    return {"server": entry.name, "done": "wrong" if problem else "disabled", "problem": problem}


COMMAND = Command(
    "up",
    "Connect",
    "makes the host what a declaration says",
    run,
    options,
    examples=("%mcp up", "%mcp up mcp_magic.toml --prune", "%mcp up --dry-run"),
    details="The declaration is mcp_magic.toml, [tool.mcp_magic] in pyproject.toml, an mcp.json, or the cell below "
    "%%mcp up. Run again, it changes only what differs.",
    takes_body=True,
)
