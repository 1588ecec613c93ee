"""Firefox for Playwright: `python -m tests.support.bidi FIREFOX ARGUMENTS` is started in place of the program itself.

Playwright drives a stock Firefox over WebDriver BiDi. It gives up where the browser does not know a command that sets
the scheme of colours, which Firefox ESR 153 does not. So this program stands between the two, and answers that command
itself; all else goes through as it is.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection
    from websockets.asyncio.server import ServerConnection

ROOT = Path(__file__).parents[2]

LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
UNKNOWN = {"emulation.setMediaFeaturesOverride"}
"""Commands of Playwright's that Firefox ESR does not know, and that the tests do not need."""


def relayed(program: str, folder: Path) -> Path:
    """Write a program into a folder that starts a Firefox behind this one, and return its path."""
    command = shlex.join([sys.executable, "-m", "tests.support.bidi", program])
    script = folder / "firefox"
    script.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec {command} "$@"\n')
    script.chmod(0o700)
    return script


async def _to_firefox(playwright: ServerConnection, firefox: Connection) -> None:
    async for text in playwright:
        command = json.loads(text)
        if command["method"] in UNKNOWN:
            await playwright.send(json.dumps({"type": "success", "id": command["id"], "result": {}}))
        else:
            await firefox.send(text)


async def _to_playwright(firefox: Connection, playwright: ServerConnection) -> None:
    async for text in firefox:
        await playwright.send(text)


async def _relay(playwright: ServerConnection, url: str) -> None:
    assert playwright.request is not None
    async with connect(url + playwright.request.path, max_size=None, proxy=None) as firefox:
        ways = (_to_firefox(playwright, firefox), _to_playwright(firefox, playwright))
        _, pending = await asyncio.wait([*map(asyncio.ensure_future, ways)], return_when="FIRST_COMPLETED")
        for way in pending:
            way.cancel()
        with suppress(asyncio.CancelledError, ConnectionClosed):
            await asyncio.gather(*pending)


async def main(command: list[str]) -> int:
    """Run Firefox until it ends, and return its exit code; its address is replaced by that of the relay."""
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    url = ""
    async with serve(lambda playwright: _relay(playwright, url), "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        async for line in process.stderr:
            text = line.decode(errors="replace")
            if listening := LISTENING.search(text):
                url = listening[1]
                text = f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n"
            print(text, end="", file=sys.stderr, flush=True)
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
