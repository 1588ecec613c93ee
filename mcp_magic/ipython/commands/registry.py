"""`%mcp find` searches a registry of MCP servers."""

from __future__ import annotations

import argparse
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from mcp_magic.errors import MCPMagicError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import (
    Argument,
    Implementation,
    Invocation,
    Tab,
    check_variable,
    seconds_typed,
)
from mcp_magic.registry.client import OFFICIAL_REGISTRY
from mcp_magic.registry.search import LIMIT, MAX_LIMIT, PACKAGE_TYPES, TRANSPORT_TYPES, cached_names
from mcp_magic.schema.commandline import as_word

if TYPE_CHECKING:
    from mcp_magic.display.listing import Listing

_NAMES = 5_000  # most names of a cache that Tab looks at
_PAGES = 50


async def _find(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    check_variable("%mcp find", arguments.out)
    listing: Listing = await invocation.host.search_registry(
        *(str(invocation.value(word)) for word in arguments.words),
        registry=invocation.text(arguments.registry) if arguments.registry else None,
        refresh=arguments.refresh,
        timeout=arguments.timeout,
        transport=arguments.transport or "",
        package=arguments.package or "",
        every=arguments.all,
        limit=arguments.limit,
    )
    if arguments.out:
        invocation.shell.user_ns[arguments.out] = listing
    return listing


def registry_names(tab: Tab) -> list[str]:
    """Return the names of servers that searches of the registry have brought into the cache."""
    registry = str(tab.settings.registry) if tab.settings is not None else ""
    names: list[str] = []
    with suppress(MCPMagicError, OSError):  # Tab shows no errors
        names = [*islice(cached_names(registry or OFFICIAL_REGISTRY, _PAGES), _NAMES)]
    return completion.starting(tab, filter(None, map(as_word, names)))


def _count(word: str) -> int:
    """Read a number of rows. Raises ArgumentTypeError if there cannot be so many."""
    if word.isdecimal() and 1 <= int(word[:9]) <= MAX_LIMIT:
        return int(word)
    raise argparse.ArgumentTypeError(f"expected 1 to {MAX_LIMIT:,}, got {word[:40]!r}")


FIND = Implementation(
    _find,
    (
        Argument(
            "words",
            nargs="*",
            metavar="WORDS",
            complete=registry_names,
            help="all of them must be in name, title or description",
        ),
        Argument("--registry", metavar="URL", help="another registry than that of the setting `registry`"),
        Argument("--transport", choices=[*TRANSPORT_TYPES], help="only servers that can be reached so"),
        Argument("--package", choices=PACKAGE_TYPES, help="only servers that have such a package"),
        Argument("--all", action="store_true", help="also deleted servers and older versions"),
        Argument("--limit", type=_count, default=LIMIT, metavar="N", help=f"matches at most (default: {LIMIT})"),
        Argument("--refresh", action="store_true", help="ask the registry also where the cache has an answer"),
        Argument("--timeout", type=seconds_typed, metavar="S", help="seconds for each answer (default: 20)"),
        Argument("-o", "--out", metavar="NAME", help="also keep the table in this variable"),
    ),
    examples=(
        '%mcp find "postgres"',
        "%mcp find postgres read --package pypi",
        "%mcp find --registry https://registry.example.com --limit 20",
        "servers = %mcp find weather --transport http",
    ),
    details="Nothing is started. A registry checks who may publish under a name, and not what the program does: read "
    "what `%mcp add NAME` shows before you say yes.\n\n"
    "Answers are cached below Jupyter's data directory: for ten minutes the registry is not asked again, and where it "
    "cannot be reached, the cache is searched. `.df` is the table as a DataFrame.",
)
