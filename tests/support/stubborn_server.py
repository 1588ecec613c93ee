"""A stdio server that goes on when its input ends and when it is asked to end; only SIGKILL ends it."""

import signal
import sys
import time
from contextlib import suppress

from mcp.server.mcpserver import MCPServer

server = MCPServer("stubborn", log_level="ERROR")


@server.tool()
def ping() -> str:
    """Answer at once."""
    return "pong"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BaseException):
        server.run()
    print("my input has ended; I stay", file=sys.stderr, flush=True)
    time.sleep(600)
