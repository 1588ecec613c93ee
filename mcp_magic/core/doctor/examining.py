"""One examination: the steps in their order, what each stands on, and the clearing up."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_magic.config.specs import HttpSpec, StdioSpec, UrlSpec
from mcp_magic.core.doctor.entrance import Entrance
from mcp_magic.core.doctor.http import HttpPatient
from mcp_magic.core.doctor.network import look_at_tls, proxy_of, reach
from mcp_magic.core.doctor.offers import fetch_offers, judge_capabilities, judge_lists
from mcp_magic.core.doctor.process import Patient
from mcp_magic.core.doctor.report import FAILED, DoctorReport, Remark, Step, Stop
from mcp_magic.core.doctor.resolving import older
from mcp_magic.core.doctor.session import judge_call, judge_findings, judge_ping, judge_version
from mcp_magic.core.doctor.starting import begin_by_hand, judge_closing, judge_ending
from mcp_magic.core.doctor.web import look_at_http
from mcp_magic.core.doctor.wire import judge_eras
from mcp_magic.core.lint import lint_offers
from mcp_magic.errors import MCPMagicError
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_magic.config.specs import Spec
    from mcp_magic.core.connection import Connection
    from mcp_magic.core.doctor.process import Ending
    from mcp_magic.core.host import Host
    from mcp_magic.core.lint import Findings

__all__ = ["STEPS", "Examination", "Stop"]

STEPS = (
    *("resolve", "connect", "TLS", "HTTP", "handshake", "version", "capabilities", "lists", "schemas"),
    *("ping", "call", "close"),
)


class Examination:
    """The examination of one server.

    Args:
        host: Whose rules hold, and whose trace has the messages.
        call: The tool to call, "" to pick one, None for none.
        title: What is examined.
        login: Whether the person may be asked to log in.

    Attributes:
        steps: By name.
        title: What is examined.
    """

    def __init__(self, host: Host, call: str | None, title: str, *, login: bool = False) -> None:
        self.title = title
        self._logins = host.logins if login else replace(host.logins, authorizer=None)
        self.steps = {name: Step(name) for name in STEPS}
        self._host = host
        self._call = call
        self._patient: Patient | None = None
        self._ending: Ending | None = None
        self._connection: Connection | None = None
        self._findings: Findings | None = None
        self._masked: Callable[[str], str] = str

    def report(self) -> DoctorReport:
        """Return what was found; secrets are masked, whoever repeated them."""
        for step in self.steps.values():
            step.remarks = [Remark(status, *map(self._masked, said)) for status, *said in step.remarks]
        return DoctorReport(self.title, list(self.steps.values()), self._findings)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; an error of ours in it is what it found."""
        step = self.steps[name]
        started = time.perf_counter()
        failure: MCPMagicError | None = None
        try:
            yield step
        except MCPMagicError as error:
            failure = error
        finally:
            step.seconds = time.perf_counter() - started
        if failure is not None:
            first, _, more = str(failure).partition("\n")
            step.fail(first, " ".join(more.split()))
            raise Stop

    # A server that is not connected

    async def of_spec(self, spec: Spec, name: str) -> None:
        """Go through all steps with a session of its own; everything that is started is ended."""
        self._masked = spec.masked
        try:
            spec = await self._approach(spec)
            await self._open(spec, name)
            await self._look(spec)
            await self._close()
        except Stop:
            if self._patient is not None:
                await self._patient.put_down()
            raise
        finally:
            self._clear_up()

    async def _approach(self, spec: Spec) -> Spec:
        """Come as near as one can without a session, and return where to open one."""
        if isinstance(spec, StdioSpec):
            self._skip("TLS", "HTTP", why="a process speaks over its input and output")
            await self._process(spec)
        elif isinstance(spec, UrlSpec):
            return await self._url(spec)
        else:
            self._skip(*STEPS[1:4], why="the server is in this kernel")
        return spec

    async def _process(self, spec: StdioSpec) -> None:
        self._patient = Patient(spec)
        with self.step("connect") as step:
            begun = await begin_by_hand(self._patient, spec, step)
        if begun is None:
            self._host.note_failed(self.title, self._patient.stderr)
            raise Stop
        with self.step("handshake") as step:
            step.seconds = sum(reply.seconds for reply in begun if reply is not None)
            works = judge_eras(step, *begun)
        if not works:
            raise Stop
        self._ending, self._patient = await self._patient.end(), None

    async def _url(self, spec: UrlSpec) -> UrlSpec:
        secure = spec.url.startswith(("https:", "wss:"))
        proxy = proxy_of(spec)
        with self.step("connect") as step:
            if proxy:
                step.ok(f"it goes over the proxy {proxy}, so nothing of the way can be seen from here")
            elif not await reach(spec, step):
                raise Stop
        with self.step("TLS") as step:
            if not secure or proxy:
                step.skip("not encrypted" if not secure else "seen by the proxy only")
            elif not await look_at_tls(spec, step):
                raise Stop
        if not isinstance(spec, HttpSpec):
            self._skip("HTTP", why=f"the session itself tries it ({spec.transport})")
            return spec
        entrance = Entrance(self._logins, self.title, spec)
        self._masked = lambda text: entrance.hide(spec.masked(text))
        with self.step("HTTP") as step:
            answers = await look_at_http(spec, HttpPatient(spec, spec.timeout, entrance), step)
        if answers is None:  # of the old transport, to which a session falls back, or none at all
            if step.status == FAILED:
                raise Stop
            return older(spec)
        with self.step("handshake") as step:
            if not judge_eras(step, *answers):
                raise Stop
        return spec

    async def _open(self, spec: Spec, name: str) -> None:
        """Open a session."""
        self._host.loop = self._host.loop or asyncio.get_running_loop()
        with self._going_on("handshake") as step:
            connection = self._connection = self._host.make(name, replace(spec, reconnect=False), logins=self._logins)
            try:
                await connection.open()
            finally:
                self._host.keep_until_closed(connection)
            if not isinstance(spec, StdioSpec | HttpSpec) and connection.spec in self._host.protocols:
                step.ok("server/discover: not taken: a server of the handshake era")
            step.ok(f"a session opens in {duration(connection.connect_seconds)}")

    async def _close(self) -> None:
        assert self._connection is not None
        with self.step("close") as step:
            if self._ending is not None:
                judge_ending(self._ending, step)
            started = time.perf_counter()
            await self._connection.close()
            judge_closing(time.perf_counter() - started, step)

    def _clear_up(self) -> None:
        """End what is still there, without waiting: whoever interrupted need not wait for that."""
        if self._patient is not None:
            self._patient.kill()
        connection = self._connection
        if connection is not None and connection.state in ("open", "connecting", "reconnecting"):
            closing = asyncio.ensure_future(connection.close())
            self._host.keep_until_done(closing)

    # A session that is open

    async def of_session(self, connection: Connection) -> None:
        """Go through the steps that leave an open session as it is."""
        self._connection = connection
        spec = connection.spec
        self._masked = spec.masked
        with self.step("connect") as step:
            since = time.strftime("%H:%M:%S", time.localtime(connection.opened_at or time.time()))
            step.ok(f"open since {since}; {connection.calls:,} requests, {connection.failures:,} failed")
        with self.step("TLS") as step:
            if isinstance(spec, UrlSpec) and spec.url.startswith(("https:", "wss:")) and not proxy_of(spec):
                await look_at_tls(spec, step)
            else:
                step.skip("not encrypted" if isinstance(spec, UrlSpec) else "no network between")
        self._skip("HTTP", why="the session is open" if isinstance(spec, UrlSpec) else "no network between")
        with self.step("handshake") as step:
            step.ok(f"done when it was opened, in {duration(connection.connect_seconds)}")
        await self._look(spec)
        self._skip("close", why="the session is left open")

    # What both have

    async def _look(self, spec: Spec) -> None:
        connection = self._connection
        assert connection is not None
        with self.step("version") as step:
            judge_version(connection, step)
        with self.step("lists") as step:
            offers = await fetch_offers(connection, spec.timeout)
            judge_lists(offers, step)
        with self.step("capabilities") as step:
            judge_capabilities(offers, connection, step)
        with self.step("schemas") as step:
            texts = [("server", connection.instructions)] if connection.instructions else []
            parsed = {kind: offer.parsed for kind, offer in offers.items()}
            unread = [found for offer in offers.values() for found in offer.unread]
            self._findings = await lint_offers(connection.name, parsed, texts, unread)
            judge_findings(self._findings, step)
        with self.step("ping") as step:
            await judge_ping(connection, step, spec.timeout)
        with self.step("call") as step:
            await judge_call(connection, offers["tools"].parsed, self._call, step, spec.timeout)

    @contextmanager
    def _going_on(self, name: str) -> Iterator[Step]:
        """Add to a step that was begun before: its times are summed."""
        before = self.steps[name].seconds or 0.0
        try:
            with self.step(name) as step:
                yield step
        finally:
            self.steps[name].seconds = (self.steps[name].seconds or 0.0) + before

    def _skip(self, *names: str, why: str) -> None:
        for name in names:
            self.steps[name].seconds = 0.0
            self.steps[name].skip(why)
