"""Pictures, sound and a document made from numbers, so that no server here needs a file or a network.

Each function returns the bytes of a whole, valid file. Only the standard library is used; a server of
your own would rather use Pillow or matplotlib.
"""

import io
import math
import struct
import wave
import zlib
from collections.abc import Callable

Colour = tuple[int, int, int]
"""Red, green and blue, each 0-255."""

Painter = Callable[[int, int], Colour]
"""Says which colour the pixel in column x, row y has; row 0 is the top."""


def sunset(width: int, height: int) -> Painter:
    """Return a painter of a sky that goes from blue to orange, with a sun in it.

    >>> sunset(10, 10)(0, 0)
    (60, 90, 200)
    """
    radius = max(1, min(width, height) // 5)

    def colour(x: int, y: int) -> Colour:
        if (x - width // 2) ** 2 + (y - height * 2 // 3) ** 2 <= radius**2:
            return (255, 240, 150)
        share = y / height
        return (int(60 + 190 * share), int(90 + 50 * share), int(200 - 150 * share))

    return colour


def png(width: int, height: int, colour: Painter) -> bytes:
    r"""Return a PNG image: RGB, 8 bits a channel (PNG specification, third edition).

    >>> png(1, 1, lambda x, y: (255, 0, 0))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    rows = bytearray()
    for y in range(height):
        rows.append(0)  # each row starts with its filter type: none
        for x in range(width):
            rows += bytes(colour(x, y))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def svg(width: int, height: int, label: str = "SVG") -> str:
    """Return an SVG image: a disc with a label, which must hold no markup."""
    x, y = width // 2, height // 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="{width}" height="{height}" fill="#fdf6e3"/>'
        f'<circle cx="{x}" cy="{y}" r="{min(x, y) * 4 // 5}" fill="#268bd2"/>'
        f'<text x="{x}" y="{y}" fill="#ffffff" text-anchor="middle" dominant-baseline="middle">{label}</text>'
        "</svg>"
    )


def wav(frequency: float = 440.0, seconds: float = 0.5, rate: int = 8000) -> bytes:
    """Return a WAV file: a sine tone, 16 bit mono.

    >>> wav()[:4], wav()[8:12]
    (b'RIFF', b'WAVE')
    """
    step = 2 * math.pi * frequency / rate
    samples = (int(12_000 * math.sin(step * i)) for i in range(int(seconds * rate)))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


def pdf(text: str = "A page made from nothing") -> bytes:
    r"""Return a PDF document of one page with one line of ASCII text (ISO 32000-1, 7.5).

    >>> pdf()[:8], pdf()[-6:]
    (b'%PDF-1.4', b'%%EOF\n')
    """
    # Brackets and the backslash have a meaning inside a PDF string.
    escaped = text.translate({ord(mark): f"\\{mark}" for mark in "\\()"})
    drawing = f"BT /F1 24 Tf 40 100 Td ({escaped}) Tj ET".encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 420 200] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    file = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(file)
