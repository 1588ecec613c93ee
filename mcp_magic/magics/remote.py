"""Completions that only the server knows: `completion/complete`, asked in the moment of a Tab.

Tab is synchronous and the kernel's loop is its own caller, so the question nests the loop, briefly;
an answer that takes longer arrives in the cache and is there for the next Tab.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from mcp_magic.magics.running import run_nested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_magic.core.connection import Connection

__all__ = ["complete_prompt", "complete_uri"]

PATIENCE_SECONDS = 0.25
"""How long a Tab waits for the server."""

FRESH_SECONDS = 60.0
"""How long an answer is taken from the cache."""

_cache: dict[tuple[Any, ...], tuple[float, list[str]]] = {}
_asked: dict[tuple[Any, ...], asyncio.Task[None]] = {}


def complete_prompt(
    connection: Connection, prompt: str, argument: str, value: str, given: Mapping[str, str]
) -> list[str]:
    """Return values for a prompt's argument that go on from `value`."""
    from mcp_types import PromptReference

    return _ask(connection, PromptReference(type="ref/prompt", name=prompt), argument, value, given)


def complete_uri(templates: Iterable[tuple[Connection, Any]], fragment: str) -> list[str]:
    """Return URIs that go on from `fragment`: a template's fixed beginning, then what its server offers."""
    from mcp_types import ResourceTemplateReference

    found: list[str] = []
    for connection, template in templates:
        start, brace, rest = template.uri_template.partition("{")
        if not brace or (not fragment.startswith(start) and not start.startswith(fragment)):
            continue
        if not fragment.startswith(start):
            found.append(start)
            continue
        variable, _, after = rest.partition("}")
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        values = _ask(connection, reference, variable.lstrip("+#./;?&").rstrip("*"), fragment[len(start) :], {})
        found += [start + value + after.partition("{")[0] for value in values]
    return found


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
