"""A server's regular expressions, tried within a bound of time and memory.

Python's `re` has neither: a `pattern` of fifty characters can take for ever, or all memory, and no Interrupt ends it.
The engine of jsonschema-rs compiles at most `MAX_BYTES` and is linear in the text. Lookaheads and back references it
tries step by step, and gives up after `MAX_STEPS`. Where it is missing (in a browser), no pattern is checked.
"""

from __future__ import annotations

import importlib
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_checked", "matches", "unchecked"]

MAX_PATTERN = 4_000
"""Characters of a pattern."""

MAX_BYTES = 6_000_000
"""Memory of a compiled pattern; `^.{1,4096}$` takes 5 MB."""

MAX_CACHE = 1_000_000
"""Memory that the engine may keep to be faster."""

MAX_STEPS = 100_000
"""Steps back that a pattern with lookaheads or back references may take in a text."""

MAX_TEXT = 1_000_000
"""Characters of a text."""

MAX_STEPPED_TEXT = 10_000
"""Characters of a text for a pattern with lookaheads or back references: there, each step may read all of it."""

MAX_SECONDS = 0.25
"""CPU time in one text. A pattern that takes longer is not tried again."""

MAX_GIVEN_UP = 10
"""Texts that a pattern may take too many steps in. It is not tried again then."""

KEPT = 64
"""Compiled patterns that are kept."""


def matches(pattern: object, text: str) -> bool | None:
    """Return whether a pattern of ECMA 262 matches somewhere in a text; None if that is not checked.

    >>> matches("^[a-z]+$", "abc"), matches("^[a-z]+$", "ABC"), matches("(", "a")
    (True, False, None)
    """
    if not isinstance(pattern, str):
        return None
    fits = _compiled(pattern).matches(text)
    if fits is None and (noted := _noted.get()) is not None:
        noted[pattern] = None
    return fits


_noted: ContextVar[dict[str, None] | None] = ContextVar("mcp_magic_unchecked", default=None)


@contextmanager
def unchecked() -> Iterator[dict[str, None]]:
    """Collect the patterns against which a text is not checked meanwhile, as the keys of a dict.

    >>> with unchecked() as patterns:
    ...     _ = matches("^a$", "b"), matches("(", "b")
    >>> list(patterns)
    ['(']
    """
    noted: dict[str, None] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def is_checked(pattern: str) -> bool:
    """Return whether texts are checked against a pattern: it is valid, and small enough.

    >>> is_checked("^[A-Z]{3}$"), is_checked("("), is_checked("((a{999}){999}){999}")
    (True, False, False)
    """
    return _compiled(pattern).is_checked


class _Pattern:
    """A compiled pattern, or one that is not checked."""

    def __init__(self, engine: Any, longest: int) -> None:
        self.engine = engine
        self.longest = longest
        self.given_up = 0

    @property
    def is_checked(self) -> bool:
        return self.engine is not None

    def matches(self, text: str) -> bool | None:
        if self.engine is None or len(text) > self.longest:
            return None
        began = time.thread_time()
        try:
            return True if self.engine.is_valid(text) else self._refusal(text)
        except ValueError:  # half of a surrogate pair is no text to the engine
            return None
        finally:
            if time.thread_time() - began > MAX_SECONDS:
                self.engine = None

    def _refusal(self, text: str) -> bool | None:
        """Return False, or None if the engine gave up."""
        if self.longest == MAX_TEXT:
            return False  # the linear engine never gives up
        gave_up = any(error.message.startswith("Error executing regex") for error in self.engine.iter_errors(text))
        self.given_up += gave_up
        if self.given_up > MAX_GIVEN_UP:
            self.engine = None
        return None if gave_up else False


@lru_cache(KEPT)
def _compiled(pattern: str) -> _Pattern:
    try:
        engine: Any = importlib.import_module("jsonschema_rs")
    except ImportError:
        return _Pattern(None, 0)
    bounds = {"size_limit": MAX_BYTES, "dfa_size_limit": MAX_CACHE}
    linear = engine.RegexOptions(**bounds), MAX_TEXT
    stepped = engine.FancyRegexOptions(**bounds, backtrack_limit=MAX_STEPS), MAX_STEPPED_TEXT
    for options, longest in (linear, stepped) if len(pattern) <= MAX_PATTERN else ():
        try:
            return _Pattern(engine.Draft202012Validator({"pattern": pattern}, pattern_options=options), longest)
        except ValueError:  # the other one, or none
            continue
    return _Pattern(None, 0)
