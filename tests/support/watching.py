"""A reporter that keeps what it is shown, and the server of `reporting_server` for it to watch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import SUPPORT
from tests.support.asgi import serving
from tests.support.reporting_server import reporting_server
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_magic._host import Host
    from mcp_magic.flight.progress import Report
    from mcp_magic.session.connection import Connection

SERVER = [sys.executable, str(SUPPORT / "reporting_server.py")]


class Watching:
    """A reporter that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Report] = []
        self.changes = 0
        self.seen: list[str] = []

    @property
    def reports(self) -> list[Report]:
        """Those with progress or log messages; on a busy machine others may take a second, too."""
        return [report for report in self.shown if report.meter.count or report.logged]

    def __call__(self, report: Report) -> Callable[[], None]:
        self.shown.append(report)

        def changed() -> None:
            self.changes += 1
            if report in self.reports:
                self.seen.append(report.state)

        return changed


@pytest.fixture(params=("in process", "stdio, handshake", "http"))
async def target(request: pytest.FixtureRequest, host: Host) -> AsyncIterator[Any]:
    """The server over each transport, on both eras."""
    if request.param == "http":
        async with serving(reporting_server().streamable_http_app()) as url:
            yield f"{url}/mcp"
            await host.close()
    else:
        yield reporting_server() if request.param == "in process" else [*SERVER, "--era", "handshake"]


@pytest.fixture
def watching(host: Host) -> Watching:
    host.reports.reporter = watching = Watching()
    return watching


async def reports(host: Host, target: Any = None, **options: Any) -> Connection:
    return await host.connect(reporting_server() if target is None else target, name="reports", **options)


async def reported(watching: Watching, count: int = 1) -> None:
    """Wait until as many calls have reported."""
    await until(lambda: len(watching.reports) >= count)
