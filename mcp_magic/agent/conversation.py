"""A conversation in the form that a model's provider takes.

The thread keeps what was said and answered. A provider refuses the whole conversation because of one part that it does
not take, and would do so at each further turn. So that part is replaced in what is sent, and nowhere else.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableBinding

from mcp_magic._text import join_names
from mcp_magic.langchain.content import may_be_image, mcp_block
from mcp_magic.lint import MAX_NAME
from mcp_magic.results.content import to_media
from mcp_magic.results.images import ModelImage, model_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage


def unbound(runnable: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model of a runnable, and what is bound to it."""
    kwargs: dict[str, Any] = {}
    while isinstance(runnable, RunnableBinding):
        kwargs, runnable = {**runnable.kwargs, **kwargs}, runnable.bound
    return runnable, kwargs


def for_provider(runnable: Any, messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return a conversation as the provider of a model takes it; messages without need of change stay the same objects.

    Args:
        runnable: A chat model, perhaps with tools bound to it.
        messages: The conversation.
    """
    model, kwargs = unbound(runnable)
    place = image_place(model, kwargs)
    conversation: list[BaseMessage] = []
    images: list[tuple[str, list[Any]]] = []  # those of the answers to one turn, with the names of their tools
    for message in messages:
        if not isinstance(message, ToolMessage) and images:
            conversation.append(_images_message(images))
            images = []
        is_plain = isinstance(message.content, str) and message.content.isascii()
        if isinstance(message, AIMessage):
            conversation.append(_turn(message))
        elif is_plain:
            conversation.append(message)
        elif isinstance(message, ToolMessage):
            answer, moved = _answer(message, place)
            conversation.append(answer)
            if moved:
                images.append((message.name or "a tool", moved))
        else:
            conversation.append(_with_content(message, readable(message.content)))
    return [*conversation, _images_message(images)] if images else conversation


def readable(value: Any) -> Any:
    r"""Return a value in which each half of a surrogate pair is U+FFFD: a request in UTF-8 cannot hold one.

    >>> ascii(readable(["caf\u00e9 \ud83d"]))
    "['caf\\xe9 \\ufffd']"
    """
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        new = [readable(part) for part in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    if isinstance(value, dict):
        members = {name: readable(part) for name, part in value.items()}
        return value if all(members[name] is value[name] for name in value) else members
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def _with_content(message: Any, content: Any) -> Any:
    return message if content is message.content else message.model_copy(update={"content": content})


# The model's turns. Some endpoints parse the arguments of earlier calls (vLLM, llama.cpp), and some packages of
# providers leave out calls that LangChain calls invalid, so that their answers answer nothing.

_ARGUMENTS = {"tool_use": "input", "tool_call": "args", "invalid_tool_call": "args", "function_call": "arguments"}
"""Types of content blocks that are calls -> the key of their arguments."""

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def _turn(message: AIMessage) -> AIMessage:
    """Return a turn whose calls all have an object of JSON as arguments: an empty one where the model wrote none."""
    calls: list[Any] = [_call(call) for call in message.tool_calls]
    calls += [
        {"type": "tool_call", "id": call["id"], "name": _name(call["name"]), "args": {}}
        for call in message.invalid_tool_calls
    ]
    content: Any = message.content
    if not (isinstance(content, str) and content.isascii()):
        content = readable(content)
    if calls and isinstance(content, list):
        by_id = {call["id"]: call for call in calls}
        blocks = [_block(block, by_id) for block in content]
        content = content if all(a is b for a, b in zip(blocks, content, strict=True)) else blocks
    same = not message.invalid_tool_calls and all(a is b for a, b in zip(calls, message.tool_calls, strict=True))
    if same and content is message.content:
        return message
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": [], "content": content})


def _call(call: Any) -> Any:
    name = _name(call["name"])
    if name == call["name"] and _is_json(call["args"]):
        return call
    return {**call, "name": name, "args": call["args"] if _is_json(call["args"]) else {}}


def _name(name: str | None) -> str:
    """Return the name of a call as providers take it: a model may have made up another one."""
    if name and len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return name
    return "_".join(_NAME.findall(name or ""))[:MAX_NAME] or "unknown"


def _is_json(arguments: Any) -> bool:
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return isinstance(arguments, dict)


def _block(block: Any, calls: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a content block; one that repeats a call has its name and arguments."""
    key = _ARGUMENTS.get(block.get("type", "")) if isinstance(block, dict) else None
    if key is None:
        return block
    call = calls.get(block.get("call_id") or block.get("id") or "")
    if call is None or (call["name"] == block.get("name") and call["args"] and _is_json(_parsed(block.get(key)))):
        return block
    arguments = json.dumps(call["args"], ensure_ascii=False) if key == "arguments" else call["args"]
    kind = "tool_call" if block["type"] == "invalid_tool_call" else block["type"]
    without = ("partial_json", "error")
    members = {name: value for name, value in block.items() if name not in without}
    return {**members, "type": kind, "name": call["name"], key: arguments}


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return None


# Images in the answers of tools.

_IMAGE_TYPES = ("image", "image_url")

_IN_ANSWERS = ("langchain_anthropic", "langchain_aws", "langchain_google_genai", "langchain_google_vertexai")
"""Packages whose providers take images in the answer to a call."""

_NOWHERE = ("langchain_mistralai",)
"""Packages whose providers take neither these nor a message of the user after the answer to a call."""

FOLLOWS = "[an image, which follows these answers]"


def image_place(model: Any, kwargs: Mapping[str, Any] | None = None) -> str:
    """Return where a model reads the images of tools: in the `"answer"`, in a message that `"follows"`, or "": nowhere.

    OpenAI's Chat Completions, and what is compatible with it, take text alone in the answer to a call.
    """
    profile = getattr(model, "profile", None) or {}
    if not (profile.get("image_inputs") or profile.get("image_tool_message")):
        return ""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if packages.intersection(_NOWHERE):
        return ""
    if packages.intersection(_IN_ANSWERS):
        return "answer"
    if "langchain_openai" in packages:
        return "answer" if _uses_responses(model, kwargs or {}) else "follows"
    if any(package.startswith("langchain_") for package in packages - {"langchain_core"}):
        return "follows"
    return "answer" if profile.get("image_tool_message") else "follows"  # the model's own class says so


def takes_images(model: Any) -> bool:
    """Return whether a model reads the images of tools."""
    return bool(image_place(model))


def _uses_responses(model: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a request goes to OpenAI's Responses API. A wrong "no" sends the images as both APIs take them."""
    decides = getattr(model, "_use_responses_api", None)  # no public name
    try:
        return decides is not None and bool(decides({**getattr(model, "_default_params", {}), **kwargs}))
    except Exception:
        return False


def _answer(message: ToolMessage, place: str) -> tuple[BaseMessage, list[Any]]:
    """Return the answer to a call, and the images that are to follow it."""
    content, moved = readable(message.content), list[Any]()
    if isinstance(content, list) and any(_is_image(part) for part in content):
        parts: list[Any] = [_checked(part, place) if _is_image(part) else part for part in content]
        if place == "follows":
            moved = [part for part in parts if _is_image(part)]
            parts = [FOLLOWS if _is_image(part) else part for part in parts]
        content = _joined(parts)
    return _with_content(message, content), moved


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _IMAGE_TYPES


def _checked(part: dict[str, Any], place: str) -> Any:
    """Return an image with the type of its bytes, or a line of text if the provider would refuse it."""
    block = mcp_block(part)
    media = to_media(block) if block is not None else None
    if media is None or not may_be_image(media):
        return part if place else "[an image, not shown]"
    image = model_image(media) if place else "this model reads none"
    if isinstance(image, ModelImage):
        same = image == (part.get("mime_type"), part.get("base64"))
        return part if same else {"type": "image", "base64": image.base64, "mime_type": image.mime_type}
    return f"[{media.summary}, not shown: {image}]"


def _joined(parts: Sequence[Any]) -> Any:
    """Return content as one text if there is only text: not every endpoint takes blocks in answers."""
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    if all(isinstance(text, str) for text in texts) and not any(_is_image(part) for part in parts):
        return "\n".join(map(str, texts))
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def _images_message(images: Sequence[tuple[str, list[Any]]]) -> HumanMessage:
    """Return the message with the images of the answers before it, which says that the user has not written it."""
    return HumanMessage([*_labelled(images)])


def _labelled(images: Sequence[tuple[str, list[Any]]]) -> Iterator[dict[str, Any]]:
    names = join_names(dict.fromkeys(name for name, _ in images))
    yield {"type": "text", "text": f"[The images in the answers of {names}. The user has not sent them.]"}
    for name, blocks in images:
        if len(images) > 1:
            yield {"type": "text", "text": f"[{name}]"}
        yield from blocks
