"""Imports what the first lines need before they are typed, while the kernel is idle.

The modules are imported on the kernel's own loop and not on a thread. A cell that imports at the same time as a thread
can get a module that is only half imported, and the thread would take its share of the processor.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp_magic._compat import IN_BROWSER
from mcp_magic.activity import REST_SECONDS, activity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_magic.ipython.cells import Cells

QUIET_SECONDS = 0.2
"""Seconds without a cell before the first module, so that nothing is imported between the cells of a Run All."""

PAUSE_SECONDS = 0.002  # seconds between two modules, in which a cell can start

CONNECT = (
    *("pydantic_core.core_schema", "pydantic", "pydantic.types", "mcp_types", "mcp_types._v2025_11_25"),
    *(
        "mcp_types.methods",
        "anyio",
        "httpx2",
        "starlette.applications",
        "uvicorn",
        "sse_starlette",
        "mcp",
        "mcp.client.stdio",
        "anyio._backends._asyncio",
    ),
    *("mcp_magic.consent.consent", "mcp_magic.ask.elicitation", "mcp_magic.ask.sampling", "mcp_magic.auth.login"),
    *("mcp_magic.cassette.cassette", "mcp_magic.session.connection", "mcp_magic.notebook", "mcp_magic.lint"),
    *("mcp_magic.ipython.ask", "mcp_magic.ipython.live", "mcp_magic.ipython.commands.connect", "jsonschema_rs"),
)
AGENT = (
    *("requests", "pydantic.v1", "langchain_core.messages", "langsmith.schemas", "langsmith.run_trees", "httpx"),
    *("langchain_core.tracers.langchain", "langchain_core.tools", "langgraph.types", "langgraph_sdk"),
    *("langgraph.graph", "mcp_magic.agent.graph", "mcp_magic.agent.run", "mcp_magic.agent.models"),
    *("mcp_magic.agent.offline", "langgraph.checkpoint.sqlite", "mcp_magic.agent.sqlite"),
    *("langgraph.checkpoint.memory", "langchain_core.tracers.context", "markdown_it"),
)
"""The modules of the first `%mcp connect` and of the first `%%mcp_agent`, in an order that takes small steps."""


def import_for_connect() -> None:
    """Import the modules of the first `%mcp connect` at once."""
    if "mcp" not in sys.modules:
        _import(CONNECT)


def _import(names: Iterable[str]) -> None:
    """Import modules; one that cannot be imported is left to the line that needs it.

    Meanwhile the garbage collector is off: it would take a tenth of the time, and modules leave hardly any garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            with suppress(Exception):
                importlib.import_module(name)
    finally:
        if was_on:
            gc.enable()


class Preload:
    """Imports modules one by one while no cell runs and the person does not type or click in the explorer."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._left: Iterator[str] = iter((*CONNECT, *AGENT))
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin once the kernel is idle.

        Does nothing in a terminal, whose loop runs only while a cell does, and where a configuration file loads the
        extension before the kernel's loop runs.
        """
        if self._cells.kernel is not None and not IN_BROWSER:
            with suppress(RuntimeError):
                self._next = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._step)

    def stop(self) -> None:
        """Import no more."""
        if self._next is not None:
            self._next.cancel()

    def _step(self) -> None:
        begin = max(self._cells.idle_at + QUIET_SECONDS, activity.at + REST_SECONDS)
        pause = begin - time.monotonic()
        if pause <= 0:
            name = next(self._left, None)
            if name is None:
                return
            _import([name])
            pause = PAUSE_SECONDS
        self._next = asyncio.get_running_loop().call_later(min(pause, QUIET_SECONDS), self._step)
