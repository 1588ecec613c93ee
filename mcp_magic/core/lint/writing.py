"""What is wrong with what a definition says: nothing said, too much, hidden, or meant for the model alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding
from mcp_magic.core.lint.hidden import hidden
from mcp_magic.core.lint.instructions import suspicions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CHARACTERS_A_TOKEN", "described", "size_findings", "text_findings"]

CHARACTERS_A_TOKEN = 4
"""What providers give as a rule of thumb; JSON may take a few more."""

MANY_TOKENS = 2000
"""Tokens of one definition, which a model reads at each turn."""

LONG_DESCRIPTION = 4000
"""Characters."""

_INNOCENT = "private use characters"
"""Icon fonts live there: odd, but seldom an attack."""


def described(text: str | None, owner: str, what: str = "description", severity: str = WARNING) -> Iterator[Finding]:
    """Yield that a description is missing, empty or long."""
    if not (text or "").strip():
        said = f"the {what} is {'missing' if text is None else 'empty'}; a model has only the name to go by"
        yield Finding("description-missing", severity, owner, said, "say in a sentence what it does and returns")
    elif len(text or "") > LONG_DESCRIPTION:
        tokens = len(text or "") // CHARACTERS_A_TOKEN
        said = f"the {what} has {len(text or ''):,} characters, about {tokens:,} tokens at each turn of a model"
        yield Finding("description-long", WARNING, owner, said, "say what is needed to choose and call it")


def size_findings(definition: Any, owner: str) -> Iterator[Finding]:
    """Yield that a definition is large."""
    tokens = len(json.dumps(definition, default=str, ensure_ascii=False)) // CHARACTERS_A_TOKEN
    if tokens > MANY_TOKENS:
        said = f"its definition is about {tokens:,} tokens, which a model reads at each turn"
        yield Finding("definition-large", NOTE, owner, said, "fewer arguments, shorter texts")


def text_findings(placed: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Yield what is hidden in texts, and what in them looks like an instruction.

    Args:
        placed: Where each stands, and the text.
    """
    seen: set[tuple[str, str]] = set()
    for where, text in placed:
        if (where, text) in seen:
            continue
        seen.add((where, text))
        for found in hidden(text):
            says = f"; as letters they say {found.says!r}" if found.says else ""
            severity = WARNING if found.kind == _INNOCENT else ERROR
            said = f"{found.kind}, which nobody sees: {found.points}{says}"
            yield Finding("hidden-unicode", severity, where, said, "take them out; do not trust the text before")
        for seems, words in suspicions(text):
            said = f"it {seems}: {words!r}"
            yield Finding("instruction-like", WARNING, where, said, "read it: is that what the tool needs?")
