"""The agent's own tools, which are not asked about as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import did_you_mean, listed
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import result_of
from mcp_magic.langchain.large_results import READ_RESULT, read_result, spilled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from mcp.shared.dispatcher import ProgressFnT

    from mcp_magic.langchain.content import Content


class Caller(NamedTuple):
    """Who calls one of these tools, and with which call."""

    asker: str  # for consent
    run: str | None  # the run of the agent
    on_progress: ProgressFnT  # shows the progress of the call
    handle: str  # names the result if it is large


@dataclass(frozen=True)
class BuiltinTool:
    """A tool of the agent itself.

    Attributes:
        function: Name, description and parameters, as in OpenAI's functions.
        answer: Answers a call, from its arguments, the messages of the thread and the caller, with content and
            artifact. An MCPMagicError that it raises is the answer of a failed call.
        when: Whether the model is given the tool, from the messages of the thread.
    """

    function: Mapping[str, Any]
    answer: Callable[[Mapping[str, Any], Sequence[BaseMessage], Caller], Awaitable[tuple[Content, dict[str, Any]]]]
    when: Callable[[Sequence[BaseMessage]], bool] = lambda _: True

    @property
    def name(self) -> str:
        """The name, without a server: no tool of a server is called like this."""
        return str(self.function["name"])

    @property
    def bound(self) -> dict[str, Any]:
        """The tool as an OpenAI function."""
        return {"type": "function", "function": dict(self.function)}


def result_reader(limit: int) -> BuiltinTool:
    """Return `read_result`, which is given to the model once a result was too large for it."""

    async def answer(
        given: Mapping[str, Any], messages: Sequence[BaseMessage], caller: Caller
    ) -> tuple[Content, dict[str, Any]]:
        known = spilled(messages)
        handle, _, table = str(given["handle"]).partition(".")
        if handle not in known:
            near = did_you_mean(handle, known)
            raise ArgumentsError(f"no large result {one_line(handle, 60)!r}.{near} There are: {listed(known)}")
        rest = {name: value for name, value in given.items() if name != "handle"}
        return read_result(result_of(known[handle]), table, **rest, limit=limit), {}

    return BuiltinTool(READ_RESULT, answer, when=lambda messages: bool(spilled(messages)))
