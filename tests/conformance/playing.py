"""What the scripts of scenarios share: a host of ours, set up as a person would, and what is expected of it."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from mcp_magic import Host
from mcp_magic.ask.elicitation import Answer
from mcp_magic.ask.sampling import Sampled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp_magic import Connection
    from mcp_magic.ask.elicitation import Elicitation
    from mcp_magic.ask.sampling import SamplingRequest
    from mcp_magic.auth.login import LogIn
    from mcp_magic.errors import MCPMagicError

__all__ = ["SCRIPTS", "accept_defaults", "opened", "refused", "script"]

SCRIPTS: dict[str, Any] = {}
"""Scenario -> what to do; the context of the suite is handed over."""


def script(*scenarios: str) -> Callable[[Any], Any]:
    """Register what is done in scenarios."""

    def keep(function: Any) -> Any:
        SCRIPTS.update(dict.fromkeys(scenarios, function))
        return function

    return keep


async def accept_defaults(asked: Elicitation) -> Answer:
    """Submit a form as it comes."""
    return Answer.accept(asked.defaults)


async def answer(asked: SamplingRequest) -> Sampled:
    """Answer for a model."""
    return Sampled.of("yes", "conformance")


async def log_in(login: LogIn) -> None:
    """Do what a browser does with the link that a person clicks, whose log-in is remembered: go where it leads."""
    import httpx2

    async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
        await browser.get(login.url)


@asynccontextmanager
async def opened(url: str, elicitor: Any = accept_defaults, **options: Any) -> AsyncIterator[Connection]:
    """Open a session to the suite's server."""
    host = Host()
    host.elicitation.elicitor = elicitor
    host.sampling.sampler = answer
    host.logins.authorizer, host.logins.where = log_in, "memory"
    try:
        yield await host.connect(url, name="suite", **options)
    except BaseException:
        for entry in host.trace.entries():
            print(entry, file=sys.stderr)
        raise
    finally:
        await host.close()


@contextmanager
def refused(kind: type[MCPMagicError]) -> Iterator[None]:
    """Expect that what is within is refused."""
    try:
        yield
    except kind as error:
        print(f"refused, as it should be: {error}")
        return
    raise AssertionError(f"nothing was refused; expected {kind.__name__}")
