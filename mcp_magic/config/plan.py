"""What has to happen for the open sessions to be the declared ones."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from mcp_magic.errors import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_magic.config.specs import Spec

__all__ = ["Step", "plan"]

Action = Literal["connect", "keep", "reconnect", "disconnect", "leave"]


@dataclass(frozen=True)
class Step:
    """What to do with one server, and why."""

    name: str
    action: Action
    reason: str


def plan(declared: Mapping[str, Spec], open_: Mapping[str, Spec], *, prune: bool) -> list[Step]:
    """Compare what is declared with what is open; reasons name fields, never their values.

    Args:
        declared: The declared servers.
        open_: The specs of the open sessions.
        prune: Whether to disconnect what is not declared.

    Returns:
        A step for each server: the declared ones in their order, then the others.
    """
    steps = [_step(name, spec, open_.get(name)) for name, spec in declared.items()]
    for name in open_:
        if name not in declared:
            steps.append(Step(name, "disconnect" if prune else "leave", "not declared"))
    return steps


def _step(name: str, spec: Spec, current: Spec | None) -> Step:
    if current is None:
        return Step(name, "connect", "not connected")
    changed = _changes(current, spec)
    return Step(name, "reconnect", f"changed: {changed}") if changed else Step(name, "keep", "as declared")


def _changes(old: Spec, new: Spec) -> str:
    """Return what differs, or an empty string.

    >>> from mcp_magic.config.specs import StdioSpec
    >>> _changes(StdioSpec(command="a", env={"K": "1"}), StdioSpec(command="b", env={"K": "2"}))
    'command, env'
    """
    if type(old) is not type(new):
        return f"transport ({old.transport} to {new.transport})"
    differ = [f.name for f in fields(new) if f.compare and getattr(old, f.name) != getattr(new, f.name)]
    return listed(differ) if differ else ""
