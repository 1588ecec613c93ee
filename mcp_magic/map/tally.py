"""The figures of a map: its rows by state, their errors, and its calls with their rate.

They are counted here once, for the line, the card, `stats` and agents.
"""

from __future__ import annotations

import heapq
import math
import re
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clause, duration, plural
from mcp_magic.display.text import one_line
from mcp_magic.flight.progress import MESSAGE_CHARACTERS, ProgressMeter, amount_text, figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp_magic.flight.progress import State

INVALID, DENIED, UNKNOWN, FAILED, DONE, WAITING = "invalid", "denied", "unknown", "failed", "done", "waiting"

STATES = (DONE, FAILED, DENIED, INVALID, UNKNOWN, WAITING)

READ = 2_000  # characters of an error that tell its kind

ERROR = 200  # characters of an error that are kept of its kind

LINE = 120  # characters of an error in a line of figures

MOST_KINDS = 1_000  # kinds of errors that are counted: a map may have any number of rows

_VALUE = re.compile(r"""(?<!\w)(['"])(?:(?!\1).)*\1|(?<![\w-])[\w-]*\d[\w-]*(?:[.,:]\d[\w-]*)*""")
"""A quoted value, a number or an id: it has a digit."""

_CUT_HINT = re.compile(r"`[^`]{0,80}…$")
"""The end of a text that was cut within a hint in backticks."""


def kind_of(error: str) -> str:
    """Return an error without its values: quoted ones, numbers and ids.

    >>> kind_of("no city 17"), kind_of("no city -1.5"), kind_of("no user 'ann' (id ab-12)"), kind_of("it can't be read")
    ('no city …', 'no city …', 'no user … (id …)', "it can't be read")
    """
    return _VALUE.sub("…", one_line(error, READ))


def cut_error(error: str, most: int) -> str:
    """Return an error on a line, cut after `most` characters; a hint in backticks that does not fit is left out.

    >>> cut_error("lost; `%mcp reconnect d` opens it", 12), cut_error("lost; `%mcp reconnect d` opens it", 30)
    ('lost; …', 'lost; `%mcp reconnect d` open…')
    """
    line = one_line(error, most)
    return _CUT_HINT.sub("…", line) if line.count("`") % 2 else line


@dataclass(slots=True)
class Kind:
    """Errors that differ at most in numbers, ids and quoted values.

    Attributes:
        text: The first of them, cut.
        rows: The number of rows that have one.
        is_varied: Whether they differ.
    """

    text: str
    rows: int = 0
    is_varied: bool = False

    @property
    def line(self) -> str:
        """The first of them with the number of rows."""
        varied = ", values differ" if self.is_varied else ""
        return f"{clause(cut_error(self.text, LINE))} ({plural(self.rows, 'rows')}{varied})"


def commonest(kinds: Iterable[Kind], most: int) -> list[Kind]:
    """Return the errors that most rows have."""
    return heapq.nlargest(most, kinds, key=lambda kind: kind.rows)


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of ascending values lies; None without values."""
    return round(ascending[min(len(ascending) - 1, int(len(ascending) * share))], 4) if ascending else None


class Tally:
    """Counts the rows of a map by state, and its calls.

    Attributes:
        size: The number of rows; None until all are read.
        most: The most calls a second to each server, as asked for.
        read: The number of rows that were read.
        resumed: The number of answers that came from the journal.
        in_flight: The number of calls that have no answer yet.
        most_in_flight: The largest number of calls in flight so far.
        kinds: The errors, by what `kind_of` returns.
        answers: When each answer came, in seconds of running.
        refusals: When the server refused a call, in seconds of running.
    """

    def __init__(self, size: int | None, most: float = math.inf) -> None:
        self.size = size
        self.most = most
        self.read = self.resumed = self.in_flight = self.most_in_flight = 0
        self.kinds: dict[str, Kind] = {}
        self.answers, self.refusals = array("d"), array("d")
        self._latencies = array("d")
        self._ended: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()  # calls to each server

    def add(self, state: str, error: str) -> None:
        """Count a row that has ended."""
        self._ended[state] += 1
        if not error:
            return
        key, text = kind_of(error), cut_error(error, ERROR)
        if key in self.kinds or len(self.kinds) < MOST_KINDS:
            kind = self.kinds.setdefault(key, Kind(text))
            kind.rows += 1
            kind.is_varied |= kind.text != text

    def remove(self, state: str, error: str) -> None:
        """Uncount a row that is called again."""
        self._ended[state] -= 1
        if (kind := self.kinds.get(key := kind_of(error))) is not None:
            kind.rows -= 1
            if not kind.rows:
                del self.kinds[key]

    def send(self, server: str, calls: int = 1) -> None:
        """Count calls that went out to a server."""
        self._sent[server] += calls

    def answer(self, latency: float, seconds: float) -> None:
        """Count an answer that took `latency` seconds, and came after so many seconds of running."""
        self._latencies.append(latency)
        self.answers.append(seconds)

    def stats(self, seconds: float) -> dict[str, Any]:
        """Return all figures of a map that took so many seconds; see `MapRun.stats`."""
        latencies, states = sorted(self._latencies), self.states()
        return {
            "rows": sum(states.values()),
            **states,
            "resumed": self.resumed,
            "calls": self.calls,
            "refused": len(self.refusals),
            "seconds": round(seconds, 3),
            "rate": self.rate(seconds, 3),
            "most_in_flight": self.most_in_flight,
            "p50": percentile(latencies, 0.5),
            "p95": percentile(latencies, 0.95),
        }

    @property
    def calls(self) -> int:
        """The number of calls that went out."""
        return self._sent.total()

    def enter(self, calls: int) -> None:
        """Count calls in flight."""
        self.in_flight += calls
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def rate(self, seconds: float, digits: int) -> float:
        """Return the calls a second to one server, of a pipeline to the one that got most; 0.0 for less than two calls.

        The first of a few calls waits for none, so that their number over the time may exceed the rate that was asked
        for, and so may a rounded rate: it is bounded by that rate.

        Args:
            seconds: The time in which they went out, which is shown beside the rate.
            digits: The number of digits to round to.
        """
        calls = max(self._sent.values(), default=0)
        return min(float(f"{calls / seconds:.{digits}g}"), self.most) if calls > 1 and seconds > 0 else 0.0

    def rate_text(self, seconds: float) -> list[str]:
        """Return the rate as text; an unknown rate has none."""
        rate = self.rate(seconds, 2)
        return [f"{figure(rate)} calls/s"] if rate else []

    @property
    def finished(self) -> int:
        """The number of rows that have ended."""
        return self._ended.total()

    @property
    def is_invalid(self) -> bool:
        """Whether no row that was read fits the schema, so that nothing was sent."""
        return 0 < self.read == self._ended[INVALID]

    def states(self) -> dict[str, int]:
        """Return the number of rows in each state; together they are all rows that are known."""
        rows = self.read if self.size is None else self.size
        return {state: self._ended[state] if state != WAITING else rows - self.finished for state in STATES}

    @property
    def outcome(self) -> State:
        """How the map ended: done if every row has an answer, failed if none has one."""
        states = self.states()
        if states[DONE] == sum(states.values()):
            return "done"
        return "partly failed" if states[DONE] else "failed"

    def rows(self) -> list[str]:
        """Return the rows by state: `["26 of 60 rows done", "6 failed", "28 waiting"]`."""
        states = self.states()
        texts = [f"{states[DONE]:,} of {sum(states.values()):,} rows done", *self.failures()]
        if states[WAITING]:
            texts.append(f"{states[WAITING]:,} {WAITING}")
        return [*texts, "others not read"] if self.size is None else texts

    def failures(self) -> list[str]:
        """Return the rows that ended without an answer, by state."""
        states = self.states()
        return [f"{states[state]:,} {state}" for state in (FAILED, DENIED, INVALID, UNKNOWN) if states[state]]

    @property
    def failure_summary(self) -> str:
        """The rows by state and the most common error; "" if every row has an answer."""
        return "" if self.outcome == "done" else ": ".join([", ".join(self.rows()), *self.lines()])

    def lines(self, most: int = 1) -> list[str]:
        """Return the most common errors as text, each with its number of rows."""
        return [kind.line for kind in commonest(self.kinds.values(), most)]


class RowMeter(ProgressMeter):
    """The progress of a map on the screen: rows and the rate of calls, and at the end the rows by state.

    Args:
        tally: What it shows.
        rest: Returns the seconds in which no call goes out because a server refused one.
        seconds: Returns how long the map has been running.
        advice: Returns what to type about unknown rows at the end; "" if there are none.
    """

    ends_without_error = True  # a map returns its failures

    def __init__(
        self, tally: Tally, rest: Callable[[], float], seconds: Callable[[], float], advice: Callable[[], str]
    ) -> None:
        super().__init__()
        self._tally = tally
        self._rest = rest
        self._seconds = seconds
        self._advice = advice

    def figures(self, *, running: bool = True) -> list[str]:
        """Return the rows, the rate of calls, and while running the remaining time."""
        rate = self._tally.rate_text(self._seconds())
        if not running:
            return [*self._tally.rows(), *filter(None, [self._advice()]), *rate]
        return [amount_text(self.done, self.total), *rate, *self.time_left]

    def remark(self, state: State) -> str:
        """Return the most common error; while running also the failures and the calls in flight."""
        if state != "running":
            return "".join(self._tally.lines())
        parts = [*self._tally.failures(), f"{self._tally.in_flight} in flight"]
        if (rest := self._rest()) > 1:
            parts.append(f"refused, goes on in {duration(rest)}")
        return cut_error(" · ".join([*parts, *self._tally.lines(2)]), MESSAGE_CHARACTERS)
