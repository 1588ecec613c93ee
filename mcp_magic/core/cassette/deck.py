"""The cassette that is in: what is recorded and replayed in this process.

One for all hosts, because it is about the process: the environment variables `MCP_MAGIC_CASSETTE` and
`MCP_MAGIC_CASSETTE_MODE` put one in where nobody can type, in notebooks that papermill, nbclient or nbval execute.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_magic.core.cassette import Cassette

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Deck", "deck", "examining"]

VARIABLE = "MCP_MAGIC_CASSETTE"
"""Names the file; with `_MODE`, `_IN_PROCESS` and `_PAUSES` behind it the options."""


examining: ContextVar[int | None] = ContextVar("mcp_magic_examining", default=None)
"""The number of the doctor's examination in this context: its sessions are recorded apart, and never replayed."""


class Deck:
    """Where a cassette is put in."""

    def __init__(self) -> None:
        self._cassette: Cassette | None = None
        self._looked = False
        self.asks: Callable[[], bool] = lambda: False

    @property
    def cassette(self) -> Cassette | None:
        """The cassette that is in, if there is one; at the first look that of the environment.

        Raises:
            CassetteError: The environment names one that cannot be used.
        """
        if not self._looked:
            self._cassette = self._from_environment(os.environ)
            self._looked = True
        return self._cassette

    def insert(self, path: Path | str, mode: str = "once", **options: Any) -> Cassette:
        """Put a cassette in, instead of the one that is in.

        Args:
            path: The file.
            mode: One of `MODES`.
            **options: `pauses`, `in_process`: see `Cassette`.

        Raises:
            CassetteError: It cannot be used; then the other one stays in.
        """
        made = Cassette(Path(path).expanduser(), mode, **options)
        made.asks = lambda: self.asks()
        self.eject()
        self._cassette = made
        return made

    @contextmanager
    def holding(self, path: Path | str, mode: str = "once", **options: Any) -> Iterator[Cassette]:
        """Have a cassette in for a while; see `insert`."""
        before, looked = self._cassette, self._looked
        self._cassette = None
        try:
            yield self.insert(path, mode, **options)
        finally:
            self.eject()
            self._cassette, self._looked = before, looked

    def eject(self) -> Cassette | None:
        """Take the cassette out and return it; from now on everything is real."""
        taken, self._cassette, self._looked = self._cassette, None, True
        if taken is not None:
            taken.ejected = True
            taken.file.close()
        return taken

    def _from_environment(self, environ: Mapping[str, str]) -> Cassette | None:
        path = environ.get(VARIABLE, "").strip()
        if not path:
            return None
        named = {
            name: environ[f"{VARIABLE}_{name.upper()}"]
            for name in ("mode", "in_process", "pauses")
            if environ.get(f"{VARIABLE}_{name.upper()}", "").strip()
        }
        options: dict[str, Any] = {name: value.strip().lower() for name, value in named.items()}
        if "pauses" in options:
            options["pauses"] = options["pauses"] not in ("0", "false", "no", "off")
        made = Cassette(Path(path).expanduser(), options.pop("mode", "once"), **options)
        made.asks = lambda: self.asks()
        return made


deck = Deck()
"""The one of this process."""
