"""What is said of a sampling request, of the reply to it, and of what came of both.

Pure functions to text and markup. All of it comes from servers and models: it is written out and escaped. The
lines that stay in the notebook have none of the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic.core.calltext import written
from mcp_magic.results.content import part_of
from mcp_magic.results.html import Markup, details, facts, joined, note, page, preformatted, tag
from mcp_magic.results.jsontree import brief, tree
from mcp_magic.results.limits import Budget
from mcp_magic.results.parts import Part
from mcp_magic.results.safe import cut, one_line
from mcp_magic.results.visible import outline
from mcp_magic.wording import counted, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.core.sampling.sampling import Expected, Review, Sampled, SamplingRequest

__all__ = ["outcome_bundle", "reply_html", "reply_outcome_bundle", "reply_text", "request_html", "request_text"]

MAX_TEXT = 100_000
"""Characters shown of one text; of a longer one the beginning and the end, and how much more is sent."""

SCHEMA_BYTES = 20_000
"""Bytes of the schema of a tool."""

_SCROLL = "max-height:28em;overflow:auto"


def request_html(asked: SamplingRequest, expected: Expected) -> str:
    """Return who wants what of a model, in full, as a page of its own."""
    server = tag("b", one_line(asked.server, 100))
    shown: list[object] = [tag("p", joined(["Server ", server, " asks a model to answer:"]))]
    budget = Budget.full()
    names = _tool_names(asked)
    turns = [_turn("system", [_long(asked.system_prompt)])] if asked.system_prompt else []
    for message in asked.messages:
        turns.append(_turn(message.role, [_block(block, budget, names) for block in message.content_as_list]))
    shown.append(tag("div", joined(turn.html for turn in turns), style=_SCROLL))
    rows: list[tuple[object, object]] = [*_facts(asked, expected)]
    notes = joined(tag("div", one_line(each, 300)) for each in expected.notes)
    shown.append(facts([*rows, ("not as asked", notes)] if notes else rows))
    if asked.tools:
        shown.append(_tools(asked))
    return page([joined(shown)])


def request_text(asked: SamplingRequest, expected: Expected) -> str:
    """Return the same for a terminal."""
    budget = Budget.full()
    names = _tool_names(asked)
    turns = [_turn("system", [_long(asked.system_prompt)])] if asked.system_prompt else []
    for message in asked.messages:
        turns.append(_turn(message.role, [_block(block, budget, names) for block in message.content_as_list]))
    lines = [f"Server {one_line(asked.server, 100)} asks a model to answer:", *(turn.plain for turn in turns)]
    lines += [f"  {name}: {value}" for name, value in _facts(asked, expected)]
    lines += [
        f"  tool {one_line(tool.name, 100)}: {one_line(tool.description or '', 200)}" for tool in asked.tools or ()
    ]
    lines += [f"  not as asked: {one_line(each, 300)}" for each in expected.notes]
    return "\n".join(lines)


def reply_html(asked: SamplingRequest, reply: Sampled) -> str:
    """Return what a model would answer, as a page of its own."""
    first = ["Reply of ", tag("b", one_line(reply.model, 100)), " to server ", tag("b", one_line(asked.server, 100))]
    parts = _reply_parts(reply)
    shown = [tag("p", joined([*first, f" ({one_line(reply.stop_reason, 60)}):"]))]
    shown.append(tag("div", joined(part.html for part in parts), style=_SCROLL, class_="mcp-turn"))
    shown += [note(one_line(each, 300)) for each in reply.notes]
    return page([joined(shown)])


def reply_text(asked: SamplingRequest, reply: Sampled) -> str:
    """Return the same for a terminal."""
    server, model = one_line(asked.server, 100), one_line(reply.model, 100)
    first = f"Reply of {model} to server {server} ({one_line(reply.stop_reason, 60)}):"
    return "\n".join([first, *(_indented(part.plain) for part in _reply_parts(reply))])


def _reply_parts(reply: Sampled) -> list[Part]:
    budget = Budget.full()
    return [_block(block, budget, {}) for block in reply.content]


def outcome_bundle(asked: SamplingRequest, expected: Expected, review: Review | None, seconds: float) -> dict[str, Any]:
    """Return one line about a request and what the person said of it, as a mimebundle, which needs no kernel."""
    sign = "… not answered" if review is None else "✓ approved" if review.approved else "✗ denied"
    count = counted(len(asked.messages), "messages")
    edited = ", edited" if review is not None and review.request is not None else ""
    by = f" to {one_line(expected.model, 80)}" if expected.model else ""
    return _line(sign, f": {count}{by} for ", asked.server, f"{edited}, {duration(seconds)}")


def reply_outcome_bundle(
    asked: SamplingRequest, reply: Sampled, review: Review | None, seconds: float
) -> dict[str, Any]:
    """Return one line about a reply and what the person said of it, as a mimebundle."""
    sign = "… not answered" if review is None else "✓ sent" if review.approved else "✗ not sent"
    edited = ", edited" if review is not None and review.reply is not None else ""
    return _line(sign, f": reply of {one_line(reply.model, 80)} to ", asked.server, f"{edited}, {duration(seconds)}")


def _line(sign: str, middle: str, server: str, rest: str) -> dict[str, Any]:
    name = one_line(server, 100)
    line = joined([tag("b", sign), middle, tag("b", name), rest])
    return {"text/plain": f"{sign}{middle}{name}{rest}", "text/html": page([tag("p", line)])}


def _facts(asked: SamplingRequest, expected: Expected) -> list[tuple[str, str]]:
    rows = [("answered by", one_line(expected.model, 100))] if expected.model else []
    rows.append(("at most", f"{asked.max_tokens:,} tokens"))
    if asked.temperature is not None:
        rows.append(("temperature", f"{asked.temperature:g}"))
    stops = ", ".join(repr(one_line(each, 60)) for each in asked.stop_sequences[:10])
    if stops:
        rows.append(("ends before", stops))
    would_like = _preferences(asked)
    if would_like:
        rows.append(("would like", would_like))
    if asked.tools:
        rows.append(("tools", f"{len(asked.tools)} ({asked.tool_choice})"))
    if asked.include_context != "none":
        rows.append(("context", asked.include_context))
    return rows + ([("metadata", brief(dict(asked.metadata), 500))] if asked.metadata else [])


def _preferences(asked: SamplingRequest) -> str:
    preferences = asked.preferences
    hints = [one_line(hint.name, 60) for hint in (preferences.hints if preferences else None) or () if hint.name]
    weights = [(name, getattr(preferences, f"{name}_priority", None)) for name in ("cost", "speed", "intelligence")]
    said = [f"a model like {' or '.join(hints[:5])}"] if hints else []
    return ", ".join([*said, *(f"{name} {value:g}" for name, value in weights if value is not None)])


def _tools(asked: SamplingRequest) -> Markup:
    shown = []
    for tool in asked.tools or ():
        described = cut((tool.description or "").strip(), 2000)
        shown.append(tag("p", joined([tag("b", one_line(tool.name, 100)), f" {one_line(tool.title or '', 100)}"])))
        shown.append(tag("div", described, style="white-space:pre-wrap"))
        shown.append(details("arguments", tree(tool.input_schema, SCHEMA_BYTES)))
    return details("the tools that the model may ask the server to call", joined(shown))


def _turn(role: str, parts: Iterable[Part]) -> Part:
    shown = list(parts)
    html = joined([tag("div", tag("b", role)), tag("div", joined(part.html for part in shown), class_="mcp-turn")])
    return Part("\n".join([f"  {role}:", *(_indented(part.plain) for part in shown)]), html)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))


def _long(text: str) -> Part:
    shown = outline(text, MAX_TEXT)
    return Part(shown, preformatted(shown))


def _block(block: Any, budget: Budget, names: Mapping[str, str]) -> Part:
    """Return a block of a message: its whole text, the image itself, a call with its arguments."""
    if block.type == "text":
        return _long(block.text)
    if block.type == "tool_use":
        line = f"calls {one_line(block.name, 100)} with {outline(written(block.input), MAX_TEXT)}"
        return Part(line, tag("p", line))
    if block.type != "tool_result":
        return part_of(block, budget)
    inner = [_block(each, budget, names) for each in block.content]
    structured = [] if inner or block.structured_content is None else [_long(written(block.structured_content))]
    name = names.get(block.tool_use_id, one_line(block.tool_use_id, 60))
    line = f"{name} {'failed' if block.is_error else 'gave'}:"
    shown = [Part(line, tag("p", line)), *inner, *structured]
    return Part("\n".join(part.plain for part in shown), joined(part.html for part in shown))


def _tool_names(asked: SamplingRequest) -> dict[str, str]:
    """Return the names of the tools that were called, by the ids of the calls."""
    blocks = (block for message in asked.messages for block in message.content_as_list)
    return {block.id: one_line(block.name, 100) for block in blocks if block.type == "tool_use"}
