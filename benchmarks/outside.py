"""A call through the kernel's server against the same call of the server itself, over streamable HTTP to both.

Client, kernel and server are processes of their own. Run as a program it is the kernel: `outside.py URL`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import servers
from benchmarks.timing import Result, async_pairs, compared

if TYPE_CHECKING:
    from mcp_magic.config.specs import Spec

__all__ = ["run"]

GOALS = {"in-process": 1.6, "stdio": None, "http": None}

COUNT = 256  # pairs: a client of the kernel may make some hundred calls a minute


def run(*, quick: bool = False) -> list[Result]:
    """Measure sessions of the kernel over three transports."""
    with servers.http() as direct, servers.http(__file__, direct.url) as kernel:
        count = 3 if quick else COUNT
        return [asyncio.run(_measured(name, kernel.url, direct.url, count)) for name in GOALS]


async def _measured(name: str, kernel: str, direct: str, count: int) -> Result:
    from mcp import Client
    from mcp_types import Implementation

    tool = f"{name}__{servers.TOOL}"
    own = Implementation(name=name, version="1")  # each is a client of its own, within its limits
    async with Client(kernel, client_info=own) as outside, Client(direct) as client:
        taken = await async_pairs(
            lambda: outside.call_tool(tool, servers.ADD), lambda: client.call_tool(servers.TOOL, servers.ADD), count
        )
    note = "" if name == "in-process" else f"one more hop, over {name}"
    return compared(f"through the kernel, {name}", taken, goal=GOALS[name], note=note)


async def _serve(url: str) -> None:
    """Serve a kernel with the calculator over each transport, and say where."""
    from mcp_magic._host import Host
    from mcp_magic.config.specs import HttpSpec
    from mcp_magic.loopback import HOST, LoopbackServer, listen
    from mcp_magic.outside.gateway import KernelServer

    async with Host() as host:
        host.consent.policy = "auto"
        specs: tuple[Spec, ...] = (servers.in_process(), servers.stdio(), HttpSpec(url=url))
        for name, spec in zip(GOALS, specs, strict=True):
            await host.connect_spec(spec, name)
        app = KernelServer(host).streamable_http_app(host=HOST)
        loopback, listening = LoopbackServer(app, lambda scope: None, "outside", own_thread=True), listen()
        await loopback.start(listening)
        print(f"listens at http://{HOST}:{listening.getsockname()[1]}/mcp", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
