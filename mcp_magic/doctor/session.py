"""The doctor's steps in a session: version, lists, ping and a call."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic import schema
from mcp_magic._text import did_you_mean, duration, join_names
from mcp_magic.display.text import one_line
from mcp_magic.errors import DeniedError, MCPMagicError
from mcp_magic.flight.attempt import Attempt, current_attempt
from mcp_magic.flight.client import AnyResult
from mcp_magic.lint import ERROR, WARNING
from mcp_magic.loops import together
from mcp_magic.protocol import METHOD_NOT_FOUND, leaf
from mcp_magic.results.reasons import reason
from mcp_magic.session.catalog import KINDS, MAX_PAGES
from mcp_magic.session.failures import request_error
from mcp_magic.session.negotiation import wants_handshake

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_types import Tool

    from mcp_magic.doctor.report import Step
    from mcp_magic.lint import Findings
    from mcp_magic.session.connection import Connection


# Requests on an open session that do not change its counters, and messages for their failures.


class _Answer(NamedTuple):
    """The outcome of a request; `problem` is why there is no result."""

    result: dict[str, Any] | None
    seconds: float
    problem: str = ""
    code: int | None = None
    wants_handshake: bool = False


async def _ask(connection: Connection, method: str, seconds: float, params: Mapping[str, Any] | None = None) -> _Answer:
    """Send one request and return its raw `result`, unchecked.

    Bypasses health, retries and renewal of the session: an examination must not change what it examines.
    """
    from mcp_types import Request

    request: Any = Request[Any, str](method=method, params=dict(params or {}))
    started = time.perf_counter()
    failure: Exception
    attempt = Attempt()
    token = current_attempt.set(attempt)
    try:
        async with asyncio.timeout(seconds):
            result: Any = await connection.client.session.send_request(request, AnyResult)
        return _Answer(result, time.perf_counter() - started)
    except Exception as error:
        failure = error
    finally:
        attempt.over = True
        current_attempt.reset(token)
    explained = request_error(failure, connection.place, method, seconds, attempt)
    code = getattr(leaf(failure), "code", None)
    seconds_taken, problem = time.perf_counter() - started, str(explained).splitlines()[0]
    return _Answer(None, seconds_taken, problem, code, wants_handshake(failure, attempt.status))


# Checks of an open session: version, ping, a call.

PINGS = 3

MAX_SHOWN = 6  # most lint findings that the step shows; the report has them all


def judge_version(connection: Connection, step: Step) -> None:
    """Note who the server is and which protocol version the session has."""
    from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, LATEST_PROTOCOL_VERSION

    version = connection.protocol_version
    newest = " (the newest)" if version == LATEST_PROTOCOL_VERSION else f"; the newest is {LATEST_PROTOCOL_VERSION}"
    step.ok(f"the session speaks protocol {version}{newest}")
    if version in KNOWN_PROTOCOL_VERSIONS[:2]:
        step.warn(f"{version} has no structured results and no questions to you", "update the server's SDK")
    info = connection.server_info
    if info is None or not info.name:
        step.warn("it does not give its name", "give serverInfo a name and a version")
    else:
        title = f" ({one_line(info.title, 80)})" if info.title else ""
        step.ok(f"server {one_line(info.name, 80)}{title} {one_line(info.version or '', 40)}".rstrip())
    if connection.instructions:
        step.ok(f"instructions for models: {len(connection.instructions):,} characters")


def judge_findings(findings: Findings, step: Step) -> None:
    """Note the worst lint findings."""
    serious = [*findings.of(ERROR), *findings.of(WARNING)]
    summary = step.note if serious else step.ok
    summary(findings.note or findings.empty)
    for finding in serious[:MAX_SHOWN]:
        note = step.fail if finding.severity == ERROR else step.warn
        note(f"{finding.where}: {finding.problem} [{finding.code}]", finding.todo)
    if len(serious) > MAX_SHOWN:
        step.warn(f"{len(serious) - MAX_SHOWN} more errors and warnings: `.findings`")


async def judge_ping(connection: Connection, step: Step, seconds: float) -> None:
    """Measure round trips."""
    modern = connection.client.session.discover_result is not None
    method = "server/discover" if modern else "ping"
    milliseconds = []
    for _ in range(PINGS):
        answer = await _ask(connection, method, seconds)
        if answer.result is None:
            step.fail(answer.problem, f"{method} must be answered at any time")
            return
        milliseconds.append(answer.seconds * 1000)
    note = " (there is no ping since 2026-07-28)" if modern else ""
    step.ok(f"{method}: {join_names(f'{ms:.1f}' for ms in milliseconds)} ms{note}")


async def judge_call(
    connection: Connection, tools: Sequence[Tool], tool_name: str | None, step: Step, seconds: float
) -> None:
    """Call one harmless tool as the user's own call: the wanted one, one of its choice for "", none for None."""
    if tool_name is None:
        step.skip("no call was requested (--call)")
        return
    tool = _select(tools, tool_name, step)
    if tool is None:
        return
    required = [name for name in tool.input_schema.get("required") or () if isinstance(name, str)]
    arguments = schema.valid_example(tool.input_schema)
    if arguments is None:
        step.warn(
            f"{tool.name} needs {join_names(required)}, for which no valid example is known, so it was not called"
        )
        return
    if required and not (tool.annotations and tool.annotations.read_only_hint):
        line = schema.call_line(f"{connection.name}:{tool.name}", arguments, schema=tool.input_schema)
        step.warn(f"{tool.name} needs {join_names(required)}, and is not marked read-only, so it was not called", line)
        return
    await _call(connection, tool, arguments, step, seconds)


def _select(tools: Sequence[Tool], tool_name: str, step: Step) -> Tool | None:
    if tool_name:
        name = tool_name.rpartition(":")[2] if tool_name not in [tool.name for tool in tools] else tool_name
        match = next((tool for tool in tools if tool.name == name), None)
        if match is None:
            names = [tool.name for tool in tools]
            step.fail(
                f"there is no tool {tool_name!r}.{did_you_mean(tool_name, names)}", f"it has: {join_names(names)}"
            )
        return match
    harmless = [tool for tool in tools if tool.annotations and tool.annotations.read_only_hint]
    match = next((tool for tool in harmless if not tool.input_schema.get("required")), None)
    if match is None:
        step.skip("no read-only tool works without arguments: choose one with --call TOOL")
    return match


async def _call(connection: Connection, tool: Tool, arguments: dict[str, Any], step: Step, seconds: float) -> None:
    line = f"{tool.name}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    started = time.perf_counter()
    try:
        result = await connection.call_tool(tool.name, arguments, timeout=seconds)
    except DeniedError as error:
        step.warn(f"{line} was not called: {one_line(str(error), 300)}", "`%mcp approvals` lists the rules")
        return
    except MCPMagicError as error:
        step.fail(f"{line}: {one_line(str(error), 300)}", "`%mcp trace` has the messages")
        return
    seconds_text = duration(time.perf_counter() - started)
    if result.is_error:
        todo = "does it accept the example arguments?" if arguments else "`%mcp call` it, and look at its log"
        step.warn(f"{line} reports an error{reason(result)}", todo)
    else:
        step.ok(f"{line} answered in {seconds_text}: {_kinds(result)}")
    if result.raw.structured_content is not None and tool.output_schema is None:
        todo = "declare an output schema: hosts and models then know the columns"
        step.warn(f"{tool.name} answers with structured content and has no outputSchema", todo)


def _kinds(result: Any) -> str:
    blocks = [str(block.type) for block in result.raw.content]
    structured = ["structured content"] if result.raw.structured_content is not None else []
    return join_names([*dict.fromkeys(blocks), *structured]) if blocks or structured else "nothing"


# The capabilities that a server announces, and what it really lists: all pages, fetched without the SDK's checks.

LIST_SECONDS = 30.0  # deadline of all pages of a list, in seconds
PAGE_SECONDS = 15.0  # deadline of one page, in seconds


@dataclass
class Offer:
    """One list of a server."""

    kind: str
    announced: bool
    items: list[Any] = field(default_factory=list)  # raw
    parsed: list[Any] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)  # invalid items: which one, and what is wrong with it
    pages: int = 0
    seconds: float = 0.0
    problem: str = ""
    code: int | None = None
    wants_handshake: bool = False
    odd: list[tuple[str, str]] = field(default_factory=list)  # problems of a fetched list, each with what to do


async def fetch_offers(connection: Connection, seconds: float) -> dict[str, Offer]:
    """Fetch all lists concurrently, including those that the server does not announce."""
    fetched = await together(_fetch(connection, kind, min(seconds, PAGE_SECONDS)) for kind in KINDS)
    if any(offer.wants_handshake for offer in fetched):
        with suppress(MCPMagicError):
            await connection.listing("tools", refresh=True)  # the session begins again, with the handshake
        fetched = await together(_fetch(connection, kind, min(seconds, PAGE_SECONDS)) for kind in KINDS)
    return {offer.kind: offer for offer in fetched}


async def _fetch(connection: Connection, kind: str, seconds: float) -> Offer:
    listed_by = KINDS[kind]
    offer = Offer(kind, getattr(connection.capabilities, listed_by.capability, None) is not None)
    cursor: Any = None
    cursors: set[str] = set()
    while offer.pages < MAX_PAGES and offer.seconds < LIST_SECONDS:
        params = {} if cursor is None else {"cursor": cursor}
        page = await _ask(connection, listed_by.request, seconds, params)
        offer.seconds += page.seconds
        if page.result is None:
            offer.problem, offer.code, offer.wants_handshake = page.problem, page.code, page.wants_handshake
            break
        offer.pages += 1
        items = page.result.get(listed_by.member)
        offer.items += items if isinstance(items, list) else []
        read, unusable = connection.notices.reader.page_items(
            listed_by.request, page.result, connection.protocol_version or ""
        )
        offer.parsed += read
        offer.unread += [(f"{kind[:-1]} {name}", reason) for name, reason in unusable]
        cursor = page.result.get("nextCursor")
        if cursor in (None, ""):
            break
        if str(cursor) in cursors:
            offer.odd.append((f"the cursor {str(cursor)[:60]!r} came twice: the list never ends", "fix the paging"))
            break
        cursors.add(str(cursor))
    else:
        offer.odd.append((f"no end after {offer.pages} pages and {duration(offer.seconds)}", "fix the paging"))
    _note_duplicates(offer)
    return offer


def _note_duplicates(offer: Offer) -> None:
    key = re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", KINDS[offer.kind].key)
    names = Counter(str(getattr(item, key)) for item in offer.parsed)
    twice = [name[:60] for name, count in names.items() if count > 1]
    if twice:
        offer.odd.append((f"listed more than once: {join_names(twice, 5)}", "list each once, also across pages"))


def judge_capabilities(offers: dict[str, Offer], connection: Connection, step: Step) -> None:
    """Compare the announced capabilities with the answers."""
    capabilities = connection.capabilities
    announced = capabilities.model_dump(exclude_none=True) if capabilities is not None else {}
    step.ok(f"announced: {join_names(announced, 12)}" if announced else "it announces nothing")
    for offer in offers.values():
        method = KINDS[offer.kind].request
        if offer.announced and offer.code == METHOD_NOT_FOUND and offer.kind != "templates":
            step.fail(f"{offer.kind} are announced, but {method} is unknown", "announce only what is there")
        elif not offer.announced and offer.items:
            count = len(offer.items)
            todo = f"announce the capability {KINDS[offer.kind].capability!r}: otherwise hosts do not ask for them"
            step.warn(f"{method} answers with {count} {offer.kind}, which are not announced", todo)
    if not any(offer.announced for offer in offers.values()) and not any(offer.items for offer in offers.values()):
        step.warn("it offers no tools, resources or prompts", "is that intended?")


MAX_ODDITIES = 20  # most remarks of a connection that are findings


def judge_oddities(connection: Connection, step: Step) -> None:
    """Note what was odd in the server's messages, and was understood all the same."""
    oddities = connection.notices.remarks.texts
    for text in oddities[:MAX_ODDITIES]:
        step.warn(text, "fix it in the server: other hosts may refuse the message")
    if len(oddities) > MAX_ODDITIES:
        step.warn(f"{len(oddities) - MAX_ODDITIES} more messages are odd: `%mcp logs {connection.name}`")


def judge_lists(offers: dict[str, Offer], step: Step) -> None:
    """Note the sizes of the lists and their problems."""
    for offer in offers.values():
        if offer.problem:
            unknown = offer.code == METHOD_NOT_FOUND
            if offer.announced and not unknown:
                step.fail(offer.problem, "look at the server's log; `%mcp trace` has the message")
            continue
        pages = f" on {offer.pages} pages" if offer.pages > 1 else ""
        count = f"{len(offer.items):,} {offer.kind if len(offer.items) != 1 else offer.kind[:-1]}"
        if offer.items or offer.announced:
            step.ok(f"{count}{pages} in {duration(offer.seconds)}")
        for text, todo in offer.odd:
            step.fail(f"{offer.kind}: {text}", todo)
    if not step.remarks:
        step.skip("nothing is announced")
