"""What is told of a column in few words: how many values are missing, their range, the most frequent ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from mcp_magic.display.text import one_line
from mcp_magic.values.vectors import FAR_YEARS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_magic.values.vectors import Vector

FREQUENT = 3  # most texts that are named
TEXT = 40  # most characters of one of them


def statistics_text(vector: Vector, hide: Callable[[str], str]) -> str:
    """Return the statistics of a column, "" if there is nothing to tell."""
    values = vector.local.values[~vector.missing]
    parts = [f"{len(vector.values) - len(values):,} missing"] if len(values) < len(vector.values) else []
    if len(values) and vector.kind in _OF_KIND:
        parts += _OF_KIND[vector.kind](values, hide)
    return ", ".join(parts)


def _numbers(values: Any, hide: Callable[[str], str]) -> list[str]:
    with np.errstate(all="ignore"):
        lowest, highest, mean = values.min(), values.max(), values.mean(dtype="float64")
    return [f"{_number(lowest)} to {_number(highest)}, mean {_number(mean)}"]


def _number(value: Any) -> str:
    return str(int(value)) if abs(float(value)) < 1e15 and value == int(value) else f"{float(value):.6g}"


def _times(values: Any, hide: Callable[[str], str]) -> list[str]:
    return [f"{_time(values.min())} to {_time(values.max())}"]


def _time(value: Any) -> str:
    if value in FAR_YEARS:
        return f"the year {value.astype('datetime64[Y]')} or farther"
    return str(value).removesuffix(".000000").removesuffix("T00:00:00")


def _truths(values: Any, hide: Callable[[str], str]) -> list[str]:
    true = int(values.sum())
    return [f"{true:,} true, {len(values) - true:,} false"]


def _texts(values: Any, hide: Callable[[str], str]) -> list[str]:
    counts = Counter(values.tolist())
    names = [(one_line(hide(text[:2_000]), TEXT), count) for text, count in counts.most_common(FREQUENT) if count > 1]
    frequent = ", ".join(f"{name!r} {count:,} times" for name, count in names)
    return [f"{len(counts):,} different" + (f": {frequent}" if frequent else "")]


_OF_KIND = {"number": _numbers, "time": _times, "truth": _truths, "text": _texts}
