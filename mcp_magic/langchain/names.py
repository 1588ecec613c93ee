"""The names of tools: `server:tool` for users, `server__tool` for the providers of models.

A provider's name depends on the two names alone. So it stays the same over kernel restarts and in any order of
connecting, and stored conversations stay readable. Where it has to be made with a digest, no plain name is equal to it,
so no server that comes later can take it over; of several tools with equal made names none has that name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

from mcp_magic.lint import MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable


DIGITS = 6  # hex digits that make cleaned names distinct

MORE_DIGITS = 4  # hex digits that are added where they do not

MAX_DIGITS = 40  # hex digits of a SHA-1

_JOINT = "__"
_VALID = re.compile(r"[a-zA-Z0-9_-]+")
_INVALID = re.compile(r"[^a-zA-Z0-9_-]")
_WITH_DIGEST = re.compile(rf".*_[0-9a-f]{{{DIGITS}}}([0-9a-f]{{{MORE_DIGITS}}})*")  # how a made name looks


def provider_name(server: str, tool: str, digits: int = DIGITS) -> str:
    """Return a tool's name for the model: `server__tool`, or cleaned and with `digits` of a SHA-1."""
    if _is_plain(server, tool):
        return f"{server}{_JOINT}{tool}"
    digest = hashlib.sha1(f"{server}:{tool}".encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[
        :digits
    ]
    cleaned = _INVALID.sub("_", f"{server}{_JOINT}{tool}")
    return f"{cleaned[: MAX_NAME - len(digest) - 1]}_{digest}"


def _is_plain(server: str, tool: str) -> bool:
    """Whether the joined name fits, its first `__` separates server and tool, and it does not look like a made one."""
    if not (_VALID.fullmatch(server) and _VALID.fullmatch(tool)):
        return False
    readable = _JOINT not in server and not server.endswith("_") and not _WITH_DIGEST.fullmatch(f"_{tool}")
    return readable and len(server) + len(_JOINT) + len(tool) <= MAX_NAME


class Names:
    """The names of some tools, in both directions."""

    def __init__(self, tools: Iterable[tuple[str, str]]) -> None:
        self._provider: dict[tuple[str, str], str] = {}
        pairs = set(tools)
        for digits in range(DIGITS, MAX_DIGITS + 1, MORE_DIGITS):
            names = {pair: provider_name(*pair, digits) for pair in pairs}
            holders = Counter(names.values())
            self._provider |= {pair: name for pair, name in names.items() if holders[name] == 1}
            pairs -= self._provider.keys()
        self._person = {name: pair for pair, name in self._provider.items()}

    def provider(self, server: str, tool: str) -> str:
        """Return a tool's name for the model."""
        return self._provider.get((server, tool)) or provider_name(server, tool)

    def pair(self, name: str) -> tuple[str, str] | None:
        """Return the server's and the tool's own name for a model's name, or None for an unknown one."""
        return self._person.get(name)

    def person(self, name: str) -> str:
        """Return `server:tool` for a model's name of a tool; other names come back as they are."""
        pair = self._person.get(name)
        server, joint, tool = name.partition(_JOINT)
        if pair is None and joint and _is_plain(server, tool):
            pair = (server, tool)
        return ":".join(pair) if pair else name
