"""`%mcp prompt`: gets a prompt's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic import schema
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, timeout_options, timeouts

if TYPE_CHECKING:
    import argparse

    from mcp_magic.results.results import PromptResult

__all__ = ["PROMPT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("prompt", metavar="SERVER:PROMPT", help="the server may be left out while the name is unique")
    parser.add_argument(
        "arguments",
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        completer="prompt's argument",
        help="its arguments, as text",
    )
    timeout_options(parser)


async def run(invocation: Invocation, arguments: argparse.Namespace) -> PromptResult:
    """Get the prompt."""
    connection, prompt = await invocation.host.resolve(arguments.prompt, "prompts")
    values = schema.parse_prompt_arguments(
        arguments.arguments, prompt.arguments or (), evaluate=invocation.evaluate, directory=invocation.directory
    )
    return await connection.prompt(prompt.name, values, **timeouts(invocation, arguments))


PROMPT = Implementation(
    run,
    options,
    examples=("%mcp prompt weather:travel_advice city=Oslo month=May",),
)
