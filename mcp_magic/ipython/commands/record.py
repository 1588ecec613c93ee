"""`%mcp record`: inserts a cassette, which records servers and models or replays them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic._text import listed
from mcp_magic.cassette.cassette import MODES, deck
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.cassette.cassette import Cassette

__all__ = ["RECORD"]

COLUMNS = ("cassette", "now", "servers", "models", "lines written", "answers played")


def options(parser: Parser) -> None:
    """Add the arguments."""
    modes = "; ".join(f"{name}: {what}" for name, what in MODES.items())
    parser.add_argument("file", nargs="?", metavar="FILE", help="the cassette, such as cassettes/tutorial.jsonl")
    parser.add_argument("--mode", choices=tuple(MODES), help=f"{modes} (default: once)")
    parser.add_argument("--pauses", action="store_true", help="replay with the pauses that there were")
    parser.add_argument(
        "--in-process",
        choices=("live", "replay"),
        help="whether servers in this kernel run when the others are replayed (the default), or are replayed, too",
    )
    parser.add_argument("--stop", action="store_true", help="take the cassette out: everything is real again")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Insert or remove a cassette, and list what is recorded or replayed now."""
    notes: list[str] = []
    _refuse_meant(arguments.file)
    if arguments.stop and arguments.file:
        raise CommandError("%mcp record takes FILE, or --stop")
    if not arguments.file and (arguments.mode or arguments.pauses or arguments.in_process):
        raise CommandError("%mcp record: these options need FILE; `--stop` and then FILE changes how one is used")
    if arguments.stop:
        notes += await _stop(invocation)
    elif arguments.file:
        notes += await _start(invocation, arguments)
    rows = [_row(deck.cassette, invocation.directory)] if deck.cassette is not None else []
    empty = "nothing is recorded or replayed; `%mcp record FILE` begins"
    return Listing(rows, title="Cassette", columns=COLUMNS, empty=empty, note="; ".join(notes), kind="cassettes")


def _refuse_meant(file: str | None) -> None:
    """Refuse words that are probably not meant as a file's name."""
    if file in MODES:
        meant = f"`%mcp record FILE --mode {file}`"
    elif file in ("stop", "off", "end"):
        meant = "`%mcp record --stop` takes the cassette out"
    else:
        return
    raise CommandError(f"%mcp record: {meant}; a file of that name is ./{file}")


async def _start(invocation: Invocation, arguments: argparse.Namespace) -> list[str]:
    from mcp_magic._host import begin_again, leave_replayed

    path = invocation.directory / Path(invocation.text(arguments.file)).expanduser()
    left = await leave_replayed(invocation.host)
    deck.insert(path, arguments.mode or "once", pauses=arguments.pauses, in_process=arguments.in_process or "live")
    again, failed = await begin_again(invocation.host)
    notes = [f"disconnected: {listed(left)}"] if left else []
    notes += [f"opened again, to begin at the beginning: {listed(again)}"] if again else []
    return notes + [f"{name}: {str(error).partition(chr(10))[0]}" for name, error in failed.items()]


async def _stop(invocation: Invocation) -> list[str]:
    from mcp_magic._host import leave_replayed

    taken = deck.eject()
    if taken is None:
        return []
    left = await leave_replayed(invocation.host)
    notes = [
        f"{_near(taken.path, invocation.directory)}: {taken.recorded:,} lines written, {taken.played:,} answers played"
    ]
    return notes + ([f"disconnected, because they were replayed: {listed(left)}"] if left else [])


def _row(cassette: Cassette, folder: Path) -> dict[str, Any]:
    return {
        "cassette": _near(cassette.path, folder),
        "now": cassette.doing,
        "servers": ", ".join(cassette.servers),
        "models": ", ".join(cassette.models),
        "lines written": cassette.recorded,
        "answers played": cassette.played,
    }


def _near(path: Path, folder: Path) -> str:
    """Return a path for display, without the kernel's folder if it is inside."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


RECORD = Implementation(
    run,
    options,
    examples=(
        "%mcp record tutorial.jsonl",
        "%mcp record tutorial.jsonl --mode record",
        "%mcp record tutorial.jsonl --mode replay",
        "%mcp record",
        "%mcp record --stop",
    ),
    details="The first time FILE is written, and from then on it answers: no server is started, no model is called. "
    "It holds every message and every turn of a model, secrets masked, one JSON object a line. Sessions that are open "
    "are opened again. A request that FILE does not have is an error that names the nearest.\n\n"
    "Where nobody types (papermill, nbclient, nbval): MCP_MAGIC_CASSETTE=FILE and MCP_MAGIC_CASSETTE_MODE=MODE. "
    "Tests: the pytest fixture mcp_cassette. `%mcp replay` is something else: it sends one request of the trace again.",
)
