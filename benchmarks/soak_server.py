"""The server of the soak: `python soak_server.py LOG [PORT]`; stdio without a port.

It writes the number of each call into LOG before it answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

__all__ = ["made"]


def made(log: Path) -> MCPServer:
    """Return the server."""
    server = MCPServer("soak", log_level="ERROR")

    @server.tool()
    def echo(number: int, text: str) -> dict[str, int]:
        """Say what came."""
        with log.open("a") as file:
            file.write(f"{number}\n")
        return {"number": number, "length": len(text)}

    return server


def serve_http(log: Path, port: int) -> None:
    """Serve over streamable HTTP, and print the port."""
    import socket

    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(100)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(made(log).streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if len(sys.argv) > 2:
        serve_http(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        made(Path(sys.argv[1])).run()
