"""A JPEG writer of eighty lines: baseline, one colour for each block of 8 x 8 pixels (ITU-T T.81).

A JPEG stores each block as an average and as the waves on top of it. Without the waves what is left is a
mosaic, and an encoder without a cosine transform: the average is all that has to be written.
"""

import struct

from media import Colour, Painter

BLOCK = 8
"""Pixels along the side of a JPEG block."""

DC_CATEGORIES = 9
"""The differences between averages of 8-bit blocks have at most 8 bits, so categories 0-8, each with a 4-bit code."""


class _Bits:
    """Collects bits into bytes, first bit highest."""

    def __init__(self) -> None:
        self._text: list[str] = []

    def add(self, value: int, length: int) -> None:
        if length:
            self._text.append(format(value, f"0{length}b"))

    def packed(self) -> bytes:
        text = "".join(self._text)
        text += "1" * (-len(text) % 8)
        data = int(text, 2).to_bytes(len(text) // 8, "big")
        return data.replace(b"\xff", b"\xff\x00")  # a bare FF would start a marker


def _segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def _ycbcr(colour: Colour) -> tuple[int, int, int]:
    """Turn RGB into brightness and two colour differences, shifted to be around 0 (JFIF 1.02)."""
    red, green, blue = colour
    bright = 0.299 * red + 0.587 * green + 0.114 * blue
    return round(bright - 128), round((blue - bright) * 0.564), round((red - bright) * 0.713)


def _add_average(bits: _Bits, difference: int) -> None:
    """Write how an average differs from the one before: its length in bits, then the bits (T.81, F.1.2.1)."""
    size = abs(difference).bit_length()
    bits.add(size, 4)
    bits.add(difference if difference >= 0 else difference + (1 << size) - 1, size)
    bits.add(0, 1)  # "end of block": no waves


def _header(width: int, height: int) -> bytes:
    # A quantiser of 8 makes the coefficient of a constant block (8 x its value) the value itself.
    quantiser = b"\x00" + bytes([8] * 64)
    components = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    averages = b"\x00" + bytes([0, 0, 0, DC_CATEGORIES] + [0] * 12) + bytes(range(DC_CATEGORIES))
    waves = b"\x10" + bytes([1] + [0] * 15) + b"\x00"
    return b"".join(
        (
            b"\xff\xd8",
            _segment(0xE0, b"JFIF\x00" + struct.pack(">BBBHHBB", 1, 2, 0, 1, 1, 0, 0)),
            _segment(0xDB, quantiser),
            _segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + components),
            _segment(0xC4, averages),
            _segment(0xC4, waves),
            _segment(0xDA, b"\x03" + bytes([1, 0, 2, 0, 3, 0]) + b"\x00\x3f\x00"),
        )
    )


def jpeg(columns: int, rows: int, colour: Painter) -> bytes:
    r"""Return a JPEG mosaic of `columns` x `rows` tiles; `colour` says the colour of each tile.

    >>> data = jpeg(2, 1, lambda x, y: (255, 0, 0))
    >>> data[:4], data[-2:]
    (b'\xff\xd8\xff\xe0', b'\xff\xd9')
    """
    bits = _Bits()
    before = (0, 0, 0)
    for y in range(rows):
        for x in range(columns):
            averages = _ycbcr(colour(x, y))
            for now, last in zip(averages, before, strict=True):
                _add_average(bits, now - last)
            before = averages
    return _header(columns * BLOCK, rows * BLOCK) + bits.packed() + b"\xff\xd9"
