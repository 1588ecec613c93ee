"""What a server announces, and what it really lists: all pages, by hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_magic.core.catalog import KINDS, MAX_PAGES
from mcp_magic.core.doctor.asking import ask
from mcp_magic.errors import listed
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.doctor.report import Step

__all__ = ["Offer", "fetch_offers", "judge_capabilities", "judge_lists"]

METHOD_NOT_FOUND = -32601

LIST_SECONDS = 30.0
"""Seconds that all pages of a list may take."""

PAGE_SECONDS = 15.0
"""Seconds that one page may take."""

_WIRE = {
    "tools": ("tools/list", "tools", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts/list", "prompts", "name"),
}
"""Kind -> method, field of a page, what an item is known by."""

_MODELS = {"tools": "Tool", "resources": "Resource", "templates": "ResourceTemplate", "prompts": "Prompt"}


@dataclass
class Offer:
    """One list.

    Attributes:
        kind: `"tools"`, `"resources"`, `"templates"` or `"prompts"`.
        announced: Whether its capability is announced.
        items: What was listed, as it came; also where the answer as a whole breaks the protocol.
        parsed: The same as definitions.
        unread: Those of them that are none: what is meant, and what is wrong with it.
        pages: How many pages it had.
        seconds: How long they took.
        problem: Why it could not be had, or "".
        code: The JSON-RPC error code of that.
        todo: What to do about that.
        odd: What is wrong with it, and what to do, where it could be had.
    """

    kind: str
    announced: bool
    items: list[Any] = field(default_factory=list)
    parsed: list[Any] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    pages: int = 0
    seconds: float = 0.0
    problem: str = ""
    code: int | None = None
    todo: str = "look at the server's log; `%mcp trace` has the message"
    odd: list[tuple[str, str]] = field(default_factory=list)


async def fetch_offers(connection: Connection, seconds: float) -> dict[str, Offer]:
    """Fetch all lists at the same time, those too that are not announced."""
    fetched = await asyncio.gather(*(_fetch(connection, kind, min(seconds, PAGE_SECONDS)) for kind in _WIRE))
    return {offer.kind: offer for offer in fetched}


async def _fetch(connection: Connection, kind: str, seconds: float) -> Offer:
    method, member, _ = _WIRE[kind]
    announced = getattr(connection.capabilities, KINDS[kind].capability, None) is not None
    offer = Offer(kind, announced)
    cursor: Any = None
    seen: set[str] = set()
    while offer.pages < MAX_PAGES and offer.seconds < LIST_SECONDS:
        asked = await ask(connection, method, {} if cursor is None else {"cursor": cursor}, seconds=seconds)
        offer.seconds += asked.seconds
        if asked.result is None:
            offer.problem, offer.code = asked.problem, asked.code
            found = asked.unread.get(member) if isinstance(asked.unread, dict) else None
            if isinstance(found, list):
                offer.items += found
                offer.todo = "hosts lose the whole list by that; mend what it names"
            break
        offer.pages += 1
        offer.items += asked.result[member]
        cursor = asked.result.get("nextCursor")
        if cursor in (None, ""):
            break
        if str(cursor) in seen:
            offer.odd.append((f"the cursor {str(cursor)[:60]!r} came twice: the list never ends", "mend the paging"))
            break
        seen.add(str(cursor))
    else:
        offer.odd.append((f"no end after {offer.pages} pages and {duration(offer.seconds)}", "mend the paging"))
    _parse(offer)
    return offer


def _parse(offer: Offer) -> None:
    """Make definitions of the items, and note which are none and which are there twice."""
    import mcp_types
    from pydantic import ValidationError

    model, key = getattr(mcp_types, _MODELS[offer.kind]), _WIRE[offer.kind][2]
    names: Counter[str] = Counter()
    for number, item in enumerate(offer.items):
        name = item.get(key) if isinstance(item, dict) else None
        try:
            offer.parsed.append(model.model_validate(item))
            names[str(name)] += 1
        except ValidationError as error:
            first = error.errors()[0]
            what = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
            offer.unread.append((f"{offer.kind[:-1]} {name or f'number {number + 1}'}"[:80], what))
    twice = [name[:60] for name, count in names.items() if count > 1]
    if twice:
        offer.odd.append((f"listed more than once: {listed(twice, 5)}", "list each once, also across pages"))


def judge_capabilities(offers: dict[str, Offer], connection: Connection, step: Step) -> None:
    """Hold what is announced against what is answered."""
    capabilities = connection.capabilities
    said = capabilities.model_dump(exclude_none=True) if capabilities is not None else {}
    step.ok(f"announced: {listed(_words(said), 12)}" if said else "it announces nothing")
    for offer in offers.values():
        method = _WIRE[offer.kind][0]
        if offer.announced and offer.code == METHOD_NOT_FOUND and offer.kind != "templates":
            step.fail(f"{offer.kind} are announced, and {method} is not known", "announce only what is there")
        elif not offer.announced and offer.items:
            count = len(offer.items)
            todo = f"announce the capability {KINDS[offer.kind].capability!r}: hosts do not ask otherwise"
            step.warn(f"{method} answers with {count} {offer.kind}, which are not announced", todo)
    if not any(offer.announced for offer in offers.values()) and not any(offer.items for offer in offers.values()):
        step.warn("it offers no tools, resources or prompts", "is that meant so?")


def _words(said: dict[str, Any]) -> list[str]:
    words = []
    for name, options in said.items():
        more = [key for key, value in options.items() if value] if isinstance(options, dict) else []
        words.append(f"{name} ({', '.join(more)})" if more else name)
    return words


def judge_lists(offers: dict[str, Offer], step: Step) -> None:
    """Note what was listed, and what is wrong with how."""
    for offer in offers.values():
        if offer.problem:
            unknown = offer.code == METHOD_NOT_FOUND
            if offer.announced and not unknown:
                step.fail(offer.problem, offer.todo)
            continue
        pages = f" on {offer.pages} pages" if offer.pages > 1 else ""
        count = f"{len(offer.items):,} {offer.kind if len(offer.items) != 1 else offer.kind[:-1]}"
        if offer.items or offer.announced:
            step.ok(f"{count}{pages} in {duration(offer.seconds)}")
        for text, todo in offer.odd:
            step.fail(f"{offer.kind}: {text}", todo)
    if not step.remarks:
        step.skip("nothing is announced")
