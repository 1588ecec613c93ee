"""The agent's tool `map`: one call of a server's tool for each row of a table, approved together."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names, plural
from mcp_magic.agent.builtin import BuiltinTool
from mcp_magic.agent.calls import no_tool
from mcp_magic.consent.consent import Decision
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.langchain.content import to_content
from mcp_magic.langchain.functions import own_arguments
from mcp_magic.langchain.large_results import Spill
from mcp_magic.langchain.names import Names
from mcp_magic.map.plan import Origin, Step
from mcp_magic.map.rows import PerRow, Row, col, read_table
from mcp_magic.map.run import MapRun, map_steps
from mcp_magic.results.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from mcp_magic.agent.builtin import BuiltinCall
    from mcp_magic.agent.settings import AgentSettings
    from mcp_magic.agent.tools import Offer, Registry
    from mcp_magic.consent.consent import Request
    from mcp_magic.langchain.content import Content

DESCRIPTION = (
    "Calls one tool once for each row of a table, and returns a table of the answers. Use it instead of many calls of "
    "the same tool."
)

HEAD = 300  # characters of a table's first row that the model is shown

_COLUMN = re.compile(r"\{([^{}]+)\}")


def map_tool(registry: Registry, settings: AgentSettings) -> BuiltinTool:
    """Return the tool `map` over tables by name, and over rows that the model writes.

    Where the caller of the graph decides about calls (`ask="interrupt"`), those that nobody decides are denied.

    Args:
        registry: The tools that may be called.
        settings: Its tables are what `Host.map` takes as rows, but no iterators.

    Raises:
        ArgumentsError: A table cannot be read.
    """
    known = {name: _rows_of(name, source) for name, source in (settings.tables or {}).items()}
    spill, limit = settings.spill, settings.result_limit

    async def refuse(_: Request) -> Decision:
        return Decision.deny("the calls of a map are not asked about by interrupt; a rule can allow them", by="default")

    approver = refuse if settings.ask == "interrupt" else None

    async def answer(
        given: Mapping[str, Any], _: Sequence[BaseMessage], caller: BuiltinCall
    ) -> tuple[Content, dict[str, Any]]:
        rows = known.get(given["table"]) if "table" in given else [Row(row) for row in given.get("rows", ())]
        if ("table" in given) == ("rows" in given) or rows is None:
            raise ArgumentsError(f"map takes either `rows` or one `table` of: {join_names(known)}")
        offer = _offer(registry.offers, str(given["tool"]))
        arguments = own_arguments(given.get("arguments", {}), offer.renamed)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        run = map_steps(
            [Step("", offer.connection, offer.tool, _filled(arguments, columns))],
            rows,
            registry.host.services,
            origin=Origin(caller.asker, caller.run, settings.approve, approver, caller.on_progress),
            timeout=settings.timeout,
        )
        large = None if spill is None else Spill.above(spill, caller.handle)
        try:
            await run.run()
        except asyncio.CancelledError:
            caller.keep(*_content(run, limit, large))
            raise
        return _content(run, limit, large)

    return BuiltinTool(_function(known), answer, when=lambda _: bool(registry.offers))


def _rows_of(name: str, source: Any) -> list[Row]:
    table = read_table(source)
    if table.size is None and not isinstance(source, str) and iter(source) is source:
        raise ArgumentsError(f"the table {name!r} is an iterator, which gives its rows only once; give a list")
    return list(table.rows)


def _function(tables: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    heads = [
        f"{name}: {plural(len(rows), 'rows')}, the first is {one_line(json.dumps(dict(rows[0]), default=str), HEAD)}"
        for name, rows in tables.items()
        if rows
    ]
    properties: dict[str, Any] = {
        "tool": {"type": "string", "description": "the name of the tool, as you would call it"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "the rows"},
        "arguments": {
            "type": "object",
            "description": "the arguments of each call: a value for all rows, or {column} for the row's own; without "
            "them, the columns that are named like arguments are passed",
        },
    }
    if tables:
        properties["table"] = {"type": "string", "enum": list(tables), "description": "the table, instead of rows"}
    return {
        "name": "map",
        "description": "\n".join([DESCRIPTION, *(["Tables:", *heads] if heads else [])]),
        "parameters": {"type": "object", "properties": properties, "required": ["tool"]},
    }


def _offer(offers: Mapping[str, Offer], name: str) -> Offer:
    for offer in offers.values():
        if name in (offer.name, offer.person_name):
            return offer
    raise ArgumentsError(no_tool(Names(()).person(name), [offer.person_name for offer in offers.values()]))


def _filled(value: Any, columns: Sequence[str]) -> Any:
    """Return arguments with the columns that the model has written as `{column}`.

    >>> _filled({"text": "Hi {name}", "n": 3}, ["name"])["text"].text
    'Hi {name}'
    """
    if isinstance(value, dict):
        return {name: _filled(inner, columns) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, columns) for inner in value]
    if not isinstance(value, str):
        return value
    if whole := _COLUMN.fullmatch(value):
        if whole[1] not in columns:
            raise ArgumentsError(f"there is no column {whole[1]!r}. Columns: {join_names(columns)}")
        return col(whole[1])
    if any(name in columns for name in _COLUMN.findall(value)):
        return PerRow(value, lambda row, _: _COLUMN.sub(lambda found: str(row.get(found[1], found[0])), value))
    return value


def _content(run: MapRun, limit: int, large: Spill | None) -> tuple[Content, dict[str, Any]]:
    content, artifact = to_content(_result(run), limit=limit, spill=large)
    stopped = f"It stopped: {run.problem}\n" if run.problem else ""
    if run.failure_summary:
        artifact["failures"] = run.failure_summary
    return f"{run.summary}\n{stopped}{content}", artifact


def _result(run: MapRun) -> ToolResult:
    """Return the answers as the result of one call: a table."""
    from mcp_types import CallToolResult

    table = run.df.drop(columns=["attempts", "seconds"], errors="ignore")
    if "error" in table and table["error"].isna().all():
        table = table.drop(columns="error")
    rows = table.convert_dtypes().to_json(orient="records", date_format="iso", default_handler=str)
    [step] = run.steps
    return ToolResult(
        CallToolResult(
            content=[],
            structured_content={"rows": json.loads(rows)},
            is_error=bool(run.items) and not run.stats["done"],
        ),
        server=step.connection.name,
        tool=step.tool.name,
        seconds=run.stats["seconds"],
    )
