"""What a model is given of the tools, and about how many tokens that costs at each turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp_magic.agent.registry import Registry
from mcp_magic.core.lint.writing import CHARACTERS_A_TOKEN
from mcp_magic.errors import listed
from mcp_magic.results import Listing
from mcp_magic.wording import counted

if TYPE_CHECKING:
    from mcp_magic.core.host import Host

__all__ = ["CHARACTERS_A_TOKEN", "bound_tools"]


async def bound_tools(host: Host, server: str | None = None, search: str = "") -> Listing:
    """List the tools as a model is given them.

    Args:
        host: Whose tools.
        server: One server instead of all.
        search: Only those with this in name or description.

    Returns:
        Per tool the name that the model knows, the person's, the characters and about how many tokens that is.
    """
    registry = Registry(host, servers=[server] if server else ())
    await registry.check()
    rows = []
    for offer in (await registry.refresh()).values():
        text = json.dumps(offer.bound, ensure_ascii=False)
        if search.casefold() in text.casefold():
            size = {"characters": len(text), "tokens": -(-len(text) // CHARACTERS_A_TOKEN)}
            rows.append({"bound as": offer.name, "tool": offer.person_name, **size})
    total = sum(row["tokens"] for row in rows)  # type: ignore[misc]
    tools = counted(len(rows), "tools")
    note = (
        f"{tools}, about {total:,} tokens at each turn of the model (counted as {CHARACTERS_A_TOKEN} characters each)"
    )
    if registry.app_only:
        note += f"; for apps only, and not given: {listed(registry.app_only)}"
    empty = "no server is connected: `%mcp connect TARGET` opens a session"
    if host.find():
        empty = f"no tools with {search!r} in what a model is given" if search else "no tools"
    return Listing(
        rows, title="What a model is given", empty=empty, note=note if rows or registry.app_only else "", kind="tools"
    )
