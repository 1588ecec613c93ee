"""Draws a forecast without a plotting library: bars from low to high, a grid, and digits of 3 x 5 dots."""

import math
from itertools import product

from media import Colour, png
from weather_data import Day, Sky

BACKGROUND: Colour = (255, 255, 255)
GRID: Colour = (222, 222, 222)
INK: Colour = (90, 90, 90)

COLOURS: dict[Sky, Colour] = {
    "sunny": (240, 180, 40),
    "cloudy": (150, 150, 165),
    "rain": (70, 130, 200),
    "snow": (150, 205, 235),
    "storm": (120, 70, 160),
}

# Five rows of three dots, the left one worth 4.
FONT = dict(
    zip(
        "0123456789-",
        ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717", "00700"),
        strict=True,
    )
)

LEFT, RIGHT, TOP, BOTTOM = 34, 8, 8, 22
"""Pixels around the plot; the labels are in them."""

DOT = 2
"""Pixels along the side of a dot of the font."""


class _Canvas:
    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [[BACKGROUND] * width for _ in range(height)]

    def box(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        for row, column in product(range(max(0, y), y + height), range(max(0, x), x + width)):
            if row < self.height and column < self.width:
                self._rows[row][column] = colour

    def text(self, x: int, y: int, text: str) -> None:
        for position, digit in enumerate(text):
            for row, column in product(range(5), range(3)):
                if int(FONT[digit][row]) & (4 >> column):
                    self.box(x + DOT * (4 * position + column), y + DOT * row, DOT, DOT, INK)

    def png(self) -> bytes:
        return png(self.width, self.height, lambda x, y: self._rows[y][x])


def plot(days: list[Day], width: int = 480, height: int = 240) -> bytes:
    """Return a PNG: a bar a day from the lowest to the highest temperature, its colour the sky's.

    The numbers are degrees on the left and days of the month below.
    """
    canvas = _Canvas(width, height)
    step = 5 if max(day.high for day in days) - min(day.low for day in days) < 40 else 10
    bottom = step * math.floor(min(day.low for day in days) / step)
    top = step * math.ceil(max(day.high for day in days) / step)
    inner = height - TOP - BOTTOM

    def row(degrees: float) -> int:
        return TOP + round((top - degrees) / (top - bottom) * inner)

    for degrees in range(bottom, top + 1, step):
        canvas.box(LEFT, row(degrees), width - LEFT - RIGHT, 1, GRID)
        canvas.text(LEFT - 6 - 8 * len(str(degrees)), row(degrees) - 5, str(degrees))
    slot = (width - LEFT - RIGHT) / len(days)
    for position, day in enumerate(days):
        x = LEFT + round(slot * (position + 0.25))
        canvas.box(x, row(day.high), round(slot / 2), row(day.low) - row(day.high), COLOURS[day.sky])
        canvas.text(LEFT + round(slot * (position + 0.5)) - 4 * len(str(day.day.day)), height - 16, str(day.day.day))
    return canvas.png()
