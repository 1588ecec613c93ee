"""Listings that never end: they are stopped with an error in words, and the memory stays."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from mcp_magic import Host
from mcp_magic.errors import InvalidResponseError

async def main():
    async with Host() as host:
        connection = await host.connect([sys.executable, "-m", "tests.hostile.listing_server"], name="endless")
        for kind in ("tools", "resources"):
            try:
                await connection.listing(kind)
            except InvalidResponseError as error:
                print(error)
        print(await connection.ping() < 60)

asyncio.run(main())
"""


def test_a_listing_whose_pages_never_end_is_stopped_by_its_size_and_its_items_together() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        "the listing of tools is too long: stopped after 9 pages with 9 items and 108 MB; "
        "a listing has at most 100,000 items and 100 MB (fault: the server)",
        "the listing of resources is too long: stopped after 6 pages with 120,000 items and 4 MB; "
        "a listing has at most 100,000 items and 100 MB (fault: the server)",
        "True",
    ], done.stderr
