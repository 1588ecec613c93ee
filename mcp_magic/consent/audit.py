"""The audit: a record of every consent decision."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mcp_types import Tool

__all__ = ["Audit", "Record", "masked"]

MAX_RECORDS = 10_000
"""Records kept in memory; the file, if set, keeps all of them."""

MAX_TEXT = 2000
"""Characters kept of one text in the arguments: a record identifies the call, it does not copy it."""


@dataclass(frozen=True)
class Record:
    """One decision.

    Attributes:
        time: When, ISO 8601 in UTC.
        asker: Who requested the call: `"person"`, `"agent"`, `"server NAME"`, `"app NAME"`.
        server: The server's name.
        tool: The tool's name.
        arguments: The arguments of the call, secrets masked.
        decision: `"approve"`, `"edit"` or `"deny"`.
        by: Who decided: `"person"`, a rule, a policy, `"time-out"`.
        reason: Why the call was denied, or "".
        changed: The names of arguments that the user changed.
        seconds: How long the decision took.
        run: The id of the agent run, or None.
    """

    time: str
    asker: str
    server: str
    tool: str
    arguments: Mapping[str, Any]
    decision: str
    by: str
    reason: str
    changed: tuple[str, ...]
    seconds: float
    run: str | None = None


class Audit:
    """Keeps records, and appends them to a JSON Lines file if one is set.

    Attributes:
        records: The latest records, oldest first.
        file: The JSON Lines file, or None.
    """

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self.file: Path | None = None

    def add(self, record: Record) -> None:
        """Keep a record, and write it to the file before returning.

        Raises:
            ConfigError: The file cannot be written. The caller must not make the call then.
        """
        if self.file is not None:
            self._write(record, self.file)
        self.records.append(record)

    def _write(self, record: Record, path: Path) -> None:
        problem = ""
        try:
            line = json.dumps(asdict(record), ensure_ascii=False, default=str)
            with path.expanduser().open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line + "\n")
                file.flush()
        except OSError as error:
            problem = f"the audit file {str(path)!r} cannot be written: {error.strerror}; nothing was called"
        if problem:
            raise ConfigError(problem)


def now() -> str:
    """Return the current time as a record states it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def masked(arguments: Mapping[str, Any], definition: Tool | None = None) -> dict[str, Any]:
    """Return a copy of arguments for a record: secrets masked, by name and by the tool's schema.

    Long texts lose their middle.

    >>> masked({"user": "me", "login": {"password": "pw"}, "text": "x" * 3000})["login"]
    {'password': '***'}
    """
    from mcp_magic.display.arguments import hidden_arguments

    shown: dict[str, Any] = _cut(hidden_arguments(arguments, definition))
    return shown


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if isinstance(value, str) and len(value) > MAX_TEXT:
        half = MAX_TEXT // 2
        return f"{value[:half]} … {len(value) - 2 * half:,} characters left out … {value[-half:]}"
    return value
