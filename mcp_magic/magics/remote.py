"""Completions that only the server knows: `completion/complete`, asked in the moment of a Tab.

Tab is synchronous and the kernel's loop is its own caller, so the question nests the loop, briefly;
an answer that takes longer arrives in the cache and is there for the next Tab.
"""

from __future__ import annotations

import asyncio
import re
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from mcp_magic.magics.running import run_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.core.connection import Connection

__all__ = ["complete_prompt", "complete_template", "complete_uri", "place_in"]

PATIENCE_SECONDS = 0.25
"""How long a Tab waits for the server."""

FRESH_SECONDS = 60.0
"""How long an answer is taken from the cache."""

_PIECES = re.compile(r"([^{]*)(?:\{([+#./;?&]?)([^{}*:]*)[^{}]*\}|$)")
"""A literal of a URI template (RFC 6570) and the expression behind it: its operator and its variable."""

_cache: dict[tuple[Any, ...], tuple[float, list[str]]] = {}
_asked: dict[tuple[Any, ...], asyncio.Task[None]] = {}


def complete_prompt(
    connection: Connection, prompt: str, argument: str, value: str, given: Mapping[str, str]
) -> list[str]:
    """Return values for a prompt's argument that go on from `value`."""
    from mcp_types import PromptReference

    return _ask(connection, PromptReference(type="ref/prompt", name=prompt), argument, value, given)


def complete_template(
    connection: Connection, template: str, argument: str, value: str, given: Mapping[str, str]
) -> list[str]:
    """Return values for a variable of a resource template that go on from `value`."""
    from mcp_types import ResourceTemplateReference

    return _ask(connection, ResourceTemplateReference(type="ref/resource", uri=template), argument, value, given)


def complete_uri(templates: Iterable[tuple[Connection, Any]], fragment: str) -> list[str]:
    """Return URIs that go on from `fragment`: a template's next literal, or what its server offers for the variable.

    What stands for the variables before is sent as the context.
    """
    found: list[str] = []
    for connection, template in templates:
        at = place_in(template.uri_template, fragment)
        if at is None:
            continue
        if not at.variable:
            found.append(at.before)
            continue
        values = complete_template(connection, template.uri_template, at.variable, unquote(at.value), at.given)
        found += [at.before + quote(value, safe=at.safe, errors="replace") + at.after for value in values]
    return found


class PlaceInTemplate(NamedTuple):
    """Where the end of a text is in a URI template.

    Attributes:
        before: What stands before the variable; without a variable, what the text may become.
        variable: The variable that it is in, or "".
        value: What is there of its value.
        after: The literal that follows the variable.
        given: The values of the variables before.
        safe: The characters that its values keep as they are.
    """

    before: str
    variable: str = ""
    value: str = ""
    after: str = ""
    given: Mapping[str, str] = MappingProxyType({})
    safe: str = ""


def place_in(template: str, text: str) -> PlaceInTemplate | None:
    """Find where a text ends in a URI template; None if it cannot become one of its URIs.

    >>> at = place_in("git://{repo}/file/{+path}", "git://tools/file/src")
    >>> at.before, at.variable, at.value, dict(at.given)
    ('git://tools/file/', 'path', 'src', {'repo': 'tools'})
    >>> place_in("git://{repo}/file/{+path}", "gi").before
    'git://'
    """
    before, rest = "", text
    given: dict[str, str] = {}
    pieces = _PIECES.findall(template)
    for number, (literal, operator, variable) in enumerate(pieces):
        if not rest.startswith(literal):
            return PlaceInTemplate(before + literal) if literal.startswith(rest) else None
        before, rest = before + literal, rest[len(literal) :]
        if not variable or operator not in ("", "+") or "," in variable:
            return None  # the end, or an expression that has more than a value
        after = pieces[number + 1][0] if number + 1 < len(pieces) else ""
        value, found, _ = rest.partition(after) if after else (rest, "", "")
        if not found:
            safe = "/:?#[]@!$&'()*+,;=%" if operator else ""
            return PlaceInTemplate(before, variable, value, after, given, safe)
        given[variable] = unquote(value)
        before, rest = before + value, rest[len(value) :]
    return None


def _ask(connection: Connection, reference: Any, argument: str, value: str, given: Mapping[str, str]) -> list[str]:
    key = (connection.name, id(connection), reference.model_dump_json(), argument, value, *sorted(given.items()))
    known = _cache.get(key)
    if known is not None and time.monotonic() - known[0] < FRESH_SECONDS:
        return known[1]
    work = _wait_for(connection, key, reference, argument, value, dict(given))
    try:
        run_nested(work)
    except RuntimeError:  # a loop that cannot be nested; the cache is what there is
        work.close()
    return _cache.get(key, (0.0, []))[1]


async def _wait_for(connection: Connection, key: tuple[Any, ...], *question: Any) -> None:
    task = _asked.get(key)
    if task is None:
        task = _asked[key] = asyncio.ensure_future(_fill(connection, key, *question))
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)


async def _fill(
    connection: Connection, key: tuple[Any, ...], reference: Any, argument: str, value: str, given: dict[str, str]
) -> None:
    try:
        values = await connection.complete(reference, argument, value, given)
    except Exception:  # a server that cannot complete has nothing to offer
        values = []
    finally:
        _asked.pop(key, None)
    while len(_cache) >= 1000:
        _cache.pop(next(iter(_cache)))
    _cache[key] = (time.monotonic(), [text for text in values if text.startswith(value)])
