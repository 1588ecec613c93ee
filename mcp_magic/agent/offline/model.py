"""The chat model without weights."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from mcp_magic.agent.offline.conversation import ASKED, conversation
from mcp_magic.agent.offline.planning import plan
from mcp_magic.agent.offline.ranking import Ranking
from mcp_magic.agent.offline.tools import known_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.runnables import Runnable

__all__ = ["CHARACTERS_A_TOKEN", "OfflineModel"]

CHARACTERS_A_TOKEN = 4
"""What a token is taken for when usage is counted: a rule of thumb, since nothing is tokenised here."""


class OfflineModel(BaseChatModel):
    """A chat model with no weights, for tutorials and tests: deterministic, and without a network.

    It understands requests that name or clearly describe tools: it ranks the tools by their definitions, fills
    their arguments by schema from what the request mentions and from earlier results, takes several steps, and
    answers from the results. It asks back when a required argument is missing, and says when no tool fits. What
    system messages say is not followed. `usage_metadata` is counted in characters (`CHARACTERS_A_TOKEN`).

    >>> tool = {"name": "math__add", "description": "Add two numbers.", "parameters": {
    ...     "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}
    >>> OfflineModel().bind_tools([tool]).invoke("What is 3 plus 4?").tool_calls[0]["args"]
    {'a': 3, 'b': 4}
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": "offline"}

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Return the model with tools.

        Args:
            tools: As any chat model takes them; the names of the servers come from `server__tool`, or from a tool's
                metadata ("server", "tool").
            **kwargs: Taken and not used, such as `tool_choice`.
        """
        return self.bind(tools=[_bound(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = _message(messages, kwargs.get("tools") or [])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(_message(messages, kwargs.get("tools") or []))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(_message(messages, kwargs.get("tools") or [])):
            yield chunk
            await asyncio.sleep(0)  # so that whoever shows the words comes to it


def _bound(tool: Any) -> dict[str, Any]:
    bound = dict(convert_to_openai_tool(tool))
    about = tool.metadata if isinstance(tool, BaseTool) and isinstance(tool.metadata, dict) else {}
    return bound | {name: about[name] for name in ("server", "tool") if isinstance(about.get(name), str)}


def _message(messages: Sequence[BaseMessage], bound: Sequence[dict[str, Any]]) -> AIMessage:
    tools = known_tools(bound)
    state = conversation(messages, {tool.name: tool.person for tool in tools})
    done = plan(state, Ranking(tools))
    calls = [
        {"name": name, "args": arguments, "id": _call_id(len(messages), number, name)}
        for number, (name, arguments) in enumerate(done.calls)
    ]
    return AIMessage(
        content=done.text,
        tool_calls=calls,
        additional_kwargs={ASKED: done.asked.kept()} if done.asked else {},
        response_metadata={"model_name": "offline", "finish_reason": "tool_calls" if calls else "stop"},
        usage_metadata=_usage(messages, bound, done.text, calls),
    )


def _call_id(position: int, number: int, name: str) -> str:
    """Return an id that is the same for the same call at the same place of a conversation."""
    return "call_" + hashlib.sha256(f"{position} {number} {name}".encode()).hexdigest()[:16]


def _usage(
    messages: Sequence[BaseMessage], bound: Sequence[dict[str, Any]], text: str, calls: Sequence[dict[str, Any]]
) -> UsageMetadata:
    said = sum(len(message.text) + len(_json(getattr(message, "tool_calls", []) or "")) for message in messages)
    read = -(-(said + len(_json(bound))) // CHARACTERS_A_TOKEN)
    written = -(-(len(text) + sum(len(_json(call)) for call in calls)) // CHARACTERS_A_TOKEN)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield a message as a provider streams it: word by word, then the calls, then the usage."""
    for word in re.findall(r"\S+\s*|\s+", str(message.content)):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    for index, call in enumerate(message.tool_calls):
        part = {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))  # type: ignore[list-item]
    last = AIMessageChunk(
        content="",
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=last)
