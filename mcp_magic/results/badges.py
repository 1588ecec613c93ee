"""What a tool's annotations say, as badges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .html import Markup, tag
from .safe import clean

if TYPE_CHECKING:
    from mcp_types import ToolAnnotations

__all__ = ["Badge", "annotation_badges"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A word with a meaning.

    Attributes:
        text: The word, with a sign in front: colour is never the only difference.
        kind: How it is coloured.
        explanation: One sentence, shown when the pointer rests on it.
    """

    text: str
    kind: Literal["safe", "danger", "neutral"] = "neutral"
    explanation: str = ""

    def __str__(self) -> str:
        return f"[{clean(self.text)}]"

    def html(self) -> Markup:
        """Return the badge as markup."""
        kind = self.kind if self.kind in ("safe", "danger") else "neutral"
        return tag("span", self.text, class_=f"mcp-badge mcp-badge-{kind}", title=self.explanation)

    def _repr_html_(self) -> str:
        return self.html()


def annotation_badges(annotations: ToolAnnotations | None, *, trusted: bool = False) -> list[Badge]:
    """Return the badges of a tool's hints; what a tool does not say has the specification's default.

    Without annotations a tool may change things, may destroy, is not idempotent and reaches out
    (`ToolAnnotations` in the specification's schema). Destructive and idempotent mean something only for
    a tool that is not read-only.

    Args:
        annotations: The hints, or None.
        trusted: Whether the person has said that this server's hints are to be believed.

    >>> [str(badge) for badge in annotation_badges(None)]
    ['[! destructive]', '[~ open world]']
    """

    def said(name: str) -> str:
        return _who(annotations, name, trusted)

    def hint(name: str, default: bool) -> bool:
        value = getattr(annotations, name, None)
        return default if value is None else bool(value)

    badges: list[Badge] = []
    if hint("read_only_hint", False):
        badges.append(Badge("○ read-only", "safe", f"{said('read_only_hint')} it changes nothing"))
    else:
        if hint("destructive_hint", True):
            badges.append(Badge("! destructive", "danger", f"{said('destructive_hint')} it may overwrite or delete"))
        else:
            badges.append(Badge("+ only adds", "neutral", f"{said('destructive_hint')} it adds and never destroys"))
        if hint("idempotent_hint", False):
            badges.append(
                Badge("= idempotent", "neutral", f"{said('idempotent_hint')} a repeated call changes nothing more")
            )
    if hint("open_world_hint", True):
        badges.append(Badge("~ open world", "neutral", f"{said('open_world_hint')} it deals with the world outside"))
    return badges


def _who(annotations: ToolAnnotations | None, name: str, trusted: bool) -> str:
    """Who says so: the server, a trusted server, or the specification's default."""
    if getattr(annotations, name, None) is None:
        return "the server does not say; by the specification's default"
    return "the server, which you trust, says that" if trusted else "the server says of itself that"
