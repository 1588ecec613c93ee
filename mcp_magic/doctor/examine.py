"""The examination of a server: its steps in order, and its report."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import duration, join_names, plural
from mcp_magic.auth.session import authenticator
from mcp_magic.cassette.cassette import deck
from mcp_magic.config.servers import find_server
from mcp_magic.config.specs import HttpSpec, InProcessSpec, Spec, SseSpec, StdioSpec, UrlSpec
from mcp_magic.config.targets import resolve_target
from mcp_magic.display.text import one_line
from mcp_magic.doctor.flow import flow_findings
from mcp_magic.doctor.http import (
    HttpProbe,
    LogInProbe,
    look_at_connection,
    look_at_http,
    look_at_tls,
    why_hidden,
)
from mcp_magic.doctor.lookalikes import lookalike_findings
from mcp_magic.doctor.report import WARNING, DoctorReport, Remark, Step, Stop
from mcp_magic.doctor.servers import Server
from mcp_magic.doctor.session import (
    MAX_SHOWN,
    fetch_offers,
    judge_call,
    judge_capabilities,
    judge_findings,
    judge_lists,
    judge_oddities,
    judge_ping,
    judge_version,
)
from mcp_magic.doctor.shadowing import shadowing_findings
from mcp_magic.doctor.stdio import ServerProcess, judge_ending, judge_eras, judge_garbage, open_by_hand
from mcp_magic.errors import CassetteError, MCPMagicError, MissingDependencyError, TargetError, UnknownServerError
from mcp_magic.lint import ERROR, NOTE, Finding, Findings, lint_offers
from mcp_magic.lint import WARNING as LINT_WARNING
from mcp_magic.sandbox.backends import isolated
from mcp_magic.session.catalog import KINDS
from mcp_magic.session.failures import not_started
from mcp_magic.session.secrets import ignore, resolve_secrets
from mcp_magic.session.supervisor import quiet_sdk_logging
from mcp_magic.session.transports import open_transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_magic._host import Host
    from mcp_magic.cassette.cassette import Cassette
    from mcp_magic.config.servers import ServerEntry
    from mcp_magic.doctor.stdio import Ending
    from mcp_magic.session.connection import Connection


# The step resolve: the spec that a target names, and where it is declared.


async def _resolve(target: Any, options: Mapping[str, Any], step: Step) -> tuple[Spec, str]:
    """Note which server a target names; return its spec and a session name."""
    entries: list[ServerEntry] = []
    find = options.get("find_entry") or find_server

    def find_entry(name: str) -> ServerEntry:
        entry: ServerEntry = find(name)
        entries.append(entry)
        return entry

    try:
        spec, name = resolve_target(target, **{**options, "find_entry": find_entry})
    except MCPMagicError as error:
        first, _, rest = str(error).partition(". ")
        raise step.stop(first, " ".join(rest.split())) from None
    step.ok(_meaning(target, spec, entries))
    if isinstance(spec, StdioSpec):
        _find_command(spec, step)
    if isinstance(spec, UrlSpec):
        host, port = spec.address
        path, headers = urlsplit(spec.url).path, ", ".join(sorted(spec.headers)) or "none"
        step.ok(f"host {host}, port {port}, path {spec.masked(path) or '/'}, headers: {headers}")
        if path in ("", "/"):
            step.ok("the URL has no path; most servers are under /mcp")
    return spec, name


def _meaning(target: Any, spec: Spec, entries: list[ServerEntry]) -> str:
    place = f"{spec.transport}: {spec.where}"
    if entries:
        return f"server {entries[0].name!r} of {entries[0].source}: {place}"
    if isinstance(spec, InProcessSpec):
        return f"{spec.where} in this kernel" + (f", the variable {target}" if isinstance(target, str) else "")
    if isinstance(target, str) and isinstance(spec, StdioSpec):
        return f"server file, {place}" if target.endswith((".py", ".js", ".mjs", ".cjs")) else f"variable, {place}"
    return place


def _find_command(spec: StdioSpec, step: Step) -> None:
    """Find the program and its folder."""
    if IN_BROWSER:
        text = "this Python runs in a browser and starts no programs"
        raise step.stop(text, "connect to a URL or to a server in this kernel")
    program = shutil.which(spec.command, path=spec.env.get("PATH") or os.environ.get("PATH"))
    if program is None and spec.cwd is not None:
        program = shutil.which(str(Path(spec.cwd) / spec.command))
    if program is None or (spec.cwd is not None and not Path(spec.cwd).is_dir()):
        refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise step.stop(*not_started(spec, refused if Path(spec.command).is_file() else FileNotFoundError()))
    step.ok(program if program == spec.command else f"{spec.command} is {program}")
    if spec.sandbox is not None:
        try:
            isolated(spec)
        except MissingDependencyError as error:
            raise step.stop(str(error), "install what it names, or connect where it is installed") from None
        except TargetError as error:
            raise step.stop(str(error), "change the sandbox of this server") from None
    step.ok(spec.isolation)


# One examination: the steps in their order, their dependencies, and the cleanup.

STEPS = (
    *("resolve", "connect", "TLS", "HTTP", "handshake", "version", "capabilities", "lists", "schemas"),
    *("ping", "call", "close"),
)


SLOW_CLOSE_SECONDS = 2.0  # a server should end when its client leaves


class _Examination:
    """The examination of one server. `call` is the tool to call, "" to pick one, None for none."""

    def __init__(self, host: Host, call: str | None, title: str, *, login: bool = False) -> None:
        self.title = title
        self._logins = host.logins if login else replace(host.logins, authorizer=None)
        self.steps = {name: Step(name) for name in STEPS}
        self._host = host
        self._call = call
        self._server: ServerProcess | None = None
        self._ending: Ending | None = None
        self._connection: Connection | None = None
        self._findings: Findings | None = None
        self._masked: Callable[[str], str] = str

    def report(self) -> DoctorReport:
        """Return the report, with secrets masked everywhere."""
        for step in self.steps.values():
            step.remarks = [Remark(status, *map(self._masked, texts)) for status, *texts in step.remarks]
        findings = None if self._findings is None else self._findings.masked(self._masked)
        return DoctorReport(self.title, list(self.steps.values()), findings)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step, or a further part of it. An `MCPMagicError` in it fails the step and raises `Stop`."""
        step = self.steps[name]
        started = time.perf_counter()
        failure: MCPMagicError | None = None
        try:
            yield step
        except MCPMagicError as error:
            failure = error
        finally:
            step.seconds = (step.seconds or 0.0) + time.perf_counter() - started
        if failure is not None:
            first, _, more = str(failure).partition("\n")
            step.fail(first, " ".join(more.split()))
            raise Stop

    # A server without a session

    async def of_spec(self, spec: Spec, name: str) -> None:
        """Run all steps with a session of its own. Ends all that it starts."""
        self._masked = spec.masked
        try:
            spec = await self._resolve_secrets(spec, name)
            spec = await self._approach(spec)
            await self._open(spec, name)
            await self._look(spec)
            await self._close()
        except Stop:
            if self._server is not None:
                await self._server.put_down()
            raise
        finally:  # end what still runs without waiting, so that an interrupt takes effect at once
            if self._server is not None:
                self._server.kill()
            connection = self._connection
            if connection is not None and connection.state in ("open", "connecting", "reconnecting"):
                self._host.registry.keep_until_done(asyncio.ensure_future(connection.close()))

    async def _resolve_secrets(self, spec: Spec, name: str) -> Spec:
        """Return the spec with its secrets, which are needed from now on."""
        if not spec.secret_sources:
            return spec
        with self.step("connect") as step:
            full_spec = await resolve_secrets(spec, name, ignore, self._host.secrets.ask_input)
            step.ok(f"its secrets can be had: {', '.join(spec.secret_sources)}")
        # the headers of a helper stay those of this run, for all steps
        return replace(full_spec, headers_helper=None) if isinstance(full_spec, UrlSpec) else full_spec

    async def _approach(self, spec: Spec) -> Spec:
        """Run the steps before a session, and return the spec to open it with."""
        if isinstance(spec, StdioSpec):
            self._skip("TLS", "HTTP", why="a process has no network: it uses stdin and stdout")
            await self._process(spec)
        elif isinstance(spec, UrlSpec):
            return await self._url(spec)
        else:
            self._skip(*STEPS[1:4], why="the server is in this kernel")
        return spec

    async def _process(self, spec: StdioSpec) -> None:
        self._server = ServerProcess(spec)
        with self.step("connect") as step:
            try:
                replies = await open_by_hand(self._server, spec, step)
            except Stop:
                self._host.registry.note_failure(self.title, self._server.stderr)
                raise
        with self.step("handshake") as step:
            step.seconds = sum(reply.seconds for reply in replies if reply is not None)
            judge_eras(step, *replies)
        was_clean = not self._server.garbage
        self._ending = await self._server.end()
        if was_clean and self._server.garbage:
            judge_garbage(self._server.garbage[0], self.steps["connect"])
        self._server = None

    async def _url(self, spec: UrlSpec) -> UrlSpec:
        secure = spec.url.startswith(("https:", "wss:"))
        hidden = why_hidden(spec)
        with self.step("connect") as step:
            if hidden:
                step.skip(hidden)
            else:
                await look_at_connection(spec, step)
        with self.step("TLS") as step:
            if hidden or not secure:
                step.skip(hidden if secure else "not encrypted")
            else:
                await look_at_tls(spec, step)
        if not isinstance(spec, HttpSpec):
            self._skip("HTTP", why=f"the session itself tries it ({spec.transport})")
            return spec
        log_in = LogInProbe(self._logins, self.title, spec)
        self._masked = lambda text: log_in.hide(spec.masked(text))
        with self.step("HTTP") as step:
            answers = await look_at_http(spec, HttpProbe(spec, spec.timeout, log_in), step)
        if answers is None:
            return SseSpec(**{field.name: getattr(spec, field.name) for field in fields(SseSpec)})
        with self.step("handshake") as step:
            judge_eras(step, *answers)
        return spec

    async def _open(self, spec: Spec, name: str) -> None:
        """Open a session."""
        self._host.loop = self._host.loop or asyncio.get_running_loop()
        with self.step("handshake") as step:
            spec = replace(spec, reconnect=False)
            log_in = authenticator(self._logins)
            connection = self._host.make(name, spec, authenticate=log_in, open_transport=open_transport)  # no cassette
            self._connection = connection
            try:
                await connection.open()
            finally:
                self._host.registry.keep_until_closed(connection)
            if not isinstance(spec, StdioSpec | HttpSpec) and connection.spec in self._host.protocols:
                step.ok("server/discover: not supported: an older server, which begins with initialize")
            step.ok(f"a session opens in {duration(connection.supervisor.connect_seconds)}")

    async def _close(self) -> None:
        assert self._connection is not None
        with self.step("close") as step:
            if self._ending is not None:
                judge_ending(self._ending, step)
            started = time.perf_counter()
            await self._connection.close()
            seconds = time.perf_counter() - started
            note = step.ok if seconds < SLOW_CLOSE_SECONDS else step.warn
            note(f"the session ended in {duration(seconds)}")

    # An open session

    async def of_session(self, connection: Connection) -> None:
        """Run the steps that leave an open session unchanged."""
        self._connection = connection
        spec = connection.spec
        self._masked = spec.masked
        with self.step("connect") as step:
            since = time.strftime("%H:%M:%S", time.localtime(connection.opened_at or time.time()))
            step.ok(f"open since {since}; {connection.calls:,} requests, {connection.failures:,} failed")
            if connection.outdated:
                text, _, todo = connection.outdated.partition("; ")
                step.warn(text, todo)
        with self.step("TLS") as step:
            if not isinstance(spec, UrlSpec):
                step.skip("no network between")
            elif not spec.url.startswith(("https:", "wss:")) or why_hidden(spec):
                step.skip("not encrypted" if spec.url.startswith(("http:", "ws:")) else why_hidden(spec))
            else:
                with suppress(Stop):  # the session works all the same
                    await look_at_tls(spec, step)
        self._skip("HTTP", why="the session is open" if isinstance(spec, UrlSpec) else "no network between")
        with self.step("handshake") as step:
            step.ok(f"done when it was opened, in {duration(connection.supervisor.connect_seconds)}")
        await self._look(spec)
        self._skip("close", why="the session is left open")

    # Both

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
            unread = [item for offer in offers.values() for item in offer.unread]
            self._findings = await lint_offers(connection.name, parsed, texts, unread)
            judge_findings(self._findings, step)
        with self.step("ping") as step:
            await judge_ping(connection, step, spec.timeout)
        with self.step("call") as step:
            await judge_call(connection, offers["tools"].parsed, self._call, step, spec.timeout)
        judge_oddities(connection, self.steps["lists"])
        garbage, connect = connection.place.garbage(), self.steps["connect"]
        if garbage and connect.status != WARNING:  # the server may have printed it long after its start
            judge_garbage(garbage, connect)

    def _skip(self, *names: str, why: str) -> None:
        for name in names:
            self.steps[name].seconds = 0.0
            self.steps[name].skip(why)


# Doctor reports on a cassette: replay gives the recorded report, with the recorded times, and repeats no examination.
# Open sessions and in-process servers are still examined, because the steps that follow depend on them.


def _recorded(cassette: Cassette, title: str, target: str, call: str | None) -> dict[str, Any] | None:
    """Return the line of the same examination: each once, in order, and the last one again."""
    lines = cassette.content.examined
    equal = [line for line in lines if line.get("call") == call]
    same = [line for line in equal if line["title"] == title] or [
        line for line in equal if line.get("target") == target
    ]
    if not same:
        return None
    if len(same) > 1:
        lines.remove(same[0])
    cassette.played += 1
    return same[0]


def _plain(report: DoctorReport) -> dict[str, Any]:
    """Return a report as JSON data."""
    steps: list[dict[str, Any]] = []
    for step in report.steps:
        remarks = [list(remark)[: 3 if remark.todo else 2] for remark in step.remarks]
        steps.append({"step": step.name, "seconds": step.seconds and round(step.seconds, 4), "found": remarks})
    if report.findings is None:
        return {"steps": steps}
    lint = report.findings
    head = {"title": lint.title, "note": lint.note, "empty": lint.empty}
    return {"steps": steps, "findings": [list(finding) for finding in lint.findings], "lint": head}


def _report(entry: dict[str, Any]) -> DoctorReport:
    """Return the report that a cassette line holds."""
    steps = [
        Step(item["step"], [Remark(*remark) for remark in item["found"]], item["seconds"]) for item in entry["steps"]
    ]
    findings = None
    if "findings" in entry:
        findings = Findings([Finding(*item) for item in entry["findings"]], title=entry["lint"]["title"])
        findings.note, findings.empty = entry["lint"]["note"], entry["lint"]["empty"]
    return DoctorReport(entry["title"], steps, findings)


# The entry point.


async def examine(
    host: Host,
    target: Any,
    *,
    name: str | None = None,
    call: str | None = None,
    login: bool = False,
    **options: Any,
) -> DoctorReport:
    """Examine a server: resolve, connect, TLS, HTTP, handshake, version, capabilities, lists, schemas, ping, close.

    An open session of that name is examined and left unchanged; for any other target (see `Host.connect`, whose
    options it takes) a session is opened, and closed afterwards. While a cassette is replayed, the recorded report is
    returned, or a CassetteError raised if there is none. A failing server raises nothing.

    `call` is the tool to call, "" for a read-only one without required arguments, None for none. `login`: whether the
    user may be asked to log in; a stored token is used in any case.
    """
    quiet_sdk_logging()
    connection = _session(host, target)
    cassette = deck.cassette
    if cassette is None:
        return await _examine(host, connection, target, name, call, login, options)
    (title, live), where = _title_of(connection, target, name, options), _label(target)
    recorded = _recorded(cassette, title, where, call) if cassette.replays else None
    if recorded is not None and not live:
        return _report(recorded)
    if recorded is None and not (live or cassette.records):
        titles = join_names(dict.fromkeys(line["title"] for line in cassette.content.examined))
        has = f"it has those of {titles}" if titles else "it has none"
        missing = f"a doctor's report of {title} is not in the cassette {cassette.path}; {has}"
        raise CassetteError(f"{missing}; {cassette.adds('it')}.")
    report = await _examine(host, connection, target, name, call, login, options)
    if recorded is not None:
        return _report(recorded)
    if cassette.records:
        head = {"title": report.target, "target": where, "call": call}
        cassette.write(cassette.masker.mask_value({**head, **_plain(report)}))
    return report


async def _examine(
    host: Host,
    connection: Connection | None,
    target: Any,
    name: str | None,
    call: str | None,
    login: bool,
    options: dict[str, Any],
) -> DoctorReport:
    title = name or (connection.name if connection is not None else _label(target))
    examination = _Examination(host, call, title, login=login)
    with suppress(Stop):
        if connection is not None and connection.state == "open":
            with examination.step("resolve") as step:
                step.ok(f"the session {connection.name!r}, {connection.spec.transport}: {connection.spec.where}")
                if isinstance(connection.spec, StdioSpec):
                    step.ok(connection.spec.isolation)
            await examination.of_session(connection)
            return examination.report()
        with examination.step("resolve") as step:
            if connection is not None:
                step.warn(f"the session {connection.name!r} is {connection.state}", f"%mcp reconnect {connection.name}")
            spec, default = await _resolve(connection.spec if connection is not None else target, options, step)
        examination.title = name or (connection.name if connection is not None else default)
        await examination.of_spec(spec, examination.title)
    return examination.report()


def _session(host: Host, target: Any) -> Connection | None:
    if isinstance(target, str):
        return host.connections.get(target)
    return next((connection for connection in host.connections.values() if connection is target), None)


def _title_of(
    connection: Connection | None, target: Any, name: str | None, options: dict[str, Any]
) -> tuple[str, bool]:
    """Return the title of a report, and whether the server is examined although a cassette is replayed."""
    if connection is not None and (connection.state == "open" or not name):
        return name or connection.name, connection.state == "open"
    try:
        spec, default = resolve_target(target, **options)
    except MCPMagicError:
        return name or _label(target), False
    assert deck.cassette is not None
    return name or default, isinstance(spec, InProcessSpec) and deck.cassette.options.in_process == "live"


def _label(target: Any) -> str:
    from mcp_magic.config.masking import mask_arguments

    words = target if isinstance(target, list | tuple) else str(target).split()
    return " ".join(mask_arguments(tuple(str(word) for word in words)))[:100]


# The connected servers together.

TOGETHER = ("servers", "definitions", "instructions", "names", "flow")
"""The steps of an examination of all connected servers."""

_STEP_OF = {"other-server": "instructions", "names-alike": "names", "toxic-flow": "flow"}


async def examine_all(host: Host) -> DoctorReport:
    """Examine the open sessions together: what each offers, and what one does to another. Calls no tool.

    Raises:
        UnknownServerError: No server is connected.
    """
    sessions = list(host.connections.values())
    if not sessions:
        raise UnknownServerError("no server is connected; `%mcp connect TARGET` opens one")
    steps = {name: Step(name) for name in TOGETHER}
    findings: list[Finding] = []
    with _timed(steps["servers"]) as step:
        servers = await _servers_of(host, sessions, step)
    with _timed(steps["definitions"]):
        for session, server in servers.items():
            linted = await lint_offers(session.name, server.offers, server.own_texts, session.catalog.unread)
            findings += [finding._replace(server=session.name) for finding in linted.findings]
    for name, look in (("instructions", shadowing_findings), ("names", lookalike_findings), ("flow", flow_findings)):
        with _timed(steps[name]):
            look_at = partial(list[Finding], look([*servers.values()]))
            findings += look_at() if IN_BROWSER else await asyncio.to_thread(look_at)  # seconds for thousands of tools
    for session in servers:  # a text may be in a finding about another server
        findings = [finding.masked(session.spec.masked) for finding in findings]
    for name, step in steps.items():
        if name != "servers":
            own = [finding for finding in findings if _STEP_OF.get(finding.code, "definitions") == name]
            _judge_together(own, step, len(servers))
    if guarded := sum(len(server.guarded) for server in servers.values()):
        steps["flow"].note(f"left out, because a consent rule denies or asks: {plural(guarded, 'tools')}")
    title = f"{plural(len(servers), 'servers')} together: {join_names((session.name for session in servers), 6)}"
    together = Findings(findings, title=f"Findings in {plural(len(servers), 'servers')}")
    return DoctorReport(title, list(steps.values()), together)


@contextmanager
def _timed(step: Step) -> Iterator[Step]:
    started = time.perf_counter()
    yield step
    step.seconds = time.perf_counter() - started


async def _servers_of(host: Host, sessions: list[Connection], step: Step) -> dict[Connection, Server]:
    """Note what each session offers; return those that are open and answer."""
    servers: dict[Connection, Server] = {}
    for session in sessions:
        if session.state != "open":
            step.warn(f"{session.name} is {session.state}, and was left out", f"%mcp reconnect {session.name}")
            continue
        server = servers[session] = await _server_of(host, session, step)
        counts = [plural(len(items), kind) for kind, items in server.offers.items() if items]
        step.ok(f"{session.name} ({session.spec.transport}: {session.spec.where}): {join_names(counts) or 'nothing'}")
    return servers


async def _server_of(host: Host, session: Connection, step: Step) -> Server:
    """Return what a session offers, and which of its tools a consent rule denies or asks about."""
    offers: dict[str, tuple[Any, ...]] = {}
    for kind in KINDS:
        try:
            offers[kind] = await session.listing(kind)
        except MCPMagicError as error:
            offers[kind] = ()
            step.fail(session.spec.masked(one_line(str(error), 300)), f"`%mcp doctor {session.name}` says more")
    info = session.server_info
    own = (info.name, info.title, session.instructions) if info is not None else (session.instructions,)
    texts = [("server", text) for text in own if text]
    guarded = []
    for tool in offers["tools"]:
        rules = (rule for rule in host.consent.rules if rule.names(f"{session.name}:{tool.name}"))
        first = next((rule for rule in rules if not rule.is_conditional and rule.run is None), None)
        if first is not None and first.action != "allow":
            guarded.append(tool.name)
    return Server(session.name, offers, texts, trusted=session.spec.trust, guarded=guarded)


_CLEAN = {
    "definitions": "no errors and no warnings in the definitions",
    "instructions": "no text is about the tools of another server",
    "names": "no names of different servers are equal or look alike",
    "flow": "no tools that together could send your data to the outside",
}


def _judge_together(findings: list[Finding], step: Step, count: int) -> None:
    """Note findings of a step, the worst first, and those of one step below one another."""
    if step.name in ("instructions", "names") and count < 2:
        step.skip("it takes two servers")
        return
    ordered = [
        finding for finding in Findings(findings).findings if step.name != "definitions" or finding.severity != NOTE
    ]
    judge = {ERROR: step.fail, LINT_WARNING: step.warn}
    for finding in ordered[:MAX_SHOWN]:
        text = f"{finding.place}: {finding.problem} [{finding.code}]"
        if finding.severity == NOTE:
            step.note(f"{text} → {finding.todo}")
        else:
            judge[finding.severity](text, finding.todo)
    rest = ordered[MAX_SHOWN:]
    if rest:
        more = step.note if rest[0].severity == NOTE else step.warn
        more(f"{plural(len(rest), 'findings')} more: `.findings`")
    if len(findings) > len(ordered):
        step.note(f"{plural(len(findings) - len(ordered), 'notes')}: `.findings`")
    if not ordered:
        step.ok(_CLEAN[step.name])
