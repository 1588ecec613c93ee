"""Reads and clicks in an explorer, as the page does it."""

from __future__ import annotations

import html
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp_types import ListToolsResult, Tool

from mcp_magic.config.specs import InProcessSpec
from mcp_magic.ui.explorer import Explorer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_magic._host import Host


@contextmanager
def explored(host: Host, *args: Any, **options: Any) -> Iterator[Explorer]:
    explorer = Explorer(host, *args, **options)
    try:
        yield explorer
    finally:
        explorer.close()


def text(widget: Any) -> str:
    """What an HTML widget reads."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", widget.value, flags=re.DOTALL)).strip()


def rows(explorer: Explorer) -> list[str]:
    """The names on the page of items that is shown."""
    return [row.children[0].description for row in explorer.items.box.children]


def server_rows(explorer: Explorer) -> dict[str, tuple[str, list[Any]]]:
    """What is shown of each server: name, text, buttons."""
    shown = explorer.servers.pages.box.children
    return {row.children[0].description: (text(row.children[1]), list(row.children[2:])) for row in shown}


def choose(explorer: Explorer, label: str) -> None:
    """Click the row of an item; of one server alone the rows have no prefix."""
    names = (label, label.partition(":")[2])
    next(row for row in explorer.items.box.children if row.children[0].description in names).children[0].click()


def open_form(explorer: Explorer, label: str) -> Any:
    explorer.filter.search.value = label
    choose(explorer, label)
    explorer.detail.open_form()
    return explorer.detail.form


async def silent(host: Host, *tools: Tool) -> list[Tool]:
    """Connect a server that tells nobody when its tools change; return the list that it offers."""
    offered = [*tools]

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(offered))

    await host.connect_spec(InProcessSpec(server=Server("silent", on_list_tools=list_tools)), "silent")
    return offered
