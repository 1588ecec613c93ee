"""How much of a result may reach the page.

What is shown is saved in the notebook, sent to every browser that opens it and kept in its history, so
displays cut first and render afterwards. The values themselves are never cut.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Budget", "Display", "display", "size_text"]

_UTF8_OF_ESCAPED = 5
"""Most characters that one character of text becomes in HTML (`&` is `&amp;`)."""


@dataclass(slots=True)
class Display:
    """The limits of one display; the settings layer changes the module's `display`.

    Attributes:
        rows: Rows of a table in a result.
        columns: Columns of such a table.
        cell: Characters of one cell.
        characters: Characters of text.
        bytes: Bytes of HTML without media, and of `text/plain`, each: an output stays under 200 kB.
        json_nodes: Nodes of a JSON tree.
        media: Bytes of images, audio and documents together, before base64.
        parse: Characters of text that are read as JSON or a table only to show them (the worst JSON takes 0.1 s a MB).
        listing_rows: Rows of a listing.
        blocks: Content blocks of one result.
    """

    rows: int = 20
    columns: int = 20
    cell: int = 100
    characters: int = 10_000
    bytes: int = 95_000
    json_nodes: int = 400
    media: int = 2_000_000
    parse: int = 1_500_000
    listing_rows: int = 200
    blocks: int = 50


display = Display()
"""The current limits."""


@dataclass(slots=True)
class Budget:
    """What is left of the limits while one output is being made.

    Attributes:
        bytes: Bytes of HTML, and as many of text.
        media: Bytes of media.
        blocks: Content blocks.
        parse: Characters read as JSON or a table.
    """

    bytes: int
    media: int
    blocks: int
    parse: int

    @classmethod
    def full(cls) -> Budget:
        """Return the budget of a new output."""
        return cls(display.bytes, display.media, display.blocks, display.parse)

    @property
    def characters(self) -> int:
        """Characters of text that fit, however much escaping makes of them."""
        return min(display.characters, max(self.bytes // _UTF8_OF_ESCAPED, 0))

    @property
    def spent(self) -> bool:
        """Whether nothing more should be shown."""
        return self.blocks <= 0 or self.bytes < 500

    def take_parse(self, length: int) -> bool:
        """Return whether `length` characters may still be read to find out what they hold, and count them if so."""
        if length > self.parse:
            return False
        self.parse -= length
        return True

    def take_media(self, size: int) -> bool:
        """Return whether `size` bytes of media still fit, and count them if so."""
        if size > self.media:
            return False
        self.media -= size
        return True


def size_text(size: int) -> str:
    """Return a number of bytes as people write it, in decimal units.

    >>> size_text(512), size_text(1_234), size_text(52_428_800)
    ('512 bytes', '1.2 kB', '52.4 MB')
    """
    if size < 1000:
        return f"{size} bytes"
    number = float(size)
    unit = ""
    for unit in ("kB", "MB", "GB"):  # noqa: B007 - the last one stays
        number /= 1000
        if number < 999.95:
            break
    return f"{number:.1f} {unit}"
