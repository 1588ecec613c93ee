"""What waits for a decision, and the decision: the values between whoever asks, the approver and consent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import Tool

    from mcp_magic.core.definitions import Change

__all__ = ["PERSON", "Approver", "Decision", "Request"]

PERSON = "person"
"""The asker of calls that the person types or submits: they need no second yes unless a rule says so."""


@dataclass(frozen=True)
class Request:
    """A call that waits for a decision.

    Attributes:
        server: The server's name.
        tool: The tool's name.
        arguments: What it would be called with.
        asker: Who wants it: `PERSON`, `"agent"`, `"server NAME"`, `"app NAME"`.
        definition: The tool as the server lists it, or None.
        trusted: Whether the person believes the server's annotation hints.
        run: The agent run that asks, or None.
        change: How the definition differs from the one that the person knew, or None.
        outdated: The rule that allowed the tool as it was before, or "".
        replaced: In words that this rule was given for another server of this name, or "".
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    asker: str = PERSON
    definition: Tool | None = None
    trusted: bool = False
    run: str | None = None
    change: Change | None = field(default=None, compare=False)
    outdated: str = field(default="", compare=False)
    replaced: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """`"server:tool"`."""
        return f"{self.server}:{self.tool}"

    @property
    def read_only(self) -> bool:
        """Whether a trusted server says that the tool changes nothing."""
        hints = self.definition.annotations if self.definition else None
        return self.trusted and hints is not None and hints.read_only_hint is True


@dataclass(frozen=True)
class Decision:
    """What was decided about a request.

    Attributes:
        approved: Whether the call goes out.
        arguments: What it goes out with, if the person changed that; else None.
        reason: Why not, for whoever asked.
        by: Who decided.
        always: `""`, `"tool"` (always for this tool), `"arguments"` (always for these) or `"run"` (for this run).
        definition: The seal (`Definitions.seal`) of the tool that it is about, or "" where none is known.
    """

    approved: bool
    arguments: Mapping[str, Any] | None = None
    reason: str = ""
    by: str = PERSON
    always: str = ""
    definition: str = field(default="", compare=False)

    @classmethod
    def approve(cls, arguments: Mapping[str, Any] | None = None, *, always: str = "") -> Decision:
        """Let the call go out, with changed arguments if there are any."""
        return cls(True, arguments, always=always)

    @classmethod
    def deny(cls, reason: str = "", *, by: str = PERSON) -> Decision:
        """Refuse it."""
        return cls(False, None, reason, by)


Approver = Callable[[Request], Awaitable[Decision]]
