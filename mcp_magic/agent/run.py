"""One run of an agent: what comes of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.messages import calls_frame, get_final_answer, usage_of
from mcp_magic.results.parts import mimebundle
from mcp_magic.wording import counted, duration

if TYPE_CHECKING:
    import pandas as pd
    from langchain_core.messages import BaseMessage

    from mcp_magic.agent.transcript import Transcript
    from mcp_magic.results import ToolResult

__all__ = ["AgentRun"]


@dataclass
class AgentRun:
    """What an agent did about a request; displays its transcript.

    Attributes:
        request: What was asked.
        thread: The thread's name; `--thread NAME` goes on with it.
        model: The model's name.
        messages: The messages of this run, the request first; LangChain messages.
        transcript: What is shown of it.
        seconds: How long it took.
        stopped: Why it ended before the work was done (`"interrupted"`, `"error"`, `"max_steps"`), or "".
    """

    request: str
    thread: str
    model: str
    transcript: Transcript
    messages: list[BaseMessage] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""

    @property
    def broken_off(self) -> bool:
        """Whether it was interrupted or failed: what it is the value of has raised."""
        return self.stopped in ("interrupted", "error")

    @property
    def answer(self) -> str:
        """The final answer, Markdown; "" if there is none."""
        return get_final_answer(self.messages)

    @property
    def calls(self) -> pd.DataFrame:
        """The tool calls: step, server, tool, arguments, approved by, seconds, error."""
        return calls_frame(self.transcript)

    @property
    def results(self) -> list[ToolResult | None]:
        """What the calls answered, in order; None for one that was not answered."""
        return self.transcript.results

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens that the model counted."""
        return usage_of(self.messages)

    def __repr__(self) -> str:
        calls = counted(len(self.transcript.calls), "calls")
        state = f", {self.stopped}" if self.stopped else ""
        return f"<AgentRun {self.thread}: {calls}, {duration(self.seconds)}{state}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self.transcript, include, exclude)
