"""The events of a run. The graph writes them to LangGraph's stream of custom events; the transcript takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import BaseMessage
    from mcp_types import Tool

    from mcp_magic.apps.app import App
    from mcp_magic.flight.progress import Report


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A request of the user (`role` "person"), or instructions to the model ("system")."""

    text: str
    images: int = 0
    role: str = "person"


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of the text of the turn with this id, as it streams in."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """A complete turn of the model, or the closing text of a run."""

    message: BaseMessage


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call that waits for a decision; with `is_draft`, the model still writes it.

    `turn` is the number of its turn in the request (0: the latest), and `parent` the id of the program that makes it.
    """

    id: str
    tool: str
    server: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    definition: Tool | None = None
    trusted: bool = False
    turn: int = 0
    parent: str = ""
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class DecisionEvent:
    """The decision about a call; `arguments` are those that the user put in place of the model's."""

    id: str
    approved: bool
    by: str = ""
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StartEvent:
    """A call goes out; `clock` counts its seconds."""

    id: str
    clock: Report | None = None


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """The progress of a call, as the server reports it."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """The message that answers a call."""

    id: str
    message: BaseMessage


@dataclass(frozen=True, slots=True)
class NoteEvent:
    """A remark about the run: "info", "warning" or "error"."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class ViewEvent:
    """A view of a call is there to be shown."""

    app: App


Event = (
    RequestEvent
    | TextEvent
    | TurnEvent
    | CallEvent
    | DecisionEvent
    | StartEvent
    | ProgressEvent
    | ResultEvent
    | NoteEvent
    | ViewEvent
)
