"""What the tools of a conversation returned, as later steps and the answer use it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic.agent.offline.clauses import refers
from mcp_magic.agent.offline.mentions import Mention
from mcp_magic.agent.offline.words import name_words, stem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import ToolMessage

__all__ = ["Outcome", "outcome", "references"]


@dataclass(frozen=True)
class Outcome:
    """A call's result.

    Attributes:
        tool: "server:tool".
        text: What a model reads of it.
        data: The structured content or the JSON of the text, without its box `{"result": ...}`; else the text.
        failed: Whether it is an error.
        denied: Whether the call was refused, and nothing was run.
        arguments: What was sent.
    """

    tool: str
    text: str
    data: Any
    failed: bool
    denied: bool
    arguments: Mapping[str, Any]

    @property
    def mention(self) -> Mention:
        """The result as something a request mentions."""
        return Mention("reference", 0, 0, self.text, self.data)


def outcome(message: ToolMessage, sent: Mapping[str, Any], tool: str) -> Outcome:
    """Return what a tool message says.

    Args:
        message: It; its artifact may have the structured content.
        sent: The arguments of the call.
        tool: The tool's name for people, if the artifact does not say it.
    """
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    text = _text(message.content)
    structured = artifact.get("structured_content")
    data = _unboxed(structured) if structured is not None else _read(text)
    decision = (artifact.get("approval") or {}).get("decision") if isinstance(artifact.get("approval"), dict) else None
    if artifact.get("server") and artifact.get("tool"):
        tool = f"{artifact['server']}:{artifact['tool']}"
    sent = artifact["arguments"] if isinstance(artifact.get("arguments"), dict) else sent
    failed = message.status == "error" or bool(artifact.get("is_error"))
    return Outcome(tool, text, data, failed, decision == "deny", dict(sent))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, dict):
            about = block.get("mime_type") or block.get("type", "content")
            parts.append(str(block["text"]) if "text" in block else f"[{about}]")
    return "\n".join(parts)


def _unboxed(data: Any) -> Any:
    return data["result"] if isinstance(data, dict) and set(data) == {"result"} else data


def _read(text: str) -> Any:
    """Return the JSON that a text is, or the text."""
    if not re.match(r"\s*(?:[\[{\"]|-?\d|true|false|null)", text):
        return text
    try:
        return _unboxed(json.loads(text))
    except (ValueError, RecursionError):
        return text


_STEP = re.compile(r"(?i)\b(?:the )?result of step (\d+)\b")


def references(text: str, outcomes: Sequence[Outcome], own: int = 0) -> tuple[Mention, ...]:
    """Return where a clause speaks of earlier results, and what those are.

    "it", "the result" and the like are the last one, "both" and "the results" the last two or the last list, "the mean"
    is the value of that name in the last object.

    Args:
        text: The clause.
        outcomes: All that there are.
        own: How many of them are older than the request; "step 1" is the first one after those.
    """
    steps = [_at(*found.span(), outcomes[own + int(found[1]) - 1]) for found in _STEP.finditer(text)
             if own + int(found[1]) <= len(outcomes)]  # fmt: skip
    if steps:
        return tuple(steps)
    done = [each for each in outcomes if not each.failed]
    if not done:
        return ()
    found = [_part(start, end, text, done) for start, end in refers(text)]
    flat = [each for group in found for each in group]
    taken = [(each.start, each.end) for each in flat]
    return (*flat, *(each for each in _values(text, done[-1]) if not _overlaps(each, taken)))


def _overlaps(mention: Mention, taken: Sequence[tuple[int, int]]) -> bool:
    return any(mention.start < end and start < mention.end for start, end in taken)


def _part(start: int, end: int, text: str, done: Sequence[Outcome]) -> list[Mention]:
    said = text[start:end].lower()
    several = re.search(r"\b(?:both|them|these|those|two)\b|\b(?:results|numbers|answers|values|sums|products)\b", said)
    if several and len(done) > 1 and not isinstance(done[-1].data, list):
        middle = start + (end - start) // 2
        spans = ((start, middle), (middle, end))
        return [_at(*span, each) for span, each in zip(spans, done[-2:], strict=True)]
    which = done[0] if "first" in said else done[1] if "second" in said and len(done) > 1 else done[-1]
    return [_at(start, end, which)]


def _at(start: int, end: int, which: Outcome) -> Mention:
    return Mention("reference", start, end, which.text, which.data)


def _values(text: str, last: Outcome) -> list[Mention]:
    """Find "the mean", "its total": values of the last object by their names."""
    if not isinstance(last.data, dict):
        return []
    named = {tuple(stem(word) for word in name_words(key)): value for key, value in last.data.items()}
    found = []
    for match in re.finditer(r"(?i)\b(?:the|its|that)\s+([a-z]+(?:[ _][a-z]+)?)\b", text):
        for words in (name_words(match[1]), name_words(match[1])[:1]):
            stems = tuple(stem(word) for word in words)
            if stems in named:
                end = match.start(1) + (len(match[1]) if len(words) > 1 else len(words[0]))
                value = named[stems]
                found.append(Mention("reference", match.start(), end, str(value), value))
                break
    return found
