"""When the person last typed or clicked in the explorer, so that long work waits until they pause.

A full garbage collection takes some 250 ms with the tools of fifty servers in a kernel, and a person who types sees
that as a stop. So full collections wait for a pause, and so do the imports of `mcp_magic.ipython.preload`. Young
objects are still collected at once, which takes too little time to be seen.
"""

from __future__ import annotations

import gc
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

__all__ = ["REST_SECONDS", "Activity", "activity"]

REST_SECONDS = 0.5  # seconds without a keystroke or click until long work may run

FACTOR = 10
"""How much the threshold of full collections is raised. Not without end: a cell may block the loop with its timer."""


class Activity:
    """The last keystroke or click, and the collector's thresholds, which are raised until the person pauses.

    `at` is its time (of `time.monotonic()`).
    """

    def __init__(self) -> None:
        self.at = -math.inf
        self._normal: tuple[int, int, int] | None = None
        self._raised: tuple[int, int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def note(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note a keystroke or click. Call it on the loop's thread."""
        self.at = time.monotonic()
        if self._normal is None or gc.get_threshold() != self._raised:  # the user may have set others
            young, middle, old = self._normal = gc.get_threshold()
            self._raised = young, middle, old * FACTOR
            gc.set_threshold(*self._raised)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(REST_SECONDS, self._rest)

    def end(self) -> None:
        """Set the thresholds back at once: the widget is closed, and its loop may be, too."""
        if self._timer is not None:
            self._timer.cancel()
        normal, self._normal = self._normal, None
        if normal is not None and gc.get_threshold() == self._raised:
            gc.set_threshold(*normal)

    def _rest(self) -> None:
        self.end()
        # These objects start the collector, which runs a full collection if one is due. Twice as many as the threshold,
        # because Python reuses the memory of some lists without counting them.
        [[] for _ in range(2 * gc.get_threshold()[0])]


activity = Activity()
"""The activity of this process: it has one collector."""
