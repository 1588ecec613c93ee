"""What is wrong with names."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding
from mcp_magic.core.lint.hidden import lookalikes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["argument_name_findings", "duplicate_findings", "name_findings"]

MAX_NAME = 64
"""Characters that OpenAI and Anthropic take in a tool's name (`^[a-zA-Z0-9_-]{1,64}$`)."""

_PROVIDERS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPECIFIED = re.compile(r"[A-Za-z0-9._-]{1,128}")
_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def name_findings(name: str, server: str, owner: str) -> Iterator[Finding]:
    """Yield what is wrong with a tool's name; source: specification, "Tool Names".

    Args:
        name: The name.
        server: The server's name, with which hosts join it.
        owner: Where it stands.
    """
    if not name:
        yield Finding("name-empty", ERROR, owner, "the name is empty", "give it a name")
        return
    if scripts := lookalikes(name):
        said = f"the name mixes letters that look alike: {scripts}"
        yield Finding("name-lookalike", ERROR, owner, said, "write it in one script")
    if not _PROVIDERS.fullmatch(name):
        legal = "" if _SPECIFIED.fullmatch(name) else ", and the specification advises against it"
        said = f"models do not take the name{_why_not(name)}{legal}; hosts have to change it"
        yield Finding("name-provider", WARNING, owner, said, f"up to {MAX_NAME} letters, digits, _ and -")
    elif (length := len(server) + 2 + len(name)) > MAX_NAME:
        said = f"as {server}__{name} it has {length} characters, more than the {MAX_NAME} that models take; it gets cut"
        yield Finding("name-long", NOTE, owner, said, "a shorter name, of the tool or of the server")


def _why_not(name: str) -> str:
    odd = sorted({letter for letter in name if not _PROVIDERS.fullmatch(letter)})
    if odd:
        return " (it has " + ", ".join(f"{c!r}" if c.isascii() else f"U+{ord(c):04X}" for c in odd[:5]) + ")"
    return f" (it has {len(name)} characters)"


def argument_name_findings(names: Iterable[str], owner: str) -> Iterator[Finding]:
    """Yield what is wrong with the names of arguments."""
    for name in names:
        if scripts := lookalikes(name):
            said = f"the argument {name[:60]!r} mixes letters that look alike: {scripts}"
            yield Finding("name-lookalike", ERROR, owner, said, "write it in one script")
        elif not _ARGUMENT.fullmatch(name):
            said = f"models do not take the argument name {name[:60]!r}"
            yield Finding("name-argument", WARNING, owner, said, "up to 64 letters, digits, _, . and -")


def duplicate_findings(names: Sequence[str], kind: str) -> Iterator[Finding]:
    """Yield names that are there more than once, and names that differ by case alone.

    Args:
        names: All names (or URIs) of a list.
        kind: `"tool"`, `"prompt"`, `"resource"` or `"template"`.
    """
    for name, count in Counter(names).items():
        if count > 1:
            said = f"it is listed {count} times; only one of them can be reached"
            yield Finding("name-duplicate", ERROR, f"{kind} {name}", said, "list each once, by a name of its own")
    if kind in ("resource", "template"):
        return  # the path of a URI may well have both
    by_case: dict[str, set[str]] = {}
    for name in names:
        by_case.setdefault(name.casefold(), set()).add(name)
    for same in by_case.values():
        if len(same) > 1:
            said = f"these differ by case alone: {', '.join(sorted(same)[:5])}"
            yield Finding("name-case", WARNING, f"{kind} {min(same)}", said, "names that cannot be mistaken")
