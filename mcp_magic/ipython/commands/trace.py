"""`%mcp trace`, `replay`, `logs` and `metrics`: what servers and this kernel sent."""

from __future__ import annotations

import io
import re
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_magic._text import duration, join_names, json_text, plural
from mcp_magic.config.masking import KEPT_BYTES, Masker, left_out, whole_length
from mcp_magic.config.parsing import write_text
from mcp_magic.display import document
from mcp_magic.display.document import (
    Markup,
    Part,
    Problem,
    Verbatim,
    details,
    joined,
    newest_table,
    note,
    parts_text,
    preformatted_cell,
    show_parts,
    table,
    tag,
)
from mcp_magic.display.json import brief, tree
from mcp_magic.display.listing import Listing, Text
from mcp_magic.display.text import one_line, shorten
from mcp_magic.errors import ArgumentsError, CommandError, MissingDependencyError, NotFoundError
from mcp_magic.ipython import completion
from mcp_magic.ipython.commandline import (
    ANY_SERVER,
    TIMEOUTS,
    Argument,
    Implementation,
    Invocation,
    Tab,
    seconds_typed,
    timeouts,
)
from mcp_magic.ipython.live import MAX_LISTED, follow
from mcp_magic.notebook import host
from mcp_magic.protocol import LEVELS, LogMessage, at_least, log_text, of_code
from mcp_magic.records import Record, grouped, level
from mcp_magic.trace.trace import IN, OUT, STDERR, fault, is_masked

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mcp_magic.session.connection import Connection
    from mcp_magic.trace.trace import Entry, Trace


# The trace as a listing: one row per message, which opens to its JSON.

COLUMNS = ("number", "time", "server", "way", "method", "ms", "bytes", "status", "fault", "says", "message")

SAYS = 300  # most characters of a message's summary
METHOD = 24  # most characters of a method in a terminal, so that the summary has room
TREE_BYTES = 6000  # most bytes of one message's JSON in the page; `.df` and an export have all of it
LEAST_TREE_BYTES = 1500  # the same limit if many messages share the page
NEWEST = 12  # rows in view in a page; the earlier ones open on a click, because nothing can scroll to the newest there
NO_BREAK = "\u00a0"  # a space at which no line breaks


class _Milliseconds(float):
    def __str__(self) -> str:
        return duration(self / 1000).replace(" ", NO_BREAK)


class _Bytes(int):
    def __str__(self) -> str:
        return document.size_text(int(self)).replace(" ", NO_BREAK)


# A narrow page has no headers, so the cells of a page say what they are.
_PAGE: dict[str, tuple[str, Callable[[Any], object]]] = {
    "ms": ("took", _Milliseconds),
    "bytes": ("size", _Bytes),
    "status": ("status", f"HTTP{NO_BREAK}{{}}".format),
    "fault": ("fault", lambda fault: tag("span", fault, class_="mcp-fault")),
}


def trace_row(entry: Entry) -> dict[str, Any]:
    """Return a message as a row of the listing."""
    answer = entry.kind in ("answer", "error")
    says = summary(entry)
    return {
        "number": entry.number,
        "time": time.strftime("%H:%M:%S", time.localtime(entry.time)) + f".{int(entry.time % 1 * 1000):03d}",
        "server": entry.server,
        "way": entry.direction,
        "method": entry.label,
        "ms": round(entry.seconds * 1000, 2) if answer and entry.seconds is not None else None,
        "bytes": entry.size,
        "status": entry.status,
        "fault": fault(entry),
        "says": Problem(says) if entry.failed else says,
        "message": entry.message,
        "cut": _cut(entry),
    }


def trace_rows(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the messages of each row: one, or the lines of stderr that are one record."""
    return grouped(entries, lambda entry: (entry.server, entry.message) if entry.kind == "line" else None)


def _row(entries: list[Entry], others: Mapping[int, Entry]) -> dict[str, Any]:
    """Return a row of the listing; `others` are the entries that the trace has, by number."""
    entry = entries[0]
    row = trace_row(entry)
    if len(entries) > 1:
        record = Record("\n".join(entry.message for entry in entries))
        size = sum(entry.size for entry in entries)
        says = one_line(record.headline, SAYS)
        return {**row, "method": _label(entries), "bytes": size, "says": says, "message": record}
    pair = others.get(entry.pair or 0)
    return row if pair is None else {**row, "other": _block(pair)}


def _label(entries: Sequence[Entry]) -> str:
    """Return what a row calls its messages: the method of one, or how many lines are one record."""
    return entries[0].label if len(entries) == 1 else plural(len(entries), "lines")


def _cut(entry: Entry) -> str:
    """Return the size of a message that was cut, and that it was; "" for others."""
    return f"about {document.size_text(entry.size)}, cut when it was recorded" if entry.size > KEPT_BYTES else ""


def summary(entry: Entry) -> str:
    """Return a message's content on one line."""
    message = entry.message
    if not isinstance(message, dict):
        return one_line(str(message), SAYS)
    if isinstance(error := message.get("error"), dict):
        code = error.get("code")
        text = error.get("message")
        meaning = of_code(code, message=text if entry.direction != OUT else "").meaning
        return one_line(f"{code} ({meaning}): {text}", SAYS)
    if "result" in message:
        is_cut = entry.size > KEPT_BYTES
        return _answer(message["result"], whole_length if is_cut else len, is_failure=entry.kind == "error")
    params = _params(message.get("params"))
    if entry.unanswered:
        return one_line(": ".join(filter(None, [entry.unanswered, params])), SAYS)
    return f"answered {duration(message['age'])} ago: {params}" if entry.kind == "kept" else params


def _params(params: Any) -> str:
    if not isinstance(params, dict):
        return ""
    members = {name: value for name, value in params.items() if name != "_meta"}
    name = members.pop("name", None) if isinstance(members.get("name"), str) else None
    arguments = members.pop("arguments", None) if name else None
    parts = [name or "", brief(arguments, SAYS) if arguments else "", brief(members, SAYS) if members else ""]
    return one_line(" ".join(part for part in parts if part), SAYS)


def _words(name: str) -> str:
    """Return a member's name as words.

    >>> _words("resourceTemplates")
    'resource templates'
    """
    return re.sub("(?<=[a-z])[A-Z]", lambda letter: f" {letter[0].lower()}", name)


def _answer(result: Any, count: Callable[[list[Any]], int], *, is_failure: bool = False) -> str:
    if not isinstance(result, dict):
        return one_line(brief(result, SAYS), SAYS)
    if isinstance(result.get("taskId"), str) and isinstance(result.get("status"), str):
        result_text = _answer(result["result"], count) if isinstance(result.get("result"), dict) else ""
        says = [f"task {result['status'].replace('_', ' ')}", str(result.get("statusMessage") or ""), result_text]
        return one_line(": ".join(filter(None, says)), SAYS)
    error = "tool error: " if is_failure or result.get("isError") is True else ""
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        first = content[0]
        more = f" (+{plural(count(content) - 1, 'blocks')})" if len(content) > 1 else ""
        text = first.get("text") if isinstance(first.get("text"), str) else f"[{first.get('type')}]"
        return one_line(f"{error}{text}", SAYS - len(more)) + more
    lists = {_words(name): items for name, items in result.items() if isinstance(items, list)}
    counts = [plural(count(items), name) for name, items in lists.items()]
    plain = {
        name: value for name, value in result.items() if name not in ("_meta", "resultType", "cacheScope", "ttlMs")
    }
    return error + (", ".join(counts) or one_line(brief(plain, SAYS), SAYS))


class TraceListing(Listing):
    """A listing with one row for each message, which opens to all of it; texts from servers are escaped."""

    def parts(self) -> list[Part]:
        """Return the parts to display, one: the newest messages, which open to their JSON."""
        rows = self.rows[-document.display.listing_rows :]
        columns = [name for name in self.columns if name != "message"]
        if not rows:
            return [self._text(rows, columns)]
        columns = [name for name in columns if any(row.get(name) is not None for row in rows)]
        if len({row.get("server") for row in rows}) == 1:  # the title names it
            columns = [name for name in columns if name != "server"]
        html, rows, opened = self._table(rows, columns)
        rest = f"the last {len(rows):,} of {len(self):,} rows: .df has all" if len(rows) < len(self) else ""
        open_ = f"the newest {opened:,} open to their JSON: .df has all of it" if opened < len(rows) else ""
        heading = Part("", tag("p", tag("b", self.title)))
        text = self._text(rows, columns).plain
        cut = (
            "long lines are cut: .df has what was recorded, `%mcp trace N` shows one message"
            if any(mark in text for mark in ("...", "…"))
            else ""
        )
        table = Part(text, tag("div", html, class_="mcp-lines"))
        notes = Part(cut, joined([note(open_), note(self.note)]))
        return [Part.stack(heading, table, Part.note(rest), notes)]

    def _text(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Part:
        short = [{**row, "method": shorten(str(row.get("method") or ""), METHOD)} for row in rows]
        return Listing(short, columns=columns, title=self.title, empty=self.empty, note=self.note).parts()[0]

    @staticmethod
    def _table(rows: list[Mapping[str, Any]], columns: Sequence[str]) -> tuple[Markup, list[Mapping[str, Any]], int]:
        """Return the table, its rows (only the newest if the page is too small), and the number of rows that open."""
        limit = document.display.bytes
        heads = [_PAGE[name][0] if name in _PAGE else name for name in columns]
        cells = [[row.get(name) for name in columns] for row in rows]
        for at, name in enumerate(columns):
            if name in _PAGE:
                for row in cells:
                    row[at] = None if row[at] is None else _PAGE[name][1](row[at])
        html, count = newest_table(heads, cells, limit=limit * 2 // 3)  # the rest is for their JSON
        cells, rows = cells[-count:], rows[-count:]
        opened = _open(cells, rows, columns, room=limit - len(html.encode()))
        earlier = cells[:-NEWEST]
        fold = details(f"{len(earlier):,} earlier", table(heads, earlier, limit=2 * limit)[0]) if earlier else ""
        newest = table(heads, cells[-NEWEST:], limit=2 * limit, style="max-height:none")[0]
        return joined([fold, newest]), rows, opened


def _open(cells: list[list[Any]], rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, room: int) -> int:
    """Let as many rows as fit into `room` bytes open to their JSON, newest first; return their number."""
    if "says" not in columns:
        return len(rows)
    place = columns.index("says")
    for number, row in enumerate(reversed(rows)):
        share = 2 * room // (len(rows) - number)
        heading = ", ".join(filter(None, [f"{row.get('number')} {row.get('way') or ''}", row.get("cut")]))
        blocks = [Block(heading, row.get("message"), bool(row.get("cut")))]
        if pair := row.get("other"):
            blocks.insert(0 if row.get("way") == IN else 1, pair)
        body = beside(blocks, min(TREE_BYTES, max(LEAST_TREE_BYTES, share)), ".df")
        opened = details(row.get("says") or "…", body, style="min-width:18em")
        room -= len(opened.encode())
        if room < 0:
            return number
        cells[-1 - number][place] = opened
    return len(rows)


# The subcommand.

MAX_ROWS = 100  # messages listed by default


async def _trace(invocation: Invocation, arguments: argparse.Namespace) -> TraceListing | Timeline | Message:
    trace = invocation.host.trace
    name = arguments.server
    if name is not None and name.isdecimal() and name not in invocation.host.connections:
        _only_number(arguments)
        return _message(trace, number_of(name))
    entries = trace.entries(name)
    if name is not None and not entries:
        invocation.host[name]  # an unknown name is an error; a server without messages is not
    if arguments.clear:
        trace.clear(name)
        entries = []
    matches = [
        e for e in entries if (e.failed or not arguments.errors) and fnmatchcase(e.method, arguments.method or "*")
    ]
    rows = trace_rows(matches)
    last_rows = rows if arguments.last is None else rows[-arguments.last :] if arguments.last > 0 else []
    messages = [entry for row in last_rows for entry in row]
    if arguments.plot:
        return timeline(messages)
    notes = []
    if arguments.export:
        write_text(invocation.path(arguments.export), "".join(f"{entry.as_json()}\n" for entry in messages))
        notes.append(f"{plural(len(messages), 'messages')} written to {arguments.export}, secrets masked")
    visible_rows = last_rows[-MAX_ROWS:] if arguments.last is None else last_rows
    if len(visible_rows) < len(rows):
        notes.append(f"the last {len(visible_rows):,} of {len(rows):,} rows: --last N lists more")
    if trace.dropped:
        notes.append(f"{trace.dropped:,} older messages were dropped (settings trace_messages, trace_bytes)")
    servers = {row[0].server for row in visible_rows}
    of = f" of {name or servers.pop()}" if name or len(servers) == 1 else ""
    empty = "nothing is kept: trace_messages is 0" if not trace.messages else "no such messages yet"
    others = {entry.number: entry for entry in trace.entries()}
    listing = [_row(row, others) for row in visible_rows]
    title, note_ = f"Trace{of}", "; ".join(notes)
    return TraceListing(listing, title=title, columns=COLUMNS, empty=empty, note=note_, kind="messages")


def _only_number(arguments: argparse.Namespace) -> None:
    """Raise CommandError if a line that names one message has options for several."""
    options = {
        "--method": arguments.method,
        "--errors": arguments.errors,
        "--last": arguments.last,
        "--plot": arguments.plot,
        "--export": arguments.export,
        "--clear": arguments.clear,
    }
    if used := [option for option, value in options.items() if value not in (None, False)]:
        line = f"`%mcp trace {arguments.server[:40]}`"
        raise CommandError(f"%mcp trace: {used[0]} chooses among messages, and {line} is one; leave either out")


def number_of(text: str) -> int:
    """Return the number of a message. Raises NotFoundError if it has more digits than any message has."""
    if len(text) > 15:
        raise NotFoundError(f"the trace has no message {text[:15]}…; `%mcp trace` lists them")
    return int(text)


# One message, with the message that it belongs to.


class Block(NamedTuple):
    """One of the messages that are shown beside each other."""

    title: str
    message: Any
    is_cut: bool = False  # whether it was cut when it was recorded


class Message:
    """A message of the trace, a request and its answer beside each other; `blocks` are titles and JSON data."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple((block.title, block.message) for block in blocks)
        self._blocks = blocks

    def __repr__(self) -> str:
        return f"<Message {' | '.join(title for title, _ in self.blocks)}>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display, one."""
        limit = document.display
        text = "\n\n".join(f"{title}\n{_plain(message, limit.characters, '.blocks')}" for title, message in self.blocks)
        return [Part(text, beside(self._blocks, limit.bytes, ".blocks"))]


def _message(trace: Trace, number: int) -> Message:
    """Return a message by its number. Raises NotFoundError if the trace has no such message."""
    entry = trace.find(number)
    if entry.kind == "line":
        rows = trace_rows(trace.entries(entry.server))  # which reads the process, and so may drop this one
        row = next((row for row in rows if entry in row), [entry])
        return Message([Block(_title(*row), _row(row, {})["message"])])
    blocks = [entry]
    if entry.pair is not None:
        with suppress(NotFoundError):  # the other message may have been dropped
            blocks.append(trace.find(entry.pair))
    return Message([_block(entry) for entry in sorted(blocks, key=lambda block: block.number)])


def _block(entry: Entry) -> Block:
    return Block(_title(entry), entry.message, bool(_cut(entry)))


def _title(*entries: Entry) -> str:
    entry = entries[0]
    parts = [f"{entry.number} {entry.server} {entry.direction} {_label(entries)}"]
    if entry.kind != "line":
        parts.append(_cut(entry) or document.size_text(entry.size))
    if entry.unanswered:
        parts.append(f"{entry.unanswered} (fault: {fault(entry)})")
    if entry.seconds is not None and entry.kind in ("answer", "error"):
        parts.append(duration(entry.seconds))
    if entry.status is not None:
        parts.append(f"HTTP {entry.status}")
    return ", ".join(parts)


def _plain(message: Any, limit: int, attribute: str) -> str:
    text = Record(message).display_text if isinstance(message, str) else json_text(message, indent=2)
    return shorten(text, limit) + (f"\n… more: {attribute} has it" if len(text) > limit else "")


def beside(blocks: Sequence[Block], size: int, attribute: str) -> Markup:
    """Return titles and messages as columns of at most about `size` bytes in all; `whole` has all that was recorded."""
    share = size // len(blocks)
    columns = []
    for title, message, is_cut in blocks:
        if isinstance(message, dict | list):
            count_cut = left_out if is_cut else lambda value: None
            body = tree(message, share, left_out=count_cut, rest=f"{attribute} has them")
        else:
            body = preformatted_cell(_plain(message, share // 2, attribute))
        columns.append(tag("div", joined([tag("p", tag("b", title)), body])))
    return tag("div", joined(columns), class_="mcp-pair")


TRACE = Implementation(
    _trace,
    (
        Argument(
            "server", nargs="?", metavar="SERVER|N", help="one server instead of all, or one message by its number"
        ),
        Argument("--method", metavar="M", help="only this method and its answers; also with * and ?"),
        Argument("--errors", action="store_true", help="only what failed"),
        Argument("--last", type=int, metavar="N", help=f"the last N messages (default: {MAX_ROWS})"),
        Argument("--export", metavar="FILE", help="write them all as JSON Lines"),
        Argument("--plot", action="store_true", help="a timeline of the requests instead of a listing"),
        Argument("--clear", action="store_true", help="forget all messages, with SERVER only its own"),
    ),
    examples=(
        "%mcp trace weather",
        "%mcp trace 33",
        "%mcp trace --method tools/call --last 20",
        "%mcp trace --errors",
        "%mcp trace --export trace.jsonl",
        "%mcp trace weather --plot",
    ),
    details="Secrets are masked before anything is kept, long messages are cut. `.df` has the messages with their "
    "JSON. `%mcp replay` takes the number in the first column.",
)


# The trace as a picture: requests as bars on a time axis, with a lane for each method of each server.

LANES = 40  # most lanes drawn; more would be unreadable
SHORTEST = 0.002  # the least length of a bar, as a part of the axis, so that it is visible

_COLOURS = {"answered": "#4c78a8", "failed": "#e45756", "unanswered": "#bab0ac", "said": "#54a24b"}


class Timeline(Text):
    """A picture of requests: `figure` is a `matplotlib.figure.Figure`, `text` its description for a terminal."""

    def __init__(self, figure: Any, text: str) -> None:
        super().__init__(text)
        self.figure = figure

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        picture = io.BytesIO()
        self.figure.savefig(picture, format="png", dpi=110, bbox_inches="tight")
        return {"text/plain": self.text, "image/png": picture.getvalue()}


def timeline(entries: Sequence[Entry]) -> Timeline:
    """Draw messages. Raises MissingDependencyError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("%mcp trace --plot needs matplotlib: pip install 'mcp-magic[plot]'") from None
    lanes = _lanes(entries)
    figure = Figure(figsize=(10, 1 + 0.3 * max(len(lanes), 1)))
    axes = figure.subplots()
    start = min((entry.time for entry in entries), default=0.0)
    end = max(
        (entry.time + (entry.seconds or 0.0 if entry.kind == "request" else 0.0) for entry in entries), default=1.0
    )
    failures = {entry.pair for entry in entries if entry.failed}
    for row, lane in enumerate(lanes.values()):
        for entry in lane:
            _draw(axes, row, entry, start, max((end - start) * SHORTEST, 1e-6), failures)
    axes.set_yticks(range(len(lanes)), [one_line(name, 60) for name in lanes], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.grid(axis="x", alpha=0.3)
    return Timeline(
        figure,
        f"<Timeline of {plural(len(entries), 'messages')} in {end - start:.3g} s, {plural(len(lanes), 'lanes')}>",
    )


def _lanes(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    lanes: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind in ("answer", "error"):
            continue
        label = "stderr" if entry.direction == STDERR else entry.label
        arrow = "" if entry.direction == STDERR or entry.direction == OUT else "← "
        name = f"{arrow}{entry.server}: {label}"
        lanes.setdefault(name if name in lanes or len(lanes) < LANES - 1 else "others", []).append(entry)
    return lanes


def _draw(axes: Any, row: int, entry: Entry, start: float, least: float, failures: Collection[int | None]) -> None:
    at = entry.time - start
    if entry.kind != "request":
        axes.plot([at], [row], marker="|", markersize=10, color=_COLOURS["failed" if entry.failed else "said"])
        return
    state = "failed" if entry.failed or entry.number in failures else "unanswered" if entry.pair is None else "answered"
    # the hatching marks a failure for readers who cannot tell the colours
    hatch = "////" if state == "failed" else None
    axes.barh(
        row, max(entry.seconds or 0.0, least), left=at, height=0.6, color=_COLOURS[state], hatch=hatch, alpha=0.85
    )


# Requests of the trace, sent again.

ONCE = ("initialize", "server/discover", "subscriptions/listen")
"""Methods that a session sends once and on its own; they cannot be replayed."""

LATEST = 30  # the number of requests that Tab offers; `%mcp trace` lists all


def _complete_request(tab: Tab) -> dict[str, str]:
    """Return the numbers of the latest requests, each with a description."""
    requests = (entry for entry in host.trace.entries() if entry.kind == "request" and entry.direction == OUT)
    entries = [entry for entry in requests if entry.method not in ONCE][: -LATEST - 1 : -1]
    descriptions = {
        str(entry.number): f"{entry.server} {entry.method} {_item_name(entry)}".rstrip() for entry in entries
    }
    return {number: descriptions[number] for number in completion.starting(tab, descriptions)}


def _complete_request_arguments(tab: Tab) -> list[str]:
    with suppress(NotFoundError, ValueError):
        entry = host.trace.find(int(tab.positional[0]))
        if entry.method == "tools/call":
            tool = shlex.quote(f"{entry.server}:{_item_name(entry)}")
            return completion.tool_arguments(replace(tab, positional=[tool, *tab.positional[1:]]))
    return []


def _item_name(entry: Entry) -> str:
    """Return the name of a request's tool or prompt, or ""."""
    params = entry.message.get("params") if entry.whole else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) and name.isprintable() else ""


async def _replay(invocation: Invocation, arguments: argparse.Namespace) -> Any:
    number = invocation.text(arguments.number)
    if not number.isdecimal():
        raise CommandError(f"%mcp replay: {number[:40]!r} is not the number of a message; `%mcp trace` lists them")
    entry = _request(invocation, number_of(number))
    connection = invocation.host[entry.server]
    params = _replayed_params(invocation, connection, entry, arguments.arguments)
    limits = timeouts(invocation, arguments)
    if entry.method == "tools/call":
        return await connection.call_tool(params["name"], params.get("arguments") or {}, validate=False, **limits)
    return await connection.request(entry.method, params, **limits)


def _request(invocation: Invocation, number: int) -> Entry:
    trace = invocation.host.trace
    entry = trace.find(number)
    if entry.kind in ("answer", "error") and entry.pair is not None:
        entry = trace.find(entry.pair)
    if entry.kind != "request" or entry.direction != OUT:
        raise CommandError(f"%mcp replay: message {number} is not a request of this kernel; see `%mcp trace`")
    if entry.method in ONCE:
        raise CommandError(f"%mcp replay: {entry.method} belongs to the session; `%mcp reconnect {entry.server}`")
    if entry.size > KEPT_BYTES or not entry.size:
        raise CommandError(f"%mcp replay: message {number} was too long to be kept whole ({entry.size:,} bytes)")
    return entry


def _replayed_params(invocation: Invocation, connection: Connection, entry: Entry, words: list[str]) -> dict[str, Any]:
    params = {name: value for name, value in (entry.message.get("params") or {}).items() if name != "_meta"}
    inside = entry.method in ("tools/call", "prompts/get")
    old = params.get("arguments") or {} if inside else params
    tools = connection.catalog.cached("tools") if entry.method == "tools/call" else ()
    schema: dict[str, Any] = next((tool.input_schema for tool in tools if tool.name == params.get("name")), {})
    with connection.explain_misfits():
        changes = invocation.arguments(words, schema)
    arguments = {**old, **changes}
    hidden = [name for name, value in old.items() if name not in changes and is_masked(value)]
    if hidden:
        raise ArgumentsError(
            f"%mcp replay: the trace keeps no secrets; type {join_names(f'{name}=...' for name in hidden)} again"
        )
    return {**params, "arguments": arguments} if inside else arguments


REPLAY = Implementation(
    _replay,
    (
        *TIMEOUTS,
        Argument(
            "number",
            metavar="N",
            complete=_complete_request,
            help="the number of a request in `%%mcp trace`, or its answer",
        ),
        Argument(
            "arguments",
            nargs="*",
            metavar="NAME=VALUE",
            complete=_complete_request_arguments,
            help="arguments that differ",
        ),
    ),
    examples=("%mcp replay 12", "%mcp replay 12 location=London days=3"),
    details="name=value as for `%mcp call` replaces an argument. A tools/call goes through consent as your own call.",
)


# Logs.

FAILED_START = "failed start"  # the source of stderr lines of a replacement server that could not be opened


async def _logs(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    """Set the level if given, list the last lines of stderr and the last log messages, and follow them if asked.

    For a server that could not be opened, list its stderr.
    """
    host = invocation.host
    name = arguments.server or (next(reversed(host.failed), None) if not host.connections else None)
    if name in host.failed and name not in host.connections:
        last = sys.maxsize if arguments.last is None else arguments.last
        lines = _lines(host.failed[name], Masker(()).text, last)
        return _log_listing(name, lines, note=f"{name} could not be opened")
    connection = invocation.connection(name)
    last = MAX_LISTED if arguments.last is None else max(arguments.last, 0)
    remark = ""
    if arguments.level is not None and not await connection.set_log_level(arguments.level):
        remark = f"{connection.name} does not announce log messages"
    least = arguments.level or LEVELS[0]
    mask = connection.trace.masked
    failed_lines = _lines(host.failed.get(connection.name, ""), mask, last, FAILED_START)
    messages = [*_lines(connection.stderr(), mask, last), *failed_lines]
    logged = [message for message in connection.notices.messages if at_least(message.level, least)]
    messages += [replace(message, data=log_text(message.data, mask)) for message in logged[-last:] if last]
    if arguments.follow or arguments.seconds is not None:
        messages, remark = await follow(invocation, connection.name, messages, arguments.seconds, _log_listing, least)
    return _log_listing(connection.name, messages, connection.notices.logs.level, remark)


def _records(messages: Sequence[LogMessage]) -> list[list[LogMessage]]:
    """Return the messages of each record: one, or lines of stderr."""
    return grouped(
        messages, lambda message: (message.logger, message.data) if message.logger in (STDERR, FAILED_START) else None
    )


def _joined(record: Sequence[LogMessage]) -> LogMessage:
    data = "\n".join(message.data for message in record)
    return replace(record[0], data=data, level=record[0].level or level(data))


class LogListing(Listing):
    """A listing of records, of which the last are in view."""

    newest = True


def _log_listing(server: str, messages: Iterable[LogMessage], level: str | None = None, note: str = "") -> Listing:
    return LogListing(
        [
            {
                "time": time.strftime("%H:%M:%S", time.localtime(message.time)) if message.time else None,
                "source": message.logger or "log",
                "level": message.level or None,
                "text": Record(message.data) if message.logger in (STDERR, FAILED_START) else Verbatim(message.data),
            }
            for message in map(_joined, _records([*messages]))
        ],
        title=f"Logs of {server}" + (f", {level} and above" if level is not None else ""),
        columns=("time", "source", "level", "text"),
        empty=f"{server} has written nothing to its stderr and has logged nothing",
        note=note,
        kind="logs",
    )


def _lines(stderr: str, mask: Callable[[str], str], last: int, source: str = STDERR) -> list[LogMessage]:
    """Return the lines of the last records, masked as in the trace."""
    records = _records([LogMessage(0.0, "", source, line) for line in stderr.splitlines()])
    last_lines = [line for record in (records[-last:] if last > 0 else ()) for line in record]
    return [replace(line, data=mask(line.data)) for line in last_lines]


LOGS = Implementation(
    _logs,
    (
        Argument(
            "server",
            nargs="?",
            metavar="SERVER",
            complete=lambda tab: completion.starting(tab, [*host, *host.failed]),
            help="a connected server (default: the only one)",
        ),
        Argument("--last", type=int, metavar="N", help=f"records of each kind (default: {MAX_LISTED})"),
        Argument("--level", choices=LEVELS, metavar="LEVEL", help=f"log level from now on: {', '.join(LEVELS)}"),
        Argument("--follow", action="store_true", help="show new lines until Interrupt"),
        Argument("--seconds", type=seconds_typed, metavar="S", help="end --follow after that time"),
    ),
    examples=("%mcp logs math", "%mcp logs math --last 10", "%mcp logs math --level debug", "%mcp logs math --follow"),
    details="For a server that could not be opened, this lists all of its stderr; the error begins with the server's "
    "name. --level asks the server for messages of this level and above, also when the session is opened again. "
    "Interrupt ends --follow; where you cannot interrupt a cell, give --seconds.",
)


async def _metrics(invocation: Invocation, arguments: argparse.Namespace) -> Listing:
    from mcp_magic.telemetry.telemetry import telemetry

    metrics = invocation.host.metrics
    notes = []
    if arguments.export:
        write_text(invocation.path(arguments.export), metrics.text())
        notes.append(f"written to {arguments.export} as Prometheus text")
    if arguments.clear:
        metrics.clear()
    rows = [row for row in metrics.rows() if arguments.server in (None, row["server"])]
    if arguments.server is not None and not rows:
        invocation.host[arguments.server]  # an unknown name is an error
    notes += [telemetry.status] if telemetry.status else []
    columns = ("server", "tool", "calls", "failed", "errors", "mean ms", "p50 ms", "p95 ms", "longest ms")
    return Listing(
        rows, title="Calls", columns=columns, empty="no tool was called yet", note="; ".join(notes), kind="tools"
    )


METRICS = Implementation(
    _metrics,
    (
        ANY_SERVER,
        Argument("--export", metavar="FILE", help="write all counters as Prometheus text"),
        Argument("--clear", action="store_true", help="begin again at zero"),
    ),
    examples=("%mcp metrics", "%mcp metrics weather", "%mcp metrics --export mcp.prom"),
    details="Quantiles are as exact as the buckets of the histogram. The counters stay in this kernel: "
    "`host.metrics` has them, `host.metrics.text()` is in Prometheus' format.",
)
