"""Chat models that answer in this process, and the one that plays fixed turns: to test graphs, and to show one."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from mcp_magic._text import plural
from mcp_magic.errors import ModelError
from mcp_magic.langchain.names import provider_name

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


Turn = str | AIMessage | Sequence[tuple[str, dict[str, Any]]] | BaseException | Callable[[list[BaseMessage]], Any]


class LocalModel(BaseChatModel):
    """A chat model that answers in this process; its turns are whole, and are streamed as a provider streams them.

    Args:
        pause: Seconds between two words of a stream.
    """

    pause: float = 0.0

    @abstractmethod
    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage | Awaitable[AIMessage]:
        """Return the turn for a conversation and the bound arguments."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Bind tools, in OpenAI's format."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        message: Any = self._turn(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        turn = self._turn(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=await turn if isawaitable(turn) else turn)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message: Any = self._turn(messages, kwargs)
        yield from _chunks(message)

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = self._turn(messages, kwargs)
        for chunk in _chunks(await turn if isawaitable(turn) else turn):
            yield chunk
            await asyncio.sleep(self.pause)  # also without a pause: the page shows each word


def call_chunks(message: AIMessage) -> list[Any]:
    """Return the calls of a message as the last chunk of a stream has them."""
    calls = [(call["name"], json.dumps(call["args"]), call["id"]) for call in message.tool_calls]
    calls += [(call["name"] or "", call["args"] or "", call["id"]) for call in message.invalid_tool_calls]
    return [{"name": name, "args": args, "id": id_, "index": index} for index, (name, args, id_) in enumerate(calls)]


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield a message word by word, then the calls and the usage."""
    pieces = re.findall(r"\S+\s*|\s+", message.content) if isinstance(message.content, str) else []
    for piece in pieces:
        yield ChatGenerationChunk(message=AIMessageChunk(content=piece, id=message.id))
    last = AIMessageChunk(
        content=message.content if not isinstance(message.content, str) else "",
        id=message.id,
        tool_call_chunks=call_chunks(message),
        additional_kwargs=message.additional_kwargs,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )
    yield ChatGenerationChunk(message=last)


class Seen(NamedTuple):
    """What the model got for a turn: the messages, the tools in OpenAI's format, and other bound arguments."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]]
    kwargs: dict[str, Any]


class ScriptedModel(LocalModel):
    """A model that plays one turn after the other, whatever the request.

    Args:
        turns: Each is a text, an `AIMessage`, calls as `[("server:tool", {arguments}), ...]`, an error to raise, or a
            function that returns one of these (or an awaitable of one) for the messages. Only an `AIMessage` can have
            usage: nothing else counts tokens.
        pause: Seconds between two words of a stream.
        repeat_last: Whether the last turn repeats; otherwise a further turn is an error.
    """

    turns: list[Any]
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

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage | Awaitable[AIMessage]:
        number = len(self._seen)
        others = {name: value for name, value in kwargs.items() if name != "tools"}
        self._seen.append(Seen(list(messages), kwargs.get("tools", []), others))
        if self.repeat_last and self.turns:
            number = min(number, len(self.turns) - 1)
        if number >= len(self.turns):
            raise ModelError(
                f"the script is over: it has {plural(len(self.turns), 'turns')}, and a further one was asked for. To "
                "begin again, run the cell that makes the model, or type `model = ScriptedModel(model.turns)`."
            )
        turn = self.turns[number]
        turn = turn(messages) if callable(turn) else turn
        return _later(turn) if isawaitable(turn) else _message(turn)


async def _later(turn: Awaitable[Any]) -> AIMessage:
    return _message(await turn)


def _message(turn: Any) -> AIMessage:
    if isinstance(turn, BaseException):
        raise turn
    if isinstance(turn, AIMessage):
        return turn.model_copy(update={"id": turn.id or f"turn_{uuid.uuid4().hex}"})
    if isinstance(turn, str):
        return AIMessage(turn)
    calls: list[Any] = []
    for name, arguments in turn:
        server, colon, tool = name.partition(":")
        model_name = provider_name(server, tool) if colon else name
        calls.append({"name": model_name, "args": arguments, "id": f"call_{uuid.uuid4().hex[:12]}"})
    return AIMessage("", tool_calls=calls)
