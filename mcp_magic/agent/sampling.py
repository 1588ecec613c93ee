"""The sampler: a LangChain model answers the sampling requests of a server, within their limits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic.agent.models import ModelChooser, bind_tools, model_error, note_usage, turn_span
from mcp_magic.ask.sampling import Expected, Sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage

    from mcp_magic.agent.models import Choice
    from mcp_magic.ask.sampling import SamplingRequest
    from mcp_magic.langchain.sampling import Own, Renamed, Takes

__all__ = ["ModelSampler"]

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
"""The fields of LangChain's models that limit the tokens of an answer."""

MAX_STOPS = 4
"""The most stop sequences that OpenAI takes. The answer is cut here at sequences that were not passed on."""

NO_MORE = "No tool can be called now: answer with what is known."
"""The instruction to a model that has used tools and whose provider has no choice for "no tool"."""

_NONE: dict[str, Any] = {"langchain_openai": "none", "langchain_anthropic": {"type": "none"}}
"""The `tool_choice` that forbids calls, by provider package; other packages have no such choice."""


class ModelSampler:
    """Answers with the configured model, or with a model that the server's hints name.

    Args:
        configured: Returns the setting: `PROVIDER:NAME`, a LangChain chat model, or `offline`.
    """

    def __init__(self, configured: Callable[[], Any]) -> None:
        self._choosing = ModelChooser(configured)

    @property
    def takes_tools(self) -> bool:
        """Whether the configured model takes tools."""
        return self._choosing.takes_tools

    def expected(self, asked: SamplingRequest) -> Expected:
        """Return which model would answer, and which parts of the request it would not follow.

        Raises:
            ModelError: The configured model cannot be made.
        """
        choice = self._choice(asked)
        return Expected(choice.name, _notes(asked, choice))

    async def __call__(self, asked: SamplingRequest) -> Sampled:
        """Return the model's answer.

        Raises:
            ModelError: The model cannot be made, gets tools but takes none, or its provider refused or failed;
                one line, without a key.
        """
        from mcp_magic.langchain.sampling import to_sampled

        choice = self._choice(asked)
        tools = _tools(asked)
        problem: Exception | None = None
        try:
            with _alone(), turn_span(choice.model) as turn:
                message = await _turn(choice.model, asked, tools)
                note_usage(turn, message)
        except Exception as error:
            problem = model_error(error, choice.model)
        if problem is not None:
            raise problem
        notes = _notes(asked, choice)
        if asked.tool_choice == "required" and not message.tool_calls:
            notes += ("the model called no tool, which the server required",)
        own = _owner(tools) if asked.usable_tools else None
        return to_sampled(message, model=choice.name, stop_sequences=asked.stop_sequences, own=own, notes=notes)

    def _choice(self, asked: SamplingRequest) -> Choice:
        return self._choosing.choose(asked.preferences, configured_only=asked.unasked)


class _Bound(NamedTuple):
    """A tool as the model gets it.

    Attributes:
        known: Its names.
        function: The tool in the form for `bind_tools`.
    """

    known: Renamed
    function: dict[str, Any]


def _tools(asked: SamplingRequest) -> dict[str, _Bound]:
    from mcp_magic.agent.tools import function_of
    from mcp_magic.langchain.sampling import Renamed, called

    made = {tool.name: (called(tool.name), tool) for tool in asked.tools or ()}
    functions = {name: (given, function_of(given, tool)) for name, (given, tool) in made.items()}
    return {name: _Bound(Renamed(given, f.renamed), f.bound) for name, (given, f) in functions.items()}


def _owner(tools: Mapping[str, _Bound]) -> Own:
    """Return the function that maps a name and arguments from the model to the tool's own."""
    from mcp_magic.agent.tools import own_arguments

    names = {bound.known.name: name for name, bound in tools.items()}

    def own(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        found = names.get(name, name)
        renamed = tools[found].known.arguments if found in tools else {}
        return found, own_arguments(arguments, renamed)

    return own


async def _turn(model: BaseChatModel, asked: SamplingRequest, tools: Mapping[str, _Bound]) -> AIMessage:
    from mcp_magic.agent.nodes import take_turn
    from mcp_magic.agent.offline.model import OfflineModel
    from mcp_magic.langchain.sampling import to_messages

    messages = to_messages(asked, _takes(model), {name: bound.known for name, bound in tools.items()})
    if isinstance(model, OfflineModel):
        return await _offline(model, asked, tools, messages)
    runnable: Any = _tuned(model, asked)
    functions = [bound.function for bound in tools.values()]
    if asked.usable_tools:
        choice = {"tool_choice": "any"} if asked.tool_choice == "required" else {}
        runnable = bind_tools(runnable, functions, **choice)
    elif functions and any(
        message.type == "tool" for message in messages
    ):  # some providers require the definitions of called tools
        runnable, messages = _without_calls(runnable, functions, messages)
    reasons = (getattr(model, "profile", None) or {}).get("reasoning_output")
    stops = [] if reasons else list(asked.stop_sequences[:MAX_STOPS])  # reasoning models refuse stop sequences
    return await take_turn(runnable.bind(stop=stops) if stops else runnable, messages)


async def _offline(model: Any, asked: SamplingRequest, tools: Mapping[str, _Bound], messages: Any) -> AIMessage:
    from mcp_magic.agent.nodes import take_turn
    from mcp_magic.agent.offline.model import CHARACTERS_A_TOKEN, limited, quoted

    if not asked.usable_tools:
        message = quoted(messages)
    else:
        message = await take_turn(model.bind_tools([bound.function for bound in tools.values()]), messages)
    return limited(message, asked.max_tokens * CHARACTERS_A_TOKEN)


def _without_calls(model: Any, functions: list[Any], messages: list[BaseMessage]) -> tuple[Any, list[BaseMessage]]:
    """Return a model that knows the tools but must not call them, and its messages."""
    from langchain_core.messages import SystemMessage

    none = _NONE.get(type(model).__module__.partition(".")[0])
    if none is not None:
        return bind_tools(model, functions, tool_choice=none), messages
    first = messages[0].text if messages[0].type == "system" else ""
    told = SystemMessage(f"{first}\n\n{NO_MORE}".strip())
    return bind_tools(model, functions), [told, *messages[bool(first) :]]


def _takes(model: BaseChatModel) -> Takes:
    """Return which media a model's profile declares that it reads."""
    from mcp_magic.langchain.sampling import Takes

    profile = getattr(model, "profile", None) or {}
    says = (bool(profile.get(key)) for key in ("image_inputs", "audio_inputs", "image_tool_message"))
    return Takes(*says)


def _limit_field(model: BaseChatModel) -> str:
    return next((name for name in LIMITS if name in type(model).model_fields), "")


def _takes_temperature(model: BaseChatModel) -> bool:
    profile = getattr(model, "profile", None) or {}
    return "temperature" in type(model).model_fields and profile.get("temperature") is not False


def _tuned(model: BaseChatModel, asked: SamplingRequest) -> BaseChatModel:
    """Return a copy of the model with the limits of a request; a lower limit that the user set still holds."""
    changes: dict[str, Any] = {}
    field = _limit_field(model)
    if field:
        set_by_person = getattr(model, field) if field in model.model_fields_set else None
        profile = getattr(model, "profile", None) or {}
        most = [asked.max_tokens, set_by_person, profile.get("max_output_tokens")]
        changes[field] = min(each for each in most if isinstance(each, int) and each > 0)
    if asked.temperature is not None and _takes_temperature(model):
        changes["temperature"] = asked.temperature
    return model.model_copy(update=changes) if changes else model


def _notes(asked: SamplingRequest, choice: Choice) -> tuple[str, ...]:
    """Return which parts of the request are not followed."""
    from mcp_magic.agent.offline.model import OfflineModel
    from mcp_magic.langchain.sampling import unread

    notes = [*choice.notes, *unread(asked, _takes(choice.model))]
    if not _limit_field(choice.model) and not isinstance(choice.model, OfflineModel):
        notes.append(f"the limit of {asked.max_tokens:,} tokens is not passed on: {choice.name} takes none")
    if asked.temperature is not None and not _takes_temperature(choice.model):
        notes.append(f"the temperature {asked.temperature:g} is not passed on: {choice.name} takes none")
    if asked.include_context != "none":
        notes.append("no context of servers is added")
    if asked.metadata:
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
