"""Reads SQLite files of unknown origin: values are bounded, and statements have a time limit.

SQLite is no part of Python in a browser: there this module cannot be imported.
"""

from __future__ import annotations

import re
import sqlite3
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST = 64_000_000  # bytes of the largest value to read from or write to a file

STATEMENT_SECONDS = 30.0  # seconds that a statement may take

_PAUSE = 1.0
_STEPS = 100_000
_STORED = re.compile(r"CREATE (TABLE|(UNIQUE )?INDEX)\b", re.IGNORECASE)


class BoundedConnection(sqlite3.Connection):
    """A connection to a file that may be hostile: its schema cannot call functions, and no statement runs forever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._since = self._last = 0.0
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
        self.set_progress_handler(self._takes_too_long, _STEPS)
        self.execute("PRAGMA trusted_schema = OFF")

    def _takes_too_long(self) -> bool:
        now = time.monotonic()
        if now - self._last > _PAUSE:  # another statement
            self._since = now
        self._last = now
        return now - self._since > STATEMENT_SECONDS


def only_stores(connection: sqlite3.Connection, tables: Iterable[str]) -> bool:
    """Whether a file has only tables and indexes: a view, a trigger or a computed column may never end.

    `tables` are those that are read; they may be missing.
    """
    statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 1000").fetchall()
    if not all(isinstance(sql, str) and _STORED.match(sql) for (sql,) in statements):
        return False
    if any(row[2] != "table" for row in connection.execute("PRAGMA main.table_list").fetchall()):
        return False
    for table in tables:
        if any(column[-1] for column in connection.execute(f"PRAGMA main.table_xinfo({table})")):  # hidden: computed
            return False
    return True


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether a file is undamaged: a query of a table whose pages are in a circle may never end. Reads it whole."""
    return bool(connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
