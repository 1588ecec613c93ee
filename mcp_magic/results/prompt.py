"""What a prompt became."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .content import message_block, part_of
from .html import joined, note, tag
from .limits import Budget
from .parts import Part, Value, fitting
from .safe import one_line, shorten

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from mcp_types import GetPromptResult

__all__ = ["PromptResult"]


class PromptResult(Value):
    """A prompt's messages as a value.

    Attributes:
        raw: The SDK's result, nothing left out.
        server: The server's name.
        prompt: The prompt's name.
        arguments: What it was asked with.
        seconds: How long it took.
    """

    __slots__ = ("arguments", "prompt", "raw", "seconds", "server")
    _fields = ("raw", "server", "prompt", "arguments", "seconds")

    def __init__(
        self,
        raw: GetPromptResult,
        *,
        server: str = "",
        prompt: str = "",
        arguments: dict[str, Any] | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.raw = raw
        self.server = server
        self.prompt = prompt
        self.arguments = arguments
        self.seconds = seconds
        self._cache = None

    @property
    def description(self) -> str:
        """The description, or ""."""
        return self.raw.description or ""

    @property
    def text(self) -> str:
        """The texts of all messages, with an empty line between."""
        return "\n\n".join(m.content.text for m in self.raw.messages if m.content.type == "text")

    @property
    def meta(self) -> dict[str, Any]:
        """The result's `_meta`."""
        return dict(self.raw.meta or {})

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages for LangChain: text as a string, everything else as content blocks."""
        from langchain_core.messages import AIMessage, HumanMessage

        classes = {"user": HumanMessage, "assistant": AIMessage}
        return [classes[message.role](content=_content(message.content)) for message in self.raw.messages]

    def __len__(self) -> int:
        return len(self.raw.messages)

    def __repr__(self) -> str:
        name = one_line(":".join(part for part in (self.server, self.prompt) if part), 100)
        count = len(self.raw.messages)
        return f"<PromptResult {name}: {count} message{'s' if count != 1 else ''}, {one_line(self.text, 60)}>"

    def parts(self) -> list[Part]:
        """Return what a display shows of it."""
        described = shorten(self.description, 500)
        heading = [Part(described, note(described))] if described else []
        parts = heading + fitting(self.raw.messages, self._turn, Budget.full(), ".messages")
        return parts or [Part("(no messages)", tag("p", "(no messages)"))]

    def _turn(self, message: Any, budget: Budget) -> Part:
        """Return one message under its role."""
        part = part_of(message.content, budget, self.server)
        plain = "\n".join(f"    {line}" if line else "" for line in part.plain.split("\n"))
        html = joined([tag("div", tag("b", message.role)), tag("div", part.html, class_="mcp-turn")])
        return Part(f"{message.role}:\n{plain}", html, media=part.media)


def _content(block: Any) -> Any:
    return block.text if block.type == "text" else [message_block(block)]
