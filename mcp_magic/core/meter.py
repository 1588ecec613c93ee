"""What a server says of how far it is, as figures (specification, "Progress")."""

from __future__ import annotations

import math

from mcp_magic.wording import duration

__all__ = ["Meter", "amount_text", "figure"]

RATE_SECONDS = 0.2
"""Seconds that must be looked back on before a rate says anything."""


MAX_MESSAGE = 2000
"""Characters kept of a message: more than are shown, so that a secret is masked before it is cut."""


class Meter:
    """What was done of what there is to do.

    The numbers are a server's, so anything may come: what is no number changes nothing, a total that is not above zero
    is unknown, a value beyond the total is all of it. A value that goes back begins anew: its rate is measured
    from there.

    Attributes:
        done: What was done, in the server's own unit.
        total: What there is to do, or None where nobody knows.
        message: The beginning of the server's words about it.
        count: Notifications until now.
    """

    __slots__ = ("_from", "_last", "_since", "count", "done", "message", "total")

    def __init__(self) -> None:
        self.done = 0.0
        self.total: float | None = None
        self.message = ""
        self.count = 0
        self._from = 0.0
        self._since = self._last = -1.0

    def note(self, progress: float, total: float | None, message: str | None, now: float) -> None:
        """Take what a notification says.

        Args:
            progress: What was done.
            total: Of what, or None.
            message: Words about it, or None.
            now: Seconds on a clock that only goes forward.
        """
        self.count += 1
        if message is not None:
            self.message = message[:MAX_MESSAGE]
        if total is not None:
            self.total = total if 0 < total < math.inf else None
        if not math.isfinite(progress):
            return
        if self._since < 0 or progress < self.done:
            self._from, self._since = progress, now
        self.done, self._last = progress, now

    @property
    def share(self) -> float | None:
        """The part that is done, 0 to 1; None where the total is not known."""
        return None if self.total is None else min(max(self.done / self.total, 0.0), 1.0)

    @property
    def rate(self) -> float | None:
        """What is done in a second, or None while that cannot be said."""
        seconds = self._last - self._since
        return (self.done - self._from) / seconds if self._since >= 0 and seconds >= RATE_SECONDS else None

    @property
    def left(self) -> float | None:
        """Seconds until all is done if it goes on like this, or None."""
        rate = self.rate
        if self.total is None or not rate or self.done >= self.total:
            return None
        return (self.total - self.done) / rate

    def figures(self, *, running: bool = True) -> list[str]:
        """Return how much is done, how fast, and while it is running how long the rest takes.

        >>> meter = Meter()
        >>> meter.note(0, 10, None, 1.0), meter.note(3, None, "loading", 3.0)
        (None, None)
        >>> meter.figures()
        ['3 of 10 (30 %)', '1.5/s', '5 s left']
        """
        if not self.count:
            return []
        said = [amount_text(self.done, self.total)]
        if rate := self.rate:
            said.append(f"{figure(float(f'{rate:.2g}'))}/s")
        if running and (left := self.left) is not None and left >= 1:
            said.append(f"{duration(round(left))} left")
        return said


def amount_text(done: float, total: float | None) -> str:
    """Return what is done of what.

    >>> amount_text(3, 10), amount_text(1234567, None), amount_text(12, 10), amount_text(0.5, 2)
    ('3 of 10 (30 %)', '1,234,567', '12 of 10 (100 %)', '0.5 of 2 (25 %)')
    """
    if not total or not math.isfinite(total) or total < 0:
        return figure(done)
    return f"{figure(done)} of {figure(total)} ({math.floor(min(max(done / total, 0), 1) * 100)} %)"


def figure(value: float) -> str:
    """Return a number as it is read.

    >>> figure(3.0), figure(2.4567), figure(1234.5), figure(0.00012), figure(1e21)
    ('3', '2.46', '1,234', '0.00012', '1e+21')
    """
    if not math.isfinite(value) or abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"
