"""`%mcp serve`: what other programs on this machine can use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.config.parsing import check_name
from mcp_magic.display.listing import Listing, Text
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation

if TYPE_CHECKING:
    import argparse


async def _serve(invocation: Invocation, arguments: argparse.Namespace) -> Listing | Text:
    served = invocation.state.served
    if arguments.cassette is None and (arguments.stdio or arguments.pauses):
        raise CommandError("%mcp serve: --stdio and --pauses need --cassette FILE; `%mcp export` writes a program.")
    if arguments.cassette is not None and not arguments.stop:
        if (text := await _serve_recorded(invocation, arguments)) is not None:
            return text
    elif arguments.server is None and (arguments.stop or arguments.port):
        raise CommandError("%mcp serve: which server? `%mcp serve NAME` takes one that runs in this kernel.")
    elif arguments.server is not None and arguments.stop:
        if arguments.server not in served:
            raise CommandError(f"%mcp serve: {arguments.server!r} is not served; `%mcp serve` lists what is.")
        await served.pop(arguments.server).stop()
    elif arguments.server is not None:
        await serve_at(invocation, arguments.server, _in_kernel(invocation, arguments.server), arguments.port)
    rows = [
        {"server": serving.name, "url": serving.url, "token in": str(serving.token_file)}
        | ({"answers from": invocation.near(serving.cassette)} if serving.cassette is not None else {})
        for serving in served.values()
        if serving.running
    ]
    mocks = ("answers from",) if any("answers from" in row for row in rows) else ()
    return Listing(
        rows,
        title="Served to other programs on this machine",
        columns=("server", "url", *mocks, "token in"),  # only the last column shows a long path whole
        empty="nothing is served; `%mcp serve NAME` offers a server that runs in this kernel",
        note="Programs send the header `Authorization: Bearer TOKEN`. A server is served until --stop or the end "
        "of the kernel."
        if rows
        else "",
        kind="servers",
    )


def _in_kernel(invocation: Invocation, name: str) -> Any:
    server: Any = getattr(invocation.host[name].spec, "server", None)
    if not hasattr(server, "streamable_http_app"):
        raise CommandError(f"%mcp serve: {name!r} does not run in this kernel; other programs can start it themselves.")
    return server


async def _serve_recorded(invocation: Invocation, arguments: argparse.Namespace) -> Text | None:
    """Serve a mock of a recorded server; with --stdio, return the command line that does."""
    from mcp_magic.server.mock import mock_server

    file = invocation.path(invocation.text(arguments.cassette))
    server = mock_server(file, arguments.server, pauses=arguments.pauses)
    if arguments.stdio:
        if arguments.port:
            raise CommandError("%mcp serve: --stdio has no port.")
        words = ["serve", *filter(None, [arguments.server]), "--cassette", invocation.near(file)]
        words += ["--pauses"] if arguments.pauses else []
        return Text(shlex.join(["python", "-m", "mcp_magic", *words, "--stdio"]))
    await serve_at(invocation, check_name(server.name), server, arguments.port, cassette=file)
    return None


async def serve_at(
    invocation: Invocation, name: str, server: Any, port: int, token: str = "", cassette: Path | None = None
) -> None:
    """Serve a server at a port; serving it at another port ends only once the new port works."""
    from jupyter_core.paths import jupyter_runtime_dir

    from mcp_magic.server.http import serve

    served = invocation.state.served
    old = served.get(name)
    if old is not None and old.port == port:
        await served.pop(name).stop()
        old = None
    folder = Path(jupyter_runtime_dir()) / "mcp_magic"
    served[name] = await serve(name, server, folder, port=port, token=token, cassette=cassette)
    if old is not None:
        await old.stop()


SERVE = Implementation(
    _serve,
    (
        Argument("server", nargs="?", metavar="SERVER", help="one that runs in this kernel, or of the cassette"),
        Argument("--port", type=int, default=0, metavar="N", help="the port (default: any free one)"),
        Argument("--stop", action="store_true", help="stop serving it"),
        Argument("--cassette", metavar="FILE", help="serve a mock that answers as a server recorded on this file"),
        Argument("--pauses", action="store_true", help="with --cassette: keep the recorded pauses"),
        Argument("--stdio", action="store_true", help="with --cassette: show the command line of the mock over stdio"),
    ),
    examples=(
        "%mcp serve shop --port 8000",
        "%mcp serve --cassette shop.jsonl --port 8000",
        "%mcp serve                 # list the served ones",
        "%mcp serve shop --stop",
    ),
    details="Streamable HTTP on 127.0.0.1, for programs that have the token: it is in a file that only you can read, "
    "and not in the notebook. Their calls run in this kernel, between cells and while a cell waits. A mock speaks both "
    "protocol eras, asks the recorded questions, and answers what was not recorded with an error that names the "
    "nearest request. If FILE has several servers, SERVER names one.",
)
