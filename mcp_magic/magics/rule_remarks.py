"""What is said about consent rules that do nothing: one is never reached, another fits no tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.core.consent.reach import unreached
from mcp_magic.core.sampling.requests import SAMPLING
from mcp_magic.errors import did_you_mean

if TYPE_CHECKING:
    from mcp_magic.core.consent.rules import Rule
    from mcp_magic.core.host import Host

__all__ = ["fitting_nothing", "never_reached"]


def never_reached(host: Host) -> dict[int, str]:
    """Return the numbers of the rules that never decide, with why."""
    found = unreached(host.consent.rules, host.consent.definitions)
    return {at + 1: f"never reached: rule {before + 1} comes before it" for at, before in found.items()}


def fitting_nothing(host: Host) -> dict[int, str]:
    """Return the numbers of the rules whose pattern names nothing that the connected servers have, with a remark.

    Empty where no server is connected, or one has not said yet what it has.
    """
    sessions = host.find()
    if not sessions or not all(session.catalog.known("tools") for session in sessions):
        return {}
    known = [f"{session.name}:{tool.name}" for session in sessions for tool in session.catalog.cached("tools")]
    known += [f"{session.name}:{SAMPLING}" for session in sessions]
    return {
        number: f"fits no tool that is known now.{_near(rule, known, host)}".removesuffix(".")
        for number, rule in enumerate(host.consent.rules, 1)
        if not any(map(rule.names, known))
    }


def _near(rule: Rule, known: list[str], host: Host) -> str:
    server, _, rest = rule.tool.partition(":")
    return did_you_mean(rule.tool, known if rule.single else [f"{name}:{rest}" for name in host if name != server])
