"""Persons that log in, answer what servers ask and decide about calls, for tests without a screen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from mcp_magic._host import Host
    from mcp_magic.ask.elicitation import Answer, Elicitation
    from mcp_magic.auth.login import LogIn
    from mcp_magic.consent.consent import Decision, Request


class Person:
    """Follows the link, as a browser does.

    Attributes:
        shown: The log-ins that were shown.
        pages: What the browser showed in the end: status and text.
        elsewhere: Whether the browser is on another machine, so that the address is pasted.
    """

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.shown: list[LogIn] = []
        self.pages: list[tuple[int, str]] = []
        self.elsewhere = elsewhere

    async def __call__(self, login: LogIn) -> None:
        self.shown.append(login)
        async with httpx2.AsyncClient(follow_redirects=not self.elsewhere, timeout=60) as browser:
            page = await browser.get(login.url)
        if self.elsewhere:
            assert login.pasted(page.headers["location"]) == ""
        self.pages.append((page.status_code, page.text))
        await login.answered()


def logging_in(host: Host, person: Person | None = None, where: str = "memory") -> Person:
    """Let a person log in to the servers of a host; tokens are kept in memory."""
    host.logins.where = where
    host.logins.authorizer = person = person or Person()
    return person


class Scripted:
    """An elicitor that answers in order, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Elicitation] = []

    async def __call__(self, asked: Elicitation) -> Answer:
        self.asked.append(asked)
        return self.answers.pop(0)


class Approver:
    """Decides about calls in order, about more of them as about the last, and keeps what it was asked."""

    def __init__(self, *decisions: Decision | Exception) -> None:
        self.decisions = list(decisions)
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Decision:
        self.asked.append(request)
        decision = self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]
        if isinstance(decision, Exception):
            raise decision
        return decision


def callbacks() -> list[str]:
    """Return the threads that wait for the way back from a log-in."""
    return [thread.name for thread in threading.enumerate() if "callback" in thread.name]
