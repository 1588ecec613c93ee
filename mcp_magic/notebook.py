"""Hosts as people and programs use them: those of `core`, with what the layers above offer.

`host` is the kernel's own, the one that `%mcp` uses; a program makes one with `Host()`.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_magic import _startup as startup
from mcp_magic._host import Host as CoreHost

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from langchain_core.documents.base import Blob
    from langchain_core.tools import StructuredTool

    from mcp_magic.ask.elicitation import Elicitor
    from mcp_magic.ask.sampling import Sampler
    from mcp_magic.auth.login import Authorizer
    from mcp_magic.consent.consent import Approver

__all__ = ["Host", "NotebookHost", "host"]

EXIT_SECONDS = 8.0
"""Seconds an ending kernel gives its servers at most."""

EXIT_STEPS = (0.7, 0.5)
"""Seconds a stdio server then has to end after the end of its input, and after SIGTERM, before SIGKILL. In all well
below 2.5: that is when Jupyter ends a kernel that is still there (half of `KernelManager.shutdown_wait_time`),
and a server that ignores its end would outlive it."""


class NotebookHost(CoreHost):
    """A host that people and programs use: who answers in it, and what LangChain takes of it."""

    @property
    def approver(self) -> Approver | None:
        """Who is asked about calls: any `async def (request) -> Decision`; None where nobody can be."""
        return self.consent.approver

    @approver.setter
    def approver(self, approver: Approver | None) -> None:
        self.consent.approver = approver

    @property
    def elicitor(self) -> Elicitor | None:
        """Who answers what servers ask the person for: any `async def (elicitation) -> Answer`.

        A session announces that it can be asked if there is one when it is opened.
        """
        return self.elicitation.elicitor

    @elicitor.setter
    def elicitor(self, elicitor: Elicitor | None) -> None:
        self.elicitation.elicitor = elicitor

    @property
    def sampler(self) -> Sampler | None:
        """Who answers what servers ask models for: any `async def (request) -> Sampled`.

        A session announces that it can sample if there is one when it is opened.
        """
        return self.sampling.sampler

    @sampler.setter
    def sampler(self, sampler: Sampler | None) -> None:
        self.sampling.sampler = sampler

    @property
    def authorizer(self) -> Authorizer | None:
        """Who shows the person a log-in: any `async def (login) -> None` that stays until it is answered."""
        return self.logins.authorizer

    @authorizer.setter
    def authorizer(self, authorizer: Authorizer | None) -> None:
        self.logins.ask_with(authorizer, confirm=self.logins.confirm)

    def langchain_tools(self, *servers: str, **settings: Any) -> list[StructuredTool]:
        """Return the tools of the open sessions as LangChain tools.

        Args:
            *servers: Names of servers; without any, all that are open.
            **settings: `timeout` (seconds a call may take), `timeouts` (the same by `"server:tool"` or a pattern),
                `images` (whether the model takes images), `limit` (characters of a result that it reads), `asker`.

        Raises:
            UnknownServerError: A name is none of an open session.
            UnknownToolError: A time-out is for a tool that is not there.
        """
        from mcp_magic.langchain.tools import langchain_tools

        connections = [self[name] for name in servers] if servers else self.find()
        return langchain_tools(*connections, **settings)

    async def langchain_spec_tools(
        self, target: Any, *, name: str | None = None, **options: Any
    ) -> list[StructuredTool]:
        """Return the tools of a server that need no open session: each call opens one, unless this host has one.

        Args:
            target: What `connect` takes.
            name: The server's name; the default is made from the target.
            **options: `options`, a `langchain.tools.Options`, and those of `connect`.

        Raises:
            TargetError: The target names no server.
            ConnectError: No session could be opened.
        """
        from mcp_magic.langchain.tools import spec_tools

        return await spec_tools(target, name=name, host=self, **options)

    async def langchain_resources(self, *wanted: str) -> list[Blob]:
        """Read resources as LangChain blobs.

        Args:
            *wanted: URIs, and names of servers for all that they list; without any, all of all open sessions.

        Raises:
            UnknownServerError, UnknownResourceError, AmbiguousNameError: Nobody has it, or several could.
        """
        from mcp_magic.langchain.content import langchain_resources

        return await langchain_resources(self, *wanted)

    def close_at_exit(self) -> None:
        """Close all sessions when the interpreter ends, so that no server outlives its kernel."""
        atexit.unregister(self._close_now)
        atexit.register(self._close_now)

    def _close_now(self) -> None:
        loop = self.loop
        if loop is None or loop.is_closed() or loop.is_running() or not (len(self) or self._closing):
            return
        _hurry()
        closing = loop.create_task(_bounded(self.close()))
        # ipykernel's shutdown has scheduled one more `loop.stop()`, which would break off the first run.
        for _ in range(3):
            with suppress(RuntimeError):
                loop.run_until_complete(closing)
                break


def _hurry() -> None:
    stdio: Any = sys.modules.get("mcp.client.stdio")
    if stdio is not None:
        stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = EXIT_STEPS


async def _bounded(work: Coroutine[Any, Any, None]) -> None:
    with suppress(Exception):  # the interpreter ends; nobody can read a message any more
        await asyncio.wait_for(work, EXIT_SECONDS)


Host = NotebookHost
"""What `mcp_magic.Host` is."""

host = Host()
"""The host of this kernel."""

for _prepare in startup.callbacks:
    _prepare()
