"""`%mcp call`: calls a tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.errors import ArgumentsError
from mcp_magic.ipython.ask import Answers
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, timeout_options, timeouts
from mcp_magic.schema.commandline import CELL

if TYPE_CHECKING:
    import argparse

    import pandas as pd
    from mcp_types import Tool

    from mcp_magic.results.results import ToolResult

__all__ = ["CALL"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("tool", metavar="SERVER:TOOL", help="the server may be left out while the name is unique")
    parser.add_argument("arguments", nargs="*", default=[], metavar="NAME=VALUE", help="see above")
    parser.add_argument("--df", action="store_true", help="return the result's table as a DataFrame")
    timeout_options(parser)
    parser.add_argument("--answers", metavar="FILE", help="JSON that answers what the server asks for meanwhile")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> ToolResult | pd.DataFrame:
    """Call the tool; raises an error that it reports."""
    connection, tool = await invocation.tool(arguments.tool, arguments.arguments)
    schema.check_text(invocation.body, "the cell")
    cell = invocation.body.removesuffix("\n") if invocation.body is not None else None  # IPython adds a line end
    in_cell = any(word.partition("=")[2] == f"@{CELL}" for word in arguments.arguments)
    values = ({} if in_cell else _body(invocation.body, tool)) | schema.parse_arguments(
        arguments.arguments,
        tool.input_schema,
        evaluate=invocation.evaluate,
        directory=invocation.directory,
        cell=cell,
    )
    answers = Answers.load(invocation.directory / arguments.answers) if arguments.answers else None
    elicitor, prepared = (answers.elicit, answers.sample) if answers is not None else (None, None)
    limits = timeouts(invocation, arguments)
    result = await connection.call_tool(tool.name, values, elicitor=elicitor, prepared=prepared, **limits)
    if answers is not None:
        answers.raise_for_problem()
    result.raise_for_error()
    return result.df if arguments.df else result


def _body(body: str | None, tool: Tool) -> dict[str, Any]:
    """Read the JSON object below a `%%mcp call` line."""
    if body is None or not body.strip():
        return {}
    try:
        value = json.loads(body)
    except ValueError as error:
        fields = sorted(schema.root_field(tool.input_schema).children, key=lambda field: not field.needed)
        names = [field.name for field in fields if field.kind == "string" and field.name.isidentifier()]
        named = names[0] if names else "NAME"
        reason = f"the cell below %%mcp call is no JSON: {error}; for its text as an argument write {named}=@cell"
    else:
        if isinstance(value, dict):
            return value
        reason = f"the cell below %%mcp call must be a JSON object, not {type(value).__name__}"
    raise ArgumentsError(reason)


CALL = Implementation(
    run,
    options,
    examples=(
        "%mcp call math:add a=3 b=4",
        "%mcp call weather:compare locations=NYC locations=Oslo",
        "result = %mcp call weather:history location=NYC start=2026-01-01 end=2026-01-31",
        "%mcp call trips:plan --answers answers.json",
        "%mcp call store:insert rows=$df note={title.upper()} image=@photo.png",
        '%mcp call api:create user.name=Ada tags=["a", "b"]',
        "%%mcp call shop:query sql=@cell",
    ),
    details="The result has .data (its JSON as Python values), .df (its table, or .frames for several), .text, .images "
    "and .audio; `r = %mcp call ...` keeps it, and `r?` says more. "
    "name=value is text, turned into what the tool's schema asks for; name:=JSON is taken as it is; "
    "name=$variable and name={expression} stand for Python objects, a result for its value; name=@file for a file's "
    "content, name=@cell for the text of the cell below %%mcp call; a backslash in front of $, { or @ keeps that as "
    "text, and one in front of a quote the quote. a.b=1 reaches into nested objects; a name that is repeated makes a "
    "list. $dict or a JSON object, alone or as the cell below, is all arguments, and what is named beside it counts. A "
    "required argument that is left out gets the default of the tool's schema. A DataFrame is a list of records; where "
    "the schema wants lists, it is its rows below the names of its columns.\n\n"
    "--answers: a list of answers in order, or an object with one for each message; an answer is the values, "
    '"decline", "cancel", or for a page "accept". With a list "sampling" in the object it replies for models, too.',
    takes_body=True,
)
