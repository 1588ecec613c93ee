"""`%mcp serve`: offers a server of this kernel to other programs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.display.listing import Listing
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Implementation, Invocation, Parser

if TYPE_CHECKING:
    import argparse

    from mcp_magic.server.http import Serving

__all__ = ["SERVE", "serve_again"]


def options(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="a connected server that runs in this kernel")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port (default: any that is free)")
    parser.add_argument("--stop", action="store_true", help="serve it no more")


async def run(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Start or stop serving, and list the served servers."""
    served = invocation.state.served
    if arguments.server is None and (arguments.stop or arguments.port):
        raise CommandError("%mcp serve: which server? `%mcp serve NAME` takes one that runs in this kernel.")
    if arguments.server is not None and arguments.stop:
        await _end(served, arguments.server)
    elif arguments.server is not None:
        await _move(invocation, arguments.server, arguments.port)
    return _listing([serving for serving in served.values() if serving.running])


async def _end(served: dict[str, Serving], name: str) -> None:
    old = served.pop(name, None)
    if old is None:
        raise CommandError(f"%mcp serve: {name!r} is not served; `%mcp serve` lists what is.")
    await old.stop()


async def _move(invocation: Invocation, name: str, port: int) -> None:
    """Serve a server at a port; serving it at another port ends only once the new port works."""
    served = invocation.state.served
    old = served.get(name)
    if old is not None and old.port == port:
        await _end(served, name)
        old = None
    served[name] = await _begin(invocation, name, port)
    if old is not None:
        await old.stop()


async def _begin(invocation: Invocation, name: str, port: int, token: str = "") -> Serving:
    from jupyter_core.paths import jupyter_runtime_dir

    from mcp_magic.server.http import serve

    server: Any = getattr(invocation.host[name].spec, "server", None)
    if not hasattr(server, "streamable_http_app"):
        raise CommandError(f"%mcp serve: {name!r} does not run in this kernel; other programs can start it themselves.")
    return await serve(name, server, Path(jupyter_runtime_dir()) / "mcp_magic", port=port, token=token)


async def serve_again(invocation: Invocation, name: str) -> None:
    """Serve a server's replacement at the same port, with the same token."""
    old = invocation.state.served.get(name)
    if old is None or not old.running:
        return
    await old.stop()
    invocation.state.served[name] = await _begin(invocation, name, old.port, old.token)


def _listing(served: list[Serving]) -> Listing:
    rows = [{"server": each.name, "url": each.url, "token in": str(each.token_file)} for each in served]
    return Listing(
        rows,
        title="Served to other programs on this machine",
        columns=("server", "url", "token in"),
        empty="nothing is served; `%mcp serve NAME` offers a server that runs in this kernel",
        note="They send the header `Authorization: Bearer TOKEN`. It ends with the kernel, or by --stop."
        if rows
        else "",
        kind="servers",
    )


SERVE = Implementation(
    run,
    options,
    examples=("%mcp serve shop --port 8000", "%mcp serve                 # what is served", "%mcp serve shop --stop"),
    details="Streamable HTTP on 127.0.0.1, for whoever has the token: it is in a file that only you can read, and not "
    "in the notebook. Calls of other programs run in this kernel, between and below its cells.",
)
