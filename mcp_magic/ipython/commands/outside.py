"""`%mcp share`: which variables agents outside of the notebook may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic.errors import CommandError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab
from mcp_magic.notebook import host

if TYPE_CHECKING:
    import argparse

    from mcp_magic.display.listing import Listing


def _listing(invocation: Invocation) -> Listing:
    """Return what is shared, and what else is needed for an agent to read it."""
    values = invocation.host.values
    notes = []
    if values.all:
        notes.append("all variables of data are shared, also later ones; `%mcp share --stop NAME` takes one out")
    if len(values) and invocation.host.serving is None:
        notes.append("no agent can connect yet: `%mcp serve --kernel` serves this kernel")
    return values.listing("; ".join(notes))


async def _share(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    values = invocation.host.values
    names = [part.removeprefix("$") for word in arguments.names for part in word.split(",") if part]
    if arguments.all:
        if names:
            raise CommandError("%mcp share --all: shares all variables, and takes no names")
        values.share_all()
        return _listing(invocation)
    if arguments.stop:
        values.stop(*names)
        notes = [f"no longer shared: {', '.join(names)}"] if names else []
        if values.all:
            notes.append("all other variables of data are, also later ones; `%mcp share --stop` ends that")
        return values.listing("; ".join(notes))
    if names:
        values.share(*names)
    return _listing(invocation)


def _complete_names(tab: Tab) -> list[str]:
    names = [*host.values.variables(), *host.values.names()]
    return completion.starting(tab, [name for name in names if name not in tab.positional])


SHARE = Implementation(
    _share,
    (
        Argument("names", nargs="*", metavar="NAME", complete=_complete_names, help="a variable; without names: lists"),
        (
            Argument("--all", action="store_true", help="all variables of data, also those that come later"),
            Argument("--stop", action="store_true", help="share these no longer; without names, none"),
        ),
    ),
    examples=(
        "%mcp share df results",
        "%mcp share                   # what is shared, and who has read it",
        "%mcp share --stop df",
        "%mcp share --all",
    ),
    details="Nothing is shared at first. Sharing is the answer: reading a shared value asks nothing, and `%mcp audit` "
    "lists each read. A name is shared, and not an object: a new value of the variable is shared as well. `--all` "
    "leaves out modules, functions, classes, connections, names with _ first, names that look like a secret's, such as "
    "api_key, and addresses with a password; those must be named. What an agent has caused itself, such as a large "
    "result_3 or what it has put, only that agent reads, until it is shared by name; `--stop NAME` ends that, too.",
)
