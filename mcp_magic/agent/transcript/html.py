"""Entries as HTML. All text comes from people, models and servers: it is escaped here or in `results.html`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.agent.transcript.entries import Asked, Called, Note, Said
from mcp_magic.agent.transcript.levels import ANSWER, TEXT, Level, shortened
from mcp_magic.agent.transcript.markdown import markdown
from mcp_magic.agent.transcript.words import about_call, outcome_line, progress_text, status_text, tokens_text
from mcp_magic.core.calltext import argument_cell, argument_rows, call_line
from mcp_magic.results.badges import tool_badges
from mcp_magic.results.html import Markup, details, error_label, escape, facts, joined, note, preformatted, tag
from mcp_magic.results.safe import one_line

if TYPE_CHECKING:
    from mcp_magic.agent.transcript.entries import Entry

__all__ = ["call_html", "entry_html", "excerpt_html"]

IN_SUMMARY = 120
"""Characters of the arguments in the line of a call."""

IN_TABLE = 300
"""Characters of one argument in the table."""

TABLE = 4_000
"""Characters of that table."""

EXCERPT = 300
"""Characters of a result that is shown shortened."""


def entry_html(entry: Entry, level: Level, *, tokens: bool) -> Markup:
    """Return what was asked, said or noted."""
    if isinstance(entry, Said):
        return _said(entry, level, tokens=tokens)
    if isinstance(entry, Asked):
        return _asked(entry, level)
    return _note(entry) if isinstance(entry, Note) else Markup()


def _asked(asked: Asked, level: Level) -> Markup:
    text, rest = shortened(asked.text.strip(), TEXT[level])
    if asked.role == "system":
        return tag(
            "div", details(f"instructions, {len(asked.text):,} characters", preformatted(text)), class_="mcp-note"
        )
    lines = joined((escape(line) for line in text.split("\n")), "<br>")
    return tag("blockquote", joined([lines, note(_pictures(asked.images)), note(rest)]), class_="mcp-asked")


def _said(said: Said, level: Level, *, tokens: bool) -> Markup:
    parts: list[Markup] = []
    if said.thinking and level == Level.FULL:
        thought, rest = shortened(said.thinking, TEXT[level])
        body = joined([preformatted(thought), note(rest)])
        parts.append(tag("div", details(f"thinking, {len(said.thinking):,} characters", body), class_="mcp-thinking"))
    text, rest = shortened(said.text.strip(), ANSWER if said.is_answer and level == Level.FULL else TEXT[level])
    if text:
        body = tag("p", one_line(text, TEXT[level])) if level == Level.LINE else markdown(text)
        parts.append(tag("div", joined([body, note(rest)]), class_="mcp-answer" if said.is_answer else "mcp-said"))
    parts.append(note(_pictures(said.images)))
    if said.interrupted:
        parts.append(tag("p", "■ interrupted", class_="mcp-note"))
    if tokens and said.usage and level < Level.LINE:
        parts.append(tag("div", f"turn {said.step} · {tokens_text(said.usage)}", class_="mcp-tokens"))
    return joined(parts)


def _pictures(count: int) -> str:
    return f"[{count} image{'' if count == 1 else 's'}]" if count else ""


def _note(entry: Note) -> Markup:
    text, rest = shortened(entry.text, TEXT[Level.FULL])
    label = {"info": Markup(), "error": error_label()}.get(entry.level, tag("b", one_line(entry.level, 20)))
    return tag("p", joined([part for part in (label, text, rest) if part], " "), class_="mcp-note")


def call_html(called: Called, level: Level, result: Markup, text: str, *, opened: bool) -> Markup:
    """Return the card of a call: a line that says it all in short, and what opens below.

    Args:
        called: The call.
        level: How much of it.
        result: What it answered, as markup.
        text: The same as text, for the line.
        opened: Whether it stands open.
    """
    line = call_line(called.sent, called.definition, IN_SUMMARY)
    arguments = _arguments(called, line) if level == Level.FULL else Markup()
    body = [part for part in (arguments, result) if part] if level < Level.LINE else []
    if body and result:
        body.append(note(f".results[{called.number}] is the value"))
    classes = f"mcp-call mcp-call-{called.status.replace(' ', '-')}"
    if not body:
        return tag("div", _summary(called, level, line, text), class_=classes)
    inside = tag("div", joined(body), class_="mcp-inside")
    attribute = " open" if opened else ""
    summary = tag("summary", _summary(called, level, line, text))
    return Markup(f'<details class="{escape(classes)}"{attribute}>{summary}{inside}</details>')


def _summary(called: Called, level: Level, line: str, text: str) -> Markup:
    outcome = outcome_line(called, text)
    about = " · ".join(said for said in (about_call(called), progress_text(called)) if said)
    parts: list[Markup] = [tag("span", status_text(called), class_="mcp-sign"), tag("b", one_line(called.name, 100))]
    if line:
        parts.append(tag("code", line))
    if outcome:
        parts.append(tag("span", f"→ {outcome}"))
    if about:
        parts.append(tag("span", f"· {about}", class_="mcp-note"))
    if called.definition is not None and level == Level.FULL:
        badges = tool_badges(called.definition, trusted=called.trusted)
        parts.append(tag("span", joined((badge.html() for badge in badges), " "), class_="mcp-badges"))
    return joined(parts, " ")


def _arguments(called: Called, line: str) -> Markup:
    """Return the arguments as a table, where the line does not have them all."""
    if "…" not in line and called.changed_arguments is None:
        return Markup()
    rows: list[tuple[str, Markup]] = []
    room = TABLE
    for name, value, mark in argument_rows(called.arguments, called.sent, called.definition, IN_TABLE):
        rows.append((name, argument_cell(value, mark)))
        room -= len(name) + len(rows[-1][1])
        if room < 0:
            return joined([facts(rows), note("… and more arguments")])
    return facts(rows)


def excerpt_html(text: str) -> Markup:
    """Return the beginning of a result's text."""
    shown, rest = shortened(text, EXCERPT)
    return joined([preformatted(shown), note("… further back, shown shortened" if rest else "")]) if text else Markup()
