"""Many processes that use the same files at the same time; each prints a line of JSON with what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.shared.auth import OAuthToken

from mcp_magic._host import Host
from mcp_magic.agent.graph import build_graph, run_agent
from mcp_magic.agent.run import AgentRun
from mcp_magic.agent.scripted import ScriptedModel
from mcp_magic.agent.threads import open_threads
from mcp_magic.auth.store import FileStore, KeptTokens
from mcp_magic.cassette.cassette import Cassette
from mcp_magic.config.project import Declaration, is_trusted, trust
from mcp_magic.config.specs import AuthOptions
from mcp_magic.consent.consent import Audit, Record
from mcp_magic.errors import CassetteError

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS, MOST_TURNS, LINES = 2, 10, 10


async def threads(folder: Path, me: int) -> Any:
    """Go on with a thread of one's own, turn by turn, until all is in the file; return the number of turns.

    Who waits for the others for too long goes on in memory, and says so; the next turn moves that into the file.
    """
    turn, problem = 0, ""
    async with Host() as host:
        while turn < TURNS or (problem and turn < MOST_TURNS):
            async with open_threads(folder / "threads.sqlite") as opened:
                graph = build_graph(ScriptedModel([f"{me} said {turn}"]), host, checkpointer=opened)
                await run_agent(graph, host, AgentRun("go", f"t{me}"))
                problem = opened.problem
            if problem and "another process has locked it" not in problem:
                return problem
            turn += 1
    return turn


async def cassette(made: Cassette, me: int) -> Any:
    """Record."""
    try:
        made.content.sessions += 1
        number = made.content.sessions
        made.write({"session": number, "server": f"s{me}", "transport": "stdio", "where": "x"})
        for line in range(LINES):
            made.write({"session": number, "stderr": f"{me} " * 300 * line})
            await asyncio.sleep(0.001)
    except CassetteError as error:
        return str(error)
    return ""


async def yeses_audit_and_tokens(folder: Path, me: int) -> Any:
    """Say yes to a file, record decisions, and keep tokens of a client at the server of all."""
    declaration = Declaration(source="mcp_magic.toml", digest=str(me))
    trust(declaration)
    audit = Audit()
    audit.file = folder / "audit.jsonl"
    for number in range(LINES):
        asked = ("agent", f"s{me}", "t", {"a": "é" * 1000}, "deny", "rule", str(number))
        audit.add(Record("2026-11-23T05:00:00+00:00", *asked, (), 0.0))
    kept = KeptTokens(FileStore(folder / "tokens"), "https://server.example/mcp", options(me), lambda _: None)
    await kept.set_tokens(OAuthToken(access_token=f"token {me}"))
    return is_trusted(declaration)


async def everything(folder: Path, me: int, all_there: Callable[[], object]) -> dict[str, Any]:
    """Do all of it; return what came of each."""
    made = Cassette(folder / "cassette.jsonl", "record")
    all_there()
    return {
        "cassette": await cassette(made, me),
        "threads": await threads(folder, me),
        "rest": await yeses_audit_and_tokens(folder, me),
    }


def options(number: int) -> AuthOptions:
    """Return the options of a client of its own."""
    return AuthOptions(client_id=f"client {number}")


def main(folder: Path, count: int) -> None:
    """Let processes do the same, all at once."""
    (ready, there), (start, go) = os.pipe(), os.pipe()
    children = []

    def all_there() -> None:
        os.write(there, b".")
        os.read(start, 1)  # until nobody can write there any more

    for number in range(count):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.close(go)
        try:
            said = asyncio.run(everything(folder, number, all_there))
        except BaseException:
            said = {"threads": traceback.format_exc(), "cassette": "", "rest": None}
        os.write(1, json.dumps([number, said]).encode() + b"\n")
        os._exit(0)
    for _ in children:
        os.read(ready, 1)
    os.close(go)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
