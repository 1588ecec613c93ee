"""Values as JSON, within limits."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from mcp_magic.config.masking import Concealed
from mcp_magic.errors import ArgumentsError
from mcp_magic.values.plain import Writer

Pair = namedtuple("Pair", ["left", "right"])


class Colour(enum.Enum):
    RED = "r"


class Word(str):
    """A text that fails when it is asked for itself."""

    def __str__(self):
        raise SystemExit

    __len__ = __getitem__ = encode = __eq__ = __str__  # type: ignore[assignment]
    __hash__ = str.__hash__


class Row(dict):
    def items(self):
        raise SystemExit

    __iter__ = __getitem__ = keys = items  # type: ignore[assignment]


@dataclass
class Node:
    name: str
    parts: list[Any] = field(default_factory=list)


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        raise SystemExit


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ([1, True, None, "a", 1.5], [1, True, None, "a", 1.5]),
        ([float("nan"), float("-inf")], [None, None]),
        (10**30, 10**30),
        (10**6000, "an integer of about 6,000 digits"),
        (decimal.Decimal("0.1"), 0.1),
        (decimal.Decimal(5), 5),
        (decimal.Decimal("1e400"), "1E+400"),
        (decimal.Decimal("NaN"), None),
        (MOMENT, "2026-01-02T03:04:05"),
        (MOMENT.replace(tzinfo=datetime.UTC), "2026-01-02T03:04:05+00:00"),
        (MOMENT.replace(tzinfo=Zone()), "2026-01-02T03:04:05"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(1, 2, tzinfo=Zone()), "01:02:00"),
        (datetime.timedelta(days=1, seconds=0.5), "PT86400.5S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (b"\x00\xff", "AP8="),
        (Colour.RED, "r"),
        (Pair(1, "b"), {"left": 1, "right": "b"}),
        (Node("a", [Node("b")]), {"name": "a", "parts": [{"name": "b", "parts": []}]}),
        (Word("abc"), "abc"),
        (Row(a=1), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        ({3, 1, 2}, [1, 2, 3]),
        ({("a", 1): 1, None: 2, 3: 4}, {"a_1": 1, "None": 2, "3": 4}),
        ({1: "a", "1": "b"}, {"1": "a", "1_2": "b"}),
        (range(3), [0, 1, 2]),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.array(["2026-01-02T00:00:00.000000001", "NaT"], "datetime64[ns]"), ["2026-01-02T00:00:00", None]),
        ("a\ud800", "a?"),
        (Concealed("sesame"), "***"),
        (lambda: 1, "<function>"),
        (1j, "1j"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_become_json(value, plain):
    assert Writer().plain(value) == plain


def test_a_generator_is_not_consumed():
    rows = (number for number in range(3))
    assert Writer().plain(rows) == "<generator>"
    assert list(rows) == [0, 1, 2]


def test_a_value_that_contains_itself_ends():
    loop: list[Any] = []
    loop.append(loop)
    writer = Writer()
    assert str(writer.plain(loop)).count("[") == 20
    assert not writer.is_whole
    with pytest.raises(ArgumentsError, match="nested too deeply; name fewer rows or columns"):
        Writer(strict=True).plain(loop)


def test_parts_that_are_shared_count_each_time():
    rows: list[Any] = ["x"] * 100
    for _ in range(10):
        rows = [rows] * 100
    writer = Writer(nodes=1000)
    assert str(writer.plain(rows)).count("x") <= 1000
    assert not writer.is_whole


@pytest.mark.parametrize("copies", [1, 2, 3, 9])
@pytest.mark.parametrize("length", [1_000, 3_300, 7_000])
def test_no_half_of_a_long_secret_is_left_by_a_cut(copies, length):
    secret = "".join(f"-{number}" for number in range(10_000, 12_000))[:length]
    writer = Writer(text=2_000, hide=lambda text: text.replace(secret, "***"))
    assert set(writer.plain(" ".join([secret] * copies)).partition("…")[0]) <= {"*", " "}


def test_long_texts_are_cut_and_masked_before_that():
    writer = Writer(text=10, hide=lambda text: text.replace("sesame", "***"))
    assert writer.plain("12345678sesame and more") == "12345678**… (23 characters)"
    assert writer.plain({"api_key": "x", "n": "sesame"}) == {"api_key": "***", "n": "***"}
    with pytest.raises(ArgumentsError, match="its texts are longer than can be read at once"):
        Writer(characters=10, strict=True).plain(["x" * 20])
