"""`%mcp share`: which variables agents outside of the notebook may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic._text import join_names
from mcp_magic.errors import ArgumentsError, CommandError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation, Tab
from mcp_magic.notebook import host

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from mcp_magic.display.listing import Listing
    from mcp_magic.values.shared import SharedValues


def _listing(invocation: Invocation, *notes: str) -> Listing:
    """Return what is shared, and what else is needed for an agent to read it."""
    values = invocation.host.values
    if len(values) and invocation.host.serving is None:
        notes = (*notes, "no agent can connect yet: `%mcp serve --kernel` serves this kernel")
    return values.listing(*notes)


async def _share(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    values = invocation.host.values
    names = [part.removeprefix("$") for word in arguments.names for part in word.split(",") if part]
    if arguments.all:
        if names:
            raise CommandError("%mcp share --all: shares all variables, and takes no names")
        values.share_all()
        return _listing(invocation, "`%mcp share --stop NAME` takes one out")
    try:
        if arguments.stop:
            values.stop(*names)
        elif names:
            values.share(*names)
    except ArgumentsError as error:
        raise (_not_the_notebooks(invocation, names, ends=arguments.stop) or error) from None
    return values.listing(*_after_stop(values, names)) if arguments.stop else _listing(invocation)


def _after_stop(values: SharedValues, names: list[str]) -> Iterator[str]:
    """Yield what has ended, and what has not."""
    if values.all:
        yield "`%mcp share --stop` ends that"
    elif names:
        yield f"no longer shared: {join_names(names)}"
    elif len(values.listing()):
        yield "agents read still what they have caused themselves; `%mcp share --stop NAME` ends that"


def _not_the_notebooks(invocation: Invocation, names: list[str], *, ends: bool) -> CommandError | None:
    """Return the error about a name of a server or of a function's variable; None if there is none of these."""
    servers, space = invocation.host.connections, invocation.shell.user_ns
    for name in names:
        server, colon, _ = name.partition(":")
        if server in servers and (colon or space.get(server, servers[server]) is servers[server]):
            says = _about_tools(invocation, server, ends=ends)
            return CommandError(f"%mcp share: {server!r} is a server, and no variable; {says}")
        if name in invocation.variables and name not in space:
            return CommandError(f"%mcp share: {name!r} is a variable of a function; only the notebook's are shared")
        if name in ("all", "*"):
            says = "--stop` without a name ends it for all" if ends else "--all` shares all variables of data"
            return CommandError(f"%mcp share: {name!r} is no variable; `%mcp share {says}")
    return None


def _about_tools(invocation: Invocation, server: str, *, ends: bool) -> str:
    """Return what is true of agents outside and the tools of a server, and the line to type."""
    if ends:
        return f"`%mcp deny '{server}:*' --for outside` refuses calls of its tools"
    if invocation.host.serving is None:
        return "`%mcp serve --kernel` offers its tools to agents outside"
    return (
        f"agents outside see its tools already. `%mcp allow '{server}:*' --for outside` lets them call without asking"
    )


def _complete_names(tab: Tab) -> list[str]:
    before = {part.removeprefix("$") for word in tab.positional for part in word.split(",")}
    sign = "$" if "$" in tab.fragment else ""
    names = (f"{sign}{name}" for name in (*host.values.variables(), *host.values.names()) if name not in before)
    return completion.continuing(tab, names)


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
