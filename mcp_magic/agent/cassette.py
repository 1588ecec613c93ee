"""Records the turns of chat models on a cassette and replays them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk

from mcp_magic.agent.conversation import for_provider, unbound
from mcp_magic.agent.failures import model_error, model_name
from mcp_magic.agent.scripted import LocalModel, call_chunks
from mcp_magic.cassette.cassette import deck, masked, tenths
from mcp_magic.cassette.match import difference
from mcp_magic.display.text import one_line
from mcp_magic.errors import CassetteError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel, ModelProfile
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from mcp_magic.cassette.cassette import Cassette


# Conversion of a model's answers to lines of a cassette and back.

_FIELDS = ("content", "additional_kwargs", "response_metadata", "usage_metadata", "id", "name", "chunk_position")
_CALLS = ("tool_calls", "invalid_tool_calls")


def message_fields(message: Any) -> dict[str, Any]:
    """Return the fields of a message or chunk that a line stores."""
    names = (*_FIELDS, "tool_call_chunks") if isinstance(message, AIMessageChunk) else (*_FIELDS, *_CALLS)
    fields = {name: getattr(message, name, None) for name in names}
    return {name: value for name, value in fields.items() if value or name == "content"}


def hidden(cassette: Cassette, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of an answer with secrets masked; if a secret spans chunks, they become one answer."""
    if not parts or "answer" in parts[0]:
        return [{**part, "answer": _masked(cassette, part["answer"])} for part in parts]
    message = _joined([part["chunk"] for part in parts])
    fields = message_fields(message)
    if (masked_fields := _masked(cassette, fields)) != json.loads(json.dumps(fields, default=str)):
        return [{"answer": masked_fields}]
    return [{**part, "chunk": _masked(cassette, part["chunk"])} for part in parts]


def _masked(cassette: Cassette, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its secrets masked; token counts stay, though "tokens" looks like the name of a secret."""
    result: dict[str, Any] = masked(cassette, fields, "")
    plain = json.loads(json.dumps(fields, default=str))
    for name in ("usage_metadata", "response_metadata"):
        for inner, value in plain.get(name, {}).items():
            if name == "usage_metadata" or "usage" in inner:
                result[name][inner] = value
    return result


def _joined(chunks: list[dict[str, Any]]) -> AIMessage:
    first, *others = [AIMessageChunk(**chunk) for chunk in chunks]
    message = message_chunk_to_message(add_ai_message_chunks(first, *others))
    assert isinstance(message, AIMessage)
    return message


def chunks(turn: Turn) -> Iterator[tuple[float, ChatGenerationChunk]]:
    """Yield a turn's chunks, each with the pause before it."""
    for part in turn.parts:
        if "chunk" in part:
            chunk = AIMessageChunk(**part["chunk"])
        else:
            message = AIMessage(**part["answer"])
            stored = {name: value for name, value in message_fields(message).items() if name not in _CALLS}
            chunk = AIMessageChunk(**stored | {"tool_call_chunks": call_chunks(message), "chunk_position": "last"})
        yield float(part.get("pause", 0.0)), ChatGenerationChunk(message=chunk)


# The turns on a cassette: writing them, and finding the one that a request matches.
#
# A request matches a turn if model, messages, tools and stop sequences are equal. Ids of messages and calls (calls are
# numbered in order), metadata and token counts do not count; secrets are masked. A turn that is requested more often
# than it was recorded gives the last recording again.

MOST_MESSAGES = 1_000_000
MOST_CHARACTERS = 256_000_000
"""Limits for the conversations of all turns together: each turn may repeat the one before and so double the total."""

_CALL_TYPES = ("tool_use", "tool_call", "function_call")  # types of content blocks that are calls


@dataclass
class ModelRequest:
    """What a model was asked, reduced to what a match compares."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[Any] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)

    @property
    def compared(self) -> dict[str, Any]:
        """The values that a match compares."""
        return {"model": self.model, "messages": self.messages, "tools": self.tools, "stop": self.stop}

    @cached_property
    def digest(self) -> str:
        """A hash that is the same for equal requests."""
        text = json.dumps([*self.compared.values()], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass
class Turn:
    """A recorded turn."""

    request: ModelRequest
    parts: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    is_complete: bool = False
    used: int = 0


class Turns:
    """The turns of one cassette."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._turns: dict[int, Turn] = {}
        self._messages = self._characters = 0
        self._sizes: dict[int, int] = {}
        for entry in cassette.content.turns:
            self._read(entry)

    def request_of(self, model: str, messages: Sequence[BaseMessage], kwargs: Mapping[str, Any]) -> ModelRequest:
        """Return the part of a request that a match compares."""
        numbers: dict[str, str] = {}
        compared = [_message(message, numbers) for message in messages]
        tools = [_tool(tool) for tool in kwargs.get("tools") or ()]
        # a tool's definition is a schema, in which "password" names a property
        return ModelRequest(
            model,
            masked(self._cassette, compared, ""),
            masked(self._cassette, tools, "tools/list"),
            list(kwargs.get("stop") or ()),
        )

    def find(self, request: ModelRequest) -> Turn | None:
        """Return the turn that was recorded for a request, or None."""
        digest = request.digest
        matches = [turn for turn in self._turns.values() if turn.is_complete and turn.request.digest == digest]
        turn = next((turn for turn in matches if not turn.used), matches[-1] if matches else None)
        if turn is not None:
            if not turn.used and not turn.error:
                self._check(turn)
            turn.used += 1
            self._cassette.played += 1
        return turn

    def profile_of(self, model: str) -> ModelProfile:
        """Return what the recorded requests tell of a model: whether it was given images of tools."""
        requests = [turn.request for turn in self._turns.values() if turn.request.model == model]
        answers = [message for request in requests for message in request.messages if message.get("role") == "tool"]
        contents = (message.get("content") for message in answers)
        parts = (part for content in contents if isinstance(content, list) for part in content)
        has_image = any(isinstance(part, dict) and part.get("type") == "image" for part in parts)
        return {"image_inputs": has_image, "image_tool_message": has_image}

    def explain(self, request: ModelRequest) -> str:
        """Return a message: which request was not recorded, and how the recording that begins like it differs."""
        last = request.messages[-1] if request.messages else {}
        text = json.dumps(last.get("content") or last.get("calls") or "", ensure_ascii=False)
        missing = f"{request.model}: a turn after {one_line(text, 100)} is not in the cassette {self._cassette.path}"
        adds = f"\n  {self._cassette.adds('what is missing')}."
        if not self._turns:
            return f"{missing}: it has no turn of a model.{adds}"
        number, _ = self._before(request)
        nearest = self._turns[number].request if number else list(self._turns.values())[-1].request
        return f"{missing}; the nearest differs: {difference(request.compared, nearest.compared)}.{adds}"

    def write(self, request: ModelRequest, parts: list[dict[str, Any]], error: str = "") -> None:
        """Write a finished turn; end the recording if the conversations of its turns would be too long to be read."""
        if not self._fits(request.messages):
            self._cassette.end()
            return
        number = max(self._turns, default=0) + 1
        head: dict[str, Any] = {"turn": number, "model": request.model, "digest": request.digest}
        before, shared = self._before(request)
        if shared:
            head["after"] = [before, shared]
        head["messages"] = request.messages[shared:]
        same = next((n for n, turn in self._turns.items() if turn.request.tools == request.tools), None)
        if request.tools:
            head["tools"] = request.tools if same is None else same
        if request.stop:
            head["stop"] = request.stop
        end = {"error": error} if error else {"done": True}
        for entry in [head, *({"turn": number, **part} for part in parts), {"turn": number, **end}]:
            self._cassette.write(entry)
        # the same run does not replay it: a model that is asked again gives another answer
        self._turns[number] = Turn(request, parts, error)

    def _before(self, request: ModelRequest) -> tuple[int, int]:
        """Return the turn that shares most leading messages with a request, and how many it shares."""
        best = (0, 0)
        for number, turn in self._turns.items():
            pairs = zip(request.messages, turn.request.messages, strict=False)
            shared = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            count = min(len(request.messages), len(turn.request.messages)) if shared is None else shared
            best = (number, count) if count > best[1] else best
        return best

    def _check(self, turn: Turn) -> None:
        try:
            parts: list[Any] = [chunk.message for _, chunk in chunks(turn)]
            add_ai_message_chunks(*parts)
        except Exception as error:
            number = next(number for number, candidate in self._turns.items() if candidate is turn)
            problem = f"the reply is not a model's answer: {one_line(f'{type(error).__name__}: {error}', 200)}"
            raise self._cassette.file.damaged(f"turn {number}", problem) from None

    def _fits(self, messages: list[dict[str, Any]]) -> bool:
        """Count the messages of one more turn, and return whether those of all turns are within the limits."""
        self._messages += len(messages)
        if self._messages <= MOST_MESSAGES:
            for message in messages:
                if id(message) not in self._sizes:
                    self._sizes[id(message)] = len(json.dumps(message))
                self._characters += self._sizes[id(message)]
        return self._messages <= MOST_MESSAGES and self._characters <= MOST_CHARACTERS

    def _read(self, entry: dict[str, Any]) -> None:
        number = entry["turn"]
        if "model" in entry:
            before, shared = entry.get("after", (0, 0))
            shared_messages = self._turns[before].request.messages[:shared] if before in self._turns else []
            tools = entry.get("tools", [])
            if isinstance(tools, int):
                tools = self._turns[tools].request.tools if tools in self._turns else []
            elif isinstance(tools, list):
                tools = [_tool(tool) for tool in tools]
            request = ModelRequest(
                entry["model"], [*shared_messages, *entry.get("messages", [])], tools, entry.get("stop", [])
            )
            if not self._fits(request.messages):
                most = f"{MOST_MESSAGES:,} messages or {MOST_CHARACTERS:,} characters"
                problem = f"the conversations up to here have more than {most}"
                raise self._cassette.file.damaged(f"turn {number}", problem)
            self._turns[number] = Turn(request)
        elif (turn := self._turns.get(number)) is not None:
            if "chunk" in entry or "answer" in entry:
                turn.parts.append(entry)
            else:
                turn.is_complete, turn.error = True, entry.get("error", "")


def turns_of(cassette: Cassette) -> Turns:
    """Return the turns of a cassette."""
    if cassette.book is None:
        cassette.book = Turns(cassette)
    book: Turns = cassette.book
    return book


def _message(message: BaseMessage, numbers: dict[str, str]) -> dict[str, Any]:
    """Return the part of a message that a match compares; ids of calls become numbers in order of appearance."""

    def number(name: Any) -> str:
        return numbers.setdefault(str(name), f"call {len(numbers) + 1}")

    fields: dict[str, Any] = {"role": message.type.removesuffix("MessageChunk").lower(), "content": message.content}
    if calls := [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]:
        fields["calls"] = [{"id": number(c.get("id")), "name": c.get("name"), "args": c.get("args")} for c in calls]
        if isinstance(message.content, list):  # some providers repeat the calls in the content
            fields["content"] = [
                part for part in message.content if not (isinstance(part, dict) and part.get("type") in _CALL_TYPES)
            ]
        fields["content"] = fields["content"] or ""
    if message.type == "tool":
        fields["answers"] = number(getattr(message, "tool_call_id", ""))
        if getattr(message, "status", "success") != "success":
            fields["status"] = message.status  # type: ignore[attr-defined]
    return fields


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return repr(type(tool))
    function = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    assert isinstance(function, dict)
    if "name" not in function:
        return tool
    parameters = function.get("parameters", function.get("input_schema"))
    described = {"name": function["name"], "description": function.get("description", "")}
    return {**described, "parameters": _without_titles(parameters or {})}


def _without_titles(schema: Any) -> Any:
    """Return a schema without titles and its dialect: what a model is given of these has changed, and may again."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    members = {
        key: value
        for key, value in schema.items()
        if not (key == "$schema" or (key == "title" and isinstance(value, str)))
    }
    return {
        key: {name: _without_titles(part) for name, part in value.items()}
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict)
        else _without_titles(value)
        for key, value in members.items()
    }


# A model's turn with a cassette in. It is written at its end, because a secret may span chunks.

SHORTENED = 0.005  # longest pause between chunks in seconds, unless the recorded pauses are kept


def stand_in(name: str) -> BaseChatModel | None:
    """Return a stand-in for a model that cannot be made here but has turns on the cassette; else None."""
    cassette = deck.cassette
    model = name.partition(":")[2] or name
    if cassette is None or not cassette.replays or model not in cassette.models:
        return None
    return StandIn(model=model, profile=turns_of(cassette).profile_of(model))


class StandIn(LocalModel):
    """A model that can only be replayed: it has a name and nothing else."""

    model: str

    @property
    def _llm_type(self) -> str:
        return "replayed"

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        raise ModelError(f"{self.model} is only replayed here: it cannot be made (is its key set?)")


class _Replay(StandIn):
    """Streams one recorded turn."""

    turn: Any
    longest: float

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for pause, chunk in chunks(self.turn):
            await asyncio.sleep(min(pause, self.longest))
            yield chunk


def answer_parts(runnable: Runnable[Any, Any], messages: list[BaseMessage]) -> AsyncIterator[Any]:
    """Return the parts of a model's answer; with a cassette in, they are recorded, or replayed with their errors."""
    cassette = deck.cassette
    if cassette is None:
        return runnable.astream(for_provider(runnable, messages))
    return _with_cassette(cassette, runnable, messages)


async def _with_cassette(
    cassette: Cassette, runnable: Runnable[Any, Any], messages: list[BaseMessage]
) -> AsyncIterator[Any]:
    model, kwargs = unbound(runnable)
    turns = turns_of(cassette)
    request = turns.request_of(model_name(model), messages, kwargs)
    recorded = turns.find(request) if cassette.replays else None
    if recorded is not None:
        if recorded.error:
            raise ModelError(recorded.error)
        replay = _Replay(model=request.model, turn=recorded, longest=math.inf if cassette.options.pauses else SHORTENED)
        async for part in replay.astream(messages):
            yield part
        return
    if not cassette.records:
        raise CassetteError(turns.explain(request))
    lines: list[dict[str, Any]] = []
    last = time.monotonic()
    try:
        async for part in runnable.astream(for_provider(runnable, messages)):
            pause, last = tenths(last)
            kind = "chunk" if isinstance(part, AIMessageChunk) else "answer"
            lines.append({kind: message_fields(part), **pause})
            yield part
    except Exception as error:
        if cassette.recording:
            turns.write(request, [], cassette.masker.text(str(model_error(error, model))))
        raise
    if cassette.recording:
        turns.write(request, hidden(cassette, lines))
