"""A chat model that plays fixed turns: to test graphs, and to show one step by step."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from mcp_magic.errors import ModelError
from mcp_magic.langchain.names import provider_name

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.runnables import Runnable

__all__ = ["ScriptedModel", "Seen"]

Turn = str | AIMessage | Sequence[tuple[str, dict[str, Any]]] | BaseException | Callable[[list[BaseMessage]], Any]


class Seen(NamedTuple):
    """What the model got for a turn: the messages, the tools in OpenAI's format, and other bound arguments."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]]
    kwargs: dict[str, Any]


class ScriptedModel(BaseChatModel):
    """A model that plays one turn after the other, whatever the request.

    Args:
        turns: Each is a text, an `AIMessage`, calls as `[("server:tool", {arguments}), ...]`, an error to raise, or a
            function that returns one of these (or an awaitable of one) for the messages.
        pause: Seconds between two words of a stream.
        repeat_last: Whether the last turn repeats; otherwise a further turn is an error.
    """

    turns: list[Any]
    pause: float = 0.0
    repeat_last: bool = False
    _seen: list[Seen] = PrivateAttr(default_factory=list)

    def __init__(self, turns: Sequence[Turn], **kwargs: Any) -> None:
        super().__init__(turns=list(turns), **kwargs)  # type: ignore[call-arg]

    @property
    def seen(self) -> list[Seen]:
        """What the model got for each turn so far."""
        return self._seen

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind tools; they are recorded in `seen`, and the turns may call any tool."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(self._turn(messages, kwargs)))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = self._turn(messages, kwargs)
        message = self._message(await turn if hasattr(turn, "__await__") else turn)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(self._message(self._turn(messages, kwargs)))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(messages, kwargs)
        for chunk in _chunks(self._message(await turn if hasattr(turn, "__await__") else turn)):
            if run_manager is not None:
                await run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk
            await asyncio.sleep(self.pause)

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Any:
        number = len(self._seen)
        others = {name: value for name, value in kwargs.items() if name != "tools"}
        self._seen.append(Seen(list(messages), kwargs.get("tools", []), others))
        if self.repeat_last and self.turns:
            number = min(number, len(self.turns) - 1)
        if number >= len(self.turns):
            raise ModelError(f"the script is over: it has {len(self.turns)} turns, and a further one was asked for.")
        turn = self.turns[number]
        return turn(messages) if callable(turn) else turn

    def _message(self, turn: Any) -> AIMessage:
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, AIMessage):
            return turn.model_copy(update={"id": turn.id or f"turn_{uuid.uuid4().hex}"})
        usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        if isinstance(turn, str):
            return AIMessage(turn, usage_metadata=usage)
        calls = [{"name": _name(name), "args": args, "id": f"call_{uuid.uuid4().hex[:12]}"} for name, args in turn]
        return AIMessage("", tool_calls=calls, usage_metadata=usage)


def _name(name: str) -> str:
    server, colon, tool = name.partition(":")
    return provider_name(server, tool) if colon else name


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    pieces = re.findall(r"\S+\s*|\s+", message.content) if isinstance(message.content, str) else []
    for piece in pieces:
        yield ChatGenerationChunk(message=AIMessageChunk(content=piece, id=message.id))
    calls: list[Any] = [
        {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
        for index, call in enumerate(message.tool_calls)
    ]
    last = AIMessageChunk(
        content=message.content if not isinstance(message.content, str) else "",
        id=message.id,
        tool_call_chunks=calls + _broken(message),
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=last)


def _broken(message: AIMessage) -> list[Any]:
    start = len(message.tool_calls)
    return [
        {"name": call["name"], "args": call["args"], "id": call["id"], "index": start + index}
        for index, call in enumerate(message.invalid_tool_calls)
    ]
