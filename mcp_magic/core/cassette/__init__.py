"""A cassette while it is in: what is recorded, and what is replayed.

Requests and turns of models are written as they happen and masked before; `cassette_deck` says which one is in.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal, get_args

from mcp_magic.config.masking import named_secrets
from mcp_magic.core.cassette.file import CassetteFile
from mcp_magic.core.cassette.reading import Content, read
from mcp_magic.core.trace.mask import Masker
from mcp_magic.errors import CassetteError, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_magic.core.cassette.matching import Server
    from mcp_magic.core.cassette.reading import Examined

__all__ = ["MODES", "Cassette", "InProcess", "tenths"]

InProcess = Literal["live", "replay"]

MODES: dict[str, str] = {
    "once": "replays if the file is there, else records",
    "replay": "only replays: what is not in the file is an error",
    "record": "records everything anew",
    "auto": "replays what is in the file, and adds what is not",
}
"""What there is, with the names that pytest-recording has for it: once, none, all, new_episodes."""

LIKE_KEYS = 8
"""Characters from which on the value of a secret-looking environment variable is masked."""


class Cassette:
    """One cassette while it is in.

    Args:
        path: The file.
        mode: One of `MODES`.
        pauses: Whether it replays with the pauses that there were; else they are next to none.
        in_process: Whether servers in this kernel run when it replays (`"live"`: they are part of the notebook, and
            work on its variables), or are replayed like the others.
        here: The folder whose path is not written, so that it plays in another one too; by default the current one.

    Attributes:
        masker: Masks what is written, and what is looked for.
        makes, adds: What is typed to make it, and to add what is missing.
        asks: Whether somebody can be asked what servers ask for; else it is answered as recorded.
        book: The turns of models, read.
        recorded: Lines written.
        played: Requests and turns answered.
        ejected: Whether it is not in any more.

    Raises:
        CassetteError: It cannot be read.
    """

    def __init__(
        self,
        path: Path,
        mode: str = "once",
        *,
        pauses: bool = False,
        in_process: str = "live",
        here: Path | None = None,
        typed: tuple[str, str] = ("`%mcp record FILE`", "`%mcp record FILE --mode auto`"),
    ) -> None:
        self.makes, self.adds = typed
        self.path = path
        self.mode = _one_of("mode", mode, tuple(MODES))
        self.pauses = pauses
        self.in_process = _one_of("in-process", in_process, get_args(InProcess))
        self.masker = Masker({value for value in named_secrets(dict(os.environ)) if len(value) >= LIKE_KEYS})
        self.asks: Callable[[], bool] = lambda: False
        self.file = CassetteFile(path, here)
        self.recorded = self.played = 0
        self.ejected = False
        self.book: Any = None
        self._content = Content()
        self._written: dict[str, list[str]] = {"server": [], "model": []}
        there = path.exists()
        if mode == "replay" and not there:
            raise CassetteError(f"there is no cassette {path}; {self.makes} makes it.")
        if there and mode != "record":
            self._content = read(self.file.read())
        self.replays = mode in ("replay", "auto") or (mode == "once" and there)
        self.records = mode in ("record", "auto") or (mode == "once" and not there)

    def __repr__(self) -> str:
        return f"<Cassette {str(self.path)!r}: {self.doing}>"

    @property
    def doing(self) -> str:
        """What is done with it, in words."""
        if self.replays and self.records:
            return "replaying, and recording what is not in it"
        return "replaying" if self.replays else "recording"

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The lines of the recorded turns of models; `agent.cassette` reads them."""
        return self._content.turns

    @property
    def examined(self) -> list[Examined]:
        """What the doctor found; `core.doctor.recorded` reads it."""
        return self._content.examined

    @property
    def servers(self) -> list[str]:
        """The names of the servers that are in it."""
        return list(dict.fromkeys([*self._content.servers, *self._written["server"]]))

    @property
    def models(self) -> list[str]:
        """The names of the models that are in it."""
        return list(dict.fromkeys([*(e["model"] for e in self.turns if "model" in e), *self._written["model"]]))

    def has(self, name: str) -> bool:
        """Whether a server can be replayed."""
        return name in self._content.servers

    def session_of(self, name: str, *, in_process: bool) -> tuple[Server, int]:
        """Return what was recorded of a server, and which of its sessions the one is that is opened now."""
        server = self._content.servers[name]
        return server, server.begin(in_process=in_process)

    def next_session(self) -> int:
        """Return the number of a session that is recorded."""
        self._content.sessions += 1
        return self._content.sessions

    def next_examination(self) -> int:
        """Return the number of an examination that is recorded."""
        self._content.examinations += 1
        return self._content.examinations

    def write(self, entry: dict[str, Any]) -> None:
        """Write a line, at once.

        Raises:
            CassetteError: It cannot be written.
        """
        if not self.file.begun:
            from mcp_magic import __version__

            self.file.begin(f"mcp_magic {__version__}")
        self.recorded += 1
        for what, names in self._written.items():
            if what in entry:
                names.append(entry[what])
        self.file.append(entry)


def tenths(since: float) -> tuple[dict[str, float], float]:
    """Return the pause since a moment as a line has it, and the moment now."""
    now = time.monotonic()
    pause = round(now - since, 1) if since else 0.0
    return ({"pause": pause} if pause else {}), now


def _one_of(what: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise CassetteError(
            f"{given!r} is no {what} of a cassette.{did_you_mean(given, known)} There are {listed(known)}."
        )
    return given
