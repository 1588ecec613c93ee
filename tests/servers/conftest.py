"""One session with a bundled server for all tests of a module that do not change it."""

import pytest_asyncio
from mcp import Client

from tests.support import bundled
from tests.support.processes import kept_open


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(request):
    """A session of the bare SDK with the module's SERVER in this process."""
    async with kept_open(Client(bundled.load(request.module.SERVER).server)) as client:
        yield client
