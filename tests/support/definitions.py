"""The corpus of definitions after published attacks, and of harmless ones, and how many of them are found.

`tests/data/definitions` has an entry a line: the servers with what they offer, the source of the attack, and the codes
of which one has to be found (hostile), or whether the tools make a toxic flow (harmless). Each third entry is held out:
no pattern was written after it. `reworded` has attacks in free words, written when the rules were done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_types import Prompt, Resource, Tool

from mcp_magic.doctor.flow import flow_findings
from mcp_magic.doctor.lookalikes import lookalike_findings
from mcp_magic.doctor.servers import Server
from mcp_magic.doctor.shadowing import shadowing_findings
from mcp_magic.lint import NOTE, lint_offers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_magic.lint import Finding

FOLDER = Path(__file__).parents[1] / "data" / "definitions"
MODELS = {"tools": Tool, "prompts": Prompt, "resources": Resource}
FLOW = "toxic-flow"
DECEIVING = {"instruction-like", "hidden-unicode", "name-lookalike", "other-server", "names-alike"}
"""Codes of what a harmless server has not."""


def entries(name: str, *, held_out: bool) -> list[dict[str, Any]]:
    """Return the entries of `hostile`, `harmless` or `reworded` that are held out, or the others."""
    every = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return [entry for entry in every if entry["held out"] == held_out]


def servers_of(entry: dict[str, Any]) -> list[Server]:
    """Return the servers of an entry."""
    servers = []
    for name, offer in entry["servers"].items():
        offers = {kind: [model.model_validate(item) for item in offer.get(kind, ())] for kind, model in MODELS.items()}
        servers.append(Server(name, offers, [("server", offer["instructions"])] if "instructions" in offer else []))
    return servers


async def findings_of(servers: list[Server]) -> list[Finding]:
    """Return all findings in servers, alone and together."""
    findings = [*shadowing_findings(servers), *lookalike_findings(servers), *flow_findings(servers)]
    for server in servers:
        own = [text for text in server.texts if text[0] == "server"]
        findings += (await lint_offers(server.name, server.offers, own)).findings
    return findings


async def codes_of(entry: dict[str, Any]) -> set[str]:
    """Return the codes of the errors and warnings in an entry."""
    return {finding.code for finding in await findings_of(servers_of(entry)) if finding.severity != NOTE}


async def missed(some: Iterable[dict[str, Any]]) -> list[str]:
    """Return the hostile entries that are not found."""
    return [entry["id"] for entry in some if not set(entry["codes"]) & await codes_of(entry)]


async def alarmed(some: Iterable[dict[str, Any]]) -> list[str]:
    """Return the harmless entries in which something deceiving is found."""
    return [entry["id"] for entry in some if DECEIVING & await codes_of(entry)]


async def misjudged(some: Iterable[dict[str, Any]]) -> list[str]:
    """Return the harmless entries whose tools are wrongly said to make a toxic flow, or wrongly not."""
    return [entry["id"] for entry in some if entry["flow"] != (FLOW in await codes_of(entry))]
