"""Files of SQLite that are damaged on purpose."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 512
"""The size of a page in such a file: `PRAGMA page_size = 512`."""


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


def circle_pages(file: Path, table: str) -> None:
    """Let every page under the root of a table be the root itself."""
    with closing(sqlite3.connect(file)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table])
    data = bytearray(file.read_bytes())
    start = (root - 1) * PAGE
    assert data[start] == 5, "an inner page"
    for number in range(int.from_bytes(data[start + 3 : start + 5])):
        cell = start + int.from_bytes(data[start + 12 + 2 * number : start + 14 + 2 * number])
        data[cell : cell + 4] = root.to_bytes(4)
    data[start + 8 : start + 12] = root.to_bytes(4)
    file.write_bytes(data)
