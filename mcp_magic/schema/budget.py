"""How much is made of one server's schema.

A server writes its schemas, and a few lines of references describe a tree without end, or one that doubles at each
level. So all that is made from a schema counts against one budget: fields (forms, examples, signatures, documentation,
stubs, completion, what a model is told) and the steps of a validation. What is past it takes any value, is counted as
"N more", or is not checked; then the server has the last word.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CHECKS_PER_VALUE",
    "MAX_DEPTH",
    "MAX_NODES",
    "Budget",
    "StepsExceeded",
    "limited_steps",
    "measure",
    "spend_step",
]

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
