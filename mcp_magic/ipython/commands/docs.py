"""`%mcp docs` and `%mcp stubs`: a server as a page of Markdown, and as a Python module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcp_magic.config.parsing import write_text
from mcp_magic.display.document import Part, preformatted
from mcp_magic.display.listing import Text
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

__all__ = ["DOCS", "STUBS", "Markdown"]


class Markdown(Text):
    """A Markdown text that a notebook renders."""

    def parts(self) -> list[Part]:
        """Return the parts to display: one."""
        return [Part(self.text, preformatted(self.text), {"text/markdown": self.text})]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="a connected server (default: the only one)")
    parser.add_argument("-o", "--out", metavar="FILE", help="write it into a file")


async def docs(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    """Describe a server as a page."""
    from mcp_magic.server.docs import page

    text = await page(invocation.connection(arguments.server))
    return _written(invocation, arguments.out, text) if arguments.out else Markdown(text)


async def stubs(invocation: Invocation, arguments: argparse.Namespace) -> Text:
    """Write a server's tools as functions."""
    from mcp_magic.server.stubs import stubs as module

    connection = invocation.connection(arguments.server)
    text = module(connection.name, await connection.listing("tools"))
    return _written(invocation, arguments.out, text) if arguments.out else Text(text)


def _written(invocation: Invocation, name: str, text: str) -> Text:
    file = invocation.directory / Path(invocation.text(name)).expanduser()
    write_text(file, text)
    return Text(f"{file}: {len(text.splitlines()):,} lines")


DOCS = Implementation(
    docs,
    options,
    examples=("%mcp docs weather", "%mcp docs weather -o docs/weather.md"),
    details="Markdown, with arguments, types, hints and an example call of each tool. What the server says of "
    "itself is quoted, with its emphasis, lists and code; its HTML, links, images and headings are text.",
)
STUBS = Implementation(
    stubs,
    options,
    examples=("%mcp stubs weather", "%mcp stubs weather -o weather.py"),
    details="Async functions that call the session of this name; arguments and results are typed from the schemas, "
    "so that editors and type checkers know them.",
)
