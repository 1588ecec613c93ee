"""What the offline model says where no tools are given: it has no words of its own, so it quotes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import BaseMessage

__all__ = ["limited", "quoted"]

SENTENCES = 2
"""Sentences that are quoted."""

MAX_QUOTE = 600
"""Characters of a quotation."""

WITHOUT_WEIGHTS = "(offline, a model without weights, which quotes)"

_INSTRUCTION = re.compile(r"^[^\n.!?:]{1,200}[:?]\s+(?=\S)")
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)", re.DOTALL)


def quoted(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return an answer without tools: what the tools gave, else the beginning of what the last message is about.

    >>> quoted([HumanMessage("Summarise this: Cats sleep. They purr. They eat.")]).text
    'Cats sleep. They purr. (offline, a model without weights, which quotes)'
    """
    results = _last_results(messages)
    if results:
        said = "; ".join(_short(message.text) for message in results)
        return _message(f"The tools gave: {said} {WITHOUT_WEIGHTS}")
    request = next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")
    about = _INSTRUCTION.sub("", request.strip(), count=1)
    sentences: list[str] = []
    end = 0
    while len(sentences) < SENTENCES and (found := _SENTENCE.match(about, end)):  # where none begins here, none follows
        sentences.append(found[0])
        end = found.end()
    text = " ".join(" ".join(sentence.split()) for sentence in sentences) or " ".join(about.split())
    return _message(f"{_short(text)} {WITHOUT_WEIGHTS}".strip())


def limited(message: AIMessage, characters: int) -> AIMessage:
    """Return a message with its text cut to so many characters, and "length" as the reason why it ends."""
    if not isinstance(message.content, str) or len(message.content) <= characters:
        return message
    metadata: dict[str, Any] = {**message.response_metadata, "finish_reason": "length"}
    return message.model_copy(update={"content": message.content[:characters], "response_metadata": metadata})


def _message(text: str) -> AIMessage:
    return AIMessage(text, response_metadata={"model_name": "offline", "finish_reason": "stop"})


def _last_results(messages: Iterable[BaseMessage]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            results.append(message)
        else:
            results = []
    return results


def _short(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"
