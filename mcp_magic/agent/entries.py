"""The entries of a transcript, and readers for the messages behind them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.calls import calls_of
from mcp_magic.agent.events import DecisionEvent, ProgressEvent, StartEvent
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.config.masking import Masker
from mcp_magic.display.arguments import hidden_parts
from mcp_magic.display.text import cut, one_line
from mcp_magic.flight.progress import WAIT_SECONDS, Report
from mcp_magic.results.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_core.messages import BaseMessage, ToolMessage
    from mcp_types import Tool

    from mcp_magic.agent.events import CallEvent


# Readers of LangChain messages: text, thoughts, images, calls, tokens, errors.
# They are pure functions. They handle the formats of all providers, and the older formats in stored threads.

TOKENS = ("input_tokens", "output_tokens", "total_tokens")

_THOUGHTS = ("thinking", "reasoning", "reasoning_content", "redacted_thinking")
_MODELS = ("ai", "AIMessageChunk")
_BOUNDS = ("max_turns", "max_tokens", "max_cost", "refused")
_TEXTS = ("text", "output_text", "input_text", "refusal")
_PICTURES = ("image", "image_url", "input_image", "image_file")


def _blocks(message: BaseMessage) -> list[Any]:
    content: Any = message.content
    return [content] if isinstance(content, str) else list(content or ())


def text_of(message: BaseMessage) -> str:
    """Return the text blocks of a message joined, without thoughts and images."""
    return "".join(block if isinstance(block, str) else _block_text(block) for block in _blocks(message))


def _block_text(block: Any) -> str:
    is_text = isinstance(block, dict) and block.get("type") in _TEXTS
    return str(block.get("text") or block.get("refusal") or "") if is_text else ""


def thinking_of(message: BaseMessage) -> str:
    """Return the model's thoughts before its answer, if the provider sends them."""
    thoughts = [_thought(b) for b in _blocks(message) if isinstance(b, dict) and b.get("type") in _THOUGHTS]
    reasoning = message.additional_kwargs.get("reasoning_content")
    return "\n\n".join(text for text in [*thoughts, str(reasoning or "")] if text)


def _thought(block: Mapping[str, Any]) -> str:
    for key in ("thinking", "reasoning", "reasoning_content", "text", "summary"):
        value = block.get(key)
        if isinstance(value, dict):  # Bedrock: {"reasoning_content": {"text": ...}}
            value = value.get("text")
        if isinstance(value, list):  # OpenAI: {"summary": [{"text": ...}, ...]}
            value = "\n\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
        if value:
            return str(value)
    return ""


def images_of(message: BaseMessage) -> int:
    """Return the number of images in a message."""
    return sum(isinstance(block, dict) and block.get("type") in _PICTURES for block in _blocks(message))


def artifact_of(message: BaseMessage) -> dict[str, Any]:
    """Return the artifact that the bridge put in a tool's message; {} for none or another kind."""
    artifact = getattr(message, "artifact", None)
    if isinstance(artifact, ToolResult):
        return {"server": artifact.server, "tool": artifact.tool, "seconds": artifact.seconds}
    return artifact if isinstance(artifact, dict) else {}


def seconds_of(artifact: Mapping[str, Any]) -> float | None:
    """Return the seconds that the call took, or None where unknown."""
    seconds = artifact.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else None


def is_failure(message: BaseMessage) -> bool:
    """Whether a tool's message reports an error, by its status, its artifact or its first word."""
    artifact = getattr(message, "artifact", None)
    if isinstance(artifact, dict) and isinstance(artifact.get("is_error"), bool):
        return bool(artifact["is_error"]) or getattr(message, "status", "") == "error"
    return getattr(message, "status", "") == "error" or text_of(message).lstrip().startswith("Error:")


def stop_of(message: BaseMessage) -> str:
    """Return which bound ended a run with this closing text, which the host writes; "" for any other message."""
    return str(message.response_metadata["stopped"]) if is_stop(message) else ""


def is_stop(message: BaseMessage) -> bool:
    """Whether a message is the closing text of a run that a bound ended."""
    metadata = message.response_metadata
    return bool(metadata) and message.type in _MODELS and metadata.get("stopped") in _BOUNDS


def is_turn(message: BaseMessage) -> bool:
    """Whether a message is a turn of the model."""
    return message.type in _MODELS and not is_stop(message)


def tokens_of(message: BaseMessage) -> dict[str, int]:
    """Return input, output and total tokens of a turn; {} if the model reports none.

    >>> from langchain_core.messages import AIMessage
    >>> tokens_of(AIMessage("", response_metadata={"token_usage": {"prompt_tokens": 3, "completion_tokens": 2}}))
    {'input_tokens': 3, 'output_tokens': 2, 'total_tokens': 5}
    """
    metadata = message.response_metadata
    usage: Any = getattr(message, "usage_metadata", None) or metadata.get("token_usage") or metadata.get("usage")
    if not isinstance(usage, dict):
        return {}
    input_ = _count(usage.get("input_tokens", usage.get("prompt_tokens")))
    output = _count(usage.get("output_tokens", usage.get("completion_tokens")))
    total = _count(usage.get("total_tokens")) or input_ + output
    return dict(zip(TOKENS, (input_, output, total), strict=True)) if total else {}


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def add_usage(usages: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of token counts, {} for none."""
    total: Counter[str] = Counter()
    for usage in usages:
        total.update(usage)
    return dict(total)


def model_of(message: BaseMessage) -> str:
    """Return the model's name from the provider, or ""."""
    metadata = message.response_metadata
    return str(metadata.get("model_name") or metadata.get("model") or metadata.get("model_id") or "")


# Conversion of a tool's message back to the result of the tool.


def result_value(message: ToolMessage, call: CallEntry) -> ToolResult:
    """Return a tool's result, from the bridge's artifact or else from the message's content."""
    artifact = message.artifact
    if isinstance(artifact, ToolResult):
        return artifact
    if isinstance(artifact, dict) and "content" in artifact and "tool" in artifact:
        from mcp_magic.langchain.content import result_of

        result = result_of(message)
    else:
        result = _from_content(message, call)
    if result.output_schema is None and call.definition is not None:
        result.output_schema = call.definition.output_schema
    return result


def _from_content(message: ToolMessage, call: CallEntry) -> ToolResult:
    from mcp_types import CallToolResult, TextContent

    from mcp_magic.langchain.content import FOR_PEOPLE, mcp_block

    content: list[Any] = []
    text = artifact_of(message).get(FOR_PEOPLE)
    blocks: Iterable[Any] = [text] if isinstance(text, str) else filter(None, _blocks(message))
    for block in blocks:
        kind = str(block.get("type", "")) if isinstance(block, dict) else "text"
        if kind in _TEXTS:
            content.append(TextContent(text=block if isinstance(block, str) else _block_text(block)))
        else:
            picture = mcp_block(block) if kind in _PICTURES else None
            content.append(picture or TextContent(text=f"[{kind or 'content'}, not shown]"))
    raw = CallToolResult(content=content, is_error=is_failure(message))
    return ToolResult(raw, server=call.server, tool=call.tool, seconds=call.seconds or 0.0)


# A tool may repeat a secret from its arguments, so secrets that are masked in the arguments are masked in the result.

_AS_THEY_ARE = frozenset({"type", "mime_type", "data", "blob", "meta"})
"""Members of content blocks that are not shown as text."""


def masked_result(result: ToolResult, hide: Callable[[str], str]) -> ToolResult:
    """Return a result with texts and structured content masked; images and sounds stay as they are."""
    return ToolResult(
        _model(result.raw, hide),
        server=result.server,
        tool=result.tool,
        seconds=result.seconds,
        output_schema=result.output_schema,
        unfit=hide(result.unfit),
        unchecked=result.unchecked,
        app=result.app,
    )


def _model(model: Any, hide: Callable[[str], str]) -> Any:
    update = {name: _value(value, hide) for name, value in model if name not in _AS_THEY_ARE}
    return model.model_copy(update=update)


def _value(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide(str(name)): _value(inner, hide) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, hide) for inner in value]
    return _model(value, hide) if hasattr(value, "model_copy") else value


# How much is shown of an entry: the newest in full, older ones ever shorter.
# A run has hundreds of turns, and a notebook stores them all. The limits hold for one transcript: its HTML stays below
# 500 kB, however long it gets.


class Level(IntEnum):
    """How much of an entry is shown, from all to nothing."""

    FULL = 0
    LINE = 1
    OMITTED = 2


ROOM = {Level.FULL: 200_000, Level.LINE: 100_000}
"""Bytes of HTML for the entries of each level, beside those of the last segment, which is always in full."""

ANSWER = 40_000  # characters of an answer

TEXT = {Level.FULL: 8_000, Level.LINE: 150}  # characters of other text

RESULT = 15_000  # bytes of one result in full; its text may take a fifth of that, as in `Budget.characters`


def shortened(text: str, limit: int) -> tuple[str, str]:
    """Return the first `limit` characters, with controls written out, and a remark about the rest."""
    return cut(text, limit), "" if len(text) <= limit else f"… {limit:,} of {len(text):,} characters"


# The entries of a transcript, in order: requests, turns, calls and notes.


class CallStatus(StrEnum):
    """How far a call is: the model may still be writing it. The outcome of a call that was cut off is unknown."""

    WRITING = "writing"
    WAITING = "waiting"
    RUNNING = "running"
    OK = "ok"
    PARTLY = "partly failed"
    ERROR = "error"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    CUT_OFF = "cut off"


OPEN = (CallStatus.WRITING, CallStatus.WAITING, CallStatus.RUNNING)  # the states of a call that is not over


class Entry:
    """One entry of a transcript."""

    @property
    def is_work(self) -> bool:
        """Whether it is a finished part of the work between a request and its answer."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether the entry is final."""
        return True

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to display."""
        return False


@dataclass(eq=False)
class RequestEntry(Entry):
    """A request."""

    text: str = ""
    images: int = 0
    role: str = "person"  # or "system", for instructions to the model


@dataclass(eq=False)
class TurnEntry(Entry):
    """A turn of the model."""

    id: str = ""
    text: str = ""
    thinking: str = ""
    images: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    model: str = ""
    turn: int = 0
    complete: bool = False
    calls: int = 0
    interrupted: bool = False
    is_turn: bool = True  # False for the closing text of a run that used all its turns

    def complete_with(self, message: BaseMessage) -> None:
        """Take the complete message."""
        self.text, self.thinking, self.images = text_of(message), thinking_of(message), images_of(message)
        self.usage, self.model = tokens_of(message), model_of(message)
        self.calls, self.is_turn, self.complete = len(calls_of(message)), not is_stop(message), True

    @property
    def is_over(self) -> bool:
        """Whether the turn is complete."""
        return self.complete

    @property
    def is_blank(self) -> bool:
        """Whether the turn only asked for calls."""
        return not (self.text or self.thinking or self.images or self.interrupted)

    @property
    def is_work(self) -> bool:
        """Whether the turn asked for calls."""
        return self.calls > 0

    @property
    def is_answer(self) -> bool:
        """Whether the turn answers the request: it asks for no call (so far)."""
        return self.calls == 0


@dataclass(eq=False)
class CallEntry(Entry):
    """A call of a tool."""

    id: str = ""
    server: str = ""
    tool: str = ""
    definition: Tool | None = None
    trusted: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)  # with secrets: the display masks them
    parent: str = ""  # the id of the program that made the call
    turn: int = 0
    number: int = 0  # among the calls of the transcript, from 0
    status: CallStatus = CallStatus.WAITING
    clock: Report | None = None  # once it runs
    seconds: float | None = None
    progress: tuple[float, float | None, str] | None = None  # done, total, the server's message
    decision: DecisionEvent | None = None
    message: ToolMessage | None = None
    _result: ToolResult | None = None
    _masked_result: ToolResult | None = None

    @property
    def is_work(self) -> bool:
        """Whether the call is over."""
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the call is over, with any outcome."""
        return self.status not in OPEN

    @property
    def is_timed(self) -> bool:
        """Whether the call runs, and has taken so long that its clock is shown."""
        return self.status == CallStatus.RUNNING and self.clock is not None and self.clock.seconds >= WAIT_SECONDS

    @property
    def name(self) -> str:
        """`"server:tool"`, or the tool's name alone."""
        return f"{self.server}:{self.tool}" if self.server else self.tool

    @property
    def code(self) -> str:
        """The program that ran, or would; "" of other calls."""
        return str(self.final_arguments.get("code", "")) if not self.server and self.tool == RUN_PROGRAM else ""

    @property
    def final_arguments(self) -> Mapping[str, Any]:
        """The arguments that were sent, or would be."""
        return self.arguments if self.changed_arguments is None else self.changed_arguments

    @property
    def changed_arguments(self) -> Mapping[str, Any] | None:
        """The arguments that were sent, if the user edited them."""
        return None if self.decision is None else self.decision.arguments

    @property
    def by(self) -> str:
        """Who or what decided about the call; "" if nobody has."""
        return "" if self.decision is None else self.decision.by

    def announce(self, event: CallEvent) -> None:
        """Take the facts about the call, which the model writes or which waits for a decision."""
        self.server, self.tool, self.parent = event.server, event.tool, event.parent
        self.arguments, self.definition, self.trusted = dict(event.arguments), event.definition, event.trusted
        if event.is_draft:
            self.status = CallStatus.WRITING
        elif self.status == CallStatus.WRITING:
            self.status = CallStatus.WAITING

    def update(self, event: DecisionEvent | StartEvent | ProgressEvent) -> bool:
        """Take what happens to the call; return whether that changes it."""
        match event:
            case DecisionEvent():
                self.decision = event
                if not event.approved:
                    self.status = CallStatus.DENIED
                return True
            case _ if self.status not in OPEN:
                return False
            case StartEvent(clock=clock):
                self.status, self.clock = CallStatus.RUNNING, clock or Report("", "")
            case ProgressEvent():
                self.progress = (event.progress, event.total, event.message or "")
        return True

    def answer(self, message: Any) -> None:
        """Take the answer of the call, perhaps in place of an earlier one."""
        artifact = artifact_of(message)
        if not self.server:  # an old name: only the artifact tells the server
            self.server = str(artifact.get("server") or "")
            self.tool = str(artifact.get("tool") or self.tool)
        is_denied = self.status == CallStatus.DENIED
        self.seconds = None if is_denied else seconds_of(artifact)
        self.message, self.progress = message, None
        self._result = self._masked_result = None
        if artifact.get("interrupted"):
            self.status = CallStatus.INTERRUPTED
        elif is_failure(message) and not is_denied:
            self.status = CallStatus.ERROR
        elif not is_denied:
            self.status = CallStatus.PARTLY if self.failures else CallStatus.OK

    @property
    def result(self) -> ToolResult | None:
        """The tool's result, as `%mcp call` returns it; None without an answer."""
        if self._result is None and self.message is not None:
            self._result = result_value(self.message, self)
        return self._result

    @property
    def shown_result(self) -> ToolResult | None:
        """The result for display, with the secrets of the arguments masked."""
        if self._masked_result is None and self.result is not None:
            mask = self._mask()
            self._masked_result = masked_result(self.result, mask) if mask else self.result
        return self._masked_result

    def hide(self, text: str) -> str:
        """Return a text of the server with the secrets of the arguments masked."""
        mask = self._mask()
        return mask(text) if mask else text

    def _mask(self) -> Callable[[str], str] | None:
        """Return a function that masks the secrets of the arguments; None if they have none.

        Secrets so short or common that they occur in other words are not masked (`config/masking.py`).
        """
        all_arguments = (self.arguments, self.changed_arguments or {})
        secrets = [part.value for arguments in all_arguments for part in hidden_parts(arguments, self.definition)]
        if not secrets:
            return None
        masker = Masker(())
        masker.learn(secrets)
        return masker.hide

    @property
    def failures(self) -> str:
        """The rows of a map by state with the most common error, on one line; "" if every row has an answer."""
        text = artifact_of(self.message).get("failures") if self.message is not None else None
        return one_line(self.hide(text), 500) if isinstance(text, str) else ""

    @property
    def error(self) -> str:
        """Why the call failed, on one line, or ""."""
        if self.status == CallStatus.DENIED:
            return one_line((self.decision.reason if self.decision else "") or "denied", 500)
        if self.failures:
            return self.failures
        if self.status == CallStatus.ERROR:
            texts = self.shown_result.texts if self.shown_result is not None else []
            return one_line(" ".join(texts), 500) or "error"
        return self.status if self.status in (CallStatus.INTERRUPTED, CallStatus.CUT_OFF) else ""


@dataclass(eq=False)
class NoteEntry(Entry):
    """A remark about the run."""

    text: str = ""
    level: str = "info"
