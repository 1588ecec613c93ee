"""What a transcript is made of: what was asked, said, called and noted, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.transcript.hiding import hidden_in, hider
from mcp_magic.agent.transcript.levels import RESULT
from mcp_magic.agent.transcript.outcome import result_value
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.messages import ToolMessage
    from mcp_types import Tool

    from mcp_magic.results import ToolResult

__all__ = ["OPEN", "Asked", "Called", "Entry", "Note", "Said"]

OPEN = ("waiting", "running")
"""The states of a call that something may still come of."""


@dataclass(eq=False)
class Entry:
    """One thing that happened.

    Attributes:
        revision: Grows with every change: what was drawn of an older one is out of date.
    """

    revision: int = field(default=0, init=False)

    def changed(self) -> None:
        """Say that what was drawn is out of date."""
        self.revision += 1

    @property
    def weight(self) -> int:
        """About how many characters a display of it takes."""
        return 100

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return True

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to display."""
        return False


@dataclass(eq=False)
class Asked(Entry):
    """A request.

    Attributes:
        text: In the person's words.
        images: How many pictures came with it.
        role: `"person"`, or `"system"` for what the model is told beforehand.
    """

    text: str = ""
    images: int = 0
    role: str = "person"

    @property
    def weight(self) -> int:
        """About how many characters a display of it takes."""
        return 100 + len(self.text)


@dataclass(eq=False)
class Said(Entry):
    """A turn of the model.

    Attributes:
        id: The message's id.
        text: What it said so far.
        thinking: What it thought, where the provider tells.
        images: How many pictures it holds.
        usage: Tokens: `input_tokens`, `output_tokens`, `total_tokens`; {} where unknown.
        model: The model's name, or "".
        step: Which turn of the request it is, from 1.
        complete: Whether the turn is over.
        calls: How many calls it asks for: with none, it is an answer.
        interrupted: Whether the turn was cut short.
        is_turn: Whether the model said it; the words with which a run ends that has had all its turns are ours.
    """

    id: str = ""
    text: str = ""
    thinking: str = ""
    images: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    model: str = ""
    step: int = 0
    complete: bool = False
    calls: int = 0
    interrupted: bool = False
    is_turn: bool = True

    @property
    def is_over(self) -> bool:
        """Whether the turn is."""
        return self.complete

    @property
    def is_blank(self) -> bool:
        """Whether it only asked for calls."""
        return not (self.text or self.thinking or self.images or self.usage or self.interrupted)

    @property
    def is_answer(self) -> bool:
        """Whether it answers the request, as far as one can see: it asks for no call."""
        return self.calls == 0

    @property
    def weight(self) -> int:
        """About how many characters a display of it takes."""
        return 100 + len(self.text) + len(self.thinking)


@dataclass(eq=False)
class Called(Entry):
    """A call of a tool.

    Attributes:
        id: The call's id.
        server: The server's name, "" for a tool of another kind.
        tool: The tool's name.
        definition: The tool as the server lists it, or None.
        trusted: Whether the person believes the server's annotation hints.
        arguments: What the model asked for; secrets are masked only where they are displayed.
        changed_arguments: What it went out with if the person changed that, else None.
        step: In which turn of the model.
        number: Its place among the calls of the transcript, from 0.
        status: `"waiting"`, `"running"`, `"ok"`, `"error"`, `"denied"`, `"interrupted"` or `"cut off"` (nothing
            is known of what came of it).
        seconds: How long it took, or None.
        progress: What was done of `total`, and the server's `message`; or None.
        approved: Whether it was let through; None if nobody decided.
        by: Who decided: `"person"`, a rule, a policy; or "".
        reason: Why not, or "".
        message: The tool's message to the model, or None.
    """

    id: str = ""
    server: str = ""
    tool: str = ""
    definition: Tool | None = None
    trusted: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changed_arguments: Mapping[str, Any] | None = None
    step: int = 0
    number: int = 0
    status: str = "waiting"
    seconds: float | None = None
    progress: tuple[float, float | None, str] | None = None
    approved: bool | None = None
    by: str = ""
    reason: str = ""
    message: ToolMessage | None = None
    _result: ToolResult | None = None
    _shown: ToolResult | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has come to an end of any kind."""
        return self.status not in OPEN

    @property
    def name(self) -> str:
        """`"server:tool"`, or the tool's name alone."""
        return f"{self.server}:{self.tool}" if self.server else self.tool

    @property
    def title(self) -> str:
        """The title that the server gives the tool, or ""."""
        if self.definition is None:
            return ""
        annotations = self.definition.annotations
        return self.definition.title or (annotations.title if annotations else None) or ""

    @property
    def sent(self) -> Mapping[str, Any]:
        """What the call went out with, or would have."""
        return self.arguments if self.changed_arguments is None else self.changed_arguments

    def take(self, message: ToolMessage) -> None:
        """Keep what the call was answered by; its progress and the result of an earlier answer are gone."""
        self.message, self.progress = message, None
        self._result = self._shown = None

    @property
    def result(self) -> ToolResult | None:
        """What the tool answered, as the value that `%mcp call` returns; None if it did not answer."""
        if self._result is None and self.message is not None:
            self._result = result_value(self.message, self)
        return self._result

    @property
    def shown_result(self) -> ToolResult | None:
        """The result as it is displayed: what the arguments hide is hidden in it, too."""
        if self._shown is None and self.result is not None:
            hide = self._hider()
            self._shown = hidden_in(self.result, hide) if hide else self.result
        return self._shown

    def hide(self, text: str) -> str:
        """Return a text of the server without what the arguments hide."""
        hide = self._hider()
        return hide(text) if hide else text

    def _hider(self) -> Callable[[str], str] | None:
        return hider(self.definition, self.arguments, self.changed_arguments or {})

    @property
    def error(self) -> str:
        """Why it failed, on one line; "" if it did not."""
        if self.status == "denied":
            return one_line(self.reason or "denied", 500)
        if self.status == "error":
            texts = self.shown_result.texts if self.shown_result is not None else []
            return one_line(" ".join(texts), 500) or "error"
        return self.status if self.status in ("interrupted", "cut off") else ""

    @property
    def weight(self) -> int:
        """About how many characters a display of it takes."""
        content = self.message.content if self.message is not None else ""
        return 800 + min(sum(len(part) if isinstance(part, str) else 2000 for part in _parts(content)), RESULT // 5)


def _parts(content: Any) -> list[Any]:
    return [content] if isinstance(content, str) else list(content)


@dataclass(eq=False)
class Note(Entry):
    """A remark about the run.

    Attributes:
        text: What to know.
        level: `"info"`, `"warning"` or `"error"`.
    """

    text: str = ""
    level: str = "info"
