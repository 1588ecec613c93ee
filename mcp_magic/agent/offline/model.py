"""The chat model without weights: decides what comes next in a conversation, and words it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from mcp_magic._text import sentence
from mcp_magic.agent.offline.calls import Call, Past, Toolbox, results_in
from mcp_magic.schema.convert import UnfitText, from_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.runnables import Runnable

__all__ = ["CHARACTERS_A_TOKEN", "OfflineModel", "Outcome", "answer", "limited", "outcome", "quoted"]

CHARACTERS_A_TOKEN = 4
"""Characters counted as one token of usage: a rule of thumb, since nothing is tokenised here."""

ASKED = "asked_back"
"""The key in an `AIMessage`'s `additional_kwargs` that stores the call of a question."""

LONGEST, MAX_TEXT, MAX_QUOTE, MAX_ROWS, SUGGESTED = 4000, 4000, 600, 30, 5
"""Most characters of a request, of a result and of a quote; rows of a table; tools named if none fits."""

NO_REQUEST = "What should I do? Say it in a sentence, or name a tool and its arguments: `server:tool name=value`."
NO_TOOLS = "There is no tool to work with: no server is connected, or none of its tools was given to me."
SAID = {"model_name": "offline", "finish_reason": "stop"}
WITHOUT_WEIGHTS = "(offline, a model without weights, which quotes)"


class OfflineModel(BaseChatModel):
    """A chat model without weights, so that tutorials and tests run without a key: deterministic, no network.

    It ranks the tools by the words of their definitions. It fills arguments by schema with values from the request and
    from earlier results. It takes several steps and answers from the results. It asks back if a required argument is
    missing, and says if no tool fits. It ignores system messages, and counts tokens in characters.

    >>> tool = {"name": "math__add", "description": "Add two numbers.", "parameters": {
    ...     "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}
    >>> OfflineModel().bind_tools([tool]).invoke("What is 3 plus 4?").tool_calls[0]["args"]
    {'a': 3, 'b': 4}
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Return the model with tools; `server__tool`, or "server" and "tool" in the metadata, name their origin."""
        return self.bind(tools=[_bound(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_message(messages, kwargs.get("tools") or []))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(_message(messages, kwargs.get("tools") or []))

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(_message(messages, kwargs.get("tools") or [])):
            yield chunk
            await asyncio.sleep(0)  # lets the page show each word


def _bound(tool: Any) -> dict[str, Any]:
    bound = dict(convert_to_openai_tool(tool))
    about = tool.metadata if isinstance(tool, BaseTool) and isinstance(tool.metadata, dict) else {}
    return bound | {name: about[name] for name in ("server", "tool") if isinstance(about.get(name), str)}


def _message(messages: Sequence[BaseMessage], bound: Sequence[dict[str, Any]]) -> AIMessage:
    following = _following(messages, Toolbox(bound))
    calls = []
    for number, (name, arguments) in enumerate(
        following.calls
    ):  # deterministic ids: the same call at the same place has the same id
        digest = hashlib.sha256(f"{len(messages)} {number} {name}".encode()).hexdigest()
        calls.append({"name": name, "args": arguments, "id": f"call_{digest[:16]}"})
    return AIMessage(
        content=following.text,
        tool_calls=calls,
        additional_kwargs={ASKED: following.asked} if following.asked else {},
        response_metadata=SAID | ({"finish_reason": "tool_calls"} if calls else {}),
        usage_metadata=_usage(messages, bound, following.text, calls),
    )


def _usage(
    messages: Sequence[BaseMessage], bound: Sequence[dict[str, Any]], text: str, calls: Sequence[dict[str, Any]]
) -> UsageMetadata:
    said = sum(len(message.text) + len(_json(getattr(message, "tool_calls", []) or "")) for message in messages)
    read = -(-(said + len(_json(bound))) // CHARACTERS_A_TOKEN)
    written = -(-(len(text) + sum(len(_json(call)) for call in calls)) // CHARACTERS_A_TOKEN)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield a message as a provider streams it: word by word, then the calls, then the usage."""
    for word in re.findall(r"\S+\s*|\s+", str(message.content)):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    for index, call in enumerate(message.tool_calls):
        part = {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))  # type: ignore[list-item]
    kept = message.model_dump(include={"additional_kwargs", "response_metadata", "usage_metadata"})
    yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **kept))


@dataclass(frozen=True)
class Next:
    """The model's next turn: calls to run at the same time; or a text, and the call it asks about."""

    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    text: str = ""
    asked: dict[str, Any] | None = None


def _following(messages: Sequence[BaseMessage], tools: Toolbox) -> Next:
    """Return the model's next turn. The model keeps no state between turns.

    Each step of the request is one turn of calls. So this goes through the steps again: first those that have results,
    then the next one.
    """
    last = max((i for i, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    request = messages[last].text.strip() if last >= 0 else ""
    if len(request) > LONGEST:
        most = f"{LONGEST:,}. Say it shorter, please."
        return Next(text=f"That is {len(request):,} characters long, and I read requests of at most {most}")
    if not tools.tools:
        return Next(text=NO_TOOLS if re.search(r"\w", request) else NO_REQUEST)
    call, left = _replied(request, messages[last - 1] if last > 0 else None, tools)
    names = {tool.name: tool.person_name for tool in tools.tools}
    earlier = [each.data for turn in _turns(messages[:last], names) for each in turn if not each.failed]
    done: list[Outcome] = []
    before: dict[str, Any] = {}
    for turn in [*_turns(messages[last + 1 :], names), None]:
        failed = bool(done) and done[-1].failed
        if call is None and left and not (failed and results_in(left[0], [None])):
            text = left.pop(0)
            known = [*earlier, *(each.data for each in done if not each.failed)]
            call = tools.choose(text, Past(known if done or results_in(text, known) else (), before))
            if call is None:
                return Next(text=answer(done, _no_tool(text, tools)))
        if call is None or (call.missing and failed):
            break
        if call.missing:
            question, asked = _question(call, left)
            return Next(text=answer(done, question), asked=asked)
        if turn is None:
            return Next([(call.tool.name, arguments) for arguments in (call.arguments, *call.more)])
        done, before, call = [*done, *turn], before | call.arguments, None
    return Next(text=answer(done) or NO_REQUEST)


def _replied(reply: str, last: BaseMessage | None, tools: Toolbox) -> tuple[Call | None, list[str]]:
    """Return the asked-about call with the values of the reply, and the remaining steps.

    Without a question, or if the reply makes a request of its own: None, and all steps of the request.
    """
    asked = last.additional_kwargs.get(ASKED) if isinstance(last, AIMessage) else None
    tool = next((each for each in tools.tools if isinstance(asked, dict) and each.name == asked["tool"]), None)
    if (
        not isinstance(asked, dict)
        or tool is None
        or ((other := tools.choose(reply)) is not None and not other.missing)
    ):
        return None, tools.steps(reply)
    call = Call(tool, reply, given=asked["given"])
    if len(call.missing) == 1 and call.arguments == asked["given"]:
        wanted = call.missing[0]
        with contextlib.suppress(UnfitText):
            given = {**call.arguments, wanted.name: from_text(reply.strip("\"'` .\n"), wanted)}
            call = Call(tool, "", given=given)
    return call, list(asked["left"])


def _question(call: Call, left: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the question for a call's missing arguments, and the state to keep until the reply."""
    wanted = []
    for each in call.missing:
        limits = f", {each.constraints_text}" if each.constraints_text else ""
        about = f": {' '.join(each.description.split()).rstrip('.')}" if each.description else ""
        wanted.append(f"`{each.name}` ({each.type_text}{limits}){about}")
    asked = {"tool": call.tool.name, "given": call.arguments, "left": list(left)}
    if len(wanted) == 1:
        return f"{sentence(f'`{call.tool.person_name}` needs {wanted[0]}')} What should it be?", asked
    rows = "".join(f"\n- {each}" for each in wanted)
    return f"`{call.tool.person_name}` needs {len(wanted)} more arguments. What should they be?\n{rows}", asked


def _no_tool(request: str, tools: Toolbox) -> str:
    names = [f"`{tool.person_name}`" for tool in tools.closest(request, SUGGESTED)]
    others = f" and {len(tools.tools) - len(names)} more" if len(tools.tools) > len(names) else ""
    asked = " ".join(request.split()).replace("`", "'")
    asked = asked if len(asked) <= 80 else asked[:79] + "…"
    return f"No tool fits `{asked}`. There are: {', '.join(names)}{others}. Name one, as `server:tool name=value`."


@dataclass(frozen=True)
class Outcome:
    """A call's result; `data` is its structured content, else the JSON of its text, else the text."""

    tool: str
    text: str
    data: Any
    failed: bool
    denied: bool
    arguments: Mapping[str, Any]


def _turns(messages: Sequence[BaseMessage], names: Mapping[str, str]) -> list[list[Outcome]]:
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    turns = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            calls = [(answers[call["id"]], call) for call in message.tool_calls if call["id"] in answers]
            turns.append([outcome(said, call["args"], names.get(call["name"], call["name"])) for said, call in calls])
    return turns


def outcome(message: ToolMessage, sent: Mapping[str, Any], tool: str) -> Outcome:
    """Return the outcome of a call of `tool` with `sent`; the artifact of the message overrides both."""
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    text = _text(message.content)
    structured = artifact.get("structured_content")
    data = structured if structured is not None else _read(text)
    data = data["result"] if isinstance(data, dict) and set(data) == {"result"} else data
    decision = (artifact.get("approval") or {}).get("decision") if isinstance(artifact.get("approval"), dict) else None
    tool = f"{artifact['server']}:{artifact['tool']}" if artifact.get("server") and artifact.get("tool") else tool
    sent = artifact["arguments"] if isinstance(artifact.get("arguments"), dict) else sent
    failed = message.status == "error" or bool(artifact.get("is_error"))
    return Outcome(tool, text, data, failed, decision == "deny", dict(sent))


def _text(content: Any) -> str:
    blocks = [content] if isinstance(content, str) else content
    dicts = (each if isinstance(each, dict) else {"text": each} for each in blocks)
    return "\n".join(str(each.get("text", f"[{each.get('mime_type') or each.get('type')}]")) for each in dicts)


def _read(text: str) -> Any:
    """Return a text parsed as JSON, or the text."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def answer(outcomes: Sequence[Outcome], stopped: str = "") -> str:
    """Return the answer from the results of a request, and why it stopped."""
    said = [_said(each) for each in outcomes]
    if len(said) == 1 or any("\n" in each for each in said):
        told = "\n\n".join(said)
    else:
        told = "\n".join(f"{number}. {each}" for number, each in enumerate(said, start=1))
    return "\n\n".join(part for part in (told, stopped) if part)


def _said(each: Outcome) -> str:
    call = f"{each.tool}({_arguments(each.arguments)})"
    if each.denied:
        return sentence(f"`{each.tool}` was not allowed", _cell(each.text).rstrip(".") or "no reason was given")
    if each.failed:
        return f"`{each.tool}` failed: {_cell(_cut(each.text.strip())) or 'it did not say why'}"
    if isinstance(each.data, list) and each.data and all(isinstance(row, Mapping) for row in each.data):
        return f"`{call}` gives {len(each.data)} rows:\n\n{_table(each.data)}"
    flat = isinstance(each.data, Mapping) and not any(isinstance(value, list | Mapping) for value in each.data.values())
    if flat and each.data and all(len(str(value)) <= 200 for value in each.data.values()):
        rows = "".join(f"\n- {_cell(key)}: {_cell(value)}" for key, value in each.data.items())
        return f"`{call}` gives:\n{rows}"
    if isinstance(each.data, list | Mapping):
        text = json.dumps(each.data, ensure_ascii=False)
        if len(text) <= 200:
            return f"`{call}` gives `{text}`."
        return f"`{call}` gives:\n\n{_fenced(_cut(json.dumps(each.data, ensure_ascii=False, indent=2)), 'json')}"
    if not isinstance(each.data, str):
        return f"`{call}` gives **{json.dumps(each.data, ensure_ascii=False)}**."
    if not each.data.strip():
        return f"`{call}` is done; it returned no text."
    if "\n" in each.data.strip() or len(each.data) > 200:
        return f"`{call}` says:\n\n{_fenced(_cut(each.data))}"
    return f"`{call}` says: {_cell(each.data)}"


def _arguments(arguments: Mapping[str, Any]) -> str:
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in arguments.items()}
    parts = (f"{name}={text if len(text) <= 40 else text[:39] + '…'}" for name, text in texts.items())
    return ", ".join(parts).replace("`", "'")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    lines = [[_cell(name) for name in names], ["---"] * len(names)]
    lines += [[_cell(row.get(name)) for name in names] for row in rows[:MAX_ROWS]]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + (f"\n\nand {len(rows) - MAX_ROWS} rows more" if len(rows) > MAX_ROWS else "")


def _cell(value: Any) -> str:
    """Return a value on one line, with characters escaped that Markdown or HTML would interpret."""
    if value is None:
        return ""
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return re.sub(r"([\\`*\[\]|<]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _fenced(text: str, language: str = "") -> str:
    ticks = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters in all)"


_INSTRUCTION = re.compile(r"^[^\n.!?:]{1,200}[:?]\s+(?=\S)")
_TWO_SENTENCES = re.compile(r"(?:.+?[.!?](?=\s|$)){1,2}", re.DOTALL)


def quoted(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return an answer without tools: the results of tools, else the beginning of the text of the last request.

    >>> quoted([HumanMessage("Summarise this: Cats sleep. They purr. They eat.")]).text
    'Cats sleep. They purr. (offline, a model without weights, which quotes)'
    """
    results: list[str] = []
    for message in messages:
        results = [*results, _short(message.text)] if isinstance(message, ToolMessage) else []
    if results:
        return AIMessage(f"The tools gave: {'; '.join(results)} {WITHOUT_WEIGHTS}", response_metadata=SAID)
    request = next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")
    about = _INSTRUCTION.sub("", request.strip(), count=1)
    found = _TWO_SENTENCES.match(about)
    text = " ".join((found[0] if found else about).split())
    return AIMessage(f"{_short(text)} {WITHOUT_WEIGHTS}".strip(), response_metadata=SAID)


def limited(message: AIMessage, characters: int) -> AIMessage:
    """Return a message with its text cut to `characters`, and "length" as its finish reason."""
    if not isinstance(message.content, str) or len(message.content) <= characters:
        return message
    metadata = message.response_metadata | {"finish_reason": "length"}
    return message.model_copy(update={"content": message.content[:characters], "response_metadata": metadata})


def _short(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"
