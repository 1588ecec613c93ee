"""`%mcp serve`: what other programs on this machine can use."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from mcp_magic._text import join_names
from mcp_magic.config.parsing import check_name
from mcp_magic.config.writing import read_file, write_file
from mcp_magic.display.listing import Listing, Text
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation
from mcp_magic.outside.entries import SERVER
from mcp_magic.outside.runtime import runtime_folder

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic.config.writing import ServerFile
    from mcp_magic.outside.serving import KernelServing


async def _serve(invocation: Invocation, arguments: argparse.Namespace) -> Listing | Text | KernelServing:
    if arguments.cassette is None and (arguments.stdio or arguments.pauses):
        raise CommandError("%mcp serve: --stdio and --pauses need --cassette FILE; `%mcp export` writes a program.")
    if arguments.kernel and (arguments.server is not None or arguments.cassette is not None):
        raise CommandError(
            "%mcp serve: --kernel serves the kernel with all connected servers: leave SERVER and --cassette out."
        )
    if arguments.stop:
        return await _stop(invocation, arguments)
    if arguments.kernel:
        return await _serve_kernel(invocation, arguments)
    if arguments.to is not None or arguments.code:
        file = "" if arguments.to is None else f" --to {shlex.quote(invocation.text(arguments.to))}"
        line = f"%mcp serve --kernel{' --code' * arguments.code}{file}"
        raise CommandError(f"%mcp serve: --code and --to FILE go with --kernel: `{line}`.")
    if arguments.cassette is not None:
        if (text := await _serve_recorded(invocation, arguments)) is not None:
            return text
    elif arguments.server is not None:
        await serve_at(invocation, arguments.server, _in_kernel(invocation, arguments.server), arguments.port)
    elif arguments.port:
        raise CommandError("%mcp serve: which server? `%mcp serve NAME` takes one that runs in this kernel.")
    return _listing(invocation)


async def _serve_kernel(invocation: Invocation, arguments: argparse.Namespace) -> Text | KernelServing:
    """Serve the kernel, and show the entries for other hosts, or write one into a file."""
    file = None if arguments.to is None else _entry_file(invocation, invocation.text(arguments.to))
    notebook = str(invocation.shell.user_ns.get("__vsc_ipynb_file__") or "")  # VS Code tells it there alone
    own = []
    if arguments.code:
        from mcp_magic.ipython.programs import RunCode

        own.append(RunCode(invocation.host, invocation.shell, invocation.cells))
    serving = await invocation.host.serve(port=arguments.port, notebook=notebook, own=own)
    serving.asks = invocation.cells.kernel is not None
    _run_loop_at_prompt(invocation.shell)
    if file is None:
        return serving
    where = invocation.near(file.path)
    if file.servers.get(SERVER) == serving.table:
        return Text(f"{where} has the server {SERVER!r} already. Start the agent in this folder.")
    if twin := file.twin(SERVER):
        raise CommandError(
            f"%mcp serve: the kernel is served, but {where} has another server {twin!r}. "
            f"`%mcp remove {twin} --file {shlex.quote(where)}` takes it out; then type the line again."
        )
    write_file(file.path, file.added(SERVER, serving.table, comment=""))
    return Text(f"{where} has the server {SERVER!r} now, without a secret. Start the agent in this folder.")


def _entry_file(invocation: Invocation, name: str) -> ServerFile:
    """Read the file that an entry is to be written into."""
    if not name.endswith(".json"):
        raise CommandError(
            f"%mcp serve: --to takes a JSON file, not {name!r}: .mcp.json (Claude Code, and most others) or "
            ".vscode/mcp.json. Type `%mcp serve --kernel --to .mcp.json`; without --to it shows what Codex takes."
        )
    return read_file(invocation.path(name))


def _run_loop_at_prompt(shell: InteractiveShell) -> None:
    """Let a terminal run the event loop also while it waits for a line, as `%gui asyncio` does; another GUI stays."""
    if getattr(shell, "pt_app", None) is not None and getattr(shell, "active_eventloop", None) is None:
        shell.enable_gui("asyncio")  # type: ignore[no-untyped-call]


async def _stop(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Stop serving a server, the kernel, or, without a name, all that is served; say what is cut off."""
    served, kernel = invocation.state.served, invocation.host.serving
    if arguments.server is not None:
        if arguments.server not in served:
            raise CommandError(f"%mcp serve: {arguments.server!r} is not served; `%mcp serve` lists what is.")
        await served.pop(arguments.server).stop()
        return _listing(invocation)
    if kernel is None and (arguments.kernel or not served):
        subject = "this kernel is not served" if arguments.kernel else "nothing is served"
        raise CommandError(f"%mcp serve: {subject}; `%mcp serve --kernel` serves this kernel to agents outside.")
    notes = []
    if kernel is not None:
        notes.append(kernel.farewell(await invocation.host.stop_serving()))
    if not arguments.kernel and served:
        notes.append(f"No longer served: {join_names(served)}.")
        for name in [*served]:
            await served.pop(name).stop()
    return _listing(invocation, *notes)


def _listing(invocation: Invocation, *notes: str) -> Listing:
    """List what is served."""
    rows = [
        {"server": serving.name, "url": serving.url, "token in": str(serving.token_file)}
        | ({"answers from": invocation.near(serving.cassette)} if serving.cassette is not None else {})
        for serving in invocation.state.served.values()
        if serving.running
    ]
    kernel = invocation.host.serving
    if kernel is not None:
        row = {"server": "this kernel", "url": kernel.url, "token in": str(kernel.token_file)}
        rows.insert(0, row | {"agents": join_names(kernel.clients)})
    more = [name for name in ("answers from", "agents") if any(name in row for row in rows)]
    explanations = [*notes]
    if rows:
        explanations.append(
            "Programs send the header `Authorization: Bearer TOKEN`. A server is served until --stop or the end of the "
            "kernel."
        )
    if kernel is not None:
        explanations.append("`%mcp serve --kernel` shows what other hosts need to reach the kernel.")
    return Listing(
        rows,
        title="Served to other programs on this machine",
        columns=("server", "url", *more, "token in"),  # only the last column shows a long path whole
        empty="nothing is served; `%mcp serve NAME` offers a server that runs in this kernel, `%mcp serve --kernel` "
        "the kernel itself",
        note=" ".join(explanations),
        kind="servers",
    )


def _in_kernel(invocation: Invocation, name: str) -> Any:
    if name == "kernel" and name not in invocation.host:
        raise CommandError("%mcp serve: the kernel itself is --kernel: `%mcp serve --kernel`.")
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
    from mcp_magic.server.http import serve

    served = invocation.state.served
    old = served.get(name)
    if old is not None and old.port == port:
        await served.pop(name).stop()
        old = None
    served[name] = await serve(name, server, runtime_folder(), port=port, token=token, cassette=cassette)
    if old is not None:
        await old.stop()


SERVE = Implementation(
    _serve,
    (
        Argument("server", nargs="?", metavar="SERVER", help="one that runs in this kernel, or of the cassette"),
        Argument("--port", type=int, default=0, metavar="N", help="the port (default: any free one)"),
        Argument("--kernel", action="store_true", help="serve the kernel to agents outside, and show their entries"),
        Argument("--code", action="store_true", help="with --kernel: agents may run code, each asked about"),
        Argument("--to", metavar="FILE", help="with --kernel: write the entry into .mcp.json or .vscode/mcp.json"),
        Argument("--stop", action="store_true", help="stop serving it at once; without SERVER, all"),
        Argument("--cassette", metavar="FILE", help="serve a mock that answers as a server recorded on this file"),
        Argument("--pauses", action="store_true", help="with --cassette: keep the recorded pauses"),
        Argument("--stdio", action="store_true", help="with --cassette: show the command line of the mock over stdio"),
    ),
    examples=(
        "%mcp serve --kernel        # for Claude Code, Codex, Copilot, ...",
        "%mcp serve --kernel --to .mcp.json",
        "%mcp serve shop --port 8000",
        "%mcp serve --cassette shop.jsonl --port 8000",
        "%mcp serve                 # list the served ones",
        "%mcp serve shop --stop",
    ),
    details="Streamable HTTP on 127.0.0.1, for programs that have the token: it is in a file that only you can read, "
    "and not in the notebook. Their calls run in this kernel, between cells and while a cell waits. A mock speaks both "
    "protocol eras, asks the recorded questions, and answers what was not recorded with an error that names the "
    "nearest request. If FILE has several servers, SERVER names one.\n\n"
    "--kernel serves the kernel itself, on a thread of its own: lists of tools are answered while a cell runs; reads "
    "and calls wait for the cell. Agents get the tools of the connected servers as SERVER__TOOL, and the variables "
    "that `%mcp share` names. Their calls are asked about here; with --code there is a tool `run_code`, which no rule "
    "ever allows. They start `python -m mcp_magic proxy`, which finds the kernel of the folder; the line shows the "
    "entries for their configuration.",
)
