"""`%mcp assert`: checks the answer of a tool."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic import schema
from mcp_magic.config.parsing import LARGEST_DATA, read_bytes
from mcp_magic.display.listing import Listing
from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_types import Tool

    from mcp_magic.results.results import ToolResult

__all__ = ["ASSERT"]

CHECKS = ("equals", "contains", "schema", "under", "error")
"""The options. A word of this name is not an argument, unless the tool lists it."""


def options(parser: Parser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("tool", metavar="SERVER:TOOL", help="the server may be left out while the name is unique")
    add("arguments", nargs="*", default=[], metavar="NAME=VALUE", help="as for `%%mcp call`")
    add("--equals", metavar="VALUE", help="the data is this: JSON, text, or $variable")
    add("--contains", action="append", default=[], metavar="TEXT", help="the text has this in it; may be repeated")
    add("--schema", metavar="SCHEMA", help="the data fits this JSON Schema: a file, $variable, or `output`: its own")
    add("--under", type=float, metavar="MS", help="the call takes less than so many milliseconds")
    add("--error", nargs="?", const="", metavar="TEXT", help="the tool reports an error, with this in it")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Call the tool and check its answer."""
    from mcp_magic.results import results

    connection, tool = await invocation.tool(arguments.tool, arguments.arguments)
    _refuse_checks(arguments.arguments, tool, f"{connection.name}:{tool.name}")
    values = schema.parse_arguments(
        arguments.arguments, tool.input_schema, evaluate=invocation.evaluate, directory=invocation.directory
    )
    wanted = _schema(invocation, arguments.schema, tool.output_schema)
    result = await connection.call_tool(tool.name, values, timeout=invocation.settings.call_timeout)
    outcomes = [("no error", results.succeeds(result))]
    if arguments.error is not None:
        text = invocation.text(arguments.error)
        outcomes = [(f"error {text}".rstrip(), results.fails(result, text))]
    if arguments.equals is not None:
        outcomes.append(("equals", results.equals(result, _value(invocation, arguments.equals, result))))
    outcomes += [
        (f"contains {text!r}", results.contains(result, text)) for text in map(invocation.text, arguments.contains)
    ]
    if wanted is not None:
        outcomes.append(("schema", results.fits(result, wanted)))
    if arguments.under is not None:
        outcomes.append((f"under {arguments.under:g} ms", results.within(result, arguments.under)))
    failed = [f"{name}: {problem}" for name, problem in outcomes if problem]
    if failed:
        raise results.CheckFailedError(f"{connection.name}:{tool.name}: " + "; ".join(failed))
    rows = [{"check": f"✓ {name}"} for name, _ in outcomes]
    return Listing(rows, title=f"{connection.name}:{tool.name}", columns=("check",), kind="checks")


def _refuse_checks(words: list[str], tool: Tool, name: str) -> None:
    """Refuse options typed as arguments, which would be sent and check nothing."""
    takes = {child.name for child in schema.root_field(tool.input_schema).children}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        said, _, value = ("==", "", word[2:]) if word.startswith("==") else word.partition("=")
        check = "equals" if said == "==" else said
        if check in CHECKS and check not in takes:
            text = value or ("" if "=" in word.removeprefix("==") + after else after)
            line = f"--{check} {shlex.quote(text)}" if text else f"--{check}"
            raise CommandError(f"%mcp assert: {said!r} is no argument of {name}; write {line}")


def _value(invocation: Invocation, given: str, result: ToolResult) -> Any:
    """Return the value to compare with; JSON stays text if the result is text."""
    if result.data is not None:
        with suppress(ValueError):
            return json.loads(given)  # a JSON object has the braces of an expression
    return invocation.value(given)


def _schema(invocation: Invocation, given: str | None, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if given is None:
        return None
    if given == "output":
        if own is None:
            raise CommandError("%mcp assert: --schema output: the tool has no output schema.")
        return own["properties"]["result"] if list(own.get("properties", {})) == ["result"] else own
    value = invocation.value(given)
    if isinstance(value, dict):
        return value
    file = invocation.directory / Path(str(value)).expanduser()
    problem = f"{file} holds no JSON object"
    try:
        found = json.loads(read_bytes(file, LARGEST_DATA))
    except OSError as error:
        problem = f"{file}: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"{file} is no JSON: {error}"
    else:
        if isinstance(found, dict):
            return found
    raise ArgumentsError(f"%mcp assert: --schema: {problem}")


ASSERT = Implementation(
    run,
    options,
    examples=(
        "%mcp assert math:add a=3 b=4 --equals 7 --under 500",
        "%mcp assert weather:forecast location=Oslo --contains Oslo --schema output",
        "%mcp assert math:divide a=1 b=0 --error zero",
    ),
    details="Without options the tool must not report an error. What fails is an AssertionError with the difference, "
    "so that Run All, papermill and nbval stop there.",
)
