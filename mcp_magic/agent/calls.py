"""The calls that a model asks for: read from its turn, planned once against the offered tools, and decided about.

A `PlannedCall` is one call on its way. It is checked by the tool's schema once, and again only if the schema has
changed when it goes out. A decision is kept by the call's id and bound to its turn, tool and arguments; the node that
calls refuses any other.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic._text import free_name
from mcp_magic.agent.modules import check_length
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.agent.tools import no_tool
from mcp_magic.calls.call import Call
from mcp_magic.consent.consent import Decision, Request
from mcp_magic.consent.values import referenced, unchanged, value_at, with_values
from mcp_magic.errors import ArgumentsError, ModelError
from mcp_magic.langchain.content import LEVELS, approval_of, storable
from mcp_magic.langchain.functions import own_arguments
from mcp_magic.langchain.names import Names
from mcp_magic.schema.fields import input_root
from mcp_magic.schema.resolve import json_equal
from mcp_magic.values.references import misfit, resolve_references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
    from langchain_core.messages.tool import ToolCallChunk
    from langchain_core.runnables import Runnable

    from mcp_magic.agent.builtin import BuiltinTool
    from mcp_magic.agent.program import Programs
    from mcp_magic.agent.tools import Offer
    from mcp_magic.agent.values import NamedValues
    from mcp_magic.consent.values import ValueNote


SAME_ID = "another call of this turn has the same id, so a decision about one could be taken for the other"


@dataclass
class PlannedCall:
    """A call that a model asks for, from its turn to its answer."""

    id: str
    name: str
    arguments: dict[str, Any]
    offer: Offer | None = None
    builtin: BuiltinTool | None = None
    program: Programs | None = None
    problem: str = ""
    misfit: str = ""  # why a value that is masked for the model does not fit; told only once the call is approved
    shown_problem: str = ""  # for people, where `problem` has the model's names of tools
    of: dict[str, Any] = field(default_factory=dict)
    request: Request | None = None
    approval: dict[str, Any] = field(default_factory=dict)
    values: Sequence[ValueNote] = ()  # of the notebook, which the arguments have in place of references

    @property
    def edited(self) -> bool:
        """Whether the user changed the arguments."""
        return self.approval.get("decision") == "edit"

    def call(self, asker: str, run: str | None) -> Call:
        """Return the call of the server's tool."""
        assert self.offer is not None
        tool = self.offer.tool
        variant = self.offer.difference
        call = Call(self.offer.connection, tool.name, self.arguments, tool, asker=asker, run=run, variant=variant)
        return replace(call, values=self.values)

    def as_written(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of this call as the model writes them: with references, and not with values."""
        return referenced(arguments, unchanged(self.values, self.arguments, arguments))

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with values in place of the model's references: the reverse of `as_written`."""
        notes = [note for note in self.values if json_equal(value_at(arguments, note.path), dict(note.reference))]
        return with_values(arguments, [(note.path, value_at(self.arguments, note.path)) for note in notes])

    def take(self, arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> None:
        """Take the arguments, checked by the schema of the tool."""
        self.arguments = decode_big_ints(arguments, input_schema)
        try:
            self.arguments, _ = schema.prepare_arguments(self.arguments, input_schema)
        except ArgumentsError as error:
            self.problem = str(error)

    def refusal(self) -> dict[str, Any]:
        """Return why the call cannot go out, in the form that a thread can store."""
        extra = {"shown": self.shown_problem} if self.shown_problem else {}
        return {"problem": self.problem, "of": self.of, **extra}

    def decide(self, decision: Decision) -> None:
        """Take a decision of consent, in the form that a thread can store."""
        arguments = self.arguments if decision.arguments is None else decision.arguments
        stored = {"arguments": storable(self.as_written(arguments)), "definition": decision.definition}
        self.approval = approval_of(decision, self.arguments) | stored | {"of": self.of}

    def restore(self, approval: dict[str, Any], input_schema: Mapping[str, Any]) -> Decision:
        """Return the decision that the state of the graph has about this call."""
        self.approval = approval
        arguments = None
        if approval["arguments"] != storable(self.as_written(self.arguments)):
            arguments = decode_big_ints(self.read(approval["arguments"]), input_schema)
        approved, definition = approval["decision"] != "deny", approval.get("definition", "")
        return Decision(approved, arguments, approval["reason"], approval["by"], definition=definition)


@dataclass(frozen=True)
class Planner:
    """Plans the calls that a model asks for, or that its program makes.

    Attributes:
        offers: The tools that the model has, by name.
        asker: Who calls, for consent.
        run: The run of the agent.
        builtin: The agent's own tools.
        programs: How programs run; the model then calls only these and the agent's own tools.
        values: The values that arguments may refer to.
    """

    offers: Mapping[str, Offer]
    asker: str
    run: str | None
    builtin: Mapping[str, BuiltinTool] = field(default_factory=dict)
    programs: Programs | None = None
    values: NamedValues | None = None

    def plan_turn(self, turn: AIMessage) -> list[PlannedCall]:
        """Return the calls of a turn, each checked by the schema of its tool."""
        calls = [self.plan(call, turn.id) for call in calls_of(turn)]
        times = Counter(call.id for call in calls)
        for call in calls:
            if times[call.id] > 1:  # the state may have been written from outside
                call.problem, call.request = SAME_ID, None
        return calls

    def plan(self, call: Mapping[str, Any], turn: str | None) -> PlannedCall:
        """Return a call of the turn with this id."""
        name, arguments = str(call.get("name") or ""), call["args"]
        if self.programs is not None and name not in self.builtin:
            return self._plan_program(self.programs, call, turn)
        offer = self.offers.get(name)
        of = {"turn": turn, "tool": offer.person_name if offer else call["name"], "arguments": arguments}
        planned = PlannedCall(str(call["id"]), name, arguments, offer, self.builtin.get(name), of=of)
        if not isinstance(arguments, dict):
            planned.arguments, planned.problem = {}, _no_object(arguments)
        elif planned.builtin is not None:
            planned.take(arguments, planned.builtin.function["parameters"])
        elif offer is None:
            planned.problem = no_tool(name, self.offers)
            people = [choice.person_name for choice in self.offers.values()]
            shown = Names(()).person(name)
            planned.shown_problem = planned.problem if shown in people else no_tool(shown, people)
        else:
            self._take(planned, own_arguments(arguments, offer.renamed), offer.tool.input_schema)
            if not planned.problem:
                planned.request = planned.call(self.asker, self.run).request
        return planned

    def _take(self, planned: PlannedCall, arguments: dict[str, Any], input_schema: Mapping[str, Any]) -> None:
        """Take the arguments of a server's tool, with values in place of references."""
        if self.values is None:
            planned.take(arguments, input_schema)
            return
        resolve = partial(resolve_references, arguments, self.values, input_schema)
        try:
            resolved = resolve()
        except ArgumentsError as error:
            planned.problem = str(error)
            return
        planned.values = resolved.references
        planned.take(resolved.arguments, input_schema)
        if planned.problem:  # it quotes values
            problem, is_masked = misfit(
                ArgumentsError(planned.problem), resolved, partial(resolve, masks=True), input_schema
            )
            planned.problem, planned.misfit = ("", str(problem)) if is_masked else (str(problem), "")
        if planned.values:  # a decision is about these values, not about what the variables are later
            text = json.dumps(planned.arguments, sort_keys=True).encode()
            planned.of["values"] = hashlib.sha256(text).hexdigest()[:32]

    def _plan_program(self, programs: Programs, call: Mapping[str, Any], turn: str | None) -> PlannedCall:
        name, arguments = str(call.get("name") or ""), call["args"]
        of = {"turn": turn, "tool": name, "arguments": arguments}
        planned = PlannedCall(str(call["id"]), name, {}, program=programs, of=of)
        if name != RUN_PROGRAM:
            only = f"Write a program that calls it: {RUN_PROGRAM} is the only tool"
            planned.problem = f"there is no tool {name!r}. {only}"
        elif not isinstance(arguments, dict):
            planned.problem = _no_object(arguments)
        else:
            try:
                planned.arguments, _ = schema.prepare_arguments(arguments, programs.tool.input_schema)
                check_length(planned.arguments["code"])
            except ArgumentsError as error:
                planned.problem = str(error)
            else:
                code, tool = planned.arguments, programs.tool
                planned.request = Request("", name, code, self.asker, tool, run=self.run, program=programs.where)
        return planned


def _no_object(arguments: Any) -> str:
    return f"the arguments are not a JSON object: {str(arguments)[:200]}"


# The calls in messages.


def calls_of(message: Any) -> list[dict[str, Any]]:
    """Return the calls of a turn, also those whose arguments are not JSON (with `error`)."""
    return [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]


def asked_calls(message: BaseMessage) -> list[PlannedCall]:
    """Return the calls of any agent's turn, also with arguments that are not JSON."""
    return [
        PlannedCall(str(call.get("id") or ""), str(call.get("name") or ""), _object(call.get("args")))
        for call in calls_of(message)
    ]


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {str(name): inner for name, inner in value.items()}
    return {"arguments": value} if value else {}


# A model's turn, streamed. The arguments of its calls are read strictly, and each call gets an id of its own.
#
# LangChain completes arguments that end in the middle (an interrupted stream, a token limit) to valid JSON:
# `{"path": "/home/me/pro` becomes a path, and a tool would be called with it.

_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS")
"""Finish reasons of OpenAI, Anthropic and Google for an answer at its token limit."""


async def take_turn(
    model: Runnable[Any, Any], messages: Sequence[BaseMessage], on_part: Callable[[Any], None] | None = None
) -> AIMessage:
    """Return a model's turn on a conversation; calls with incomplete arguments are in `invalid_tool_calls`.

    `on_part` gets each part of the turn as it comes.
    """
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.messages.ai import add_ai_message_chunks

    from mcp_magic.agent.cassette import answer_parts

    parts = []
    async for part in answer_parts(model, list(messages)):
        parts.append(part)
        if on_part is not None:
            on_part(part)
    if not parts:
        raise ModelError("the model answered nothing; try again")
    chunks = [part for part in parts if isinstance(part, AIMessageChunk)]
    if len(chunks) < len(parts):  # a model that does not stream yields one whole message
        message = parts[-1] if isinstance(parts[-1], AIMessage) else AIMessage(str(getattr(parts[-1], "content", "")))
        return with_own_ids(message, messages)
    return with_own_ids(complete_calls(add_ai_message_chunks(chunks[0], *chunks[1:])), messages)


def complete_calls(answer: AIMessageChunk) -> AIMessage:
    """Return a streamed answer as a message whose calls are only those with complete JSON objects as arguments."""
    from langchain_core.messages import AIMessage, message_chunk_to_message

    message = message_chunk_to_message(answer)
    assert isinstance(message, AIMessage)
    if not answer.tool_call_chunks:
        return message
    metadata = answer.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("status")
    # stopped at the token limit, or OpenAI's without a finish reason
    unfinished = reason in _CUT_OFF or (not reason and metadata.get("model_provider") == "openai")
    complete = [_arguments(chunk, unfinished) for chunk in answer.tool_call_chunks]
    if all(arguments is not None for arguments in complete):
        return message
    message.tool_calls, message.invalid_tool_calls = [], []
    for chunk, arguments in zip(answer.tool_call_chunks, complete, strict=True):
        call: dict[str, Any] = {"name": chunk["name"] or "", "id": chunk["id"]}
        if arguments is not None:
            message.tool_calls.append({**call, "args": arguments, "type": "tool_call"})  # type: ignore[typeddict-item]
        else:
            cut: dict[str, Any] = {"args": chunk["args"] or "", "error": "the arguments are incomplete"}
            message.invalid_tool_calls.append({**call, **cut, "type": "invalid_tool_call"})  # type: ignore[typeddict-item]
    return message


def _arguments(chunk: ToolCallChunk, unfinished: bool) -> dict[str, Any] | None:
    if not chunk["args"]:
        return None if unfinished else {}
    try:
        arguments = json.loads(chunk["args"], strict=False)  # a line end inside a string is valid here
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


# Ids of calls, unique in the whole conversation.
#
# Decisions and answers belong to a call by its id. If a model named two calls the same, one would run with the decision
# about the other; and providers refuse such a conversation.

MAX_ID = 40  # characters of a call's id that every provider accepts

_BLOCK_IDS = {"tool_use": "id", "tool_call": "id", "invalid_tool_call": "id", "function_call": "call_id"}
"""Types of content blocks that are calls -> the key of their id."""


def with_own_ids(answer: AIMessage, before: Iterable[BaseMessage] = ()) -> AIMessage:
    """Return a turn in which each call has an id that is unique in the conversation; the first of equal ids stays."""
    if not calls_of(answer):
        return answer
    used = {call["id"] for message in before if message.type == "ai" for call in calls_of(message)}
    new_ids: dict[str, list[str]] = defaultdict(list)

    def own(call: Any) -> Any:
        old = call.get("id") or ""
        new = free_name(old, used, MAX_ID) if old else f"call_{uuid.uuid4().hex[:12]}"
        used.add(new)
        new_ids[old].append(new)
        return {**call, "id": new}

    update = {name: [own(call) for call in getattr(answer, name)] for name in ("tool_calls", "invalid_tool_calls")}
    if all(new == [old] for old, new in new_ids.items()):
        return answer
    if not isinstance(answer.content, str):
        update["content"] = [_renamed(block, new_ids) for block in answer.content]
    return answer.model_copy(update=update)


def _renamed(block: Any, new_ids: dict[str, list[str]]) -> Any:
    """Return a content block with its call's new id; provider packages send such blocks unchanged."""
    key = _BLOCK_IDS.get(block.get("type", "")) if isinstance(block, dict) else None
    new = new_ids.get(block.get(key)) if key else None
    return {**block, key: new.pop(0)} if new else block


# Integers beyond 64 bits in arguments: threads are stored as msgpack, which has none.
# They are stored as strings of digits, and become numbers again where the tool's schema asks for one.

_DIGITS = re.compile(r"-?[1-9]\d{18,999}")


def is_too_deep(value: Any, levels: int = LEVELS) -> bool:
    """Whether a value has more nested levels than a thread can store."""
    if not isinstance(value, dict | list):
        return False
    return not levels or any(
        is_too_deep(part, levels - 1) for part in (value.values() if isinstance(value, dict) else value)
    )


def decode_big_ints(arguments: Mapping[str, Any], input_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored arguments as they are sent: digits become a number where the schema takes numbers and no text."""
    decoded = dict(arguments)
    digits = [name for name, value in decoded.items() if isinstance(value, str) and _DIGITS.fullmatch(value)]
    fields = {field.name: field for field in input_root(input_schema).children} if digits else {}
    for name in digits:
        if name in fields:
            kinds = {field.kind for field in fields[name].variants} or {fields[name].kind}
            if kinds & {"integer", "number"} and "string" not in kinds:
                decoded[name] = int(decoded[name])
    return decoded
