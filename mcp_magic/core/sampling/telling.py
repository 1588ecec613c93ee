"""What became of a request for a model's words: for the person, who is told why, and for the server, who is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.results.safe import one_line
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from mcp_types import ErrorData

    from mcp_magic.core.sampling.sampling import Sampled, SamplingRequest

__all__ = ["Problem", "failed", "is_round", "said", "told", "wire_error"]


@dataclass(frozen=True)
class Problem:
    """What is answered instead of a reply: the protocol's error, and why, for the person alone.

    Attributes:
        is_logged: Whether it is worth a log message.
    """

    code: int
    text: str
    why: str
    is_logged: bool = True


def failed(error: Exception) -> str:
    """Say that the sampler failed."""
    return f"the sampler failed: {type(error).__name__}: {one_line(str(error), 300)}"


def said(asked: SamplingRequest) -> str:
    """Say what was asked for, without the texts."""
    count = counted(len(asked.messages), "messages")
    tools = f", {counted(len(asked.tools), 'tools')}" if asked.tools else ""
    return f"sampling ({count}{tools}, at most {asked.max_tokens:,} tokens)"


def told(asked: SamplingRequest, reply: Sampled) -> str:
    """Say who answered and how, without the text."""
    unasked = ", not asked about" if asked.unasked else ""
    notes = "".join(f"; {one_line(note, 200)}" for note in reply.notes)
    return f"answered by {one_line(reply.model, 80)}, {one_line(reply.stop_reason, 40)}{unasked}{notes}"


def is_round(context: Any) -> bool:
    """Whether the error stays here: in an `input_required` round it ends the call, and the server never sees it."""
    return getattr(getattr(context, "session", None), "discover_result", None) is not None


def wire_error(problem: Problem, *, local: bool) -> ErrorData:
    """Return the protocol's error; with `local` it says why."""
    from mcp_types import ErrorData

    message = f"{problem.text}: {problem.why}" if local and problem.why != problem.text else problem.text
    return ErrorData(code=problem.code, message=message)
