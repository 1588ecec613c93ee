from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from mcp_magic import Host
from tests.core.asgi import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from mcp_magic import Connection
    from tests.jobs.scripted import Scripted


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let jobs be kept in a file of this test."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "mcp_magic" / "jobs.sqlite"


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with Host() as host:
        yield host


@pytest.fixture
async def connect(host: Host) -> AsyncIterator[Callable[[Scripted], Awaitable[Connection]]]:
    """Serve a script, and connect it as `ci`."""
    async with AsyncExitStack() as stack:

        async def connect(script: Scripted) -> Connection:
            url = await stack.enter_async_context(serving(script))
            return await host.connect(f"{url}/mcp", name="ci")

        yield connect
        await host.close()
