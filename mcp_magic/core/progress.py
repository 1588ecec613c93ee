"""How far a call is and what its server logs meanwhile (specification, "Progress", "Logging").

Values only: what is seen of them is up to a reporter.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mcp_magic.core.meter import Meter
from mcp_magic.results.safe import one_line
from mcp_magic.wording import duration

if TYPE_CHECKING:
    from mcp_magic.core.loglevels import LogMessage

__all__ = ["KEPT_CHARACTERS", "Report", "Reporter", "Reports", "State"]

State = Literal["running", "done", "failed", "timed out", "cancelled", "interrupted"]

KEPT_MESSAGES = 50
"""Log messages of one call that are kept to be shown; the rest is counted, and `%mcp logs` has them."""

KEPT_CHARACTERS = 2000
"""Characters of a log message that are kept to be shown."""

MESSAGE_CHARACTERS = 200
"""Characters of a server's words about its progress."""

TIMES = 10
"""How many time-outs a call that goes on reporting has, where no maximum is set."""


class Report:
    """What is said in the course of one call.

    Args:
        server: The server's name.
        title: What was asked.
        cancel: Cancels the call; the server is told.
        started: When the call was made (`time.perf_counter()`); now if left out.
        masked: Takes secrets out of what the server says of its progress.

    Attributes:
        server: The server's name.
        title: What was asked: `"math:slow"`.
        meter: How far it is; its `count` is 0 for a call that only logs.
        state: Whether it runs, and what came of it.
        messages: The last log messages, secrets masked.
        levels: How many messages there were of each level.
        cancel: Cancels the call; the server is told.
    """

    def __init__(
        self,
        server: str,
        title: str,
        *,
        cancel: Callable[[], None] = lambda: None,
        started: float | None = None,
        masked: Callable[[str], str] = str,
    ) -> None:
        self.server = server
        self.title = title
        self.meter = Meter()
        self.state: State = "running"
        self.messages: deque[LogMessage] = deque(maxlen=KEPT_MESSAGES)
        self.levels: Counter[str] = Counter()
        self.cancel = cancel
        self._started = time.perf_counter() if started is None else started
        self._seconds: float | None = None
        self._masked = masked

    @property
    def seconds(self) -> float:
        """How long the call has taken so far, or took."""
        return time.perf_counter() - self._started if self._seconds is None else self._seconds

    @property
    def logged(self) -> int:
        """Log messages until now, also those that are not kept."""
        return self.levels.total()

    def log(self, message: LogMessage) -> None:
        """Take a log message."""
        self.messages.append(message)
        self.levels[message.level] += 1

    def end(self, state: State) -> None:
        """Say what came of it."""
        self.state, self._seconds = state, time.perf_counter() - self._started

    def words(self) -> str:
        """Return how far the call is, on one line without its title; without the last message if all is done.

        >>> report = Report("math", "math:slow")
        >>> report.meter.note(3, 10, "loading", 0.0)
        >>> report.end("cancelled")
        >>> report.words()
        'cancelled · 3 of 10 (30 %) · 0.0 s · loading'
        """
        state = [] if self.state in ("running", "done") else [self.state]
        figures = self.meter.figures(running=self.state == "running")
        message = one_line(self._masked(self.meter.message), MESSAGE_CHARACTERS) if self.state != "done" else ""
        return " · ".join([*state, *figures, duration(self.seconds), *([message] if message else [])])


Reporter = Callable[[Report], Callable[[], None] | None]
"""Shows a report: called once, in the context of whoever made the call, when there is something to show for the first
time. What it returns is called whenever the report has changed, thousands of times a second where a server says so
much, and when the call has ended; None where nothing can be shown."""


@dataclass
class Reports:
    """What is done with what calls report.

    Attributes:
        reporter: Shows it; None where nobody looks on.
        progress: Whether progress is shown.
        level: The least severe level of log messages that are shown; `"off"` for none.
        max_total_timeout: Seconds a call may take at most, however often progress starts its time-out anew; None for
            ten times the time-out.
    """

    reporter: Reporter | None = None
    progress: bool = True
    level: str = "warning"
    max_total_timeout: float | None = None

    def most(self, timeout: float | None, wanted: float | None = None) -> float | None:
        """Return the seconds that a call may take at most; None for as long as it takes.

        Args:
            timeout: Its time-out, which what is usual never cuts short.
            wanted: What was said for this call.

        >>> Reports().most(2), Reports(max_total_timeout=5).most(2), Reports(max_total_timeout=5).most(9)
        (20, 5, 9)
        >>> Reports().most(2, 7), Reports().most(2, 1), Reports(max_total_timeout=5).most(None)
        (7, 1, None)
        """
        if wanted is not None or timeout is None:
            return wanted
        return max(timeout, self.max_total_timeout if self.max_total_timeout is not None else TIMES * timeout)
