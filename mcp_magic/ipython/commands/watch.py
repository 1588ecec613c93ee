"""`%mcp watch`: shows a resource and its updates as they arrive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mcp_magic._host import owner_of
from mcp_magic._text import did_you_mean, listed
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError, UnknownResourceError
from mcp_magic.ipython.ask import how_to_ask
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser, seconds_typed
from mcp_magic.ipython.live import Running, running, watch_screen_for
from mcp_magic.watch import Watch

if TYPE_CHECKING:
    import argparse

__all__ = ["WATCH"]

SHORTEST = 0.1
"""Least seconds between two reads of `--every`."""


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("uri", nargs="?", metavar="URI", help="of a resource; without it, what is watched")
    parser.add_argument("--server", metavar="SERVER", help="whose it is, where that is not clear")
    parser.add_argument("--background", action="store_true", help="let the cell end, and go on below it")
    parser.add_argument("--for", dest="seconds", type=seconds_typed, metavar="SECONDS", help="end after that time")
    parser.add_argument("--count", type=int, metavar="N", help="end after so many updates")
    parser.add_argument(
        "--every", type=seconds_typed, metavar="S", help="read it every S seconds, where nothing is announced"
    )
    parser.add_argument("--stop", action="store_true", help="watch URI no more; without URI, nothing")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Watch | Listing:
    """Watch a resource, stop watching, or list what is watched."""
    uri = None if arguments.uri is None else str(invocation.value(arguments.uri))
    if arguments.stop:
        return await _stop(uri, arguments.server)
    if uri is None:
        return _listing()
    _check(arguments)
    where = invocation.cells.circumstances()
    if arguments.background and where.kernel is None:
        raise CommandError("%mcp watch: in a terminal nothing runs between the commands; leave out --background")
    owner = owner_of(uri, invocation.host.find(arguments.server))
    watch = Watch(invocation.host, owner.name, uri, arguments.every)
    await watch.open()
    bounded = arguments.seconds is not None or arguments.count is not None
    if not (arguments.background or bounded or where.allow_stdin):
        watch.stop("shown once, because nobody could stop it here; --for SECONDS or --count N watches on")
        return watch
    return await _watched(invocation, watch, arguments)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.every is not None and not arguments.every >= SHORTEST:
        raise CommandError(f"%mcp watch: --every takes seconds, {SHORTEST:g} at least")
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise CommandError("%mcp watch: --for takes seconds, more than 0")
    if arguments.count is not None and arguments.count < 1:
        raise CommandError("%mcp watch: --count takes a number of updates, 1 at least")


async def _watched(invocation: Invocation, watch: Watch, arguments: argparse.Namespace) -> Watch:
    from mcp_magic.ipython.cells import keep_here
    from mcp_magic.ipython.live import shown_once

    where, background = invocation.cells.circumstances(), arguments.background
    clicks = background or how_to_ask(where, invocation.settings.ask_with) == "panel"
    screen = watch_screen_for(invocation.cells, clicks=clicks, detach=None if background else lambda: started.detach())
    started = Running(watch, screen, arguments.seconds, arguments.count)
    shell = invocation.shell
    shown_once(shell, watch)
    keep_here(started, shell)
    if not background:
        await started.wait()
    return watch


async def _stop(uri: str | None, server: str | None) -> Listing:
    """Stop all watches, or that of one resource.

    Raises:
        UnknownResourceError: The resource is not watched.
    """
    found = [one for one in running() if uri in (None, one.watch.uri) and server in (None, one.watch.server)]
    if uri is not None and not found:
        watched = [one.watch.uri for one in running()]
        raise UnknownResourceError(f"{uri} is not watched.{did_you_mean(uri, watched)} Watched: {listed(watched)}")
    for one in found:
        await one.stop("stopped by %mcp watch --stop")
    return _listing(f"stopped: {listed(one.watch.uri for one in found)}")


def _listing(note: str = "") -> Listing:
    rows = [
        {
            "uri": one.watch.uri,
            "server": one.watch.server,
            "updates": one.watch.updates,
            "last": _clock(one.watch.changed_at),
            "since": _clock(one.watch.began),
            "how": one.watch.how,
            "problem": one.watch.problem or None,
        }
        for one in running()
    ]
    columns = ("uri", "server", "updates", "last", "since", "how", "problem")
    empty = "nothing is watched: `%mcp watch URI --background` watches while other cells run"
    return Listing(rows, title="Watched resources", columns=columns, empty=empty, note=note, kind="resources")


def _clock(when: float | None) -> str | None:
    return None if when is None else time.strftime("%H:%M:%S", time.localtime(when))


WATCH = Implementation(
    run,
    options,
    examples=(
        "%mcp watch log://today",
        "%mcp watch log://today --background",
        "%mcp watch",
        "%mcp watch --stop log://today",
        "%mcp watch status://build --every 5 --for 60",
    ),
    details="It goes on until Interrupt or Stop; --background lets the cell end, and what it shows is updated while "
    "other cells run. Running the cell again ends it. Updates that come fast are shown together. The value is the "
    "watch: `.result` is what was read last, `.difference` what changed, `.updates` how often.",
)
