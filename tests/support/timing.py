"""How fast something must be, on a machine that does other work as well."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["soon", "tried_again"]

TRIES = 3


class TooSlowError(AssertionError):
    """Something took longer than it may."""


def soon(seconds: float, limit: float) -> None:
    """Assert that something took less than `limit` seconds."""
    if seconds >= limit:
        raise TooSlowError(f"{seconds:.2f} s, not less than {limit:g} s")


def tried_again(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test again in which something was too slow, and in no other case: the load of a moment slows one of three.

    Each try has a `tmp_path` of its own.
    """

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        folder = fixtures.get("tmp_path")
        for number in range(TRIES):
            if folder is not None:
                fixtures["tmp_path"] = folder / str(number)
                fixtures["tmp_path"].mkdir()
            try:
                return test(**fixtures)
            except TooSlowError:
                if number == TRIES - 1:
                    raise
        raise AssertionError

    return run
