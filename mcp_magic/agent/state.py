"""The state of an agent's graph, with the ids and arguments of its calls."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.graph import MessagesState
from langgraph.runtime import get_runtime

from mcp_magic._text import free_name
from mcp_magic.agent.transcript.entries import is_turn
from mcp_magic.langchain.content import LEVELS, storable
from mcp_magic.schema.validate import argument_problems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

__all__ = [
    "AgentState",
    "RunContext",
    "calls_of",
    "context",
    "is_too_deep",
    "kept",
    "sent",
    "steps_taken",
    "unanswered",
    "with_own_ids",
]


# The state that flows through the graph, and the context of a run.


class AgentState(MessagesState):
    """The messages of a thread, and the decisions about calls that wait for the act node.

    Attributes:
        approvals: By tool call id: `decision` ("approve", "edit", "deny"), `arguments` (those to send), `by`, `reason`;
            or `problem`, why the call cannot go out; and `of`, which identifies the call.
    """

    approvals: dict[str, dict[str, Any]]


@dataclass
class RunContext:
    """The context of one run of the graph, beside the thread.

    Attributes:
        run: The run's id, for consent that holds for one run; None outside a run.
        asker: The name of the caller in consent and its audit log.
        done: Answers of finished calls, by tool call id; they survive an interrupted act node.
        before_asking: Awaited before the user is asked; it returns when the calls are displayed.
    """

    run: str | None = None
    asker: str = "agent"
    done: dict[str, ToolMessage] = field(default_factory=dict)
    before_asking: Callable[[set[str]], Awaitable[None]] | None = None


def context() -> RunContext:
    """Return the context of the current run; a new one if the caller of the graph gave none."""
    runtime = get_runtime(RunContext)  # None if a state is written from outside
    return (runtime.context if runtime is not None else None) or RunContext()


def steps_taken(messages: Sequence[BaseMessage]) -> int:
    """Return the number of turns since the last request.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> steps_taken([AIMessage("a"), HumanMessage("b"), AIMessage("c")])
    1
    """
    steps = 0
    for message in reversed(messages):
        if message.type == "human":
            break
        steps += is_turn(message)
    return steps


def unanswered(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the calls of the last turn without an answer; a provider refuses a thread that has any.

    >>> from langchain_core.messages import AIMessage, ToolMessage
    >>> turn = AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}, {"name": "b", "args": {}, "id": "2"}])
    >>> [call["name"] for call in unanswered([turn, ToolMessage("x", tool_call_id="1")])]
    ['b']
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if message.type == "tool":
            answered.add(message.tool_call_id)  # type: ignore[attr-defined]
        elif message.type == "ai":
            return [call for call in calls_of(message) if call["id"] not in answered]
        else:
            break
    return []


def calls_of(message: Any) -> list[dict[str, Any]]:
    """Return the calls of a turn, also those whose arguments are not JSON (with `error`)."""
    return [*message.tool_calls, *message.invalid_tool_calls]


# Ids of calls, unique in the whole conversation.
#
# Decisions and answers belong to a call by its id. If a model named two calls the same, one would run with the decision
# about the other; and providers refuse such a conversation.

MAX_ID = 40
"""Characters of a call's id that every provider accepts."""

_BLOCK_IDS = {"tool_use": "id", "tool_call": "id", "invalid_tool_call": "id", "function_call": "call_id"}
"""Types of content blocks that are calls -> the key of their id."""


def with_own_ids(answer: AIMessage, before: Iterable[BaseMessage] = ()) -> AIMessage:
    """Return a turn in which each call has a unique id; the first of several equal ids stays.

    Args:
        answer: The turn.
        before: The conversation before it.

    >>> from langchain_core.messages import AIMessage
    >>> calls = [{"name": name, "args": {}, "id": "call_1"} for name in ("prod__delete", "test__delete")]
    >>> [call["id"] for call in with_own_ids(AIMessage("", tool_calls=calls)).tool_calls]
    ['call_1', 'call_1_2']
    """
    earlier: Iterable[Any] = (message for message in before if message.type == "ai")
    taken = {call["id"] for message in earlier for call in calls_of(message)}
    given: dict[str, list[str]] = defaultdict(list)

    def own(call: Any) -> Any:
        old = call.get("id") or ""
        new = free_name(old, taken, MAX_ID) if old else f"call_{uuid.uuid4().hex[:12]}"
        taken.add(new)
        given[old].append(new)
        return {**call, "id": new}

    changed = {name: [own(call) for call in getattr(answer, name)] for name in ("tool_calls", "invalid_tool_calls")}
    if all(new == [old] for old, new in given.items()):
        return answer
    if not isinstance(answer.content, str):
        changed["content"] = [_renamed(block, given) for block in answer.content]
    return answer.model_copy(update=changed)


def _renamed(block: Any, given: dict[str, list[str]]) -> Any:
    """Return a content block with its call's new id; provider packages send such blocks unchanged."""
    key = _BLOCK_IDS.get(block.get("type", "")) if isinstance(block, dict) else None
    new = given.get(block.get(key)) if key else None
    return {**block, key: new.pop(0)} if new else block


# Integers beyond 64 bits in arguments: threads are stored as msgpack, which has none.
# They are stored as strings of digits, and become numbers again where the tool's schema asks for one.

MAX_NUMBERS = 20
"""Long integers of one call that become numbers again, at most: each needs a validation of all arguments."""

_DIGITS = re.compile(r"-?[1-9]\d{18,}")


def kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in a form that a thread can store.

    >>> kept({"n": 2**70, "m": 1})
    {'n': '1180591620717411303424', 'm': 1}
    """
    stored: dict[str, Any] = storable(dict(arguments))
    return stored


def is_too_deep(value: Any, levels: int = LEVELS) -> bool:
    """Whether a value has more nested levels than a thread can store.

    >>> is_too_deep([[1]], levels=2), is_too_deep([[{}]], levels=2)
    (False, True)
    """
    if not isinstance(value, dict | list):
        return False
    return not levels or any(
        is_too_deep(each, levels - 1) for each in (value.values() if isinstance(value, dict) else value)
    )


def sent(arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored arguments as they are sent: digits become a number if the schema rejects the text only.

    >>> schema = {"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}
    >>> sent({"n": "1180591620717411303424", "s": "1180591620717411303424"}, schema)
    {'n': 1180591620717411303424, 's': '1180591620717411303424'}
    """
    exact: dict[str, Any] = dict(arguments)
    wrong = _errors(exact, input_schema)
    for path in list(islice(_digits(exact), MAX_NUMBERS)) if wrong else ():
        tried = _with_number(exact, path)
        fewer = _errors(tried, input_schema)
        if fewer < wrong:
            exact, wrong = tried, fewer
    return exact


def _digits(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of strings that are long integers."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _digits(each, (*path, key))


def _with_number(value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return int(value)
    copy = value.copy()
    copy[path[0]] = _with_number(copy[path[0]], path[1:])
    return copy


def _errors(arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> int:
    return len(argument_problems(arguments, input_schema))
