"""What is known of a tool, as badges: the hints that its server gives, and whom it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .html import Markup, tag
from .safe import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import Tool, ToolAnnotations

__all__ = ["NO_HINTS", "Badge", "app_only", "tool_badges"]

Kind = Literal["safe", "danger", "neutral"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with a meaning.

    Attributes:
        text: The word; a sign in front if it has a colour, which is never the only difference.
        kind: How it is coloured.
        explanation: One sentence, shown when the pointer rests on it.
    """

    text: str
    kind: Kind = "neutral"
    explanation: str = ""

    def __str__(self) -> str:
        return f"[{clean(self.text)}]"

    def html(self) -> Markup:
        """Return the badge as markup."""
        kind = self.kind if self.kind in ("safe", "danger") else "neutral"
        return tag("span", self.text, class_=f"mcp-badge mcp-badge-{kind}", title=self.explanation)

    def _repr_html_(self) -> str:
        return self.html()


NO_HINTS = Badge(
    "no hints",
    "neutral",
    "the server does not say what the tool does; consent takes it for one that may change, delete and reach out",
)
"""For a tool whose server gives no hints."""

_HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


def app_only(tool: Tool) -> bool:
    """Whether the server offers a tool to its own app and not to models.

    The extension MCP Apps has `_meta.ui.visibility` for this, a list of `"model"` and `"app"`; missing, it means both.
    """
    ui = (tool.meta or {}).get("ui")
    visibility = ui.get("visibility") if isinstance(ui, dict) else None
    return isinstance(visibility, list) and "model" not in visibility


def tool_badges(tool: Tool | None, *, trusted: bool = False) -> list[Badge]:
    """Return the badges of a tool: whether it is for apps only, and the hints that its server gives.

    A hint that the server does not give is not shown; where it gives none, one badge says so. Consent decides by the
    specification's defaults then (`ToolAnnotations` in its schema): the tool may change and destroy things, is not
    idempotent and reaches out. Destructive and idempotent mean something only for a tool that is not read-only.

    Args:
        tool: Its definition, or None where it is not known.
        trusted: Whether the person has said that this server's hints are to be believed.

    >>> [str(badge) for badge in tool_badges(None)]
    ['[no hints]']
    """
    who = "the server, which you trust, says that" if trusted else "the server says of itself that"
    hints = tool.annotations if tool is not None else None
    badges: list[Badge] = []
    if tool is not None and app_only(tool):
        badges.append(Badge("app only", "neutral", "the server offers it to its own app: no model is given it"))
    if hints is None or not any(getattr(hints, name) is not None for name in _HINTS):
        return [*badges, NO_HINTS]
    return badges + [Badge(text, kind, f"{who} {meaning}") for text, kind, meaning in _notable(hints)]


def _notable(hints: ToolAnnotations) -> Iterator[tuple[str, Kind, str]]:
    """Yield text, kind and meaning of the hints that were given and tell more than the lack of them."""
    if hints.read_only_hint:
        yield "○ read-only", "safe", "it changes nothing"
    else:
        if hints.destructive_hint:
            yield "! destructive", "danger", "it may overwrite or delete"
        elif hints.destructive_hint is False:
            yield "+ only adds", "neutral", "it adds and never destroys"
        elif hints.read_only_hint is False:
            yield "± changes", "neutral", "it changes things"
        if hints.idempotent_hint:
            yield "= idempotent", "neutral", "a repeated call changes nothing more"
    if hints.open_world_hint:
        yield "~ open world", "neutral", "it deals with the world outside"
