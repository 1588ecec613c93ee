"""The transcript of an agent: takes the events of a run, or stored messages, and displays itself while it grows."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcp_magic._text import clean, duration, plural
from mcp_magic.agent.calls import asked_calls
from mcp_magic.agent.entries import (
    ANSWER,
    OPEN,
    RESULT,
    ROOM,
    TEXT,
    CallEntry,
    CallStatus,
    Entry,
    Level,
    NoteEntry,
    RequestEntry,
    TurnEntry,
    add_usage,
    artifact_of,
    images_of,
    shortened,
    text_of,
)
from mcp_magic.agent.events import (
    CallEvent,
    DecisionEvent,
    NoteEvent,
    ProgressEvent,
    RequestEvent,
    ResultEvent,
    StartEvent,
    TextEvent,
    TurnEvent,
)
from mcp_magic.agent.program import RUN_PROGRAM
from mcp_magic.apps.view import view_uri
from mcp_magic.consent.consent import PERSON
from mcp_magic.display import document
from mcp_magic.display.arguments import MAX_LINE, argument_cell, argument_rows, call_line
from mcp_magic.display.code import code_part
from mcp_magic.display.document import (
    Budget,
    Markup,
    Part,
    details,
    display,
    error_label,
    escape,
    facts,
    inline,
    joined,
    note,
    only,
    page,
    preformatted,
    tag,
    terminal_width,
    tool_badges,
)
from mcp_magic.display.markdown import markdown
from mcp_magic.display.text import one_line
from mcp_magic.flight.progress import amount_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import AnyMessage, BaseMessage
    from langchain_core.messages.utils import MessageLikeRepresentation
    from mcp_types import Tool

    from mcp_magic.agent.events import Event
    from mcp_magic.results.results import ToolResult


# The words and signs of a transcript, the same for HTML and text.

SIGNS = {
    CallStatus.WRITING: "…",
    CallStatus.WAITING: "…",
    CallStatus.RUNNING: "»",
    CallStatus.OK: "✓",
    CallStatus.PARTLY: "!",
    CallStatus.ERROR: "✗",
    CallStatus.DENIED: "⊘",
    CallStatus.INTERRUPTED: "■",
    CallStatus.CUT_OFF: "–",  # noqa: RUF001 - an en dash: nothing is known
}

OUTCOME = 90  # characters of a result on the summary line of its call

_CAPTION = re.compile(r"^(?:the first )?[\d,]+ (?:of [\d,]+ )?rows?(?: x|,) [\w, ]+(?=:|$)", re.MULTILINE)
"""The line below a table that gives its size."""

_HOW = re.compile(r": \.\w+(?=\]|$)")  # the hint at a result's attribute: a transcript has no such attributes


def status_text(call: CallEntry) -> str:
    """Return the status as sign and word, so that colour is never the only difference; a running call has a clock."""
    status, clock = f"{SIGNS[call.status]} {call.status}", call.clock
    if not call.is_timed or clock is None:
        return status
    return f"{status} · {duration(int(clock.seconds))}{' · waiting for your answer' if clock.asks else ''}"


def _decision_text(call: CallEntry) -> str:
    """Return the decision about a call and who made it; the user is "you"."""
    decision = call.decision
    if decision is None:
        return ""
    by = "you" if decision.by == PERSON else one_line(decision.by, 100) or "unknown"
    if not decision.approved:  # the status says "denied"
        return f"by {by}" + (f": {one_line(decision.reason, 200)}" if decision.reason else "")
    edited = "edited and " if decision.arguments is not None else ""
    return f"{edited}{'approved' if decision.by == PERSON else 'allowed'} by {by}"


def about_call(call: CallEntry, separator: str) -> str:
    """Return who approved a call, how long it took, what was not checked, and its progress."""
    seconds = "" if call.seconds is None else duration(call.seconds)
    result = call.result
    remarks = [one_line(text, 400) for text in (result.unfit, result.unchecked)] if result is not None else []
    facts = ", ".join(text for text in (_decision_text(call), seconds, *remarks) if text)
    return separator.join(text for text in (facts, progress_text(call)) if text)


def progress_text(call: CallEntry) -> str:
    """Return the progress of a running call, or "".

    >>> progress_text(CallEntry(progress=(3, 10, "reading")))
    '3 of 10 (30 %) reading'
    """
    if call.progress is None:
        return ""
    amount, total, message = call.progress
    return one_line(f"{amount_text(amount, total)} {call.hide(message)}", 200)


def outcome_line(call: CallEntry, text: str) -> str:
    """Return the outcome of a call on one short line: the size of a table, else the beginning of the text."""
    if call.status in (CallStatus.ERROR, CallStatus.PARTLY):
        return one_line(call.error, OUTCOME)
    if call.status != CallStatus.OK:
        return ""
    caption = _CAPTION.search(text) if call.result is None or not call.result.artifacts else None
    if caption:
        return caption[0].rpartition(" of ")[2] if caption[0].count(" of ") == 1 else caption[0]
    first, _, rest = _HOW.sub("", text).strip().partition("\n")
    if first[:1] in ("{", "["):  # the first line of JSON says nothing
        return one_line(f"{first} {rest}", OUTCOME)
    return one_line(f"{first} …" if rest else first, OUTCOME)


def tokens_text(usage: Mapping[str, int]) -> str:
    """Return token counts as text, or ""."""
    return f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out" if usage else ""


def totals(entries: Sequence[Entry], *, tokens: bool) -> str:
    """Return the last line: turns, calls and their outcomes, seconds in tools, tokens."""
    statuses: Counter[CallStatus] = Counter()
    turns, spent, usages = 0, 0.0, []
    for entry in entries:  # one pass, since a live screen calls this after every event
        if isinstance(entry, CallEntry):
            statuses[entry.status] += 1
            spent += entry.seconds or 0.0
        elif isinstance(entry, TurnEntry):
            turns += entry.is_turn
            if tokens and entry.usage:
                usages.append(entry.usage)
    parts = [plural(turns, "turns"), _calls_text(statuses)] if statuses else []
    if spent:
        parts.append(f"{duration(spent)} in tools")
    parts += [tokens_text(add_usage(usages))] if usages else []
    return " · ".join(parts)


def _calls_text(statuses: Counter[CallStatus]) -> str:
    failures = []
    for status in SIGNS:
        if statuses[status] and status not in (CallStatus.OK, *OPEN):
            count = statuses[status]
            failures.append(plural(count, "errors") if status == CallStatus.ERROR else f"{count} {status}")
    return plural(statuses.total(), "calls") + (f" ({', '.join(failures)})" if failures else "")


# Entries as HTML and as text. All text comes from users, models and servers, so it is escaped here or in
# `display.document`. Texts for terminals are wrapped, with a sign before each call and results indented.

IN_SUMMARY = 120  # characters of the arguments on the summary line of a call

IN_TABLE = 300  # characters of one argument in the table

TABLE = 4_000  # characters of the table of arguments

WIDEST = 100  # columns of the text at most: longer lines are hard to read on any terminal

MOST_LINES = 12  # lines of a result

UNFOLDED, LEAST_FOLDED = 3, 2
"""The last calls before an answer that are not folded, and how many calls are worth a fold."""

_INDENT = "    "
_INNER = "  "  # before the calls of a program


def _request(request: RequestEntry, level: Level) -> Part:
    text, rest = shortened(request.text.strip(), TEXT[level])
    if request.role == "system":
        label = f"instructions, {len(request.text):,} characters"
        return Part(f"({label})", tag("div", details(label, preformatted(text)), class_="mcp-note"))
    pictures = _pictures(request.images)
    lines = [*wrapped(clean(text), margin=2).split("\n"), *filter(None, (pictures, rest))]
    markup = joined((escape(line) for line in text.split("\n")), "<br>")
    return Part(
        "\n".join(f"> {line}".rstrip() for line in lines),
        tag("blockquote", joined([markup, note(pictures), note(rest)]), class_="mcp-asked"),
    )


def _turn(turn: TurnEntry, level: Level) -> Part:
    parts: list[Part] = []
    if turn.thinking and level == Level.FULL:
        thought, rest = shortened(turn.thinking, TEXT[level])
        label = f"thinking, {len(turn.thinking):,} characters"
        folded = details(label, joined([preformatted(thought), note(rest)]))
        parts.append(Part(f"({label})", tag("div", folded, class_="mcp-thinking")))
    text, rest = shortened(turn.text.strip(), ANSWER if turn.is_answer and level == Level.FULL else TEXT[level])
    if text:
        line = one_line(text, TEXT[level])
        body = tag("p", line) if level == Level.LINE else markdown(text)
        plain = wrapped(line if level == Level.LINE else clean(text))
        class_ = "mcp-answer" if turn.is_answer else "mcp-said"
        parts.append(
            Part("\n".join(filter(None, (plain, rest))), tag("div", joined([body, note(rest)]), class_=class_))
        )
    parts.append(Part.note(_pictures(turn.images)))
    if turn.interrupted:
        line = f"{SIGNS[CallStatus.INTERRUPTED]} interrupted"
        parts.append(Part(line, tag("p", line, class_="mcp-note")))
    return Part.stack(*parts)


def _pictures(count: int) -> str:
    return f"[{plural(count, 'images')}]" if count else ""


def _note(entry: NoteEntry) -> Part:
    text, rest = shortened(entry.text, TEXT[Level.FULL])
    word = "" if entry.level == "info" else one_line(entry.level, 20)
    label = error_label() if word == "error" else tag("b", word) if word else Markup()
    plain = f"{word}: {one_line(text, TEXT[Level.FULL])}" if word else one_line(text, TEXT[Level.FULL])
    return Part(
        wrapped(f"({plain})", indent=" "),
        tag("p", joined([part for part in (label, inline(text), rest) if part], " "), class_="mcp-note"),
    )


def _call_html(call: CallEntry, level: Level, result: Markup, text: str, *, opened: bool) -> Markup:
    """Return the card of a call: a summary line, and below it the arguments and the result."""
    line = _call_line(call, IN_SUMMARY)
    summary = [tag("span", status_text(call), class_="mcp-sign"), tag("b", one_line(call.name, 100))]
    if line:
        summary.append(tag("code", line))
    if outcome := outcome_line(call, text):
        summary.append(tag("span", f"→ {outcome}"))
    if about := about_call(call, " · "):
        summary.append(tag("span", inline(f"· {about}"), class_="mcp-note"))
    if call.definition is not None and call.status in OPEN and not call.code:
        badges = tool_badges(call.definition, trusted=call.trusted)
        summary.append(tag("span", joined(badges, " "), class_="mcp-badges"))
    class_ = f"mcp-call mcp-call-{call.status.replace(' ', '-')}{' mcp-inner' if call.parent else ''}"
    arguments = _arguments(call, line) if level == Level.FULL else Markup()
    opened |= bool(call.code)
    body = [part for part in (arguments, result) if part]
    if level == Level.LINE or not body:
        return tag("div", joined(summary, " "), class_=class_)
    if result:
        where = f".results[{call.number}] is the value"
        body.append(note("what the model reads; the run's .value is the value" if call.code else where))
    inside = Markup(tag("summary", joined(summary, " ")) + tag("div", joined(body), class_="mcp-inside"))
    return tag("details", inside, class_=class_, **({"open": ""} if opened else {}))


def _call_plain(call: CallEntry, level: Level, text: str) -> str:
    """Return the summary line of a call and, indented below it, the edited arguments and the result."""
    badges = []
    if call.definition is not None and call.status in OPEN and not call.code:
        badges = tool_badges(call.definition, trusted=call.trusted)
    margin = _INNER if call.parent else ""
    line = f"{one_line(call.name, 100)}({_call_line(call, MAX_LINE)})"
    about = about_call(call, "; ")
    parts = [status_text(call), line, *map(str, badges), *([f"({about})"] if about else [])]
    if level == Level.LINE and call.status in (CallStatus.OK, CallStatus.PARTLY):
        parts.insert(2, f"→ {outcome_line(call, text)}")
        return margin + one_line(" ".join(parts), min(WIDEST, terminal_width()) - len(margin))
    lines = [wrapped(" ".join(parts), indent=_INDENT)]
    if level == Level.FULL and call.code:
        lines += [f"{_INDENT}{line}".rstrip() for line in code_part(call.code).plain.split("\n")]
    elif level == Level.FULL and call.changed_arguments is not None:
        for name, value, mark in argument_rows(call.arguments, call.final_arguments, call.definition, 60):
            if mark:
                lines.append(f"{_INDENT}✎ {name} = {value} ({mark})".replace("\n", "\\n"))
    if call.failures and level == Level.FULL:
        lines.append(wrapped(f"{_INDENT}{call.failures}", indent=_INDENT))
    if text and level == Level.FULL:
        lines += _indented(text, MOST_LINES)
    return "\n".join(f"{margin}{line}" for line in lines)


def _call_line(call: CallEntry, limit: int) -> str:
    """Return the arguments of a call on one line; of a program, how long it is."""
    if call.code:
        return plural(call.code.strip().count("\n") + 1, "lines")
    return call_line(call.final_arguments, call.definition, limit)


def _arguments(call: CallEntry, line: str) -> Markup:
    if call.code:
        return code_part(call.code).html
    if "…" not in line and call.changed_arguments is None:
        return Markup()
    rows: list[tuple[str, Markup]] = []
    room = TABLE
    for name, value, mark in argument_rows(call.arguments, call.final_arguments, call.definition, IN_TABLE):
        rows.append((name, argument_cell(value, mark)))
        room -= len(name) + len(rows[-1][1])
        if room < 0:
            return joined([facts(rows), note("… and more arguments")])
    return facts(rows)


def _indented(text: str, most: int) -> Iterator[str]:
    lines = wrapped(clean(text), margin=len(_INDENT)).split("\n")
    # A single extra line is shown, since a line "…" in its place would save nothing.
    visible = lines if len(lines) <= most + 1 else lines[:most]
    yield from (f"{_INDENT}{line}".rstrip() for line in visible)
    if len(visible) < len(lines):
        yield f"{_INDENT}…"


def wrapped(text: str, *, margin: int = 0, indent: str = "") -> str:
    """Return text with long lines wrapped. Lines of tables and code are cut, since their columns have meaning."""
    width = max(min(WIDEST, terminal_width()) - margin, 20)
    lines: list[str] = []
    code = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        code = code != fence
        aligned = line.strip().count("  ") >= 2 and len(line) <= WIDEST  # cells separated by spaces
        if len(line) <= width:
            lines.append(line)
        elif code or fence or aligned or line.lstrip().startswith("|"):
            lines.append(line[: width - 1] + "…")
        else:
            hanging = indent or line[: len(line) - len(line.lstrip())]
            lines += textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False) or [""]
    return "\n".join(lines)


class Drawn(NamedTuple):
    """An entry as it is displayed."""

    part: Part
    size: int  # bytes of the HTML, media left out
    media: int = 0  # characters
    result: str = ""  # the text of the result, from which the line is made


def draw(entry: Entry, level: Level, *, media: int, before: Drawn | None = None) -> Drawn:
    """Return an entry as it is displayed at a level; `before` is how it was displayed in full."""
    result, text, pictures = Markup(), "", 0
    if isinstance(entry, TurnEntry):
        part = _turn(entry, level)
    elif isinstance(entry, RequestEntry):
        part = _request(entry, level)
    elif isinstance(entry, NoteEntry):
        part = _note(entry)
    else:
        assert isinstance(entry, CallEntry)
        if before is not None:
            text = before.result
        elif entry.shown_result is not None and entry.status not in (CallStatus.DENIED, CallStatus.INTERRUPTED):
            result, text, pictures = _full(entry.shown_result, media)
        if level == Level.LINE:
            result, pictures = Markup(), 0
        markup = _call_html(entry, level, result, text, opened=pictures > 0)
        part = Part(_call_plain(entry, level, text), markup)
    return Drawn(part, len(part.html.encode()) - pictures, pictures, text)


def folded(entries: Sequence[Entry], parts: Sequence[Part], *, go_on: bool) -> Part:
    """Return entries below each other, with the finished work before the last calls behind one line.

    `go_on` says that the next entries are elsewhere; then the last calls are folded, too.
    """
    blocks: list[Markup] = []
    work: list[tuple[Entry, Markup]] = []
    for entry, part in zip(entries, parts, strict=True):
        if entry.is_work:
            work.append((entry, part.html))
        else:
            blocks += [*_fold(work, UNFOLDED), part.html]
            work = []
    blocks += _fold(work, 0 if go_on else UNFOLDED)
    return Part("\n\n".join(part.plain for part in parts if part.plain), joined(blocks))


def _fold(work: Sequence[tuple[Entry, Markup]], unfolded: int) -> list[Markup]:
    calls = [index for index, (entry, _) in enumerate(work) if isinstance(entry, CallEntry)]
    count = len(calls) - unfolded
    first = 0 if count < LEAST_FOLDED else [*calls, len(work)][count]
    visible = [html for _, html in work[first:]]
    if first:
        statuses = Counter(entry.status for entry, _ in work[:first] if isinstance(entry, CallEntry))
        before = joined(html for _, html in work[:first])
        visible.insert(0, tag("div", details(f"{_calls_text(statuses)} · show all", before), class_="mcp-before"))
    return visible


def _full(result: ToolResult, media: int) -> tuple[Markup, str, int]:
    """Return a result as HTML and text, and the characters of its media."""
    budget = Budget(min(RESULT, display.bytes), media, display.blocks, display.parse)
    parts = result.parts(budget)[result.is_error :]  # the first part says "error", as the summary line does
    text = "\n".join(part.plain for part in parts if part.plain)
    size = sum(len(part.html) for part in parts if part.media)
    return joined(part.html for part in parts), text[: MOST_LINES * 400], size  # as much as any display needs


# Segments: groups of entries of bounded size. A live screen redraws only changed ones, nearly always the last.
# Drawings of unchanged entries come from a cache, and older ones take ever less room.

MOST_ENTRIES = 24

MOST_WEIGHT = 20_000  # approximate characters after which the next entry begins a new segment


@dataclass(eq=False)
class Segment:
    """A group of consecutive entries, and how much of them is shown."""

    entries: list[Entry] = field(default_factory=list)
    level: Level = Level.FULL


class Segments:
    """The segments of a transcript, which of them changed, and their drawings."""

    def __init__(self, is_shown: Callable[[Entry], bool]) -> None:
        self._is_shown = is_shown
        self.all: list[Segment] = []
        self.dirty: set[int] = set()
        self._unsettled = False
        self._places: dict[Entry, int] = {}
        self._drawn: dict[Entry, tuple[Level, Drawn]] = {}

    def touch(self, entry: Entry) -> None:
        """Put a new or changed entry in its segment, and mark the segments that change with it."""
        self._drawn.pop(entry, None)
        if entry not in self._places:
            visible = [*filter(self._is_shown, self.all[-1].entries)] if self.all else []
            if not self.all or len(visible) >= MOST_ENTRIES or sum(map(_weight, visible)) > MOST_WEIGHT:
                if self.all:
                    self.dirty.add(len(self.all) - 1)
                self.all.append(Segment())
                self._unsettled = True
            self._places[entry] = len(self.all) - 1
            self.all[-1].entries.append(entry)
        place = self._places[entry]
        self._unsettled |= place != len(self.all) - 1
        self.dirty |= {place, len(self.all) - 1}  # the last shows the totals

    def drawings(self, segment: Segment, level: Level) -> list[Drawn]:
        """Return the displayed entries of a segment, drawn at a level."""
        drawn: list[Drawn] = []
        media = display.media
        for entry in segment.entries:
            if self._is_shown(entry):
                drawn.append(self._draw(entry, level, media))
                media = max(media - _bytes(drawn[-1].media), 0)
        return drawn

    def text(self, entry: Entry) -> str:
        """Return an entry as text, a call on one line."""
        drawn = self._draw(entry, Level.FULL, display.media)
        if isinstance(entry, CallEntry):
            drawn = draw(entry, Level.LINE, media=0, before=drawn)
        return drawn.part.plain

    def _draw(self, entry: Entry, level: Level, media: int) -> Drawn:
        """Return the drawing of an entry; it is made again only if the entry or the level changed."""
        drawn_level, drawn = self._drawn.get(entry, (level, None))
        if drawn is None or drawn_level != level:
            drawn = draw(entry, level, media=media, before=drawn)
            self._drawn[entry] = (level, drawn)
        return drawn

    def settle(self) -> None:
        """Set the level of each segment, from the last, which is shown in full, to the first.

        A segment never becomes longer again.
        """
        if not self._unsettled:
            return
        self._unsettled = False
        used = dict.fromkeys(ROOM, 0)
        media, level = 0, Level.FULL
        for index in range(len(self.all) - 2, -1, -1):
            segment = self.all[index]
            level = max(level, segment.level)
            while level < Level.OMITTED:
                drawn = self.drawings(segment, level)
                size, pictures = sum(entry.size for entry in drawn), sum(_bytes(entry.media) for entry in drawn)
                if used[level] + size <= ROOM[level] and media + pictures <= display.media:
                    used[level] += size
                    media += pictures
                    break
                level = Level(level + 1)
            if level != segment.level:
                segment.level = level
                self.dirty.add(index)


def _weight(entry: Entry) -> int:
    """Return about how many characters a display of an entry takes."""
    if isinstance(entry, CallEntry):
        if view_uri(entry.definition):
            return MOST_WEIGHT + 1  # its view stands between this segment and the next
        content = entry.message.content if entry.message is not None else ""
        parts = [content] if isinstance(content, str) else content
        return 800 + min(sum(len(part) if isinstance(part, str) else 2000 for part in parts), RESULT // 5)
    return 100 + len(getattr(entry, "text", "")) + len(getattr(entry, "thinking", ""))


def _bytes(base64: int) -> int:
    """Return the number of bytes in so many characters of base64."""
    return base64 * 3 // 4


# The style of a transcript, added to the style of all outputs.

_SCOPE = ".mcp-magic.mcp-magic.mcp-magic"  # outranks JupyterLab's own rules for outputs, as in `results.style`

_LINE = "var(--jp-border-color2,rgba(127,127,127,.35))"
_QUIET = "var(--jp-content-font-color2,#767676)"

_RULES = (
    (
        ".mcp-asked",
        "border-left-color:var(--jp-brand-color1,#1976d2)!important;border-radius:0 4px 4px 0;"
        "background:var(--jp-layout-color2,rgba(127,127,127,.1))!important;font-size:inherit;color:inherit",
    ),
    (".mcp-call", f"border-color:{_LINE}!important"),
    (".mcp-call-ok", "border-left-color:var(--jp-success-color1,#388e3c)!important"),
    (".mcp-call-error", "border-left-color:var(--jp-error-color1,#d32f2f)!important"),
    (
        ":is(.mcp-call-writing,.mcp-call-waiting,.mcp-call-running)",
        "border-left-color:var(--jp-brand-color1,#1976d2)!important",
    ),
    (".mcp-call>summary", "line-height:1.6"),
    (".mcp-call:not([open])>summary", "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"),
    (".mcp-call:not([open])>summary code", "white-space:nowrap"),
    (".mcp-before>details>summary", f"color:{_QUIET}"),
    (".mcp-call code", "background:none;padding:0;overflow-wrap:anywhere"),
    (".mcp-sign", "white-space:nowrap"),
    (".mcp-call-error .mcp-sign", "color:var(--jp-error-color1,#d32f2f)"),
    (".mcp-inside>:last-child", "margin-bottom:0"),
    (":is(.mcp-said,.mcp-thinking,.mcp-totals)", f"color:{_QUIET};opacity:1!important"),
    (":is(.mcp-said,.mcp-answer)>:first-child", "margin-top:0"),
    (":is(.mcp-said,.mcp-answer) :is(ul,ol)", "margin:.2em 0 .5em;padding-left:1.7em"),
    (":is(.mcp-said,.mcp-answer) ul>li", "list-style:disc"),
    (":is(.mcp-said,.mcp-answer) ol>li", "list-style:decimal"),
    (
        ":is(.mcp-said,.mcp-answer) :is(h4,h5,h6)",
        "font-size:1.1em;font-weight:600;font-style:normal;margin:.9em 0 .3em;color:inherit",
    ),
    (
        ":is(.mcp-said,.mcp-answer) blockquote",
        f"margin:.3em 0 .5em;padding:0 .8em;border-left:3px solid {_LINE};color:inherit;font-size:inherit",
    ),
    (
        ":is(.mcp-said,.mcp-answer) pre",
        "border-radius:4px;white-space:pre;overflow-wrap:normal",
    ),
    (".mcp-totals", f"border-color:{_LINE}!important"),
)

STYLE = f"<style>{''.join(f'{_SCOPE} {selector}{{{declarations}}}' for selector, declarations in _RULES)}</style>"
"""The style element."""


# The transcript.

SHOWS = ("full", "answer", "none")

E = TypeVar("E", bound=Entry)


class Transcript:
    """The transcript of an agent: takes the graph's events, and displays itself whole or in segments."""

    def __init__(self, *, show: str = "full", tokens: bool = True) -> None:
        self.show = show
        self._tokens = tokens
        self._entries: list[Entry] = []
        self._turns_by_id: dict[str, TurnEntry] = {}
        self._calls: dict[str, CallEntry] = {}
        self._open: set[CallEntry] = set()
        self._turns = self._call_count = 0
        self._segments = Segments(self._is_shown)

    @classmethod
    def from_messages(
        cls,
        messages: Iterable[MessageLikeRepresentation],
        *,
        show: str = "full",
        tokens: bool = True,
        definitions: Mapping[str, Tool] | None = None,
    ) -> Transcript:
        """Return the transcript of a thread's messages, also from agents made elsewhere."""
        from mcp_magic.langchain.names import Names

        pairs = (name.partition(":") for name in definitions or ())
        names = Names((server, tool) for server, _, tool in pairs)
        transcript = cls(show=show, tokens=tokens)
        for event in events_of(messages_of(messages), names.person, definitions or {}):
            transcript.on_event(event)
        transcript.finish()
        return transcript

    def on_event(self, event: object) -> None:
        """Take an event of a run; other values, which nodes of the user may write to the stream, are ignored."""
        entry: Entry | None = None
        match event:
            case RequestEvent(text, images, role):
                self._turns = self._turns if role == "system" else 0
                entry = self._add(RequestEntry(text, images, role))
            case TextEvent(id_, text):
                entry = turn = self._turn(id_)
                turn.text += text
            case TurnEvent(message):
                entry = turn = self._turn(str(message.id or ""))
                turn.complete_with(message)
            case CallEvent():
                entry = self._announce(event)
            case DecisionEvent() | StartEvent() | ProgressEvent():
                call = self._calls.get(event.id)
                entry = call if call is not None and call.update(event) else None
            case ResultEvent(id_, message):
                entry = call = self._calls.get(id_) or self._announce(CallEvent(id_, message.name or "tool"))
                call.answer(message)
            case NoteEvent(text, level):
                entry = self._add(NoteEntry(text, level))
        if entry is not None:
            self._touch(entry)

    def interrupted(self) -> None:
        """Mark the run as interrupted: open calls and the turn in progress will not finish."""
        self._close(CallStatus.INTERRUPTED)

    def finish(self) -> None:
        """Mark the run as over: the outcome of calls that are still open stays unknown."""
        self._close(CallStatus.CUT_OFF)

    def _close(self, status: CallStatus) -> None:
        for entry in self._entries:
            if isinstance(entry, CallEntry) and entry.status in OPEN:
                entry.status = status
            elif isinstance(entry, TurnEntry) and not entry.complete:
                entry.complete, entry.interrupted = True, status == CallStatus.INTERRUPTED
            else:
                continue
            self._touch(entry)

    def _touch(self, entry: Entry) -> None:
        """Take note of a new or changed entry."""
        if isinstance(entry, CallEntry) and not entry.is_over:
            self._open.add(entry)
        elif isinstance(entry, CallEntry):
            self._open.discard(entry)
        self._segments.touch(entry)

    def _add(self, entry: E) -> E:
        self._entries.append(entry)
        return entry

    def _turn(self, id_: str) -> TurnEntry:
        """Return the turn with an id, or the turn in progress: some providers give its parts different ids."""
        turn = self._turns_by_id.get(id_) if id_ else None
        if turn is None:  # calls that the model still writes may stand below it
            last = next((entry for entry in reversed(self._entries) if isinstance(entry, TurnEntry)), None)
            turn = last if last is not None and not last.complete else None
        if turn is None:
            self._turns += 1
            turn = self._add(TurnEntry(id_, turn=self._turns))
        self._turns_by_id[id_] = turn
        return turn

    def _announce(self, event: CallEvent) -> CallEntry:
        """Return the entry of a call.

        A resumed graph announces waiting calls again; an id that returns after its result is another call.
        """
        call = self._calls.get(event.id)
        if call is None or call.status not in OPEN:
            call = self._add(CallEntry(event.id, number=self._call_count, turn=event.turn or self._turns))
            self._call_count += 1
            self._calls[event.id] = call
        call.announce(event)
        return call

    # Contents

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries: requests, turns, calls and notes, in order."""
        return tuple(self._entries)

    @property
    def is_answered(self) -> bool:
        """Whether the model has begun its first turn."""
        return any(isinstance(entry, TurnEntry) for entry in self._entries)

    @property
    def calls(self) -> list[CallEntry]:
        """The calls, in order."""
        return [entry for entry in self._entries if isinstance(entry, CallEntry)]

    @property
    def results(self) -> list[ToolResult | None]:
        """The results of the calls, in order; None for an unanswered call."""
        return [call.result for call in self.calls]

    @property
    def answer(self) -> str:
        """The last answer, or ""."""
        answers = (e for e in reversed(self._entries) if isinstance(e, TurnEntry) and e.is_answer and e.text)
        return next((turn.text for turn in answers), "")

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all turns: `input_tokens`, `output_tokens`, `total_tokens`; {} if no model reports any."""
        return add_usage(entry.usage for entry in self._entries if isinstance(entry, TurnEntry))

    def __repr__(self) -> str:
        return f"<Transcript: {self.summary or f'{len(self.entries)} entries'}>"

    # The live screen

    @property
    def segment_count(self) -> int:
        """The number of segments; the last one grows."""
        return 0 if self.show == "none" else len(self._segments.all)

    @property
    def is_running(self) -> bool:
        """Whether a call runs, so that a clock goes on."""
        return any(call.status == CallStatus.RUNNING for call in self._open)

    @property
    def dirty(self) -> set[int]:
        """Indexes of the segments that changed since `render_segment` last rendered them; clocks change them too."""
        for call in self._open:
            if call.is_timed:
                self._segments.touch(call)
        self._segments.settle()
        return {index for index in self._segments.dirty if index < self.segment_count}

    def render_segment(self, index: int) -> dict[str, Any]:
        """Return the mimebundle of one segment."""
        self._segments.settle()
        self._segments.dirty.discard(index)
        # all segments are on one page, so only the first has the style
        return _bundle(self._segment(self._segments.all[index]), styled=index == 0)

    def complete_texts(self, start: int) -> list[str]:
        """Return the texts of the entries from `start` up to the first that is not final.

        For a screen that only appends. An entry that is not displayed has the text ""; the others begin with a blank
        line, except a call below a call.
        """
        texts: list[str] = []
        before: Entry | None = next((entry for entry in reversed(self._entries[:start]) if self._is_shown(entry)), None)
        for entry in takewhile(lambda entry: entry.is_over, self._entries[start:]):
            texts.append(self._segments.text(entry) if self._is_shown(entry) else "")
            if texts[-1]:
                calls = isinstance(before, CallEntry) and isinstance(entry, CallEntry)
                texts[-1] = texts[-1] if calls or before is None else f"\n{texts[-1]}"
                before = entry
        return texts

    @property
    def summary(self) -> str:
        """The last line: turns, calls and their outcomes, seconds in tools, tokens; "" without calls."""
        return totals(self._entries, tokens=self._tokens)

    # Display

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return only(_bundle(self.part()), include, exclude)

    def part(self) -> Part:
        """Return the whole as a part of a display, which needs `STYLE`."""
        self._segments.settle()
        segments = self._segments.all if self.show != "none" else []
        omitted = sum(len(segment.entries) for segment in segments if segment.level == Level.OMITTED)
        visible = [segment for segment in segments if segment.level < Level.OMITTED]
        entries = [entry for segment in visible for entry in segment.entries if self._is_shown(entry)]
        drawn = [drawing.part for segment in visible for drawing in self._segments.drawings(segment, segment.level)]
        return Part.stack(_omission(omitted), folded(entries, drawn, go_on=False), *self._last_line(), gap="\n\n")

    def __str__(self) -> str:
        return str(self._repr_mimebundle_()["text/plain"])

    def _is_shown(self, entry: Entry) -> bool:
        if self.show == "full" or entry.is_blank:
            return self.show == "full" and not entry.is_blank
        return self.show == "answer" and not isinstance(entry, CallEntry) and getattr(entry, "is_answer", True)

    def _segment(self, segment: Segment) -> Part:
        if segment.level == Level.OMITTED:
            return _omission(len(segment.entries))
        is_last = segment is self._segments.all[-1]
        entries = [entry for entry in segment.entries if self._is_shown(entry)]
        drawn = [drawing.part for drawing in self._segments.drawings(segment, segment.level)]
        part = folded(entries, drawn, go_on=not is_last)
        return Part.stack(part, *(self._last_line() if is_last else []), gap="\n\n")

    def _last_line(self) -> list[Part]:
        summary = self.summary if self.show != "none" else ""
        return [Part(clean(summary), tag("div", summary, class_="mcp-totals"))] if summary else []


def _omission(count: int) -> Part:
    return Part.note(f"… {count:,} earlier entries are not shown" if count else "")


def _bundle(part: Part, *, styled: bool = True) -> dict[str, Any]:
    """Return a mimebundle; its texts are empty if there is nothing to show."""
    plain = clean(part.plain)  # the texts are clean already, and cleaning them again changes nothing
    if not part.html:
        return {"text/plain": plain, "text/html": ""}
    html = page([part.html], style=document.STYLE + STYLE if styled else "")
    return {"text/plain": plain, "text/html": html}


# Stored messages as the events of the run that made them.


def messages_of(messages: Iterable[MessageLikeRepresentation]) -> list[AnyMessage]:
    """Return LangChain messages; dicts in OpenAI's format, (role, text) pairs and strings are converted."""
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(list(messages))  # type: ignore[return-value]


def events_of(
    messages: Iterable[BaseMessage], person_name: Callable[[str], str], definitions: Mapping[str, Tool]
) -> Iterator[Event]:
    """Yield the events of the run that made these messages."""
    turn = 0
    for message in messages:
        if message.type in ("human", "system", "developer", "chat"):
            role = "system" if message.type in ("system", "developer") else "person"
            yield RequestEvent(text_of(message), images_of(message), role)
        elif message.type in ("ai", "AIMessageChunk"):
            turn += 1
            yield TurnEvent(message if message.id else message.model_copy(update={"id": f"#{turn}"}))
            for number, call in enumerate(asked_calls(message)):
                name = person_name(call.name)
                server, _, tool = name.rpartition(":")
                yield CallEvent(call.id or f"#{number}", tool, server, call.arguments, definitions.get(name))
        elif message.type in ("tool", "ToolMessageChunk"):
            yield from _answer(message, person_name)


def _answer(message: Any, person_name: Callable[[str], str]) -> Iterator[Event]:
    artifact, id_ = artifact_of(message), message.tool_call_id
    approval = artifact.get("approval")
    if isinstance(approval, dict):
        verdict = approval.get("decision")
        arguments = artifact.get("arguments") if verdict == "edit" else None
        by, reason = str(approval.get("by") or ""), str(approval.get("reason") or "")
        yield DecisionEvent(id_, verdict != "deny", by, reason, arguments)
    for inner, arguments in _inner_calls(message, artifact):
        server, _, tool = inner.name.partition(":")
        yield CallEvent(inner.tool_call_id, tool, server, dict(arguments or {}), parent=id_)
        yield from _answer(inner, str)
    if message.name:
        message = message.model_copy(update={"name": person_name(message.name)})
    yield ResultEvent(id_, message)


def _inner_calls(message: Any, artifact: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the answers to the calls of a program and their arguments, as its artifact stores them."""
    from langchain_core.messages import ToolMessage
    from pydantic import ValidationError

    calls = artifact.get("calls") if message.name == RUN_PROGRAM else None
    for stored in calls if isinstance(calls, list) else ():
        with suppress(ValidationError, TypeError, KeyError):  # the artifact is damaged
            facts = {name: stored[name] for name in ("name", "content", "artifact", "status")}
            yield ToolMessage(**facts, tool_call_id=stored["id"]), stored["arguments"]
