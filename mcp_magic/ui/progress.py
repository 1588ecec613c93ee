"""What a cell waits for and the progress of its calls, as HTML and as text; texts from servers are escaped here."""

from __future__ import annotations

import heapq
import time
from collections import Counter, deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean, plural
from mcp_magic.display.document import Markup, details, inline, joined, note, page, preformatted, tag
from mcp_magic.display.text import one_line, shorten
from mcp_magic.flight.progress import SIGNS

if TYPE_CHECKING:
    from mcp_magic.flight.progress import Report
    from mcp_magic.protocol import LogMessage

__all__ = ["Board", "bar_markup", "message_line", "outcome_text", "report_line", "wait_line", "wait_markup"]

LINES = 5  # ended calls that have a line each, and waits; others are only counted
MAX_ENDED = 50  # ended calls whose log messages are still shown
MESSAGES = 50  # latest log messages shown below one cell; `%mcp logs` has more
LOG_CHARACTERS = 1000  # characters shown of a log message

_BAR = "width:12em;margin:0 .6em;vertical-align:middle;accent-color:var(--jp-brand-color1,#1976d2)"


class Board:
    """What one cell waits for: calls that report progress or log messages, and whatever takes longer than a second."""

    def __init__(self) -> None:
        self.running: list[Report] = []
        self._over: deque[Report] = deque(maxlen=MAX_ENDED)
        self._calls = self._forgotten = 0

    def add(self, report: Report) -> None:
        """Add a call, at its first report."""
        self.running.append(report)

    def end(self, report: Report) -> None:
        """Note that a call has ended."""
        if report not in self.running:
            return
        self.running.remove(report)
        if len(self._over) == MAX_ENDED:
            self._forgotten += self._over[0].logged
        self._over.append(report)
        if report.meter.count:
            self._calls += 1

    @property
    def measured(self) -> list[Report]:
        """The running calls that report progress."""
        return [report for report in self.running if report.meter.count]

    @property
    def waits(self) -> list[Report]:
        """What is shown although it reports no progress, because it takes so long."""
        return [report for report in self.running if report.waits]

    @property
    def is_busy(self) -> bool:
        """Whether a call reports progress, or something waits."""
        return bool(self.measured or self.waits)

    def waits_markup(self) -> Markup:
        """Return what waits, one line each, as markup."""
        return joined([*map(wait_markup, self.waits[:LINES]), note(self.more_waits())])

    def waits_text(self) -> str:
        """Return what waits, one line each."""
        return "\n".join([*map(wait_line, self.waits[:LINES]), self.more_waits()]).strip()

    def more_waits(self) -> str:
        """Return a line about the waits that have none; "" if there are none."""
        more = len(self.waits) - LINES
        return f"… {plural(more, 'more waits')}" if more > 0 else ""

    def waits_bundle(self) -> dict[str, Any]:
        """Return what waits as a mimebundle."""
        return {"text/html": page([self.waits_markup()]), "text/plain": self.waits_text()}

    @property
    def _lines(self) -> list[str]:
        latest = [report for report in self._over if report.meter.count][-LINES:]
        more = self._calls - len(latest)
        earlier = [f"… {plural(more, 'more calls')}"] if more > 0 else []
        return [*earlier, *(outcome_text(report) for report in latest)]

    def messages(self) -> tuple[list[str], Counter[str], int]:
        """Return the latest log messages as lines, the counts by level, and how many messages have no line."""
        reports, by_time = [*self._over, *self.running], attrgetter("time")
        last = sorted(heapq.nlargest(MESSAGES, (m for r in reports for m in r.messages), key=by_time), key=by_time)
        levels: Counter[str] = sum((report.levels for report in reports), Counter())
        return [message_line(message) for message in last], levels, levels.total() + self._forgotten - len(last)

    def over_markup(self) -> Markup:
        """Return the lines about ended calls."""
        return joined(note(line) for line in self._lines)

    def messages_markup(self) -> Markup:
        """Return the log messages: unfolded while a call is running, then folded."""
        lines, levels, more = self.messages()
        if not lines:
            return Markup()
        rest = note(f"… {more:,} more before: {self._where()}") if more > 0 else Markup()
        body = joined([rest, preformatted("\n".join(lines))])
        return body if self.running else details(_messages_text(levels, self._forgotten), body)

    def bundle(self) -> dict[str, Any]:
        """Return the board as a mimebundle."""
        bars = [tag("p", joined([bar_markup(report)])) for report in self.measured]
        parts = [self.over_markup(), joined(bars), self.waits_markup(), self.messages_markup()]
        parts = [part for part in parts if part]
        return {"text/html": page(parts), "text/plain": self.text()}

    def text(self) -> str:
        """Return the board as text."""
        lines, _, more = self.messages()
        rest = [f"… {more:,} more log messages before: {self._where()}"] if more > 0 else []
        waits = self.waits_text().splitlines()
        return "\n".join([*self._lines, *map(report_line, self.measured), *waits, *rest, *lines])

    def _where(self) -> str:
        servers = dict.fromkeys(report.server for report in [*self._over, *self.running] if report.logged)
        return ", ".join(f"%mcp logs {one_line(server, 80)}" for server in servers)


def bar_markup(report: Report) -> Markup:
    """Return a call's title, bar and figures on one line."""
    name = one_line(report.title, 120)
    share = report.meter.share
    value = {} if share is None else {"value": f"{share:.3f}"}  # a bar without a value moves, to show activity
    bar = tag("progress", "", **value, max="1", style=_BAR, **{"aria-label": name})
    return joined([tag("b", name), bar, inline(report.words())])


def report_line(report: Report) -> str:
    """Return a call's progress as one line of text.

    >>> from mcp_magic.flight.progress import Report
    >>> report = Report("math", "math:slow")
    >>> report.meter.note(1, 4, "loading", 0.0)
    >>> report_line(report)  # doctest: +ELLIPSIS
    'math:slow: 1 of 4 (25 %) · ... · loading'
    """
    return f"{one_line(report.title, 120)}: {report.words()}"


def wait_line(report: Report) -> str:
    """Return what waits, how long it has taken, and what it waits for."""
    return f"{one_line(report.title, 120)} · {report.words()}"


def wait_markup(report: Report) -> Markup:
    """Return the line of `wait_line`; a screen reader says what waits, and not each second again."""
    name = tag("span", one_line(report.title, 120), role="status")
    return tag("p", joined([name, " · ", inline(report.words())]), class_="mcp-note")


def outcome_text(report: Report) -> str:
    """Return a call's outcome on one line."""
    return f"{SIGNS[report.state]} {report_line(report)}"


def message_line(message: LogMessage) -> str:
    """Return a log message as text, possibly of several lines."""
    when = f"{time.strftime('%H:%M:%S', time.localtime(message.time))} " if message.time else ""
    level = f"{one_line(message.level, 20)} " if message.level else ""
    text = shorten(str(message.data), LOG_CHARACTERS)
    return clean(f"{when}{level}{one_line(message.logger, 80) or 'log'}: {text}")


def _messages_text(levels: Counter[str], forgotten: int) -> str:
    """Return the number of log messages in words.

    >>> _counted(Counter({"warning": 2, "error": 1}), 0), _counted(Counter(error=1), 0), _counted(Counter(error=1), 2)
    ('3 log messages: 2 warning, 1 error', '1 log message: 1 error', '3 log messages')
    """
    total = plural(levels.total() + forgotten, "log messages")
    kinds = ", ".join(f"{count:,} {one_line(level, 20)}" for level, count in levels.items())
    return total if forgotten else f"{total}: {kinds}"
