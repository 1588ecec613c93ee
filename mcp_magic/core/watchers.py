"""Who wants to know when something changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Watchers"]

logger = logging.getLogger(__name__)


class Watchers:
    """Functions that are called with the name of what changed.

    Args:
        first: One that is called before all others, as long as there is this.

    >>> watchers = Watchers()
    >>> stop = watchers.add(print)
    >>> watchers.tell("weather")
    weather
    >>> stop()
    >>> watchers.tell("weather")
    """

    def __init__(self, first: Callable[[str], None] = lambda name: None) -> None:
        self._first = first
        self._callbacks: dict[object, Callable[[str], None]] = {}

    def add(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback` from now on; return the function that ends this, once or more often."""
        key = object()  # the same function may watch twice
        self._callbacks[key] = callback

        def stop() -> None:
            self._callbacks.pop(key, None)

        return stop

    def tell(self, name: str) -> None:
        """Call them all; one that fails keeps neither the others nor whoever tells from going on."""
        for callback in [self._first, *self._callbacks.values()]:
            try:
                callback(name)
            except Exception:
                logger.exception("a watcher failed")
