"""Replies to what servers ask models for, from a file: for notebooks that run where nobody is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.core.sampling.sampling import Review
from mcp_magic.errors import ArgumentsError, did_you_mean
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from mcp_magic.core.sampling.sampling import Sampled, SamplingRequest

__all__ = ["Replies"]

KEYS = ("reply", "deny", "server", "message", "model")


@dataclass
class _Reply:
    """One entry of the file.

    Attributes:
        text: What is replied; None: the request is refused.
        reason: Why it is refused.
        model: Who is said to have replied.
        server: A pattern of names of servers.
        message: A pattern of the last message's text.
        used: Whether it has replied.
    """

    text: str | None
    model: str
    reason: str = ""
    server: str = "*"
    message: str = "*"
    used: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it replies again and again: it says to what."""
        return (self.server, self.message) != ("*", "*")

    def fits(self, asked: SamplingRequest) -> bool:
        """Whether it is for a request."""
        if self.used and not self.lasts:
            return False
        return fnmatchcase(asked.server, self.server) and fnmatchcase(_last_text(asked), self.message)


class Replies:
    """What was decided beforehand: replies in order, or by server and message.

    Args:
        entries: As JSON holds them: texts, or objects with `reply` or `deny`, `server`, `message`, `model`.
        name: What to call them in messages, and the model that replies.

    Attributes:
        problem: What was wrong first; "" if nothing was.
    """

    def __init__(self, entries: list[Any], name: str) -> None:
        self._replies = [_read(entry, name) for entry in entries]
        self._name = name
        self.problem = ""

    async def __call__(self, asked: SamplingRequest) -> Review:
        """Return the first reply that fits; a refusal if there is none."""
        found = next((reply for reply in self._replies if reply.fits(asked)), None)
        if found is None:
            problem = f"{self._name} has no reply to {one_line(_last_text(asked), 100)!r} of {asked.server}"
            self.problem = self.problem or problem
            return Review.deny(problem, by=self._name)
        found.used = True
        if found.text is None:
            return Review.deny(found.reason, by=self._name)
        return Review(True, reply=_sampled(asked, found.text, found.model), by=self._name)


def _sampled(asked: SamplingRequest, text: str, model: str) -> Sampled:
    """Return a text as the reply, within the limits of the request."""
    from langchain_core.messages import AIMessage

    from mcp_magic.agent.offline.model import limited
    from mcp_magic.core.lint.writing import CHARACTERS_A_TOKEN
    from mcp_magic.langchain.sampling_reply import to_sampled

    message = limited(AIMessage(text), asked.max_tokens * CHARACTERS_A_TOKEN)
    required = asked.tool_choice == "required" and bool(asked.usable_tools)
    notes = ["no tool is called, which the server required"] if required else []
    return to_sampled(message, model=model, stop_sequences=asked.stop_sequences, notes=notes)


def _last_text(asked: SamplingRequest) -> str:
    """Return the texts of the last message."""
    return "\n\n".join(block.text for block in asked.messages[-1].content_as_list if block.type == "text")


def _read(entry: Any, name: str) -> _Reply:
    """Read one entry.

    Raises:
        ArgumentsError: It is none.
    """
    if isinstance(entry, str):
        return _Reply(entry, name)
    if not isinstance(entry, dict):
        raise ArgumentsError(f"{name}: a reply is a text or an object, not {schema.shown(entry)}")
    strange = next((key for key in entry if key not in KEYS), None)
    if strange is not None:
        near = did_you_mean(str(strange), KEYS)
        raise ArgumentsError(f"{name}: a reply has no {str(strange)!r}.{near} It has: {', '.join(KEYS)}")
    wrong = next((key for key, value in entry.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise ArgumentsError(f"{name}: {wrong!r} of a reply must be a text, not {schema.shown(entry[wrong])}")
    if ("reply" in entry) == ("deny" in entry):
        raise ArgumentsError(f'{name}: a reply has either "reply", the text, or "deny", the reason')
    patterns = {key: entry[key] for key in ("server", "message") if key in entry}
    return _Reply(entry.get("reply"), entry.get("model", name), entry.get("deny", ""), **patterns)
