"""A server whose tool is not idempotent: it writes a line into a file for each call. Waits a little."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.support.plain import Plain

server = Plain("counting")
LOG = Path(sys.argv[1])


@server.tool
def count(n: int) -> int:
    """Write the number down and return its double."""
    with LOG.open("a") as file:
        file.write(f"{n}\n")
    time.sleep(0.002)
    return n * 2


if __name__ == "__main__":
    server.run()
