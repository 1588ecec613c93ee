from __future__ import annotations

import gc
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from mcp_magic.agent.threads import memory_threads
from tests.support.fake_openai import FakeOpenAI, chat
from tests.support.shopping import host, shop

__all__ = ["host", "shop"]


@pytest.fixture(autouse=True)
def no_threads():
    """Let each test begin without threads in memory: they are those of the whole process."""
    memory_threads.cache_clear()


@pytest.fixture
def nothing_left():
    """Let a test leave no connection to a database and no thread of one behind."""
    before = threading.active_count()
    yield
    gc.collect()  # an unclosed connection warns, and warnings are errors
    until = time.monotonic() + 30  # the thread of a closed connection is about to end
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.fixture
async def client():
    """One for each test: langchain-openai keeps its own for all event loops."""
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
async def openai(client):
    """Starts a fake OpenAI that plays turns; returns it, and a model that asks it."""
    async with AsyncExitStack() as stack:

        async def start(
            *turns: Any, strict: bool = False, quote: bool = False, **settings: Any
        ) -> tuple[FakeOpenAI, Any]:
            fake = await stack.enter_async_context(FakeOpenAI(*turns, strict=strict, quote=quote).running())
            return fake, chat(fake, client, **settings)

        yield start
