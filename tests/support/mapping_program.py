"""Maps the counting server over rows with a journal; the test kills this process in the middle."""

from __future__ import annotations

import asyncio
import sys

from mcp_magic import Host


async def main(log: str, journal: str, rows: int) -> None:
    async with Host() as host:
        await host.connect([sys.executable, "-m", "tests.support.counting_server", log], name="c")
        print("open", flush=True)
        run = await host.map("c:count", ({"n": n} for n in range(rows)), journal=journal, concurrency=8)
        print(run.stats, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
