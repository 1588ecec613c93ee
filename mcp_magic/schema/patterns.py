"""A server's regular expressions and schemas, used within a bound of steps, time and memory."""

from __future__ import annotations

import importlib
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CHECKS_PER_VALUE",
    "MAX_DEPTH",
    "MAX_NODES",
    "Budget",
    "StepsExceeded",
    "is_checked",
    "limited_steps",
    "matches",
    "measure",
    "spend_step",
    "unchecked",
]


# A server's regular expressions, tried within a bound of time and memory.
#
# Python's `re` has neither: a `pattern` of fifty characters can take for ever, or all memory, and no Interrupt ends
# it. The engine of jsonschema-rs compiles at most `MAX_BYTES` and is linear in the text. Lookaheads and back
# references it tries step by step, and gives up after `MAX_STEPS`. Where it is missing (in a browser), no pattern is
# checked.

MAX_PATTERN = 4_000
"""Characters of a pattern."""

MAX_BYTES = 6_000_000
"""Memory of a compiled pattern; `^.{1,4096}$` takes 5 MB."""

MAX_CACHE = 1_000_000
"""Memory that the engine may keep to be faster."""

MAX_PATTERN_STEPS = 100_000
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
    stepped = engine.FancyRegexOptions(**bounds, backtrack_limit=MAX_PATTERN_STEPS), MAX_STEPPED_TEXT
    for options, longest in (linear, stepped) if len(pattern) <= MAX_PATTERN else ():
        try:
            return _Pattern(engine.Draft202012Validator({"pattern": pattern}, pattern_options=options), longest)
        except ValueError:  # the other one, or none
            continue
    return _Pattern(None, 0)


# How much is made of one server's schema.
#
# A server writes its schemas, and a few lines of references describe a tree without end, or one that doubles at each
# level. So all that is made from a schema counts against one budget: fields (forms, examples, signatures,
# documentation, stubs, completion, what a model is told) and the steps of a validation. What is past it takes any
# value, is counted as "N more", or is not checked; then the server has the last word.

MAX_NODES = 5_000
"""Fields that are made of one schema. Real tools have a hundred or two; OpenAI takes no more properties than this."""

MAX_STEPS = 50_000
"""References and `allOf` parts that are followed for them."""

MAX_DEPTH = 64
"""Levels of a schema that are looked at. JSON over the wire has 200, of which a level of properties takes two."""

MAX_CHECKS = 20_000
"""Subschemas that one validation may try: half a second of work at most."""

CHECKS_PER_VALUE = 20
"""Subschemas that it may try besides for each value in what is validated."""


class Budget:
    """What may still be made of one schema.

    Attributes:
        nodes: Fields.
        steps: References and parts to follow.
    """

    __slots__ = ("nodes", "steps")

    def __init__(self, nodes: int = MAX_NODES, steps: int = MAX_STEPS) -> None:
        self.nodes = nodes
        self.steps = steps

    def take(self, wanted: int = 1) -> int:
        """Return how many of these nodes may be made, and count them.

        >>> budget = Budget(nodes=5)
        >>> budget.take(3), budget.take(3), budget.take(3)
        (3, 2, 0)
        """
        taken = min(wanted, self.nodes)
        self.nodes -= taken
        return taken


class StepsExceeded(Exception):
    """A validation has taken all its steps; whether the value fits is not known."""


_steps_left: ContextVar[list[int] | None] = ContextVar("steps_left", default=None)


@contextmanager
def limited_steps(value: Any) -> Iterator[None]:
    """Bound the steps of a validation of `value`; `spend_step` raises when they are used up."""
    token = _steps_left.set([MAX_CHECKS + CHECKS_PER_VALUE * measure(value)[0]])
    try:
        yield
    finally:
        _steps_left.reset(token)


def spend_step(steps: int = 1) -> None:
    """Count steps of the validation that runs.

    Raises:
        StepsExceeded: There are none left.
    """
    left = _steps_left.get()
    if left is not None:
        left[0] -= steps
        if left[0] < 0:
            raise StepsExceeded


def measure(value: Any) -> tuple[int, int]:
    """Return how many values there are in one, with itself, and on how many levels.

    >>> measure([1, {"a": 2}])
    (4, 3)
    """
    count, levels, level = 0, 0, [value]
    while level:
        count += len(level)
        levels += 1
        objects = [inner for node in level if isinstance(node, dict) for inner in node.values()]
        level = [inner for node in level if isinstance(node, list) for inner in node] + objects
    return count, levels
