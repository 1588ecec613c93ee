"""`%mcp agent`: the stored threads of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_magic._text import counted
from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.agent.transcript import Transcript

__all__ = ["AGENT"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--threads", action="store_true", help="list them (the default)")
    what.add_argument("--show", metavar="THREAD", help="show what was said in one")
    what.add_argument("--fork", metavar="THREAD@TURN", help="copy one up to a turn; without @TURN all of it")
    what.add_argument("--delete", metavar="THREAD", help="delete one")
    parser.add_argument("--name", metavar="NAME", help="the name of the fork (default: THREAD-fork)")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing | Transcript:
    """List, show, fork or delete threads."""
    from mcp_magic.agent import threads as history
    from mcp_magic.agent.threads import open_threads

    if arguments.name and not arguments.fork:
        raise CommandError("%mcp agent: --name goes with --fork THREAD@TURN.")
    done = ""
    async with open_threads(invocation.settings.threads or None, fall_back=False) as opened:
        if arguments.show:
            return await _show(invocation, opened, arguments.show)
        if arguments.fork:
            thread, turn = await _place(arguments.fork, opened)
            name = arguments.name or f"{thread}-fork"
            turns = await history.fork_thread(opened, thread, turn, name)
            done = (
                f"{name!r} has {counted(turns, 'turns')} of {thread!r}; `%%mcp_agent --thread {name}` goes on with it"
            )
        if arguments.delete:
            await history.delete_thread(opened, arguments.delete)
            done = f"{arguments.delete!r} is deleted"
        threads = await history.list_threads(opened)
    rows = [_row(thread) for thread in threads]
    empty = "no conversation is kept yet: `%%mcp_agent` begins one"
    return Listing(rows, title=f"Threads in {opened.where}", empty=empty, note=done, kind="threads")


def _row(thread: Any) -> dict[str, Any]:
    return {
        "thread": thread.thread,
        "last request": thread.last,
        "requests": thread.requests,
        "turns": thread.turns,
        "changed": thread.changed[:19].replace("T", " "),
    }


async def _show(invocation: Invocation, saver: Any, thread: str) -> Transcript:
    from mcp_magic.agent import threads as history
    from mcp_magic.agent.transcript import Transcript

    connections = invocation.host.find()
    tools = {f"{c.name}:{tool.name}": tool for c in connections for tool in c.catalog.cached("tools")}
    messages = await history.messages_of(saver, thread)
    transcript = Transcript.from_messages(messages, definitions=tools)
    transcript.on_event({"kind": "note", "text": _turns(thread, messages), "level": "info"})
    return transcript


def _turns(thread: str, messages: list[Any]) -> str:
    """Return the number of turns and the turn at which each request begins: the numbers that `--fork` takes."""
    from mcp_magic.agent.transcript.entries import is_turn

    begins, turn = [], 0
    for message in messages:
        if message.type == "human":
            begins.append(turn + 1)
        turn += is_turn(message)
    later = [f"request {number} begins with turn {first}" for number, first in enumerate(begins, 1) if number > 1]
    return f"{', '.join([counted(turn, 'turns'), *later[-5:]])}; `%mcp agent --fork {thread}@TURN` copies up to a turn"


async def _place(text: str, saver: Any) -> tuple[str, int | None]:
    """Return the thread and the turn of `THREAD@TURN`; a thread's name can contain an @, too."""
    from mcp_magic.agent.threads import list_threads

    thread, at, turn = text.rpartition("@")
    if not at or text in [known.thread for known in await list_threads(saver)]:
        return text, None
    if not turn.isdigit():
        raise CommandError(f"%mcp agent: --fork {text}: the turn is a number, for example {thread}@2.")
    return thread, int(turn)


AGENT = Implementation(
    run,
    options,
    examples=("%mcp agent --threads", "%mcp agent --show trip", "%mcp agent --fork trip@2 --name other"),
    details="A turn is one answer of the model, with the results of its calls. `%mcp_agent --help` is about runs.",
)
