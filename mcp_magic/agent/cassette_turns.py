"""The turns of chat models on a cassette: how they are written, and which one a request is.

Turns are equal that have the same model, messages, tools and stop sequences; ids of messages and of calls (numbered
by their order), metadata and counts of tokens are left out, secrets masked. A turn that is asked for more often than
it was recorded gives the last one again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette.matching import COMPARED, difference
from mcp_magic.core.cassette.take import masked
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic.core.cassette import Cassette

__all__ = ["Asked", "Turn", "Turns", "turns_of"]


MOST_MESSAGES = 1_000_000
MOST_CHARACTERS = 256_000_000
"""What the conversations of all turns may have: a turn may begin with what the one before has, and so double it."""

_CALLS = ("tool_use", "tool_call", "function_call")
"""Types of the parts of a content that are calls."""


@dataclass
class Asked:
    """What a model was asked, as far as it counts.

    Attributes:
        model: Its name.
        messages: The conversation.
        tools: What it may call.
        stop: The stop sequences.
    """

    model: str
    messages: list[dict[str, Any]]
    tools: list[Any] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)

    @cached_property
    def digest(self) -> str:
        """What equal requests have in common."""
        text = json.dumps([self.model, self.messages, self.tools, self.stop], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass
class Turn:
    """A recorded turn.

    Attributes:
        asked: What was asked.
        parts: What came, one line each: `chunk` or `answer`.
        error: What it failed with, or "".
        done: Whether it came to its end.
        used: How often it was played.
    """

    asked: Asked
    parts: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    done: bool = False
    used: int = 0


class Turns:
    """The turns of one cassette.

    Args:
        cassette: The cassette.
    """

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._turns: dict[int, Turn] = {}
        self._messages = self._characters = 0
        self._sizes: dict[int, int] = {}
        for entry in cassette.turns:
            self._read(entry)

    def asked(self, model: str, messages: Sequence[BaseMessage], stop: Any, kwargs: Mapping[str, Any]) -> Asked:
        """Return what counts of a request."""
        numbers: dict[str, str] = {}
        said = [_message(message, numbers) for message in messages]
        tools = [_tool(tool) for tool in kwargs.get("tools") or ()]
        # a tool's definition is a schema, in which "password" names a property
        return Asked(
            model,
            masked(self._cassette, said, ""),
            masked(self._cassette, tools, "tools/list"),
            list(stop or kwargs.get("stop") or ()),
        )

    def find(self, asked: Asked) -> Turn | None:
        """Return the turn that was recorded for a request, or None."""
        digest = asked.digest
        found = [turn for turn in self._turns.values() if turn.done and turn.asked.digest == digest]
        turn = next((turn for turn in found if not turn.used), found[-1] if found else None)
        if turn is not None:
            if not turn.used and not turn.error:
                self._check(turn)
            turn.used += 1
            self._cassette.played += 1
        return turn

    def explain(self, asked: Asked) -> str:
        """Say which request was not recorded, and what is nearest to it."""
        last = asked.messages[-1] if asked.messages else {}
        what = f"{asked.model}: a turn after {one_line(json.dumps(_words(last), ensure_ascii=False), 100)}"
        where = f"the cassette {self._cassette.path}"
        turns = [turn.asked for turn in self._turns.values()]
        adds = f"\n  {self._cassette.adds} adds what is missing."
        if not turns:
            return f"{what} is not in {where}: it has no turn of a model.{adds}"
        text = json.dumps(asked.messages, ensure_ascii=False)[-2000:]
        nearest = max(turns[-COMPARED:], key=lambda turn: (turn.model == asked.model, _likeness(text, turn.messages)))
        differs = _differences(asked, nearest)
        return f"{what} is not in {where}; the nearest differs: {differs}.{adds}"

    def write(self, asked: Asked, parts: list[dict[str, Any]], error: str = "") -> None:
        """Write a turn that has come to its end."""
        number = max(self._turns, default=0) + 1
        head: dict[str, Any] = {"turn": number, "model": asked.model, "digest": asked.digest}
        before, shared = self._before(asked)
        if shared:
            head["after"] = [before, shared]
        head["messages"] = asked.messages[shared:]
        same = next((n for n, turn in self._turns.items() if turn.asked.tools == asked.tools), None)
        if asked.tools:
            head["tools"] = asked.tools if same is None else same
        if asked.stop:
            head["stop"] = asked.stop
        end = {"error": error} if error else {"done": True}
        for entry in [head, *({"turn": number, **part} for part in parts), {"turn": number, **end}]:
            self._cassette.write(entry)
        # it is not played in the same run: whoever asks the same again wants another answer
        self._turns[number] = Turn(asked, parts, error)

    def _before(self, asked: Asked) -> tuple[int, int]:
        """Return the turn whose messages a request goes on from, and how many of them."""
        best = (0, 0)
        for number, turn in self._turns.items():
            pairs = zip(asked.messages, turn.asked.messages, strict=False)
            shared = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            count = min(len(asked.messages), len(turn.asked.messages)) if shared is None else shared
            best = (number, count) if count > best[1] else best
        return best

    def _check(self, turn: Turn) -> None:
        """Refuse a turn whose parts are none of a model."""
        from mcp_magic.agent.cassette_parts import whole

        problem = ""
        try:
            whole(turn)
        except Exception as error:
            problem = one_line(f"{type(error).__name__}: {error}", 200)
        if problem:
            number = next(number for number, each in self._turns.items() if each is turn)
            raise self._cassette.file.damaged(f"turn {number}", f"what came is no answer of a model: {problem}")

    def _count(self, number: int, messages: list[dict[str, Any]]) -> None:
        self._messages += len(messages)
        if self._messages <= MOST_MESSAGES:
            for message in messages:
                if id(message) not in self._sizes:
                    self._sizes[id(message)] = len(json.dumps(message))
                self._characters += self._sizes[id(message)]
        if self._messages > MOST_MESSAGES or self._characters > MOST_CHARACTERS:
            most = f"{MOST_MESSAGES:,} messages or {MOST_CHARACTERS:,} characters"
            raise self._cassette.file.damaged(f"turn {number}", f"the conversations up to here have more than {most}")

    def _read(self, entry: dict[str, Any]) -> None:
        number = entry["turn"]
        if "model" in entry:
            before, shared = entry.get("after", (0, 0))
            kept = self._turns[before].asked.messages[:shared] if before in self._turns else []
            tools = entry.get("tools", [])
            if isinstance(tools, int):
                tools = self._turns[tools].asked.tools if tools in self._turns else []
            asked = Asked(entry["model"], [*kept, *entry.get("messages", [])], tools, entry.get("stop", []))
            self._count(number, asked.messages)
            self._turns[number] = Turn(asked)
        elif (turn := self._turns.get(number)) is not None:
            if "chunk" in entry or "answer" in entry:
                turn.parts.append(entry)
            else:
                turn.done, turn.error = True, entry.get("error", "")


def turns_of(cassette: Cassette) -> Turns:
    """Return the turns of a cassette."""
    if cassette.book is None:
        cassette.book = Turns(cassette)
    book: Turns = cassette.book
    return book


def _message(message: BaseMessage, numbers: dict[str, str]) -> dict[str, Any]:
    """Return what counts of a message; ids of calls are numbered in the order in which they come."""

    def number(name: Any) -> str:
        return numbers.setdefault(str(name), f"call {len(numbers) + 1}")

    found: dict[str, Any] = {"role": message.type.removesuffix("MessageChunk").lower(), "content": message.content}
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    if calls:
        found["calls"] = [{"id": number(c.get("id")), "name": c.get("name"), "args": c.get("args")} for c in calls]
        if isinstance(message.content, list):  # some providers have the calls in the content, too
            found["content"] = [
                part for part in message.content if not (isinstance(part, dict) and part.get("type") in _CALLS)
            ]
        found["content"] = found["content"] or ""
    if message.type == "tool":
        found["answers"] = number(getattr(message, "tool_call_id", ""))
        if getattr(message, "status", "success") != "success":
            found["status"] = message.status  # type: ignore[attr-defined]
    return found


def _tool(tool: Any) -> Any:
    """Return a tool's name, description and parameters from the formats of the providers."""
    if not isinstance(tool, dict):
        return repr(type(tool))
    function = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    assert isinstance(function, dict)
    if "name" not in function:
        return tool
    parameters = function.get("parameters", function.get("input_schema"))
    return {"name": function["name"], "description": function.get("description", ""), "parameters": parameters or {}}


def _likeness(text: str, messages: list[dict[str, Any]]) -> float:
    other = json.dumps(messages, ensure_ascii=False)[-2000:]
    return SequenceMatcher(None, text, other, autojunk=False).ratio()


def _words(message: dict[str, Any]) -> Any:
    return message.get("content") or message.get("calls") or ""


def _differences(asked: Asked, nearest: Asked) -> str:
    if asked.model != nearest.model:
        return f"it was asked of {nearest.model}"
    if len(asked.messages) != len(nearest.messages):
        return f"it has {len(nearest.messages)} messages, this one {len(asked.messages)}"
    if asked.messages != nearest.messages:
        return difference({"messages": asked.messages}, {"messages": nearest.messages})
    names = [[tool.get("name") for tool in each.tools if isinstance(tool, dict)] for each in (asked, nearest)]
    if names[0] != names[1]:
        return difference({"tools": ", ".join(map(str, names[0]))}, {"tools": ", ".join(map(str, names[1]))})
    return difference({"tools": asked.tools, "stop": asked.stop}, {"tools": nearest.tools, "stop": nearest.stop})
