"""The sampler: a LangChain model answers the sampling requests of a server, within their limits."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.agent.failures import model_name
from mcp_magic.agent.models import OFFLINE, bind_tools, in_turn, make_model
from mcp_magic.ask.sampling import Expected, Sampled
from mcp_magic.display.text import one_line
from mcp_magic.langchain.content import Reader, mcp_block
from mcp_magic.langchain.functions import function_of, own_arguments
from mcp_magic.langchain.names import provider_name
from mcp_magic.lint import CHARACTERS_A_TOKEN, MAX_NAME
from mcp_magic.results.content import message_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage

    from mcp_magic.ask.sampling import SamplingRequest


LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
"""The fields of LangChain's models that limit the tokens of an answer."""

MAX_STOPS = 4  # the most stop sequences that OpenAI takes. The answer is cut here at sequences that were not passed on.

NO_MORE = "No tool can be called now: answer with what is known."
"""The instruction to a model that has used tools and whose provider has no choice for "no tool"."""

_NONE: dict[str, Any] = {"langchain_openai": "none", "langchain_anthropic": {"type": "none"}}
"""The `tool_choice` that forbids calls, by provider package; other packages have no such choice."""


class _Choice(NamedTuple):
    """The model that answers, its name, and which preferences of the server are not followed."""

    model: BaseChatModel
    name: str
    notes: tuple[str, ...] = ()


class ModelSampler:
    """Answers with the configured model."""

    def __init__(self, configured: Callable[[], Any]) -> None:
        self._configured = configured
        self._made: tuple[Any, BaseChatModel] | None = None

    @property
    def takes_tools(self) -> bool:
        """Whether the configured model takes tools; a model given by name is assumed to take them."""
        setting = self._configured()
        if isinstance(setting, str):
            return True
        from langchain_core.language_models import BaseChatModel

        profile = getattr(setting, "profile", None) or {}
        bind = getattr(type(setting), "bind_tools", None)
        return bind not in (None, BaseChatModel.bind_tools) and profile.get("tool_calling") is not False

    def expected(self, request: SamplingRequest) -> Expected:
        """Return which model would answer, and which parts of the request it would not follow."""
        choice = self._choice(request)
        return Expected(choice.name, _notes(request, choice))

    async def __call__(self, request: SamplingRequest) -> Sampled:
        """Return the model's answer; ModelError on one line, without a key, if there is none."""
        choice = self._choice(request)
        tools = _tools(request)
        with _alone():
            message = await in_turn(choice.model, lambda: _turn(choice.model, request, tools))
        notes = _notes(request, choice)
        if request.tool_choice == "required" and not message.tool_calls:
            notes += ("the model called no tool, which the server required",)

        def own(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
            for tool, renamed in tools.items():
                if renamed.name == name:
                    return tool, own_arguments(arguments, renamed.arguments)
            return name, dict(arguments)

        return to_sampled(
            message,
            model=choice.name,
            stop_sequences=request.stop_sequences,
            own=own if request.usable_tools else None,
            notes=notes,
        )

    def _choice(self, request: SamplingRequest) -> _Choice:
        """Return the configured model, with a note if no hint of the server is a part of its name."""
        preferences = request.preferences
        hints = [hint.name.strip() for hint in (preferences.hints if preferences else None) or () if hint.name]
        setting = self._configured()
        name = (setting.strip() or OFFLINE) if isinstance(setting, str) else model_name(setting)
        notes: tuple[str, ...] = ()
        if hints and not any(hint and hint.casefold() in name.casefold() for hint in hints):
            names = ", ".join(repr(one_line(hint, 60)) for hint in hints[:5])
            notes = (f"the model that it prefers ({names}) is not used: only the configured model answers",)
        return _Choice(self._model(setting), name, notes)

    def _model(self, setting: Any) -> BaseChatModel:
        if self._made is None or self._made[0] is not setting:
            self._made = (setting, make_model(setting))
        return self._made[1]


def _tools(request: SamplingRequest) -> dict[str, Renamed]:
    renamed = {}
    for tool in request.tools or ():
        name = model_name_of(tool.name)
        function = function_of(name, tool)
        renamed[tool.name] = Renamed(name, function.renamed, function.openai_tool)
    return renamed


async def _turn(model: BaseChatModel, request: SamplingRequest, tools: Mapping[str, Renamed]) -> AIMessage:
    from mcp_magic.agent.calls import take_turn
    from mcp_magic.agent.offline import OfflineModel, limited, quoted

    messages = to_messages(request, _takes(model), tools)
    functions = [dict(tool.function) for tool in tools.values()]
    if isinstance(model, OfflineModel):
        message = await take_turn(model.bind_tools(functions), messages) if request.usable_tools else quoted(messages)
        return limited(message, request.max_tokens * CHARACTERS_A_TOKEN)
    runnable: Any = _tuned(model, request)
    if request.usable_tools:
        choice = {"tool_choice": "any"} if request.tool_choice == "required" else {}
        runnable = bind_tools(runnable, functions, **choice)
    elif functions and any(
        message.type == "tool" for message in messages
    ):  # some providers require the definitions of called tools
        runnable, messages = _without_calls(runnable, functions, messages)
    reasons = (getattr(model, "profile", None) or {}).get("reasoning_output")
    stops = [] if reasons else list(request.stop_sequences[:MAX_STOPS])  # reasoning models refuse stop sequences
    return await take_turn(runnable.bind(stop=stops) if stops else runnable, messages)


def _without_calls(model: Any, functions: list[Any], messages: list[BaseMessage]) -> tuple[Any, list[BaseMessage]]:
    """Return a model that knows the tools but must not call them, and its messages."""
    from langchain_core.messages import SystemMessage

    none = _NONE.get(type(model).__module__.partition(".")[0])
    if none is not None:
        return bind_tools(model, functions, tool_choice=none), messages
    first = messages[0].text if messages[0].type == "system" else ""
    instruction = SystemMessage(f"{first}\n\n{NO_MORE}".strip())
    return bind_tools(model, functions), [instruction, *messages[bool(first) :]]


def _takes(model: BaseChatModel) -> Takes:
    from mcp_magic.agent.conversation import takes_images

    profile = getattr(model, "profile", None) or {}
    return Takes(bool(profile.get("image_inputs")), bool(profile.get("audio_inputs")), takes_images(model))


def _limit_field(model: BaseChatModel) -> str:
    return next((name for name in LIMITS if name in type(model).model_fields), "")


def _takes_temperature(model: BaseChatModel) -> bool:
    profile = getattr(model, "profile", None) or {}
    return "temperature" in type(model).model_fields and profile.get("temperature") is not False


def _tuned(model: BaseChatModel, request: SamplingRequest) -> BaseChatModel:
    """Return a copy of the model with the limits of a request; a lower limit that the user set still holds."""
    changes: dict[str, Any] = {}
    field = _limit_field(model)
    if field:
        set_by_person = getattr(model, field) if field in model.model_fields_set else None
        profile = getattr(model, "profile", None) or {}
        most = [request.max_tokens, set_by_person, profile.get("max_output_tokens")]
        changes[field] = min(limit for limit in most if isinstance(limit, int) and limit > 0)
    if request.temperature is not None and _takes_temperature(model):
        changes["temperature"] = request.temperature
    return model.model_copy(update=changes) if changes else model


def _notes(request: SamplingRequest, choice: _Choice) -> tuple[str, ...]:
    from mcp_magic.agent.offline import OfflineModel

    notes = [*choice.notes, *unread(request, _takes(choice.model))]
    if not _limit_field(choice.model) and not isinstance(choice.model, OfflineModel):
        notes.append(f"the limit of {request.max_tokens:,} tokens is not passed on: {choice.name} takes none")
    if request.temperature is not None and not _takes_temperature(choice.model):
        notes.append(f"the temperature {request.temperature:g} is not passed on: {choice.name} takes none")
    if request.include_context != "none":
        notes.append("no context of servers is added")
    if request.metadata:
        notes.append("its metadata are not passed on")
    return tuple(notes)


@contextmanager
def _alone() -> Iterator[None]:
    """Hide the answer from an agent whose tool sends the request.

    LangChain finds that agent in the context, and the agent would take the answer for its own turn.
    """
    from langchain_core.runnables.config import var_child_runnable_config

    token = var_child_runnable_config.set(None)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


# A sampling request as LangChain messages.
# For media that the model does not take (images, sound, types that no provider takes) it reads a line of text.

NO_LIMIT = 1_000_000_000  # limit of characters without effect: the model reads all that the user has seen

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")


class Takes(NamedTuple):
    """The media that a model reads beside text."""

    images: bool = False
    audio: bool = False
    tool_images: bool = False


class Renamed(NamedTuple):
    """A tool for the model: its name, the model's names of renamed arguments -> the tool's own, and what is bound."""

    name: str
    arguments: Mapping[str, str]
    function: Mapping[str, Any] = MappingProxyType({})


def model_name_of(name: str) -> str:
    """Return a tool's name for the model: its own if providers accept that."""
    return name if _NAME.fullmatch(name) else provider_name("tool", name)


def to_messages(request: SamplingRequest, takes: Takes, tools: Mapping[str, Renamed]) -> list[BaseMessage]:
    """Return the conversation of a request."""
    from langchain_core.messages import HumanMessage, SystemMessage

    messages: list[BaseMessage] = [SystemMessage(request.system_prompt)] if request.system_prompt else []
    for message in request.messages:
        blocks = message.content_as_list
        if message.role == "assistant":
            messages.append(_assistant(blocks, tools))
        elif blocks and blocks[0].type == "tool_result":
            messages += [_result(block, takes) for block in blocks]
        else:
            messages.append(HumanMessage(content=_content(blocks, takes)))
    return messages


def _assistant(blocks: Sequence[Any], tools: Mapping[str, Renamed]) -> BaseMessage:
    """Return a turn of the model, without media, since providers take none there."""
    from langchain_core.messages import AIMessage

    calls: list[Any] = []
    for block in blocks:
        if block.type == "tool_use":
            renamed = tools.get(block.name) or Renamed(model_name_of(block.name), {})
            names = {own: name for name, own in renamed.arguments.items()}
            arguments = {names.get(name, name): value for name, value in block.input.items()}
            calls.append({"name": renamed.name, "args": arguments, "id": _id(block.id), "type": "tool_call"})
    return AIMessage(content=_content([b for b in blocks if b.type != "tool_use"], Takes()), tool_calls=calls)


def _result(block: Any, takes: Takes) -> BaseMessage:
    from langchain_core.messages import ToolMessage

    content = _content(block.content, Takes(images=takes.tool_images))
    if not content and block.structured_content is not None:
        content = json.dumps(block.structured_content, ensure_ascii=False)
    status: Any = "error" if block.is_error else "success"
    return ToolMessage(content=content, tool_call_id=_id(block.tool_use_id), status=status)


def _content(blocks: Iterable[Any], takes: Takes) -> Any:
    parts = [_part(block, takes) for block in blocks]
    if all(part["type"] == "text" for part in parts) and len(parts) < 2:
        return parts[0]["text"] if parts else ""
    return parts


def _part(block: Any, takes: Takes) -> dict[str, Any]:
    if block.type == "audio" and takes.audio:
        return message_block(block)
    reader = Reader(images=takes.images, limit=NO_LIMIT)
    reader.add(block)
    [read] = reader.finish()
    return {"type": "text", "text": read} if isinstance(read, str) else read


def _id(id_: str) -> str:
    """Return a call's id in a form that providers accept; it is the same for a call and its result."""
    return id_ if _ID.fullmatch(id_) else f"call_{hashlib.sha256(id_.encode()).hexdigest()[:24]}"


def unread(request: SamplingRequest, takes: Takes) -> list[str]:
    """Return notes about media that the model cannot read."""
    missed: Counter[str] = Counter()
    for message in request.messages:
        reads = takes if message.role == "user" else Takes()
        for block in message.content_as_list:
            inner, readable = (
                (block.content, Takes(takes.tool_images)) if block.type == "tool_result" else ([block], reads)
            )
            media = (part for part in inner if part.type in ("image", "audio"))
            missed.update(part.type for part in media if _part(part, readable)["type"] == "text")
    kinds = {"image": ("image is", "images are"), "audio": ("sound is", "sounds are")}
    return [f"{count} {kinds[kind][count > 1]} not shown to the model" for kind, count in missed.items()]


# The reply to a sampling request, from a model's message.

_REASONS = {
    "stop": "endTurn",
    "end_turn": "endTurn",
    "completed": "endTurn",
    "length": "maxTokens",
    "max_tokens": "maxTokens",
    "max_output_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
}
"""Finish reasons of OpenAI, Anthropic, Google and others -> the protocol's."""


Own = Callable[[str, Mapping[str, Any]], tuple[str, dict[str, Any]]]
"""Returns a tool's own name and arguments for the model's."""


def to_sampled(
    message: AIMessage,
    *,
    model: str,
    stop_sequences: Sequence[str] = (),
    own: Own | None = None,
    notes: Sequence[str] = (),
) -> Sampled:
    """Return the reply for a model's message."""
    from mcp_types import TextContent, ToolUseContent

    calls = []
    if own is not None:
        for call in message.tool_calls:
            name, arguments = own(call["name"], call["args"])
            calls.append(ToolUseContent(name=name, id=call["id"] or f"call_{uuid.uuid4().hex[:12]}", input=arguments))
    text = str(message.text)
    stops = [at for at in (text.find(sequence) for sequence in stop_sequences if sequence) if at >= 0 and not calls]
    if stopped := bool(stops):
        text = text[: min(stops)]
    content: list[Any] = [TextContent(text=text)] if text else []
    content += [*([] if stopped else _media(message)), *calls]
    remarks = [*notes]
    if message.invalid_tool_calls:
        remarks.append("calls with incomplete arguments were left out")
    if message.tool_calls and own is None:
        remarks.append("calls of tools that the server did not offer were left out")
    metadata = message.response_metadata
    reason = "toolUse" if calls else "stopSequence" if stopped else _reason(metadata)
    answered_by = str(metadata.get("model_name") or metadata.get("model") or model)
    return Sampled(tuple(content) or (TextContent(text=""),), answered_by, reason, tuple(remarks))


def _reason(metadata: Mapping[str, Any]) -> str:
    finish = metadata.get("stop_reason") or metadata.get("finish_reason") or metadata.get("done_reason") or "stop"
    reason = _REASONS.get(str(finish).lower(), str(finish))
    return "endTurn" if reason == "toolUse" else reason


def _media(message: AIMessage) -> list[Any]:
    if isinstance(message.content, str):
        return []
    kinds = ("image", "audio")
    return [mcp_block(block) for block in message.content_blocks if block["type"] in kinds and block.get("base64")]
