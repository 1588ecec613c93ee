"""The value that a run of an agent returns, and views of any agent's messages and tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import duration, plural
from mcp_magic.agent.calls import asked_calls
from mcp_magic.agent.cost import cost_of
from mcp_magic.agent.entries import TOKENS, model_of, text_of, tokens_of
from mcp_magic.agent.program import to_user_value
from mcp_magic.agent.transcript import Transcript, messages_of
from mcp_magic.display.arguments import hidden_arguments
from mcp_magic.display.document import mimebundle, tool_badges
from mcp_magic.display.listing import Listing
from mcp_magic.display.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.utils import MessageLikeRepresentation
    from langchain_core.tools import BaseTool
    from mcp_types import Tool

    from mcp_magic.agent.program import Program
    from mcp_magic.results.results import ToolResult


# Views of messages and tools, of this package's agent or any other.

CALL_COLUMNS = ("turn", "server", "tool", "arguments", "approved by", "seconds", "error")

DESCRIPTION = 200  # characters of a tool's description in the listing


def get_final_answer(messages: Iterable[MessageLikeRepresentation]) -> str:
    """Return the text of the model's last message that asks for no tool, or ""."""
    for message in reversed(messages_of(messages)):
        if message.type in ("ai", "AIMessageChunk") and not asked_calls(message) and (text := text_of(message)):
            return text
    return ""


def display_messages(
    messages: Iterable[MessageLikeRepresentation],
    trace: bool = True,
    tokens: bool = True,
    *,
    definitions: Mapping[str, Tool] | None = None,
) -> Transcript:
    """Return a conversation as a transcript, which displays itself.

    Args:
        messages: LangChain messages, or dicts in OpenAI's format.
        trace: Whether to show calls and the text between them, or only requests and answers.
        tokens: Whether to show the tokens of all turns.
        definitions: The servers' definitions of tools, by `server:tool`.
    """
    show = "full" if trace else "answer"
    return Transcript.from_messages(messages, show=show, tokens=tokens, definitions=definitions)


def usage_of(messages: Iterable[MessageLikeRepresentation]) -> dict[str, Any]:
    """Return `input_tokens`, `output_tokens`, `total_tokens`, and the same by model in `models`.

    Counts are 0 if no message reports any; `models` has only models whose name is known.
    """
    total = dict.fromkeys(TOKENS, 0)
    models: dict[str, dict[str, int]] = {}
    for message in messages_of(messages):
        counts = tokens_of(message)
        name = model_of(message) if counts else ""
        for sums in (total, models.setdefault(name, dict.fromkeys(TOKENS, 0))) if name else (total,):
            for key, count in counts.items():
                sums[key] += count
    return {**total, "models": models}


def calls_frame(messages: Iterable[MessageLikeRepresentation] | Transcript) -> pd.DataFrame:
    """Return the calls as a DataFrame with `CALL_COLUMNS`, one row each, in order.

    `turn` is the turn of the model (from 1 within each request), `arguments` a dict of the sent arguments with secrets
    masked; unknown `seconds` are NaN and unknown `approved by` None; `error` is None for a successful call.
    """
    import pandas as pd

    transcript = messages if isinstance(messages, Transcript) else Transcript.from_messages(messages)
    rows = []
    for call in transcript.calls:
        arguments = hidden_arguments(call.final_arguments, call.definition)
        by = call.decision.by or None if call.decision is not None and call.decision.approved else None
        rows.append((call.turn, call.server, call.tool, arguments, by, call.seconds, call.error or None))
    # dtype object: in a column of text, pandas would convert None to NaN
    frame = pd.DataFrame(rows, columns=list(CALL_COLUMNS), dtype=object)
    return frame.astype({"turn": "int64", "seconds": "float64"})


def tools_summary(tools: Iterable[BaseTool | dict[str, Any] | Any]) -> Listing:
    """Return tools as a listing: name, description, arguments, and the hints of tools of MCP servers."""
    rows = [_tool_row(tool) for tool in tools]
    return Listing(rows, title="tools", columns=["tool", "description", "arguments", "hints"], kind="tools")


def _tool_row(tool: Any) -> dict[str, Any]:
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from mcp_types import Tool, ToolAnnotations

    function = convert_to_openai_tool(tool).get("function", {})
    metadata = getattr(tool, "metadata", None) or {}
    server, name = metadata.get("server"), metadata.get("tool")
    row: dict[str, Any] = {
        "tool": f"{server}:{name}" if server and name else str(function.get("name", "")),
        "description": one_line(str(function.get("description", "")), DESCRIPTION),
        "arguments": _arguments_text(function.get("parameters") or {}),
    }
    if "annotations" in metadata:
        hints = ToolAnnotations.model_validate(metadata["annotations"] or {})
        row["hints"] = list(tool_badges(Tool(name="", input_schema={}, annotations=hints)))
    return row


def _arguments_text(parameters: dict[str, Any]) -> str:
    """Return arguments in the form of a signature."""
    parts = []
    for argument in schema.input_root(parameters).children:
        text = f"{one_line(argument.name, 40)}: {one_line(argument.type_text, 60)}"
        parts.append(text if argument.is_mandatory else f"[{text}]")
    return ", ".join(parts)


# The value of one run.


@dataclass
class AgentRun:
    """A run of an agent for one request; displays its transcript.

    Attributes:
        request: The user's text.
        thread: The thread's name; `--thread NAME` goes on with it.
        model: The model's name.
        messages: The LangChain messages of this run, beginning with the request.
        transcript: The transcript of this run.
        seconds: How long the run took.
        programs: The programs that the model wrote, in order.
        stopped: Why the run ended early (`"stopped"` by you, `"interrupted"`, `"error"`, `"max_turns"`, `"max_tokens"`,
            `"max_cost"`), or "".
    """

    request: str
    thread: str
    model: str = ""
    transcript: Transcript = field(default_factory=Transcript)
    messages: list[BaseMessage] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""
    programs: list[Program] = field(default_factory=list)

    @property
    def broken_off(self) -> bool:
        """Whether the run was interrupted or failed, and so raised."""
        return self.stopped in ("interrupted", "error")

    @property
    def answer(self) -> str:
        """The final answer in Markdown, or ""."""
        return get_final_answer(self.messages)

    @property
    def calls(self) -> pd.DataFrame:
        """The tool calls: turn, server, tool, arguments, approved by, seconds, error."""
        return calls_frame(self.transcript)

    @property
    def results(self) -> list[ToolResult | None]:
        """The results of the calls, in order; None for an unanswered call."""
        return self.transcript.results

    @property
    def code(self) -> str:
        """The last program, or ""."""
        return self.programs[-1].code if self.programs else ""

    @property
    def value(self) -> Any:
        """The value of the last program that has one; a DataFrame if it is a table."""
        values = [program.value for program in self.programs if program.value is not None]
        return to_user_value(values[-1]) if values else None

    @property
    def variables(self) -> dict[str, Any]:
        """What the programs assigned, by name; tables are DataFrames."""
        return {name: to_user_value(value) for program in self.programs for name, value in program.variables.items()}

    @property
    def usage(self) -> dict[str, Any]:
        """The token counts that the model reports, and `cost` in US dollars where its prices are known."""
        cost = cost_of(self.messages, self.model)
        return usage_of(self.messages) | ({} if cost is None else {"cost": cost})

    def __repr__(self) -> str:
        calls = plural(len(self.transcript.calls), "calls")
        state = f", {self.stopped}" if self.stopped else ""
        return f"<AgentRun {self.thread}: {calls}, {duration(self.seconds)}{state}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self.transcript, include, exclude)
