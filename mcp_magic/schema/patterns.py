"""Limits on the steps, time and memory that a server's regular expressions and schemas may take."""

from __future__ import annotations

import importlib
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


# A server's regular expressions. Python's `re` has no limits: a `pattern` of fifty characters can run for ever or fill
# the memory, and an Interrupt does not end it. The engine of jsonschema-rs compiles at most `MAX_BYTES` and takes
# linear time. For lookaheads and back references it backtracks, and gives up after `MAX_PATTERN_STEPS`. Without
# jsonschema-rs (in a browser) no pattern is checked.

MAX_PATTERN = 4_000  # characters of the longest pattern that is compiled
MAX_BYTES = 6_000_000  # bytes of memory for a compiled pattern; `^.{1,4096}$` takes 5 MB
MAX_CACHE = 1_000_000  # bytes of the engine's cache for a pattern

MAX_PATTERN_STEPS = 100_000  # backtracking steps that a pattern with lookaheads or back references may take in one text

MAX_CHARACTERS = 1_000_000  # characters of the longest text that is checked against a pattern

MAX_STEPPED_CHARACTERS = 10_000
"""As `MAX_CHARACTERS`, for a pattern with lookaheads or back references: each step may read the whole text."""

MAX_SECONDS = 0.25  # seconds of CPU time for one text. A pattern that takes longer is not tried again
MAX_GIVEN_UP = 10  # texts in which a pattern may exceed its steps. After more of them it is not tried again
MAX_COMPILED = 64  # compiled patterns in the cache


def matches(pattern: object, text: str) -> bool | None:
    """Return whether an ECMA 262 pattern matches somewhere in a text; None if it is not checked."""
    if not isinstance(pattern, str):
        return None
    fits = _compiled(pattern).matches(text)
    if fits is None and (patterns := _unchecked.get()) is not None:
        patterns[pattern] = None
    return fits


_unchecked: ContextVar[dict[str, None] | None] = ContextVar("mcp_magic_unchecked", default=None)


@contextmanager
def unchecked() -> Iterator[dict[str, None]]:
    """Collect, as keys of a dict, the patterns that are not checked while the context is open."""
    patterns: dict[str, None] = {}
    token = _unchecked.set(patterns)
    try:
        yield patterns
    finally:
        _unchecked.reset(token)


def is_checked(pattern: str) -> bool:
    """Return whether texts are checked against a pattern: it must be valid and small enough."""
    return _compiled(pattern).is_checked


class _Pattern:
    """A compiled pattern; without an engine it is not checked."""

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
        except ValueError:  # the engine takes no text with a lone surrogate
            return None
        finally:
            if time.thread_time() - began > MAX_SECONDS:
                self.engine = None

    def _refusal(self, text: str) -> bool | None:
        """Return False if the text does not match, None if the engine gave up."""
        if self.longest == MAX_CHARACTERS:
            return False  # the linear engine never gives up
        gave_up = any(error.message.startswith("Error executing regex") for error in self.engine.iter_errors(text))
        self.given_up += gave_up
        if self.given_up > MAX_GIVEN_UP:
            self.engine = None
        return None if gave_up else False


@lru_cache(MAX_COMPILED)
def _compiled(pattern: str) -> _Pattern:
    try:
        engine: Any = importlib.import_module("jsonschema_rs")
    except ImportError:
        return _Pattern(None, 0)
    bounds = {"size_limit": MAX_BYTES, "dfa_size_limit": MAX_CACHE}
    linear = engine.RegexOptions(**bounds), MAX_CHARACTERS
    stepped = engine.FancyRegexOptions(**bounds, backtrack_limit=MAX_PATTERN_STEPS), MAX_STEPPED_CHARACTERS
    for options, longest in (linear, stepped) if len(pattern) <= MAX_PATTERN else ():
        try:
            return _Pattern(engine.Draft202012Validator({"pattern": pattern}, pattern_options=options), longest)
        except ValueError:  # this engine cannot compile the pattern
            continue
    return _Pattern(None, 0)


# Budget of a schema. A few lines of references can describe a tree without end, or one that doubles at each level, so
# the fields of a schema (for forms, examples, signatures, documentation, stubs, completion, models) and the steps of a
# validation are limited. Past the limit a field takes any value, is counted as "N more", or is not checked here; the
# server decides.

MAX_NODES = 5_000
"""Fields made from one schema. Real tools have one or two hundred; OpenAI accepts at most this many properties."""

MAX_STEPS = 50_000  # references and `allOf` parts that are followed to make those fields

MAX_DEPTH = 64
"""Levels of a schema that are read. JSON over the wire has at most 200, and each level of properties takes two."""


class Budget:
    """What remains of a schema's limits; `made` counts all fields, also those that the limits do not concern."""

    __slots__ = ("made", "nodes", "steps")

    def __init__(self, nodes: int = MAX_NODES, steps: int = MAX_STEPS) -> None:
        self.nodes = nodes
        self.steps = steps
        self.made = 0

    @property
    def is_spent(self) -> bool:
        """Whether it is used up, so that further fields are not listed or take any value."""
        return min(self.nodes, self.steps) <= 0

    @property
    def is_fresh(self) -> bool:
        """Whether less than a tenth of a full budget is used."""
        return self.made < MAX_NODES // 10 and self.steps > MAX_STEPS * 9 // 10

    def take(self, count: int = 1) -> int:
        """Return how many of the wanted nodes may be made, and subtract them."""
        granted = min(count, self.nodes)
        self.nodes -= granted
        return granted


def measure(value: Any) -> tuple[int, int]:
    """Return how many values a value contains, itself included, and on how many levels."""
    count, levels, level = 0, 0, [value]
    while level:
        count += len(level)
        levels += 1
        objects = [inner for node in level if isinstance(node, dict) for inner in node.values()]
        level = [inner for node in level if isinstance(node, list) for inner in node] + objects
    return count, levels
