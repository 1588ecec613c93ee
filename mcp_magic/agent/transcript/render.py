"""Renders a transcript as HTML and as text."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mcp_magic._text import clean, duration, plural
from mcp_magic.agent.transcript.entries import (
    ANSWER,
    OPEN,
    RESULT,
    ROOM,
    TEXT,
    CallEntry,
    CallStatus,
    Level,
    NoteEntry,
    RequestEntry,
    TurnEntry,
    add_usage,
    shortened,
)
from mcp_magic.apps.view import view_uri
from mcp_magic.consent.consent import PERSON
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
    preformatted,
    tag,
    terminal_width,
    tool_badges,
)
from mcp_magic.display.markdown import markdown
from mcp_magic.display.text import one_line
from mcp_magic.flight.progress import amount_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mcp_magic.agent.transcript.entries import Entry
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


def status_text(called: CallEntry) -> str:
    """Return the status as sign and word, so that colour is never the only difference; a running call has a clock."""
    status, clock = f"{SIGNS[called.status]} {called.status}", called.clock
    if not called.is_timed or clock is None:
        return status
    return f"{status} · {duration(int(clock.seconds))}{' · waiting for your answer' if clock.asks else ''}"


def _decision_text(called: CallEntry) -> str:
    """Return the decision about a call and who made it; the user is "you"."""
    if called.approved is None:
        return ""
    by = "you" if called.by == PERSON else one_line(called.by, 100) or "unknown"
    if not called.approved:
        return f"by {by}" + (f": {one_line(called.reason, 200)}" if called.reason else "")  # the status says "denied"
    edited = "edited and " if called.changed_arguments is not None else ""
    return f"{edited}{'approved' if called.by == PERSON else 'allowed'} by {by}"


def about_call(called: CallEntry, separator: str) -> str:
    """Return who approved a call, how long it took, what was not checked, and its progress."""
    took = "" if called.seconds is None else duration(called.seconds)
    result = called.result
    remarks = [one_line(text, 400) for text in (result.unfit, result.unchecked)] if result is not None else []
    facts = ", ".join(text for text in (_decision_text(called), took, *remarks) if text)
    return separator.join(text for text in (facts, progress_text(called)) if text)


def progress_text(called: CallEntry) -> str:
    """Return the progress of a running call, or "".

    >>> progress_text(CallEntry(progress=(3, 10, "reading")))
    '3 of 10 (30 %) reading'
    """
    if called.progress is None:
        return ""
    done, total, message = called.progress
    return one_line(f"{amount_text(done, total)} {called.hide(message)}", 200)


def outcome_line(called: CallEntry, text: str) -> str:
    """Return the outcome of a call on one short line: the size of a table, else the beginning of the text."""
    if called.status in (CallStatus.ERROR, CallStatus.PARTLY):
        return one_line(called.error, OUTCOME)
    if called.status != CallStatus.OK:
        return ""
    caption = _CAPTION.search(text) if called.result is None or not called.result.artifacts else None
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
    failed = []
    for status in SIGNS:
        if statuses[status] and status not in (CallStatus.OK, *OPEN):
            count = statuses[status]
            failed.append(plural(count, "errors") if status == CallStatus.ERROR else f"{count} {status}")
    return plural(statuses.total(), "calls") + (f" ({', '.join(failed)})" if failed else "")


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


def _request(asked: RequestEntry, level: Level) -> Part:
    text, rest = shortened(asked.text.strip(), TEXT[level])
    if asked.role == "system":
        label = f"instructions, {len(asked.text):,} characters"
        return Part(f"({label})", tag("div", details(label, preformatted(text)), class_="mcp-note"))
    pictures = _pictures(asked.images)
    lines = [*wrapped(clean(text), margin=2).split("\n"), *filter(None, (pictures, rest))]
    markup = joined((escape(line) for line in text.split("\n")), "<br>")
    return Part(
        "\n".join(f"> {line}".rstrip() for line in lines),
        tag("blockquote", joined([markup, note(pictures), note(rest)]), class_="mcp-asked"),
    )


def _turn(said: TurnEntry, level: Level) -> Part:
    parts: list[Part] = []
    if said.thinking and level == Level.FULL:
        thought, rest = shortened(said.thinking, TEXT[level])
        label = f"thinking, {len(said.thinking):,} characters"
        folded = details(label, joined([preformatted(thought), note(rest)]))
        parts.append(Part(f"({label})", tag("div", folded, class_="mcp-thinking")))
    text, rest = shortened(said.text.strip(), ANSWER if said.is_answer and level == Level.FULL else TEXT[level])
    if text:
        line = one_line(text, TEXT[level])
        body = tag("p", line) if level == Level.LINE else markdown(text)
        plain = wrapped(line if level == Level.LINE else clean(text))
        class_ = "mcp-answer" if said.is_answer else "mcp-said"
        parts.append(
            Part("\n".join(filter(None, (plain, rest))), tag("div", joined([body, note(rest)]), class_=class_))
        )
    parts.append(Part.note(_pictures(said.images)))
    if said.interrupted:
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


def _call_html(called: CallEntry, level: Level, result: Markup, text: str, *, opened: bool) -> Markup:
    """Return the card of a call: a summary line, and below it the arguments and the result."""
    line = _call_line(called, IN_SUMMARY)
    summary = [tag("span", status_text(called), class_="mcp-sign"), tag("b", one_line(called.name, 100))]
    if line:
        summary.append(tag("code", line))
    if outcome := outcome_line(called, text):
        summary.append(tag("span", f"→ {outcome}"))
    if about := about_call(called, " · "):
        summary.append(tag("span", inline(f"· {about}"), class_="mcp-note"))
    if called.definition is not None and called.status in OPEN and not called.code:
        badges = tool_badges(called.definition, trusted=called.trusted)
        summary.append(tag("span", joined(badges, " "), class_="mcp-badges"))
    class_ = f"mcp-call mcp-call-{called.status.replace(' ', '-')}{' mcp-inner' if called.parent else ''}"
    arguments = _arguments(called, line) if level == Level.FULL else Markup()
    opened |= bool(called.code)
    body = [part for part in (arguments, result) if part]
    if level == Level.LINE or not body:
        return tag("div", joined(summary, " "), class_=class_)
    if result:
        where = f".results[{called.number}] is the value"
        body.append(note("what the model reads; the run's .value is the value" if called.code else where))
    inside = Markup(tag("summary", joined(summary, " ")) + tag("div", joined(body), class_="mcp-inside"))
    return tag("details", inside, class_=class_, **({"open": ""} if opened else {}))


def _call_plain(called: CallEntry, level: Level, text: str) -> str:
    """Return the summary line of a call and, indented below it, the edited arguments and the result."""
    badges = []
    if called.definition is not None and called.status in OPEN and not called.code:
        badges = tool_badges(called.definition, trusted=called.trusted)
    margin = _INNER if called.parent else ""
    call = f"{one_line(called.name, 100)}({_call_line(called, MAX_LINE)})"
    about = about_call(called, "; ")
    parts = [status_text(called), call, *map(str, badges), *([f"({about})"] if about else [])]
    if level == Level.LINE and called.status in (CallStatus.OK, CallStatus.PARTLY):
        parts.insert(2, f"→ {outcome_line(called, text)}")
        return margin + one_line(" ".join(parts), min(WIDEST, terminal_width()) - len(margin))
    lines = [wrapped(" ".join(parts), indent=_INDENT)]
    if level == Level.FULL and called.code:
        lines += [f"{_INDENT}{line}".rstrip() for line in code_part(called.code).plain.split("\n")]
    elif level == Level.FULL and called.changed_arguments is not None:
        for name, value, mark in argument_rows(called.arguments, called.sent, called.definition, 60):
            if mark:
                lines.append(f"{_INDENT}✎ {name} = {value} ({mark})".replace("\n", "\\n"))
    if called.failures and level == Level.FULL:
        lines.append(wrapped(f"{_INDENT}{called.failures}", indent=_INDENT))
    if text and level == Level.FULL:
        lines += _indented(text, MOST_LINES)
    return "\n".join(f"{margin}{line}" for line in lines)


def _call_line(called: CallEntry, limit: int) -> str:
    """Return the arguments of a call on one line; of a program, how long it is."""
    if called.code:
        return plural(called.code.strip().count("\n") + 1, "lines")
    return call_line(called.sent, called.definition, limit)


def _arguments(called: CallEntry, line: str) -> Markup:
    if called.code:
        return code_part(called.code).html
    if "…" not in line and called.changed_arguments is None:
        return Markup()
    rows: list[tuple[str, Markup]] = []
    room = TABLE
    for name, value, mark in argument_rows(called.arguments, called.sent, called.definition, IN_TABLE):
        rows.append((name, argument_cell(value, mark)))
        room -= len(name) + len(rows[-1][1])
        if room < 0:
            return joined([facts(rows), note("… and more arguments")])
    return facts(rows)


def _indented(text: str, most: int) -> Iterator[str]:
    lines = wrapped(clean(text), margin=len(_INDENT)).split("\n")
    # A single extra line is shown, since a line "…" in its place would save nothing.
    shown = lines if len(lines) <= most + 1 else lines[:most]
    yield from (f"{_INDENT}{line}".rstrip() for line in shown)
    if len(shown) < len(lines):
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
    shown: list[Markup] = []
    work: list[tuple[Entry, Markup]] = []
    for entry, part in zip(entries, parts, strict=True):
        if entry.is_work:
            work.append((entry, part.html))
        else:
            shown += [*_fold(work, UNFOLDED), part.html]
            work = []
    shown += _fold(work, 0 if go_on else UNFOLDED)
    return Part("\n\n".join(part.plain for part in parts if part.plain), joined(shown))


def _fold(work: Sequence[tuple[Entry, Markup]], kept: int) -> list[Markup]:
    calls = [index for index, (entry, _) in enumerate(work) if isinstance(entry, CallEntry)]
    count = len(calls) - kept
    first = 0 if count < LEAST_FOLDED else [*calls, len(work)][count]
    shown = [html for _, html in work[first:]]
    if first:
        statuses = Counter(entry.status for entry, _ in work[:first] if isinstance(entry, CallEntry))
        before = joined(html for _, html in work[:first])
        shown.insert(0, tag("div", details(f"{_calls_text(statuses)} · show all", before), class_="mcp-before"))
    return shown


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
            if not self.all or self._is_over(self.all[-1]):
                if self.all:
                    self.dirty.add(len(self.all) - 1)
                self.all.append(Segment())
                self._unsettled = True
            self._places[entry] = len(self.all) - 1
            self.all[-1].entries.append(entry)
        place = self._places[entry]
        self._unsettled |= place != len(self.all) - 1
        self.dirty |= {place, len(self.all) - 1}  # the last shows the totals

    def _is_over(self, segment: Segment) -> bool:
        """Whether the next entry belongs in a new segment."""
        shown = [entry for entry in segment.entries if self._is_shown(entry)]
        return len(shown) >= MOST_ENTRIES or sum(map(_weight, shown)) > MOST_WEIGHT

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
            while level < Level.GONE:
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
