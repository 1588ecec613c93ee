"""Chat models whose turns go onto the cassette that is in, or come from it.

A recorded model is a copy of the model whose class has the methods below in front of its own: it stays what it is for
whoever asks for its kind, its fields or how it binds tools. What a turn streams is kept chunk by chunk and written
when it has come to its end, because a secret may be spread over chunks.
"""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.utils.function_calling import convert_to_openai_tool

from mcp_magic.agent.cassette_parts import chunks, hidden, message_fields, whole
from mcp_magic.agent.cassette_turns import Asked, Turn, turns_of
from mcp_magic.agent.modelerrors import model_error, model_name
from mcp_magic.core.cassette import tenths
from mcp_magic.core.cassette.deck import deck
from mcp_magic.errors import CassetteError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable

    from mcp_magic.core.cassette import Cassette

__all__ = ["recorded", "stand_in"]

SHORTENED = 0.005
"""Seconds that a pause between chunks takes at most, unless the recorded ones are kept."""


def recorded(model: BaseChatModel) -> BaseChatModel:
    """Return a model that is recorded, or replayed; the same one if no cassette is in."""
    if deck.cassette is None or isinstance(model, _Recorded):
        return model
    return _as(model, _kind(type(model)))


def stand_in(name: str) -> BaseChatModel | None:
    """Return what stands for a model that cannot be made here but has turns on the cassette; else None.

    Args:
        name: `"PROVIDER:NAME"`.
    """
    cassette = deck.cassette
    called = name.partition(":")[2] or name
    if cassette is None or not cassette.replays or called not in cassette.models:
        return None
    return StandIn(model=called)


class StandIn(BaseChatModel):
    """Has a model's name and nothing else."""

    model: str

    @property
    def _llm_type(self) -> str:
        return "replayed"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind tools, in OpenAI's format."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise ModelError(f"{self.model} is only replayed here: it cannot be made (is its key set?)")

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        yield from ()
        self._generate()


class _Recorded:
    """What a recorded model does instead of its own class, for those that give whole messages."""

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        made = _Made.begin(self, messages, stop, kwargs)
        if made is None:
            return _raw(self)._generate(messages, stop=stop, run_manager=run_manager, **kwargs)
        if made.turn is not None:
            return whole(made.turn)
        with made:
            result = _raw(self)._generate(messages, stop=stop, **kwargs)
            made.answered(result)
        return result

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        made = _Made.begin(self, messages, stop, kwargs)
        if made is None:
            return await _raw(self)._agenerate(messages, stop=stop, run_manager=run_manager, **kwargs)
        if made.turn is not None:
            return whole(made.turn)
        with made:
            result = await _raw(self)._agenerate(messages, stop=stop, **kwargs)
            made.answered(result)
        return result


class _Streamed(_Recorded):
    """The same for models that stream."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        made = _Made.begin(self, messages, stop, kwargs)
        if made is None:
            yield from _raw(self)._stream(messages, stop=stop, **kwargs)
        elif made.turn is not None:
            for pause, chunk in chunks(made.turn):
                time.sleep(made.pause(pause))
                yield chunk
        else:
            with made:
                for chunk in _raw(self)._stream(messages, stop=stop, **kwargs):
                    made.came(chunk)
                    yield chunk

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        made = _Made.begin(self, messages, stop, kwargs)
        if made is not None and made.turn is not None:
            for pause, chunk in chunks(made.turn):
                await asyncio.sleep(made.pause(pause))
                yield chunk
        elif made is None:
            async for chunk in _raw(self)._astream(messages, stop=stop, **kwargs):
                yield chunk
        else:
            with made:
                async for chunk in _raw(self)._astream(messages, stop=stop, **kwargs):
                    made.came(chunk)
                    yield chunk


@lru_cache(maxsize=64)
def _kind(cls: type[BaseChatModel]) -> type[BaseChatModel]:
    streams = cls._stream is not BaseChatModel._stream or cls._astream is not BaseChatModel._astream
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (_Streamed if streams else _Recorded, cls), names)


def _as(model: BaseChatModel, cls: type) -> BaseChatModel:
    """Return a copy of a model that is of another class; what it holds is shared."""
    made = model.model_copy()
    object.__setattr__(made, "__class__", cls)
    return made


def _raw(model: Any) -> Any:
    """Return a recorded model as it was, with what has been changed of it since."""
    return _as(model, type(model).__bases__[1])


class _Made:
    """One turn that is made now.

    Attributes:
        turn: What was recorded for it, or None: then the model is asked.
    """

    def __init__(self, cassette: Cassette, asked: Asked, turn: Turn | None, model: Any) -> None:
        self._cassette, self._asked, self._model = cassette, asked, model
        self.turn = turn
        self._parts: list[dict[str, Any]] = []
        self._last = time.monotonic()
        self._ended = False

    @classmethod
    def begin(cls, model: Any, messages: list[BaseMessage], stop: Any, kwargs: dict[str, Any]) -> _Made | None:
        """Look a turn up; None if no cassette is in.

        Raises:
            CassetteError: It was not recorded, and is only to be replayed.
            ModelError: The model failed when it was recorded.
        """
        cassette = deck.cassette
        if cassette is None:
            return None
        turns = turns_of(cassette)
        asked = turns.asked(model_name(model), messages, stop, kwargs)
        turn = turns.find(asked) if cassette.replays else None
        if turn is None and not cassette.records:
            raise CassetteError(turns.explain(asked))
        if turn is not None and turn.error:
            raise ModelError(turn.error)
        return cls(cassette, asked, turn, model)

    def pause(self, recorded: float) -> float:
        """Return the seconds to wait where the recording has a pause."""
        return recorded if self._cassette.pauses else min(recorded, SHORTENED)

    def came(self, chunk: ChatGenerationChunk) -> None:
        """Keep a chunk."""
        pause, self._last = tenths(self._last)
        self._parts.append({"chunk": message_fields(chunk.message), **pause})
        self._ended = self._ended or getattr(chunk.message, "chunk_position", None) == "last"

    def answered(self, result: ChatResult) -> None:
        """Keep a whole answer."""
        pause, self._last = tenths(self._last)
        self._parts.append({"answer": message_fields(result.generations[0].message), **pause})

    def __enter__(self) -> _Made:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: object) -> None:
        if self._cassette.ejected or not (exc is None or isinstance(exc, Exception | GeneratorExit)):
            return
        turns = turns_of(self._cassette)
        if isinstance(exc, Exception):
            error = model_error(exc, self._model)
            turns.write(self._asked, [], self._cassette.masker.text(str(error)))
        elif exc is None or self._ended:  # whoever reads a stream may leave it behind its last chunk
            turns.write(self._asked, hidden(self._cassette, self._parts))
