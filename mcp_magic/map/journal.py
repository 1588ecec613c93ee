"""The journal of a map: a SQLite file that gets each answer before its row counts as done.

Calls that must not run twice are recorded before they go out, so that after a crash their rows are marked as unknown.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp_magic._text import plural
from mcp_magic.errors import ConfigError
from mcp_magic.sqlite import LARGEST, STATEMENT_SECONDS, BoundedConnection, is_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_VERSION = 1
_APPLICATION = 0x6D63706D  # "mcpm"
_TABLES = {
    "tools": "tools (id INTEGER PRIMARY KEY, server TEXT, tool TEXT, definition TEXT)",
    "calls": "calls (tool INTEGER, key BLOB, number INTEGER, answer TEXT, "
    "PRIMARY KEY (tool, key, number)) WITHOUT ROWID",
}

Entry = str | None
"""The JSON of an answer; None for a call that began and may have run."""


def call_key(arguments: Mapping[str, Any]) -> bytes:
    """Return a digest of arguments; equal arguments have equal digests.

    >>> call_key({"a": 1, "b": 2}) == call_key({"b": 2, "a": 1})
    True
    """
    return hashlib.blake2b(json.dumps(arguments, sort_keys=True).encode(), digest_size=16).digest()


class Journal:
    """An open journal. A single map has it at a time.

    Opening reads the whole file, so do it on a thread. The file may come from somebody else.

    Args:
        path: The file; a missing file is created.

    Raises:
        ConfigError: The file is no journal, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        try:
            self._file = sqlite3.connect(
                self.path, isolation_level=None, timeout=0.5, check_same_thread=False, factory=BoundedConnection
            )
            try:
                self._prepare()
            except sqlite3.Error:
                self._file.close()
                raise
        except (sqlite3.Error, ValueError) as error:  # ValueError: a path with a NUL
            raise ConfigError(f"{self._problem(error)}; nothing was called") from None

    def _prepare(self) -> None:
        run = self._file.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        is_new = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not is_new and run("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise sqlite3.DatabaseError("it is a database of another program")
        if not is_new and run("PRAGMA user_version").fetchone()[0] != _VERSION:
            raise sqlite3.DatabaseError("another version of mcp_magic wrote it")
        if not is_new:
            self._check()
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=NORMAL")  # survives the end of the process; a power cut may cost the last answers
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA application_id={_APPLICATION}")
        run(f"PRAGMA user_version={_VERSION}")
        for table in _TABLES.values():
            run(f"CREATE TABLE IF NOT EXISTS {table}")
        run("COMMIT")

    def _check(self) -> None:
        """Refuse a file that is damaged, or has more than the tables of a journal: a view might run without end."""
        stored = self._file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 10").fetchall()
        if any(sql != f"CREATE TABLE {_TABLES.get(name)}" for name, sql in stored):
            raise sqlite3.DatabaseError("it has more or other things than the tables of a journal; choose another file")
        if not is_sound(self._file):
            raise sqlite3.DatabaseError("it is damaged; choose another file")

    def _problem(self, error: sqlite3.Error | ValueError) -> str:
        text = str(error)
        if "not a database" in text:
            return f"{self.path} is not a journal: choose another file"
        if "locked" in text:
            return f"the journal {self.path} is in use by another map or evaluation"
        if "unable to open" in text or "readonly" in text:
            return f"the journal {self.path} cannot be written"
        if "too big" in text:
            return f"the journal {self.path}: a value has more than {LARGEST:,} bytes"
        if text == "interrupted":
            text = f"it takes more than {STATEMENT_SECONDS:g} seconds to read; choose another file"
        return f"the journal {self.path}: {text}"

    def tool(self, server: str, tool: str, definition: str) -> tuple[int, str]:
        """Return the number of a tool in the journal, and a remark about answers of other versions and tools."""
        with self._guard():
            versions = self._file.execute(
                "SELECT id, definition, (SELECT count(*) FROM calls WHERE calls.tool = tools.id) FROM tools "
                "WHERE server = ? AND tool = ?",
                (server, tool),
            ).fetchall()
            others = sum(count for _, version, count in versions if version != definition)
            note = f"the journal has {plural(others, 'answers')} of another version of {tool}; they are not used"
            for number, version, _ in versions:
                if version == definition:
                    return number, note if others else ""
            strangers = self._file.execute("SELECT count(*) FROM calls").fetchone()[0] - others
            if not others and strangers:
                note = f"the journal has {plural(strangers, 'answers')} of other tools; they are not used"
            insertion = self._file.execute(
                "INSERT INTO tools (server, tool, definition) VALUES (?, ?, ?)", (server, tool, definition)
            )
            return insertion.lastrowid or 0, note if others or strangers else ""

    def find(self, tool: int, key: bytes, number: int) -> tuple[bool, Entry]:
        """Return whether the journal has a call, and its answer.

        Raises:
            ConfigError: The answer is too large, or no text.
        """
        with self._guard():
            record = self._file.execute(
                "SELECT answer FROM calls WHERE tool = ? AND key = ? AND number = ?", (tool, key, number)
            ).fetchone()
        if record is not None and not isinstance(record[0], str | None):
            raise ConfigError(f"the journal {self.path}: an answer is {type(record[0]).__name__}, not text")
        return (False, None) if record is None else (True, record[0])

    def write(self, tool: int, key: bytes, number: int, answer: Entry) -> None:
        """Keep an answer, or None for a call that is about to go out."""
        with self._guard():
            self._file.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?)", (tool, key, number, answer))

    def forget(self, tool: int, key: bytes, number: int) -> None:
        """Drop a call that has not run, or that failed."""
        with self._guard():
            self._file.execute("DELETE FROM calls WHERE tool = ? AND key = ? AND number = ?", (tool, key, number))

    def close(self) -> None:
        """Close the file. Idempotent."""
        with suppress(sqlite3.Error):
            self._file.close()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise ConfigError(self._problem(error)) from None
