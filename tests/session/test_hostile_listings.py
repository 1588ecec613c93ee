"""Listings that never end: what came is kept, a remark says so, and the memory stays."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from mcp_magic import Host

async def main():
    async with Host() as host:
        connection = await host.connect([sys.executable, "-m", "tests.support.listing_server"], name="endless")
        for kind in ("tools", "resources"):
            print(len(await connection.listing(kind)))
        print(*sorted(connection.info().remarks), sep="\\n")
        print(await connection.ping() < 60)

asyncio.run(main())
"""


def test_endless_listings_are_kept_to_their_limits() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        "9",
        "100000",
        "the listing of resources does not end: it was stopped after 6 pages with 120,000 items and 4 MB",
        "the listing of tools does not end: it was stopped after 9 pages with 9 items and 108 MB",
        "True",
    ], done.stderr
